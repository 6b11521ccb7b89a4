"""Killed, interrupted or failing at any moment, a cluster can be ended from its folder without a trace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from minicluster import Cluster, MiniclusterError
from minicluster.mounting import mounted_at_or_below

from .own_folder import COMMAND, processes_of

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = str(COMMAND.parent.parent)
PATIENCE = 100.0


def state(folder: Path) -> str:
    try:
        return str(json.loads((folder / "cluster.json").read_text())["state"])
    except FileNotFoundError:
        return ""


def test_a_cluster_whose_starter_was_killed_is_stopped_from_its_folder(folder: Path) -> None:
    program = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); from minicluster import Cluster\n"
        "c = Cluster(sys.argv[2], nodes=2); c.start(); c.node('n1').fault('fs_mounts.hung', '/scratch')\n"
        "c.run(['sbatch', '-o', '/dev/null', '--wrap', 'sleep 1000'])\n"
        "print('up', flush=True); time.sleep(600)"
    )
    starter = subprocess.Popen([sys.executable, "-c", program, PACKAGE, str(folder)], stdout=subprocess.PIPE)
    assert starter.stdout is not None
    with starter.stdout as output:
        assert output.readline() == b"up\n"
        os.kill(starter.pid, signal.SIGKILL)
        starter.wait()
    cluster = Cluster.open(folder)
    cluster.wait(lambda: cluster.run(["squeue", "-h", "-o", "%T"]).stdout == "RUNNING\n")
    cluster.wait(lambda: "sleep 1000 " in processes_of_jobs(folder))
    subprocess.run([COMMAND, "down", str(folder)], check=True, timeout=60)
    assert processes_of(folder) == []
    assert mounted_at_or_below(folder) == []
    assert state(folder) == "down"


def processes_of_jobs(folder: Path) -> list[str]:
    return [line for line in processes_of(folder) if "slurm" not in line]


#: A step of the start, in whose place the starter is killed.
STEPS = [
    "preparation.make_folders",
    "preparation.make_machines",
    "Daemons.start_munged",
    "Daemons.start_clock",
    "Daemons.start_slurmctld",
    "Daemons.start_slurmd",
    "Daemons.wait_for",
]


@pytest.mark.parametrize("step", STEPS)
def test_a_start_that_was_cut_short_is_made_good_by_the_next(folder: Path, step: str) -> None:
    program = (
        "import sys, os; sys.path.insert(0, sys.argv[1]); from minicluster import Cluster, preparation\n"
        "from minicluster.daemons import Daemons\n"
        f"{step} = lambda *_, **__: os.kill(os.getpid(), 9)\n"
        "Cluster(sys.argv[2], nodes=2).start()"
    )
    argv = [sys.executable, "-c", program, PACKAGE, str(folder)]
    assert subprocess.run(argv, check=False, timeout=PATIENCE).returncode == -signal.SIGKILL
    assert state(folder) == "starting"
    with Cluster(folder, nodes=1) as cluster:
        assert cluster.states() == {"n1": "idle"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_start_that_is_interrupted_ends_what_it_started(folder: Path, number: signal.Signals) -> None:
    command = [COMMAND, "up", str(folder), "--nodes", "16"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as starter:
        end = time.monotonic() + PATIENCE
        while not (folder / "run/slurmctld.pid").exists():
            assert time.monotonic() < end
            time.sleep(0.002)
        while starter.poll() is None:  # somebody impatient
            assert time.monotonic() < end
            starter.send_signal(number)
            time.sleep(0.05)
        said = starter.stdout.read() if starter.stdout else ""
    assert (starter.returncode, said) == (130, "")
    assert (state(folder), processes_of(folder), mounted_at_or_below(folder)) == ("down", [], [])


def test_a_slurm_conf_that_slurm_refuses_is_reported_with_its_reason(folder: Path) -> None:
    with (
        pytest.raises(MiniclusterError, match=r"slurmctld ended: .*"),
        Cluster(folder, nodes=1, conf={"SelectType": "select/nonsense"}),
    ):
        pass
    assert processes_of(folder) == []
    assert state(folder) == "down"


def test_a_munged_that_does_not_start_is_reported_with_its_reason(folder: Path) -> None:
    """Its socket's path is longer than the kernel takes."""
    with pytest.raises(MiniclusterError, match=r"(?s)munged ended: .*socket"):
        Cluster(folder / ("long" * 30), nodes=1).start()


def test_a_node_that_reboots_while_the_cluster_is_stopped_does_not_come_back(folder: Path) -> None:
    with Cluster(folder, nodes=2) as cluster:
        cluster.run(["scontrol", "reboot", "nextstate=RESUME", "n1", "n2"], check=False)
    assert processes_of(folder) == []
