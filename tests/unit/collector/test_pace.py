"""Calls of Slurm a second, on a clock of the test's own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.collector.pace import Pace


class Clock:
    """A clock that goes on when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds + 1e-6


@given(
    st.floats(1, 50),
    st.lists(st.tuples(st.integers(1, 3), st.floats(0, 0.3)), min_size=1, max_size=60),
)
def test_no_second_has_more_calls_than_allowed(rate: float, takes: list[tuple[int, float]]) -> None:
    clock = Clock()
    pace = Pace(rate, clock, clock.sleep)
    made: list[float] = []
    for calls, idle in takes:
        clock.now += idle
        pace.take(calls)
        made += [clock.now] * calls
    most = max(int(rate), *(calls for calls, _ in takes))
    for start in made:
        assert sum(start <= at < start + 1 for at in made) <= most


@given(st.floats(0.05, 0.9), st.integers(2, 10))
def test_less_than_one_a_second_is_an_average(rate: float, rounds: int) -> None:
    clock = Clock()
    pace = Pace(rate, clock, clock.sleep)
    for _ in range(rounds):
        pace.take(2)
    assert clock.now - 100 >= (rounds - 1) * 2 / rate * 0.999


def test_the_first_calls_wait_for_nothing() -> None:
    clock = Clock()
    pace = Pace(10, clock, clock.sleep)
    for _ in range(5):
        pace.take(2)
    assert clock.now == 100.0
    pace.take()
    assert clock.now >= 101.0
