"""The driver's kernel lines: every form of the grammar, near misses, and garbage of all kinds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.outcome import Facts
from slurm_guard.core.xid_lines import normalise, parse


def events(*texts: str) -> list[Facts]:
    return [
        Facts(seq=number, time_s=float(number), priority=4, text=text) for number, text in enumerate(texts)
    ]


def summary(*texts: str) -> list[tuple[str, str, int]]:
    return [(line.kind, line.address, line.code) for line in parse(events(*texts))]


@pytest.mark.parametrize(
    ("text", "address", "code", "pid", "name", "rest"),
    [
        (
            "NVRM: Xid (PCI:0000:a1:00): 31, pid=812, name=python, Ch 00000004",
            "0000:a1:00.0",
            31,
            812,
            "python",
            "Ch 00000004",
        ),
        (
            "NVRM: Xid (PCI:0000:a1:00): 62, pid='<unknown>', name=<unknown>, 2a1(0)",
            "0000:a1:00.0",
            62,
            None,
            "<unknown>",
            "2a1(0)",
        ),
        (
            "NVRM: Xid (PCI:0000:a1:00): 62, pid=<unknown>, name=<unknown>, 2a1(0)",
            "0000:a1:00.0",
            62,
            None,
            "<unknown>",
            "2a1(0)",
        ),
        ("NVRM: Xid (PCI:000A:A1:00.1): 79", "000a:a1:00.1", 79, None, "", ""),
        ("NVRM: Xid (0000:5e:00): 8, Channel 00000002", "0000:5e:00.0", 8, None, "", "Channel 00000002"),
        ("NVRM: Xid (5e:00.0): 8, Channel 00000002", "0000:5e:00.0", 8, None, "", "Channel 00000002"),
        ("NVRM: Xid (PCI:00000000:5E:00): 8", "0000:5e:00.0", 8, None, "", ""),
        ("NVRM: Xid (PCI:00010000:5E:00): 8", "10000:5e:00.0", 8, None, "", ""),
        (
            "[   12.0] NVRM: Xid (PCI:0000:5e:00): 43, pid=7, name='my prog', Ch 1",
            "0000:5e:00.0",
            43,
            7,
            "my prog",
            "Ch 1",
        ),
        (
            "NVRM: Xid (PCI:0000:5e:00): 63, pid=77, Row Remapper: New row",
            "0000:5e:00.0",
            63,
            77,
            "",
            "Row Remapper: New row",
        ),
        ("kernel: NVRM: Xid (PCI:0000:5e:1c): 63", "0000:5e:1c.0", 63, None, "", ""),
        ("09:14:55 NVRM: Xid (PCI:0000:5e:00): 63", "0000:5e:00.0", 63, None, "", ""),
        ("Mar  4 09:14:55 gn7 kernel: NVRM: Xid (PCI:0000:5e:00): 63", "0000:5e:00.0", 63, None, "", ""),
        ("2026-03-04T09:14:55,01+00:00 gn7 kernel: NVRM: Xid (5e:00): 63", "0000:5e:00.0", 63, None, "", ""),
    ],
)
def test_forms_of_a_line(text: str, address: str, code: int, pid: int | None, name: str, rest: str) -> None:
    (line,) = parse(events(text))
    assert (line.kind, line.address, line.code) == ("xid", address, code)
    assert (line.pid, line.name, line.rest) == (pid, name, rest)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:a1:00): abc, pid=1",
        "NVRM: Xid (PCI:0000:a1:00)",
        "NVRM: Xid (PCI:zz): 79",
        "NVRM: Xid (PCI:0000:a1:00): 0, pid=3",
        "NVRM: Xid (PCI:0000:a1:00): 12345678",
        "nvidia-nvswitch1: SXid (nowhere): 12028, Fatal",
        "nvidia-nvswitch1: SXid (PCI:0000:a1:00.0): xyz, Fatal",
    ],
)
def test_an_xid_line_that_cannot_be_read_is_kept(text: str) -> None:
    (line,) = parse(events(text))
    assert (line.kind, line.rest) == ("garbage", text)


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.183.06",
        "NVRM: GPU at PCI:0000:a1:00: GPU-01234567-0000-1111-2222-333344445555",
        "NVRM: GPU Board Serial Number: 1321021000007",
        "usb 1-2: new device",
        "EXT4-fs (sda1): Xid is not of our kind",
        "",
    ],
)
def test_other_lines_say_nothing(text: str) -> None:
    assert parse(events(text)) == []


def test_lost_in_one_line() -> None:
    assert summary("NVRM: GPU 0000:a1:00.0: GPU has fallen off the bus.") == [("xid", "0000:a1:00.0", 79)]


THREE = (
    "NVRM: The NVIDIA GPU 0000:a1:00.0",
    "NVRM: (PCI ID: 10de:20b5) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
)


@pytest.mark.parametrize(
    "texts",
    [
        THREE,
        ("\n".join(THREE),),
        (THREE[0], THREE[1], "pcieport 0000:a0:01.0: AER: Corrected error received", THREE[2]),
        (f"{THREE[0]} (PCI ID: 10de:20b5)", "NVRM: installed in this system has", THREE[2]),
        (THREE[0], THREE[1].replace("NVRM: ", "   "), THREE[2].replace("NVRM: ", "   ")),
    ],
)
def test_lost_in_three_lines(texts: tuple[str, ...]) -> None:
    assert summary(*texts) == [("xid", "0000:a1:00.0", 79)]


def test_two_blocks_one_after_the_other() -> None:
    second = tuple(line.replace("a1", "b2") for line in THREE)
    assert [address for _, address, _ in summary(*THREE, *second)] == ["0000:a1:00.0", "0000:b2:00.0"]


def test_a_block_does_not_reach_far() -> None:
    between = [f"NVRM: something else {number}" for number in range(8)]
    assert summary(THREE[0], *between, THREE[2]) == []


def test_a_block_without_an_end_is_no_fault() -> None:
    assert summary(THREE[0], "NVRM: installed in this system is not supported by the driver") == []


def test_an_xid_in_the_middle_of_a_block_is_not_lost() -> None:
    found = summary(THREE[0], "NVRM: Xid (PCI:0000:b2:00): 45, pid=1, name=a, Ch 1", *THREE[1:])
    assert found == [("xid", "0000:b2:00.0", 45), ("xid", "0000:a1:00.0", 79)]


@pytest.mark.parametrize(
    ("rest", "severity"),
    [
        ("RLW_REMAP Nonfatal XC0 i0 Link 03 (0x04010101 0x00000001)", "Nonfatal"),
        ("NETIR_LINK_EVT  Fatal   XC1 i0 Link -1 (0x02000000", "Fatal"),
        ("NETIR_", ""),
    ],
)
def test_severity_of_nvlink_5(rest: str, severity: str) -> None:
    (line,) = parse(events(f"NVRM: Xid (PCI:0009:01:00): 149, {rest}"))
    assert line.severity == severity


def test_recovery_action_echo_and_place() -> None:
    head = "NVRM: Xid (PCI:0009:01:00)"
    lines = parse(
        events(
            f"{head}: 154, GPU recovery action changed from 0x1 (Reset) to 0x4 (Drain and Reset)",
            f"{head}: 45, pid=3, name=a, Ch 0000000c caused by previous Xid 145",
            f"{head}: 13, pid=3, name=a, Graphics SM Warp Exception on (GPC 1, TPC 6, SM 0)",
        )
    )
    assert [line.recovery for line in lines] == ["Drain and Reset", "", ""]
    assert [line.previous for line in lines] == [None, 145, None]
    assert [line.place() for line in lines] == ["", "", "GPC 1 TPC 6"]


@pytest.mark.parametrize(
    ("text", "unit", "code", "severity"),
    [
        (
            "nvidia-nvswitch5: SXid (PCI:0000:b3:00.0): 22003, Fatal, Link 09 Minion halt",
            "nvswitch5",
            22003,
            "Fatal",
        ),
        ("nvidia-nvswitch0: SXid (PCI:0000:b3:00.0): 12028, Non-fatal", "nvswitch0", 12028, "Non-fatal"),
        (
            "nvidia-nvswitch0: SXid (PCI:0000:b3:00.0): 12033, Severity 1 Engine 00",
            "nvswitch0",
            12033,
            "Severity 1",
        ),
        ("nvidia-nvswitch0: SXid (PCI:0000:b3:00.0): 26008, SOE Watchdog error", "nvswitch0", 26008, ""),
        ("nvidia-nvswitch: SXid (0000:b3:00.0): 20009", "nvswitch", 20009, ""),
    ],
)
def test_nvswitch_lines(text: str, unit: str, code: int, severity: str) -> None:
    (line,) = parse(events(text))
    assert (line.kind, line.address, line.unit, line.code, line.severity) == (
        "sxid",
        "0000:b3:00.0",
        unit,
        code,
        severity,
    )


@pytest.mark.parametrize(
    ("text", "address", "unit"),
    [
        ("NVRM: GPU 0000:b3:00.0: RmInitAdapter failed! (0x24:0x65:1417)", "0000:b3:00.0", "init_failed"),
        ("NVRM: RmInitAdapter failed! (0x26:0xffff:1096)", "", "init_failed"),
        (
            "NVRM: GPU 0000:b3:00.0: rm_init_adapter failed, device minor number 6",
            "0000:b3:00.0",
            "init_failed",
        ),
        ("NVRM: infoROM is corrupted at gpu 0000:b3:00.0", "0000:b3:00.0", "inforom"),
        ("NVRM: GPU6 _kgspIsHeartbeatTimedOut: Heartbeat timed out, diff 6200", "GPU6", "gsp_heartbeat"),
        ("WARNING: infoROM is corrupted at gpu 0000:B3:00.0", "0000:b3:00.0", "inforom"),
        ("NVRM: knvlinkUpdate_IMPL: Failed to update Rx Detect Link mask!", "", "rx_detect"),
    ],
)
def test_other_words_of_the_driver(text: str, address: str, unit: str) -> None:
    (line,) = parse(events(text))
    assert (line.kind, line.address, line.code, line.unit) == ("driver", address, 0, unit)


HEX = "0123456789abcdefABCDEF"
ADDRESS = st.builds(
    lambda domain, bus, slot, function: f"{domain}{bus}:{slot}{function}",
    st.one_of(st.just(""), st.builds("{}:".format, st.text(HEX, min_size=4, max_size=8))),
    st.text(HEX, min_size=2, max_size=2),
    st.text(HEX, min_size=2, max_size=2),
    st.one_of(st.just(""), st.builds(".{}".format, st.integers(0, 7))),
)


@given(
    address=ADDRESS,
    prefix=st.sampled_from(["", "PCI:"]),
    code=st.integers(1, 999),
    process=st.sampled_from(["", ", pid=31", ", pid='<unknown>', name=<unknown>", ", pid=9, name=a b"]),
    rest=st.text(st.characters(blacklist_categories=("Cc", "Cs")), max_size=40),
)
def test_whatever_the_driver_writes_is_read_back(
    address: str, prefix: str, code: int, process: str, rest: str
) -> None:
    (line,) = parse(events(f"NVRM: Xid ({prefix}{address}): {code}{process}, ({rest})"))
    assert (line.kind, line.address, line.code) == ("xid", normalise(address), code)


@given(ADDRESS)
def test_addresses_are_as_in_sysfs(address: str) -> None:
    assert re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", normalise(address))
    assert normalise(normalise(address)) == normalise(address)


@given(
    st.lists(
        st.one_of(
            st.text(max_size=60),
            st.builds("NVRM: Xid (PCI:{}".format, st.text(max_size=40)),
            st.builds("nvidia-nvswitch0: SXid ({}".format, st.text(max_size=40)),
            st.sampled_from(THREE),
        ),
        max_size=12,
    )
)
def test_garbage_is_never_an_error(texts: list[str]) -> None:
    for line in parse(events(*texts)):
        assert line.kind in ("xid", "sxid", "driver", "garbage")
        assert (line.code == 0) == (line.kind in ("driver", "garbage"))
