"""Names, numbers and kernel lines that nobody should have written cost nobody a record."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.context import Context
from slurm_guard.engine import spool
from slurm_guard.store import record as store_record

from .test_hook import write_plan

if TYPE_CHECKING:
    from .conftest import NodeRoot

HOSTILE = {
    "user in Latin-1": {"SLURM_JOB_USER": os.fsdecode(b"m\xfcller")},
    "partition of 100 kB": {"SLURM_JOB_PARTITION": "p" * 100_000},
    "terminal escapes": {"SLURM_JOB_NODELIST": "n\x1b[31m1"},
    "uid beyond all bits": {"SLURM_JOB_UID": "9" * 40},
    "job id beyond all bits": {"SLURM_JOB_ID": "9" * 40},
    "number of 5,000 digits": {"SLURM_JOB_RESTART_COUNT": "9" * 5000},
}


@pytest.mark.parametrize("env", HOSTILE.values(), ids=HOSTILE)
def test_the_store_takes_the_record_of_any_job(node: NodeRoot, env: dict[str, str]) -> None:
    write_plan(node)
    assert node.run("prolog", **{"SLURM_JOB_ID": "5", **env}).returncode == 0
    assert node.run("prolog", job=6).returncode == 0  # names the first job among the others
    paths = sorted(node.spool.glob("*.json"))
    assert [store_record.parse(path.read_bytes()).data["hook"] for path in paths] == ["prolog", "prolog"]


@pytest.mark.parametrize(
    "line", ["NVRM: Xid (PCI:0000:5d:00): 79, name=a\\x00b", "EXT4-fs error (device sda\\x00): x"]
)
def test_the_store_takes_the_record_of_any_kernel_line(node: NodeRoot, line: str) -> None:
    write_plan(node)
    node.run("healthcheck")
    with (node.root / "dev/kmsg").open("a") as log:
        log.write(f"3,2,200,-;{line}\n")
    node.run("healthcheck")
    for path in node.spool.glob("*.json"):
        store_record.parse(path.read_bytes())


@pytest.mark.parametrize("number", [65533, 65534, 65535, 4294967293])
def test_jobs_and_users_with_the_numbers_of_small_sentinels_are_jobs_and_users(number: int) -> None:
    context = Context("prolog", {"SLURM_JOB_ID": str(number), "SLURM_JOB_UID": str(number)})
    assert (context.job_id, context.uid) == (number, number)


@pytest.mark.parametrize("text", ["4294967294", "4294967295", "-1", "1e3", "", "9" * 5000, "٣"])
def test_what_is_no_number_of_slurm_s_is_none(text: str) -> None:
    assert Context("prolog", {"SLURM_JOB_ID": text}).job_id is None


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.text(st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON))
def test_a_record_is_encoded_as_any_store_can_keep_it(record: dict[str, Any]) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    found = json.loads(spool.encode(record), parse_constant=refuse)
    assert "\0" not in str(found)
    json.dumps(found, ensure_ascii=False).encode()  # no lone surrogate is left
