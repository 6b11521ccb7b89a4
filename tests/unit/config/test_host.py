"""What a plan needs of this host: settings first, then the usual places, below the root before elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.config import host
from slurm_guard.config.model import Config
from slurm_guard.core.paths import Places

if TYPE_CHECKING:
    from pathlib import Path


def program(path: Path, mode: int = 0o755) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)


def config(**slurm: object) -> Config:
    return Config.model_validate({"slurm": slurm})


def test_programs_in_the_usual_places_of_a_node_image(tmp_path: Path) -> None:
    for name in ("scontrol", "sinfo", "sacct"):
        program(tmp_path / "opt/slurm/bin" / name)
    program(tmp_path / "opt/slurm/bin/squeue", mode=0o644)
    found = host.find_programs(Places(str(tmp_path)), config(bin="/opt/slurm/bin"))
    assert found == {name: f"/opt/slurm/bin/{name}" for name in ("scontrol", "sinfo", "sacct")}


def test_a_folder_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "opt/slurm/bin/scontrol").mkdir(parents=True)
    assert host.find_programs(Places(str(tmp_path)), config(bin="/opt/slurm/bin")) == {}


def test_one_program_elsewhere(tmp_path: Path) -> None:
    program(tmp_path / "a/scontrol")
    program(tmp_path / "b/my-sinfo")
    found = host.find_programs(Places(str(tmp_path)), config(bin="/a", programs={"sinfo": "/b/my-sinfo"}))
    assert found == {"scontrol": "/a/scontrol", "sinfo": "/b/my-sinfo"}


def test_slurm_conf_and_the_clusters_name(tmp_path: Path) -> None:
    (tmp_path / "etc/slurm-llnl").mkdir(parents=True)
    (tmp_path / "etc/slurm-llnl/slurm.conf").write_text("clustername = vega\n")
    found = host.look(Places(str(tmp_path)), config())
    assert (found.slurm_conf, found.cluster) == ("/etc/slurm-llnl/slurm.conf", "vega")


def test_the_bindings_folder_holds_pynvml() -> None:
    (folder,) = host.python_path(Config())
    from pathlib import Path

    assert Path(folder, "pynvml.py").is_file()
    assert host.python_path(Config.model_validate({"nvml": {"python_path": ["/x"]}})) == ["/x"]
