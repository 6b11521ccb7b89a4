"""The InfiniBand probe: sysfs forms, unsupported and garbage files, virtual functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.outcome import Facts
from slurm_guard.core.paths import Places
from slurm_guard.probes import infiniband

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    folder = tmp_path / "sys/class/infiniband"
    folder.mkdir(parents=True)
    return folder


def add(devices: Path, name: str, **files: str | bytes) -> Path:
    port = devices / name / "ports/1"
    for group in ("counters", "hw_counters"):
        (port / group).mkdir(parents=True)
    healthy = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "200 Gb/sec (4X HDR)"}
    for file, text in {**healthy, "link_layer": "InfiniBand", **files}.items():
        (port / file.replace("__", "/")).write_bytes(
            text if isinstance(text, bytes) else f"{text}\n".encode()
        )
    return port


def read(devices: Path) -> list[Facts]:
    return [Facts(port) for port in infiniband.read(Places(str(devices.parents[2])), Facts())]


def test_no_folder_is_no_port(tmp_path: Path) -> None:
    assert infiniband.read(Places(str(tmp_path)), Facts()) == []


def test_a_file_in_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "sys/class").mkdir(parents=True)
    (tmp_path / "sys/class/infiniband").write_text("")
    with pytest.raises(NotADirectoryError):
        infiniband.read(Places(str(tmp_path)), Facts())


def test_a_port(devices: Path) -> None:
    add(devices, "mlx5_3", counters__symbol_error="17", hw_counters__rnr_nak_retry_err="0")
    (devices / "mlx5_3/fw_ver").write_text("20.43.1014\n")
    (port,) = read(devices)
    assert (port.name, port.device, port.port) == ("mlx5_3/1", "mlx5_3", 1)
    assert (port.state, port.phys_state) == ("ACTIVE", "LinkUp")
    assert (port.rate, port.rate_text) == (200.0, "200 Gb/sec (4X HDR)")
    assert (port.link_layer, port.virtual, port.fw, port.problem) == ("InfiniBand", False, "20.43.1014", "")
    assert port.counters["symbol_error"] == 17
    assert port.counters["rnr_nak_retry_err"] == 0


def test_ports_come_in_the_order_of_their_numbers(devices: Path) -> None:
    add(devices, "mlx5_0")
    for number in (2, 10):
        (devices / f"mlx5_0/ports/{number}").mkdir()
    (devices / "mlx5_0/ports/power").mkdir()
    assert [port.name for port in read(devices)] == ["mlx5_0/1", "mlx5_0/2", "mlx5_0/10"]


ALL_ONES = ["4294967295", "18446744073709551615"]


@pytest.mark.parametrize(
    "content", ["-1", "12 errors", "1e3", "0x10", b"\xff\xfe", "9" * 40, "²", "\0\0", *ALL_ONES]
)
def test_a_counter_that_is_no_count_is_none_and_garbled(devices: Path, content: str | bytes) -> None:
    add(devices, "mlx5_0", counters__symbol_error=content)
    (port,) = read(devices)
    assert port.counters["symbol_error"] is None
    assert port.garbled == ["symbol_error"]


@pytest.mark.parametrize("content", ["N/A", ""])
def test_a_counter_that_is_not_supported_is_none(devices: Path, content: str) -> None:
    add(devices, "mlx5_0", counters__symbol_error=content)
    (port,) = read(devices)
    assert (port.counters["symbol_error"], port.garbled) == (None, [])


def test_a_counter_that_answers_with_an_error_is_none(devices: Path) -> None:
    port = add(devices, "mlx5_0")
    (port / "counters/link_downed").mkdir()
    assert read(devices)[0].counters["link_downed"] is None


def test_garbage_is_a_problem_and_unsupported_is_not(devices: Path) -> None:
    add(devices, "mlx5_0", state="up", rate="N/A", phys_state="")
    (port,) = read(devices)
    assert (port.state, port.phys_state, port.rate) == (None, None, None)
    assert port.problem == "state is 'up'"


def test_a_virtual_function_has_no_counters(devices: Path) -> None:
    add(devices, "mlx5_0", counters__symbol_error="4")
    (devices / "mlx5_0/device").mkdir()
    (devices / "mlx5_0/device/physfn").symlink_to("../nowhere")
    (port,) = read(devices)
    assert port.virtual
    assert port.counters == {}


def test_the_address_is_taken_from_uevent_or_from_the_link(devices: Path) -> None:
    add(devices, "mlx5_0")
    (devices / "mlx5_0/device").mkdir()
    (devices / "mlx5_0/device/uevent").write_text("DRIVER=mlx5_core\nPCI_SLOT_NAME=0000:AB:00.1\n")
    add(devices, "mlx5_1")
    (devices / "mlx5_1/device").symlink_to("../../../0009:01:00.0")
    add(devices, "rxe0")
    (devices / "rxe0/device").symlink_to("../../../virtual")
    assert [port.pci for port in read(devices)] == ["0000:ab:00.1", "0009:01:00.0", ""]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("4: ACTIVE", "ACTIVE"),
        ("5: ACTIVE_DEFER\n", "ACTIVE_DEFER"),
        ("4: PortConfigurationTraining", "PortConfigurationTraining"),
        ("7: Phy Test", "Phy Test"),
        ("ACTIVE", None),
        ("4:", None),
        ("", None),
        ("<unknown>", None),
    ],
)
def test_states(text: str, state: str | None) -> None:
    assert infiniband.parse_state(text) == state


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("400 Gb/sec (4X NDR)", 400.0),
        ("2.5 Gb/sec (1X SDR)", 2.5),
        ("800 Gb/sec", 800.0),
        ("N/A", None),
        ("400", None),
        ("400 Gb/second", None),
        ("-40 Gb/sec", None),
        ("nan Gb/sec", None),
    ],
)
def test_rates(text: str, rate: float | None) -> None:
    assert infiniband.parse_rate(text) == rate


@given(
    st.sampled_from([2.5, 10, 14, 25, 40, 56, 100, 112.5, 200, 400, 800, 1600]),
    st.sampled_from(["1X SDR", "4X NDR", "2X HDR"]),
)
def test_every_rate_that_the_kernel_prints_is_read(rate: float, width: str) -> None:
    assert infiniband.parse_rate(f"{rate:g} Gb/sec ({width})\n") == rate


@given(st.text(max_size=60))
def test_any_text_is_a_state_and_a_rate_or_neither(text: str) -> None:
    state, rate = infiniband.parse_state(text), infiniband.parse_rate(text)
    assert state is None or state in text
    assert rate is None or 0 <= rate < 1e6


@given(
    st.dictionaries(st.sampled_from(["state", "rate", "phys_state", "link_layer"]), st.binary(max_size=80))
)
def test_any_content_is_a_port(tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]) -> None:
    devices = tmp_path_factory.mktemp("node") / "sys/class/infiniband"
    add(devices, "mlx5_0", **files)
    (port,) = read(devices)
    assert port.name == "mlx5_0/1"
    assert "\n" not in port.problem
