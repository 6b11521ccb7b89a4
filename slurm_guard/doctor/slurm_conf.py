"""What slurm.conf says about hooks: are ours called, on which nodes, and what becomes of a refused job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.doctor import programs
from slurm_guard.doctor.advice import Advice, Topic
from slurm_guard.doctor.shims import stable_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_guard.config.slurm_conf import SlurmConf
    from slurm_guard.doctor.subject import Subject

TOPIC = Topic("slurm.conf")
#: From this many seconds on slurmd's healthchecks cannot overlap: it ends each of them after 60.
_SAFE_INTERVAL_S = 60
_SET_CONF = "set `conf` in [slurm] of slurm-guard.toml, then `sguard config apply`"


def examine(subject: Subject) -> Iterator[Advice]:
    """All advice about slurm.conf."""
    conf = subject.slurm
    if conf is None:
        yield TOPIC.unknown(
            "no slurm.conf found",
            remedy=_SET_CONF,
        )
        return
    if subject.conf_place.source == "environment":
        yield TOPIC.warn(
            "slurm.conf is known from $SLURM_CONF alone: hooks do not see it", conf.path, _SET_CONF
        )
    if not conf.files:
        yield TOPIC.unknown(
            f"cannot be read: {conf.problems[0]}", conf.path, f"make it readable, or {_SET_CONF}"
        )
        return
    for problem in conf.problems:
        yield TOPIC.warn(
            f"not readable: {problem}", conf.path, "correct the Include line, or make it readable"
        )
    yield from _hook(subject, "prolog", "Every job starts unchecked.")
    yield from _hook(subject, "epilog", "Faults during a job are not seen before the next one starts.")
    yield from _hook(subject, "healthcheck", "Idle nodes are not checked, and drained ones never come back.")
    yield from _flags(conf)
    yield from _requeue(conf)
    yield from _interval(conf)
    yield from _node_state(conf)


def _hook(subject: Subject, hook: str, without: str) -> Iterator[Advice]:
    key = programs.SETTINGS[hook]
    found = programs.find(subject, hook)
    path = stable_path(hook)
    assert subject.slurm is not None
    yield from _relative(key, path, subject.slurm)
    if not found.lines:
        yield TOPIC.warn(f"no {key}: {without}", subject.slurm.path, f"add `{key}={path}`")
        return
    if not any(program.ours for program in found.programs):
        yield TOPIC.warn(
            f"{key} does not call the guard. {without}", found.lines[0], _beside(key, hook, found)
        )
        return
    yield TOPIC.good(f"{key} calls the guard", next(one.where for one in found.programs if one.ours))
    yield from _several_lines(key, found)
    yield from _order(hook, found)


def _relative(key: str, path: str, conf: SlurmConf) -> Iterator[Advice]:
    """Releases before 23.02 look for it in slurmd's working directory, do not find it, and drain the node."""
    for one in conf.all(key):
        if one.value and not one.value.startswith("/"):
            yield TOPIC.warn(
                f"{key}={one.value} is no absolute path: only configless Slurm from 23.02 on brings it to "
                "the nodes, any other cannot start it",
                f"{one.file}:{one.line}",
                f"set `{key}={path}`: the link is the same on every node, with or without slurm.conf there",
            )


def _beside(key: str, hook: str, found: programs.Hook) -> str:
    """How to add ours to what the site has, replacing nothing."""
    name = f"00-sguard-{hook}"
    if hook == "healthcheck":
        return f"call {stable_path(hook)} from it: {key} takes one program only"
    value = found.lines[0].rpartition(" (")[0]
    if "*" in value:
        folder = value.rpartition("/")[0]
        return f"link {stable_path(hook)} as {folder}/{name}: it sorts first, so slurmd runs it last"
    return (
        f"make a folder, move {value} into it, link the guard there as {name}, and set `{key}=FOLDER/*`: "
        "slurmd runs the files in reverse order of their names and stops at the first that fails"
    )


