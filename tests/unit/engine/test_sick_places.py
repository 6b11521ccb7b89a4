"""Folders that cannot be written, pipes and links in files' places, a dead system log: the hooks go on."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurm_guard.core.paths import Places
from slurm_guard.engine import files, requests

from .conftest import CHECKOUT
from .test_failing_path import SICK_PROGRAMS, called, sick_node
from .test_hook import write_plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import NodeRoot


@pytest.fixture
def read_only_run(node: NodeRoot) -> Iterator[None]:
    folder = node.root / "run"
    folder.mkdir()
    subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["/bin/umount", "-l", str(folder)], check=True)


@pytest.mark.needs_root
@pytest.mark.usefixtures("read_only_run")
def test_a_run_folder_that_cannot_be_written_costs_no_record(node: NodeRoot) -> None:
    write_plan(node)
    for hook in ("prolog", "epilog", "healthcheck"):
        assert node.run(hook, job=1).returncode == 0
    assert [one["hook"] for one in node.records()] == ["prolog", "epilog", "healthcheck"]
    assert all("state not written" in str(one["coverage"]) for one in node.records())
    assert node.said("state not written")


@pytest.mark.needs_root
@pytest.mark.usefixtures("read_only_run")
def test_nor_a_drain(node: NodeRoot) -> None:
    sick_node(node, SICK_PROGRAMS["fails"])
    assert node.run("epilog", job=4).returncode == 0
    assert called(node) != []
    assert [one["outcome"] for one in node.records()[1]["actions"]] == ["failed"]


@pytest.mark.parametrize("folder", ["var/lib/slurm-guard", "run/slurm-guard"])
def test_pipes_in_the_place_of_our_files_hold_up_nobody(node: NodeRoot, folder: str) -> None:
    write_plan(node)
    place = node.root / folder
    (place / "requests").mkdir(parents=True)
    (place / "allocations").mkdir()
    for name in ("faults.json", "state.json", "answer.json", "requests/x.json", "allocations/4.json"):
        os.mkfifo(place / name)
    assert node.run("prolog", job=1).returncode == 0
    assert node.run("healthcheck").returncode == 0
    assert [one["hook"] for one in node.records()] == ["prolog", "healthcheck"]


def test_folders_of_ours_are_closed_whatever_the_umask_and_whichever_comes_first(tmp_path: Path) -> None:
    places = Places(str(tmp_path))
    before = os.umask(0)
    try:
        requests.put(places, requests.make("tell", boot_id="b", run_id="r", job_id=1, text="x"))
    finally:
        os.umask(before)
    for folder in (places.var, places.requests):
        assert Path(folder).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("hook", ["prolog", "epilog", "healthcheck"])
def test_a_system_log_that_nobody_reads_holds_up_no_hook(
    tmp_path_factory: pytest.TempPathFactory, hook: str
) -> None:
    """A dead log daemon leaves a full queue, in which a simple `logger` would wait for ever."""
    root = tmp_path_factory.mktemp("n")
    (root / "dev").mkdir()
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as dead,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as writer,
    ):
        dead.bind(str(root / "dev/log"))
        writer.setblocking(False)
        writer.connect(str(root / "dev/log"))
        with contextlib.suppress(BlockingIOError):
            while True:
                writer.send(b"x")
        shim = root / hook / f"sguard-{hook}"
        shim.parent.mkdir()
        shim.write_bytes((CHECKOUT / hook / shim.name).read_bytes())
        shim.chmod(0o755)
        done = subprocess.run([str(shim), "--root", str(root)], env={}, timeout=30, check=False)
        assert done.returncode == 0


@pytest.mark.parametrize(
    "name", ["state.json", "state.lock", "faults.lock", "slurm.lock", "carry.lock", "healthcheck.lock"]
)
def test_planted_links_are_never_followed(node: NodeRoot, name: str) -> None:
    write_plan(node)
    victim = node.root / "victim"
    victim.write_text("untouched")
    (node.root / "run/slurm-guard").mkdir(parents=True)
    (node.root / "run/slurm-guard" / name).symlink_to(victim)
    for hook in ("prolog", "epilog", "healthcheck"):
        assert node.run(hook, job=1).returncode == 0
    assert victim.read_text() == "untouched"
    assert len(node.records()) == 3


def test_no_lock_file_no_waiting(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file where the folder should be")
    with files.locked(str(tmp_path / "run/state.lock")) as held:
        assert held


def test_a_device_with_a_long_foreign_name_makes_a_request_that_can_be_written(tmp_path: Path) -> None:
    places = Places(str(tmp_path))
    cause = {"fault": "fs_mounts.hung", "device": "/数" * 100, "scope": "node", "reason": "SG:fs_mounts.hung"}
    request = requests.make("drain", boot_id="b", run_id="r", **cause)
    requests.put(places, request)
    assert [one.device for one in requests.waiting(places, "b")] == ["/数" * 100]
    requests.drop(places, request)
    assert requests.waiting(places, "b") == []


@pytest.mark.needs_root
@pytest.mark.parametrize(("uid", "mode"), [(65534, 0o600), (0, 0o666)])
def test_a_plan_that_others_may_write_is_not_obeyed(node: NodeRoot, uid: int, mode: int) -> None:
    """It names programs and libraries that root will run."""
    sick_node(node, SICK_PROGRAMS["fails"])
    plan = node.root / "var/lib/slurm-guard/plan.json"
    plan.chmod(mode)
    os.chown(plan, uid, -1)
    assert node.run("epilog", job=1).returncode == 0
    assert called(node) == []
    assert [one["plan"]["state"] for one in node.records()] == ["foreign"]


def test_a_pipe_in_the_place_of_node_json_holds_up_nobody(node: NodeRoot) -> None:
    (node.root / "etc/slurm-guard").mkdir(parents=True)
    os.mkfifo(node.root / "etc/slurm-guard/node.json")
    assert node.run("prolog", job=1).returncode == 0
    assert len(node.records()) == 1
