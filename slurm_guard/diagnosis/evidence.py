"""Which findings of a job's runs may explain its end, how strongly each speaks, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slurm_guard.core.errors import RecordError
from slurm_guard.core.outcome import FAIL, TIMEOUT, WARN
from slurm_guard.diagnosis import rules
from slurm_guard.store.record import milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from slurm_guard.store.model import FindingRow, JobRun, NodeShare, RunRow

_DRAINS = ("drain", "refuse")
BEFORE, DURING, AFTER = "before", "during", "after"


@dataclass(slots=True)
class Evidence:
    """One finding as evidence: `grade` weak, medium or strong, `reasons` in sentences.

    `given` is True if the device was the job's own, False if it was not, None if that cannot be told (or the
    fault is the whole node's). `shared_with` are the ids of other jobs on the node at that time.
    """

    finding: FindingRow
    node: str
    phase: str
    seen_by: str
    grade: str
    at: int
    given: bool | None = None
    refusal: bool = False
    echo: bool = False
    shared_with: list[int] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)

    @property
    def blame(self) -> str:
        """Whose fault the finding is: its own word, else by its tier.

        What "the job" left on a node before this one began was another job.
        """
        blame = _blame(self.finding)
        return "node" if blame == "job" and self.phase == BEFORE else blame

    @property
    def key(self) -> tuple[int, ...]:
        """Orders evidence, the likeliest first cause first."""
        return (
            int(self.echo),
            -rules.GRADES.index(self.grade),
            int(self.finding.fault in rules.AFTERMATH),
            rules.tier_rank(self.finding.tier),
            0 if self.finding.status == FAIL else 1,
            self.at,
        )


def weigh(run: JobRun) -> list[Evidence]:
    """All evidence of one run of a job, the likeliest first cause first; each fault of a device once."""
    best: dict[tuple[str, str, str], Evidence] = {}
    for share in run.shares:
        for one in _of_share(share):
            key = (one.node, one.finding.fault, one.finding.device)
            if key not in best or one.key < best[key].key:
                best[key] = one
    return sorted(best.values(), key=lambda one: one.key)


def is_given(finding: FindingRow, gpus: list[str]) -> bool | None:
    """Was this device given to a job with these GPU tokens (indices or UUIDs)? None: cannot be told.

    Devices other than GPUs (ports, mounts) serve every job on the node, so the answer is None too.
    """
    if not finding.device.startswith("gpu"):
        return None
    name, _, _ = finding.device.partition("/")
    tokens = {f"gpu{token}" if token.isdigit() else token for token in gpus}
    if tokens & {finding.device, name, finding.device_id or ""}:
        return True
    indices = [token for token in gpus if token.isdigit()]
    if len(indices) == len(gpus) and name[3:].isdigit():
        return False
    uuids = [token for token in gpus if token.startswith("GPU-")]
    return False if len(uuids) == len(gpus) and (finding.device_id or "").startswith("GPU-") else None


def _of_share(share: NodeShare) -> Iterator[Evidence]:
    before = {(one.fault, one.device) for one in (share.prolog.findings if share.prolog else ())}
    seen = [(share.prolog, BEFORE), *((one, DURING) for one in share.events), (share.epilog, DURING)]
    seen += [(one, AFTER) for one in share.after]
    for run, phase in seen:
        for finding in run.findings if run is not None else ():
            if run is None or finding.status not in (FAIL, TIMEOUT, WARN) or finding.tier == "NOTE":
                continue
            if not _is_of_another_job(share, run, finding, phase):
                yield _judge(share, run, finding, phase, before)


def _is_of_another_job(share: NodeShare, run: RunRow, finding: FindingRow, phase: str) -> bool:
    """True for what some application did to a GPU before this job began or after it had ended."""
    if not finding.event or _blame(finding) != "job":
        return False
    at, own = _when(finding, run), share.allocation
    return phase == BEFORE or _is_before(share, at) or (own.closed is not None and at > own.closed)


def _blame(finding: FindingRow) -> str:
    """Whose fault a finding says it is; a word that a later version may use is nobody's."""
    blame = finding.blame or ("job" if finding.tier == "JOB" else "node")
    return blame if blame in rules.NEXT else "unknown"


def _is_before(share: NodeShare, at: int) -> bool:
    """True for a time before the job began on this node, as far as that is on record."""
    return share.allocation.opened_sure and at < share.allocation.opened


def _judge(
    share: NodeShare, run: RunRow, finding: FindingRow, phase: str, before: set[tuple[str, str]]
) -> Evidence:
    one = Evidence(finding, share.node, phase, run.hook, "strong", _when(finding, run))
    one.given = is_given(finding, share.allocation.gpus)
    one.echo = finding.fault in rules.ECHOES
    one.shared_with = sorted({other.job_id for other in share.neighbours})
    one.refusal = run.refused and _refused_for(run, finding)
    _weigh_phase(one, share, before)
    _weigh_device(one, share)
    _limit(one, rules.highest_grade(finding.tier, finding.status), "")
    if one.echo:
        _limit(one, "weak", "this fault is an echo of another one and never a first cause")
    return one


