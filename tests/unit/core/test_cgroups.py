"""Whose a cgroup is: both versions, one or several slurmd on a host, steps of every kind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core import cgroups

TOP = "/sys/fs/cgroup"


@pytest.mark.parametrize(
    ("path", "whose"),
    [
        ("0::/system.slice/slurmstepd.scope/job_4127/step_batch/user/task_0", (4127, "batch")),
        (f"{TOP}/system.slice/slurmstepd.scope/job_4127", (4127, "")),
        (
            f"{TOP}/system.slice/k1_slurmstepd.scope/job_4127/step_extern/user/task_special",
            (4127, "extern"),
        ),
        (f"{TOP}/memory/slurm/uid_911/job_4127/step_12/task_1", (4127, "12")),
        (f"{TOP}/memory/slurm_kx31/uid_911/job_4127/step_0/task_3", (4127, "0")),
        (f"{TOP}/system.slice/slurmstepd.scope/sX81kd/step_0/user/task_0", None),
        (f"{TOP}/system.slice/slurmstepd.scope/system", None),
        (f"{TOP}/user.slice/user-911.slice/job_4127/step_0", None),
        (f"{TOP}/system.slice/slurmstepd.scope/job_0/step_0", None),
        (f"{TOP}/system.slice/slurmstepd.scope/job_41x/step_0", None),
        ("", None),
    ],
)
def test_paths(path: str, whose: tuple[int, str] | None) -> None:
    assert cgroups.job_of(path) == whose


@given(st.integers(1, 9_999_999_999), st.sampled_from(["0", "batch", "extern", "77"]), st.text("a-_.1"))
def test_a_job_comes_back_from_either_version(job: int, step: str, node: str) -> None:
    version_1 = f"/slurm{node}/uid_5/job_{job}/step_{step}/task_0"
    version_2 = f"/system.slice/{node}slurmstepd.scope/job_{job}/step_{step}"
    assert cgroups.job_of(version_1) == cgroups.job_of(version_2) == (job, step)


@given(st.text())
def test_any_text_is_a_job_s_or_nobody_s(text: str) -> None:
    found = cgroups.job_of(text)
    assert found is None or found[0] > 0
