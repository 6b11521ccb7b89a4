"""Slurm's time-outs beside the guard's own deadlines, and who Slurm says it is beside what the plan says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.doctor import conf_lines, shims
from slurm_guard.doctor.advice import Advice, Topic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_guard.config.slurm_conf import SlurmConf
    from slurm_guard.doctor.subject import Subject

TOPIC = Topic("slurm.conf")
#: What a hook may take beyond its deadline: ending its children, and the shim's own time.
_SLACK_S = 1.0
#: Slurm's value for "no limit", and its default for BatchStartTimeout.
_NO_LIMIT = 65534
_BATCH_START_S = 10.0


def examine(subject: Subject) -> Iterator[Advice]:
    """All advice about time-outs and identity in slurm.conf."""
    if subject.slurm is None or not subject.slurm.files:
        return
    deadlines = subject.plan.deadlines
    for key, hooks in (
        ("PrologEpilogTimeout", ("prolog", "epilog")),
        ("PrologTimeout", ("prolog",)),
        ("EpilogTimeout", ("epilog",)),
        ("HealthCheckTimeout", ("healthcheck",)),
    ):
        yield from _limit(subject.slurm, key, max((deadlines[hook], hook) for hook in hooks))
    yield from _batch_start(subject.slurm, deadlines["prolog"])
    yield from _owners(subject)
    yield from _cluster(subject)


def _limit(conf: SlurmConf, key: str, longest: tuple[float, str]) -> Iterator[Advice]:
    limit = conf.number(key)
    if limit is None or limit <= 0 or limit >= _NO_LIMIT:
        return
    deadline, hook = longest
    ends = f"{key}={limit:g}: slurmd ends the {hook} after {limit:g} s"
    if hook != "healthcheck":
        ends += " and drains the node"
    where = conf.place(key)
    shim_s = shims.LIMITS_S[hook]
    if limit <= deadline + _SLACK_S:
        yield TOPIC.bad(
            f"{ends}, before the guard's own deadline ({deadline:g} s)",
            where,
            f"set `{key}={_enough(deadline)}`, above what your own scripts take too; or a shorter `{hook}` "
            "in [deadlines]",
        )
    elif limit <= shim_s:
        yield TOPIC.warn(
            f"{ends}, before the shim's own limit for a guard that hangs ({shim_s} s)",
            where,
            f"set `{key}={_enough(deadline)}`, above what your own scripts take too",
        )
    else:
        yield TOPIC.good(f"{key}={limit:g} is above the guard's own deadline ({hook}: {deadline:g} s)", where)


def _enough(deadline: float) -> int:
    """A limit of slurmd's that is above every one of the guard's."""
    return max(conf_lines.TIMEOUT_S, round(deadline) + 20)


def _batch_start(conf: SlurmConf, deadline: float) -> Iterator[Advice]:
    limit = conf.number("BatchStartTimeout") or _BATCH_START_S
    if limit < deadline:
        yield TOPIC.warn(
            f"BatchStartTimeout={limit:g}: a job may be taken for lost while its prolog still "
            f"waits for a hang ({deadline:g} s)",
            conf.place("BatchStartTimeout"),
            f"set `BatchStartTimeout={deadline + 10:g}`",
        )


def _owners(subject: Subject) -> Iterator[Advice]:
    assert subject.slurm is not None
    user = (subject.slurm.last("SlurmUser") or "root").partition("(")[0]
    if user not in subject.plan.owners:
        yield TOPIC.warn(
            f"SlurmUser={user} is not among the plan's owners ({', '.join(subject.plan.owners)}): "
            "drains that Slurm sets for the guard count as somebody else's",
            subject.slurm.place("SlurmUser"),
            f'add "{user}" to `owners` in slurm-guard.toml, then `sguard config apply`',
        )


def _cluster(subject: Subject) -> Iterator[Advice]:
    assert subject.slurm is not None
    name = subject.slurm.last("ClusterName") or ""
    if subject.plan.cluster and name and name != subject.plan.cluster:
        yield TOPIC.bad(
            f"ClusterName={name}, but the plan is for cluster {subject.plan.cluster}",
            subject.slurm.place("ClusterName"),
            "set `cluster` in slurm-guard.toml to Slurm's name, then `sguard config apply`",
        )
