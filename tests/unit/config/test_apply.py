"""`config apply`: the plan is put in place whole, and nothing is written for a bad configuration."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from slurm_guard.config.apply import apply
from slurm_guard.core import plan
from slurm_guard.core.errors import ConfigError, SetupError
from slurm_guard.core.paths import Places
from tests.unit.config.samples import places_with

CLASS = "[[class]]\nname = 'k'\nnodes = '{nodes}'\ngpus = {gpus}\n"


def mode_of(path: str) -> int:
    return stat.S_IMODE(Path(path).stat().st_mode)


def names_in(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def test_the_plan_is_roots_alone(tmp_path: Path) -> None:
    places = places_with(tmp_path, CLASS.format(nodes="k[1-3]", gpus=2))
    applied = apply(places, now=1000)
    assert (mode_of(places.var), mode_of(places.plan)) == (0o700, 0o600)
    assert names_in(places.var) == ["plan.json"]
    found = plan.load(places.plan, "k3", now=1001)
    assert (found.state, found.hash, found.expected) == ("ok", applied.bundle["hash"], {"gpus": 2})
    assert applied.changed
    assert applied.changes == []
    assert applied.as_dict()["previous_hash"] is None


def test_what_changed_is_told_and_the_one_before_is_kept(tmp_path: Path) -> None:
    first = apply(places_with(tmp_path, CLASS.format(nodes="k[1-3]", gpus=2)), now=1000)
    text = "[budget]\nnodes = 5\n[[mode]]\naction = 'drain'\nmode = 'enforce'\n" + CLASS.format(
        nodes="k[2-4]", gpus=3
    )
    places = places_with(tmp_path, text)
    second = apply(places, now=2000)
    assert second.changed
    assert second.previous_hash == first.bundle["hash"]
    assert set(second.changes) == {
        "budget.nodes: 2 -> 5",
        "1 node added: k4",
        "1 node removed: k1",
        "expected.gpus: 2 -> 3 (k[2-3])",
        'modes: [] -> [["*", "drain", "enforce"]] (k[2-3])',
    }
    previous = json.loads((tmp_path / "var/lib/slurm-guard/plan.json.previous").read_text())
    assert {name: value for name, value in previous.items() if name != "seal"} == first.bundle


def test_unchanged_refreshes_the_plans_age(tmp_path: Path) -> None:
    places = places_with(tmp_path, "[budget]\nnodes = 3\n")
    apply(places, now=1000)
    again = apply(places, now=5000)
    assert not again.changed
    assert plan.load(places.plan, "x", now=5001).built_at == 5000
    assert names_in(places.var) == ["plan.json"]


def test_nothing_is_written_for_a_bad_configuration(tmp_path: Path) -> None:
    places = places_with(tmp_path, "[budget]\nnodes = 3\n")
    apply(places, now=1000)
    before = (tmp_path / "var/lib/slurm-guard/plan.json").read_bytes()
    places_with(tmp_path, "[budget]\nnodes = -3\n")
    with pytest.raises(ConfigError):
        apply(places, now=2000)
    assert (tmp_path / "var/lib/slurm-guard/plan.json").read_bytes() == before
    assert names_in(places.var) == ["plan.json"]


def test_a_torn_plan_is_replaced_and_kept_aside(tmp_path: Path) -> None:
    places = places_with(tmp_path, "")
    Path(places.var).mkdir(parents=True)
    (tmp_path / "var/lib/slurm-guard/plan.json").write_text('{"hash": "ab')
    applied = apply(places, now=1000)
    assert (applied.previous_hash, applied.changed) == ("", True)
    assert plan.load(places.plan, "x", now=1001).state == "ok"
    assert (tmp_path / "var/lib/slurm-guard/plan.json.previous").read_text() == '{"hash": "ab'


def test_a_plan_that_is_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    places = places_with(tmp_path, "")
    Path(places.var).mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    Path(places.plan).symlink_to(victim)
    apply(places, now=1000)
    assert victim.read_text() == "precious"
    assert not Path(places.plan).is_symlink()


def test_node_json_moves_the_plan_and_stays_as_it_is(tmp_path: Path) -> None:
    places_with(tmp_path, "")
    node = tmp_path / "etc/slurm-guard/node.json"
    node.write_text('{"places": {"var": "/persist/guard"}}')
    apply(Places(str(tmp_path)), now=1000)
    assert (tmp_path / "persist/guard/plan.json").exists()
    assert node.read_text() == '{"places": {"var": "/persist/guard"}}'


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    places = places_with(tmp_path, "")
    (tmp_path / "var").write_text("a file")
    with pytest.raises(SetupError, match=r"cannot write the plan to .*plan\.json.*run as root"):
        apply(places)


def test_what_is_missing_on_this_host_is_noted(tmp_path: Path) -> None:
    places = places_with(tmp_path, f"[slurm]\nbin = '{tmp_path}/nothing'\n[nvml]\npython_path = []\n")
    notes = "\n".join(apply(places, now=1000).notes)
    assert "scontrol, sinfo, squeue, sacct not found" in notes
    assert "nvidia-ml-py" in notes


def test_a_disk_that_is_full_leaves_the_plan_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = places_with(tmp_path, "")
    apply(places, now=1000)
    before = Path(places.plan).read_bytes()
    places_with(tmp_path, "cluster = 'new'\n")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("slurm_guard.engine.files.os.fsync", full)
    with pytest.raises(SetupError, match="No space left on device"):
        apply(places, now=2000)
    assert Path(places.plan).read_bytes() == before
    assert not [name for name in names_in(places.var) if name.endswith(".tmp")]


def test_nodes_that_only_a_mode_names_are_counted_apart(tmp_path: Path) -> None:
    text = "[[class]]\nname = 'k'\nnodes = 'k[1-3]'\n[[mode]]\nmode = 'off'\nnodes = 'k3,x[1-2]'\n"
    answer = apply(places_with(tmp_path, text)).as_dict()
    assert (answer["nodes"], answer["nodes_without_class"], answer["classes"]) == (3, 2, 1)
