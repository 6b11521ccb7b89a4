"""The ownership table: base state, flags, reason and user decide what the guard may do."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core import reason as reasons
from slurm_guard.slurm import state_words, states
from tests.unit.slurm.nodes import OURS, OWNERS, node

TIME = 1_800_000_000
FREE = ["IDLE", "MIXED", "ALLOCATED", "UNKNOWN"]
HARMLESS = [
    "",
    "+CLOUD",
    "+COMPLETING",
    "+NOT_RESPONDING",
    "+PLANNED",
    "+RESERVED",
    "+BLOCKED",
    "+DYNAMIC_NORM",
]
CLAIMED = [
    "+FAIL",
    "+MAINTENANCE",
    "+REBOOT_REQUESTED",
    "+REBOOT_ISSUED",
    "+POWER_DOWN",
    "+POWERED_DOWN",
    "+POWERING_DOWN",
    "+POWERING_UP",
    "+POWER_DRAIN",
    "+INVALID_REG",
    "+BRAND_NEW_FLAG",
]


@pytest.mark.parametrize("state", [base + flag for base, flag in itertools.product(FREE, HARMLESS)])
def test_a_free_node_may_be_drained_and_there_is_nothing_to_resume(state: str) -> None:
    assert states.may_drain(node(state=state), OWNERS)
    assert not states.may_resume(node(state=state), OWNERS)
    assert not states.is_drained_by_us(node(state=state), OWNERS)
    assert not states.counts_against_budget(node(state=state))


@pytest.mark.parametrize("base", [*FREE, "DOWN", "ERROR", "FUTURE"])
@pytest.mark.parametrize("flag", CLAIMED)
@pytest.mark.parametrize("reason", ["", OURS])
def test_hands_off_what_slurm_or_an_admin_claims(base: str, flag: str, reason: str) -> None:
    claimed = node(state=base + flag + ("+DRAIN" if reason else ""), reason=reason)
    for answer in (states.may_drain(claimed, OWNERS, OURS), states.may_resume(claimed, OWNERS, OURS)):
        assert not answer
        assert claimed.name in answer.why


@pytest.mark.parametrize(
    "state", ["DOWN", "DOWN+DRAIN", "DOWN+NOT_RESPONDING", "ERROR", "FUTURE", "IDLE+FAIL"]
)
@pytest.mark.parametrize("reason", ["", "Not responding", OURS])
def test_a_node_that_is_down_is_nobodys_to_write(state: str, reason: str) -> None:
    assert not states.may_drain(node(state=state, reason=reason), OWNERS)
    rebooted = state == "DOWN+DRAIN" and reason == OURS
    assert bool(states.may_resume(node(state=state, reason=reason), OWNERS)) == rebooted


def test_a_rebooted_node_that_does_not_answer_yet_stays() -> None:
    assert not states.may_resume(node(state="DOWN+DRAIN+NOT_RESPONDING", reason=OURS), OWNERS)


@pytest.mark.parametrize("base", ["IDLE", "MIXED", "ALLOCATED"])
@pytest.mark.parametrize("reason", [OURS, "SGJ:gpu_processes.left gpu0", f"{OURS} : reboot complete"])
@pytest.mark.parametrize("user", ["root", "slurm", ""])
def test_our_own_drain(base: str, reason: str, user: str) -> None:
    uid = 0 if not user else None
    own = node(state=f"{base}+DRAIN", reason=reason, reason_user=user, reason_uid=uid)
    assert states.is_drained_by_us(own, OWNERS)
    assert states.may_drain(own, OWNERS)
    assert states.may_resume(own, OWNERS)
    assert states.counts_against_budget(own)


@pytest.mark.parametrize(
    ("reason", "fields", "why"),
    [
        ("", {}, "without a reason"),
        ("DIMM swap on Tuesday", {}, "not ours"),
        ("Not responding", {}, "not ours"),
        (f"{OURS} CASE-1701", {}, "not ours"),
        (f"{OURS} [root@2030-01-02T03:04:05]", {}, "not ours"),
        (f"{OURS}\nand a fan", {}, "not ours"),
        ("NHC: check_hw_ib: no link", {}, "not ours"),
        (OURS, {"reason_user": "ana"}, "ana"),
        (OURS, {"reason_user": "", "reason_uid": 4711}, "uid 4711"),
        (OURS, {"reason_user": ""}, "unknown user"),
        ("Prolog error", {}, "no refusal of ours"),
        ("Epilog error", {"reason_user": "slurm"}, "no refusal of ours"),
    ],
)
@pytest.mark.parametrize("base", ["IDLE", "MIXED"])
def test_somebody_elses_drain(base: str, reason: str, fields: dict[str, object], why: str) -> None:
    other = node(state=f"{base}+DRAIN", reason=reason, **fields)
    for rule in (states.may_drain, states.may_resume, states.is_drained_by_us):
        answer = rule(other, OWNERS)
        assert not answer
        assert why in answer.why


def test_an_edit_to_another_reason_of_our_grammar_is_an_edit() -> None:
    other = node(state="IDLE+DRAIN", reason="SG:gpu_remap.failure gpu6")
    assert states.may_resume(other, OWNERS)
    assert not states.may_resume(other, OWNERS, written=OURS)
    assert repr(OURS) in states.may_resume(other, OWNERS, written=OURS).why


def test_owners_may_be_named_by_number() -> None:
    own = node(state="IDLE+DRAIN", reason=OURS, reason_user="", reason_uid=64030)
    assert not states.is_drained_by_us(own, OWNERS)
    assert states.is_drained_by_us(own, [*OWNERS, "64030"])


@pytest.mark.parametrize("word", ["Prolog error", "Epilog error"])
@pytest.mark.parametrize(
    ("refused_at", "user", "ours"),
    [
        ([TIME], "root", True),
        ([TIME - 9.5], "slurm", True),
        ([TIME + 9.5], "root", True),
        ([TIME - 4000, TIME - 3], "root", True),
        ([TIME - 11], "root", False),
        ([TIME + 11], "root", False),
        ([TIME], "ana", False),
        ([], "root", False),
        (None, "root", False),
    ],
)
def test_a_hooks_error_is_ours_only_near_our_own_refusal(
    word: str, refused_at: list[float] | None, user: str, ours: bool
) -> None:
    refused = node(state="IDLE+DRAIN", reason=word, reason_user=user)
    for rule in (states.may_drain, states.may_resume, states.is_drained_by_us):
        assert rule(refused, ["svc-guard"], None, refused_at).ok is ours
    assert states.counts_against_budget(refused)


def test_a_hooks_error_with_an_addition_is_not_ours() -> None:
    refused = node(state="IDLE+DRAIN", reason="Prolog error, see CASE-9")
    assert not states.may_resume(refused, OWNERS, None, [TIME])


@pytest.mark.parametrize("state", ["IDLE+DRAIN+NOT_RESPONDING", "UNKNOWN+DRAIN"])
def test_a_silent_node_is_ours_but_is_not_resumed(state: str) -> None:
    assert states.is_drained_by_us(node(state=state, reason=OURS), OWNERS)
    assert not states.may_resume(node(state=state, reason=OURS), OWNERS)


def test_a_leftover_reason_without_the_flag_is_no_drain() -> None:
    left = node(state="IDLE", reason="fan replaced", reason_user="ana")
    assert states.may_drain(left, OWNERS)
    assert not states.may_resume(left, OWNERS)


def test_a_short_word_hides_flags_so_hands_off() -> None:
    short = node(state="drained", reason=OURS)
    assert not states.may_drain(short, OWNERS)
    assert not states.may_resume(short, OWNERS)
    assert "short state word" in states.may_resume(short, OWNERS).why


@pytest.mark.parametrize(
    ("state", "reason", "counts"),
    [
        ("IDLE+DRAIN", OURS, True),
        ("MIXED+DRAIN", f"{OURS} CASE-1701", True),
        ("DOWN+DRAIN", OURS, True),
        ("DOWN", OURS, True),
        ("IDLE+DRAIN+REBOOT_ISSUED", f"{OURS} : reboot issued", True),
        ("IDLE+DRAIN", "Prolog error", True),
        ("IDLE+DRAIN", "Epilog error", True),
        ("IDLE+DRAIN", "DIMM swap", False),
        ("DOWN+DRAIN", "Not responding", False),
        ("IDLE", OURS, False),
    ],
)
def test_what_counts_against_the_budget(state: str, reason: str, counts: bool) -> None:
    assert states.counts_against_budget(node(state=state, reason=reason)).ok is counts


FLAGS = st.sets(st.sampled_from(sorted(set(state_words.FLAGS.values()))))
BASES = st.sampled_from(sorted({word.upper() for word in state_words.BASES.values()}))
REASONS = st.one_of(st.sampled_from(["", OURS, "Prolog error", "Not responding"]), st.text(max_size=40))


@given(base=BASES, flags=FLAGS, reason=REASONS, user=st.sampled_from(["root", "ana", ""]))
def test_no_drained_node_is_written_unless_its_reason_and_user_are_ours(
    base: str, flags: set[str], reason: str, user: str
) -> None:
    one = node(state="+".join([base, *sorted(flags)]), reason=reason, reason_user=user)
    # A node that was rebooted for its repair is DOWN+DRAIN with our reason: it may be resumed, never drained.
    for rule, bases in (
        (states.may_drain, {"idle", "mixed", "allocated", "unknown"}),
        (states.may_resume, {"idle", "mixed", "allocated", "down"}),
    ):
        answer = rule(one, OWNERS)
        assert answer.why
        if answer and one.drained:
            assert user == "root"
            assert reasons.is_ours_unchanged(reason)
        if answer:
            assert one.base in bases
            assert not [flag for flag in flags if flag.startswith(("REBOOT", "POWER"))]
            assert flags.isdisjoint({"MAINTENANCE", "FAIL"})


def test_an_answer_is_true_or_false_and_unpacks() -> None:
    ok, why = states.may_drain(node(), OWNERS)
    assert ok is True
    assert why
    assert not states.Answer(False, "because")
