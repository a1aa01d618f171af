"""Make ``docs/pictures``: real verbs in a terminal, and the page of a real report in Chromium.

``nox -s pictures`` runs it, with the Python of an environment that has termtosvg. Nothing of the
pictures is written here: a folder becomes a project, whose environment is built, checked and
examined. ``phrases.txt`` has the words of the pictures that the code prints; where they are no more
in it, ``tests/test_pictures.py`` fails.
"""
# ruff: noqa: INP001 - a program, not a module of a package

from __future__ import annotations

import ast
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"
PHRASES = FOLDER / "phrases.txt"
COLUMNS, SECONDS = 100, 16  # the width of a terminal, and how long a recording may play
# A failed program, whose output `doctor` is to explain: IPEX without its operators for the device.
FAILED = "Could not run 'torch_ipex::mul_add' with arguments from the 'CPU' backend."
LOG = f"loading chatglm2-6b\nNotImplementedError: {FAILED}\n"
TERMINALS: dict[
    str, tuple[int, dict[str, int]]
] = {  # rows, and what is typed with its exit code
    "build": (
        24,
        {"provision init --target cpu-linux": 0, "provision build cpu-linux": 0},
    ),
    "smoke": (24, {"provision smoke cpu-linux": 0}),
    "doctor": (
        24,
        {
            "provision doctor --target cpu-linux": 0,
            "provision doctor --log chat.log": 1,
        },
    ),
}
# Who asks for no motion sees the end.
STILL = "@media (prefers-reduced-motion: reduce) { #screen_view { animation-duration: 1ms } }"


def main(termtosvg: Path) -> None:
    """Make every picture again."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch).resolve()
        (home / "demo").mkdir()
        (home / "demo" / "chat.log").write_text(LOG, encoding="utf-8")
        for name, (rows, typed) in TERMINALS.items():
            cast = record(termtosvg, home, rows, typed)
            draw(termtosvg, cast, FOLDER / f"{name}.svg")
        report(home, FOLDER / "report.png")
        texts = {path.name: visible(path) for path in sorted(FOLDER.glob("*.svg"))}
        texts["report.png"] = visible(home / "report.html")
    lines = [f"{name}: {text}\n" for name in texts for text in phrases(texts[name])]
    PHRASES.write_text("".join(lines), encoding="utf-8")
    for path in sorted(FOLDER.iterdir()):
        sys.stdout.write(f"{path.stat().st_size:>8}  {path.relative_to(ROOT)}\n")


def environment(home: Path) -> dict[str, str]:
    """Return what a person's shell has, and nothing of who runs this."""
    kept = (
        "HOME",
        "LANG",
        "UV_",
        "PIP_",
        "SSL_CERT",
        "HTTP",
        "NO_PROXY",
        "http",
        "no_proxy",
    )
    own = {name: text for name, text in os.environ.items() if name.startswith(kept)}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return own | {"PATH": path, "TERM": "xterm-256color", "PWD": str(home / "demo")}


def record(termtosvg: Path, home: Path, rows: int, typed: dict[str, int]) -> Path:
    """Run commands in a terminal, and return the recording (asciicast 2)."""
    cast, script, codes = (
        home / name for name in ("terminal.cast", "script.sh", "codes")
    )
    lines = [
        f"printf '\\033[1m$ %s\\033[0m\\n' '{one}'\n{one}\necho $? >> {codes}\n"
        for one in typed
    ]
    codes.write_text("", encoding="utf-8")
    script.write_text("".join(lines), encoding="utf-8")
    with subprocess.Popen(
        [
            termtosvg,
            "-m",
            "termtosvg",
            "record",
            cast,
            "-g",
            f"{COLUMNS}x{rows}",
            "-c",
            f"bash {script}",
        ],
        cwd=home / "demo",
        env=environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    ) as recorder:
        recorder.wait()  # its input stays open until then, because a recording ends with that
    if (found := codes.read_text(encoding="utf-8").split()) != list(
        map(str, typed.values())
    ):
        raise SystemExit(f"{list(typed)} ended with {found}")
    return paced(cast, str(home))


