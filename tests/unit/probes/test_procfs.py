"""The host's probe: memory; missing and garbage files."""

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

MEMINFO = "MemTotal:       527811904 kB\nActive(anon):       120 kB\nHugePages_Total:      64\n"


def read(root: Path, content: bytes | None) -> Facts:
    if content is not None:
        (root / "proc").mkdir(exist_ok=True)
        (root / "proc/meminfo").write_bytes(content)
    return Facts(procfs.read(Places(str(root)), Facts()))


def test_a_host(tmp_path: Path) -> None:
    wanted = {"MemTotal": 527811904, "Active(anon)": 120, "HugePages_Total": 64}
    assert read(tmp_path, MEMINFO.encode()) == {"meminfo": wanted}


def test_nothing_there(tmp_path: Path) -> None:
    assert read(tmp_path, None)["meminfo"] == {}


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "proc/meminfo").mkdir(parents=True)
    assert read(tmp_path, None)["meminfo"] == {}


def test_this_host() -> None:
    facts = Facts(procfs.read(Places("/"), Facts()))
    assert facts.meminfo["MemTotal"] >= facts.meminfo["MemFree"] > 0


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


@given(st.binary(max_size=100))
def test_any_content_is_facts(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    assert all(value >= 0 for value in read(tmp_path_factory.mktemp("node"), content)["meminfo"].values())
