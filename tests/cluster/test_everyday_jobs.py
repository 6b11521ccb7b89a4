"""Jobs of every kind on a real Slurm: arrays, het jobs, srun, salloc, requeues, shared nodes; node names."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

from minicluster import MiniclusterError
from slurm_guard.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from .conftest import Guarded

LOST = "SG:gpu_count.lost gpu0"


def hooks(cluster: Guarded, node: str, job: int) -> list[tuple[str, str]]:
    return [(one["hook"], one["status"]) for one in cluster.runs(node, job)]


def tasks(cluster: Guarded, array: int) -> dict[int, dict[str, str]]:
    """The fields of an array's tasks by their raw ids: hooks know no other."""
    lines = cluster.slurm("scontrol", "show", "job", "-o", str(array)).splitlines()
    found = [dict(word.partition("=")[::2] for word in line.split(" ") if "=" in word) for line in lines]
    return {int(one["JobId"]): one for one in found}


def test_each_task_of_an_array_is_on_record_under_its_own_id(cluster: Guarded) -> None:
    array = cluster.submit("--array=0-3", "-w", "n1", script="true")
    cluster.wait(lambda: len(tasks(cluster, array)) == 4)
    known = tasks(cluster, array)
    cluster.wait(lambda: all(len(hooks(cluster, "n1", task)) == 2 for task in known))
    assert all(hooks(cluster, "n1", task) == [("prolog", "pass"), ("epilog", "pass")] for task in known)


def test_a_refused_task_runs_elsewhere_and_its_siblings_are_left_alone(cluster: Guarded) -> None:
    cluster.cluster.node("n1").fault("gpu_count.lost", "gpu0")
    array = cluster.submit("--array=0-2", "--gres=gpu:8", "--exclude=n3,n4", script="true")
    cluster.wait(lambda: cluster.state("n1") == "drained")
    assert cluster.reason("n1") == LOST
    cluster.wait(lambda: len(tasks(cluster, array)) == 3)
    (refused,) = [task for task in tasks(cluster, array) if cluster.runs("n1", task)]
    cluster.wait(lambda: tasks(cluster, array)[refused]["Restarts"] == "1")
    cluster.slurm("scontrol", "update", f"jobid={refused}", "starttime=now")
    cluster.wait(lambda: all(one["JobState"] == "COMPLETED" for one in tasks(cluster, array).values()))
    ended = tasks(cluster, array)
    assert {one["NodeList"] for one in ended.values()} == {"n2"}
    assert [task for task, one in ended.items() if one["Restarts"] != "0"] == [refused]


def test_each_component_of_a_het_job_is_on_record_on_its_node(cluster: Guarded, tmp_path: Path) -> None:
    script = tmp_path / "het.sh"
    script.write_text("#!/bin/sh\n#SBATCH -w n1\n#SBATCH hetjob\n#SBATCH -w n2\nexec sleep 0.2\n")
    first = int(cluster.slurm("sbatch", "--parsable", "-o", "/dev/null", str(script)).partition(";")[0])
    cluster.wait(lambda: len(cluster.runs("n1", first)) == 2)
    cluster.wait(lambda: len(cluster.runs("n2", first + 1)) == 2)
    assert cluster.job(first)["HetJobId"] == str(first)
    assert hooks(cluster, "n2", first + 1) == [("prolog", "pass"), ("epilog", "pass")]
    assert cluster.runs("n2", first) == []


def test_srun_is_told_of_a_refusal_and_the_node_has_the_reason(cluster: Guarded) -> None:
    cluster.cluster.node("n2").fault("gpu_count.lost", "gpu0")
    done = cluster.cluster.run(["srun", "-w", "n2", "--gres=gpu:8", "true"], timeout=60, check=False)
    assert done.returncode != 0
    assert "Prolog failure on node n2" in done.stderr
    cluster.wait(lambda: cluster.state("n2") == "drained")
    assert cluster.reason("n2") == LOST


def test_salloc_ends_and_its_epilog_closes_the_record(cluster: Guarded) -> None:
    done = cluster.cluster.run(["salloc", "-w", "n3", "--gres=gpu:1", "true"], timeout=60)
    job = int(done.stderr.split("job allocation ")[1].split()[0])
    cluster.wait(lambda: hooks(cluster, "n3", job) == [("prolog", "pass"), ("epilog", "pass")])
    cluster.cluster.node("n3").fault("gpu_count.lost", "gpu0")
    done = cluster.cluster.run(["salloc", "-w", "n3", "--gres=gpu:8", "true"], timeout=60, check=False)
    assert done.returncode != 0
    cluster.wait(lambda: cluster.reason("n3") == LOST)


