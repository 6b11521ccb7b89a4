"""The documentation hangs together: links, the index, decisions, and a place for every JSON answer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slurm_guard.config import model
from slurm_guard.doctor import shims

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md"), *DOCS.glob("adr/*.md")])


def anchors(text: str) -> set[str]:
    """The anchors that a page's headings get."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
    broken = []
    for target, anchor in LINK.findall(text):
        if "://" in target:
            continue
        file = page.parent / target if target else page
        if not file.exists() or (anchor and anchor[1:] not in anchors(file.read_text())):
            broken.append(target + anchor)
    assert broken == []


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "index.md").read_text()
    names = {page.name for page in DOCS.glob("*.md")} - {"index.md"}
    assert {name for name in names if f"({name})" not in index} == set()


#: Written from the code: their tables and code blocks are as wide as what they quote.
GENERATED = {"checks.md", "cli.md", "exit-codes.md"}
WIDEST = 120


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name not in GENERATED],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_no_line_of_prose_is_wider_than_the_page(page: Path) -> None:
    lines = enumerate(page.read_text().splitlines(), start=1)
    assert [(number, len(line)) for number, line in lines if len(line) > WIDEST and line[0] != "|"] == []


def test_the_readme_fits_a_screen() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 60


@pytest.mark.parametrize("hook", ["prolog", "epilog", "healthcheck", "taskprolog"])
def test_every_page_names_the_same_place_of_a_hook(hook: str) -> None:
    pages = [*PAGES, *ROOT.glob("*/README.md"), *ROOT.glob("contrib/*/README.md")]
    found = {
        path
        for page in pages
        for path in re.findall(rf"(?:=|`)(/[\w./-]*/sguard-{hook})\b", page.read_text())
    }
    assert found == {shims.stable_path(hook)}


def test_every_decision_has_the_parts_of_the_template() -> None:
    parts = re.compile(r"(?:## |\*\*)Context.*(?:## |\*\*)Decision.*(?:## |\*\*)Consequence", re.DOTALL)
    assert [page.name for page in DOCS.glob("adr/*.md") if not parts.search(page.read_text())] == []


def test_every_json_answer_is_documented() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "slurm_guard/cli").glob("*.py"))
    kinds = set(re.findall(r'emit_json\(\s*"(\w+)"', sources))
    documented = set(re.findall(r"^## `(\w+)`", (DOCS / "json.md").read_text(), re.MULTILINE))
    assert kinds == documented


@pytest.mark.parametrize("table", sorted(model.TABLES), ids=".".join)
def test_every_setting_is_documented(table: tuple[str, ...]) -> None:
    page = (DOCS / "configuration.md").read_text()
    words = set(re.findall(r"[\w.]+", " ".join(re.findall(r"`[^`\n]+`|```.*?```", page, re.DOTALL))))
    keys = {part for word in words for part in [word, *word.split(".")]}
    sections = {"programs", "slurm", "nvml", "deadlines", "spool", "budget", "policy", "checks"}
    assert set(model.keys_of(table)) - sections <= keys
    if table and table[-1] != "programs":
        assert re.search(rf"\[{re.escape('.'.join(table))}\]|\[{re.escape(table[0])}\]", page)
