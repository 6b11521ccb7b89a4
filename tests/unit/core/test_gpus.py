"""Which GPU is which: names, addresses of GPUs that no longer answer, and the tokens of a job."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_guard.core import gpus
from slurm_guard.core.outcome import Facts

UUID = "GPU-9d3f1a00-77aa-4c1b-8e52-0b6c5d4e3f2{}"


def gpu(index: int, **fields: Any) -> Facts:
    base = {
        "index": index,
        "minor": index,
        "uuid": UUID.format(index),
        "pci": f"0000:{0x20 + index:02x}:00.0",
    }
    return Facts({**base, "error": None, "mig": None, **fields})


def lost(index: int) -> Facts:
    return gpu(index, uuid=None, pci=None, error="GpuIsLost")


def bus(*numbers: int) -> list[Facts]:
    return [Facts(address=f"0000:{0x20 + number:02x}:00.0", vendor="0x10de") for number in numbers]


def names(listed: list[Facts] | None, devices: list[Facts] | None) -> dict[str, str]:
    found = gpus.names_by_address(None if listed is None else Facts(gpus=listed), devices)
    return {address[5:7]: name for address, (name, _) in found.items()}


@pytest.mark.parametrize(
    ("listed", "devices", "expected"),
    [
        ([gpu(0), gpu(1)], bus(0, 1), {"20": "gpu0", "21": "gpu1"}),
        ([gpu(0), lost(1), gpu(2)], bus(0, 1, 2), {"20": "gpu0", "21": "gpu1", "22": "gpu2"}),
        ([lost(0), gpu(1), lost(2)], bus(0, 1, 2), {"20": "gpu0", "21": "gpu1", "22": "gpu2"}),
        ([gpu(0), lost(1)], bus(0), {"20": "gpu0"}),
        ([gpu(0), lost(1)], None, {"20": "gpu0"}),
        ([gpu(0), gpu(1, minor=2, pci="0000:22:00.0")], bus(0, 2), {"20": "gpu0", "22": "gpu2"}),
        ([gpu(0), gpu(2)], bus(0, 1, 2), {"20": "gpu0", "21": "gpu1", "22": "gpu2"}),
        (None, bus(0, 1), {"20": "gpu0", "21": "gpu1"}),
        (None, None, {}),
        ([], bus(5), {"25": "gpu0"}),
    ],
)
def test_names_by_address(
    listed: list[Facts] | None, devices: list[Facts] | None, expected: dict[str, str]
) -> None:
    assert names(listed, devices) == expected


def test_a_number_is_given_once() -> None:
    shifted = [gpu(0), gpu(1, minor=1, pci="0000:40:00.0")]
    found = names(shifted, bus(0, 3))
    assert sorted(found.values()) == ["0000:23:00.0", "gpu0", "gpu1"]


def test_other_vendors_are_not_numbered() -> None:
    assert gpus.names_by_address(None, [Facts(address="0000:50:00.0", vendor="0x15b3")]) == {}


MIG = {"devices": [{"uuid": "MIG-aa01", "gi": 3, "ci": 0}, {"uuid": "MIG-aa02", "gi": 4, "ci": 1}]}


@pytest.mark.parametrize(
    ("token", "matches", "instance"),
    [
        ("1", True, None),
        ("11", False, None),
        (UUID.format(1), True, None),
        (UUID.format(1).upper(), True, None),
        (UUID.format(2), False, None),
        ("MIG-aa01", True, 3),
        ("MIG-aa02", True, 4),
        ("MIG-ffff", False, None),
        (f"MIG-{UUID.format(1)}/4/1", True, 4),
        (f"MIG-{UUID.format(2)}/4/1", False, None),
    ],
)
def test_tokens_of_a_job(token: str, matches: bool, instance: int | None) -> None:
    one = gpu(1, mig=MIG)
    assert gpus.matches(token, one) is matches
    assert gpus.mig_instance(token, one) == instance


def test_a_gpu_without_identity_matches_by_number_only() -> None:
    assert gpus.matches("1", lost(1))
    assert not gpus.matches(UUID.format(1), lost(1))


@pytest.mark.parametrize(("fields", "expected"), [({"minor": 5}, "gpu5"), ({"minor": None}, "gpu2")])
def test_the_drivers_number_names_a_gpu(fields: dict[str, Any], expected: str) -> None:
    assert gpus.name(gpu(2, **fields)) == expected
