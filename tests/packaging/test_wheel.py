"""The wheel: what it holds, and that the command works from it in an environment of its own."""

from __future__ import annotations

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
