"""Reads the NVIDIA driver's kernel lines: Xid, SXid, and the forms without a code for a lost GPU.

Grammar: NVIDIA's Xid documentation and lines of drivers 470 to 595. Patterns are compiled on first use,
since most runs see no such line. Only a record that the driver itself began is read: others may repeat words
of a user's choice (see `kernel_lines`).
"""

from __future__ import annotations

from slurm_guard.core.kernel_lines import is_of_a_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable
    from typing import Any

#: The code that all spellings of "fallen off the bus" count as.
LOST = 79

_MARKS = ("NVRM", "SXid", "infoROM")
_HEX = "[0-9a-fA-F]"
_ADDRESS = rf"(?:{_HEX}{{4,8}}:)?{_HEX}{{2}}:{_HEX}{{2}}(?:\.[0-7])?"
_PROCESS = r"(?:, pid=('?<unknown>'?|\d+))?(?:, name=([^,]*))?"
_SEVERITY = r"(?:, (Non-fatal|Fatal|Severity \d+|Data)\b)?"
#: A record of the log begins with the driver's name; other tools put a time, a host and `kernel:` before it.
_TIME = r"(?:\[[^\]\n]{1,40}\] ?|(?:[A-Z][a-z]{2} [ \d]\d )?[\d:T.,+-]{8,40} (?:\S{1,64} (?=kernel: ))?)"
_SOURCES = {
    "drivers": rf"{_TIME}?(?:kernel: )?\s*(?:NVRM: |nvidia-nvswitch\d*: |\w*:? ?infoROM is)",
    "xid": rf"NVRM: Xid \((?:PCI:)?({_ADDRESS})\): (\d{{1,6}})\b{_PROCESS}(.*)",
    "sxid": rf"nvidia-nvswitch(\d*): SXid \((?:PCI:)?({_ADDRESS})\): (\d{{1,6}})\b{_SEVERITY}(.*)",
    "lost": rf"NVRM: GPU (?:at )?(?:PCI:)?({_ADDRESS}): GPU has fallen off the bus",
    "block": rf"NVRM: The NVIDIA GPU ({_ADDRESS})",
    "severity": r"(?i)\b(non-?fatal|fatal)\b",
    "recovery": r"recovery action changed from \w+ \([^)]*\) to \w+ \(([^)]*)\)",
    "previous": r"caused by previous Xid (\d{1,6})",
    "place": r"\(GPC (\d+), TPC (\d+)",
}
#: Other words of the driver: name, a text that the line holds, and a pattern that finds the GPU.
_DRIVER = (
    ("inforom", "infoROM is corrupted", rf"infoROM is corrupted at gpu ({_ADDRESS})"),
    (
        "init_failed",
        "dapter failed",
        rf"NVRM: (?:GPU ({_ADDRESS}): )?(?:RmInitAdapter|rm_init_adapter) failed",
    ),
    (
        "gsp_heartbeat",
        "NVRM: ",
        r"NVRM: (?:GPU(\d+) )?\w+: (?:Heartbeat timed out|\*+ ?GSP Timeout|Memory Subsystem Error detected)",
    ),
    ("rx_detect", "Failed to update Rx Detect Link mask", r"NVRM: .*Failed to update Rx Detect Link mask()"),
)
_SOURCES.update((name, pattern) for name, _, pattern in _DRIVER)
_compiled: dict[str, re.Pattern[str]] = {}


class XidLine:
    """One event: `kind` is `xid`, `sxid`, `driver` (a line without a code; `unit` names it) or `garbage` (an
    Xid line that cannot be read, kept in `rest`).

    `address` is the PCI address in sysfs' form; `code` the number (0 for garbage); `rest` what follows code
    and process; the process (`pid`, `name`) is a victim more often than a culprit; `severity` the word of an
    NVLink 5 or SXid line; `recovery` the action that an Xid 154 asks for; `previous` the code that an Xid 45
    echoes; `unit` the NVSwitch. Where the driver gives no address it is `GPU4` (the driver's own numbering,
    which need not be nvidia-smi's) or empty.
    """

    __slots__ = (
        "address",
        "code",
        "kind",
        "name",
        "pid",
        "previous",
        "recovery",
        "rest",
        "severity",
        "time_s",
        "unit",
    )

    def __init__(self, kind: str, address: str, code: int, rest: str, time_s: float) -> None:
        self.kind = kind
        self.address = address
        self.code = code
        self.rest = rest.strip(" ,")
        self.time_s = time_s
        self.pid: int | None = None
        self.name = ""
        self.severity = ""
        self.recovery = ""
        self.previous: int | None = None
        self.unit = ""

    def place(self) -> str:
        """Where on the chip an Xid 13 happened: `GPC 2 TPC 1`, or an empty text."""
        found = _pattern("place").search(self.rest)
        return f"GPC {found[1]} TPC {found[2]}" if found else ""


