"""A day of faults on a real Slurm ends with the drains, returns and incidents of a table, and no others."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import SGUARD, guarded, soak
from .day import ADMIN, TICKET, Oracle, Story, draw

if TYPE_CHECKING:
    from .conftest import Guarded

NODES, SEEDS, SHARE = soak(5, 64), soak(1, 20), soak(0.8, 0.6)
BUDGET, PER_HOUR = soak(2, 6), soak(3, 15)


def healthchecks(cluster: Guarded, nodes: list[str], times: int) -> None:
    with ThreadPoolExecutor(4) as pool:
        for _ in range(times):
            list(pool.map(cluster.healthcheck, nodes))


def happen(cluster: Guarded, story: Story, event: str) -> None:
    node = cluster.cluster.node(story.node)
    if event == "break":
        node.fault(story.fault, story.device)
    elif event in ("mend", "reboot"):
        node.clear()
        if event == "reboot":
            node.reboot()
    elif event in ("admin", "edit"):
        reason = ADMIN if event == "admin" else story.reason + TICKET
        cluster.slurm("scontrol", "update", f"nodename={story.node}", "state=drain", f"reason={reason}")
    elif event == "release":
        cluster.slurm("scontrol", "update", f"nodename={story.node}", "state=resume")


def written(cluster: Guarded, node: str) -> list[tuple[str, str]]:
    """What the guard did to a node in Slurm, in order."""
    actions = [action for record in cluster.records(node) for action in record["actions"]]
    return [
        (one["action"], one["reason"])
        for one in actions
        if one["outcome"] == "done" and one.get("written") and one["action"] in ("drain", "resume")
    ]


def incidents(cluster: Guarded) -> tuple[set[tuple[str, frozenset[str]]], set[str], bool]:
    """(cause without the kind of device, nodes) of each, their states, and whether the budget is one."""
    head = cluster.directory / "head"
    head.mkdir()
    spools = [str(cluster.root(node) / "var/lib/slurm-guard/spool") for node in cluster.names]
    ask(["ingest", *spools, "--root", str(head)])
    found = json.loads(ask(["incidents", "--state", "all", "--json", "--root", str(head)]))["incidents"]
    of_budget = [one for one in found if one["cause"].startswith("budget ")]
    others = [one for one in found if one not in of_budget]
    named = {(" ".join(one["cause"].split()[:3]) if one["cause"].startswith("many nodes ") else
              " ".join(one["cause"].split()[:2]), frozenset(one["nodes"])) for one in others}  # fmt: skip
    return named, {one["state"] for one in others}, bool(of_budget)


def ask(arguments: list[str]) -> str:
    done = subprocess.run([str(SGUARD), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_day_of_faults(seed: int) -> None:
    settings: dict[str, Any] = {
        "budget": BUDGET,
        "per_hour": PER_HOUR,
        "clean_runs": 2,
        "watch_s": 86400,
        "flaps": 0,
    }
    chance = random.Random(1000 + seed)
    with guarded(nodes=NODES, settings=settings) as cluster:
        oracle, stories = Oracle(BUDGET, PER_HOUR), draw(cluster.names, seed, SHARE)
        healthchecks(cluster, cluster.names, 1)  # what is older than the first run is history
        for node in cluster.names:  # and slurmd's own first run came before the plan
            shutil.rmtree(cluster.root(node) / "var/lib/slurm-guard/spool")
        while waiting := [story for story in stories if story.left]:
            story = chance.choice(waiting)
            event, runs, expected = story.left.pop(0)
            happen(cluster, story, event)
            healthchecks(cluster, [story.node], runs)
            oracle.step(story, event, expected)
            told = f"{story.node}, {story.case}, after {event}: {expected} of {story.reason}"
            assert cluster.reason(story.node) == oracle.reasons.get(story.node, ""), told
            assert cluster.state(story.node).startswith("drain") is (story.node in oracle.reasons), told
        healthchecks(cluster, cluster.names, 3)
        assert {
            node: written(cluster, node) for node in cluster.names if written(cluster, node)
        } == oracle.done
        found, states, budget_reached = incidents(cluster)
        assert found == oracle.incidents()
        assert states <= {"resolved"}
        assert budget_reached is oracle.held
