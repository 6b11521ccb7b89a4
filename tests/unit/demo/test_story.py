"""The demo's draw; the story itself is told on a real Slurm by `make demo`."""

from __future__ import annotations

import sys
from collections.abc import Callable
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


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """`run(problem, down)` tells a story in which `problem` comes up at once, and ends it with `down`."""

    def run_demo(problem: BaseException, down: Callable[[demo.Stage], bool]) -> int:
        def fail(*_: object) -> None:
            raise problem

        monkeypatch.setattr(demo, "missing", str)
        monkeypatch.setattr(demo.Stage, "say", fail)
        monkeypatch.setattr(demo.Stage, "down", down)
        monkeypatch.setattr(demo.signal, "signal", lambda *_: None)
        monkeypatch.setattr(demo.os, "dup2", lambda *_: None)
        monkeypatch.setattr(sys, "argv", ["demo.py", "--seed", "3"])
        return int(demo.main())

    return run_demo


@pytest.mark.parametrize(
    ("problem", "code"),
    [(BrokenPipeError(), 141), (KeyboardInterrupt(), 130), (demo.StoryError("something else"), 1)],
)
def test_whatever_ends_the_demo_ends_it_through_its_clean_up(
    run: Callable[..., int], problem: BaseException, code: int
) -> None:
    ended: list[Path] = []

    def down(stage: demo.Stage) -> bool:
        ended.append(stage.directory)
        return True

    assert run(problem, down) == code
    assert len(ended) == 1
    assert not ended[0].exists()


def test_a_cluster_that_does_not_end_keeps_the_folder_by_which_it_can_be_ended(
    run: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo.Stage, "_run", lambda *_, **__: (1, "could not end slurmd.n1 (state D?)\n"))
    folders: list[Path] = []
    original = demo.Stage.down

    def down(stage: demo.Stage) -> bool:
        folders.append(stage.directory)
        return bool(original(stage))

    try:
        assert run(KeyboardInterrupt(), down) == 130
        assert folders[0].is_dir()
        said = capsys.readouterr().err
        assert "could not end slurmd.n1" in said
        assert said.endswith(f"contrib/minicluster/bin/minicluster down --remove {folders[0]}\n")
    finally:
        folders[0].rmdir()


def test_seeds_draw_different_stories() -> None:
    drawn = [story.draw(seed, NAMES) for seed in range(100)]
    assert {one.order[0] for one in drawn} == set(NAMES)
    assert len({one.gpu for one in drawn}) == 8
    assert {one.mount for one in drawn} == set(story.MOUNTS)
