"""A hook that slurmd did not start: what is missing is said, and nothing is made up for it."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from slurm_guard.engine import hook

from .conftest import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import NodeRoot

HOOKS = ("prolog", "epilog", "healthcheck")


@pytest.mark.parametrize("name", HOOKS)
def test_a_root_that_is_not_there_is_not_made(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[tuple[str, str]] = []
    monkeypatch.setattr(hook.syslog, "say", lambda log, text, level=0: said.append((log, text)))
    assert hook.main([name, "--root", str(tmp_path / "gone/root")]) == 0
    text = f"{name}: --root {tmp_path}/gone/root: no such folder: nothing was checked"
    assert said == [("/dev/log", text)]
    assert capsys.readouterr().err == f"sguard: {text}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", HOOKS)
def test_nor_is_it_by_the_shim(tmp_path: Path, name: str) -> None:
    shim = [str(CHECKOUT / name / f"sguard-{name}"), "--root", str(tmp_path / "gone")]
    done = subprocess.run(
        shim, env={"SLURMD_NODENAME": "n1"}, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert "no such folder: nothing was checked" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "node_name", "job", "said"),
    [
        ("healthcheck", "", None, "SLURMD_NODENAME not set, so not started by slurmd: its record goes under"),
        ("prolog", "", None, "SLURMD_NODENAME and SLURM_JOB_ID not set"),
        ("prolog", "n1", None, "SLURM_JOB_ID not set, so not started by slurmd; by hand: `sguard check run`"),
        ("epilog", "", 7, "SLURMD_NODENAME not set"),
        ("healthcheck", "n1", None, ""),
        ("prolog", "n1", 7, ""),
    ],
)
def test_what_slurmd_would_have_set_is_missed(
    node: NodeRoot, name: str, node_name: str, job: int | None, said: str
) -> None:
    assert node.run(name, job, SLURMD_NODENAME=node_name).returncode == 0
    assert len(node.records()) == 1
    if said:
        assert node.said(said)
    else:
        assert not any("not started by slurmd" in line for line in node.log)
