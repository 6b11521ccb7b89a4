"""One line for Nagios."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.cli import nagios
from slurm_guard.core.outcome import STATUSES, Finding


def finding(
    status: str, message: str = "seen", check: str = "ib_link", code: str = "down", device: str = ""
) -> Finding:
    found = Finding(status, message, code=code, device=device)
    found.check = check
    return found


@pytest.mark.parametrize(
    ("status", "findings", "expected"),
    [
        ("pass", [], (0, "SGUARD OK - 3 checks passed")),
        ("skip", [], (0, "SGUARD OK - 3 checks passed")),
        ("warn", [finding("warn")], (1, "SGUARD WARNING - ib_link.down: seen")),
        ("unknown", [finding("unknown")], (3, "SGUARD UNKNOWN - ib_link.down: seen")),
        (
            "fail",
            [finding("unknown"), finding("fail", "Down", device="mlx5_2/1"), finding("timeout")],
            (2, "SGUARD CRITICAL - ib_link.down mlx5_2/1: Down, 2 more"),
        ),
        ("timeout", [finding("timeout", "a|b\nc")], (2, "SGUARD CRITICAL - ib_link.down: a b c")),
    ],
)
def test_codes_and_words(status: str, findings: list[Finding], expected: tuple[int, str]) -> None:
    assert nagios.line(status, findings, 3, {}) == expected


def test_performance_data_is_quoted_and_bounded() -> None:
    values = {"gpu_temperature gpu0": 34, "ib_rate mlx5_0/1": 400.0, "odd='x|": 1.5, "nan": float("nan")}
    _, line = nagios.line("pass", [], 1, values)
    assert (
        line == "SGUARD OK - 1 check passed | 'gpu_temperature gpu0'=34 'ib_rate mlx5_0/1'=400 'odd_x_'=1.5"
    )
    _, line = nagios.line("pass", [], 1, {f"series number {n:04}": n for n in range(500)})
    assert len(line) < 1024
    assert line.endswith(tuple("0123456789"))


@given(
    st.sampled_from(STATUSES),
    st.text(max_size=900),
    st.dictionaries(st.text(max_size=50), st.floats() | st.integers(-(10**30), 10**30), max_size=8),
)
def test_one_line_with_one_bar_at_most(status: str, message: str, values: dict[str, float]) -> None:
    code, line = nagios.line(status, [finding(status, message)], 0, values)
    assert code in (0, 1, 2, 3)
    assert "\n" not in line
    assert line.count("|") <= 1
    assert len(line) < 1024
    pair = r"'[^'=|]*'=-?[\d.e+-]+"
    data = line.partition(" | ")[2]
    assert data == "" or re.fullmatch(rf"{pair}( {pair})*", data)
