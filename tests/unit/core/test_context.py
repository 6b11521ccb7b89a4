"""What Slurm's environment tells a hook."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.context import Context, parse_gpu_list

LISTS = [
    ("", []),
    ("0,1", ["0", "1"]),
    ("0-3", ["0", "1", "2", "3"]),
    ("0-1,4,6-7", ["0", "1", "4", "6", "7"]),
    ("2,2,1", ["2", "1"]),
    (" 5 , 6 ", ["5", "6"]),
    ("NoDevFiles", []),
    ("(null)", []),
    ("GPU-7d1f2a90-11aa-42cd-9d55-0c6f3e5b8a10", ["GPU-7d1f2a90-11aa-42cd-9d55-0c6f3e5b8a10"]),
    ("MIG-2e8b9f31-5a5e-5c12-8b1d-0a2f4c6e8d90,3", ["MIG-2e8b9f31-5a5e-5c12-8b1d-0a2f4c6e8d90", "3"]),
    (
        "MIG-GPU-7d1f2a90-11aa-42cd-9d55-0c6f3e5b8a10/1/0",
        ["MIG-GPU-7d1f2a90-11aa-42cd-9d55-0c6f3e5b8a10/1/0"],
    ),
]


@pytest.mark.parametrize(("text", "wanted"), LISTS)
def test_gpu_lists(text: str, wanted: list[str]) -> None:
    assert parse_gpu_list(text) == wanted


@pytest.mark.parametrize("text", ["3-1", "a", "0;1", "0-9999", "$(reboot)", "GPU-xyz", "1-2-3", "-1"])
def test_what_is_no_gpu_list_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="GPU list"):
        parse_gpu_list(text)


@given(st.lists(st.integers(0, 63), unique=True))
def test_a_list_of_indices_comes_back(indices: list[int]) -> None:
    assert parse_gpu_list(",".join(map(str, indices))) == [str(index) for index in indices]


@given(st.text(max_size=60))
def test_any_text_is_a_list_or_an_error(text: str) -> None:
    try:
        found = parse_gpu_list(text)
    except ValueError:
        return
    assert all(isinstance(token, str) and token for token in found)


PROLOG = {
    "SLURMD_NODENAME": "gn07",
    "SLURM_CLUSTER_NAME": "blue",
    "SLURM_JOB_ID": "4711",
    "SLURM_JOB_RESTART_COUNT": "2",
    "SLURM_JOB_UID": "1204",
    "SLURM_JOB_USER": "mira",
    "SLURM_JOB_PARTITION": "train",
    "SLURM_NODELIST": "gn[07-08]",
    "SLURM_JOB_GPUS": "4-5",
    "CUDA_VISIBLE_DEVICES": "0,1",
}


def test_a_prolog_s_environment() -> None:
    context = Context("prolog", PROLOG)
    assert (context.node, context.job_id, context.restart, context.uid) == ("gn07", 4711, 2, 1204)
    assert context.gpus == ["4", "5"]
    assert context.nodes == "gn[07-08]"


def test_a_healthcheck_knows_the_node_alone() -> None:
    context = Context("healthcheck", {"SLURMD_NODENAME": "gn07"})
    assert context.as_dict() is None
    assert context.gpus == []


def test_garbage_gpus_are_told_and_give_none() -> None:
    context = Context("prolog", {**PROLOG, "SLURM_JOB_GPUS": "gpu:h100"})
    assert context.gpus == []
    assert "gpu:h100" in context.gpus_problem


@pytest.mark.parametrize("sentinel", ["4294967294", "4294967295", "", "x7", "-3", "٣"])
def test_slurm_s_sentinels_and_garbage_are_no_numbers(sentinel: str) -> None:
    assert Context("prolog", {"SLURM_JOB_ID": sentinel}).job_id is None
