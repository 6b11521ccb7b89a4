"""The verdict on one run of a job, from evidence, Slurm's word and what is missing. No I/O of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from slurm_guard.diagnosis import rules
from slurm_guard.diagnosis.evidence import Evidence, weigh

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm_guard.diagnosis.accounting import Told
    from slurm_guard.diagnosis.coverage import Missing
    from slurm_guard.store.fleet import Elsewhere, Peers
    from slurm_guard.store.model import ActionRow, JobRun

#: A drain so long before a job's start may still have met it on its way.
_RACE_MS = 60_000


class Fleet(Protocol):
    """What a verdict asks about other nodes and jobs."""

    def peers(self, one: Evidence) -> Peers:
        """How other nodes judged the same check near that time."""

    def elsewhere(self, one: Evidence) -> Elsewhere:
        """Which other jobs had the same fault on the same device."""

    def last_change(self, node: str) -> ActionRow | None:
        """Our last drain or resume of a node that was done."""


@dataclass(slots=True)
class Verdict:
    """What was wrong. `blame`: node, job, fabric, storage, unknown, or none (nothing was wrong).

    `confidence`: high, medium or low, with the sentences in `why`. `safe` to resubmit: yes, no, exclude (yes,
    but not on `node`), requeued (Slurm does it by itself), held (Slurm requeued it, and somebody must release
    it) or unknown. `causes` are all pieces of evidence, the likeliest first cause first.
    """

    blame: str
    confidence: str
    what: str
    why: list[str] = field(default_factory=list)
    node: str = ""
    device: str = ""
    fault: str = ""
    safe: str = "unknown"
    safe_why: str = ""
    next_step: str = ""
    causes: list[Evidence] = field(default_factory=list)


def diagnose(
    run: JobRun, told: Told, missing: Sequence[Missing], fleet: Fleet, later: Told | None = None
) -> Verdict:
    """Judge one run of a job. Without evidence it is `unknown`, and never healthy with runs missing.

    `later` is what Slurm says of a later run that is not on record yet, as of a requeued job that waits.
    """
    causes = weigh(run)
    first = _first_cause(causes, told, run)
    if first is None:
        verdict = _from_state(run, told, missing, causes)
    else:
        verdict = _from_evidence(first, told, run, fleet)
    verdict.causes = causes
    _weigh_missing(verdict, missing)
    _advise(verdict, first, run, told, fleet)
    _heed_later(verdict, run, told, later)
    if verdict.blame == "unknown" and any(one.gap for one in missing):
        verdict.next_step = rules.NEXT_MISSING
    return verdict


def _first_cause(causes: list[Evidence], told: Told, run: JobRun) -> Evidence | None:
    """The likeliest first cause, if any is good enough to name."""
    real = [one for one in causes if not one.echo]
    if not real:
        return None
    first = real[0]
    if _succeeded(told, run):
        # A job that ended well needs no explanation, but what went wrong beneath it must be named.
        is_grave = first.grade != "weak" and rules.tier_rank(first.finding.tier) <= 1
        return first if is_grave else None
    if told.state in rules.TELLING and first.grade != "strong":
        return None
    return first


def _succeeded(told: Told, run: JobRun) -> bool:
    if any(share.prolog is not None and share.prolog.refused for share in run.shares):
        return False
    # Accounting lags behind: a run that it calls RUNNING may have an epilog already.
    return told.succeeded if told.ended else run.exit_code == "0:0"


def _from_evidence(first: Evidence, told: Told, run: JobRun, fleet: Fleet) -> Verdict:
    said = _sentence(first)
    if _succeeded(told, run):
        said = f"The job ended well, but {said[0].lower()}{said[1:]}"
    verdict = Verdict(first.blame, rules.CONFIDENCE[first.grade], said)
    verdict.why = list(first.reasons)
    verdict.node, verdict.device, verdict.fault = first.node, first.finding.device, first.finding.fault
    if first.refusal and verdict.blame == "unknown":
        verdict.blame = "node"
    _ask_peers(verdict, first, fleet)
    _ask_history(verdict, first, fleet)
    _share_blame(verdict, first)
    if _succeeded(told, run):
        verdict.why.append("the job itself ended well, so check that its results are whole")
        verdict.safe, verdict.safe_why = rules.SAFE_ALL_THE_SAME.get(verdict.blame, ("unknown", ""))
    return verdict


def _sentence(first: Evidence) -> str:
    finding = first.finding
    seen = finding.message.rstrip(".") or f"{finding.fault} {finding.device}".strip()
    if first.refusal:
        return f"{first.node} refused the job before it began: {seen}"
    when = {"before": "before the job began", "during": "during the job", "after": "right after the job"}
    return f"On {first.node} {when[first.phase]}: {seen}"


def _ask_peers(verdict: Verdict, first: Evidence, fleet: Fleet) -> None:
    """One node's trouble with a shared thing is the node's; many nodes' trouble is not."""
    owner = next((who for prefix, who in rules.SHARED_CHECKS if first.finding.check.startswith(prefix)), "")
    if not owner and verdict.blame not in ("storage", "fabric"):
        return
    found = fleet.peers(first)
    passed, failed = len(found.passed), len(found.failed)
    if failed and failed >= passed:
        verdict.blame = owner or verdict.blame
        verdict.why.append(f"{_nodes(failed)} saw the same at that time")
    elif owner == "storage" and failed >= rules.FEW_NODES:
        verdict.blame = owner
        _lower(verdict, f"{_nodes(failed)} saw the same at that time, though it passed on {passed}")
    elif passed:
        verdict.blame = "node"
        own = f"the same check passed on {_nodes(passed)} at that time, so it is this node's own"
        verdict.why.append(f"{own}; it failed on {failed}" if failed else own)
    elif verdict.blame in ("storage", "fabric"):
        _lower(verdict, "no other node's run is on record to compare with")


