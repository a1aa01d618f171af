"""The site of docs/: built strictly, readable without a browser, and accessible in a real one."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import os
import queue
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from tests.checkout import copy_files
from tests.small import listening

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.pages
ROOT = Path(__file__).parents[1]
WIDTHS = (390, 1280)  # a phone, a desk
# The schemes of the site, each with what makes Chromium prefer it.
SCHEMES = {
    "default": "--blink-settings=preferredColorScheme=1",
    "slate": "--blink-settings=preferredColorScheme=0",
}
# Loads each page in a frame of a width, asks axe there, and sends what it says.
HARNESS = """<!doctype html><title>axe</title><iframe id=frame height=900></iframe><script>
const frame = document.getElementById("frame")
const load = url => new Promise(done => { frame.onload = done; frame.src = url })
const send = data => fetch("/result", {method: "POST", body: JSON.stringify(data)})
;(async () => {
  const width = frame.width = %d
  for (const page of %s) {
    await load(page)
    const there = frame.contentWindow, text = frame.contentDocument
    await new Promise(done => {
      const script = text.createElement("script")
      script.src = "/axe.min.js"; script.onload = done; text.head.append(script)
    })
    const found = await there.axe.run(text, {resultTypes: ["violations"]})
    const faults = found.violations.map(fault => `${fault.id}: ${fault.nodes.length} times, `
      + fault.nodes[0].html.slice(0, 200) + " " + fault.nodes[0].failureSummary)
    if (text.documentElement.scrollWidth > width) faults.push("wider than the screen")
    await send({page, faults, passed: found.passes.length, scheme: text.body.dataset.mdColorScheme})
  }
  await send(null)
})().catch(error => send({error: String(error)}))
</script>"""

# Asks the search of the site, in its own worker, for each of a list of texts: the first page of each.
SEARCH = """
const fs = require("fs"), [site] = process.argv.slice(1)
const read = name => fs.readFileSync(`${site}/${name}`, "utf8"), run = eval
const workers = "assets/javascripts/workers/"
const worker = fs.readdirSync(site + "/" + workers).find(name => name.endsWith(".js"))
const answers = []
let ask
globalThis.self = globalThis
globalThis.addEventListener = (_, listener) => { ask = listener }
globalThis.postMessage = answer => answers.push(answer)
globalThis.Worker = class { postMessage(data) { return ask({data}) } }
run(read(workers + worker))
run(read("assets/search.js"))
;(async () => {
  const index = JSON.parse(read("search/search_index.json"))
  await new Worker().postMessage({type: 0, data: {...index, options: {}}})
  for (const text of JSON.parse(fs.readFileSync(0, "utf8")))
    await new Worker().postMessage({type: 2, data: text})
  const first = answers.slice(1).map(answer => answer.data.items[0]?.[0].location.split("#")[0])
  process.stdout.write(JSON.stringify(first))
})()
"""
# What people paste or type, and the page that has to be the first result.
FIRST = {
    "install": "getting-started",
    "pip install": "getting-started",
    "UR_RESULT_ERROR_DEVICE_LOST": "errors/pasted",
    "UR_RESULT_ERROR": "errors/pasted",
    "RuntimeError: Native API failed. Native API returns: -997": "errors/pasted",
    "libze_loader": "errors/pasted",
    "CUDA error: no kernel image": "errors/pasted",
    "Torch not compiled with CUDA enabled": "errors/pasted",
    "[WinError 126] The specified module could not be found": "errors/pasted",
    "GLIBCXX_3.4.30 not found": "errors/pasted",
    "mul_add": "errors/mul-add",
    "Could not run 'torch_ipex::mul_add' with arguments": "errors/mul-add",
    "KeyError: 'xpu:0'": "errors/key-error-xpu",
    "found at least two devices, xpu:0 and cpu!": "errors/resume-on-xpu",
    "No module named 'intel_extension_for_pytorch'": "errors/ipex-on-nvidia",
    "slow": "errors/arc-slow-as-cpu",
    "topk": "errors/wrong-topk-4096",
    "rollback": "reference/verbs",
    "exit code 6": "reference/exit-codes",
    "offline": "how-to/air-gap",
    "glossary": "reference/glossary",
    "驱动": "how-to/arc-windows.zh",
}


def mkdocs(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", site],
        cwd=root,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        text=True,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    done = mkdocs(ROOT, folder)
    assert done.returncode == 0, done.stdout
    return folder


def pages(site: Path) -> list[str]:
    return sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))


@pytest.mark.machine
def test_each_page_has_its_markdown_and_a_line_of_llms_txt(site: Path) -> None:
    listed = re.findall(
        r"^- \[.+\]\((.+?)\): .+",
        (site / "llms.txt").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    written = {path.relative_to(site).as_posix() for path in site.rglob("*.md")}
    assert set(listed) == written
    assert len(written) == len(pages(site)) - 1  # without 404.html
    for name in listed:
        text = (site / name).read_text(encoding="utf-8")
        local = re.findall(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", text)
        for x in local:
            assert (site / name).parent.joinpath(x).exists(), name
        html = (
            (site / name.replace("README.md", "index.md"))
            .with_suffix(".html")
            .read_text("utf-8")
        )
        assert f'type="text/markdown" href="{Path(name).name}"' in html
        assert f'<html lang="{"zh" if "zh" in name else "en"}"' in html


@pytest.mark.machine
def test_the_matrix_has_each_signed_report(site: Path) -> None:
    """Which the committed page has not: it would be stale with each that is merged."""
    name = "reference/known-wrong.md"
    shown = (site / name).read_text(encoding="utf-8")
    committed = (ROOT / "docs" / name).read_text(encoding="utf-8")
    files = [path.name for path in (ROOT / "docs/evidence").rglob("*.json")]
    assert files
    for file in files:
        assert f"{file})" in shown
        assert file not in committed


@pytest.mark.machine
def test_nothing_is_loaded_from_elsewhere_and_the_search_needs_no_server(
    site: Path,
) -> None:
    for name in pages(site):
        html = (site / name).read_text(encoding="utf-8")
        loaded = re.findall(
            r'<(?:script|img|link rel="(?:stylesheet|icon|preload)")[^>]*?(?:src|href)="([^"]+)',
            html,
        )
        for address in loaded:
            assert "//" not in address, name
    assert "rollback" in (site / "search" / "search_index.js").read_text(
        encoding="utf-8"
    )


@pytest.mark.machine
def test_the_search_finds_what_people_paste(site: Path) -> None:
    node = shutil.which("node") or missing("there is no node on this machine")
    done = subprocess.run(
        [node, "-e", SEARCH, site],
        input=json.dumps(list(FIRST)),
        check=True,
        capture_output=True,
        text=True,
    )
    first = dict(zip(FIRST, json.loads(done.stdout), strict=True))
    assert first == {text: f"{page}.html" for text, page in FIRST.items()}


@pytest.mark.machine
def test_a_table_shows_no_backslash_before_a_bar(site: Path) -> None:
    shown = [name for name in pages(site) if "\\|" in (site / name).read_text("utf-8")]
    assert shown == []


@pytest.mark.machine
@pytest.mark.slow
def test_a_dead_link_fails_the_build(tmp_path: Path) -> None:
    copy_files(tmp_path, without=("tests/", "smoke/", "lockfiles/"))
    dead = "[gone](docs/gone.md) [gone](docs/getting-started.md#nowhere) [gone](provision/gone.py)"
    with (tmp_path / "README.md").open("a", encoding="utf-8") as page:
        page.write(f"\n{dead}\n")
    done = mkdocs(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert "Aborted with 3 warnings" in done.stdout, done.stdout


def missing(what: str) -> NoReturn:
    pytest.fail(what) if os.environ.get("CI") else pytest.skip(what)


@contextlib.contextmanager
def serving(
    site: Path, axe: Path, width: int, names: Sequence[str]
) -> Iterator[tuple[str, queue.Queue[Any]]]:
    """Serve a site with axe and the harness; yield the address and what it sends of some pages."""
    results: queue.Queue[Any] = queue.Queue()
    text = HARNESS % (width, json.dumps([f"/{page}" for page in names]))

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Stay silent."""

        def do_GET(self) -> None:
            files = {"/harness.html": text.encode(), "/axe.min.js": axe.read_bytes()}
            if self.path not in files:
                super().do_GET()
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(files[self.path])))
            self.end_headers()
            self.wfile.write(files[self.path])

        def do_POST(self) -> None:
            results.put(
                json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            )
            self.send_response(204)
            self.end_headers()

    handler = functools.partial(Handler, directory=str(site))
    with listening(handler) as address:
        yield f"{address}/harness.html", results


