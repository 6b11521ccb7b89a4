"""What `sguard init` would do: nothing that is there is replaced, and slurm.conf is only read."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_guard.config import load
from slurm_guard.core.errors import SetupError
from slurm_guard.core.paths import Places
from slurm_guard.doctor import shims, slurm_conf
from slurm_guard.doctor.setup import Setup
from slurm_guard.doctor.subject import Subject
from tests.unit.doctor.sites import NODE, script

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
    prolog, time_out = setup.advice
    assert "/etc/slurm/prolog.d/00-sguard-prolog" in prolog.remedy
    assert time_out.what.startswith("PrologEpilogTimeout is not set")


def test_written_on_request(tmp_path: Path) -> None:
    places = places_with(tmp_path)
    made = Setup(places, NODE).write()
    assert made[0] == places.config
    assert load.read(places).problems == []
    link = tmp_path / "usr/lib/slurm-guard/prolog/sguard-prolog"
    assert link.resolve() == shims.source("prolog")
    assert (tmp_path / "etc/slurm/slurm.conf").read_text() == CONF


def test_the_configuration_says_where_slurm_conf_is_if_nobody_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_CONF", raising=False)
    (tmp_path / "opt/x").mkdir(parents=True)
    (tmp_path / "opt/x/slurm.conf").write_text("ClusterName=far\n")
    places = Places(str(tmp_path))
    Path(places.etc).mkdir(parents=True)
    Path(places.config).write_text("[slurm]\nconf = '/opt/x/slurm.conf'\n")
    setup = Setup(places, NODE)
    assert setup.conf_place == ("/opt/x/slurm.conf", "given")
    assert "PrologFlags=Alloc" in setup.lines
    (tmp_path / "opt/x/slurm.conf").unlink()  # links are made all the same
    assert Setup(places, NODE).conf is None


def test_a_configuration_is_never_overwritten_but_links_are_made(tmp_path: Path) -> None:
    places = places_with(tmp_path)
    Path(places.etc).mkdir()
    Path(places.config).write_text("# mine")
    made = Setup(places, NODE).write()
    assert Path(places.config).read_text() == "# mine"
    assert places.config not in made
    assert made == [link.path for link in shims.links(tmp_path)]
    assert Setup(places, NODE).write() == []


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
        file.write("\n".join([*first.lines, *first.optional]))
    again = Setup(Places(str(tmp_path)), NODE)
    again.write()
    complete = Setup(Places(str(tmp_path)), NODE)
    assert (complete.lines, complete.optional, complete.advice) == ([], [], [])


@pytest.mark.parametrize(
    ("text", "line", "advised"),
    [
        ("NodeName=n1\n", True, False),
        (
            "NodeName=n1\nEpilog=/etc/slurm/clean\n",
            False,
            True,
        ),  # a time-out would end the site's own script, too
        ("NodeName=n1\nPrologEpilogTimeout=300\n", False, False),
        ("NodeName=n1\nPrologTimeout=300\n", False, False),
    ],
)
def test_a_time_out_is_asked_for(tmp_path: Path, text: str, line: bool, advised: bool) -> None:
    setup = Setup(places_with(tmp_path, text), NODE)
    assert ("PrologEpilogTimeout=60" in setup.lines) == line
    assert any(one.what.startswith("PrologEpilogTimeout is not set") for one in setup.advice) == advised


def test_the_snippet_for_users_is_offered_where_every_user_can_run_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snippet = script(tmp_path / "opt/sguard-taskprolog")
    monkeypatch.setattr(shims, "source", lambda hook: snippet)
    monkeypatch.setattr(shims, "is_for_everybody", lambda path: path == snippet)
    line = "TaskProlog=/usr/lib/slurm-guard/taskprolog/sguard-taskprolog"
    places = places_with(tmp_path, "NodeName=n1\n")
    assert Setup(places, NODE).optional == [line]
    (tmp_path / "etc/slurm/slurm.conf").write_text("NodeName=n1\nTaskProlog=/site/own\n")
    assert Setup(places, NODE).optional == []
    (tmp_path / "etc/slurm/slurm.conf").write_text("NodeName=n1\n")
    monkeypatch.setattr(shims, "is_for_everybody", lambda path: False)
    assert Setup(places, NODE).optional == []


def test_who_can_run_a_file() -> None:
    assert shims.is_for_everybody(Path("/bin/sh"))
    assert not shims.is_for_everybody(Path("/bin/no-such-program"))


@pytest.mark.parametrize("place", ["snippet", "."])
def test_a_file_that_only_root_can_run(tmp_path: Path, place: str) -> None:
    path = script(tmp_path / "open/snippet")
    (tmp_path / "open" / place).chmod(0o750)
    assert not shims.is_for_everybody(path)


def test_a_slurm_conf_that_is_named_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = Places(str(tmp_path))
    with pytest.raises(SetupError, match=r"^slurm\.conf: /nope: No such file or directory; expected"):
        Setup(places, NODE, "/nope")
    monkeypatch.setenv("SLURM_CONF", "/nope/either")
    with pytest.raises(SetupError, match=r"^\$SLURM_CONF: /nope/either: No such file or directory; expected"):
        Setup(places, NODE)


def test_the_environment_names_slurm_conf_where_nothing_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "site.conf"
    other.write_text("ClusterName=boreas\n")
    monkeypatch.setenv("SLURM_CONF", str(other))
    setup = Setup(Places(str(tmp_path)), NODE)
    assert (setup.conf_place, 'cluster = "boreas"' in setup.text) == ((str(other), "environment"), True)
    assert f'conf = "{other}"' in setup.text
    assert Setup(places_with(tmp_path), NODE).conf_place == ("/etc/slurm/slurm.conf", "usual")
    found = [one.what for one in slurm_conf.examine(Subject(Places(str(tmp_path)), NODE))]
    assert not any("$SLURM_CONF" in what for what in found)
    (tmp_path / "etc/slurm/slurm.conf").unlink()
    found = [one.what for one in slurm_conf.examine(Subject(Places(str(tmp_path)), NODE))]
    assert found[0] == "slurm.conf is known from $SLURM_CONF alone: hooks do not see it"


def test_without_slurm_conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_CONF", raising=False)
    setup = Setup(Places(str(tmp_path)), NODE)
    assert (setup.conf, setup.lines, setup.advice) == (None, [], [])
