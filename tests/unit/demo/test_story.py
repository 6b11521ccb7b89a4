"""The demo's draw; the story itself is told on a real Slurm by `make demo`."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "contrib/demo"))

import story

NAMES = ["n1", "n2", "n3", "n4"]


@given(st.integers(0, 10**6))
def test_a_seed_draws_one_story(seed: int) -> None:
    drawn = story.draw(seed, NAMES)
    assert drawn == story.draw(seed, NAMES)
    assert sorted(drawn.order) == NAMES
    assert drawn.gpu in {f"gpu{index}" for index in range(8)}
    assert drawn.mount in story.MOUNTS


def test_seeds_draw_different_stories() -> None:
    drawn = [story.draw(seed, NAMES) for seed in range(100)]
    assert {one.order[0] for one in drawn} == set(NAMES)
    assert len({one.gpu for one in drawn}) == 8
    assert {one.mount for one in drawn} == set(story.MOUNTS)
