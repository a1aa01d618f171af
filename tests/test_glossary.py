"""The words that the glossary replaced do not come back into what people read."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("provision", "smoke", "envs", "docker", "fleet", "docs")
# In quotes and backticks they are names, such as those of fields of earlier reports.
REPLACED = re.compile(
    r"(?<![\"`])\b(owed|owes|carried (?!out|over)|gives? way|passed over|ways? out"
    r"|(?:is|are|be) judged|not judged:|is told|pollutants?|stranger's)\b",
    re.IGNORECASE,
)


def test_replaced_words_do_not_come_back() -> None:
    paths = [ROOT / "noxfile.py", *ROOT.glob("[!C]*.md"), ROOT / "CONTRIBUTING.md"]
    for folder in FOLDERS:
        paths += (ROOT / folder).rglob("*.*")
    kinds = {".py", ".toml", ".j2", ".md", ".json"}
    read = [path for path in paths if path.suffix in kinds]
    assert len(read) > 400
    for path in read:
        assert REPLACED.findall(path.read_text("utf-8")) == [], path
