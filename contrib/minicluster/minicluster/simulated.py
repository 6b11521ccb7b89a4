"""One simulated machine over time: its state on disk, faults set and cleared, reboots.

The state (boot, faults, counts) is a small JSON file outside the node's folder; the folder follows from it.
All changes happen under a lock, so several commands may run at once.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
import uuid
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from minicluster import clock, nvml_library
from minicluster.errors import FaultError, MiniclusterError
from minicluster.faults import find
from minicluster.faults.registry import check_device, gpu_of, hca_of
from minicluster.files import locked, write_atomically
from minicluster.machine import kmsg, model
from minicluster.machine.render import render, update
from minicluster.mount_table import MountTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from minicluster.faults import Fault

UPTIME_AT_START = 3 * 86400.0  # a machine that has been up for days
UPTIME_AFTER_REBOOT = 45.0
GPU_COUNTERS = ("pcie_replay",)


@dataclass
class State:
    """What has happened to the machine. `counts` are counter increments since boot, by device."""

    seed: str
    boot_id: str
    boot_time: float
    faults: list[dict[str, Any]] = field(default_factory=list)  # name, device, values
    counts: dict[str, dict[str, int]] = field(default_factory=dict)


class SimulatedMachine:
    """The machine under one node of the cluster in `directory`."""

    def __init__(self, directory: Path, node: str) -> None:
        self.node = node
        self.root = directory / "nodes" / node
        self.state_path = directory / "machines" / f"{node}.json"
        self.log_path = self.root / "dev/kmsg"
        self.mount_table = MountTable(node, self.root, directory / "run", directory / "log")

    def create(self, seed: str, library: Path | None) -> None:
        """Make the folder of a healthy machine; `library` is the compiled NVML double, None for none."""
        state = State(seed, str(uuid.uuid4()), time.time() - UPTIME_AT_START)
        for folder in ("run", "tmp", "var/lib", "var/log", "etc", "dev", "proc/self"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        self.state_path.parent.mkdir(parents=True, exist_ok=True)
        if library is not None:
            nvml_library.install(library, self.root)
        machine = self._model(state)
        update(self.root, {}, render(machine))
        kmsg.start(self.log_path, machine)
        clock.write_uptime(self.root, state.boot_time)
        for gpu in machine.gpus:
            make_device(self.root / f"dev/nvidia{gpu.index}")
        self.mount_table.apply(machine)
        self._save(state)

    def faults(self) -> list[dict[str, Any]]:
        """The faults that are set now: name, device, values."""
        return self._load().faults

    def fault(self, name: str, /, device: str | None = None, **values: object) -> None:
        """Set a fault; again: other values, counters go up further, the kernel repeats its lines."""
        fault = find(name)
        given = fault.settings({key: str(value) for key, value in values.items()})
        with self._locked() as state:
            place = check_device(
                fault, self._model(State(state.seed, state.boot_id, state.boot_time)), device
            )
            before = render(self._model(state))
            state.faults = [
                entry for entry in state.faults if (entry["name"], entry["device"]) != (fault.name, place)
            ]
            state.faults.append({"name": fault.name, "device": place, "values": given})
            try:
                _count(state, fault, place, given)
                machine = self._model(state)
                lines = fault.lines(machine, place, given)
            except ValueError as error:
                raise FaultError(f"{name}: a setting is no number: {error}") from None
            self._show(state, before, machine)
            kmsg.append(self.log_path, state.boot_time, lines)

    def clear(self, name: str | None = None, device: str | None = None) -> list[dict[str, Any]]:
        """Take faults away: all, those of a name, or that of a name on a device; the faults that are gone.

        Kernel lines and counters stay, as on a real machine, until the next boot.
        """
        with self._locked() as state:
            before = render(self._model(state))
            gone = [entry for entry in state.faults if _matches(entry, name, device)]
            state.faults = [entry for entry in state.faults if entry not in gone]
            self._show(state, before, self._model(state))
        return gone

    def reboot(self) -> None:
        """A new boot: new boot id, short uptime, fresh kernel log, counters at their start values.

        Faults that are set stay: broken hardware is still broken after a reboot.
        """
        with self._locked() as state:
            before = render(self._model(state))
            state.boot_id, state.boot_time = str(uuid.uuid4()), time.time() - UPTIME_AFTER_REBOOT
            state.counts = {}
            shutil.rmtree(self.root / "run", ignore_errors=True)  # /run is a tmpfs
            # A hook's detached child, which a real reboot would have ended, may have made it again by now.
            (self.root / "run").mkdir(exist_ok=True)
            machine = self._model(state)
            # Before the new boot id is shown: a hook at work right now must not read the old boot's events
            # as the new one's, which on a real machine it could not.
            kmsg.start(self.log_path, machine)
            self._show(state, before, machine)
            clock.write_uptime(self.root, state.boot_time)

    def kernel_says(self, text: str, priority: int = kmsg.INFO) -> None:
        """Append one line to the node's kernel log."""
        kmsg.append(self.log_path, self._load().boot_time, [kmsg.Line(text, priority)])

    def free_mounts(self) -> None:
        """End hanging mounts, so that nothing stays blocked on them."""
        for mount in model.default_mounts():
            self.mount_table.free(mount)

    def _model(self, state: State) -> model.Machine:
        machine = model.healthy(self.node, state.seed, state.boot_id, state.boot_time)
        for place, counts in state.counts.items():
            _apply_counts(machine, place, counts)
        for entry in state.faults:
            find(entry["name"]).apply(machine, entry["device"], entry["values"])
        return machine

    def _show(self, state: State, before: dict[str, bytes | str], machine: model.Machine) -> None:
        self.mount_table.apply(machine)  # first: a mount that can't be changed leaves everything as it was
        self._save(state)  # before the files: what is set is known, and can be cleared, if we are killed now
        update(self.root, before, render(machine))

    def _load(self) -> State:
        try:
            return State(**json.loads(self.state_path.read_text()))
        except FileNotFoundError:
            raise MiniclusterError(
                f"no machine of {self.node} in {self.state_path.parent}: was its cluster's start cut short?"
            ) from None

    def _save(self, state: State) -> None:
        write_atomically(self.state_path, json.dumps(asdict(state), indent=1))

    @contextmanager
    def _locked(self) -> Iterator[State]:
        self._load()  # first: where there is no machine there is no folder for its lock
        with locked(clock.lock_of(self.state_path)):
            yield self._load()


def make_device(path: Path) -> None:
    """A character device that Slurm takes for a GPU. Where mknod isn't permitted, an empty file:
    Slurm then still counts GPUs, but sets no CUDA_VISIBLE_DEVICES."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        path.chmod(0o666)
    except PermissionError:
        path.touch()


def _matches(entry: dict[str, Any], name: str | None, device: str | None) -> bool:
    same_name = name is None or entry["name"] == name or entry["name"].startswith(f"{name}.")
    return same_name and (device is None or entry["device"] in (device, f"{device}/1"))


def _count(state: State, fault: Fault, place: str, values: dict[str, str]) -> None:
    for counter, setting in fault.counts.items():
        counts = state.counts.setdefault(place, {})
        counts[counter] = counts.get(counter, 0) + int(values[setting])


def _apply_counts(machine: model.Machine, place: str, counts: dict[str, int]) -> None:
    for counter, count in counts.items():
        if counter in GPU_COUNTERS:
            gpu_of(machine, place).nvml[counter] = str(count)
        else:
            hca_of(machine, place).counters[counter] = count
