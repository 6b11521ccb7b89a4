"""Mounts as the field has reported them: what the mount table says, what the file system itself answers."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

from slurm_guard.checks.fs_mounts import FsMounts
from slurm_guard.checks.fs_space import FsSpace
from slurm_guard.core.expectation import Expectation
from slurm_guard.core.outcome import Facts, Finding
from slurm_guard.core.paths import Places
from slurm_guard.probes import mounts

if TYPE_CHECKING:
    from pathlib import Path

TABLE = """\
21 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro
24 21 0:23 / /dev/shm rw,nosuid,nodev shared:4 - tmpfs tmpfs rw,size=500g
61 21 0:52 / /projects rw,relatime shared:31 - nfs4 nas7:/vol/projects rw,vers=4.1,soft,timeo=150
62 21 0:53 / /work rw,noatime shared:32 - lustre 10.3.0.1@o2ib:/work rw,flock
63 21 0:54 / /jfs rw,relatime shared:33 - fuse.juicefs JuiceFS:pool rw,user_id=0
64 21 259:5 / /local rw,nodev,nosuid shared:34 - xfs /dev/nvme1n1 rw,inode64
901 24 0:71 / /run/user/4103 rw,nosuid shared:90 - tmpfs tmpfs rw,size=50g
"""


class Host:
    """A root folder with this mount table; some file systems answer with an error."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.errors: dict[str, int] = {}
        self.table(TABLE)
        for path in ("projects", "work", "jfs", "local", "dev/shm", "run/user/4103"):
            (root / path).mkdir(parents=True)
        monkeypatch.setattr(os, "stat", self._answer(os.stat))
        monkeypatch.setattr(os, "statvfs", self._answer(os.statvfs))

    def _answer(self, real: Any) -> Any:
        def ask(path: Any, *args: Any, **more: Any) -> Any:
            code = self.errors.get(str(path).removeprefix(str(self.root)))
            if code is not None:
                raise OSError(code, os.strerror(code), path)
            return real(path, *args, **more)

        return ask

    def table(self, text: str) -> None:
        file = self.root / "proc/self/mountinfo"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def look(self, *expected: dict[str, Any], check: type[FsMounts | FsSpace] = FsMounts) -> list[Finding]:
        request = Facts(mounts=[Facts(mount) for mount in expected])
        facts = [Facts(thunk()) for _, thunk in mounts.stream(Places(str(self.root)), request)]
        facts = [Facts(one, space=one["space"] and Facts(one["space"])) for one in facts]
        run = Facts(hook="healthcheck", in_grace=False, uptime_s=9e4)
        expect = Expectation(expected={"mounts": [Facts(mount) for mount in expected]}, run=run)
        found = list(check().findings(facts, Facts(check.params), expect))
        return [one for one in found if one.status not in ("pass", "skip")]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


ALL = [
    {"path": "/projects", "type": "nfs4"},
    {"path": "/work", "type": "lustre"},
    {"path": "/jfs", "type": "fuse.juicefs"},
    {"path": "/local", "type": "xfs"},
]


def test_mounts_that_answer_pass(host: Host) -> None:
    assert host.look(*ALL) == []


@pytest.mark.parametrize("mount", ALL, ids=lambda mount: mount["path"])
@pytest.mark.parametrize(
    ("code", "fault", "status"),
    [
        (errno.ESTALE, "stale", "fail"),
        (errno.ENOTCONN, "error", "fail"),
        (errno.EIO, "error", "fail"),
        (errno.ESHUTDOWN, "error", "fail"),
        (errno.EACCES, "error", "unknown"),
    ],
)
def test_listed_in_the_table_proves_nothing(
    host: Host, mount: dict[str, str], code: int, fault: str, status: str
) -> None:
    host.errors[mount["path"]] = code
    (found,) = host.look(*ALL)
    assert (found.fault, found.device, found.status) == (f"fs_mounts.{fault}", mount["path"], status)
    assert found.tier == "DRAIN"
    is_local = mount["path"] == "/local"
    assert (found.scope, found.blame) == (("node", "node") if is_local else ("shared", "storage"))


