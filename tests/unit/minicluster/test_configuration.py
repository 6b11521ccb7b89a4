"""slurm.conf, hooks, requirements: what a cluster is made of before it runs."""

from __future__ import annotations

import os
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicluster import hooks, requirements, slurm_conf
from minicluster.cluster import Cluster
from minicluster.errors import MiniclusterError, RequirementError
from minicluster.slurm_conf import Layout

if TYPE_CHECKING:
    from pathlib import Path


def layout(directory: Path, **changes: object) -> Layout:
    settings: dict[str, object] = {"name": "mini", "nodes": ["n1", "n2"], "port": 21000, **changes}
    return Layout(directory=directory, **settings)  # type: ignore[arg-type]


def lines(text: str) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in text.splitlines() if line)


def test_the_caller_s_keys_replace_ours_whatever_their_case(tmp_path: Path) -> None:
    plain = lines(slurm_conf.slurm_conf(layout(tmp_path)))
    changed = lines(
        slurm_conf.slurm_conf(
            layout(tmp_path, conf={"SLURMDTIMEOUT": "7", "ReturnToService": "", "PrologEpilogTimeout": "9"})
        )
    )
    assert plain["SlurmdTimeout"] == "30"
    assert changed["SLURMDTIMEOUT"] == "7"
    assert "SlurmdTimeout" not in changed
    assert "ReturnToService" not in changed
    assert changed["PrologEpilogTimeout"] == "9"


@given(st.integers(1, 64))
def test_nodes_have_consecutive_ports_and_devices_of_their_own(tmp_path: Path, count: int) -> None:
    found = layout(tmp_path, nodes=[f"n{number}" for number in range(1, count + 1)])
    node_line = next(
        line for line in slurm_conf.slurm_conf(found).splitlines() if line.startswith("NodeName")
    )
    wanted = "Port=21001 " if count == 1 else f"Port=[21001-{21000 + count}] "
    assert wanted in node_line
    assert found.dbd_port == 21000 + count + 1
    assert found.ports == count + 2
    devices = slurm_conf.gres_conf(found).splitlines()[1:]
    assert len(set(devices)) == count
    assert f"{tmp_path}/nodes/n{count}/dev/nvidia[0-7]" in devices[-1]


def test_accounting_only_on_request(tmp_path: Path) -> None:
    assert (
        lines(slurm_conf.slurm_conf(layout(tmp_path)))["AccountingStorageType"] == "accounting_storage/none"
    )
    conf = lines(slurm_conf.slurm_conf(layout(tmp_path, dbd=True)))
    assert conf["AccountingStoragePort"] == "21003"
    assert conf["AccountingStoragePass"] == str(tmp_path / "run/munge.sock")
    dbd = lines(slurm_conf.slurmdbd_conf(layout(tmp_path, slurm_user="slurm")))
    assert dbd["SlurmUser"] == "slurm"
    assert dbd["CommunicationParameters"] == conf["CommunicationParameters"]  # what keeps it on loopback


def test_hooks_are_in_slurm_conf_only_if_there_are_any(tmp_path: Path) -> None:
    assert "Prolog" not in lines(slurm_conf.slurm_conf(layout(tmp_path)))
    conf = lines(slurm_conf.slurm_conf(layout(tmp_path, hooks=("Prolog", "HealthCheckProgram"))))
    assert conf["Prolog"] == f"{tmp_path}/hooks/prolog"
    assert (conf["HealthCheckInterval"], conf["PrologFlags"]) == ("10", "Alloc")


