"""The style sheet of the HTML page: light, dark, a phone's width, and paper; and its escapes."""

import html

from provision.core.text import harmless

# On paper every folded part is shown: `details::details-content`, where the browser knows it.
STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #566170; --line: #d9dee5;
  --good: #137a3f; --bad: #b3261e; --warn: #8a5a00; --paper: #fff; --tint: #f5f7f9;
  --mark: #2357c5; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #a3adba; --line: #39424e;
  --good: #5ad08a; --bad: #ff8a80; --warn: #f0b95a; --paper: #14181d; --tint: #1d232a;
  --mark: #8ab4ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 1rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: .5rem 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p { margin: .4rem 0; }
code { font: 600 .95em ui-monospace, monospace; }
.good { color: var(--good); } .bad { color: var(--bad); } .warn { color: var(--warn); }
.soft { color: var(--soft); }
.facts { display: grid; grid-template-columns: minmax(7rem, max-content) minmax(0, 1fr);
  gap: .1rem 1rem; margin: .5rem 0; }
.facts dt { color: var(--soft); } .facts dd { margin: 0; }
details { border-top: 1px solid var(--line); padding: .5rem 0; }
summary { cursor: pointer; padding: .2rem 0; } summary::marker { color: var(--mark); }
summary:focus-visible { outline: 2px solid var(--mark); }
details[open] > summary { margin-bottom: .4rem; }
table { border-collapse: collapse; width: 100%; font-size: .9em; }
th, td { text-align: left; padding: .15rem .6rem .15rem 0; vertical-align: middle; }
th { color: var(--soft); font-weight: 400; } td.n { white-space: nowrap; }
.share { width: 22%; } .share svg { height: .7rem; }
.finding { border-left: 4px solid var(--bad); background: var(--tint); padding: .5rem .8rem;
  margin: .5rem 0; }
.finding.warning { border-color: var(--warn); } .finding.note { border-color: var(--good); }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(19rem, 100%), 1fr));
  gap: 1rem; }
.plots.rates { grid-template-columns: repeat(auto-fit, minmax(min(19rem, 100%), 32rem)); }
figure { margin: 0; background: var(--tint); padding: .6rem; break-inside: avoid; }
figcaption { font-size: .85em; } figcaption b { font-size: 1.35em; }
svg { width: 100%; display: block; } figure svg { height: auto; }
svg text { fill: var(--soft); font: 11px system-ui, sans-serif; }
svg .course { fill: none; stroke: var(--mark); stroke-width: 2; }
svg .axis { stroke: var(--line); } svg .moved { stroke: var(--soft); stroke-dasharray: 3 3; }
svg .limit { stroke: var(--bad); stroke-dasharray: 6 3; } svg .at { fill: var(--mark); }
svg .failed { fill: var(--bad); } svg .bar { fill: var(--mark); } svg .rest { fill: var(--line); }
@media print { :root { color-scheme: light; --ink: #000; --soft: #444; --line: #bbb;
  --good: #0b5a2c; --bad: #a01b14; --warn: #6e4800; --paper: #fff; --tint: #fff;
  --mark: #123f99; }
  body { max-width: none; padding: 2px; font-size: 11px; }
  h2, summary { break-after: avoid; }
  details::details-content { content-visibility: visible; display: block; height: auto; }
  details { break-inside: avoid; } details.group { break-inside: auto; }
  .plots { grid-template-columns: 1fr 1fr 1fr; } .plots.rates { grid-template-columns: 1fr 1fr; }
  .finding, figure { border: 1px solid var(--line); } }
"""


def escape(text: str) -> str:
    """Return a text of a report as text of the page, or as the value of an attribute."""
    return html.escape(harmless(text))