def parse(events: Iterable[Any]) -> list[XidLine]:
    """All Xid and SXid events among kernel messages (`text`, `time_s`), in their order."""
    found: list[XidLine] = []
    block: tuple[str, int] | None = None  # the address of a block of lines, and how many may still follow
    for event in events:
        if block is None and not any(mark in event.text for mark in _MARKS):
            continue
        for line in _trusted(event.text, block is not None):
            block = _take(line, event.time_s, found, block)
    return found


def _trusted(text: str, in_block: bool) -> list[str]:
    """The lines of a record that the driver began; in an open block, all but words of a user's choice."""
    if is_of_a_program(text) or not (in_block or _pattern("drivers").match(text)):
        return [""]
    return text.split("\n")


def normalise(address: str) -> str:
    """A PCI address as sysfs writes it: `0000:1b:00.0`, with domain and function, in lower case."""
    head, _, function = address.lower().partition(".")
    parts = head.split(":")
    domain = int(parts[0], 16) if len(parts) == 3 else 0
    return f"{domain:04x}:{parts[-2]}:{parts[-1]}.{function or '0'}"


def _take(
    line: str, time_s: float, found: list[XidLine], block: tuple[str, int] | None
) -> tuple[str, int] | None:
    """File one line; returns the block that the following lines may still belong to."""
    if block is not None and "fallen off the bus" in line and "GPU has" not in line:
        found.append(XidLine("xid", block[0], LOST, line.partition("NVRM:")[2] or line, time_s))
        return None
    started = _pattern("block").search(line) if "The NVIDIA GPU" in line else None
    if started:
        return normalise(started[1]), 4
    read = _read_line(line)
    if read is not None:
        read.time_s = time_s
        found.append(read)
    return None if block is None or block[1] <= 1 else (block[0], block[1] - 1)


def _read_line(line: str) -> XidLine | None:
    if "NVRM: Xid" in line:
        return _read_xid(line)
    if "SXid (" in line:
        return _read_sxid(line)
    if "fallen off the bus" in line:
        match = _pattern("lost").search(line)
        return XidLine("xid", normalise(match[1]), LOST, "GPU has fallen off the bus", 0.0) if match else None
    return _read_driver(line)


def _read_driver(line: str) -> XidLine | None:
    for name, mark, _ in _DRIVER:
        match = _pattern(name).search(line) if mark in line else None
        if match is not None:
            place = match[1] or ""
            address = f"GPU{place}" if place.isdigit() else normalise(place) if place else ""
            read = XidLine("driver", address, 0, line.partition("NVRM: ")[2] or line, 0.0)
            read.unit = name
            return read
    return None


def _read_xid(line: str) -> XidLine:
    match = _pattern("xid").search(line)
    if match is None or int(match[2]) == 0:
        return XidLine("garbage", "", 0, line, 0.0)
    read = XidLine("xid", normalise(match[1]), int(match[2]), match[5], 0.0)
    read.pid = int(match[3]) if match[3] and match[3].isdigit() else None
    read.name = (match[4] or "").strip("'\" ")
    severity, recovery = _pattern("severity").search(read.rest), _pattern("recovery").search(read.rest)
    if severity:
        read.severity = "Nonfatal" if severity[1].lower().startswith("non") else "Fatal"
    read.recovery = recovery[1] if recovery else ""
    previous = _pattern("previous").search(read.rest)
    read.previous = int(previous[1]) if previous else None
    return read


def _read_sxid(line: str) -> XidLine:
    match = _pattern("sxid").search(line)
    if match is None:
        return XidLine("garbage", "", 0, line, 0.0)
    read = XidLine("sxid", normalise(match[2]), int(match[3]), match[5], 0.0)
    read.unit, read.severity = f"nvswitch{match[1]}", match[4] or ""
    return read


def _pattern(name: str) -> re.Pattern[str]:
    if name not in _compiled:
        import re

        _compiled[name] = re.compile(_SOURCES[name])
    return _compiled[name]
