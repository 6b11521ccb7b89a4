"""The node has all of its memory: a lost module shows as a smaller MemTotal after a boot."""

from __future__ import annotations

from slurm_guard.core.check import Check, Fault, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from slurm_guard.core.expectation import Expectation
    from slurm_guard.core.outcome import Finding

METRIC = "memory_gib"


class MemorySize(Check):
    """Judged against the reference `memory_gib`, else against the expected value of that name."""

    name = "memory_size"
    probe = "procfs"
    scope = "node"
    #: `tolerance`: signed fraction; the kernel and the firmware keep a few percent of the modules' size.
    params = {METRIC: None, "tolerance": -0.05}
    expects = "memory_gib"
    metrics = {METRIC: "GiB"}
    faults = {
        "low": Fault(
            "DRAIN",
            "less memory than this node has",
            sure=True,
            remedy="Compare `dmidecode -t memory` and the BMC's log with a good node; reseat or replace it.",
        )
    }

    def judge(self, facts: Any, params: Any, expect: Expectation) -> Iterator[Finding]:
        """One finding: MemTotal in GiB."""
        total = facts.meminfo.get("MemTotal")
        if not total:
            yield unknown("/proc/meminfo has no MemTotal that can be read", metric=METRIC, code="low")
            return
        wanted = params[METRIC]
        wanted = expect.expected.get(METRIC) if wanted is None else wanted
        least = None if wanted is None else wanted * (1 + params["tolerance"])
        found = expect(METRIC, total / (1 << 20), "GiB", fault="low", fail=least, below=True)
        found.message = found.message.replace(METRIC, "MemTotal", 1)
        yield found
