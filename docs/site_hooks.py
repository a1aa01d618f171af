"""What mkdocs does not do for the site by itself; ``mkdocs.yml`` names this file as a hook.

The README is the first page. Links that leave ``docs/`` lead to copies of the files, below
``repository/``. Each page has its Markdown beside it, and ``llms.txt`` lists all of them. The matrix
has the signed reports of ``docs/evidence``.
"""
# ruff: noqa: INP001 - a program, not a module of a package

from __future__ import annotations

import posixpath
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import draw_known_wrong  # mkdocs lets a hook import what is beside it
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.nav import Navigation
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
COPIES = "repository/"
FRONT = ("README.md", "index.md")
# Which pages the search prefers where several have a word: what to do, before how it came about.
WEIGHTS = {
    "getting-started.md": 4,
    "errors/": 2,
    "how-to/": 1.5,
    "decisions/": 0.5,
    COPIES: 0.25,
}
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)#\s:]+)(#[^)]*)?\)")
# The code in a row of a table. GitHub needs a backslash before its bars, Python-Markdown shows it.
ROW = re.compile(r"(?<=[| ])`[^`\n]*\\\|[^`\n]*`")
_TEXTS: dict[str, str] = {}
_INDEX: list[str] = []


def _place(uri: str) -> str:
    """Return where in the repository a file of the site is."""
    if uri == FRONT[1]:
        return FRONT[0]
    return uri.removeprefix(COPIES) if uri.startswith(COPIES) else f"docs/{uri}"


def _uri(place: str) -> str:
    """Return where in the site a file of the repository is."""
    if place == FRONT[0]:
        return FRONT[1]
    return place.removeprefix("docs/") if place.startswith("docs/") else COPIES + place


def _target(uri: str, link: str) -> str:
    """Return the file of the site that a link of a page means."""
    place = posixpath.normpath(posixpath.join(posixpath.dirname(_place(uri)), link))
    return _uri(
        f"{place}/README.md" if (ROOT / place / "README.md").is_file() else place
    )


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the README, and the files outside of ``docs/`` that the navigation or a page leads to."""
    _TEXTS.clear()
    files.append(File.generated(config, FRONT[1], abs_src_path=str(ROOT / FRONT[0])))
    wanted = re.findall(rf"{COPIES}[\w.]+", str(config.nav))
    for page in files.documentation_pages():
        wanted += _outside(page.src_uri, page.content_string)
    for uri in wanted:  # which grows by what the copies lead to
        path = ROOT / _place(uri)
        if path.is_file() and not files.get_file_from_path(uri):
            files.append(File.generated(config, uri, abs_src_path=str(path)))
            wanted += (
                _outside(uri, path.read_text("utf-8")) if uri.endswith(".md") else []
            )
    return files


def _outside(uri: str, text: str) -> list[str]:
    """Return the files outside of ``docs/`` that a page leads to, by their places in the site."""
    found = (_target(uri, link) for _, link, _ in LINK.findall(text))
    return [name for name in found if name.startswith(COPIES)]


def on_page_markdown(
    markdown: str, page: Page, config: MkDocsConfig, files: Files
) -> str:
    """Lead the links of a page, which are those of the repository, through the site."""
    del config, files
    uri = page.file.src_uri
    if uri == draw_known_wrong.INDEX:
        markdown = draw_known_wrong.index(with_reports=True)
    weight = next((w for start, w in WEIGHTS.items() if uri.startswith(start)), 1)
    page.meta["search"] = {"boost": weight}
    here = PurePosixPath(uri).parent

    def moved(link: re.Match[str]) -> str:
        target = _target(uri, link[2])
        if target.startswith(COPIES) and (ROOT / _place(target)).is_dir():
            return link[1][1:-1]  # a folder has no page
        return f"{link[1]}({posixpath.relpath(target, here)}{link[3] or ''})"

    _TEXTS[uri] = LINK.sub(moved, markdown)
    return ROW.sub(lambda row: row[0].replace(r"\|", "|"), _TEXTS[uri])


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    """Remember the order of the pages: that of the navigation, then those that it leaves out."""
    del config
    every = [page.file.src_uri for page in nav.pages]
    _INDEX[:] = dict.fromkeys(
        every + sorted(page.src_uri for page in files.documentation_pages())
    )


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Name the language of a page, its Markdown, and the search for those who hear it."""
    del config
    uri = page.file.src_uri
    twin = (
        f'<link rel="alternate" type="text/markdown" href="{posixpath.basename(uri)}">'
    )
    if uri.endswith(".zh.md") or uri.startswith("zh/"):
        output = output.replace('<html lang="en"', '<html lang="zh"', 1)
    return _named(output).replace("</head>", f"{twin}</head>", 1)


def on_post_template(output: str, template_name: str, config: MkDocsConfig) -> str:
    """Do for the page of a wrong address what the others get."""
    del config
    return _named(output) if template_name.endswith(".html") else output


def _named(page: str) -> str:
    return page.replace('role="dialog"', 'role="dialog" aria-label="Search"', 1)


def on_post_build(config: MkDocsConfig) -> None:
    """Write the Markdown of each page beside it, and ``llms.txt``."""
    site = Path(config.site_dir)
    lines = [
        f"# {config.site_name}",
        "",
        f"> {config.site_description}",
        "",
        "## Pages",
        "",
    ]
    for uri in _INDEX:
        text = _TEXTS[uri]
        file = site / uri
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        plain = re.sub(
            r"<!--.*?-->|^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE
        )
        title = re.search(r"^# (.+)$", plain, re.MULTILINE)
        first = re.search(r"^(?![#|<!\[\s-])(?:.+\n?)+", plain, re.MULTILINE)
        words = re.sub(
            r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join((first or [""])[0].split())
        )
        name = title[1] if title else uri
        lines.append(f"- [{name}]({uri}): {re.split(r'(?<=[.。]) ', words)[0] or name}")
    (site / "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
