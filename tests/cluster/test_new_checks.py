"""A check that is new to the plan drains nobody in its first day, until an admin approves it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import SGUARD, Guarded, guarded

LINK = "SG:ib_link.down mlx5_0/1"
OFF = "\n[checks.ib_link]\nenabled = false\n"


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Guarded]:
    with guarded(nodes=2) as found:
        yield found


def apply(cluster: Guarded, *options: str) -> dict[str, Any]:
    command = [str(SGUARD), "config", "apply", "--json", "--root", str(cluster.root("n1")), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def test_a_new_check_is_observed_until_an_admin_approves_it(cluster: Guarded) -> None:
    settings = cluster.root("n1") / "etc/slurm-guard/slurm-guard.toml"
    whole = settings.read_text()
    settings.write_text(whole + OFF)
    assert apply(cluster)["new_checks"] == {}
    settings.write_text(whole)
    assert list(apply(cluster)["new_checks"]) == ["ib_link"]
    cluster.cluster.node("n1").fault("ib_link.down", "mlx5_0/1")
    for _ in range(3):
        cluster.healthcheck("n1")
    job = cluster.submit("-w", "n1", "--gres=gpu:8", script="true")
    cluster.wait(lambda: not cluster.unfinished([job]))
    assert cluster.state("n1") == "idle"
    (made,) = [one for one in cluster.records("n1")[-1]["decisions"] if one["fault"] == "ib_link.down"]
    assert made["mode"] == "observe"
    assert "ib_link is new to the plan: only observed until" in made["why"]
    # A known check drains all the while.
    cluster.cluster.node("n1").fault("gpu_count.lost", "gpu0")
    cluster.healthcheck("n1")
    assert cluster.reason("n1") == "SG:gpu_count.lost gpu0"
    cluster.cluster.node("n1").clear()
    cluster.slurm("scontrol", "update", "nodename=n1", "state=resume")
    assert apply(cluster, "--approve-new")["new_checks"] == {}
    cluster.cluster.node("n1").fault("ib_link.down", "mlx5_0/1")
    for _ in range(2):
        cluster.healthcheck("n1")
    assert cluster.reason("n1") == LINK
