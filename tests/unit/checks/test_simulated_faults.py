"""Each GPU fault that the test cluster can simulate is the fault that the checks find, on the same GPU."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from minicluster import nvml_library
from minicluster.faults import all_faults, find
from minicluster.machine import kmsg, model
from minicluster.machine.render import render, update
from slurm_guard.core import check as checks
from slurm_guard.core.context import parse_gpu_list
from slurm_guard.core.expectation import Expectation
from slurm_guard.core.outcome import Facts
from tests.unit.checks.reading import in_child

if TYPE_CHECKING:
    from pathlib import Path

    from minicluster.faults import Fault

CHECKS = [name for name in checks.names() if name.startswith("gpu_")]
BOOTED = time.time() - 86400.0
JOB = {"job_id": 71, "uid": 1000, "user": "amy", "gpus": parse_gpu_list("0-7")}
#: Settings and circumstances without which a fault is none.
SETTINGS = {"gpu_pcie.generation": {"generation": "3"}}
EPILOG = Facts(hook="epilog", allocations=[Facts(JOB)], own=Facts(JOB), job_gpus=JOB["gpus"])
PROLOG = Facts(hook="prolog", allocations=[], own=None, job_gpus=JOB["gpus"], job_id=72, uid=1001)
RUNS = {"gpu_processes.leftover": EPILOG, "gpu_processes.foreign": PROLOG}


def is_judged(fault: Fault) -> bool:
    check, _, code = fault.name.partition(".")
    return check in CHECKS and code in checks.load(check).faults


FAULTS = sorted((fault for fault in all_faults() if is_judged(fault)), key=lambda fault: fault.name)


class Node:
    """A simulated machine's folder, with at most one fault."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.shown: dict[str, bytes | str] = {}
        self.before: dict[str, list[float]] = {}
        self.last: int | None = None
        nvml_library.install(nvml_library.build(), root)
        (root / "dev").mkdir()
        kmsg.start(root / "dev/kmsg", self.machine())

    @staticmethod
    def machine() -> model.Machine:
        return model.healthy("n1", "a seed", "6f0c", BOOTED)

    def show(self, fault: Fault | None = None, device: str = "") -> None:
        machine = self.machine()
        if fault is not None:
            values = fault.settings(SETTINGS.get(fault.name, {}))
            for counter, setting in fault.counts.items():
                machine.gpus[int(device[3:])].nvml[counter] = values[setting]
            fault.apply(machine, device, values)
            if fault.name == "gpu_pcie.generation":
                machine.gpus[int(device[3:])].nvml["clocks_event_reasons"] = "0x4"  # at work
            kmsg.append(self.root / "dev/kmsg", BOOTED, fault.lines(machine, device, values))
        files = render(machine)
        update(self.root, self.shown, files)
        self.shown = files

    def run(self, run: Facts | None = None) -> set[tuple[str, str | None]]:
        """Fault and device of everything that neither passes nor skips; remembers counters as a run does."""
        request = Facts(kmsg_since=self.last)
        facts = Facts({name: in_child(name, self.root, request).facts for name in ("kmsg", "nvml", "pci")})
        self.last = facts.kmsg.last
        facts["problems"] = Facts()
        expect = Expectation(
            expected={"gpus": 8}, before=self.before, now=100.0, run=run or Facts(hook="healthcheck")
        )
        found = [one for name in CHECKS for one in self.judge(name, facts, expect)]
        self.before = {name: [value, 0.0] for name, value in expect.counters.items()}
        return {(one.fault, one.device) for one in found if one.status not in ("pass", "skip")}

    @staticmethod
    def judge(name: str, facts: Facts, expect: Expectation) -> list[Any]:
        check = checks.load(name)()
        sources = check.sources()
        given = facts[sources[0]] if len(sources) == 1 else facts
        return list(check.findings(given, Facts(check.params), expect))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    node = Node(tmp_path)
    node.show()
    return node


def test_a_healthy_machine_has_no_finding(node: Node) -> None:
    assert node.run() == set()
    assert node.run(PROLOG) == set()
    assert node.run(EPILOG) == set()


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_simulated_fault_is_found(node: Node, fault: Fault) -> None:
    device = "gpu5" if fault.device == "gpu" else ""
    node.run()
    node.show(fault, device)
    found = node.run(RUNS.get(fault.name))
    assert (fault.name, device or None) in found
    assert {place for _, place in found} <= {device or None, None}, "no other GPU is accused"


def test_codes_of_the_kernel_log_need_no_registration(node: Node) -> None:
    node.run()
    node.show(find("gpu_xid.109"), "gpu2")
    assert node.run() == {("gpu_xid.109", "gpu2")}


def test_a_cleared_fault_is_no_longer_seen(node: Node) -> None:
    node.run()
    node.show(find("gpu_remap.pending"), "gpu1")
    assert ("gpu_remap.pending", "gpu1") in node.run()
    node.show()
    assert node.run() == set()
