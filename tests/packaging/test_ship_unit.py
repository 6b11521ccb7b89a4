"""The unit that ships at shutdown: ordered so that what it needs is still there."""

from __future__ import annotations

import configparser
from pathlib import Path

UNIT = Path(__file__).resolve().parents[2] / "contrib/systemd/slurm-guard-ship.service"


def unit() -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, strict=True)
    found.optionxform = str  # type: ignore[assignment]  # keys of units have capitals
    found.read_string(UNIT.read_text())
    return found


def test_it_is_stopped_after_slurmd_and_before_what_it_needs() -> None:
    ordered = unit()["Unit"]
    assert ordered["Before"].split() == ["slurmd.service"]
    assert {"network-online.target", "munge.service", "nss-lookup.target"} <= set(ordered["After"].split())


def test_it_ships_when_it_is_stopped_and_not_before() -> None:
    service = unit()["Service"]
    assert service["ExecStop"] == "-/usr/local/bin/sguard ship"
    assert (service["Type"], service["RemainAfterExit"], service["ExecStart"]) == (
        "oneshot",
        "yes",
        "/bin/true",
    )
    assert int(service["TimeoutStopSec"]) <= 60