def _nodes(count: int) -> str:
    return f"{count} other node" + ("s" if count != 1 else "")


def _ask_history(verdict: Verdict, first: Evidence, fleet: Fleet) -> None:
    """The same application fault in other people's jobs on one device speaks for the device."""
    if verdict.blame != "job" or not first.finding.device:
        return
    found = fleet.elsewhere(first)
    if len(found.jobs) >= 2 and len(found.users) >= 2:
        jobs = ", ".join(str(job) for job in sorted(found.jobs)[:5])
        verdict.blame = "node"
        verdict.confidence = "medium"
        verdict.why.append(f"jobs of other users had the same fault on the same device: {jobs}")
    elif found.jobs:
        jobs = ", ".join(str(job) for job in sorted(found.jobs)[:5])
        _lower(verdict, f"another job had the same fault on the same device ({jobs}), so it may be the node")


def _share_blame(verdict: Verdict, first: Evidence) -> None:
    """A job's fault that is not on this job's device blames no job; all that ran there are named."""
    if verdict.blame != "job" or first.given is True or (first.given is None and not first.shared_with):
        return
    jobs = ", ".join(str(job) for job in first.shared_with)
    others = f"other jobs ran there too ({jobs})" if jobs else "no other job is on record there"
    verdict.blame = "unknown"
    verdict.confidence = "low"
    verdict.why.append(
        f"another job's device, and {others}"
        if first.given is False
        else f"it is node-wide and {others}: one of them, or this one"
    )


def _ended_well(absent: bool, beside: Sequence[Evidence]) -> Verdict:
    """A job that ended well; `beside` is what was seen on its nodes and says nothing of the job."""
    what = "The job ended well"
    if absent:
        return Verdict("none", "low", f"{what}; with runs missing, its nodes cannot be called healthy")
    if not beside:
        return Verdict("none", "high", f"{what}, and no fault is on record on its nodes")
    harmless = f"{what}; what is on record on its nodes did it no harm: {_named(beside)}"
    return Verdict("none", "high", harmless, list(beside[0].reasons))


def _named(seen: Sequence[Evidence]) -> str:
    """The first of some evidence by name and node, and how many more there are."""
    first = seen[0]
    fault = f"{first.finding.fault} {first.finding.device}".strip()
    return f"{fault} on {first.node}" + (f" and {len(seen) - 1} more" if len(seen) > 1 else "")