def _refused_for(run: RunRow, finding: FindingRow) -> bool:
    """Was it this fault that the run refused its job for? If the record names none, it was any."""
    done = run.refusal("done")
    if done is not None and done.fault:
        return (done.fault, done.device) == (finding.fault, finding.device)
    named = [d for d in run.decisions if d.get("action") == "refuse"]
    return not named or any(
        (d.get("fault"), d.get("device") or "") == (finding.fault, finding.device) for d in named
    )


def _let_in(run: RunRow | None, finding: FindingRow) -> str:
    """Why a prolog that saw this fault let its job start, as far as that is on record."""
    saw = "the prolog saw it before the job began"
    decided = (
        next((one for one in run.decisions if _is_about(one, finding)), None) if run is not None else None
    )
    for one in run.answers if run is not None else ():
        if (one.fault, one.device) != (finding.fault, finding.device) or one.action not in _DRAINS:
            continue
        if one.action == "refuse" and one.outcome in ("held", "failed"):
            return f"{saw} and would have refused the job, but let it in: {one.why or one.outcome}"
        if one.outcome == "observed":
            word = "refused the job" if one.action == "refuse" else "drained the node"
            return f"{saw} and would have {word}, but its mode is observe: the job was let in"
        if one.action == "drain" and one.outcome == "done":
            return f"{saw}, drained the node and let the job run ({_reason_to_drain(decided)})"
    return f"{saw}, and let it run: {_reason_to_tell(finding, decided)}"


def _is_about(decision: dict[str, Any], finding: FindingRow) -> bool:
    return (decision.get("fault"), decision.get("device") or "") == (finding.fault, finding.device)


def _reason_to_drain(decided: dict[str, Any] | None) -> str:
    """Why the fault called for a drain and not for a refusal, in the words of the decision."""
    return str((decided or {}).get("why") or "").partition("; ")[2] or "it does not refuse"


def _reason_to_tell(finding: FindingRow, decided: dict[str, Any] | None) -> str:
    """Why nothing was done: the decision's own words, a graver fault that was acted on, or the tier."""
    if decided is not None and decided.get("action") not in _DRAINS:
        return str(decided.get("why") or "no reason is on record")
    if decided is not None:
        why = str(decided.get("why") or "").partition("; ")[2]
        word = f"it called for a {'drain' if decided.get('action') == 'drain' else 'refusal'}"
        return f"{word}, and another fault came first" + (f" ({why})" if why else "")
    if finding.status == WARN:
        return "a warning is never acted on"
    return "no decision about it is on record"


def _weigh_phase(one: Evidence, share: NodeShare, before: set[tuple[str, str]]) -> None:
    """When it was seen: new during the job is strongest."""
    known = (one.finding.fault, one.finding.device) in before
    if one.refusal:
        one.reasons.append("the prolog refused the job for it")
    elif one.phase == BEFORE:
        _limit(one, "medium", _let_in(share.prolog, one.finding))
    elif one.finding.event and _is_before(share, one.at):
        one.phase = BEFORE
        _limit(one, "medium", "it happened before the job began, and was first seen after that")
    elif one.phase == AFTER:
        _limit(one, "medium", "it was first seen within 5 minutes after the job's end")
    elif known and not one.finding.event:
        _limit(one, "medium", "it was there before the job began")
    elif one.seen_by == "epilog":
        one.reasons.append("the epilog saw it and the prolog did not: it is new since the job began")
        if share.prolog is None:
            one.reasons[-1] = "the epilog saw it; without the prolog's run it may be older than the job"
            _limit(one, "medium", "")
    else:
        _weigh_window(one, share)


def _weigh_window(one: Evidence, share: NodeShare) -> None:
    """Seen between prolog and epilog: the last 10 minutes count."""
    end = share.allocation.closed
    if end is None:
        one.reasons.append("it was seen while the job runs")
    elif one.at >= end - rules.BEFORE_END_MS:
        one.reasons.append("it was seen in the job's last 10 minutes")
    elif one.finding.event:
        _limit(one, "medium", "it happened during the job, earlier than its last 10 minutes")
    else:
        _limit(one, "weak", "it was seen earlier than the job's last 10 minutes")


def _weigh_device(one: Evidence, share: NodeShare) -> None:
    """Whose device it was."""
    device = one.finding.device or "the node"
    if one.given is True:
        one.reasons.append(f"{device} was given to this job")
    elif one.given is False:
        _limit(one, "weak", f"{device} was not given to this job")
    elif one.finding.device.startswith("gpu") and share.allocation.gpus:
        _limit(one, "medium", f"whether {device} was given to this job cannot be told from the records")


def _limit(one: Evidence, grade: str, reason: str) -> None:
    if reason:
        one.reasons.append(reason)
    if rules.GRADES.index(grade) < rules.GRADES.index(one.grade):
        one.grade = grade


def _when(finding: FindingRow, run: RunRow) -> int:
    """When it happened: the finding's own time if it has one that makes sense, else the run's."""
    if finding.since:
        try:
            return min(milliseconds(finding.since, "since"), run.ended)
        except RecordError:
            return run.started
    return run.started
