"""What a node remembers of its machine and GPUs, and what it forgets when one is swapped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.outcome import CheckResult, Facts, Finding
from slurm_guard.core.paths import Places
from slurm_guard.engine import faults, files, inventory, sightings
from slurm_guard.engine.returning import Returning

if TYPE_CHECKING:
    from .conftest import NodeRoot

SLOTS = ("0000:1a:00.0", "0000:4b:00.0", "0000:8c:00.0")


def gpu(number: int, slot: int, error: str | None = None) -> Facts:
    uuid = None if error else f"GPU-{number:08x}-0000-4000-8000-000000000000"
    return Facts(index=slot, minor=slot, pci=SLOTS[slot], uuid=uuid, error=error)


def save(places: Places, *gpus: Facts, state: str = "ok", **machine: str) -> None:
    inventory.save(places, Facts(state=state, gpus=list(gpus)), machine)


def remembered(places: Places) -> dict[str, Any]:
    return inventory.load(places)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(str(tmp_path))


def test_the_last_card_of_each_slot_is_known(places: Places) -> None:
    save(places, gpu(1, 0), gpu(2, 1), serial="S1", boot_id="ignored")
    save(places, gpu(1, 0), gpu(3, 1))
    found = remembered(places)
    assert found["machine"] == {"serial": "S1"}
    assert {slot: uuid[11] for slot, uuid in found["gpus"].items()} == {SLOTS[0]: "1", SLOTS[1]: "3"}


def test_a_card_is_in_one_slot_and_a_lost_one_stays_on_record(places: Places) -> None:
    save(places, gpu(1, 0), gpu(2, 1))
    save(places, gpu(1, 2), gpu(2, 1, error="GpuIsLost"))
    assert {slot: uuid[11] for slot, uuid in remembered(places)["gpus"].items()} == {
        SLOTS[1]: "2",
        SLOTS[2]: "1",
    }


@pytest.mark.parametrize("seen", [Facts(state="no_driver", gpus=[]), None, Facts(state="ok", gpus=[])])
def test_a_run_that_saw_nothing_changes_nothing(places: Places, seen: Any) -> None:
    inventory.save(places, seen, {})
    assert not Path(places.inventory).exists()
    save(places, gpu(1, 0), serial="S1")
    before = Path(places.inventory).stat().st_ino
    inventory.save(places, seen, {})
    save(places, gpu(1, 0), serial="S1")
    assert Path(places.inventory).stat().st_ino == before  # and no run writes what is there already


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["version", "machine", "gpus", "serial"]), inner, max_size=4)
        ),
        max_leaves=8,
    )
)
def test_whatever_lies_there_costs_no_run(content: Any) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        places = Places(folder)
        files.make_folder(places.var)
        Path(places.inventory).write_text(json.dumps(content))
        inventory.load(places)
        save(places, gpu(1, 0), serial="S1")
        assert inventory.load(places)["gpus"][SLOTS[0]].startswith("GPU-00000001")


def swap(device: str) -> list[CheckResult]:
    found = Finding("warn", "another card", code="gpu", device=device)
    found.check = "inventory"
    return [CheckResult("inventory", [found]), CheckResult("gpu_ecc", [Finding("pass")])]


def test_a_swapped_card_leaves_its_past_behind(places: Places) -> None:
    gone = inventory.swapped(swap("gpu1"))
    assert gone == {"gpu1"}
    returning = Returning()
    returning.note_return(["gpu_ecc.sram gpu1", "gpu_ecc.sram gpu2"], 1000.0)
    returning.forget_devices(gone)
    both = ["gpu_ecc.sram gpu1", "gpu_ecc.sram gpu2"]
    assert returning.relapses(both, 3600.0, 1001.0) == ["gpu_ecc.sram gpu2"]

    def seen(device: str) -> Finding:
        found = Finding("fail", "bad", code="sram", device=device)
        found.check = "gpu_ecc"
        return found

    sightings.save(places, [seen("gpu1"), seen("gpu2")], {"gpu_ecc"}, "b1")
    sightings.save(places, [], {"gpu_ecc"}, "b2", gone)
    assert set(sightings.load(places).faults) == {"gpu_ecc.sram gpu2"}


def test_another_machine_is_told_once(node: NodeRoot) -> None:
    serial = node.root / "sys/class/dmi/id/product_serial"
    serial.parent.mkdir(parents=True)
    told = []
    for text in ("S1", "S1", "S2", "S2"):
        serial.write_text(f"{text}\n")
        node.run("healthcheck")
        results = {one["check"]: one for one in node.records()[-1]["results"]}
        told.append([one["fault"] for one in results.get("inventory", {"findings": []})["findings"]])
    assert told == [[], [], ["inventory.machine"], []]
    assert faults.load(Places(str(node.root))).open == {}
