"""What outlives its slurmd is ended with the cluster, whatever it starts meanwhile; nothing else is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minicluster import hooks, processes
from minicluster.daemons import Daemons
from minicluster.slurm_conf import Layout

from .conftest import start, until

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path


def test_leftovers_are_ours_with_their_descendants_and_nobody_else(
    tmp_path: Path, stranger: subprocess.Popen[bytes]
) -> None:
    conf = tmp_path / "slurm.conf"
    of_slurm = {"SLURM_CONF": str(conf), "SLURMD_NODENAME": "n1"}
    step = start(tmp_path, "sh", "-c", "env -i sleep 60 & sleep 60", environment=of_slurm)
    hook = start(tmp_path, "sleep", "60", environment={processes.MARK: str(tmp_path)})
    shell = start(tmp_path, "sleep", "60", environment={"SLURM_CONF": str(conf)})  # a user's own
    try:
        until(lambda: len(processes.leftovers(conf, tmp_path)) == 4)
        found = processes.leftovers(conf, tmp_path)
        assert {step, hook} < set(found)
        assert shell not in found
        assert stranger.pid not in {identity.pid for identity in found}
        assert processes.end(found) == []
        assert processes.is_alive(shell)
    finally:
        processes.end([*processes.leftovers(conf, tmp_path), shell])


def test_what_a_leftover_starts_while_it_is_ended_is_ended_too(tmp_path: Path) -> None:
    """As a reboot under way does, or the shell of a job."""
    directory = tmp_path / "cluster"
    (directory / "run").mkdir(parents=True)
    daemons = Daemons(Layout(directory, "mini", ["n1"], 0))
    heirs = "trap 'setsid sleep 61 & exit' TERM; echo ready; while :; do sleep 0.05; done"
    start(tmp_path, "sh", "-c", heirs, environment={processes.MARK: str(directory)})
    until(lambda: (tmp_path / "log").read_text() == "ready\n")
    try:
        daemons.stop_all()
        assert processes.leftovers(daemons.layout.conf_path, directory) == []
    finally:
        processes.end(processes.leftovers(daemons.layout.conf_path, directory))


def test_a_reboot_under_way_is_known_as_ours(tmp_path: Path) -> None:
    """Its `minicluster reboot` would else start slurmd again after the cluster has been ended."""
    hooks.install(tmp_path, {})
    assert (
        f"{processes.MARK}={tmp_path}; export {processes.MARK}\n" in (tmp_path / "hooks/reboot").read_text()
    )