def run_hook(path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([path], env=environment, capture_output=True, text=True, check=False)


def test_a_hook_script_runs_the_program_and_passes_its_exit_code_on(tmp_path: Path) -> None:
    program = tmp_path / "it's a hook"
    program.write_text("#!/bin/sh\necho $SLURM_JOB_ID $MINICLUSTER_HOOK\nexit 7\n")
    program.chmod(0o755)
    hooks.install(tmp_path, hooks.plan({"Prolog": program, "TaskProlog": program}))
    done = run_hook(tmp_path / "hooks/prolog", SLURM_JOB_ID="5")
    assert (done.returncode, done.stdout) == (7, f"5 {tmp_path}\n")
    assert run_hook(tmp_path / "hooks/task_prolog", SLURM_JOB_ID="5").stdout == "5\n"
    assert (tmp_path / "hooks/reboot").stat().st_mode & stat.S_IXUSR


def test_a_checkout_s_shims_get_the_node_s_folder(tmp_path: Path) -> None:
    for shim in hooks.SGUARD_SHIMS.values():
        path = tmp_path / "checkout" / shim
        path.parent.mkdir(parents=True)
        path.write_text('#!/bin/sh\necho "${0##*/}" "$@"\n')
        path.chmod(0o755)
    hooks.install(tmp_path, hooks.plan(tmp_path / "checkout"))
    for name in ("prolog", "epilog", "healthcheck"):
        done = run_hook(tmp_path / "hooks" / name, SLURMD_NODENAME="n3")
        assert done.stdout == f"sguard-{name} --root {tmp_path}/nodes/n3\n"


def test_wrong_hooks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MiniclusterError, match=r"unknown hook 'prolog'.*Prolog"):
        hooks.plan({"prolog": "/bin/true"})
    with pytest.raises(MiniclusterError, match="no slurm_guard checkout"):
        hooks.plan(tmp_path)
    assert hooks.plan(None) == {}


def test_without_root_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(RequirementError, match="needs root"):
        requirements.check(dbd=False)


@pytest.mark.needs_root
def test_missing_packages_are_named_with_the_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(requirements, "SEARCH_PATH", str(tmp_path))
    with pytest.raises(
        RequirementError, match=r"apt-get install .* munge slurm-client slurmctld slurmd"
    ) as error:
        requirements.check(dbd=False)
    assert "mariadb" not in str(error.value)
    with pytest.raises(RequirementError, match=r"mariadb-server .*slurmdbd"):
        requirements.check(dbd=True)
    with pytest.raises(RequirementError, match="slurmd is not installed"):
        requirements.program("slurmd")


@pytest.mark.needs_root
def test_a_folder_that_slurm_s_user_cannot_enter_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(RequirementError, match=r"user nobody can't enter .*chmod o\+x"):
        requirements.check_user("nobody", closed / "cluster")
    with pytest.raises(RequirementError, match="there is no user 'nosuchuser'"):
        requirements.check_user("nosuchuser", tmp_path)
    requirements.check_user("root", closed / "cluster")


@pytest.mark.parametrize("count", [0, -1, 65])
def test_the_number_of_nodes_is_checked(tmp_path: Path, count: int) -> None:
    with pytest.raises(MiniclusterError, match=f"{count} nodes"):
        Cluster(tmp_path, nodes=count)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"layout": {}, "simulate": true}', "\0"])
def test_a_damaged_folder_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(MiniclusterError, match="damaged"):
        Cluster.open(tmp_path)


@pytest.mark.needs_root
def test_no_cluster_and_somebody_else_s_folder(tmp_path: Path) -> None:
    with pytest.raises(MiniclusterError, match="start one with"):
        Cluster.open(tmp_path)
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(MiniclusterError, match=r"holds thesis\.tex but no cluster"):
        Cluster(tmp_path).start()
    assert (tmp_path / "thesis.tex").exists()


def test_stopping_what_never_started_does_no_harm(tmp_path: Path) -> None:
    Cluster(tmp_path / "nothing").stop()
    assert not (tmp_path / "nothing").exists()


def test_only_one_start_at_a_time(tmp_path: Path) -> None:
    one, other = Cluster(tmp_path), Cluster(tmp_path)
    with (
        one._starting(),
        pytest.raises(MiniclusterError, match="another process is starting"),
        other._starting(),
    ):
        pass


def test_a_client_that_fails_or_hangs_is_reported(tmp_path: Path) -> None:
    found = Cluster(tmp_path)
    assert found.run(["sh", "-c", "cat; echo $SLURM_CONF"], text="in ").stdout == f"in {found.conf_path}\n"
    assert found.run(["false"], check=False).returncode == 1
    with pytest.raises(MiniclusterError, match="failed with 3: no such job"):
        found.run(["sh", "-c", "echo no such job >&2; exit 3"])
    with pytest.raises(MiniclusterError, match=r"took longer than 0\.1 s"):
        found.run(["sleep", "60"], timeout=0.1)
    with pytest.raises(MiniclusterError, match="can't be run"):
        found.run(["/nonexistent/client"])
    with pytest.raises(MiniclusterError, match="waited 0 s in vain; last answer: 0"):
        found.wait(lambda: 0, timeout=0)