def _several_lines(key: str, found: programs.Hook) -> Iterator[Advice]:
    if len(found.lines) > 1:
        yield TOPIC.warn(
            f"{len(found.lines)} {key} lines: some releases of Slurm use only the last ({found.lines[-1]})",
            found.lines[0],
            f"put the scripts into one folder and set `{key}=FOLDER/*`",
        )


def _order(hook: str, found: programs.Hook) -> Iterator[Advice]:
    """Ours should run last: a refusal skips what comes after, and an epilog should see a node cleaned up."""
    position = max(index for index, program in enumerate(found.programs) if program.ours)
    later = [program.path.rpartition("/")[2] for program in found.programs[position + 1 :]]
    if not later or hook == "healthcheck":
        return
    why = "a refusal skips them" if hook == "prolog" else "what they clean up is reported as left over"
    yield TOPIC.warn(
        f"{', '.join(later)} run(s) after the guard's {hook}: {why}",
        found.programs[position].path,
        f"let the guard's sort first, e.g. as 00-sguard-{hook}: slurmd runs them in reverse order",
    )


def _flags(conf: SlurmConf) -> Iterator[Advice]:
    flags = conf.words("PrologFlags")
    where = conf.place("PrologFlags")
    if "alloc" in flags or "contain" in flags or "x11" in flags:
        yield TOPIC.good("PrologFlags: the prolog runs on every node of a job", where)
    else:
        yield TOPIC.warn(
            "PrologFlags without Alloc: the prolog runs only where a job's first step starts",
            where,
            "set `PrologFlags=Alloc` (with any flags that are there now)",
        )
    if "runinjob" in flags:
        yield TOPIC.warn(
            "PrologFlags=RunInJob: hooks are confined to the job's cgroup and see the job's GPUs only; "
            "all others are judged as unknown",
            where,
            "remove RunInJob, or accept that a job's neighbours are checked by the healthcheck alone",
        )


def _requeue(conf: SlurmConf) -> Iterator[Advice]:
    where = conf.place("SchedulerParameters")
    if "nohold_on_prolog_fail" in conf.words("SchedulerParameters"):
        yield TOPIC.good("a job that a prolog refuses is requeued without being held", where)
    else:
        yield TOPIC.warn(
            "a job that a prolog refuses is held, and somebody must release it",
            where,
            "add `nohold_on_prolog_fail` to SchedulerParameters",
        )


def _interval(conf: SlurmConf) -> Iterator[Advice]:
    if not conf.last("HealthCheckProgram"):
        return
    interval = conf.number("HealthCheckInterval") or 0
    where = conf.place("HealthCheckInterval")
    remedy = "set `HealthCheckInterval=300`"
    if interval <= 0:
        yield TOPIC.bad("HealthCheckInterval is 0: the healthcheck never runs", where, remedy)
    elif interval <= _SAFE_INTERVAL_S:
        yield TOPIC.warn(
            f"HealthCheckInterval={interval:g}: a slow healthcheck can still run when the next one starts",
            where,
            remedy,
        )
    else:
        yield TOPIC.good(f"a healthcheck every {interval:g} s", where)


def _node_state(conf: SlurmConf) -> Iterator[Advice]:
    if not conf.last("HealthCheckProgram"):
        return
    states = set(conf.words("HealthCheckNodeState")) or {"any"}
    where = conf.place("HealthCheckNodeState")
    remedy = "set `HealthCheckNodeState=ANY,CYCLE`"
    if "any" not in states and states != {"cycle"}:
        yield TOPIC.warn(
            f"HealthCheckNodeState={','.join(sorted(states)).upper()}: other nodes are not checked, "
            "drained ones included: they may never be returned",
            where,
            remedy,
        )
    elif "cycle" not in states:
        yield TOPIC.warn("HealthCheckNodeState has no CYCLE: all nodes check at once", where, remedy)
    else:
        yield TOPIC.good("healthchecks run on nodes in any state, spread over the interval", where)
