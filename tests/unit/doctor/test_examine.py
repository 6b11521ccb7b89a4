"""All examinations together, and what files others can read or change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurm_guard.core.paths import Places
from slurm_guard.doctor import examine, permissions
from slurm_guard.doctor.advice import TOPICS, Topic, needs_a_person, order
from slurm_guard.doctor.subject import Subject
from tests.unit.doctor.sites import NODE, site, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_guard.doctor.advice import Advice


def test_every_topic_is_looked_at(tmp_path: Path) -> None:
    found = examine.examine(site(tmp_path).places, NODE)
    assert {one.topic for one in found} == set(TOPICS)
    assert all(one.remedy for one in found if one.status not in ("pass", "skip"))


@pytest.mark.needs_root
def test_an_examination_that_breaks_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(subject: Subject) -> Iterator[Advice]:
        yield Topic("node").good("so far so good")
        raise ZeroDivisionError("on purpose")

    looks = ((Topic("node"), breaks), *examine.EXAMINATIONS[-1:])
    monkeypatch.setattr(examine, "EXAMINATIONS", looks)
    found = examine.examine(site(tmp_path).places, NODE)
    assert [(one.status, one.topic) for one in found] == [
        ("unknown", "node"),
        ("pass", "node"),
        ("pass", "files"),
    ]
    assert "ZeroDivisionError: on purpose" in found[0].what
    assert needs_a_person(found)


def test_what_must_be_done_comes_first_and_causes_before_effects() -> None:
    plan, slurm, files = Topic("plan"), Topic("slurm"), Topic("files")
    given = [files.warn("d"), slurm.good("g"), slurm.warn("c"), plan.warn("b"), plan.skip("f")]
    given += [slurm.bad("a"), plan.unknown("e")]
    assert [one.what for one in order(given)] == ["a", "b", "c", "d", "e", "f", "g"]


def test_no_plan_is_one_thing_to_do_and_not_four(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_CONF", raising=False)
    found = examine.examine(Places(str(tmp_path)), NODE)
    assert [(one.status, one.remedy) for one in found if one.topic == "plan" and one.remedy] == [
        ("warn", "`sguard init --write`, then `sguard config apply`")
    ]
    assert (
        sum(one.topic == "slurm" for one in found) == 1
    )  # all that Slurm lacks in one line, or that it is there
    assert not any("the plan names" in one.what for one in found)


def test_an_empty_root_is_examined(tmp_path: Path) -> None:
    assert needs_a_person(examine.examine(Places(str(tmp_path)), NODE))


@pytest.mark.needs_root
def test_files_that_others_may_change(tmp_path: Path) -> None:
    subject = site(tmp_path)
    assert told(permissions.examine, subject) == []
    Path(subject.places.config).chmod(0o664)
    conf_d = Path(subject.places.etc) / "conf.d"
    conf_d.mkdir()
    (conf_d / "x.toml").touch()
    conf_d.chmod(0o777)
    found = [one for _, one in told(permissions.examine, subject)]
    assert [what.partition(" decides")[0] for what in found] == [
        subject.places.config,
        str(conf_d / "x.toml"),
    ]
    assert f"but {conf_d} is writable by others (mode 0777)" in found[1]


@pytest.mark.needs_root
def test_files_that_others_may_read(tmp_path: Path) -> None:
    subject = site(tmp_path)
    Path(subject.places.plan).chmod(0o644)
    Path(subject.places.var).chmod(0o755)
    assert told(permissions.examine, subject) == [
        ("warn", f"{subject.places.var} is open to others (mode 0755)"),
        ("warn", f"{subject.places.plan} is open to others (mode 0644)"),
    ]


@pytest.mark.needs_root
def test_a_torn_node_json(tmp_path: Path) -> None:
    site(tmp_path)
    (tmp_path / "etc/slurm-guard/node.json").write_text("{")
    ((status, what),) = told(permissions.examine, Subject(Places(str(tmp_path)), NODE))
    assert status == "fail"
    assert "node.json" in what


@pytest.mark.needs_root
def test_a_place_below_a_folder_of_everybodys_is_told_once(tmp_path: Path) -> None:
    site(tmp_path)
    data = tmp_path / "data"
    (data / "guard").mkdir(parents=True, mode=0o700)
    (data / "run").mkdir(mode=0o700)
    node = {"places": {"var": "/data/guard", "run": "/data/run"}}
    (tmp_path / "etc/slurm-guard/node.json").write_text(json.dumps(node))
    data.chmod(0o777)
    subject = Subject(Places(str(tmp_path)), NODE)
    ((status, what),) = told(permissions.examine, subject)
    assert (status, f"can be replaced: {data} is writable by others (mode 0777)" in what) == ("fail", True)
    data.chmod(0o1777)
    assert told(permissions.examine, subject) == []
