"""The node plan: there, whole, fresh, for this node, and the same as the configuration says."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_guard.config import host as host_module
from slurm_guard.config.compile import compile_bundle
from slurm_guard.core import check as registry
from slurm_guard.doctor.advice import Advice, Topic
from slurm_guard.probes import infiniband

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from slurm_guard.doctor.subject import Subject

TOPIC = Topic("plan")
_APPLY = "run `sguard config apply`"


def examine(subject: Subject) -> Iterator[Advice]:
    """All advice about plan and configuration."""
    if subject.plan.state == "default" and not subject.reading.files and not subject.reading.problems:
        yield TOPIC.warn(
            "no configuration and no plan: the built-in defaults apply, and nothing is ever drained",
            subject.places.config,
            "`sguard init --write`, then `sguard config apply`",
        )
    else:
        yield from _configuration(subject)
        yield from _state(subject)
    if subject.plan.state in ("ok", "stale"):
        yield from _same_as_configured(subject)
        yield from _this_node(subject)
        yield from _expected(subject)
    yield from _modes(subject)


def _configuration(subject: Subject) -> Iterator[Advice]:
    for problem in subject.reading.problems:
        said = problem.beside(subject.reading.folder)
        yield TOPIC.bad(f"configuration: {said}", problem.file, "correct it, then `sguard config apply`")
    if not subject.reading.files and subject.plan.state in ("ok", "stale"):
        yield TOPIC.skip("no configuration here: the plan was made elsewhere", subject.places.config)
        return
    for note in subject.reading.notes:
        remedy = "`sguard config check`" if subject.reading.files else "`sguard init` shows one"
        yield TOPIC.warn(note, subject.places.config, remedy)
    if subject.reading.files and not subject.reading.problems:
        yield TOPIC.good(
            f"configuration without errors, files: {len(subject.reading.files)}", subject.places.config
        )


def _state(subject: Subject) -> Iterator[Advice]:
    plan, path = subject.plan, subject.places.plan
    if plan.state == "ok":
        yield TOPIC.good(f"plan {plan.hash}, {_age(plan.built_at)}, nodes: {len(plan.all_nodes)}", path)
    elif plan.state in ("default", "stale"):
        yield TOPIC.warn(plan.problem.partition("; run ")[0], path, _APPLY)
    else:
        yield TOPIC.bad(f"{plan.problem.partition('; run ')[0]}: the built-in defaults apply", path, _APPLY)


def _age(built_at: float) -> str:
    hours = max(time.time() - built_at, 0) / 3600
    return f"{hours:.0f} h old" if hours < 72 else f"{hours / 24:.0f} days old"


def _same_as_configured(subject: Subject) -> Iterator[Advice]:
    """Only where there is a configuration: some nodes get their plan from elsewhere."""
    reading = subject.reading
    if reading.config is None or not reading.files:
        return
    host = host_module.look(subject.places, reading.config)
    bundle = compile_bundle(reading.config, host, reading.catalogue, 0)
    if bundle["hash"] != subject.plan.hash:
        yield TOPIC.warn("the configuration was changed since the plan was made", subject.places.plan, _APPLY)


def _this_node(subject: Subject) -> Iterator[Advice]:
    if subject.plan.all_nodes and not subject.plan.node_class:
        yield TOPIC.warn(
            f"node {subject.node!r} is in no class: nothing is expected of it (counts, mounts, references)",
            subject.places.plan,
            'name it in a [[class]]; if the host name is not its NodeName, write {"node": NAME} to node.json',
        )


def _expected(subject: Subject) -> Iterator[Advice]:
    """Checks that have nothing to compare with: they find nothing, and a reader takes that for health."""
    if not subject.plan.node_class:
        return
    for name in sorted(registry.names() if subject.plan.checks is None else subject.plan.checks):
        try:
            check = registry.load(name)
        except Exception:  # noqa: BLE001, S112 - whatever a site's check raises; another line names it
            continue
        if registry.lacks_expectation(check, subject.plan):
            what = f"{name}: nothing expected in class {subject.plan.node_class} (`{check.expects}`)"
            yield _is_worth_telling(subject, check.expects)(
                what, subject.places.config, _remedy(name, check.expects)
            )


def _is_worth_telling(subject: Subject, expects: str) -> Callable[[str, str, str], Advice]:
    """A warning for what every node has, or this one; other things a site may well be without."""
    ports = Path(subject.places.below(infiniband.FOLDER))
    has_ports = ports.is_dir() and any(ports.iterdir())
    is_there = expects == "mounts" or (expects == "ib_ports" and has_ports)
    return TOPIC.warn if is_there else lambda what, where, _: TOPIC.skip(what, where)


def _remedy(name: str, expects: str) -> str:
    """How a site says what it expects, or that it expects nothing."""
    table = "[[class.mounts]]" if expects == "mounts" else f"`{expects}` in its [[class]]"
    missed = "; else one that hangs or is missing is not seen" if expects == "mounts" else ""
    return f"name them in {table}{missed}; or `enabled = false` in [class.checks.{name}]"


def _modes(subject: Subject) -> Iterator[Advice]:
    enforced = sorted({rule[1] for rule in subject.plan.modes if rule[2] == "enforce"})
    if enforced:
        words = ", ".join("everything" if action == "*" else action for action in enforced)
        yield TOPIC.good(f"enforced here for some checks: {words}", subject.places.plan)
    else:
        yield TOPIC.skip(
            "observe: no node is drained, resumed or refused, only recorded", subject.places.plan
        )
