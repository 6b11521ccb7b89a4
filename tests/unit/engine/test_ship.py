"""Shipping to a collector on loopback: what is acknowledged goes, all else stays, whatever it answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_guard.engine import batch, requests, ship, ship_state
from tests.unit.engine.collector import RAW
from tests.unit.engine.site import BOOT, NODE, Site


def test_acknowledged_records_leave_the_spool_oldest_first(site: Site) -> None:
    sent = site.records(5)
    done = site.ship()
    assert (done.sent, done.acknowledged, done.refused, done.left, done.why) == (5, 5, [], 0, "")
    assert site.collector.seen == [sent]
    assert site.spooled == []
    for line in site.collector.store.values():
        assert json.loads(line)["node"] == NODE


def test_batches_hold_a_thousand_lines_and_four_megabytes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "MOST_LINES", 10)
    sent = site.records(25)
    assert site.ship().acknowledged == 25
    assert [len(ids) for ids in site.collector.seen] == [10, 10, 5]
    assert [one for ids in site.collector.seen for one in ids] == sent
    monkeypatch.setattr(batch, "MOST_BYTES", 2000)
    large = [site.record(fill="x" * 800) for _ in range(5)]
    assert site.ship().acknowledged == 5
    assert [len(ids) for ids in site.collector.seen[3:]] == [2, 2, 1]
    assert [one for ids in site.collector.seen[3:] for one in ids] == large


@pytest.mark.parametrize("word", [*sorted(RAW), "dropped"])
def test_no_answer_of_any_kind_loses_a_record(site: Site, word: str) -> None:
    sent = site.records(3)
    site.collector.script.append(word)
    done = site.ship()
    assert done.why
    assert (done.acknowledged, done.left) == (0, 3)
    assert site.spooled == sent
    assert ship_state.load(site.places).tries == 1
    assert site.ship().acknowledged == 3
    assert ship_state.load(site.places).tries == 0
    assert sorted(site.collector.store) == sorted(sent)


def test_a_lost_answer_is_asked_for_again_and_nothing_is_doubled(site: Site) -> None:
    sent = site.records(3)
    site.collector.script.append("lost")
    assert site.ship().acknowledged == 0
    assert sorted(site.collector.store) == sorted(sent)
    assert site.spooled == sent
    later = site.record()
    assert site.ship().acknowledged == 4
    assert site.spooled == []
    assert sorted(site.collector.store) == sorted([*sent, later])


@pytest.mark.parametrize(
    ("status", "headers", "least", "most"),
    [
        (503, {"Retry-After": "40"}, 40, 60),
        (429, {"Retry-After": "2"}, 7, 30),
        (429, {"Retry-After": "999999"}, 3600, 5400),
        (503, {"Retry-After": "soon"}, 15, 23),
        (503, {}, 15, 23),
        (401, {}, 15, 23),
        (403, {}, 15, 23),
        (500, {}, 15, 23),
    ],
)
def test_a_refusal_of_all_is_told_and_waited_out(
    site: Site, status: int, headers: dict[str, str], least: float, most: float
) -> None:
    sent = site.records(2)
    site.collector.script.append((status, headers))
    done = site.ship()
    assert f"HTTP {status}: told by the test" in done.why
    assert site.spooled == sent
    pause = ship_state.load(site.places).pause_s()
    assert least - 1 <= pause <= most


def test_pauses_grow_with_each_failure_and_end_with_success(site: Site) -> None:
    state, pauses = ship_state.ShipState(), []
    for _ in range(12):
        state.failed("no", None)
        pauses.append(state.pause_s())
    assert all(later > earlier for earlier, later in zip(pauses[:6:2], pauses[2:7:2], strict=True))
    assert ship_state.LONGEST_S - 1 <= pauses[-1] <= 1.5 * ship_state.LONGEST_S
    state.succeeded()
    assert (state.pause_s(), state.tries) == (0, 0)


def test_a_replayed_nonce_is_answered_with_a_new_one(site: Site) -> None:
    site.records(2)
    site.collector.script.append((409, {}))
    done = site.ship()
    assert (done.acknowledged, done.why) == (2, "")
    assert len(site.collector.nonces) == 2
    site.records(1)
    site.collector.script.extend([(409, {}), (409, {})])
    assert "HTTP 409" in site.ship().why


def test_too_large_is_sent_in_halves_and_one_that_is_too_large_stays(site: Site) -> None:
    """Nobody signs a 413, so it moves nothing."""
    site.collector.most_bytes = 2500
    small = site.records(10)
    large = site.record(fill="y" * 5000)
    after = site.record()
    done = site.ship()
    assert (done.acknowledged, done.left, done.refused) == (11, 1, [])
    assert "HTTP 413" in done.why
    assert sorted(site.collector.store) == sorted([*small, after])
    assert (site.spooled, site.aside) == ([large], {})


FORGED: list[tuple[str, Callable[[bytes, str], tuple[bytes, str]], str]] = [
    ("without a signature", lambda body, _: (body, ""), "not signed"),
    ("another signature", lambda body, _: (body, f"Token {'0' * 64}"), "not signed with our token"),
    ("another scheme", lambda body, mark: (body, mark.replace("Token", "Munge")), "not signed with our"),
    ("no text", lambda body, _: (body, "Token"), "not signed with our token"),
    ("another content", lambda body, mark: (body.replace(b'"refused":', b'"refused" :'), mark), "not signed"),
]


@pytest.mark.parametrize(("case", "forge", "why"), FORGED, ids=[case for case, _, _ in FORGED])
def test_nothing_leaves_on_the_word_of_somebody_on_the_way(
    site: Site, case: str, forge: Callable[[bytes, str], tuple[bytes, str]], why: str
) -> None:
    first, second = site.records(2)
    site.collector.refuse[second] = "never seen"
    site.collector.takes_over.add(first)
    wanted = {"fault": "gpu_xid.79", "device": "gpu3", "scope": "device", "reason": "SG:gpu_xid.79 gpu3"}
    requests.put(site.places, requests.make("drain", boot_id=BOOT, run_id=first, **wanted))
    site.collector.forge = forge
    done = site.ship()
    assert why in done.why
    assert (done.acknowledged, done.refused, done.taken, done.left) == (0, [], [], 2)
    assert (site.spooled, site.aside) == ([first, second], {})
    assert len(requests.waiting(site.places, BOOT)) == 1
    site.collector.forge = None
    assert site.ship().acknowledged == 1


def test_an_answer_to_another_attempt_is_none_to_this(site: Site) -> None:
    """Recorded on the wire and played again."""
    kept: list[tuple[bytes, str]] = []

    def record_it(body: bytes, mark: str) -> tuple[bytes, str]:
        kept.append((body, mark))
        return body, mark

    site.collector.forge = record_it
    site.record()
    assert site.ship().acknowledged == 1
    run_id = site.record()
    site.collector.forge = lambda *_: kept[0]
    assert "not signed with our token" in site.ship().why
    assert site.spooled == [run_id]


def test_an_early_answer_to_a_body_that_does_not_fit_is_read(site: Site) -> None:
    """The server hangs up while megabytes are on their way to it."""
    site.collector.most_bytes = 1 << 20
    sent = [site.record(fill="z" * 300_000) for _ in range(8)]
    done = site.ship()
    assert (done.acknowledged, done.why) == (8, "")
    assert sorted(site.collector.store) == sorted(sent)


@pytest.mark.parametrize("word", ["hang", "trickle"])
def test_a_server_that_does_not_end_costs_the_deadline(
    site: Site, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ship, "REQUEST_S", 0.3)
    sent = site.records(2)
    site.collector.script.append(word)
    began = time.monotonic()
    done = site.ship()
    assert "no answer within 0.3 s" in done.why
    assert time.monotonic() - began < 20
    assert site.spooled == sent


def test_the_time_for_a_shipment_is_bounded(site: Site) -> None:
    sent = site.records(2)
    done = site.ship(seconds=0)
    assert "used up" in done.why
    assert site.spooled == sent


def test_nobody_there_is_told(site: Site) -> None:
    site.records(1)
    site.to.url = "http://127.0.0.1:1"
    assert "Connection refused; is the collector running?" in site.ship().why


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://head",
        "head:9427",
        "http://",
        "http://a:b@head",
        "http://head:99999",
        "http://h/?x",
        "http://h\n:1",
    ],
)
def test_an_address_that_is_none_is_told(site: Site, url: str) -> None:
    site.records(1)
    site.to.url = url
    assert "expected http://HOST:PORT" in site.ship().why


@pytest.mark.parametrize(
    ("mode", "content", "why"),
    [
        (0o644, b"x" * 40, "may be read or written by others"),
        (0o600, b"x" * 31 + b"\n", "holds 31 bytes"),
        (0o600, b"x" * 5000, "expected 32 to 4096"),
        (None, b"", "cannot be read"),
    ],
)
def test_a_token_that_is_no_secret_is_not_used(
    site: Site, mode: int | None, content: bytes, why: str
) -> None:
    site.records(1)
    path = Path(site.to.token_file)
    if mode is None:
        path.unlink()
    else:
        path.write_bytes(content)
        path.chmod(mode)
    assert why in site.ship().why
    assert site.collector.requests == []


def test_no_munge_library_or_daemon_is_told(site: Site) -> None:
    site.records(1)
    site.to.token_file, site.to.munge_socket = "", "/nonexistent/munge.sock"
    assert site.ship().why.startswith("munge: ")


def test_drains_that_the_collector_takes_over_are_dropped_here(site: Site) -> None:
    taken, other = site.records(2)
    for run_id, device in ((taken, "gpu1"), (other, "gpu2")):
        wanted = {"fault": "gpu_xid.79", "device": device, "scope": "device", "reason": "SG:gpu_xid.79"}
        requests.put(site.places, requests.make("drain", boot_id=BOOT, run_id=run_id, **wanted))
    requests.put(site.places, requests.make("tell", boot_id=BOOT, run_id=taken, job_id=5, text="x"))
    site.collector.takes_over.add(taken)
    assert site.ship().taken == [taken]
    left = requests.waiting(site.places, BOOT)
    assert sorted((one["kind"], one["run_id"]) for one in left) == sorted([("drain", other), ("tell", taken)])


def test_a_full_disk_costs_the_reason_and_not_the_record(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = site.records(2)
    site.collector.refuse[bad] = "no"

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("slurm_guard.engine.files.write_atomic", full)
    done = site.ship()
    assert (done.acknowledged, done.refused, done.why) == (1, [(bad, "no")], "")
    (path,) = (Path(site.places.var) / "set-aside").iterdir()
    assert bad in path.name
    assert list(site.collector.store) == [good]


def test_state_of_another_boot_or_of_garbage_holds_nothing_up(site: Site) -> None:
    path = Path(ship_state.path(site.places))
    path.parent.mkdir(parents=True, exist_ok=True)
    now = time.monotonic()
    for content in (
        {"next": now + 1e6},
        {"next": 1e300},
        {"next": "x", "tries": []},
        {"last": now + 1e6},
        [],
        {"next": None},
    ):
        path.write_text(json.dumps(content))
        state = ship_state.load(site.places)
        assert (state.pause_s(), state.gap_s(5.0)) == (0, 0)
    path.write_text("{")
    assert ship_state.load(site.places).tries == 0
