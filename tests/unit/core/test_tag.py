"""The note in a node's comment: read back what was written, and leave a person's alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core import reason, tag
from slurm_guard.core.tag import Entry

IDS = st.lists(st.integers(0, 4_294_967_295), max_size=12)
ENTRY = st.builds(Entry, st.integers(0, 99_999_999_999), IDS, IDS)
NOW = 1_796_093_659


def told(text: str) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]] | None:
    found = tag.parse(text)
    return None if found is None else [(one.at, one.jobs, one.users) for one in found]


@given(ENTRY)
def test_what_is_written_is_read_back(entry: Entry) -> None:
    text = tag.added("", entry, 0)
    assert text is not None
    assert told(text) == [(entry.at, entry.jobs, entry.users)]
    assert len(entry.jobs) <= 8
    assert tag.taken_back(text) == ""


@given(st.lists(ENTRY, min_size=1, max_size=9))
def test_a_comment_stays_short_and_passes_slurm_unchanged(entries: list[Entry]) -> None:
    text: str | None = ""
    for one in entries:
        text = tag.added(text or "", one, 0)
    assert text is not None
    assert reason.clean(text, 1000) == text
    known = told(text)
    assert known is not None
    assert [at for at, _, _ in known] == [one.at for one in reversed(entries)][:4]


@pytest.mark.parametrize(
    "text",
    [
        "rack 12, ask Mira",
        "slurm_guard drained",
        "slurm_guard drained ",
        "slurm_guard drained yesterday",
        "slurm_guard drained 17 jobs 4",
        "slurm_guard drained 17 jobs  uids 3",
        "slurm_guard drained 17 jobs 4 uids 3 / ",
        "slurm_guard drained 17 jobs 4 uids 3, and a fan",
        "slurm_guard drained 17 jobs 4 uids 3\n",
        " slurm_guard drained 17 jobs 4 uids 3",
        "slurm_guard drained ١٧ jobs 4 uids 3",
        "slurm_guard drained 17 jobs 99999999999 uids 3",
    ],
)
def test_a_persons_comment_is_nobodys_to_write(text: str) -> None:
    assert tag.parse(text) is None
    assert tag.added(text, Entry(NOW), 0) is None
    assert tag.taken_back(text) is None


@given(st.text(max_size=80))
def test_any_text_is_ours_or_a_persons(text: str) -> None:
    known = tag.parse(text)
    assert known is None or text == "" or text.startswith(tag.MARK)


def test_old_entries_go_and_the_newest_comes_first() -> None:
    text = tag.added("", Entry(NOW - 90_000, [4], [1001]), 0)
    text = tag.added(text or "", Entry(NOW - 600, [5], [1002]), 0)
    text = tag.added(text or "", Entry(NOW, [7, 6, 7], [1001]), NOW - 86_400)
    assert told(text or "") == [(NOW, (6, 7), (1001,)), (NOW - 600, (5,), (1002,))]
    assert told(tag.taken_back(text or "") or "") == [(NOW - 600, (5,), (1002,))]


def test_an_idle_nodes_drain_names_nobody() -> None:
    assert tag.added("", Entry(NOW), 0) == f"slurm_guard drained {NOW} jobs - uids -"
