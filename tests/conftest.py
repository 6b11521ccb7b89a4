"""Shared by all tests: hypothesis' settings, and the promise that nothing is left running or mounted."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

# No deadlines: a loaded machine is not a wrong answer. Derandomised: a failure is the same everywhere.
settings.register_profile(
    "slurm_guard",
    deadline=None,
    max_examples=2000 if os.environ.get("SOAK") else 60,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("slurm_guard")

MARK = "SLURM_GUARD_TEST_SESSION"
PATIENCE_S = 20.0


def _own_processes(mark: bytes) -> list[str]:
    """Processes, other than this one, that inherited the session's mark and still live."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append(f"{folder.name}: {command}")
        except OSError:
            continue
    return found


def _mounts_below(folder: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line for line in lines if line.split(" ")[1].startswith(f"{folder}/")]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs root where there is none; pytest's last line counts it as deselected."""
    if os.geteuid() == 0:
        return
    left_out = [item for item in items if item.get_closest_marker("needs_root")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout's root folder."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fail the session if a process or a mount of a test outlives it."""
    value = uuid.uuid4().hex
    os.environ[MARK] = value
    yield
    del os.environ[MARK]
    mark, folder, end = (
        f"{MARK}={value}".encode(),
        tmp_path_factory.getbasetemp(),
        time.monotonic() + PATIENCE_S,
    )
    while (left := _own_processes(mark) + _mounts_below(folder)) and time.monotonic() < end:
        time.sleep(0.05)  # a detached child of the last test may be about to end
    assert not left, "left behind by the tests:\n" + "\n".join(left)
