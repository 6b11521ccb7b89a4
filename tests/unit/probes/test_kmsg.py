"""The kernel log's probe: record format, cursor, gaps, bounds; on regular files and on the real device."""

from __future__ import annotations

import errno
import os
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.errors import ProbeError
from slurm_guard.core.outcome import Facts
from slurm_guard.core.paths import Places
from slurm_guard.probes import kmsg

FOUR = (
    b"6,40,1500000,-;usb 1-1: new device\n SUBSYSTEM=usb\n DEVICE=c189:1\n"
    b"3,41,2500000,-;first\n4,42,2600000,-,caller=T17;second; with a semicolon\n6,43,9999999,-;third\n"
)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "dev").mkdir()
    return Places(str(tmp_path))


def write(places: Places, content: bytes) -> None:
    Path(places.below("dev/kmsg")).write_bytes(content)


def read(places: Places, since: int | None) -> Facts:
    return Facts(kmsg.read(places, Facts(kmsg_since=since)))


def test_reads_what_is_newer_than_the_cursor(places: Places) -> None:
    write(places, FOUR)
    facts = read(places, 41)
    assert facts.events == [
        {"seq": 42, "time_s": 2.6, "priority": 4, "text": "second; with a semicolon"},
        {"seq": 43, "time_s": 9.999999, "priority": 6, "text": "third"},
    ]
    assert (facts.first, facts.last, facts.gap, facts.overflow) == (40, 43, False, False)


def test_the_first_run_ever_takes_no_events(places: Places) -> None:
    write(places, FOUR)
    assert read(places, None) == {"first": 40, "last": 43, "gap": False, "events": [], "overflow": False}


def test_from_the_boot_on(places: Places) -> None:
    write(places, b"6,0,0,-;Linux version\n6,1,0,-;Command line: quiet\n")
    facts = read(places, -1)
    assert [event["seq"] for event in facts.events] == [0, 1]
    assert not facts.gap


@pytest.mark.parametrize(
    ("content", "since", "gap"),
    [
        (FOUR, 39, False),
        (FOUR, 38, True),
        (FOUR, 43, False),
        (FOUR, 44, True),
        (FOUR.replace(b"4,42,", b"4,142,"), 40, True),
        (b"", 7, True),
        (b"", None, False),
        (FOUR + b"not a record\n", 41, True),
        (b"6,2,1,-;old\n6,9,1,-;a jump before the cursor\n6,10,1,-;new\n", 9, False),
    ],
)
def test_gaps(places: Places, content: bytes, since: int | None, gap: bool) -> None:
    write(places, content)
    assert read(places, since).gap is gap


@pytest.mark.parametrize(
    "content", [b"hello\nworld\n", b"\x00" * 50, b"<3>[1.2] dmesg, not kmsg\n", b"1,2;x\n"]
)
def test_garbage_is_an_error(places: Places, content: bytes) -> None:
    write(places, content)
    with pytest.raises(ProbeError, match="does not hold a kernel log"):
        read(places, 1)


def test_no_log_is_an_error(places: Places) -> None:
    with pytest.raises(ProbeError, match="cannot be opened"):
        read(places, 1)


def test_a_folder_in_place_of_the_log_is_an_error(places: Places) -> None:
    Path(places.below("dev/kmsg")).mkdir()
    with pytest.raises(ProbeError, match="cannot be read"):
        read(places, 1)


def test_a_pipe_without_a_writer_does_not_hang(places: Places) -> None:
    os.mkfifo(places.below("dev/kmsg"))
    assert read(places, None).last is None


def test_more_events_than_fit_are_left_for_the_next_run(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kmsg, "MOST_EVENTS", 3)
    write(places, b"".join(b"6,%d,1,-;line\n" % seq for seq in range(10, 20)))
    seen: list[int] = []
    since = 9
    for overflow in (True, True, True, False):
        facts = read(places, since)
        assert (facts.overflow, facts.gap) == (overflow, False)
        seen += [event["seq"] for event in facts.events]
        since = facts.last
    assert seen == list(range(10, 20))


def test_more_bytes_than_fit(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kmsg, "MOST_TEXT_BYTES", 10)
    write(places, FOUR)
    facts = read(places, 40)
    assert [event["seq"] for event in facts.events] == [41, 42]
    assert facts.overflow
    assert facts.last == 42


def test_a_file_that_is_too_large_is_read_from_its_end(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kmsg, "LARGEST_FILE", 100)
    write(places, b"".join(b"6,%d,1,-;line\n" % seq for seq in range(10, 99)))
    facts = read(places, 9)
    assert facts.last == 98
    assert facts.gap


def test_a_record_of_any_length_is_bounded(places: Places) -> None:
    write(places, b"6,5,1,-;" + b"\xc3\xa4" * 100_000 + b"\n")
    (event,) = read(places, 4).events
    assert event["text"] == "ä" * kmsg.LONGEST_TEXT


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (rb"plain", "plain"),
        (rb"caf\xc3\xa9", "café"),
        (rb"tab\x09newline\x0aend", "tab\tnewline\nend"),
        (rb"a backslash \x5cx41 stays", r"a backslash \x41 stays"),
        (rb"broken \xff\xfe", "broken \ufffd\ufffd"),
        (rb"cut \x4", r"cut \x4"),
    ],
)
def test_escapes(raw: bytes, text: str) -> None:
    assert kmsg.unescape(raw) == text


