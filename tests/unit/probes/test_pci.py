"""The PCI probe: which devices count, dead ones, garbage, and a bus that is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.outcome import Facts
from slurm_guard.core.paths import Places
from slurm_guard.probes import pci

if TYPE_CHECKING:
    from pathlib import Path

GPU = {"vendor": "0x10de", "class": "0x030200", "device": "0x20b5", "current_link_width": "16"}


@pytest.fixture
def bus(tmp_path: Path) -> Path:
    folder = tmp_path / "sys/bus/pci/devices"
    folder.mkdir(parents=True)
    return folder


def add(bus: Path, address: str, **files: str | bytes) -> None:
    folder = bus / address
    folder.mkdir(exist_ok=True)
    for name, content in {**GPU, **files}.items():
        data = content if isinstance(content, bytes) else f"{content}\n".encode()
        (folder / name.replace("_of_device", "")).write_bytes(data)


def read(bus: Path) -> list[Facts]:
    return [Facts(device) for device in pci.read(Places(str(bus.parents[3])), Facts())]


def test_no_bus_is_no_device(tmp_path: Path) -> None:
    assert pci.read(Places(str(tmp_path)), Facts()) == []


@pytest.mark.parametrize(
    ("vendor", "kind", "counts"),
    [
        ("0x10de", "0x030200", True),  # 3D controller
        ("0x10de", "0x030000", True),  # VGA
        ("0x10de", "0x068000", False),  # NVSwitch
        ("0x10de", "0x040300", False),  # a GPU's audio function
        ("0x1002", "0x120000", True),  # AMD accelerator
        ("0x1002", "0x060400", False),
        ("0x15b3", "0x020700", True),  # InfiniBand
        ("0x15b3", "0x020000", True),  # Ethernet
        ("0x15b3", "0x030000", False),
        ("0x1a03", "0x030000", False),  # a BMC's display
        ("0x8086", "0x020000", False),
    ],
)
def test_which_devices_count(bus: Path, vendor: str, kind: str, counts: bool) -> None:
    add(bus, "0000:9b:00.0", vendor=vendor, **{"class": kind})
    assert len(read(bus)) == counts


def test_one_device(bus: Path) -> None:
    add(
        bus,
        "0002:0F:00.0",
        max_link_width="16",
        current_link_speed="16.0 GT/s PCIe",
        max_link_speed="16.0 GT/s PCIe",
        numa_node="-1",
        config=b"\xde\x10\xb5\x20" + bytes(60),
    )
    assert read(bus) == [
        {
            "address": "0002:0f:00.0",
            "vendor": "0x10de",
            "class": "0x030200",
            "device": "0x20b5",
            "link_width": 16,
            "link_width_max": 16,
            "link_speed": "16.0 GT/s PCIe",
            "link_speed_max": "16.0 GT/s PCIe",
            "numa_node": -1,
            "config_dead": False,
        }
    ]


def test_a_device_that_reads_as_ones_is_dead(bus: Path) -> None:
    add(bus, "0000:9b:00.0", config=b"\xff" * 64)
    assert read(bus)[0].config_dead is True


@pytest.mark.parametrize("config", [b"", b"\xff\xff", b"\xff\xff\xff\x00", b"\x00" * 64])
def test_anything_else_is_not(bus: Path, config: bytes) -> None:
    add(bus, "0000:9b:00.0", config=config)
    assert read(bus)[0].config_dead is False


def test_devices_come_in_the_order_of_their_addresses(bus: Path) -> None:
    for address in ("0000:d1:00.0", "0000:0a:00.0", "0001:00:00.0"):
        add(bus, address)
    assert [device.address for device in read(bus)] == ["0000:0a:00.0", "0000:d1:00.0", "0001:00:00.0"]


def test_a_device_that_vanishes_is_left_out(bus: Path) -> None:
    add(bus, "0000:9b:00.0")
    (bus / "0000:9c:00.0").symlink_to(bus / "gone")
    (bus / "0000:9d:00.0").mkdir()
    assert [device.address for device in read(bus)] == ["0000:9b:00.0"]


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "sys/bus/pci").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/devices").write_text("")
    with pytest.raises(NotADirectoryError):
        pci.read(Places(str(tmp_path)), Facts())


@given(
    st.fixed_dictionaries(
        {}, optional={name: st.binary(max_size=60) for name in (*GPU, "config", "numa_node")}
    )
)
def test_garbage_is_a_value_or_none_and_never_an_error(bus: Path, files: dict[str, bytes]) -> None:
    add(bus, "0000:9b:00.0", **files)
    for device in read(bus):
        assert device.vendor in {"0x10de", "0x1002", "0x15b3"}
        assert device.link_width is None or isinstance(device.link_width, int)
        assert isinstance(device.config_dead, bool)
