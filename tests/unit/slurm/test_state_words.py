"""Every dialect of a node's state ends in the same normal form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.errors import SlurmError
from slurm_guard.slurm import state_words
from slurm_guard.slurm.gateway import NodeState

ASLEEP, WAKING = {"CLOUD", "POWERED_DOWN"}, {"CLOUD", "NOT_RESPONDING", "POWERING_UP"}

SCONTROL = [
    ("IDLE", "idle", set()),
    ("MIXED+DRAIN", "mixed", {"DRAIN"}),
    ("ALLOCATED+COMPLETING", "allocated", {"COMPLETING"}),
    ("DOWN+DRAIN+NOT_RESPONDING", "down", {"DRAIN", "NOT_RESPONDING"}),
    ("DOWN*+DRAIN", "down", {"DRAIN", "NOT_RESPONDING"}),
    ("IDLE+CLOUD+POWER", "idle", ASLEEP),
    ("IDLE+CLOUD+POWERED_DOWN", "idle", ASLEEP),
    ("ALLOCATED#+CLOUD", "allocated", {"CLOUD", "POWERING_UP"}),
    ("ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "allocated", WAKING),
    ("MIXED+CLOUD+DRAIN+POWER_DOWN", "mixed", {"CLOUD", "DRAIN", "POWER_DOWN"}),
    ("IDLE+CLOUD+POWER_DOWN+POWERED_DOWN", "idle", {*ASLEEP, "POWER_DOWN"}),
    ("IDLE+CLOUD+POWERING_DOWN", "idle", {"CLOUD", "POWERING_DOWN"}),
    ("idle+drain+maintenance+reserved", "idle", {"DRAIN", "MAINTENANCE", "RESERVED"}),
    ("IDLE+PLANNED", "idle", {"PLANNED"}),
    ("IDLE+BLOCKED", "idle", {"BLOCKED"}),
    ("IDLE+DYNAMIC_NORM", "idle", {"DYNAMIC_NORM"}),
    ("UNKNOWN+DRAIN+INVALID_REG", "unknown", {"DRAIN", "INVALID_REG"}),
    ("MIXED+REBOOT_ISSUED", "mixed", {"REBOOT_ISSUED"}),
    ("FUTURE", "future", set()),
    ("ERROR", "error", set()),
]

SINFO = [
    ("idle*", "idle", {"NOT_RESPONDING"}, True),
    ("idle~", "idle", {"POWERED_DOWN"}, True),
    ("mixed#", "mixed", {"POWERING_UP"}, True),
    ("allocated!", "allocated", {"POWER_DOWN"}, True),
    ("idle%", "idle", {"POWERING_DOWN"}, True),
    ("mixed$", "mixed", {"MAINTENANCE"}, True),
    ("allocated@", "allocated", {"REBOOT_REQUESTED"}, True),
    ("idle^", "idle", {"REBOOT_ISSUED"}, True),
    ("mixed-", "mixed", {"PLANNED"}, True),
    ("allocated+", "allocated", {"COMPLETING"}, True),
    ("alloc+", "allocated", {"COMPLETING"}, True),
    ("down*", "down", {"NOT_RESPONDING"}, True),
    ("unk*", "unknown", {"NOT_RESPONDING"}, True),
    ("drained", "idle", {"DRAIN"}, False),
    ("drained*", "idle", {"DRAIN", "NOT_RESPONDING"}, False),
    ("drained$", "idle", {"DRAIN", "MAINTENANCE"}, False),
    ("drain@", "idle", {"DRAIN", "REBOOT_REQUESTED"}, False),
    ("draining", "allocated", {"DRAIN"}, False),
    ("drng!", "allocated", {"DRAIN", "POWER_DOWN"}, False),
    ("completing", "idle", {"COMPLETING"}, False),
    ("comp*", "idle", {"COMPLETING", "NOT_RESPONDING"}, False),
    ("planned", "idle", {"PLANNED"}, False),
    ("plnd", "idle", {"PLANNED"}, False),
    ("reserved", "idle", {"RESERVED"}, False),
    ("maint", "idle", {"MAINTENANCE"}, False),
    ("maint*", "idle", {"MAINTENANCE", "NOT_RESPONDING"}, False),
    ("inval", "unknown", {"INVALID_REG"}, False),
    ("blocked", "idle", {"BLOCKED"}, False),
    ("fail", "idle", {"FAIL"}, False),
    ("failing", "allocated", {"FAIL"}, False),
    ("reboot^", "idle", {"REBOOT_ISSUED", "REBOOT_REQUESTED"}, False),
    ("no_respond", "unknown", {"NOT_RESPONDING"}, False),
    ("powering_down", "idle", {"POWERING_DOWN"}, False),
]

JSON = [
    ("idle", ["DRAIN"], "idle", {"DRAIN"}),
    ("mixed", ["DRAIN", "NOT_RESPONDING"], "mixed", {"DRAIN", "NOT_RESPONDING"}),
    (["ALLOCATED", "DRAIN"], [], "allocated", {"DRAIN"}),
    (["DOWN", "NOT_RESPONDING", "MAINTENANCE"], [], "down", {"NOT_RESPONDING", "MAINTENANCE"}),
    (["IDLE", "REBOOT_CANCELED"], [], "idle", {"REBOOT_CANCEL"}),
]


@pytest.mark.parametrize(("text", "base", "flags"), SCONTROL)
def test_scontrol(text: str, base: str, flags: set[str]) -> None:
    state = state_words.parse(text)
    assert (state.base, state.flags, state.unknown_flags, state.exact) == (base, flags, set(), True)


@pytest.mark.parametrize(("word", "base", "flags", "exact"), SINFO)
def test_sinfo(word: str, base: str, flags: set[str], exact: bool) -> None:
    state = state_words.parse(word)
    assert (state.base, state.flags, state.unknown_flags, state.exact) == (base, flags, set(), exact)


@pytest.mark.parametrize(("words", "flags", "base", "expected"), JSON)
def test_json(words: str | list[str], flags: list[str], base: str, expected: set[str]) -> None:
    state = state_words.parse(words, flags)
    assert (state.base, state.flags, state.unknown_flags) == (base, expected, set())


@pytest.mark.parametrize(
    ("words", "base", "flags", "unknown"),
    [
        ("mixed|TELEPORTING", "mixed", set(), {"TELEPORTING"}),
        ("IDLE+DRAIN+TELEPORTING", "idle", {"DRAIN"}, {"TELEPORTING"}),
        ("idle&", "idle", set(), {"&"}),
        ("teleporting", "unknown", set(), {"TELEPORTING"}),
        (["IDLE", "DOWN"], "idle", set(), {"DOWN"}),
        (["INVALID"], "unknown", set(), {"INVALID"}),
    ],
)
def test_an_unknown_word_is_kept_and_is_no_error(
    words: str | list[str], base: str, flags: set[str], unknown: set[str]
) -> None:
    state = state_words.parse(words)
    assert (state.base, state.flags, state.unknown_flags) == (base, flags, unknown)


@pytest.mark.parametrize("empty", ["", "  ", [], [""], "+"])
def test_an_empty_answer_is_an_error_and_no_state(empty: str | list[str]) -> None:
    with pytest.raises(SlurmError, match="empty node state"):
        state_words.parse(empty)


@given(
    base=st.sampled_from(sorted(set(state_words.BASES))),
    flags=st.sets(st.sampled_from(sorted(set(state_words.FLAGS.values())))),
)
def test_text_and_list_say_the_same(base: str, flags: set[str]) -> None:
    words = [base, *sorted(flags)]
    from_text, from_list = state_words.parse("+".join(words)), state_words.parse(words)
    for state in (from_text, from_list):
        assert (state.base, state.flags, state.unknown_flags) == (state_words.BASES[base], flags, set())


@given(st.text(max_size=60))
def test_any_text_is_a_state_or_slurms_error(text: str) -> None:
    try:
        state = state_words.parse(text)
    except SlurmError:
        return
    assert state.base in set(state_words.BASES.values())
    assert state.flags <= set(state_words.FLAGS.values())


@given(st.text(max_size=30).filter(lambda text: text.strip(" \t\r\n\f\v+|,\x1c\x1d\x1e\x1f\x85\xa0")))
def test_no_word_gets_lost(text: str) -> None:
    state = state_words.parse(f"IDLE+{text}")
    known = {word for word in text.upper().split("+") if word in state_words.BASES}
    assert state.flags or state.unknown_flags or known


@pytest.mark.parametrize(
    ("state", "asleep"),
    [
        ("IDLE+CLOUD+POWERED_DOWN", True),
        ("IDLE+CLOUD+POWERING_DOWN", True),
        ("IDLE~", True),
        ("MIXED+CLOUD+POWER_DOWN", False),
        ("IDLE+POWERING_UP", False),
        ("IDLE", False),
    ],
)
def test_a_requested_power_down_is_still_awake(state: str, asleep: bool) -> None:
    parsed = state_words.parse(state)
    assert NodeState("p1", parsed.base, parsed.flags).asleep is asleep
