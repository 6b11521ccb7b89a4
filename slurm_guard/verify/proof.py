"""What the answer of a node's own healthcheck proves."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from slurm_guard.core.outcome import FAIL, TIMEOUT, WARN
from slurm_guard.core.policy import DRAIN_TIERS
from slurm_guard.slurm.values import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurm_guard.core.plan import Plan
    from slurm_guard.slurm.command import Reply

_LONGEST = 300


@dataclass
class Proof:
    """Is the node clean, and the sentence for it; `found` is what else its healthcheck had to say."""

    clean: bool
    why: str
    passed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The proof as `sguard resume --verify --json` tells it."""
        return asdict(self)


def judge(reply: Reply, plan: Plan, node: str, wanted: Iterable[str]) -> Proof:
    """Clean is a node without a fault of a drain tier, on which each of the `wanted` checks could judge.

    `reply` is what the job said: the JSON of `sguard check run`. Anything else proves nothing.
    """
    answer = _answer(reply.output, node)
    if answer is None:
        said = one_line(reply.problem or reply.output.decode("utf-8", "replace"))[:_LONGEST]
        return Proof(False, f"no verdict from {node}: {said or 'no word'} (exit status {reply.status})")
    passed, skipped, results = answer
    findings = [one for result in results for one in result["findings"]]
    bad = [_name(one) for one in findings if _is_bad(one, plan)]
    judged = {*passed, *(str(one["check"]) for one in results if one.get("status") == WARN)}
    open_ones = sorted(set(wanted) - judged)
    found = [f"{one.get('status')}: {_name(one)}: {one.get('message')}" for one in findings]
    proof = Proof(not bad and not open_ones, "", passed, skipped, found)
    if bad:
        proof.why = f"its healthcheck found {', '.join(dict.fromkeys(bad))}"
    elif open_ones:
        proof.why = f"its healthcheck could not judge {', '.join(open_ones)}"
    else:
        others = f", {len(skipped)} skipped" if skipped else ""
        unlike = f", {len(results)} with remarks" if results else ""
        many = "check" if len(passed) == 1 else "checks"
        proof.why = f"proven: {len(passed)} {many} passed on it{others}{unlike}"
    return proof


def _answer(output: bytes, node: str) -> tuple[list[str], list[str], list[dict[str, Any]]] | None:
    """What passed, what was skipped, the other results; None for anything but this node's answer."""
    try:
        answer = json.loads(output)
        if (answer["kind"], answer["node"]) != ("check_run", node) or answer["plan"]["state"] != "ok":
            return None
        passed, skipped = [str(one) for one in answer["passed"]], [str(one) for one in answer["skipped"]]
        results = [
            {**one, "findings": [dict(found) for found in one["findings"]]} for one in answer["results"]
        ]
        return passed, skipped, results
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _is_bad(finding: dict[str, Any], plan: Plan) -> bool:
    tier = plan.tier(str(finding.get("fault")), str(finding.get("tier")))
    return finding.get("status") in (FAIL, TIMEOUT) and tier in DRAIN_TIERS


def _name(finding: dict[str, Any]) -> str:
    return f"{finding.get('fault')} {finding.get('device') or ''}".strip()
