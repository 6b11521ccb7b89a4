"""The host's probe: memory, uptime, identity, load, driver version; missing and garbage files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.outcome import Facts
from slurm_guard.core.paths import Places
from slurm_guard.probes import procfs

if TYPE_CHECKING:
    from pathlib import Path

FILES = {
    "proc/meminfo": "MemTotal:       527811904 kB\nActive(anon):       120 kB\nHugePages_Total:      64\n",
    "proc/uptime": "86512.07 1034411.90\n",
    "proc/sys/kernel/random/boot_id": "5d1c2f60-9d3a-4a55-8a57-0b7f3c1e2a44\n",
    "proc/loadavg": "3.10 2.00 1.95 4/1771 99120\n",
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\n",
    "etc/machine-id": "0f0e0d0c0b0a09080706050403020100\n",
    "sys/class/dmi/id/product_serial": "SN-77412\n",
    "sys/class/dmi/id/product_name": "Model 9 G4\n",
}


def read(root: Path, files: dict[str, str | bytes]) -> Facts:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Facts(procfs.read(Places(str(root)), Facts()))


def test_a_host(tmp_path: Path) -> None:
    assert read(tmp_path, dict(FILES)) == {
        "meminfo": {"MemTotal": 527811904, "Active(anon)": 120, "HugePages_Total": 64},
        "uptime_s": 86512.07,
        "boot_id": "5d1c2f60-9d3a-4a55-8a57-0b7f3c1e2a44",
        "machine": {
            "machine_id": "0f0e0d0c0b0a09080706050403020100",
            "serial": "SN-77412",
            "product": "Model 9 G4",
        },
        "loadavg": [3.1, 2.0, 1.95],
        "driver_version": "550.54.15",
    }


def test_nothing_there(tmp_path: Path) -> None:
    facts = read(tmp_path, {})
    assert facts["meminfo"] == {}
    assert facts["machine"] == {"machine_id": None, "serial": None, "product": None}
    assert [facts[name] for name in ("uptime_s", "boot_id", "loadavg", "driver_version")] == [None] * 4


def test_folders_in_place_of_files(tmp_path: Path) -> None:
    for name in FILES:
        (tmp_path / name).mkdir(parents=True)
    assert read(tmp_path, {})["meminfo"] == {}


def test_this_host() -> None:
    facts = Facts(procfs.read(Places("/"), Facts()))
    assert facts.meminfo["MemTotal"] >= facts.meminfo["MemFree"] > 0
    assert facts.uptime_s > 0
    assert len(facts.boot_id) == 36


@pytest.mark.parametrize("serial", ["", "0", "None", "To Be Filled By O.E.M.", "Default string", " \n"])
def test_serials_that_are_none(tmp_path: Path, serial: str) -> None:
    assert read(tmp_path, {"sys/class/dmi/id/product_serial": serial})["machine"]["serial"] is None


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.216.03  Fri Oct 25", "535.216.03"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build", "570.86.10"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  565.57.01  Release Build", "565.57.01"),
        ("GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n", None),
        ("", None),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  unknown", None),
    ],
)
def test_driver_versions(text: str, version: str | None) -> None:
    assert procfs.parse_driver_version(text) == version


@pytest.mark.parametrize("uptime", ["", "nan 1", "-4.0 1", "inf", "1e9", "up 4 days", "1,5 2", "٣"])
def test_uptimes_that_are_none(tmp_path: Path, uptime: str) -> None:
    assert read(tmp_path, {"proc/uptime": uptime})["uptime_s"] is None


@pytest.mark.parametrize(
    "line",
    ["MemTotal: 12 MB", "MemTotal: -1 kB", "MemTotal 12 kB", "MemTotal: kB", ": 12 kB", "MemTotal: 1 2 kB"],
)
def test_memory_lines_in_another_form(line: str) -> None:
    assert procfs.parse_meminfo(line) == {}


NAME = st.from_regex(r"[A-Z][A-Za-z_]{2,20}(\([a-z]{1,8}\))?", fullmatch=True)


@given(st.dictionaries(NAME, st.integers(0, 10**15), max_size=8))
def test_what_the_kernel_writes_is_read_back(values: dict[str, int]) -> None:
    text = "".join(f"{name + ':':<16}{value:>12} kB\n" for name, value in values.items())
    assert procfs.parse_meminfo(text) == values


@given(st.text(max_size=200))
def test_any_text_is_facts(text: str) -> None:
    assert all(value >= 0 for value in procfs.parse_meminfo(text).values())
    assert procfs.parse_loadavg(text) is None or len(procfs.parse_loadavg(text) or []) == 3
    version = procfs.parse_driver_version(text)
    assert version is None or version in text


@given(st.dictionaries(st.sampled_from(sorted(FILES)), st.binary(max_size=100)))
def test_any_content_is_facts(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    facts = read(tmp_path_factory.mktemp("node"), dict(files))
    assert sorted(facts) == ["boot_id", "driver_version", "loadavg", "machine", "meminfo", "uptime_s"]
