"""slurm.conf as sites write it: any case, comments, continued lines, Include with globs and %c."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.config import slurm_conf

if TYPE_CHECKING:
    from pathlib import Path

MAIN = r"""
# Prolog=/commented/out
CLUSTERNAME=orion
slurmUSER=svc      # who it is
Prolog=/etc/slurm/prolog.d/*   # trailing
SchedulerParameters=bf_continue,\
nohold_on_prolog_fail
PROLOG=/second
Comment="a value = with blanks"
Nothing=
Weird=a\#b
include sub/%c.conf
INCLUDE nodes/*.conf
Include gone.conf
"""


def make(folder: Path) -> slurm_conf.SlurmConf:
    (folder / "sub").mkdir()
    (folder / "nodes").mkdir()
    (folder / "slurm.conf").write_text(MAIN)
    (folder / "sub/orion.conf").write_text("PrologFlags=Alloc,Contain\nPrologEpilogTimeout=90\n")
    (folder / "nodes/b.conf").write_text("NodeName=b[1-2] Gres=gpu:h100:8,nic:2 Prolog=/not/a/setting\n")
    (folder / "nodes/a.conf").write_text("NodeName=a1 CPUs=4\nnodename=DEFAULT State=UNKNOWN\n")
    return slurm_conf.read(str(folder / "slurm.conf"))


def test_keys_of_all_files_in_slurms_order(tmp_path: Path) -> None:
    found = make(tmp_path)
    assert [one.value for one in found.all("prolog")] == ["/etc/slurm/prolog.d/*", "/second"]
    assert found.last("Prolog") == "/second"
    assert (found.last("ClusterName"), found.last("SlurmUser")) == ("orion", "svc")
    assert found.words("SchedulerParameters") == ["bf_continue", "nohold_on_prolog_fail"]
    assert found.words("PrologFlags") == ["alloc", "contain"]
    assert found.number("PrologEpilogTimeout") == 90
    assert found.last("Comment") == "a value = with blanks"
    assert (found.last("Nothing"), found.last("Weird"), found.last("Absent")) == ("", "a#b", None)


def test_node_lines_keep_their_fields(tmp_path: Path) -> None:
    nodes = make(tmp_path).all("NodeName")
    assert [one.value for one in nodes] == ["a1", "DEFAULT", "b[1-2]"]
    assert nodes[2].fields["gres"] == "gpu:h100:8,nic:2"


def test_places_and_missing_files_are_told(tmp_path: Path) -> None:
    found = make(tmp_path)
    scheduler = found.all("schedulerparameters")[0]
    assert (scheduler.file, scheduler.line) == (str(tmp_path / "slurm.conf"), 6)
    assert found.problems == [f"{tmp_path}/gone.conf: No such file or directory"]


def test_circles_end(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("Include slurm.conf\nProlog=/x\n")
    found = slurm_conf.read(str(tmp_path / "slurm.conf"))
    assert "circles" in found.problems[0]
    assert found.last("Prolog") == "/x"


@pytest.mark.parametrize("text", ["", "\\", "a=\\\n\\\n", "Prolog=1\\", "include  ", "Include \0", "=\n==\n"])
def test_odd_texts_are_read_without_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "slurm.conf").write_text(text)
    assert slurm_conf.read(str(tmp_path / "slurm.conf")).files == [str(tmp_path / "slurm.conf")]


@given(
    data=st.binary(max_size=120) | st.text(alphabet='\\#\n ="Ii nclude*[%/.a', max_size=60).map(str.encode)
)
def test_any_bytes_are_read_without_an_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "slurm.conf").write_bytes(data)
    assert str(tmp_path / "slurm.conf") in slurm_conf.read(str(tmp_path / "slurm.conf")).files