def test_a_stale_handle_asks_for_a_remount_and_not_for_a_reboot(host: Host) -> None:
    host.errors["/projects"] = errno.ESTALE
    (found,) = host.look(ALL[0])
    assert "mount again" in (found.remedy or "")
    assert "reboot" not in (found.remedy or "").lower()


@pytest.mark.parametrize(
    ("expected", "fault"),
    [
        ({"path": "/scratch"}, "missing"),
        ({"path": "/dev/sh"}, "missing"),
        ({"path": "/dev/shm/x"}, "missing"),
        ({"path": "/proj"}, "missing"),
        ({"path": "/projects/"}, ""),
        ({"path": "/projects", "type": "nfs"}, ""),
        ({"path": "/projects", "type": "nfs3"}, "wrong_type"),
        ({"path": "/jfs", "type": "fuse"}, ""),
        ({"path": "/jfs", "type": "juicefs"}, "wrong_type"),
        ({"path": "/work", "options": ["flock"]}, ""),
        ({"path": "/work", "options": "rw,flock,noatime"}, ""),
        ({"path": "/work", "options": ["lock"]}, "options"),
        ({"path": "/projects", "options": ["timeo=15"]}, "options"),
        ({"path": "/projects", "options": ["hard"]}, "options"),
        ({"path": "/", "options": ["ro"]}, "options"),
        ({"path": "/", "options": ["remount-ro"]}, "options"),
        ({"path": "/"}, ""),
    ],
)
def test_paths_types_and_options_are_whole_words(host: Host, expected: dict[str, Any], fault: str) -> None:
    assert [one.fault for one in host.look(expected)] == ([f"fs_mounts.{fault}"] if fault else [])


def test_the_check_never_makes_a_missing_mount_point(host: Host) -> None:
    assert [one.fault for one in host.look({"path": "/scratch/deep"})] == ["fs_mounts.missing"]
    assert not (host.root / "scratch").exists()


def test_a_users_own_mounts_are_nobodys_expectation(host: Host) -> None:
    host.table(TABLE.replace("/run/user/4103", "/run/user/5990"))
    assert host.look(*ALL) == []


def test_space_of_a_path_that_is_not_mounted_never_passes(host: Host) -> None:
    host.table(TABLE.replace(" /local ", " /elsewhere "))
    assert host.look({"path": "/local"}, check=FsSpace) == []
    assert [one.fault for one in host.look({"path": "/local"})] == ["fs_mounts.missing"]


def hung(path: str, **more: Any) -> Facts:
    return Facts(key=path, path=path, hung=True, confirmed=False, still=False, pid=7, wchan="", **more)


@pytest.mark.parametrize(
    ("facts", "hung_before", "status"),
    [
        ({}, (), "unknown"),
        ({"confirmed": True, "wchan": "request_wait_answer"}, (), "timeout"),
        ({"still": True}, (), "timeout"),
        ({}, ("/jfs",), "timeout"),
        ({}, ("/work",), "unknown"),
    ],
)
def test_one_slow_answer_is_no_proof_of_a_stuck_fuse_server(
    facts: dict[str, Any], hung_before: tuple[str, ...], status: str
) -> None:
    run = Facts(hook="epilog", in_grace=False, uptime_s=9e4, hung_before=list(hung_before))
    expect = Expectation(expected={"mounts": [{"path": "/jfs", "type": "fuse.juicefs"}]}, run=run)
    (found,) = FsMounts().findings([Facts(hung("/jfs"), **facts)], Facts(), expect)
    assert (found.fault, found.status, found.tier) == ("fs_mounts.hung", status, "DRAIN")
    assert (found.scope, found.blame) == ("shared", "storage")
