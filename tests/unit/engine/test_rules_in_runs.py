"""Rules of the plan in whole runs of the hooks: repeats, boots, quiet hours, idle nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .test_hook import write_plan

if TYPE_CHECKING:
    from .conftest import NodeRoot

TWICE = {"fault": "gpu_xid.31", "escalate": {"after": 2, "within_s": 86400, "tier": "DRAIN_RESET"}}


def plan(node: NodeRoot, *rules: dict[str, Any]) -> None:
    profile = {"rules": [{"source": f"rule #{i}", **rule} for i, rule in enumerate(rules, 1)]}
    write_plan(node, profiles=[{**profile, "checks": {"gpu_xid": {}}}])


def say(node: NodeRoot, sequence: int, second: int, code: int = 31) -> None:
    line = (
        f"4,{sequence},{second}000000,-;NVRM: Xid (PCI:0000:4b:00): {code}, pid=77, name=a.out, MMU Fault\n"
    )
    with (node.root / "dev/kmsg").open("a") as file:
        file.write(line)


def decided(node: NodeRoot) -> list[tuple[str, str, str]]:
    """(action, tier, fault) of the last run."""
    decisions = node.records()[-1]["decisions"]
    return [(one["action"], one["tier"], one["fault"]) for one in decisions]


def test_a_repeat_escalates_and_the_epilog_s_second_look_is_none(node: NodeRoot) -> None:
    plan(node, TWICE)
    node.run("healthcheck")
    node.run("prolog", job=4)
    say(node, 2, 300)
    node.run("healthcheck")
    assert decided(node) == [("tell", "JOB", "gpu_xid.31")]
    node.run("epilog", job=4)
    assert decided(node) == [("tell", "JOB", "gpu_xid.31")]
    say(node, 3, 900)
    node.run("healthcheck")
    assert decided(node) == [("drain", "DRAIN_RESET", "gpu_xid.31")]
    (made,) = node.records()[-1]["decisions"]
    assert made["rules"] == ["rule #1"]
    assert "began 2 times within 24 h" in made["why"]


def test_an_escalated_event_stays_open_until_a_boot(node: NodeRoot) -> None:
    plan(node, TWICE)
    node.run("healthcheck")
    for sequence in (2, 3):
        say(node, sequence, 300 * sequence)
        node.run("healthcheck")
    faults = (node.root / "var/lib/slurm-guard/faults.json").read_text()
    assert '"gpu_xid.31' in faults
    node.run("healthcheck")
    assert [one["fault"] for one in node.records()[-1]["decisions"]] == ["gpu_xid.31"]


def test_repeats_are_counted_over_boots(node: NodeRoot) -> None:
    plan(node, TWICE)
    node.run("healthcheck")
    say(node, 2, 300)
    node.run("healthcheck")
    boot = node.root / "proc/sys/kernel/random/boot_id"
    boot.write_text("77777777-0000-4000-8000-00000000000b\n")
    (node.root / "dev/kmsg").write_text("6,1,100,-;Linux version 6.1.0\n")
    say(node, 2, 300)
    node.run("healthcheck")
    assert decided(node) == [("drain", "DRAIN_RESET", "gpu_xid.31")]


def test_without_a_rule_that_asks_nothing_is_kept(node: NodeRoot) -> None:
    plan(node, {"fault": "gpu_xid.31", "tier": "WARN"})
    node.run("healthcheck")
    say(node, 2, 300)
    node.run("healthcheck")
    assert decided(node) == [("tell", "WARN", "gpu_xid.31")]
    assert not (node.root / "var/lib/slurm-guard/sightings.json").exists()


def test_an_event_of_quiet_hours_is_acted_on_when_they_are_over(node: NodeRoot) -> None:
    plan(node, {"fault": "*", "quiet": ["00:00-24:00"]})
    node.run("healthcheck")
    say(node, 2, 300, code=48)
    node.run("healthcheck")
    assert decided(node) == [("tell", "DRAIN_RESET", "gpu_xid.48")]
    assert "quiet hours until 24:00" in node.records()[-1]["decisions"][0]["why"]
    plan(node)
    node.run("healthcheck")
    assert decided(node) == [("drain", "DRAIN_RESET", "gpu_xid.48")]


def test_a_node_is_idle_when_no_allocation_is_open(node: NodeRoot) -> None:
    plan(node, {"fault": "gpu_xid", "node": "idle", "tier": "NOTE"})
    node.run("healthcheck")
    say(node, 2, 300, code=48)
    node.run("healthcheck")
    assert decided(node) == [("tell", "NOTE", "gpu_xid.48")]
    node.run("prolog", job=9)
    say(node, 3, 400, code=95)
    node.run("healthcheck")
    assert ("drain", "DRAIN_RESET", "gpu_xid.95") in decided(node)


def test_an_event_that_is_still_open_does_not_begin_once_more(node: NodeRoot) -> None:
    """One Xid 48, held back at night and looked at again and again, is no second one."""
    rule = {"fault": "gpu_xid.48", "escalate": {"after": 2, "within_s": 86400, "tier": "DRAIN_RMA"}}
    plan(node, {"fault": "*", "quiet": ["00:00-24:00"]}, rule)
    node.run("healthcheck")
    say(node, 2, 300, code=48)
    node.run("healthcheck")
    known = node.root / "var/lib/slurm-guard/sightings.json"
    long_ago = json.loads(known.read_text())
    for entry in long_ago["faults"].values():
        entry.update(last=entry["last"] - 3600, began=[at - 3600 for at in entry["began"]])
    known.write_text(json.dumps(long_ago))
    node.run("healthcheck")
    assert decided(node) == [("tell", "DRAIN_RESET", "gpu_xid.48")]


def test_a_drain_that_waits_stays_that_of_the_job_that_saw_it_first(node: NodeRoot) -> None:
    write_plan(
        node,
        programs=dict.fromkeys(("sinfo", "scontrol", "squeue", "sacct"), "/bin/false"),
        profiles=[{"checks": {"gpu_xid": {}}, "modes": [["*", "*", "enforce"]]}],
    )
    node.run("healthcheck")
    node.run("prolog", job=9)
    say(node, 2, 300, code=95)
    node.run("epilog", job=9)
    waiting = node.root / "var/lib/slurm-guard/requests"
    for _ in range(2):
        request = json.loads(next(waiting.glob("drain.*")).read_text())
        assert (request["jobs"], request["users"]) == ([9], [1204])
        node.run("healthcheck")
