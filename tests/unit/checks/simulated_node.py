"""A simulated node for the tests of checks: its files change, real probes read them, the checks judge."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Any

from minicluster import nvml_library
from minicluster.machine import kmsg, model
from minicluster.machine.render import render, update
from slurm_guard.core import check as checks
from slurm_guard.core.expectation import Expectation
from slurm_guard.core.outcome import CheckResult, Facts, Finding
from tests.unit.checks.reading import in_child

if TYPE_CHECKING:
    from pathlib import Path

    from minicluster.machine.model import Gpu, Hca

BOOTED = time.time() - 90_000.0
RUN = {"hook": "healthcheck", "in_grace": False, "uptime_s": 90_000.0, "first_run": False}
EXPECTED = {"gpus": 8, "ib_ports": 8}


class SimulatedNode:
    """Eight GPUs, eight adapters, a kernel log; `look` runs one check on what the files show by now."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._shown: dict[str, bytes | str] = {}
        nvml_library.install(nvml_library.build(), root)
        (root / "dev").mkdir()
        self.reset()

    def reset(self) -> None:
        """A healthy machine with a fresh log; nothing is known of earlier looks."""
        self.machine = model.healthy("cedar-17", "reported", "7b1e", BOOTED)
        self.result = CheckResult("none", [])
        self.before: dict[str, list[float]] = {}
        kmsg.start(self.root / "dev/kmsg", self.machine)
        self.last = len(kmsg.boot_lines(self.machine)) - 1
        shutil.rmtree(self.root / "proc/self/ns", ignore_errors=True)
        self.show()

    def show(self) -> None:
        """Make the files show the machine as it is now."""
        files = render(self.machine)
        update(self.root, self._shown, files)
        self._shown = files

    def gpu(self, index: int, **answers: object) -> Gpu:
        """One GPU, with some of NVML's answers changed (`__` stands for a dot)."""
        gpu = self.machine.gpus[index]
        gpu.nvml.update({name.replace("__", "."): str(value) for name, value in answers.items()})
        self.show()
        return gpu

    def hide_processes(self) -> None:
        """As in a container: a PID namespace of its own."""
        folder = self.root / "proc/self/ns"
        folder.mkdir(parents=True)
        (folder / "pid").symlink_to("pid:[4026533117]")

    def port(self, index: int, **counters: int) -> Hca:
        """One adapter, with so much added to its counters."""
        hca = self.machine.hcas[index]
        for name, more in counters.items():
            hca.counters[name] = hca.counters.get(name, 0) + more
        self.show()
        return hca

    def say(self, *texts: str) -> None:
        """What the kernel logs."""
        kmsg.append(self.root / "dev/kmsg", BOOTED, [kmsg.Line(text, kmsg.ERROR) for text in texts])

    def look(self, name: str, *, now: float = 100.0, **more: Any) -> list[Finding]:
        """What one check finds that neither passes nor skips; counters are kept for the next look.

        `more`: params, expected, references, run.
        """
        check = checks.load(name)()
        facts = self._facts(check.sources())
        run = Facts({**RUN, "job_gpus": [], "allocations": [], "own": None, **more.get("run", {})})
        expect = Expectation(
            more.get("references"), more.get("expected", EXPECTED), before=self.before, now=now, run=run
        )
        given = facts if len(check.sources()) > 1 else facts[check.sources()[0]]
        found = list(check.findings(given, Facts({**check.params, **more.get("params", {})}), expect))
        self.before.update({counter: [value, now] for counter, value in expect.counters.items()})
        self.result = CheckResult(name, found)
        return [one for one in found if one.status not in ("pass", "skip")]

    def _facts(self, sources: tuple[str, ...]) -> Facts:
        facts, problems = Facts(), Facts()
        for source in sources:
            answer = in_child(source, self.root, Facts(kmsg_since=self.last))
            facts[source] = answer.get("facts")
            if "problem" in answer:
                problems[source] = answer.problem
        if facts.get("kmsg") is not None:
            self.last = facts.kmsg.last
        facts["problems"] = problems
        return facts


def brief(findings: list[Finding]) -> set[tuple[str, str, str, str]]:
    """Fault, device, status and tier of some findings."""
    return {(one.fault, one.device or "", one.status, one.tier or "") for one in findings}
