"""The whole way with a collector that acts: a fault, a healthcheck, its drain, and the node's own return."""

from __future__ import annotations

import sqlite3

import pytest

from tests.cluster import test_one_place as place
from tests.cluster.conftest import Guarded

REASON = "SG:gpu_count.lost gpu3"
RETURN = "[return]\nclean_runs = 1\nclean_s = 0\nwatch_s = 0\nflaps = 0\n\n[budget]"


def collectors_actions(head: place.Head) -> list[tuple[str, str, str]]:
    """(node, action, outcome) of what the collector did."""
    path = head.root / "var/lib/slurm-guard/store.sqlite"
    ask = (
        "SELECT n.name, a.action, a.outcome FROM actions a JOIN runs r ON r.id=a.run "
        "JOIN nodes n ON n.id=a.node_id WHERE r.hook=? AND a.action IN ('drain', 'resume') "
        "AND a.outcome='done' ORDER BY a.id"
    )
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30) as store:
        return store.execute(ask, ("collector",)).fetchall()


def checked_until(cluster: Guarded, node: str, state: str) -> None:
    """Healthchecks, one after the other, until Slurm says so of the node."""

    def is_so() -> bool:
        cluster.healthcheck(node)
        return cluster.state(node).rstrip("*") == state

    cluster.wait(is_so, 120)


@pytest.mark.timeout(400)
def test_the_collector_drains_and_the_node_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    text = place.CONFIG.replace("jitter_s = 0.2\n", "jitter_s = 0.2\nacting = true\n")
    monkeypatch.setattr(place, "CONFIG", text.replace("[budget]", RETURN))
    with place.head_and_nodes(2) as (head, cluster):
        wanted = head.configure()
        head.start()

        def all_have_it() -> bool:
            for name in cluster.names:
                cluster.healthcheck(name)
            return all(place.hash_of(cluster.root(name)) == wanted for name in cluster.names)

        cluster.wait(all_have_it, 60)
        node = cluster.cluster.node("n1")
        node.fault("gpu_count.lost", "gpu3")
        cluster.healthcheck("n1")
        cluster.wait(lambda: cluster.reason("n1") == REASON, 60)
        cluster.wait(lambda: collectors_actions(head) == [("n1", "drain", "done")], 30)
        assert cluster.state("n2") == "idle"
        requests = cluster.root("n1") / "var/lib/slurm-guard/requests"
        assert list(requests.glob("drain.*")) == [], "the node keeps no request of its own"
        node.clear()
        node.reboot()  # what the kernel logged is over by that alone
        checked_until(cluster, "n1", "idle")
        assert collectors_actions(head) == [("n1", "drain", "done")]
