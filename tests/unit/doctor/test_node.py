"""The node's own state: kill switch, disk, spool, requests, children left behind, system log."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurm_guard.doctor import node
from slurm_guard.engine import child
from tests.unit.doctor.sites import site, told

NO_LOG = ("warn", "no system log: nobody hears of what goes wrong in hooks")


def test_a_quiet_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = site(tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("dev").mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind("dev/log")
        Path(subject.places.spool).mkdir(parents=True)
        Path(subject.places.run).mkdir(parents=True)
        assert told(node.examine, subject) == []
    assert [one.name for one in Path(subject.places.spool).iterdir()] == []


def test_nothing_is_made_on_a_node_that_never_ran(tmp_path: Path) -> None:
    subject = site(tmp_path)
    assert told(node.examine, subject) == [NO_LOG]
    assert not Path(subject.places.spool).exists()


@pytest.mark.parametrize("place", [0, 1])
def test_a_kill_switch_is_told(tmp_path: Path, place: int) -> None:
    subject = site(tmp_path)
    path = Path(subject.places.kill_switches[place])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    (found, _) = [one for one in node.examine(subject) if one.status == "warn"]
    assert (found.what, found.where) == ("the kill switch is set: hooks do nothing on this node", str(path))
    assert found.remedy == f"`rm {path}`"


@pytest.mark.parametrize(("outcome", "word"), [("failed", "cannot be written to"), ("hung", "hangs")])
def test_a_sick_disk_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: str, word: str
) -> None:
    subject = site(tmp_path)
    Path(subject.places.spool).mkdir(parents=True)
    monkeypatch.setattr(child, "bounded", lambda work, seconds: outcome)
    (status, what), _ = told(node.examine, subject)
    assert status == "fail"
    assert f"{subject.places.spool} {word}" in what


def test_a_spool_that_is_nearly_full(tmp_path: Path) -> None:
    subject = site(tmp_path, config="[spool]\nfiles = 10\n")
    spool = Path(subject.places.spool)
    spool.mkdir(parents=True)
    for number in range(8):
        (spool / f"r-{number:016d}-x.json").write_text("{}")
    assert ("warn", "8 records wait, 0.0 MiB, 80% of the bounds: soon the oldest are dropped") in told(
        node.examine, subject
    )


def test_requests_that_wait(tmp_path: Path) -> None:
    subject = site(tmp_path)
    folder = Path(subject.places.requests)
    folder.mkdir(parents=True)
    request = {"kind": "drain", "fault": "gpu_count.lost", "device": "gpu2", "created": time.time() - 600}
    (folder / "drain.json").write_text(json.dumps(request))
    (folder / "torn.json").write_text("{")
    assert told(node.examine, subject)[:2] == [
        ("warn", "a request waits for 10 min: drain gpu_count.lost gpu2"),
        ("warn", "a request waits for 0 min: torn.json"),
    ]


def test_children_that_still_hang(tmp_path: Path) -> None:
    subject = site(tmp_path)
    Path(subject.places.run).mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        alive = {"probe": "mounts", "key": "/data", "pid": process.pid}
        alive["start_time"] = child.start_time(process.pid)
        recycled = {"probe": "nvml", "key": "", "pid": os.getpid(), "start_time": 1}
        state = {"left_behind": [alive, recycled, "garbage", {"pid": "x"}], "dropped": 3}
        Path(subject.places.state).write_text(json.dumps(state))
        found = told(node.examine, subject)
        process.communicate(b"\n")
    assert found[0][1].startswith(f"process {process.pid} still hangs")
    assert "mounts /data is left alone" in found[0][1]
    assert found[1:] == [("warn", "records were dropped: 3"), NO_LOG]
