"""What `sguard init` would do: nothing that is there is replaced, and slurm.conf is only read."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_guard.config import load
from slurm_guard.core.errors import SetupError
from slurm_guard.core.paths import Places
from slurm_guard.doctor import shims
from slurm_guard.doctor.setup import Setup
from tests.unit.doctor.sites import NODE

CONF = "ClusterName=atlas\nProlog=/etc/slurm/prolog.d/*\nNodeName=n[1-4] Gres=gpu:l40s:2\n"


def places_with(root: Path, text: str = CONF) -> Places:
    (root / "etc/slurm").mkdir(parents=True)
    (root / "etc/slurm/slurm.conf").write_text(text)
    return Places(str(root))


def test_shown_first_and_nothing_written(tmp_path: Path) -> None:
    setup = Setup(places_with(tmp_path), NODE)
    assert 'conf = "/etc/slurm/slurm.conf"' in setup.text
    assert 'name = "2xL40S"' in setup.text
    assert [path.name for path in (tmp_path / "etc").iterdir()] == ["slurm"]
    assert setup.lines == [
        "Epilog=/usr/lib/slurm-guard/epilog/sguard-epilog",
        "HealthCheckProgram=/usr/lib/slurm-guard/healthcheck/sguard-healthcheck",
        "PrologFlags=Alloc",
        "SchedulerParameters=nohold_on_prolog_fail",
        "HealthCheckInterval=300",
        "HealthCheckNodeState=ANY,CYCLE",
    ]
    (advice,) = setup.advice
    assert "/etc/slurm/prolog.d/00-sguard-prolog" in advice.remedy


def test_written_on_request(tmp_path: Path) -> None:
    places = places_with(tmp_path)
    made = Setup(places, NODE).write()
    assert made[0] == places.config
    assert load.read(places).problems == []
    link = tmp_path / "usr/lib/slurm-guard/prolog/sguard-prolog"
    assert link.resolve() == shims.source("prolog")
    assert (tmp_path / "etc/slurm/slurm.conf").read_text() == CONF


def test_a_configuration_is_never_overwritten(tmp_path: Path) -> None:
    places = places_with(tmp_path)
    Path(places.etc).mkdir()
    Path(places.config).write_text("# mine")
    with pytest.raises(SetupError, match="nothing was written"):
        Setup(places, NODE).write()
    assert Path(places.config).read_text() == "# mine"
    assert not (tmp_path / "usr").exists()


def test_a_file_in_the_way_of_a_link_stops_everything(tmp_path: Path) -> None:
    places = places_with(tmp_path)
    (tmp_path / "usr/lib/slurm-guard/epilog").mkdir(parents=True)
    (tmp_path / "usr/lib/slurm-guard/epilog/sguard-epilog").write_text("#!/bin/sh\n")
    with pytest.raises(SetupError, match="sguard-epilog is there already and is no link"):
        Setup(places, NODE).write()
    assert not Path(places.config).exists()


def test_links_that_are_there_stay(tmp_path: Path) -> None:
    places = places_with(tmp_path)
    Setup(places, NODE).write()
    Path(places.config).unlink()
    assert Setup(places, NODE).write() == [places.config]


def test_a_complete_slurm_conf_needs_no_line(tmp_path: Path) -> None:
    first = Setup(places_with(tmp_path, "NodeName=n1\n"), NODE)
    with (tmp_path / "etc/slurm/slurm.conf").open("a") as file:
        file.write("\n".join(first.lines))
    again = Setup(Places(str(tmp_path)), NODE)
    again.write()
    complete = Setup(Places(str(tmp_path)), NODE)
    assert (complete.lines, complete.advice) == ([], [])


def test_without_slurm_conf(tmp_path: Path) -> None:
    setup = Setup(Places(str(tmp_path)), NODE)
    assert (setup.conf, setup.lines, setup.advice) == (None, [], [])
