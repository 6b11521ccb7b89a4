"""The demo's draw; the story itself is told on a real Slurm by `make demo`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "contrib/demo"))

import demo
import story

NAMES = ["n1", "n2", "n3", "n4"]


@given(st.integers(0, 10**6))
def test_a_seed_draws_one_story(seed: int) -> None:
    drawn = story.draw(seed, NAMES)
    assert drawn == story.draw(seed, NAMES)
    assert sorted(drawn.order) == NAMES
    assert drawn.gpu in {f"gpu{index}" for index in range(8)}
    assert drawn.mount in story.MOUNTS


def test_a_reader_that_leaves_ends_the_demo_through_its_clean_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []

    def leave(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(demo, "missing", str)
    monkeypatch.setattr(demo.Stage, "say", leave)
    monkeypatch.setattr(demo.Stage, "down", lambda stage: ended.append(stage.directory))
    monkeypatch.setattr(demo.signal, "signal", lambda *_: None)
    monkeypatch.setattr(demo.os, "dup2", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["demo.py", "--seed", "3"])
    assert demo.main() == 141
    assert len(ended) == 1
    assert not ended[0].exists()


def test_seeds_draw_different_stories() -> None:
    drawn = [story.draw(seed, NAMES) for seed in range(100)]
    assert {one.order[0] for one in drawn} == set(NAMES)
    assert len({one.gpu for one in drawn}) == 8
    assert {one.mount for one in drawn} == set(story.MOUNTS)
