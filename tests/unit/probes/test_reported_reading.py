"""How probes read a node: each file once, nothing that can block, and ports by what they are."""

from __future__ import annotations

import collections
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from minicluster.machine.model import Process
from slurm_guard.core.outcome import Facts
from slurm_guard.core.paths import Places
from slurm_guard.probes import infiniband, kmsg, mounts, nvml_gpu, pci, procfs
from tests.unit.checks.simulated_node import SimulatedNode


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> SimulatedNode:
    return SimulatedNode(tmp_path_factory.mktemp("node"))


def opened_below(root: Path, read: Any) -> dict[str, int]:
    """How often each file below a folder is opened; asked in a child, since an audit hook stays."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            counts: collections.Counter[str] = collections.Counter()

            def note(event: str, args: tuple[Any, ...]) -> None:
                if event == "open" and isinstance(args[0], str) and args[0].startswith(f"{root}/"):
                    counts[args[0].removeprefix(f"{root}/")] += 1

            sys.addaudithook(note)
            read()
            os.write(write_end, json.dumps(counts).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    found: dict[str, int] = json.loads(text)
    return found


@pytest.mark.parametrize("probe", [procfs, infiniband, pci, kmsg], ids=lambda probe: probe.__name__)
def test_each_file_is_opened_once(simulated: SimulatedNode, probe: Any) -> None:
    """On hosts with hundreds of threads, a /proc file that is read in pieces takes seconds."""
    places = Places(str(simulated.root))
    counts = opened_below(simulated.root, lambda: probe.read(places, Facts(kmsg_since=0)))
    assert counts
    assert {path: count for path, count in counts.items() if count > 1} == {}
    assert "proc/cpuinfo" not in counts


def test_the_mount_table_is_opened_once_for_all_mounts(simulated: SimulatedNode) -> None:
    places = Places(str(simulated.root))
    request = Facts(mounts=[Facts(path=path) for path in ("/scratch", "/home", "/local")])
    counts = opened_below(simulated.root, lambda: [thunk() for _, thunk in mounts.stream(places, request)])
    assert counts == {"proc/self/mountinfo": 1}


def test_the_command_line_of_a_process_is_never_read(simulated: SimulatedNode) -> None:
    """That of a process in state D blocks its reader; here it is a pipe that nobody writes to."""
    simulated.machine.processes = [Process(5150, "stuck", 4103)]
    simulated.show()
    for name in ("cmdline", "environ", "maps", "stack"):
        path = simulated.root / f"proc/5150/{name}"
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    places = Places(str(simulated.root))
    counts = opened_below(simulated.root, lambda: nvml_gpu.owner_of(places, 5150))
    assert counts == {"proc/5150/status": 1}
    assert nvml_gpu.owner_of(places, 5150) == {"alive": True, "uid": 4103, "name": "stuck"}


@pytest.mark.parametrize("device", ["libra01", "bond_ib0", "roceib3", "mlx5_ib7"])
@pytest.mark.parametrize("layer", ["InfiniBand", "Ethernet"])
def test_what_a_port_is_says_its_link_layer_and_not_its_name(tmp_path: Path, device: str, layer: str) -> None:
    folder = tmp_path / f"sys/class/infiniband/{device}/ports/1"
    folder.mkdir(parents=True)
    for name, text in {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "200 Gb/sec (4X HDR)",
        "link_layer": layer,
    }.items():
        (folder / name).write_text(f"{text}\n")
    (port,) = infiniband.read(Places(str(tmp_path)), Facts())
    assert (port["name"], port["link_layer"]) == (f"{device}/1", layer)
