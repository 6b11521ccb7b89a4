"""What a collector refuses, and what is no record, is set aside and holds nothing up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_guard.engine import ship
from tests.unit.engine.site import Site


def test_refused_records_are_set_aside_with_the_reason(site: Site) -> None:
    first, bad, last = site.records(3)
    site.collector.refuse[bad] = "its cluster is 'other', expected 'mine'"
    done = site.ship()
    assert (done.acknowledged, done.refused) == (2, [(bad, "its cluster is 'other', expected 'mine'")])
    assert site.aside == {bad: "its cluster is 'other', expected 'mine'"}
    assert sorted(site.collector.store) == sorted([first, last])
    assert site.spooled == []


def test_what_was_set_aside_is_sent_when_it_is_moved_back(site: Site) -> None:
    bad = site.record()
    site.collector.refuse[bad] = "not yet"
    site.ship()
    site.collector.refuse.clear()
    (path,) = (Path(site.places.var) / "set-aside").glob("*.json")
    path.rename(Path(site.places.spool) / path.name)
    assert site.ship().acknowledged == 1


def test_what_was_set_aside_is_bounded(site: Site) -> None:
    bad = site.records(8)
    site.collector.refuse.update(dict.fromkeys(bad, "no"))
    plan = site.plan
    plan.spool["files"] = 3
    ship.ship(site.places, plan, site.to)
    assert sorted(site.aside) == sorted(bad[5:])
    assert len(list((Path(site.places.var) / "set-aside").iterdir())) == 6


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("r-0000000000000001-" + "a" * 32 + ".json", b""),
        ("r-0000000000000001-" + "a" * 32 + ".json", b'{"run_id":"' + b"a" * 32),
        ("r-0000000000000001-" + "a" * 32 + ".json", b'{"run_id":"' + b"a" * 32 + b'",\n"x":1}'),
        ("note.json", b'{"hello":1}'),
        ("note.json", b"[" * 90_000),
        ("note.json", b"\xff\xfe"),
    ],
)
def test_files_that_are_no_records_are_set_aside_and_stop_nothing(
    site: Site, name: str, content: bytes
) -> None:
    good = site.record()
    (Path(site.places.spool) / name).write_bytes(content)
    done = site.ship()
    assert (done.acknowledged, done.left, done.why) == (1, 0, "")
    assert len(done.refused) == 1
    assert list(site.collector.store) == [good]
    assert (Path(site.places.var) / "set-aside" / name).read_bytes() == content


def test_links_pipes_and_folders_in_the_spool_hold_nothing_up(site: Site, tmp_path: Path) -> None:
    good = site.record()
    spooled = Path(site.places.spool)
    (tmp_path / "secret").write_text('{"run_id":"x"}')
    (spooled / "r-1-link.json").symlink_to(tmp_path / "secret")
    os.mkfifo(spooled / "r-1-pipe.json")
    (spooled / "r-1-folder.json").mkdir()
    done = site.ship()
    assert (done.acknowledged, done.why, done.left) == (1, "", 0)
    assert list(site.collector.store) == [good]


def test_a_record_under_another_name_is_known_by_what_it_says(site: Site) -> None:
    run_id = site.record()
    (path,) = Path(site.places.spool).glob("*.json")
    path.rename(path.with_name("r-0000000000000001-" + "b" * 32 + ".json"))
    assert site.ship().acknowledged == 1
    assert list(site.collector.store) == [run_id]
    assert site.spooled == []


def test_acknowledging_what_was_not_sent_removes_nothing(site: Site) -> None:
    sent = site.records(2)
    site.collector.script.append(lambda _: {"acknowledged": ["f" * 32, 7, None, {}], "refused": [3, {}, []]})
    done = site.ship()
    assert "acknowledged none of 2" in done.why
    assert site.spooled == sent
    stranger = site.record()
    site.collector.script.append(lambda answer: {**answer, "acknowledged": sent, "refused": "what"})
    assert site.ship().acknowledged == 2
    assert site.spooled == [stranger]