def escape(text: bytes) -> bytes:
    """As the kernel writes it."""
    keep = (bytes((byte,)) if 32 <= byte < 127 and byte != 92 else b"\\x%02x" % byte for byte in text)
    return b"".join(keep)


@given(
    st.integers(0, 191),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**60),
    st.sampled_from([b",-", b",c", b",-,caller=C3", b""]),
    st.text(max_size=80),
)
def test_what_the_kernel_writes_is_read_back(prio: int, seq: int, usec: int, flags: bytes, text: str) -> None:
    line = b"%d,%d,%d%s;%s" % (prio, seq, usec, flags, escape(text.encode()))
    record = kmsg.parse(line)
    assert record is not None
    assert (record.priority, record.seq, record.text) == (prio & 7, seq, text)
    assert record.time_s == usec / 1e6


@given(st.binary(max_size=200))
def test_any_bytes_parse_or_do_not(line: bytes) -> None:
    record = kmsg.parse(line)
    assert record is None or (record.seq >= 0 and 0 <= record.priority <= 7)


@given(st.lists(st.binary(max_size=40).map(lambda text: text.replace(b"\n", b"")), max_size=6))
def test_any_content_is_facts_or_an_error(tmp_path: Path, lines: list[bytes]) -> None:
    (tmp_path / "dev").mkdir(exist_ok=True)
    (tmp_path / "dev/kmsg").write_bytes(b"\n".join(lines))
    try:
        facts = read(Places(str(tmp_path)), 3)
    except ProbeError:
        return
    assert all(event["seq"] > 3 for event in facts.events)


class FakeDevice:
    """Stands in for the character device: one record, or one errno, per read."""

    def __init__(self, *answers: bytes | int) -> None:
        self.answers = list(answers)

    def read(self, _descriptor: int, _size: int) -> bytes:
        answer = self.answers.pop(0) if self.answers else errno.EAGAIN
        if isinstance(answer, int):
            raise OSError(answer, os.strerror(answer))
        return answer


def as_device(monkeypatch: pytest.MonkeyPatch, *answers: bytes | int) -> None:
    monkeypatch.setattr(os, "read", FakeDevice(*answers).read)
    monkeypatch.setattr(kmsg.stat, "S_ISCHR", lambda _mode: True)


def test_an_overwritten_record_is_a_gap(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    write(places, b"")
    as_device(monkeypatch, b"6,7,1,-;seven\n", errno.EPIPE, b"6,12,1,-;twelve\n SUBSYSTEM=x\n")
    facts = read(places, 6)
    assert [event["text"] for event in facts.events] == ["seven", "twelve"]
    assert facts.gap


def test_an_overwritten_old_record_is_none(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    write(places, b"")
    as_device(monkeypatch, errno.EPIPE, b"6,12,1,-;twelve\n")
    assert not read(places, 11).gap


def test_a_device_that_fails_is_an_error(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    write(places, b"")
    as_device(monkeypatch, b"6,7,1,-;seven\n", errno.EIO)
    with pytest.raises(ProbeError, match="cannot be read"):
        read(places, 6)


def test_a_flood_ends(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    write(places, b"")
    monkeypatch.setattr(kmsg, "MOST_RECORDS", 5)
    as_device(monkeypatch, *(b"6,%d,1,-;flood\n" % seq for seq in range(100)))
    assert read(places, None).last == 4


@pytest.mark.needs_root
def test_the_real_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """What root writes to /dev/kmsg comes back once, and only once: if programs' records are let in."""
    monkeypatch.setattr(kmsg, "_KERNEL", 1 << 20)
    here = Places("/")
    last = read(here, None).last
    mark = f"slurm_guard test {uuid.uuid4().hex} Grüße"
    Path("/dev/kmsg").write_bytes(b"<5>" + mark.encode() + b"\n")
    facts = read(here, last)
    (found,) = (event for event in facts.events if event["text"] == mark)
    assert found["seq"] > last
    assert found["priority"] == 5
    assert found["time_s"] > 0
    assert all(event["text"] != mark for event in read(here, facts.last).events)


@pytest.mark.needs_root
def test_nobody_forges_a_fault_on_the_real_device() -> None:
    here = Places("/")
    last = read(here, None).last
    mark = f"NVRM: Xid (PCI:0000:00:00): 79, forged {uuid.uuid4().hex}"
    for prefix in ("", "<0>", "<2>", "<13>"):
        Path("/dev/kmsg").write_bytes(f"{prefix}{mark}\n".encode())
    facts = read(here, last)
    assert facts.last >= last + 4
    assert not facts.gap
    assert all(event["text"] != mark for event in facts.events)
