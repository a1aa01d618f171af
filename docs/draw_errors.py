"""Write ``docs/errors/pasted.md``: what the doctor says of the texts in ``docs/errors/pasted.txt``.

``nox -s docs`` runs it, and ``tests/test_docs.py`` fails where the committed page differs, or where
the doctor does not recognise a text.
"""
# ruff: noqa: INP001 - a program, not a module of a package

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXTS = ROOT / "docs" / "errors" / "pasted.txt"
PAGE = TEXTS.with_suffix(".md")
sys.path.append(str(ROOT))

from provision.core.findings import Finding  # noqa: E402
from provision.doctor.logs import diagnose_log  # noqa: E402

HEAD = """# By error text

Search for a part of your error, or give the whole log to the doctor, which fits the remedy to the
machine:

```console
provision doctor --log train.log
```

These errors have a page of their own:

- [`torch_ipex::mul_add`](mul-add.md)
- [`KeyError: 'xpu:0'`](key-error-xpu.md)
- [two devices, xpu:0 and cpu, when training is resumed](resume-on-xpu.md)
- [`intel_extension_for_pytorch` on an NVIDIA machine](ipex-on-nvidia.md)
- [Arc as slow as the CPU](arc-slow-as-cpu.md)
- [ipex-llm that no longer installs](from-ipex-llm.md)
- [known wrong numbers](../reference/known-wrong.md)

Your error is not here? [Diagnose a failure](../how-to/diagnose.md).

Made by `docs/draw_errors.py` from `docs/errors/pasted.txt` and the rules of the doctor.
"""


def draw() -> str:
    """Return the page."""
    page = HEAD
    for text in texts():
        found = said(text)
        page += f"\n## {_code(text)}\n\n"
        page += f"{found.symptom}: `{found.code}`. {found.cause}.\n\n"
        page += f"**Remedy.** {found.remedy}.\n"
    return page


def texts() -> list[str]:
    """Return the error texts."""
    return TEXTS.read_text("utf-8").splitlines()


def said(text: str) -> Finding:
    """Return the first finding of the doctor on a log that is this text."""
    return diagnose_log(f"{text}\n")[0]


def _code(text: str) -> str:
    """Return a text as code, which may have a backtick in it."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


if __name__ == "__main__":
    PAGE.write_text(draw(), encoding="utf-8")
