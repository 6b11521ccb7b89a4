"""One run of the checks on this node: state and plan in, results out. No Slurm, nothing written."""

from __future__ import annotations

import os
import sys
import time

from slurm_guard.core import gpus
from slurm_guard.core.expectation import Expectation
from slurm_guard.core.outcome import Facts, worst
from slurm_guard.engine import allocations, clock, inventory, judge, node_state, runner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.context import Context
    from slurm_guard.core.outcome import CheckResult, Finding
    from slurm_guard.core.paths import Places
    from slurm_guard.core.plan import Plan
    from slurm_guard.engine.reading import Reading

#: The share of a hook's deadline that checks may use; the rest is for Slurm and the disk.
SHARE = {"prolog": 0.5, "epilog": 0.65, "healthcheck": 0.85}
#: How long one mount may take to answer; fabric and storage reference: 5 s.
PATIENCE_S = 5.0


class RunOutcome:
    """What a run found, with all that the record, the policy and the next run need to know of it."""

    __slots__ = (
        "allocation",
        "boot_id",
        "checks",
        "elapsed_ms",
        "expect",
        "given",
        "kmsg_last",
        "others",
        "problems",
        "reading",
        "results",
        "run_id",
        "started",
        "state",
        "uptime_s",
    )

    allocation: Facts | None
    boot_id: str
    checks: list[str]
    elapsed_ms: float
    expect: Expectation
    given: list[str]
    kmsg_last: int | None
    others: list[Facts]
    reading: Reading
    results: list[CheckResult]
    state: node_state.NodeState
    uptime_s: float

    def __init__(self) -> None:
        self.run_id = os.urandom(16).hex()
        self.started = time.time()
        self.problems: list[str] = []

    @property
    def status(self) -> str:
        """The worst status of the run; checks that skip do not hide one that passed."""
        judged = [one.status for one in self.results if one.status != "skip"]
        return worst(judged)

    @property
    def findings(self) -> list[Finding]:
        """Every finding that is not `skip`."""
        return judge.all_findings(self.results)


def run_checks(
    places: Places,
    plan: Plan,
    context: Context,
    *,
    only: list[str] | None = None,
    deadline_s: float | None = None,
) -> RunOutcome:
    """Run the enabled checks of a hook (or those named in `only`) once.

    Never raises for what a check, a probe or the node does; `deadline_s` bounds the reading of facts.
    """
    outcome, began = RunOutcome(), time.monotonic()
    outcome.boot_id = clock.boot_id(places)
    outcome.uptime_s = clock.uptime_s(places)
    outcome.state = node_state.load(places, outcome.boot_id)
    outcome.allocation = allocations.find(places, context.job_id, outcome.boot_id)
    opened = allocations.all_open(places, outcome.boot_id)
    outcome.others = [one for one in opened if one.get("job_id") != context.job_id]
    checks, broken = judge.enabled(plan, context.hook, only)
    outcome.checks = [check.name for check in checks]
    since = _kmsg_since(outcome, places, context)
    outcome.expect = _expectation(outcome, plan, context, began, is_first=since is None)
    if "inventory" in outcome.checks:
        outcome.expect.run["inventory"] = Facts(inventory.load(places), now=clock.machine(places))
    seconds = deadline_s or plan.deadlines[context.hook] * SHARE[context.hook]
    outcome.reading = runner.read(
        sorted({probe for check in checks for probe in check.sources()}),
        places,
        _request(plan, context, since),
        deadline_s=seconds,
        patience_s=min(PATIENCE_S, seconds / 2),
        hung=outcome.state.still_hanging(),
    )
    outcome.given = _given(context, outcome.reading.facts.get("nvml"))
    outcome.results = judge.judge_all(checks, outcome.reading, plan, outcome.expect) + broken
    outcome.kmsg_last = _kmsg_last(outcome)
    outcome.elapsed_ms = (time.monotonic() - began) * 1000
    return outcome


def _expectation(
    outcome: RunOutcome, plan: Plan, context: Context, now: float, *, is_first: bool
) -> Expectation:
    own = outcome.allocation if context.hook == "epilog" else None
    run = Facts(
        hook=context.hook,
        in_grace=outcome.uptime_s < plan.grace_s,
        uptime_s=outcome.uptime_s,
        first_run=is_first,
        job_gpus=context.gpus,
        job_id=context.job_id,
        uid=context.uid,
        allocations=[*outcome.others, *([outcome.allocation] if outcome.allocation else [])],
        own=outcome.allocation,
        hung_before=outcome.state.hung_before,
    )
    before = dict(outcome.state.counters)
    before.update((own.get("counters") or {}) if own is not None else {})
    return Expectation(plan.references, plan.expected, before=before, now=now, run=run)


def _request(plan: Plan, context: Context, since: int | None) -> Facts:
    return Facts(
        hook=context.hook,
        kmsg_since=since,
        nvml_library=plan.nvml_library,
        python_path=[*plan.python_path, *_usual_python_path()],
        mounts=plan.expected.get("mounts") or [],
        filesystems=((plan.checks or {}).get("fs_space") or {}).get("filesystems") or [],
    )


def _usual_python_path() -> list[str]:
    """Where the vendor's binding lies when no plan says so: hooks run without `site`, which would know."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    home = os.path.dirname(os.path.dirname(sys.executable or "/usr/bin/python3"))
    return [
        os.path.join(home, "lib", version, "site-packages"),
        f"/usr/local/lib/{version}/dist-packages",
        "/usr/lib/python3/dist-packages",
    ]


def _kmsg_since(outcome: RunOutcome, places: Places, context: Context) -> int | None:
    """From which kernel line on: the job's own cursor in its epilog, else this node's.

    The first run ever sets the cursor and takes what is older for history; the first run after a reboot
    reads that boot from its start.
    """
    own = outcome.allocation
    if context.hook == "epilog" and own is not None and isinstance(own.get("kmsg_last"), int):
        return int(own["kmsg_last"])
    if outcome.state.kmsg_last is not None:
        return outcome.state.kmsg_last
    return -1 if os.path.exists(places.faults) else None


def _kmsg_last(outcome: RunOutcome) -> int | None:
    kmsg = outcome.reading.facts.get("kmsg")
    last = kmsg.get("last") if isinstance(kmsg, dict) else None
    return last if isinstance(last, int) else outcome.state.kmsg_last


def _given(context: Context, nvml: Any) -> list[str]:
    """The names by which findings may call this job's GPUs: `gpu3`, its UUID, its PCI address.

    A MIG slice stands for the GPU it is cut from. Slurm's index is the device's minor number, which names
    the GPU. Where NVML says nothing, the index alone has to do.
    """
    tokens = set(context.gpus)
    names = {f"gpu{token}" for token in tokens if token.isdigit()} | tokens
    for gpu in (nvml or {}).get("gpus") or []:
        if any(gpus.matches(token, gpu) for token in tokens):
            names |= {gpus.name(gpu), gpu.get("uuid") or "", gpu.get("pci") or ""}
    return sorted(names - {""})


def seen_faults(results: list[CheckResult]) -> set[str]:
    """The names (`fault device`) of everything that failed or hung in a run."""
    bad = [f for one in results for f in one.findings if f.status in ("fail", "timeout")]
    return {f"{f.fault} {f.device or ''}".strip() for f in bad}
