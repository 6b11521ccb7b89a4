"""Reading facts: hangs, crashes and garbage of one probe cost the others nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_guard.core.outcome import Facts
from slurm_guard.core.paths import Places
from slurm_guard.engine import runner
from slurm_guard.engine.reading import Hang, Reading


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make a probe module: `probe(name, read=…)` or `probe(name, stream=…)`; children inherit it."""

    def make(name: str, **functions: Any) -> None:
        module = types.ModuleType(f"slurm_guard.probes.{name}")
        for function, body in functions.items():
            setattr(module, function, body)
        monkeypatch.setitem(sys.modules, module.__name__, module)

    return make


def read(names: list[str], **options: Any) -> Reading:
    options = {"deadline_s": 5.0, "patience_s": 0.3, **options}
    return runner.read(names, Places("/"), Facts(), **options)


def hang_forever(*_: object) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    threading.Event().wait()


def test_facts_come_back_as_they_were(probe: Callable[..., None]) -> None:
    probe("a", read=lambda places, request: {"ports": [{"name": "mlx5_0/1", "rate": 400.0}]})
    probe("b", read=lambda places, request: [])
    reading = read(["a", "b"])
    assert reading.facts["a"].ports[0].name == "mlx5_0/1"
    assert reading.facts["b"] == []
    assert (reading.problems, reading.hangs) == ({}, [])


def test_an_exception_is_the_probe_s_own_problem(probe: Callable[..., None]) -> None:
    def broken(places: Places, request: Facts) -> None:
        raise OSError(5, "Input/output error", "/sys/x")

    probe("a", read=broken)
    probe("b", read=lambda places, request: 7)
    reading = read(["a", "b"])
    assert "Input/output error" in reading.problems["a"]
    assert reading.facts == {"b": 7}


def test_a_crash_is_told_and_the_rest_is_read(probe: Callable[..., None]) -> None:
    probe("a", read=lambda places, request: os.kill(os.getpid(), signal.SIGSEGV))
    probe("b", read=lambda places, request: 7)
    reading = read(["a", "b"])
    assert reading.problems == {"a": "the probe's process died (signal 11)"}
    assert reading.facts == {"b": 7}


def test_a_probe_that_hangs_is_named_and_killed(probe: Callable[..., None]) -> None:
    probe("nvml", read=hang_forever)
    probe("b", read=lambda places, request: 7)
    reading = read(["nvml", "b"], deadline_s=0.5)
    assert [(one.probe, one.key, one.confirmed) for one in reading.hangs] == [("nvml", "", False)]
    assert reading.facts == {"b": 7}
    with pytest.raises(ProcessLookupError):
        os.kill(reading.hangs[0].pid, 0)