def _from_state(run: JobRun, told: Told, missing: Sequence[Missing], causes: Sequence[Evidence]) -> Verdict:
    """No hook saw a cause: Slurm's state, or nothing, explains the end."""
    absent = any(one.gap for one in missing)
    if _succeeded(told, run):
        return _ended_well(absent, causes)
    known = rules.STATES.get(told.state)
    if known is not None:
        why = [f"Slurm calls the run {told.state}, and no hook saw a fault that explains more"]
        return Verdict(known.blame, known.confidence, known.what, why, safe=known.safe, safe_why=known.why)
    if not told.ended and run.closed is None:
        return Verdict(
            "unknown", "low", "No end is on record: the job still runs, or its epilogs are missing"
        )
    code = told.exit or run.exit_code or ""
    ended = f"The job ended with exit code {code}" if code else "How the job ended is not on record"
    seen = "its runs on record show no fault" if absent else "no hook saw a fault on any of its nodes"
    if causes:
        seen = f"what was seen on its nodes only follows from something else: {_named(causes)}"
    return Verdict("unknown", "low", f"{ended}, and {seen}", ["nothing on record explains the end"])


def _weigh_missing(verdict: Verdict, missing: Sequence[Missing]) -> None:
    """Missing runs lower the confidence, most of all those of the suspect node."""
    gone = [one for one in missing if one.gap]
    own = [one for one in gone if one.node == verdict.node]
    if own:
        _lower(verdict, f"{', '.join(sorted({one.what for one in own}))} of {verdict.node} is not on record")
    elif gone and verdict.confidence == "high":
        names = sorted({one.node for one in gone})
        shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
        _lower(verdict, f"runs of {shown} are not on record, so an earlier cause may be missing")


def _lower(verdict: Verdict, reason: str) -> None:
    verdict.confidence = rules.LEVELS[max(0, rules.LEVELS.index(verdict.confidence) - 1)]
    verdict.why.append(reason)


def _advise(verdict: Verdict, first: Evidence | None, run: JobRun, told: Told, fleet: Fleet) -> None:
    """Is it safe to resubmit, and what comes next."""
    remedy = first.finding.remedy if first is not None and verdict.blame != "unknown" else ""
    verdict.next_step = remedy or rules.NEXT[verdict.blame].format(node=verdict.node or run.shares[0].node)
    if not verdict.safe_why:
        verdict.safe, verdict.safe_why = _safe(verdict, first, run, told, fleet)


def _safe(verdict: Verdict, first: Evidence | None, run: JobRun, told: Told, fleet: Fleet) -> tuple[str, str]:
    node = verdict.node
    if verdict.blame in rules.SAFE:
        return rules.SAFE[verdict.blame]
    if first is not None and first.refusal:
        return _requeued(run, told)
    change = fleet.last_change(node) if node else None
    # A node that was drained when the job was started on it has been put back since, by somebody else.
    if change is not None and change.action == "drain" and change.at >= run.opened - _RACE_MS:
        return "yes", f"{node} is out of service, so the job gets another node"
    if change is not None and first is not None and change.at > first.at:
        return "yes", f"{node} has been put back in service since"
    return "exclude", f"{node} is not drained by us: submit with `--exclude={node}`"


def _heed_later(verdict: Verdict, run: JobRun, told: Told, later: Told | None) -> None:
    """What became of the job since: one that is held starts only when somebody releases it."""
    now = later or told
    if now.held:
        verdict.safe = "held"
        verdict.safe_why = f"Slurm requeued the job and holds it: `scontrol release {run.job_id}`"
    elif later is not None and later.ended and verdict.safe == "requeued":
        verdict.safe = "unknown"
        verdict.safe_why = f"Slurm requeued the job, and its last run is {later.state}"


def _requeued(run: JobRun, told: Told) -> tuple[str, str]:
    if told.followed:
        return "requeued", "Slurm requeued the job by itself"
    release = f"if it is held: `scontrol release {run.job_id}`"
    return "requeued", f"Slurm requeues a refused batch job by itself; {release}"
