"""The wheel: what it holds, and that the command works from it in an environment of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING

import pytest

import slurm_guard

if TYPE_CHECKING:
    from pathlib import Path

SHIMS = {
    "prolog": "sguard-prolog",
    "epilog": "sguard-epilog",
    "healthcheck": "sguard-healthcheck",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """The wheel, built from the checkout without a network."""
    target = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(command, cwd=repository, check=True, capture_output=True, timeout=60)
    (built,) = target.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtual environment with the wheel; its dependencies are lent by the tests' own."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    python = folder / "bin/python"
    install = ["install", "-q", "--no-deps", "--no-index", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), *install], check=True, timeout=60)
    (packages,) = folder.glob("lib/python3*/site-packages")
    lent = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "lent.pth").write_text("\n".join(lent) + "\n")
    return folder


@pytest.mark.parametrize("hook", sorted(SHIMS))
def test_wheel_contains_the_shim_and_its_readme(wheel: Path, repository: Path, hook: str) -> None:
    with zipfile.ZipFile(wheel) as content:
        info = content.getinfo(f"slurm_guard/shims/{hook}/{SHIMS[hook]}")
        assert content.read(info) == (repository / hook / SHIMS[hook]).read_bytes()
        assert info.external_attr >> 16 & 0o111 == 0o111, "the shim is not executable"
        content.getinfo(f"slurm_guard/shims/{hook}/README.md")


def test_wheel_contains_the_snippet_for_users(wheel: Path, repository: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        info = content.getinfo("slurm_guard/shims/taskprolog/sguard-taskprolog")
        assert content.read(info) == (repository / "contrib/taskprolog/sguard-taskprolog").read_bytes()
        assert info.external_attr >> 16 & 0o111 == 0o111


def test_wheel_contains_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        tops = {name.split("/")[0] for name in content.namelist()}
    assert tops == {"slurm_guard", f"slurm_guard-{slurm_guard.__version__}.dist-info"}


def test_every_module_of_the_checkout_is_in_the_wheel(wheel: Path, repository: Path) -> None:
    modules = {str(path.relative_to(repository)) for path in (repository / "slurm_guard").rglob("*.py")}
    with zipfile.ZipFile(wheel) as content:
        assert modules <= set(content.namelist())


def test_command_works_from_the_wheel(environment: Path) -> None:
    command = [str(environment / "bin/sguard"), "--help"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert "job" in done.stdout
    asked = "import slurm_guard; print(slurm_guard.__file__)"
    where = subprocess.run(
        [str(environment / "bin/python"), "-I", "-c", asked],
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert where.stdout.startswith(str(environment)), "the test must run the wheel's code, not the checkout's"


@pytest.mark.parametrize("through", ["in place", "a link", "a link to a link"])
@pytest.mark.parametrize("hook", sorted(SHIMS))
def test_each_shim_of_the_wheel_checks_the_node(
    environment: Path, tmp_path: Path, hook: str, through: str
) -> None:
    (packages,) = environment.glob("lib/python3*/site-packages")
    shim = packages / "slurm_guard/shims" / hook / SHIMS[hook]
    for number in range(("in place", "a link", "a link to a link").index(through)):
        link = tmp_path / f"link{number}"
        link.symlink_to(shim)
        shim = link
    root = a_node(tmp_path / "root")
    traced = run_shim(["/bin/sh", "-x", str(shim), "--root", str(root)])
    started = re.search(r"\+ timeout --foreground -k 1 \d+ (\S+) -I -S (\S+)", traced.stderr)
    assert started, traced.stderr
    python, boot = (os.path.normpath(path) for path in started.groups())
    assert (python, boot) == (f"{environment}/bin/python3", f"{packages}/slurm_guard/engine/boot.py")
    assert (traced.returncode, hooks_on_record(root)) == (0, [hook])
    assert run_shim([str(shim), "--root", str(root)]).returncode == 0
    assert hooks_on_record(root) == [hook, hook]


def test_the_links_of_init_run_the_wheel(environment: Path, tmp_path: Path) -> None:
    root = a_node(tmp_path / "root")
    command = [str(environment / "bin/sguard"), "init", "--root", str(root), "--write"]
    subprocess.run(command, cwd="/", check=True, capture_output=True, timeout=60)
    for hook, name in SHIMS.items():
        link = root / "usr/lib/slurm-guard" / hook / name
        assert str(link.readlink()).startswith(str(environment))
        assert run_shim([str(link), "--root", str(root)]).returncode == 0
    assert sorted(hooks_on_record(root)) == sorted(SHIMS)


def a_node(root: Path) -> Path:
    """The root folder of a node with a boot id and a kernel log."""
    (root / "proc/sys/kernel/random").mkdir(parents=True)
    (root / "proc/sys/kernel/random/boot_id").write_text("7d1f0a52-0000-4000-8000-0000000000c3\n")
    (root / "proc/uptime").write_text("7200.00 14000.00\n")
    (root / "dev").mkdir()
    (root / "dev/kmsg").write_text("6,1,100,-;Linux version 6.1.0\n")
    return root


def run_shim(command: list[str]) -> subprocess.CompletedProcess[str]:
    env = {"SLURMD_NODENAME": "n1", "SLURM_JOB_ID": "31", "SLURM_JOB_UID": "1204"}
    return subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=False, timeout=60)


def hooks_on_record(root: Path) -> list[str]:
    records = (root / "var/lib/slurm-guard/spool").glob("*.json")
    return [json.loads(path.read_text())["hook"] for path in records]
