"""A job that breaks every node it is given, and a user whose jobs do, cost two nodes and no more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .conftest import Guarded, guarded

NODES = [f"n{i}" for i in range(1, 7)]
#: A user of the system who is not root, whose jobs count.
USER = "games"


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Guarded]:
    with guarded(nodes=6) as found:
        yield found


def drained(cluster: Guarded) -> set[str]:
    return {node for node in NODES if cluster.state(node).startswith("drain")}


def everywhere(cluster: Guarded, node: str = "") -> None:
    """GPU 0 is lost on every node but the one named: whoever gets it is refused."""
    for name in NODES:
        if name != node:
            cluster.cluster.node(name).fault("gpu_count.lost", "gpu0")


def submit(cluster: Guarded, *options: str) -> int:
    return cluster.submit("--uid", USER, "-D", "/tmp", "--gres=gpu:8", *options, script="true")


def restarted(cluster: Guarded, job: int, times: int) -> bool:
    """Has the job been refused so often? Slurm lets a requeued job wait two minutes: not here."""
    seen = cluster.job(job)
    if seen["JobState"] == "PENDING" and seen["Reason"] in ("BeginTime", "JobHeldAdmin"):
        cluster.slurm("scontrol", "release", str(job), check=False)
        cluster.slurm("scontrol", "update", f"jobid={job}", "starttime=now", check=False)
    return int(seen["Restarts"]) >= times


def held_for(cluster: Guarded, limit: str) -> list[str]:
    """Why drains were held for a limit, over all nodes."""
    return [
        action["why"]
        for node in NODES
        for record in cluster.records(node)
        for action in record["actions"]
        if action["outcome"] == "held" and action.get("limit") == limit
    ]


def test_a_job_that_is_requeued_from_node_to_node_costs_two(cluster: Guarded) -> None:
    cluster.configure(budget=6, nodes_per_user=0)
    everywhere(cluster)
    job = submit(cluster)
    cluster.wait(lambda: restarted(cluster, job, 2) and cluster.job(job)["JobState"] == "COMPLETED")
    assert cluster.job(job)["Restarts"] == "2"  # the third node took it, broken as it is
    assert len(drained(cluster)) == 2
    assert held_for(cluster, "job")
    assert all(f"job {job} cost 2 nodes in 24 h" in why for why in held_for(cluster, "job"))


def test_the_jobs_of_one_user_cost_two_over_returns_and_a_restarted_controller(cluster: Guarded) -> None:
    cluster.configure(budget=6, nodes_per_job=0)
    everywhere(cluster)
    first, second = submit(cluster, "-w", "n1"), submit(cluster, "-w", "n2")
    cluster.wait(lambda: drained(cluster) == {"n1", "n2"})
    cluster.slurm("scancel", str(first), str(second))
    for node in ("n1", "n2"):
        cluster.slurm("scontrol", "update", f"nodename={node}", "state=resume")
    cluster.cluster.stop_controller()
    cluster.cluster.start_controller()
    cluster.wait(lambda: cluster.state("n3") == "idle")
    third = submit(cluster, "-w", "n3")
    cluster.wait(lambda: cluster.job(third)["JobState"] == "COMPLETED")
    assert drained(cluster) == set()
    assert held_for(cluster, "user")
    assert all("2 nodes in 24 h (n1, n2)" in why for why in held_for(cluster, "user"))


def test_a_persons_comment_is_never_written_over(cluster: Guarded) -> None:
    cluster.configure(budget=6)
    cluster.slurm("scontrol", "update", "nodename=n4", "comment=rack 7, new riser, mira")
    everywhere(cluster)
    submit(cluster, "-w", "n4")
    cluster.wait(lambda: cluster.state("n4").startswith("drain"))
    assert "Comment=rack 7, new riser, mira" in cluster.slurm("scontrol", "show", "node", "n4")
    cluster.slurm("scontrol", "update", "nodename=n4", "comment=")
