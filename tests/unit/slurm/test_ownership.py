"""Drain and resume: read right before the write, hands off what is not ours, keep the first reason."""

from __future__ import annotations

import random

import pytest

from slurm_guard.core import tag
from slurm_guard.core.errors import SlurmRefusedError, SlurmUnreachableError
from slurm_guard.slurm import budget, ownership
from slurm_guard.slurm.ownership import safe_drain, safe_resume
from slurm_guard.slurm.states import Answer
from tests.unit.slurm.nodes import OURS, OWNERS, SlurmDouble, node

ROOMY = {"nodes": 5, "percent": 50.0, "per_hour": 99, "shared_nodes": 1}


def test_a_free_node_is_read_and_drained_in_two_calls() -> None:
    slurm = SlurmDouble(node("c7"))
    outcome = safe_drain(slurm, "c7", OURS, OWNERS)
    assert (outcome.outcome, outcome.calls, outcome.written) == ("done", 2, True)
    assert slurm.log == [("read", "c7"), ("drain", "c7", OURS)]


def test_with_a_budget_one_read_of_all_nodes_is_enough() -> None:
    slurm = SlurmDouble(*(node(f"c{number}") for number in range(10)))
    outcome = safe_drain(
        slurm,
        "c7",
        OURS,
        OWNERS,
        room=lambda nodes: budget.room(nodes, "c7", ROOMY, "gpu_remap.failure", "device", "gpu5"),
    )
    assert (outcome.outcome, outcome.calls) == ("done", 2)
    assert slurm.log[0] == ("read", "all")


def test_no_room_means_no_write() -> None:
    slurm = SlurmDouble(node("c7"))
    outcome = safe_drain(slurm, "c7", OURS, OWNERS, room=lambda _: Answer(False, "two are out already"))
    assert (outcome.outcome, outcome.why, slurm.writes) == ("held", "two are out already", [])


def test_nodes_read_long_ago_serve_the_budget_only() -> None:
    slurm = SlurmDouble(node("c7"))
    stale = [node("c7"), node("c8")]
    seen: list[int] = []

    def room(nodes: list[object]) -> Answer:
        seen.append(len(nodes))
        return Answer(True, "")

    assert safe_drain(slurm, "c7", OURS, OWNERS, nodes=stale, room=room)  # type: ignore[arg-type]
    assert slurm.log == [("read", "c7"), ("drain", "c7", OURS)]
    assert seen == [2]


@pytest.mark.parametrize("reason", [OURS, "SG:gpu_count.lost gpu1", f"{OURS} : reboot issued"])
def test_a_node_drained_by_us_keeps_its_first_reason(reason: str) -> None:
    slurm = SlurmDouble(node("c7", "IDLE+DRAIN", reason))
    outcome = safe_drain(slurm, "c7", OURS, OWNERS)
    assert (outcome.outcome, outcome.written, slurm.writes) == ("done", False, [])


def test_our_own_refusal_gets_the_real_reason() -> None:
    refused = node("c7", "IDLE+DRAIN", "Prolog error", reason_time=1_800_000_003)
    slurm = SlurmDouble(refused)
    assert safe_drain(slurm, "c7", OURS, OWNERS, refused_at=[1_800_000_001.5]).written
    assert slurm.known["c7"].reason == OURS


@pytest.mark.parametrize(
    ("state", "reason", "user"),
    [
        ("IDLE+DRAIN", "DIMM swap", "ana"),
        ("MIXED+DRAIN", f"{OURS} CASE-1701", "root"),
        ("IDLE+DRAIN", "", ""),
        ("DOWN+DRAIN", "Not responding", "slurm"),
        ("IDLE+REBOOT_REQUESTED", "Reboot ASAP", "root"),
        ("IDLE+MAINTENANCE+RESERVED", "", ""),
        ("IDLE+CLOUD+POWERED_DOWN", "", ""),
        ("IDLE+SOMETHING_NEW", "", ""),
    ],
)
def test_what_is_not_ours_is_held(state: str, reason: str, user: str) -> None:
    slurm = SlurmDouble(node("c7", state, reason, reason_user=user))
    drained = safe_drain(slurm, "c7", "SG:ib_link.down mlx5_4/1", OWNERS)
    assert drained.outcome == "held"
    assert "c7" in drained.why
    assert safe_resume(slurm, "c7", OWNERS).outcome in ("held", "done")
    assert not slurm.writes


def test_the_watchdog_that_replaced_an_admins_reason() -> None:
    """An admin drained; a failing run must not replace the reason, a later clean run must not resume."""
    slurm = SlurmDouble(node("c7", "IDLE+DRAIN", "PSU swap, do not touch", reason_user="ana"))
    assert safe_drain(slurm, "c7", "SG:nvml.hung", OWNERS).outcome == "held"
    assert safe_resume(slurm, "c7", OWNERS).outcome == "held"
    assert slurm.known["c7"].reason == "PSU swap, do not touch"


def test_resume_only_what_is_ours() -> None:
    slurm = SlurmDouble(node("c7", "IDLE+DRAIN", OURS))
    outcome = safe_resume(slurm, "c7", OWNERS, written=OURS)
    assert (outcome.outcome, outcome.calls, outcome.written) == ("done", 2, True)
    assert not slurm.known["c7"].drained


def test_resume_of_a_node_in_service_writes_nothing() -> None:
    slurm = SlurmDouble(node("c7"))
    outcome = safe_resume(slurm, "c7", OWNERS)
    assert (outcome.outcome, outcome.written, outcome.calls) == ("done", False, 1)


