"""`sguard policy replay`: which plan, which records, and the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slurm_guard.cli.main import main
from slurm_guard.config.apply import apply
from slurm_guard.core.paths import Places
from slurm_guard.store import open_store
from slurm_guard.store.record import parse
from slurm_guard.store.writer import ingest
from tests.unit.store.factory import DAY, at, finding, run
from tests.unit.store.factory import job as allocation

OBSERVING = """
cluster = "aurora"
[[class]]
name = "4xA100"
nodes = "a[1-4]"
"""
ENFORCING = OBSERVING + '[[mode]]\nmode = "enforce"\n[[rule]]\nname = "ours"\nfault = "gpu_count"\nruns = 1\n'
SLURM_CONF = """
ClusterName=aurora
NodeName=a[1-4]
PartitionName=debug Nodes=a[1-4]
"""
LOST = finding("gpu_count.lost", device="gpu2", tier="DRAIN_REBOOT")
TIMES = ["-S", at(-60), "-E", at(600)]


def records() -> list[dict[str, Any]]:
    """a1 loses a GPU at 09:00, a2's prolog misses one at 09:30; a3 is well."""
    found = [
        run("healthcheck", node, minutes, *([LOST] if node == "a1" and minutes == 60 else []))
        for node in ("a1", "a2", "a3")
        for minutes in range(0, 480, 20)
    ]
    given = allocation(77, "a2", 90, gpus="012")
    return [*found, run("prolog", "a2", 90, LOST, allocation=given)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host that observes, with the records of three of its four nodes."""
    places = Places(str(tmp_path))
    Path(places.etc).mkdir(parents=True)
    Path(places.config).write_text(OBSERVING)
    conf = Path(places.below("etc/slurm/slurm.conf"))
    conf.parent.mkdir(parents=True)
    conf.write_text(SLURM_CONF)
    apply(places)
    with open_store(places.database) as store:
        ingest(store, [parse(json.dumps(one).encode()) for one in records()])
    return tmp_path


def ask(capsys: pytest.CaptureFixture[str], root: Path, *options: str) -> dict[str, Any]:
    assert main(["policy", "replay", *TIMES, *options, "--root", str(root), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def drains(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one["node"], one["at"], one["action"]) for one in found["only_would"]]


WOULD = [("a1", at(60), "drain"), ("a2", at(90), "refuse")]


def test_the_plan_as_it_is_observes(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    found = ask(capsys, root)
    assert (found["kind"], found["cluster"], found["nodes"], found["nodes_on_record"]) == (
        "policy_replay",
        "aurora",
        4,
        3,
    )
    assert (found["only_would"], found["held_by"]) == ([], {"observe": 2})
    assert not any("slurm.conf" in one for one in found["not_replayed"])


def test_enforcing_it(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    found = ask(capsys, root, "--enforce")
    assert drains(found) == WOULD[:1]  # 10 % of four nodes is one, and a1 is out until 10:40
    assert found["held_by"] == {"nodes": 1}
    assert found["would"]["returns"] == 1


def test_settings_that_are_not_applied(
    capsys: pytest.CaptureFixture[str], root: Path, tmp_path: Path
) -> None:
    before = Path(Places(str(root)).plan).read_bytes()
    file = tmp_path / "tomorrow.toml"
    file.write_text(f"{ENFORCING}\n[budget]\npercent = 50\n")
    found = ask(capsys, root, "--config", str(file))
    assert drains(found) == WOULD
    assert found["only_would"][0]["rules"] == ["rule ours"]
    folder = tmp_path / "etc.new"
    (folder / "conf.d").mkdir(parents=True)
    (folder / "slurm-guard.toml").write_text(ENFORCING)
    (folder / "conf.d" / "budget.toml").write_text("[budget]\npercent = 50\n")
    again = ask(capsys, root, "--config", str(folder))
    assert (drains(again), again["plan"]) == (WOULD, found["plan"])
    assert Path(Places(str(root)).plan).read_bytes() == before


def test_one_node_is_shown(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    found = ask(capsys, root, "--enforce", "-w", "a[2-3]")
    assert (found["only_would"], found["held_by"], found["would"]["most_out"]) == ([], {"nodes": 1}, 1)


def test_the_page_fits_80_columns(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    assert main(["policy", "replay", *TIMES, "--enforce", "--root", str(root)]) == 0
    page = capsys.readouterr().out
    assert max(len(line) for line in page.splitlines()) <= 80
    text = " ".join(page.split())
    assert "what is observed taken as enforced: 2027-03-09 07:00:00 to 2027-03-09 18:00:00 UTC" in text
    assert "WOULD DRAIN, AND DID NOT: 1 2027-03-09 09:00:00 a1: drain for gpu_count.lost gpu2" in text
    assert "HELD, BY CAUSE: 1 2027-03-09 09:30:00 a2: gpu_count.lost gpu2" in text
    assert "NOT REPLAYED no records of a4 in this time" in text
    assert main(["policy", "replay", *TIMES, "--root", str(root)]) == 0
    assert "No difference to what was done." in capsys.readouterr().out


def test_a_foreign_text_steers_no_terminal(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    odd = finding("gpu_count.lost", device="gpu\x1b[31m" + "x" * 300, tier="DRAIN")
    with open_store(Places(str(root)).database) as store:
        ingest(store, [parse(json.dumps(run("healthcheck", "a3", 45, odd)).encode())])
    assert main(["policy", "replay", *TIMES, "--enforce", "--root", str(root)]) == 0
    page = capsys.readouterr().out
    assert "\x1b" not in page
    assert max(len(line) for line in page.splitlines()) <= 80


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (["-S", "2027-03-09", "-E", "2027-03-08"], 2, "ends before it begins"),
        (["-S", "soon"], 2, "is not a time"),
        (["-w", "a[1-"], 2, "-w"),
        (["-M", "borealis"], 20, "no such cluster"),
        (["--config", "/nowhere/new.toml"], 11, "no such file or folder"),
    ],
)
def test_slips_are_told(
    capsys: pytest.CaptureFixture[str], root: Path, options: list[str], code: int, told: str
) -> None:
    assert main(["policy", "replay", *options, "--root", str(root)]) == code
    assert told in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("budgets = 3\n", "budgets"),
        ('[[rule]]\nfault = "gpu_count"\npartitions = ["debgu"]\naction = "tell"\n', "debgu"),
        ("cluster = \n", "syntax error"),
    ],
)
def test_settings_that_are_wrong_are_told_with_their_place(
    capsys: pytest.CaptureFixture[str], root: Path, tmp_path: Path, text: str, told: str
) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    assert main(["policy", "replay", "--config", str(file), "--root", str(root)]) == 11
    error = " ".join(capsys.readouterr().err.split())
    assert told in error
    assert "wrong.toml:" in error


def test_an_empty_folder_is_no_configuration(
    capsys: pytest.CaptureFixture[str], root: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    assert main(["policy", "replay", "--config", str(tmp_path / "empty"), "--root", str(root)]) == 11
    assert "neither slurm-guard.toml nor conf.d" in " ".join(capsys.readouterr().err.split())


def test_without_a_plan_it_must_be_clear_which_cluster_is_meant(
    capsys: pytest.CaptureFixture[str], root: Path
) -> None:
    places = Places(str(root))
    Path(places.plan).unlink()
    assert ask(capsys, root)["cluster"] == "aurora"
    with open_store(places.database) as store:
        ingest(store, [parse(json.dumps(run("healthcheck", "b1", 5, cluster="borealis")).encode())])
    assert main(["policy", "replay", *TIMES, "--root", str(root)]) == 2
    assert "aurora, borealis" in capsys.readouterr().err
    assert ask(capsys, root, "-M", "borealis")["nodes"] == 1


def test_the_week_before_now_is_the_default(capsys: pytest.CaptureFixture[str], root: Path) -> None:
    assert main(["policy", "replay", "--root", str(root), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["from"] < found["to"]
    assert found["nodes_on_record"] == 0 or found["to"] > DAY.isoformat()
