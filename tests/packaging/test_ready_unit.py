"""The boot gate's unit: slurmd waits for it, and starts in the end whatever it says."""

from __future__ import annotations

import configparser
import shlex
from pathlib import Path

from slurm_guard.cli.main import click_command

UNIT = Path(__file__).resolve().parents[2] / "contrib/systemd/slurm-guard-ready.service"


def unit() -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, strict=True)
    found.optionxform = str  # type: ignore[assignment]  # keys of units have capitals
    found.read_string(UNIT.read_text())
    return found


def test_slurmd_waits_for_it_and_starts_whatever_it_says() -> None:
    found = unit()
    assert found["Unit"]["Before"].split() == ["slurmd.service"]
    assert found["Install"]["WantedBy"].split() == ["slurmd.service"]
    assert found["Service"]["ExecStart"].startswith("-/")
    assert "slurmd.service" not in found["Unit"].get("Requires", "")


def test_its_command_is_one_of_ours_and_ends_before_the_unit_is_ended() -> None:
    service = unit()["Service"]
    program, name, *arguments = shlex.split(service["ExecStart"].lstrip("-"))
    assert program == "/usr/local/bin/sguard"
    command = click_command()
    found = command.get_command(None, name)  # type: ignore[attr-defined]
    with found.make_context(name, arguments) as context:
        wait = context.params["wait"]
    assert int(service["TimeoutStartSec"]) >= wait + 60  # a look that hangs takes its deadline