def test_a_read_that_took_too_long_ago_is_never_followed_by_a_write() -> None:
    slurm = SlurmDouble(node("c7"))
    slurm.age = 60.0
    outcome = safe_drain(slurm, "c7", OURS, OWNERS)
    assert outcome.outcome == "held"
    assert "50 ms" in outcome.why
    assert not slurm.writes


def test_an_admin_between_the_reads_wins() -> None:
    """The list for the budget shows a free node; by the fresh read an admin has drained it."""
    slurm = SlurmDouble(node("c7"))
    stale = [node("c7")]
    slurm.known["c7"] = node("c7", "IDLE+DRAIN", "DIMM swap", reason_user="ana")
    assert safe_drain(slurm, "c7", OURS, OWNERS, nodes=stale).outcome == "held"
    assert not slurm.writes


@pytest.mark.parametrize(
    "error", [SlurmUnreachableError("no answer"), SlurmRefusedError("invalid node name")]
)
def test_slurms_trouble_is_an_outcome_and_not_an_exception(error: Exception) -> None:
    slurm = SlurmDouble(node("c7"))

    def fail(_: SlurmDouble) -> None:
        raise error

    slurm.before_read = fail
    for outcome in (safe_drain(slurm, "c7", OURS, OWNERS), safe_resume(slurm, "c7", OWNERS)):
        assert (outcome.outcome, outcome.error, outcome.why) == ("failed", error, str(error))
        assert outcome.calls == 1


def test_a_reason_is_cleaned_before_slurm_sees_it() -> None:
    slurm = SlurmDouble(node("c7"))
    safe_drain(slurm, "c7", 'SG:kernel_log "$(id)"\nx', OWNERS)
    assert slurm.writes == [("drain", "c7", "SG:kernel_log (id) x")]


ADMIN = [
    node("c7", "IDLE+DRAIN", "DIMM swap", reason_user="ana"),
    node("c7", "MIXED+DRAIN", f"{OURS} CASE-3", reason_user="root"),
    node("c7", "DOWN", "Not responding", reason_user="slurm"),
    node("c7", "IDLE+MAINTENANCE"),
    node("c7", "IDLE+DRAIN+REBOOT_ISSUED", "Reboot ASAP : reboot issued", reason_user="ana"),
    node("c7", "IDLE"),
    node("c7", "IDLE+DRAIN", OURS),
]


@pytest.mark.parametrize("seed", range(20))
def test_random_interleavings_never_touch_what_somebody_else_wrote(seed: int) -> None:
    draw = random.Random(seed)
    slurm = SlurmDouble(node("c7"))

    def meddle(double: SlurmDouble) -> None:
        if draw.random() < 0.6:
            double.known["c7"] = draw.choice(ADMIN)

    slurm.before_read = meddle
    for _ in range(50):
        before = len(slurm.writes)
        act = draw.choice(["drain", "resume"])
        if act == "drain":
            outcome = safe_drain(slurm, "c7", "SG:gpu_count.lost gpu1", OWNERS)
        else:
            outcome = safe_resume(slurm, "c7", OWNERS)
        if len(slurm.writes) > before:
            assert outcome.node is not None
            assert outcome.node.reason in ("", OURS, "SG:gpu_count.lost gpu1")
            assert outcome.node.base in ("idle", "mixed")


def test_the_window_is_what_the_documents_say() -> None:
    assert ownership.FRESH_S == 0.05


@pytest.mark.parametrize(
    "state", ["IDLE+FAIL", "IDLE+MAINTENANCE", "IDLE+REBOOT_ISSUED", "DOWN", "IDLE+NEW_FLAG"]
)
def test_a_node_that_is_claimed_without_a_drain_is_not_called_in_service(state: str) -> None:
    slurm = SlurmDouble(node("c7", state))
    assert safe_resume(slurm, "c7", OWNERS).outcome == "held"
    assert not slurm.writes


ENTRY = tag.Entry(1_800_000_000, [7], [1001])


def test_a_drain_leaves_its_note_and_a_withdrawal_takes_it_back() -> None:
    slurm = SlurmDouble(node("c7"))
    assert safe_drain(slurm, "c7", OURS, OWNERS, note=ENTRY)
    assert slurm.known["c7"].comment == "slurm_guard drained 1800000000 jobs 7 uids 1001"
    assert safe_resume(slurm, "c7", OWNERS, withdraw=True)
    assert slurm.known["c7"].comment == ""


def test_a_return_leaves_the_note() -> None:
    slurm = SlurmDouble(node("c7"))
    assert safe_drain(slurm, "c7", OURS, OWNERS, note=ENTRY)
    assert safe_resume(slurm, "c7", OWNERS)
    assert slurm.known["c7"].comment == "slurm_guard drained 1800000000 jobs 7 uids 1001"


def test_a_persons_comment_stays() -> None:
    slurm = SlurmDouble(node("c7", comment="rack 3: new PDU"))
    assert safe_drain(slurm, "c7", OURS, OWNERS, note=ENTRY)
    assert slurm.known["c7"].comment == "rack 3: new PDU"
    assert safe_resume(slurm, "c7", OWNERS, withdraw=True)
    assert slurm.known["c7"].comment == "rack 3: new PDU"


def test_what_held_a_drain_is_named() -> None:
    slurm = SlurmDouble(node("c7"), node("c8", "IDLE+DRAIN", OURS))
    plan = {"nodes": 1, "percent": 100, "per_hour": 9, "shared_nodes": 1}
    held = safe_drain(
        slurm, "c7", OURS, OWNERS, room=lambda nodes: budget.room(nodes, "c7", plan, "gpu_xid.79", "device")
    )
    assert (held.outcome, held.limit) == ("held", "nodes")
