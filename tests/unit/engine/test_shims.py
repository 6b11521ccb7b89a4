"""The shims fail open: only the engine's own 75 becomes a 1, and only in the prolog."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurm_guard.engine import child

from .conftest import CHECKOUT

if TYPE_CHECKING:
    from .conftest import NodeRoot

HOOKS = ("prolog", "epilog", "healthcheck")


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    """A copy of the shims beside an engine that each test spoils in its own way."""
    for hook in HOOKS:
        shutil.copytree(CHECKOUT / hook, tmp_path / hook)
    (tmp_path / "slurm_guard/engine").mkdir(parents=True)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to("/usr/bin/python3")
    return tmp_path


ENDS = [
    ("raise SystemExit(75)", {"prolog": 1, "epilog": 0, "healthcheck": 0}),
    ("raise SystemExit(0)", dict.fromkeys(HOOKS, 0)),
    ("raise SystemExit(1)", dict.fromkeys(HOOKS, 0)),
    ("raise SystemExit(2)", dict.fromkeys(HOOKS, 0)),
    ("1/0", dict.fromkeys(HOOKS, 0)),
    ("def broken(:", dict.fromkeys(HOOKS, 0)),
    ("import os; os.kill(os.getpid(), 11)", dict.fromkeys(HOOKS, 0)),
    ("import os; os.kill(os.getpid(), 9)", dict.fromkeys(HOOKS, 0)),
    ("import os; os.abort()", dict.fromkeys(HOOKS, 0)),
]


@pytest.mark.parametrize(("program", "codes"), ENDS, ids=[program for program, _ in ENDS])
@pytest.mark.parametrize("hook", HOOKS)
def test_exit_codes(node: NodeRoot, broken: Path, hook: str, program: str, codes: dict[str, int]) -> None:
    (broken / "slurm_guard/engine/boot.py").write_text(program)
    assert node.run(hook, shim=broken / hook / f"sguard-{hook}").returncode == codes[hook]
    if program != "raise SystemExit(0)" and not codes[hook]:
        assert node.said("the job is let through")


@pytest.mark.parametrize("hook", HOOKS)
def test_no_interpreter_and_no_package(node: NodeRoot, broken: Path, hook: str) -> None:
    shim = broken / hook / f"sguard-{hook}"
    assert node.run(hook, shim=shim).returncode == 0  # no boot.py
    (broken / ".venv/bin/python").unlink()
    (broken / ".venv/bin/python").write_text("#!/nonexistent/interpreter\n")
    (broken / ".venv/bin/python").chmod(0o755)
    assert node.run(hook, shim=shim).returncode == 0
    assert node.said("the job is let through")


@pytest.mark.parametrize("switch", ["etc/slurm-guard/disabled", "run/slurm-guard/disabled"])
@pytest.mark.parametrize("hook", HOOKS)
def test_the_kill_switch(node: NodeRoot, hook: str, switch: str) -> None:
    (node.root / switch).parent.mkdir(parents=True)
    (node.root / switch).touch()
    assert node.run(hook, job=1).returncode == 0
    assert node.records() == []


def test_a_link_to_the_shim_works(node: NodeRoot, tmp_path: Path) -> None:
    (tmp_path / "50-sguard").symlink_to(CHECKOUT / "prolog/sguard-prolog")
    assert node.run("prolog", job=3, shim=tmp_path / "50-sguard").returncode == 0
    assert [record["allocation"]["job_id"] for record in node.records()] == [3]


@pytest.mark.parametrize("hook", HOOKS)
def test_a_copy_in_slurm_s_cache_finds_the_guard_by_the_link(
    node: NodeRoot, tmp_path: Path, hook: str
) -> None:
    """Configless Slurm copies the files of relative hook paths into its cache and starts the copies."""
    copy = tmp_path / "conf-cache" / f"sguard-{hook}"
    copy.parent.mkdir()
    shutil.copy(CHECKOUT / hook / copy.name, copy)
    assert node.run(hook, job=3, shim=copy).returncode == 0
    assert node.said(f"no engine beside {copy}")
    assert node.records() == []
    link = node.root / f"usr/lib/slurm-guard/{hook}/sguard-{hook}"
    link.parent.mkdir(parents=True)
    link.symlink_to(CHECKOUT / hook / copy.name)
    assert node.run(hook, job=3, shim=copy).returncode == 0
    assert [record["hook"] for record in node.records()] == [hook]


@pytest.mark.parametrize("by", ["a link to the shim", "a link to the version's folder"])
def test_a_run_stays_with_the_version_that_it_began_with(
    node: NodeRoot, broken: Path, tmp_path: Path, by: str
) -> None:
    """The link moves to another version as soon as the engine has begun."""
    current = tmp_path / "current"
    current.symlink_to(broken)
    (broken / "slurm_guard/engine/boot.py").write_text(
        "import os, sys\n"
        f"os.symlink('/nonexistent', {str(tmp_path / 'new')!r})\n"
        f"os.replace({str(tmp_path / 'new')!r}, {str(current)!r})\n"
        "sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))\n"
        "import late\n"
    )
    (broken / "slurm_guard/engine/late.py").write_text("raise SystemExit(75)")
    shim = current / "prolog/sguard-prolog"
    if by == "a link to the shim":
        (tmp_path / "00-sguard").symlink_to(shim)
        shim = tmp_path / "00-sguard"
    assert node.run("prolog", job=3, shim=shim).returncode == 1


@pytest.mark.parametrize(
    "module", ["core/plan.py", "engine/worker.py", "engine/hook.py", "checks/ib_link.py", "core/check.py"]
)
def test_a_truncated_module_lets_the_job_through(node: NodeRoot, tmp_path: Path, module: str) -> None:
    shutil.copytree(
        CHECKOUT / "slurm_guard", tmp_path / "slurm_guard", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(CHECKOUT / "prolog", tmp_path / "prolog")
    path = tmp_path / "slurm_guard" / module
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2] + b"\n(")
    assert node.run("prolog", job=1, shim=tmp_path / "prolog/sguard-prolog").returncode == 0
    if module == "checks/ib_link.py":
        (record,) = node.records()
        (result,) = [one for one in record["results"] if one["check"] == "ib_link"]
        assert result["status"] == "unknown"
        assert "could not be loaded" in result["findings"][0]["message"]
    else:
        assert node.said("the job is let through")


def test_nothing_in_the_environment_is_executed_or_obeyed(node: NodeRoot, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text(f"open({str(tmp_path / 'owned')!r}, 'w')")
    evil = f"$(touch {tmp_path}/owned)`touch {tmp_path}/owned`;'\"\n"
    done = node.run(
        "prolog",
        SLURM_JOB_ID="12",
        SLURM_JOB_USER=evil,
        SLURM_JOB_COMMENT=evil * 50,
        SLURM_JOB_GPUS=evil,
        SLURM_JOB_PARTITION=evil,
        PYTHONPATH=str(tmp_path),
        PYTHONSTARTUP=str(tmp_path / "json.py"),
        PATH=str(tmp_path),
        LD_LIBRARY_PATH=str(tmp_path),
    )
    assert done.returncode == 0
    assert not (tmp_path / "owned").exists()
    (record,) = node.records()
    assert record["allocation"]["user"] == evil


def test_the_shim_answers_a_time_out_by_slurmd(node: NodeRoot, broken: Path) -> None:
    """slurmd ends a hook that takes too long with SIGTERM to its process group: nothing may stay behind."""
    mark = node.root / "pid"
    (broken / "slurm_guard/engine/boot.py").write_text(
        f"import os, threading; open({str(mark)!r}, 'w').write(str(os.getpid())); threading.Event().wait()"
    )
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os.execve(broken / "epilog/sguard-epilog", ["sguard-epilog", "--root", str(node.root)], {})
    while not (mark.exists() and mark.read_text()):
        assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    os.killpg(pid, signal.SIGTERM)
    os.waitpid(pid, 0)
    engine = int(mark.read_text())
    while child.describe(engine)[0] not in ("", "Z"):
        time.sleep(0.01)
