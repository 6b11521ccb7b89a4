"""The shell command: exit codes, and one line on stderr for every mistake."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from minicluster import cli, simulated
from minicluster.slurm_conf import Layout

if TYPE_CHECKING:
    from minicluster.simulated import SimulatedMachine

COMMAND = Path(__file__).resolve().parents[3] / "contrib/minicluster/bin/minicluster"


@pytest.fixture
def folder(machine: SimulatedMachine) -> Path:
    """A folder that holds a cluster with one node, whose daemons don't run."""
    directory = machine.root.parent.parent
    layout = {**asdict(Layout(directory, "mini", ["n1"], 0)), "directory": str(directory)}
    state = {"state": "up", "port": 0, "simulate": True, "layout": layout}
    (directory / "cluster.json").write_text(json.dumps(state))
    return directory


def test_the_script_finds_its_package_from_anywhere(tmp_path: Path) -> None:
    done = subprocess.run(
        [COMMAND, "faults"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
    )
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert {"gpu_count.lost", "gpu_xid.79", "ib_link.down", "fs_mounts.hung", "nvml.hung"} <= set(names)
    assert all(len(line) > 46 for line in done.stdout.splitlines())


def test_a_reader_that_leaves_is_no_error() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [COMMAND, "faults"],
            stdout=write_end,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
        )
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (141, "")


def test_fault_clear_and_reboot(
    folder: Path, machine: SimulatedMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--dir", str(folder)]
    assert cli.main(["fault", *where, "n1", "gpu_pcie.width", "gpu3", "--set", "width=4"]) == 0
    assert machine.faults() == [{"name": "gpu_pcie.width", "device": "gpu3", "values": {"width": "4"}}]
    assert cli.main(["status", str(folder)]) == 1
    output = capsys.readouterr().out
    assert "down" in output
    assert "gpu_pcie.width gpu3" in output
    boot = (machine.root / "proc/sys/kernel/random/boot_id").read_text()
    assert cli.main(["reboot", *where, "n1"]) == 0
    assert (machine.root / "proc/sys/kernel/random/boot_id").read_text() != boot
    assert cli.main(["clear", *where, "n1", "gpu_pcie"]) == 0
    assert machine.faults() == []


@pytest.mark.parametrize("words", [["gpu_count.lost", "gpu2"], ["gpu_pcie.width", "gpu2"], ["gpu_cuont"]])
def test_clearing_what_is_not_set_is_told(
    folder: Path, machine: SimulatedMachine, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    machine.fault("gpu_pcie.width", "gpu3")
    assert cli.main(["clear", "--dir", str(folder), "n1", *words]) == 1
    assert capsys.readouterr().err == (
        f"minicluster: {' '.join(words)} is not set on n1; set: gpu_pcie.width gpu3\n"
    )
    assert len(machine.faults()) == 1
    assert cli.main(["clear", "--dir", str(folder), "n1"]) == 0
    assert cli.main(["clear", "--dir", str(folder), "n1"]) == 0


def test_the_folder_comes_from_the_environment_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MINICLUSTER_DIR", str(folder))
    assert cli.main(["env"]) == 0
    assert capsys.readouterr().out == f"export SLURM_CONF={folder}/etc/slurm.conf\n"
    assert (
        cli.main(["exec", sys.executable, "-c", "import os, sys; sys.exit('SLURM_CONF' not in os.environ)"])
        == 0
    )
    assert cli.main(["exec", sys.executable, "-c", "import sys; sys.exit(7)"]) == 7
    assert cli.main(["exec", "--", "sh", "-c", "kill -9 $$"]) == 128 + 9


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["fault", "n1", "gpu_count.lots", "gpu0"], "did you mean gpu_count.lost"),
        (["fault", "n9", "gpu_count.lost", "gpu0"], "no node 'n9'; there are: n1"),
        (["fault", "n1", "gpu_pcie.width", "gpu0", "--set", "width"], "expected KEY=VALUE, got 'width'"),
        (["controller", "pause"], "slurmctld of .* is not running"),
        (["exec"], "exec needs a program"),
        (["exec", "sinfoo"], "there is no program 'sinfoo'"),
    ],
)
def test_a_mistake_is_one_line(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    argv: list[str],
    words: str,
) -> None:
    import re

    monkeypatch.setenv("MINICLUSTER_DIR", str(folder))
    assert cli.main(argv) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.match(f"minicluster: .*{words}", error)


def test_a_full_disk_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(simulated, "update", fail)
    assert cli.main(["fault", "--dir", str(folder), "n1", "ib_link.rate", "mlx5_2/1"]) == 1
    assert capsys.readouterr().err == "minicluster: [Errno 28] No space left on device\n"


def test_a_cluster_that_is_down_cannot_be_broken(
    folder: Path, machine: SimulatedMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else `fault` would mount, and `down` has been called already."""
    saved = json.loads((folder / "cluster.json").read_text())
    (folder / "cluster.json").write_text(json.dumps({**saved, "state": "down"}))
    where = ["--dir", str(folder), "n1"]
    for argv in (["fault", *where, "fs_mounts.hung", "/local"], ["clear", *where], ["reboot", *where]):
        assert cli.main(argv) == 1
        assert "is down; `minicluster up` starts it anew" in capsys.readouterr().err
    assert machine.faults() == []


def test_down_is_idempotent_and_can_remove_the_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["down", str(tmp_path / "nothing")]) == 0
    assert "nothing to do" in capsys.readouterr().out
    layout = {**asdict(Layout(tmp_path, "mini", ["n1"], 0)), "directory": str(tmp_path)}
    (tmp_path / "cluster.json").write_text(
        json.dumps({"state": "down", "port": 0, "simulate": False, "layout": layout})
    )
    assert cli.main(["down", str(tmp_path)]) == 0
    assert cli.main(["down", "--remove", str(tmp_path)]) == 0
    assert not tmp_path.exists()


def test_without_simulation_there_is_nothing_to_break(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = {**asdict(Layout(tmp_path, "mini", ["n1"], 0)), "directory": str(tmp_path)}
    (tmp_path / "cluster.json").write_text(
        json.dumps({"state": "down", "port": 0, "simulate": False, "layout": layout})
    )
    assert cli.main(["clear", "--dir", str(tmp_path), "n1"]) == 1
    assert "--no-sim" in capsys.readouterr().err


def test_up_without_root_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cli.main(["up", str(tmp_path / "cluster")]) == 1
    assert capsys.readouterr().err == (
        "minicluster: a minicluster needs root (slurmd, mounts, device files); run it with sudo\n"
    )
    assert not (tmp_path / "cluster").exists()
