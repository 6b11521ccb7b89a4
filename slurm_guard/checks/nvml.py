"""NVML answers: the driver does not hang."""

from __future__ import annotations

from slurm_guard.core.check import Check, Fault, passed, skipped, timed_out, unknown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from slurm_guard.core.expectation import Expectation
    from slurm_guard.core.outcome import Finding


class Nvml(Check):
    """A call that hangs in the driver is evidence of its own; what NVML says is for the GPU checks."""

    name = "nvml"
    probe = "nvml"
    scope = "node"
    remedy = "Reboot the node; if it comes back, run `dcgmi diag -r 3` and open a case with the vendor."
    faults = {"hung": Fault("DRAIN_REBOOT", "an NVML call never returned", refuse=True, grace=True)}

    def judge(self, facts: Any, params: Any, expect: Expectation) -> Iterable[Finding]:
        """Anything but a hang counts as an answer; no library or driver is for `gpu_count` to judge."""
        if facts.state == "ok":
            yield passed()
        else:
            yield skipped(f"NVML: {facts.state}")

    def judge_hang(self, hang: Any) -> Iterable[Finding]:
        """`timeout` when the call outlived SIGKILL or hung in the run before too; once is `unknown`."""
        where = f" (waits in {hang.channel})" if hang.channel else ""
        if hang.confirmed or hang.still:
            yield timed_out(f"an NVML call hangs{where}, expected an answer", code="hung", device="nvml")
        else:
            yield unknown(
                f"NVML did not answer in time{where}; judged a hang if it happens again", code="hung"
            )
