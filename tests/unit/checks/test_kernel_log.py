"""The kernel log's table: every row can be reached and has a fault; no line can break the check."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.checks import kernel_log
from slurm_guard.core.expectation import Expectation
from slurm_guard.core.outcome import Facts, Finding

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures/kernel_log"
LINES = [
    line.partition(";")[2].replace("\\x5c", "\\")
    for log in sorted(FIXTURES.glob("*/root/dev/kmsg"))
    for line in log.read_text().splitlines()
]


def judge(*texts: str, seconds: float = 0.0) -> list[Finding]:
    events = [
        Facts(seq=number, time_s=number * seconds, priority=3, text=text) for number, text in enumerate(texts)
    ]
    facts = Facts(first=0, last=len(events), gap=False, overflow=False, events=events)
    return list(kernel_log.KernelLog().findings(facts, Facts(), Expectation()))


def test_every_row_has_a_fault_and_every_fault_a_row() -> None:
    told = {code for code, _, _ in (*kernel_log.ROWS, *kernel_log.PROGRAM_ROWS)} | {
        "hung_task_storage",
        "hung_task_gpu",
    }
    assert told == set(kernel_log.KernelLog.faults)
    assert {code for code, _, _ in kernel_log.CURES} <= told


@pytest.mark.parametrize(
    "row",
    [*kernel_log.ROWS, *kernel_log.PROGRAM_ROWS, *kernel_log.CURES],
    ids=lambda row: f"{row[0]}: {row[1]}",
)
def test_every_row_matches_a_line_of_the_fixtures(row: tuple[str, str, str]) -> None:
    _, needle, pattern = row
    assert any(needle in line and re.search(pattern, line) for line in LINES)


def test_a_storm_is_one_finding() -> None:
    (found,) = judge(*[f"I/O error, dev sda, sector {sector} op 0x0:(READ)" for sector in range(900)])
    assert (found.fault, found.device, found.value) == ("kernel_log.io_error", "sda", 900)
    assert "sector 0 " in found.message


def test_a_stack_much_later_is_not_that_of_the_blocked_task() -> None:
    (found,) = judge(
        "INFO: task cp:31 blocked for more than 120 seconds.",
        " rpc_wait_bit_killable+0x1e/0xb0 [sunrpc]",
        seconds=60,
    )
    assert found.fault == "kernel_log.hung_task"


def test_messages_are_bounded() -> None:
    (found,) = judge("Out of memory: Killed process 7 (" + "x" * 5000)
    assert len(found.message) < 400


PIECES = sorted(
    {needle for _, needle, _ in kernel_log.ROWS} | {"NVRM: Xid", "nfs: server ", "event severity: ", "+"}
)


@given(st.lists(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8))).map("".join), max_size=6))
def test_no_line_breaks_it(texts: list[str]) -> None:
    found = judge(*texts)
    assert found
    assert all(one.message.isprintable() for one in found)
