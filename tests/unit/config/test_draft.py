"""The first configuration that `sguard init` shows: what slurm.conf says, and always valid."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slurm_guard.config import draft, slurm_conf
from slurm_guard.config.model import Config
from tests.unit.config.samples import read

if TYPE_CHECKING:
    from pathlib import Path

    from slurm_guard.config.slurm_conf import SlurmConf


def conf_with(folder: Path, text: str) -> SlurmConf:
    path = folder / "slurm.conf"
    path.write_text(text)
    return slurm_conf.read(str(path))


def test_without_slurm_conf_the_owners_stay_the_built_in_ones(tmp_path: Path) -> None:
    reading = read(tmp_path, draft.draft(None, []))
    assert reading.config is not None
    assert reading.config.owners == Config().owners


@pytest.mark.parametrize(
    ("gres", "expected"),
    [
        ("gpu:h100:8", ("H100", 8)),
        ("gpu:8", ("", 8)),
        ("gpu", ("", 1)),
        ("gpu:tesla", ("TESLA", 1)),
        ("gpu:a100:4(S:0-1),nic:2", ("A100", 4)),
        ("gpu:a100:2(IDX:0,1),gpu:l40s:1", ("A100+L40S", 3)),
        ("nic:2,shard:16", ("", 0)),
        ("", ("", 0)),
        ("gpu:a100_3g.20gb:2", ("A100_3G.20GB", 2)),
    ],
)
def test_gpus_of_a_gres_value(gres: str, expected: tuple[str, int]) -> None:
    assert draft.gpus_of(gres) == expected


def test_nodes_are_grouped_by_their_gpus(tmp_path: Path) -> None:
    conf = conf_with(
        tmp_path,
        "NodeName=DEFAULT Gres=gpu:h200:8\nNodeName=big[01-03]\nNodeName=big[05-06]\n"
        "NodeName=old[1-2] Gres=gpu:4\nNodeName=DEFAULT Gres=\nNodeName=login,big01\nNodeName=bad[\n",
    )
    assert draft.groups_of(conf) == [
        ("8xH200", 8, ["big01", "big02", "big03", "big05", "big06"]),
        ("4xGPU", 4, ["old1", "old2"]),
        ("cpu", 0, ["login"]),
    ]


def test_the_draft_is_valid_and_says_what_was_found(tmp_path: Path) -> None:
    conf = conf_with(tmp_path, "ClusterName=orion\nSlurmUser=svc(71)\nNodeName=big[01-03] Gres=gpu:h200:8\n")
    reading = read(tmp_path, draft.draft(conf, draft.groups_of(conf)))
    assert reading.problems == []
    assert reading.config is not None
    assert (reading.config.cluster, reading.config.owners) == ("orion", ["root", "svc"])
    assert reading.config.slurm.conf == str(tmp_path / "slurm.conf")
    (only,) = reading.config.classes
    assert (only.name, only.nodes, only.gpus) == ("8xH200", "big[01-03]", 8)


@example(name="", user="𖼀", nodes=[], gres="")
@given(
    name=st.text(max_size=8),
    user=st.text(max_size=8),
    nodes=st.lists(st.from_regex(r"[a-z]{1,3}(\[[0-9]{1,2}-[0-9]{1,2}\])?", fullmatch=True), max_size=4),
    gres=st.from_regex(r"(gpu(:[a-z0-9]{1,4}){0,2},?){0,2}", fullmatch=True),
)
def test_the_draft_is_valid_for_any_slurm_conf(
    tmp_path: Path, name: str, user: str, nodes: list[str], gres: str
) -> None:
    lines = [f"ClusterName={name}", f"SlurmUser={user}", *(f"NodeName={node} Gres={gres}" for node in nodes)]
    conf = conf_with(tmp_path, "\n".join(lines))
    assert [str(one) for one in read(tmp_path, draft.draft(conf, draft.groups_of(conf))).problems] == []


def test_without_slurm_conf_there_is_still_a_draft(tmp_path: Path) -> None:
    assert read(tmp_path, draft.draft(None, [])).problems == []


def test_names_alone_make_one_class(tmp_path: Path) -> None:
    reading = read(tmp_path, draft.draft(None, draft.group_of_all(["a1", "a2"])))
    assert reading.config is not None
    assert reading.config.classes[0].nodes == "a[1-2]"
    assert draft.group_of_all([]) == []
