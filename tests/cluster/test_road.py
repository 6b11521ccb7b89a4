"""The whole road on a real Slurm: a fault, the hooks, the drain, the record under the job's id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .guard_processes import of_the_guard

if TYPE_CHECKING:
    from .conftest import Guarded


def test_a_healthy_job_is_on_record_and_costs_slurmctld_nothing(cluster: Guarded) -> None:
    cluster.slurm("sdiag", "-r")
    job = cluster.submit("-N2", "-w", "n1,n2", "--gres=gpu:2")
    cluster.wait(lambda: [one["hook"] for one in cluster.runs("n2", job)] == ["prolog", "epilog"])
    cluster.wait(lambda: [one["hook"] for one in cluster.runs("n1", job)] == ["prolog", "epilog"])
    prolog, epilog = cluster.runs("n1", job)
    assert (prolog["status"], epilog["status"]) == ("pass", "pass")
    assert len(prolog["allocation"]["gpus"]) == 2
    assert prolog["allocation"]["user"] == "root"
    calls = cluster.slurm("sdiag")
    assert "REQUEST_UPDATE_NODE" not in calls
    assert "REQUEST_NODE_INFO_SINGLE" not in calls


def test_the_epilog_drains_before_the_next_queued_job_starts(cluster: Guarded) -> None:
    first = cluster.submit(
        "-w", "n2", "--exclusive", "--gres=gpu:8", script="while [ ! -e /nonexistent ]; do sleep 0.1; done"
    )
    rest = [cluster.submit("-w", "n2", "--exclusive") for _ in range(49)]
    cluster.wait(lambda: cluster.job(first)["JobState"] == "RUNNING")
    cluster.wait(lambda: len(cluster.runs("n2", first)) == 1)
    cluster.cluster.node("n2").fault("gpu_count.lost", "gpu3")
    cluster.slurm("scancel", str(first))
    cluster.wait(lambda: cluster.state("n2") == "drained")
    assert cluster.reason("n2") == "SG:gpu_count.lost gpu3"
    assert {cluster.job(job)["JobState"] for job in rest} == {"PENDING"}
    assert all(cluster.runs("n2", job) == [] for job in rest)
    prolog, epilog = cluster.runs("n2", first)
    assert (prolog["status"], epilog["status"]) == ("pass", "fail")
    assert ("drain", "done", "SG:gpu_count.lost gpu3") in cluster.actions("n2")


def test_the_prolog_refuses_for_a_gpu_of_this_job_and_it_runs_elsewhere(cluster: Guarded) -> None:
    cluster.cluster.node("n1").fault("gpu_count.lost", "gpu0")
    job = cluster.submit("-N1", "--gres=gpu:8", "--exclude=n3,n4")
    cluster.wait(lambda: cluster.state("n1") == "drained")
    assert cluster.reason("n1") == "SG:gpu_count.lost gpu0"
    cluster.wait(lambda: cluster.job(job)["Restarts"] == "1")
    assert cluster.job(job)["Reason"] != "JobHeldAdmin"
    cluster.settled("n1")
    assert "SG:gpu_count.lost gpu0" in cluster.slurm("scontrol", "show", "job", str(job))
    cluster.slurm("scontrol", "update", f"jobid={job}", "starttime=now")
    cluster.wait(lambda: cluster.job(job)["JobState"] == "COMPLETED", 60)
    assert cluster.job(job)["NodeList"] == "n2"
    assert ("refuse", "done", "SG:gpu_count.lost gpu0") in cluster.actions("n1")
    hooks = [(one["hook"], one["allocation"]["restart"]) for one in cluster.runs("n1", job)]
    assert hooks == [("prolog", 0), ("epilog", 0)]


def test_another_gpu_s_fault_drains_and_lets_the_job_run(cluster: Guarded) -> None:
    cluster.cluster.node("n1").fault("gpu_count.lost", "gpu7")
    job = cluster.submit("-w", "n1", "--gres=gpu:1", script="true")
    cluster.wait(lambda: cluster.job(job)["JobState"] == "COMPLETED")
    cluster.wait(lambda: cluster.state("n1") == "drained")
    assert cluster.job(job)["Restarts"] == "0"


def test_a_cpu_job_is_never_refused_for_a_gpu(cluster: Guarded) -> None:
    cluster.cluster.node("n1").fault("gpu_count.lost", "gpu0")
    job = cluster.submit("-w", "n1", script="true")
    cluster.wait(lambda: cluster.job(job)["JobState"] == "COMPLETED")
    assert cluster.job(job)["Restarts"] == "0"


def test_a_mount_that_hung_before_refuses_in_time_and_leaves_nothing_in_the_way(cluster: Guarded) -> None:
    cluster.cluster.node("n1").fault("fs_mounts.hung", "/local")
    cluster.healthcheck("n1")
    assert cluster.state("n1") == "idle"  # once is no proof
    job = cluster.submit("-N1", "--exclude=n3,n4", script="true")
    cluster.wait(lambda: cluster.state("n1") == "drained")
    assert cluster.reason("n1") == "SG:fs_mounts.hung /local"
    cluster.wait(lambda: cluster.job(job)["Restarts"] == "1")
    cluster.slurm("scontrol", "update", f"jobid={job}", "starttime=now")
    cluster.wait(lambda: cluster.job(job)["JobState"] == "COMPLETED", 60)
    cluster.settled("n1")
    stuck = set(of_the_guard(cluster.root("n1")))
    assert stuck
    cluster.hook("n1", "healthcheck")
    (finding,) = [
        f for one in cluster.records("n1")[-1]["results"] for f in one["findings"] if f["status"] == "timeout"
    ]
    assert finding["fault"] == "fs_mounts.hung"
    cluster.settled("n1")
    # The child that hangs in the kernel is known, and its mount was not touched again.
    assert set(of_the_guard(cluster.root("n1"))) == stuck


def test_a_node_comes_back_after_a_reboot_and_clean_runs(cluster: Guarded) -> None:
    cluster.healthcheck("n3")  # the first run ever takes older kernel lines for history
    cluster.cluster.node("n3").fault("gpu_count.lost", "gpu2")
    cluster.healthcheck("n3")
    cluster.wait(lambda: cluster.state("n3") == "drained")
    cluster.cluster.node("n3").clear()
    for _ in range(3):
        cluster.healthcheck("n3")
    assert cluster.state("n3") == "drained"  # an Xid 79 is proven gone by a reboot alone
    cluster.cluster.node("n3").reboot()
    cluster.healthcheck("n3")
    assert cluster.state("n3") == "drained"  # one clean run is not enough
    cluster.healthcheck("n3")
    cluster.wait(lambda: cluster.state("n3") == "idle")
    assert ("resume", "done", "SG:gpu_count.lost gpu2") in cluster.actions("n3")


def test_a_node_whose_slurmd_was_away_comes_back(cluster: Guarded) -> None:
    """After a real reboot Slurm says DOWN+DRAIN and keeps the reason."""
    node = cluster.cluster.node("n3")
    cluster.healthcheck("n3")
    node.fault("gpu_count.lost", "gpu2")
    cluster.healthcheck("n3")
    cluster.wait(lambda: cluster.state("n3") == "drained")
    node.clear()
    node.reboot(restart_slurmd=True)
    node.stop_slurmd()
    cluster.wait(lambda: "*" in cluster.slurm("sinfo", "-h", "-N", "-n", "n3", "-o", "%t"), 60)
    for _ in range(3):
        cluster.healthcheck("n3")
    assert ("resume", "held", "SG:gpu_count.lost gpu2") in cluster.actions("n3")
    node.start_slurmd()
    cluster.wait(lambda: "*" not in cluster.slurm("sinfo", "-h", "-N", "-n", "n3", "-o", "%t"), 60)
    cluster.healthcheck("n3")
    cluster.wait(lambda: cluster.state("n3") == "idle")


def test_an_admin_s_drain_is_never_touched(cluster: Guarded) -> None:
    cluster.slurm("scontrol", "update", "nodename=n3", "state=drain", "reason=DIMM swap, mira")
    cluster.cluster.node("n3").fault("gpu_count.lost", "gpu2")
    cluster.healthcheck("n3")
    assert cluster.reason("n3") == "DIMM swap, mira"
    cluster.cluster.node("n3").clear()
    cluster.cluster.node("n3").reboot()
    for _ in range(3):
        cluster.healthcheck("n3")
    assert (cluster.state("n3"), cluster.reason("n3")) == ("drained", "DIMM swap, mira")


def test_an_admin_s_edit_of_our_reason_makes_it_theirs(cluster: Guarded) -> None:
    cluster.cluster.node("n3").fault("gpu_count.lost", "gpu2")
    cluster.healthcheck("n3")
    cluster.slurm("scontrol", "update", "nodename=n3", "reason=SG:gpu_count.lost gpu2 INC-7")
    cluster.cluster.node("n3").clear()
    cluster.cluster.node("n3").reboot()
    for _ in range(3):
        cluster.healthcheck("n3")
    assert (cluster.state("n3"), cluster.reason("n3")) == ("drained", "SG:gpu_count.lost gpu2 INC-7")


def test_an_admin_who_resumes_has_the_last_word_on_an_old_event(cluster: Guarded) -> None:
    cluster.healthcheck("n3")
    cluster.cluster.node("n3").fault("gpu_xid.79", "gpu2")
    cluster.healthcheck("n3")
    cluster.wait(lambda: cluster.state("n3") == "drained")
    cluster.slurm("scontrol", "update", "nodename=n3", "state=resume")
    cluster.healthcheck("n3")
    assert not cluster.state("n3").startswith("drain")


def test_a_requeued_run_is_filed_under_that_run(cluster: Guarded) -> None:
    job = cluster.submit("-w", "n4", script="sleep 60")
    cluster.wait(lambda: cluster.job(job)["JobState"] == "RUNNING")
    cluster.slurm("scontrol", "requeue", str(job))
    cluster.wait(lambda: len(cluster.runs("n4", job)) == 2)
    runs = [(one["hook"], one["allocation"]["restart"]) for one in cluster.runs("n4", job)]
    assert runs == [("prolog", 0), ("epilog", 0)]
    assert len({one["allocation"]["opened_at"] for one in cluster.runs("n4", job)}) == 1


def test_observe_records_what_would_have_been_done_and_does_nothing(cluster: Guarded) -> None:
    with cluster.configured(mode="observe"):
        cluster.cluster.node("n1").fault("gpu_count.lost", "gpu0")
        job = cluster.submit("-w", "n1", "--gres=gpu:8", script="true")
        cluster.wait(lambda: cluster.job(job)["JobState"] == "COMPLETED")
        cluster.wait(lambda: len(cluster.runs("n1", job)) == 2)
    assert cluster.state("n1") == "idle"
    assert ("refuse", "observed", "SG:gpu_count.lost gpu0") in cluster.actions("n1")


def test_the_budget_holds_a_third_drain(cluster: Guarded) -> None:
    for name in ("n1", "n2", "n3"):
        cluster.cluster.node(name).fault("gpu_count.lost", "gpu5")
        cluster.healthcheck(name)
    drained = [name for name in cluster.names if cluster.state(name) == "drained"]
    assert drained == ["n1", "n2"]
    assert ("drain", "held", "SG:gpu_count.lost gpu5") in cluster.actions("n3")
