"""The kernel log: records in /dev/kmsg's format, numbered without gaps whoever writes."""

from __future__ import annotations

import multiprocessing
import re
import time
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from minicluster.machine import kmsg
from minicluster.machine.model import healthy

if TYPE_CHECKING:
    from pathlib import Path

RECORD = re.compile(r"(\d+),(\d+),(\d+),-;(.*)")
MACHINE = healthy("n1", "seed", "boot", 1.0)
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=60)


def read(path: Path) -> list[tuple[int, int, int, str]]:
    """Priority, sequence, microseconds, text of each record."""
    lines = [line for line in path.read_text().split("\n") if line and not line.startswith(" ")]
    matches = [RECORD.fullmatch(line) for line in lines]
    return [(int(one[1]), int(one[2]), int(one[3]), one[4]) for one in matches if one]


def test_a_boot_writes_numbered_lines_in_order_of_time(tmp_path: Path) -> None:
    kmsg.start(tmp_path / "kmsg", MACHINE)
    records = read(tmp_path / "kmsg")
    assert [one[1] for one in records] == list(range(len(records)))
    assert [one[2] for one in records] == sorted(one[2] for one in records)
    assert records[0][3].startswith("Linux version")


@given(st.lists(st.tuples(TEXT, st.integers(0, 7)), max_size=8))
def test_what_is_appended_is_read_back(tmp_path: Path, lines: list[tuple[str, int]]) -> None:
    path = tmp_path / "kmsg"
    kmsg.start(path, MACHINE)
    before = read(path)
    for text, priority in lines:
        kmsg.append(path, time.time() - 100, [kmsg.Line(text, priority)])
    added = read(path)[len(before) :]
    assert [(one[0], one[3]) for one in added] == [(priority, text) for text, priority in lines]
    assert [one[1] for one in added] == list(range(len(before), len(before) + len(lines)))
    assert all(99_000_000 < one[2] < 1_000_000_000 for one in added)


def test_a_device_becomes_the_record_s_dictionary(tmp_path: Path) -> None:
    kmsg.append(tmp_path / "kmsg", time.time(), [kmsg.Line("lost", kmsg.ERROR, "+pci:0000:17:00.0")])
    lines = (tmp_path / "kmsg").read_text().splitlines()
    assert lines[0].endswith(";lost")
    assert lines[1:] == [" SUBSYSTEM=pci", " DEVICE=+pci:0000:17:00.0"]


def test_no_text_forges_a_record(tmp_path: Path) -> None:
    kmsg.append(tmp_path / "kmsg", time.time(), [kmsg.Line("said\n3,9,9,-;NVRM: Xid")])
    assert [one[3] for one in read(tmp_path / "kmsg")] == [r"said\x0a3,9,9,-;NVRM: Xid"]


def _write(path: Path, count: int) -> None:
    for number in range(count):
        kmsg.append(path, 0.0, [kmsg.Line(f"line {number}"), kmsg.Line(f"its second half {number}")])


def test_writers_at_once_leave_no_gap(tmp_path: Path) -> None:
    path, each = tmp_path / "kmsg", 40
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write, args=(path, each)) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    records = read(path)
    assert [one[1] for one in records] == list(range(4 * each * 2))
    pairs = [records[i : i + 2] for i in range(0, len(records), 2)]
    assert all(second[3] == first[3].replace("line", "its second half") for first, second in pairs)


def test_the_sequence_goes_on_behind_a_long_log(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    kmsg.append(path, 0.0, [kmsg.Line("x" * 900) for _ in range(200)])
    kmsg.append(path, 0.0, [kmsg.Line("last")])
    assert read(path)[-1][1] == 200