def mounts(places: Places, request: Facts) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Three mounts, the second of which never answers."""
    for path in ("/home", "/scratch", "/local"):
        if path not in request.skip:
            yield (
                path,
                hang_forever if path == "/scratch" else (lambda path=path: {"key": path, "hung": False}),
            )


def test_one_hung_mount_does_not_hide_the_others(probe: Callable[..., None]) -> None:
    probe("mounts", stream=mounts)
    reading = read(["mounts"])
    assert {one.key: one.hung for one in reading.facts["mounts"]} == {
        "/home": False,
        "/scratch": True,
        "/local": False,
    }
    assert [one.key for one in reading.hangs] == ["/scratch"]


def test_a_source_whose_child_still_hangs_is_not_touched(probe: Callable[..., None], tmp_path: Path) -> None:
    touched = tmp_path / "touched"

    def stream(places: Places, request: Facts) -> Iterator[tuple[str, Callable[[], Any]]]:
        if "/scratch" not in request.skip:
            yield "/scratch", lambda: touched.write_text("x")

    probe("mounts", stream=stream)
    reading = read(["mounts"], hung=[Hang("mounts", "/scratch", os.getpid(), confirmed=True, still=True)])
    assert not touched.exists()
    assert [(one.key, one.still) for one in reading.facts["mounts"]] == [("/scratch", True)]


def test_a_whole_probe_whose_child_still_hangs_is_not_started(
    probe: Callable[..., None], tmp_path: Path
) -> None:
    touched = tmp_path / "touched"
    probe("nvml", read=lambda places, request: touched.write_text("x"))
    reading = read(["nvml"], hung=[Hang("nvml", "", os.getpid(), confirmed=True, still=True)])
    assert not touched.exists()
    assert reading.problems == {"nvml": "hung"}


def test_the_deadline_holds_for_all_together(probe: Callable[..., None]) -> None:
    def slow_stream(places: Places, request: Facts) -> Iterator[tuple[str, Callable[[], Any]]]:
        for number in range(100):
            if f"/m{number}" not in request.skip:
                yield f"/m{number}", hang_forever

    probe("mounts", stream=slow_stream)
    began = time.monotonic()
    reading = read(["mounts"], deadline_s=1.0)
    assert 1 < len(reading.hangs) < 20
    assert time.monotonic() - began < 30


def test_where_no_process_can_be_had_nothing_is_read_and_nothing_is_raised(
    probe: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    probe("nvml", read=lambda places, request: 7)
    probe("b", read=lambda places, request: 7)
    monkeypatch.setattr(os, "fork", full)
    reading = read(["nvml", "b"])
    why = "not read: Resource temporarily unavailable"
    assert (reading.facts, reading.problems) == ({}, {"nvml": why, "b": why})


def test_children_let_go_of_the_hook_s_output(probe: Callable[..., None], tmp_path: Path) -> None:
    probe("a", read=lambda places, request: [os.readlink(f"/proc/self/fd/{number}") for number in (0, 1, 2)])
    probe("b", read=lambda places, request: sorted(int(name) for name in os.listdir("/proc/self/fd")))
    with open(tmp_path / "inherited", "w"):
        reading = read(["a", "b"])
    assert reading.facts["a"] == ["/dev/null"] * 3
    assert len(reading.facts["b"]) == 5  # 0-2, the pipe, and the listing itself


def test_a_child_that_closes_its_pipe_and_stays_is_not_waited_for(probe: Callable[..., None]) -> None:
    """So does a process whose end hangs in a driver: its pipe is closed, and it is not gone."""

    def stay(*_: object) -> None:
        os.closerange(3, 64)
        hang_forever()

    probe("nvml", read=stay)
    probe("b", read=lambda places, request: 7)
    reading = read(["nvml", "b"])
    assert "nvml" in reading.problems
    assert reading.facts == {"b": 7}


def test_facts_that_were_told_count_whoever_keeps_the_pipe_open(
    probe: Callable[..., None], tmp_path: Path
) -> None:
    """A library may fork a helper, which inherits the pipe."""
    done = tmp_path / "done"

    def fork_a_helper(*_: object) -> dict[str, int]:
        if os.fork() == 0:
            while not done.exists():
                time.sleep(0.01)
            os._exit(0)
        return {"count": 8}

    probe("nvml", read=fork_a_helper)
    try:
        reading = read(["nvml"])
        assert (reading.facts["nvml"], reading.hangs, reading.problems) == ({"count": 8}, [], {})
    finally:
        done.touch()


def test_a_probe_that_tells_without_end_is_cut_off_and_the_rest_is_read(
    probe: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_MOST_BYTES", 1000)
    probe("a", read=lambda places, request: "x" * 5000)
    probe("b", read=lambda places, request: 7)
    reading = read(["a", "b"])
    assert reading.problems == {"a": "the probe's process told more than 1000 bytes"}
    assert reading.facts == {"b": 7}


@pytest.mark.parametrize(
    "garbage",
    [
        b"garbage\n{\n",
        b'["start","a","",0]\n["item","b","",1]\n["facts","b","",7]\n["item","b","",1]\n',
        b"7\n",
    ],
)
def test_a_library_that_writes_into_our_pipe_is_garbage_and_the_rest_is_read(
    probe: Callable[..., None], garbage: bytes
) -> None:
    def scribble(*_: object) -> dict[str, int]:
        for descriptor in range(3, 64):
            with contextlib.suppress(OSError):
                os.write(descriptor, garbage)
        return {"count": 8}

    probe("a", read=scribble)
    probe("b", read=lambda places, request: 7)
    reading = read(["a", "b"])
    assert reading.problems == {"a": "the probe's process wrote garbage"}
    assert reading.facts == {"b": 7}
