"""Asking the commands about nodes and records: what the tests of nodes, node, drains and ingest share."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from slurm_guard.cli.main import main
from slurm_guard.core.errors import SlurmUnreachableError
from tests.unit.cli.slurm_stub import action, finding, put, run_record

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

LOST = ("gpu_count.lost", "gpu3")
DOWN = SlurmUnreachableError("sinfo gave no answer within 5 s")


def run(root: Path, *arguments: str) -> int:
    return main([*arguments, "--root", str(root)])


def answer(capsys: pytest.CaptureFixture[str], root: Path, code: int, *arguments: str) -> dict[str, Any]:
    assert run(root, *arguments, "--json") == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["schema"] == "1.0"
    assert found["kind"]
    return found


def lose_gpu(root: Path, node: str = "n2", **fields: Any) -> None:
    """A run that lost a GPU and drained its node."""
    put(
        root,
        run_record(node, finding(*LOST, **fields), ago_s=600, actions=[action("drain", *LOST, ago_s=599)]),
    )