def paced(cast: Path, home: str) -> Path:
    """Play a recording in the time that there is, in a folder of nobody in particular."""
    head, *events = cast.read_text(encoding="utf-8").replace(home, "~").splitlines()
    parsed = [json.loads(line) for line in events]
    rate = min(1.0, SECONDS / max(parsed[-1][0], 0.1))
    shown = [json.dumps([round(at * rate, 3), kind, text]) for at, kind, text in parsed]
    cast.write_text("\n".join([head, *shown]) + "\n", encoding="utf-8")
    return cast


def draw(termtosvg: Path, cast: Path, picture: Path) -> None:
    """Draw a recording as one picture, which moves once and then shows the end."""
    subprocess.run(
        [
            termtosvg,
            "-m",
            "termtosvg",
            "render",
            cast,
            picture,
            "-m",
            "250",  # of one frame: they lie below each other, and browsers draw 32767 pixels
            "-M",
            "2500",
            "-t",
            "gjm8_single_loop",
        ],
        check=True,
        env=environment(cast.parent),
    )
    text = picture.read_text(encoding="utf-8")
    picture.write_text(
        text.replace("</style>", f"{STILL}</style>", 1), encoding="utf-8"
    )


def report(home: Path, picture: Path) -> None:
    """Show the page of the reports that the checks have left in a browser."""
    page = home / "report.html"
    words = ["provision", "report", "cpu-linux", "-o", str(page)]
    subprocess.run(
        words,
        check=True,
        cwd=home / "demo",
        env=environment(home),
        stdout=subprocess.DEVNULL,
    )
    browser = shutil.which("chromium")
    if not browser:
        raise SystemExit("there is no chromium on PATH")
    argv = [
        browser,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--hide-scrollbars",
        f"--user-data-dir={home / 'browser'}",
        "--window-size=1100,820",
        f"--screenshot={picture}",
        page.as_uri(),
    ]
    subprocess.run(argv, check=True, capture_output=True)


def visible(path: Path) -> list[str]:
    """Return the lines of text of a terminal's SVG, or the headings of a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".html":
        return [
            re.sub(r"<[^>]*>", "", part) for part in re.findall(r"<h\d.*?</h\d>", text)
        ]
    # The texts of one line of a terminal are one after the other, in a group.
    groups = re.findall(r"<g id=.*?</g>", text, flags=re.DOTALL)
    lines = [html.unescape(re.sub(r"<[^>]*>", " ", group)).strip() for group in groups]
    return list(filter(None, lines))


def words_of(text: str) -> list[str]:
    """Return the words of a text; a number, path or punctuation between two is an empty one."""
    parts = re.findall(r"[A-Za-z]{2,}(?![\w/.=-])|\S", text)
    return [part if part.isalpha() and len(part) > 1 else "" for part in parts]


@cache
def printed() -> str:
    """Return all that the toolkit and its checks may print: their strings, as words."""
    texts: list[str] = []
    for path in sorted(
        [*(ROOT / "provision").rglob("*"), *(ROOT / "smoke").rglob("*")]
    ):
        if path.suffix == ".py":
            texts += _strings(path)
        elif (
            path.suffix in {".toml", ".j2", ".html", ".json"}
            and "shipped" not in path.parts
        ):
            texts.append(path.read_text(encoding="utf-8"))
    return "\n".join(f" {' '.join(words_of(text))} " for text in texts)


def _strings(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in said
    ]


def phrases(lines: list[str]) -> list[str]:
    """Return the longest runs of words of a text that the code has, of two words and more."""
    found: dict[str, None] = {}
    for line in lines:
        words = words_of(line)
        start = 0
        while start < len(words):
            end = start
            while (
                end < len(words)
                and words[end]
                and f" {' '.join(words[start : end + 1])} " in printed()
            ):
                end += 1
            if end - start > 1:
                found[" ".join(words[start:end])] = None
            start = max(end, start + 1)
    return list(found)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
