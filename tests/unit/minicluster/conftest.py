"""A simulated machine of its own for each test, and questions to the NVML double in a forked child."""

from __future__ import annotations

import ctypes
import os
import pickle
import select
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from minicluster import nvml_library, processes
from minicluster.machine.gpu import LIBRARY_FOLDER
from minicluster.mounting import unmount_below
from minicluster.simulated import SimulatedMachine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from minicluster.processes import Identity

SEED = "unit-test"
PATIENCE = 60.0  # seconds until a child counts as hung


class HungError(Exception):
    """The child did not answer."""


class CrashedError(Exception):
    """The child died of a signal; its number is the argument."""


def in_child(function: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """The answer of `function`, called in a forked child that can hang or crash without harm."""
    read_end, write_end = os.pipe()
    ready: list[int] = []
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write_end, pickle.dumps(function()))
        except BaseException as error:
            os.write(write_end, pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}")))
        os._exit(0)
    os.close(write_end)
    try:
        ready, _, _ = select.select([read_end], [], [], patience)
        answer = os.read(read_end, 1 << 20) if ready else None
    finally:
        os.close(read_end)
        if not ready:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    if answer is None:
        raise HungError
    if os.WIFSIGNALED(status):
        raise CrashedError(os.WTERMSIG(status))
    found = pickle.loads(answer)
    if isinstance(found, RuntimeError):
        raise found
    return found


def ask_nvml(library: Path, question: Callable[[Any], Any], patience: float = PATIENCE) -> Any:
    """Ask the double at `library` through the real binding: `question(pynvml)` after nvmlInit."""

    def load_and_ask() -> Any:
        import pynvml

        pynvml.nvmlLib = ctypes.CDLL(str(library))
        try:
            pynvml.nvmlInit()
            return question(pynvml)
        except pynvml.NVMLError as error:
            return type(error).__name__.removeprefix("NVMLError_")

    return in_child(load_and_ask, patience)


def until(condition: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until a condition holds; fail if it never does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition never held"
        time.sleep(0.005)


def start(folder: Path, *argv: str, environment: dict[str, str] | None = None) -> Identity:
    """Launch a process as the minicluster does; its records in `folder` are 0.pid, 1.pid and so on."""
    record = folder / f"{len(list(folder.glob('*.pid')))}.pid"
    return processes.launch(record, list(argv), folder / "log", folder, environment)


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that the minicluster did not start."""
    process = subprocess.Popen(
        ["sleep", "60"], env={"SLURM_CONF": "/somewhere/else", "SLURMD_NODENAME": "n1"}
    )
    yield process
    process.kill()
    process.wait()


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The NVML double, compiled once."""
    return nvml_library.build(tmp_path_factory.mktemp("nvml"))


@contextmanager
def healthy_machine(library: Path) -> Iterator[SimulatedMachine]:
    """A machine in a folder of its own, in memory: it consists of hundreds of small files."""
    memory = Path("/dev/shm")
    directory = Path(tempfile.mkdtemp(prefix="minicluster-", dir=memory if memory.is_dir() else None))
    found = SimulatedMachine(directory, "n1")
    try:
        for name in ("run", "log"):
            (directory / name).mkdir()
        found.create(SEED, library)
        yield found
    finally:
        found.free_mounts()
        assert unmount_below(directory) == []
        shutil.rmtree(directory)


@pytest.fixture
def machine(library: Path) -> Iterator[SimulatedMachine]:
    """A healthy machine."""
    with healthy_machine(library) as found:
        yield found


@pytest.fixture(scope="module")
def lasting_machine(library: Path) -> Iterator[SimulatedMachine]:
    """One machine for tests that leave it healthy."""
    with healthy_machine(library) as found:
        yield found


@pytest.fixture
def nvml(machine: SimulatedMachine) -> Callable[..., Any]:
    """`nvml(lambda n: n.nvmlDeviceGetCount())` asks the machine's double."""
    path = machine.root / LIBRARY_FOLDER / nvml_library.NAME

    def ask(question: Callable[[Any], Any], patience: float = PATIENCE) -> Any:
        return ask_nvml(path, question, patience)

    return ask
