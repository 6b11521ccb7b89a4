"""The test cluster itself: a real Slurm that can be started, used and stopped."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from pathlib import Path

import pytest

from minicluster import Cluster, MiniclusterError

from .own_folder import COMMAND, processes_of


def job_output(cluster: Cluster, *argv: str) -> set[str]:
    return set(cluster.run(["srun", *argv], timeout=60).stdout.split())


def test_four_nodes_run_a_job_with_gpus_and_stop(folder: Path) -> None:
    with Cluster(folder) as cluster:
        assert cluster.states() == {"n1": "idle", "n2": "idle", "n3": "idle", "n4": "idle"}
        script = "echo $SLURMD_NODENAME:$CUDA_VISIBLE_DEVICES"
        found = job_output(cluster, "-N4", "--ntasks-per-node=1", "--gres=gpu:h100:3", "sh", "-c", script)
        assert found == {f"n{number}:0,1,2" for number in range(1, 5)}
        assert len({cluster.node(name).root for name in ("n1", "n2")}) == 2
        assert (cluster.node("n3").root / "proc/uptime").exists()
        with pytest.raises(MiniclusterError, match="no node 'n5'; there are: n1, n2"):
            cluster.node("n5")
        with pytest.raises(MiniclusterError, match="is up already"):
            Cluster(folder).start()
    assert not cluster.is_up()
    cluster.stop()  # again: no harm
    with cluster:  # the same folder once more, with a clean slate
        assert cluster.run(["squeue", "-h", "-t", "all"]).stdout == ""


def test_two_clusters_start_side_by_side_and_do_not_see_each_other(folder: Path) -> None:
    clusters = [Cluster(folder / name, nodes=2) for name in ("one", "two", "three")]
    starters = [threading.Thread(target=cluster.start) for cluster in clusters]
    try:
        for starter in starters:
            starter.start()
        for starter in starters:
            starter.join()
        assert len({cluster.layout.port for cluster in clusters}) == 3
        clusters[0].run(["scontrol", "update", "nodename=n1", "state=drain", "reason=test"])
        assert [cluster.states()["n1"] for cluster in clusters] == ["drained", "idle", "idle"]
        clusters[1].stop()
        script = "echo $SLURMD_NODENAME"
        assert job_output(clusters[2], "-N2", "--mem=100", "sh", "-c", script) == {"n1", "n2"}
    finally:
        for cluster in clusters:
            cluster.stop()


def test_slurmctld_runs_as_another_user(folder: Path) -> None:
    with Cluster(folder, nodes=1, slurm_user="slurm") as cluster:
        identity = cluster.daemons.identity("slurmctld")
        assert identity is not None
        assert Path(f"/proc/{identity.pid}").stat().st_uid != 0
        cluster.run(["scontrol", "update", "nodename=n1", "state=drain", "reason=by root"])
        assert cluster.run(["sinfo", "-h", "-o", "%T %E %U"]).stdout.split()[:3] == ["drained", "by", "root"]


def test_accounting_answers(folder: Path) -> None:
    with Cluster(folder, nodes=1, dbd=True) as cluster:
        done = cluster.run(["sbatch", "--parsable", "--mem=100", "-o", "/dev/null", "--wrap", "exit 3"])
        job = done.stdout.strip()
        query = ["sacct", "-X", "-P", "-n", "-j", job, "-o", "State,ExitCode,NodeList"]
        cluster.wait(lambda: cluster.run(query).stdout == "FAILED|3:0|n1\n", timeout=60)


def test_the_controller_can_be_stopped_and_can_hang(folder: Path) -> None:
    with Cluster(folder, nodes=1) as cluster:
        cluster.run(["scontrol", "update", "nodename=n1", "state=drain", "reason=kept"])
        cluster.pause_controller()
        with pytest.raises(MiniclusterError, match=r"took longer than 1 s"):
            cluster.run(["sinfo"], timeout=1)
        cluster.resume_controller()
        assert cluster.wait(cluster.states) == {"n1": "drained"}
        cluster.stop_controller()
        assert not cluster.daemons.is_running("slurmctld")
        cluster.start_controller()
        cluster.wait(lambda: cluster.states() == {"n1": "drained"})
        assert cluster.run(["sinfo", "-h", "-o", "%E"]).stdout == "kept\n"
        cluster.pause_controller()  # and stopping the cluster ends a paused one too


def test_slurmd_can_be_stopped_and_the_node_rebooted(folder: Path) -> None:
    with Cluster(folder, nodes=2) as cluster:
        node = cluster.node("n2")
        boot_id = node.root / "proc/sys/kernel/random/boot_id"
        before = boot_id.read_text()
        node.stop_slurmd()
        assert not cluster.daemons.is_running("slurmd.n2")
        node.start_slurmd()
        assert cluster.daemons.is_running("slurmd.n2")
        assert job_output(cluster, "-w", "n2", "--mem=100", "sh", "-c", "echo $SLURMD_NODENAME") == {"n2"}
        cluster.run(["scontrol", "reboot", "nextstate=RESUME", "n2"])
        cluster.wait(lambda: boot_id.read_text() != before)
        cluster.wait(lambda: cluster.states()["n2"] == "idle", timeout=60)
        assert float((node.root / "proc/uptime").read_text().split()[0]) < 600


def test_hooks_run_on_every_node_with_their_own_environment(folder: Path) -> None:
    record = folder / "hook"
    record.write_text(f'#!/bin/sh\nenv > "{folder}/env.$SLURM_SCRIPT_CONTEXT.$SLURMD_NODENAME"\n')
    record.chmod(0o755)
    detached = "setsid sleep 600 <&- >/dev/null 2>&1 &"  # outlives the hook, and must not outlive the cluster
    health = folder / "health"
    health.write_text(f'#!/bin/sh\nenv > "{folder}/env.health.$SLURMD_NODENAME"\n{detached}\n')
    health.chmod(0o755)
    programs = {"Prolog": record, "Epilog": record, "HealthCheckProgram": health}
    with Cluster(folder / "cluster", nodes=2, hooks=programs, health_interval=5) as cluster:
        job_output(cluster, "-N2", "--mem=100", "--gres=gpu:1", "true")
        names = [f"env.{hook}.{node}" for hook in ("prolog_slurmd", "epilog_slurmd") for node in ("n1", "n2")]
        cluster.wait(lambda: all((folder / name).exists() for name in [*names, "env.health.n1"]))
        cluster.wait(lambda: any("sleep 600" in line for line in processes_of(folder / "cluster")))
        assert "SLURM_JOB_GPUS=0\n" in (folder / names[0]).read_text()
        assert "PATH" not in {
            line.partition("=")[0] for line in (folder / "env.health.n1").read_text().splitlines()
        }


def test_the_shell_command_from_up_to_down(folder: Path) -> None:
    place = folder / "cluster"

    def call(*argv: str, code: int = 0) -> str:
        environment = {**os.environ, "MINICLUSTER_DIR": str(place)}
        done = subprocess.run(
            [COMMAND, *argv], env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == code, done.stderr
        return done.stdout

    assert "2 nodes are up" in call("up", "--nodes", "2", "--conf", "MinJobAge=99")
    try:
        assert "up already" in call("up")
        assert "export SLURM_CONF=" in call("env")
        assert call("exec", "sinfo", "-h", "-o", "%D %T") == "2 idle\n"
        assert "MinJobAge               = 99 sec" in call("exec", "scontrol", "show", "config")
        call("fault", "n2", "ib_link.down", "mlx5_0/1")
        assert re.search(r"^n2 +idle +ib_link\.down mlx5_0/1$", call("status"), re.MULTILINE)
        call("clear", "n2")
    finally:
        call("down")
    assert "n1" in call("status", code=1)
    call("down", "--remove")
    assert not place.exists()


def test_thirty_two_nodes(folder: Path) -> None:
    with Cluster(folder, nodes=32) as cluster:
        assert len(job_output(cluster, "-N32", "--mem=100", "sh", "-c", "echo $SLURMD_NODENAME")) == 32
