"""What the hooks really load on a healthy node, compared with the committed list `allowed_modules.txt`.

A new name in that list needs a reason: each costs every job's start something, on every node.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from minicluster import nvml_library
from minicluster.machine import model
from minicluster.machine.gpu import LIBRARY_FOLDER
from minicluster.machine.render import render, update
from slurm_guard.core import plan
from slurm_guard.core.check import names

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).resolve().parent
BOOT = HERE.parents[1] / "slurm_guard/engine/boot.py"
NODE = "n1"
HOOKS = ("prolog", "epilog", "healthcheck")
#: The NVML double needs a C compiler; where there is none, the runs without it still count.
LIBRARIES = ["without NVML", *(["with NVML"] if shutil.which("cc") else [])]
HOT_FLOORS = ("core", "probes", "checks", "engine")
JOB = {
    "SLURM_JOB_ID": "77",
    "SLURM_JOB_UID": "1000",
    "SLURM_JOB_USER": "ada",
    "SLURM_JOB_GPUS": "0-7",
    "SLURM_CLUSTER_NAME": "hot",
}


LISTS = ("allowed_modules.txt", "allowed_in_nvml_child.txt")


def allowed(name: str) -> set[str]:
    """The committed names of one list; `#` starts a comment."""
    lines = (HERE / name).read_text().splitlines()
    return {word for line in lines if (word := line.partition("#")[0].strip())}


@pytest.fixture(params=LIBRARIES)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A healthy machine's folder with a plan; without an NVML library the run notes that and goes on."""
    root = tmp_path / "root"
    if request.param == "with NVML":
        nvml_library.install(nvml_library.build(), root)
    boot_id = "2f0e8bd1-9e47-4a9d-a2a4-5c8d0d2c7a11"
    machine = model.healthy(NODE, "hot", boot_id, time.time() - 86400)
    update(root, {}, render(machine))
    bundle: dict[str, Any] = {
        "schema": "1.0",
        "built_at": time.time(),
        "cluster": "hot",
        "nvml_library": f"/{LIBRARY_FOLDER}/{nvml_library.NAME}",
        "python_path": [path for path in sys.path if path.endswith("site-packages")],
        "profiles": [{"class": "8xH100", "expected": {"gpus": 8, "ib_ports": 8}}],
        "nodes": {NODE: 0},
    }
    bundle["hash"] = plan.digest(bundle)
    target = root / "var/lib/slurm-guard/plan.json"
    target.parent.mkdir(parents=True)
    target.write_bytes(plan.encode(bundle))
    return root


def loaded(hook: str, root: Path, folder: Path, env: Mapping[str, str]) -> list[set[str]]:
    """What each of the hook's processes had loaded, beyond what an empty interpreter has."""
    folder.mkdir()
    command = [sys.executable, "-I", "-S", str(HERE / "record_modules.py"), str(folder), str(BOOT), hook]
    done = subprocess.run(
        [*command, "--root", str(root)],
        env=dict(env),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [set(file.read_text().splitlines()) - {"__main__"} for file in folder.iterdir()]


def foreign(names: set[str]) -> set[str]:
    """The top-level names of modules that are not ours."""
    return {name.partition(".")[0] for name in names} - {"slurm_guard"}


@pytest.mark.parametrize("hook", HOOKS)
def test_hook_loads_nothing_that_is_not_on_the_list(hook: str, node: Path, tmp_path: Path) -> None:
    env = {"SLURMD_NODENAME": NODE, **({} if hook == "healthcheck" else JOB)}
    processes = loaded(hook, node, tmp_path / "modules", env)
    assert len(processes) >= 3, "the supervisor, the worker and at least one probe's child"

    ours = {name for names in processes for name in names if name.startswith("slurm_guard.")}
    assert {f"slurm_guard.checks.{name}" for name in names()} <= ours, (
        "every check was loaded: this was a run"
    )
    cold = {name for name in ours if name.split(".")[1] not in HOT_FLOORS}
    assert not cold, "a healthy run needs neither Slurm nor any cold module"

    for names_of_one in processes:
        binding = "pynvml" in names_of_one
        may = allowed(LISTS[0]) | (allowed(LISTS[1]) if binding else set())
        assert foreign(names_of_one) <= may, "new in a hook; if it is worth its time, add it to the list"


@pytest.mark.parametrize("name", LISTS)
def test_list_has_no_name_twice_and_is_sorted(name: str) -> None:
    lines = [line for line in (HERE / name).read_text().splitlines() if not line.startswith("#")]
    found = [line.partition("#")[0].strip() for line in lines]
    assert found == sorted(set(found))
