"""Coming back on a real Slurm: relapses and flapping nodes stay, an admin's resume is a new beginning."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .conftest import Guarded, guarded

LINK = "SG:ib_link.down mlx5_0/1"


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Guarded]:
    with guarded(nodes=2) as found:
        yield found


def in_service(cluster: Guarded) -> bool:
    """Not drained; right after a resume Slurm shows `idle*` until the node answers a ping."""
    return not cluster.state("n1").startswith("drain")


def break_link(cluster: Guarded, runs: int) -> None:
    cluster.cluster.node("n1").fault("ib_link.down", "mlx5_0/1")
    for _ in range(runs):
        cluster.healthcheck("n1")


def mend_link(cluster: Guarded, runs: int) -> None:
    cluster.cluster.node("n1").clear()
    for _ in range(runs):
        cluster.healthcheck("n1")


def held(cluster: Guarded) -> list[str]:
    """Why the node's return was held, each time that this was told."""
    actions = [action for record in cluster.records("n1") for action in record["actions"]]
    return [one["why"] for one in actions if (one["action"], one["outcome"]) == ("resume", "held")]


def test_a_relapse_drains_at_once_and_stays_until_an_admin_resumes(cluster: Guarded) -> None:
    cluster.configure(clean_runs=2, watch_s=3600)
    break_link(cluster, 1)
    assert in_service(cluster)  # one bad run may be a fluke
    break_link(cluster, 1)
    assert (cluster.state("n1"), cluster.reason("n1")) == ("drained", LINK)
    mend_link(cluster, 2)
    cluster.wait(lambda: cluster.state("n1") == "idle")
    break_link(cluster, 1)
    assert (cluster.state("n1"), cluster.reason("n1")) == ("drained", LINK)
    mend_link(cluster, 4)
    assert cluster.state("n1") == "drained"
    (why,) = held(cluster)
    assert "ib_link.down mlx5_0/1 came back" in why
    assert "until an admin resumes it" in why
    cluster.slurm("scontrol", "update", "nodename=n1", "state=resume")
    mend_link(cluster, 2)
    break_link(cluster, 1)
    assert in_service(cluster)  # begun anew: one bad run may be a fluke again
    break_link(cluster, 1)
    assert cluster.state("n1") == "drained"
    mend_link(cluster, 2)
    cluster.wait(lambda: cluster.state("n1") == "idle")


def test_another_fault_within_the_watch_is_no_relapse(cluster: Guarded) -> None:
    cluster.configure(clean_runs=1, watch_s=3600)
    break_link(cluster, 2)
    mend_link(cluster, 1)
    cluster.wait(lambda: cluster.state("n1") == "idle")
    cluster.cluster.node("n1").fault("ib_link.down", "mlx5_3/1")
    cluster.healthcheck("n1")
    assert in_service(cluster)
    cluster.healthcheck("n1")
    assert cluster.reason("n1") == "SG:ib_link.down mlx5_3/1"
    mend_link(cluster, 1)
    cluster.wait(lambda: cluster.state("n1") == "idle")


def test_a_node_that_flaps_stays(cluster: Guarded) -> None:
    cluster.configure(clean_runs=1, flaps=2)
    for _ in range(2):
        break_link(cluster, 2)
        assert cluster.state("n1") == "drained"
        mend_link(cluster, 1)
        cluster.wait(lambda: cluster.state("n1") == "idle")
    break_link(cluster, 2)
    mend_link(cluster, 3)
    assert (cluster.state("n1"), cluster.reason("n1")) == ("drained", LINK)
    (why,) = held(cluster)
    assert "has returned 2 times within 24 h" in why


def test_clean_runs_must_last(cluster: Guarded) -> None:
    cluster.configure(clean_runs=2, clean_s=3600)
    break_link(cluster, 2)
    mend_link(cluster, 5)
    assert (cluster.state("n1"), cluster.reason("n1")) == ("drained", LINK)
    cluster.configure(clean_runs=2, clean_s=0)
    cluster.healthcheck("n1")
    cluster.wait(lambda: cluster.state("n1") == "idle")