def test_a_refused_job_that_may_not_be_requeued_is_cancelled_and_on_record(cluster: Guarded) -> None:
    cluster.cluster.node("n1").fault("gpu_count.lost", "gpu0")
    job = cluster.submit("--no-requeue", "-w", "n1", "--gres=gpu:8")
    cluster.wait(lambda: cluster.job(job)["JobState"] == "CANCELLED")
    cluster.wait(lambda: cluster.reason("n1") == LOST)
    cluster.settled("n1")
    assert ("refuse", "done", LOST) in cluster.actions("n1")
    assert cluster.runs("n1", job)[0]["hook"] == "prolog"


def test_a_requeued_job_has_its_records_for_each_run(cluster: Guarded, tmp_path: Path) -> None:
    job = cluster.submit("-w", "n4", script=f"touch {tmp_path}/run$SLURM_RESTART_COUNT; sleep 60")
    cluster.wait((tmp_path / "run").exists)
    cluster.slurm("scontrol", "requeue", str(job))
    cluster.wait(lambda: len(cluster.runs("n4", job)) == 2)
    cluster.wait(lambda: cluster.job(job)["JobState"] == "PENDING" and cluster.state("n4") == "idle")
    # Slurm's credentials count whole seconds: within those of its end, a job's next run may get no prolog.
    again = time.time() + 3
    cluster.wait(lambda: time.time() > again)
    cluster.slurm("scontrol", "update", f"jobid={job}", "starttime=now")
    cluster.wait((tmp_path / "run1").exists)
    cluster.slurm("scancel", str(job))
    cluster.wait(lambda: len(cluster.runs("n4", job)) == 4)
    seen = [(one["hook"], one["allocation"]["restart"]) for one in cluster.runs("n4", job)]
    assert seen == [("prolog", 0), ("epilog", 0), ("prolog", 1), ("epilog", 1)]


def test_jobs_that_share_a_node_start_at_once_and_each_answers_for_its_own_gpu(cluster: Guarded) -> None:
    """Eight prologs at once; one job's GPU is lost, the seven others run."""
    cluster.healthcheck("n1")
    cluster.cluster.node("n1").fault("gpu_count.lost", "gpu5")
    cluster.slurm("scontrol", "update", "nodename=n1", "state=drain", "reason=queue up")
    jobs = [cluster.submit("-w", "n1", "--gres=gpu:1", script="sleep 1") for _ in range(8)]
    cluster.slurm("scontrol", "update", "nodename=n1", "state=resume")
    cluster.wait(lambda: cluster.reason("n1") == "SG:gpu_count.lost gpu5")

    def runs(job: int) -> list[dict[str, object]]:
        return cluster.runs("n1", job)

    cluster.wait(lambda: sum(cluster.job(job)["JobState"] == "COMPLETED" for job in jobs) == 7)
    cluster.settled("n1")
    given = {job: runs(job)[0]["allocation"]["gpus"] for job in jobs}  # type: ignore[index]
    assert sorted(token for tokens in given.values() for token in tokens) == [str(n) for n in range(8)]
    (refused,) = [job for job in jobs if cluster.job(job)["JobState"] != "COMPLETED"]
    assert given[refused] == ["5"]
    assert cluster.job(refused)["Restarts"] == "1"


def test_a_node_is_known_by_slurm_s_name_whatever_the_host_is_called(
    cluster: Guarded, capsys: pytest.CaptureFixture[str]
) -> None:
    """The host's name is no node's here; neither a domain nor a trailing dot makes another node of one."""
    host = socket.gethostname().partition(".")[0]
    assert host not in cluster.names
    cluster.healthcheck("n2")
    assert {one["node"] for one in cluster.records("n2")} == {"n2"}
    root = str(cluster.root("n2"))
    for name in ("n2.cluster.example", "n2.", host):
        assert main(["drain", name, "gpu_xid.79", "--root", root]) not in (0, 1)
        assert name in capsys.readouterr().err
    assert cluster.reason("n2") == ""
    try:
        assert cluster.slurm("sinfo", "-h", "-n", "n2.", "-o", "%t") == ""  # no error: an empty answer
    except MiniclusterError:
        raise AssertionError("Slurm answers otherwise than this guards against") from None