@pytest.fixture
def chromium(tmp_path: Path) -> list[str | Path]:
    program = shutil.which("chromium") or missing(
        "there is no chromium on this machine"
    )
    return [
        program,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-dev-shm-usage",
        f"--user-data-dir={tmp_path}",
    ]


@pytest.mark.browser
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_page_is_accessible(
    site: Path, chromium: list[str | Path], scheme: str, width: int
) -> None:
    require_accessible(site, chromium, scheme, width, pages(site))


@pytest.mark.browser
@pytest.mark.case
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_some_pages_are_accessible(
    site: Path, chromium: list[str | Path], scheme: str, width: int
) -> None:
    """For each change: every twelfth page, others in each scheme and width."""
    first = 3 * list(SCHEMES).index(scheme) + WIDTHS.index(width)
    require_accessible(site, chromium, scheme, width, pages(site)[first::12])


def require_accessible(
    site: Path,
    chromium: list[str | Path],
    scheme: str,
    width: int,
    names: Sequence[str],
) -> None:
    """Fail where axe finds anything in some pages, or one is wider than the screen."""
    axe = Path(os.environ.get("PROVISION_AXE", "absent"))
    if not axe.is_file():
        missing("`nox -s browser` brings axe-core")
    with (
        serving(site, axe, width, names) as (address, results),
        subprocess.Popen(
            [*chromium, SCHEMES[scheme], address], stderr=subprocess.DEVNULL
        ) as browser,
    ):
        try:
            found = list(iter(functools.partial(results.get, timeout=120), None))
        finally:
            browser.terminate()
    for result in found:
        assert "error" not in result, result
        assert not result.get("faults"), result
        assert result["passed"] > 10
        assert result["scheme"] == scheme
    assert sorted(result["page"] for result in found) == [f"/{page}" for page in names]


@pytest.mark.browser
@pytest.mark.parametrize(
    "word", [pytest.param("rollback", marks=pytest.mark.case), "驱动"]
)
def test_the_search_finds_a_word_where_pages_are_opened_as_files(
    site: Path, chromium: list[str | Path], word: str
) -> None:
    address = f"{(site / 'index.html').as_uri()}?q={word}"
    done = subprocess.run(
        [*chromium, "--virtual-time-budget=20000", "--dump-dom", address],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert re.search(r"\d+ matching document", done.stdout)
    assert "md-search-result__link" in done.stdout
