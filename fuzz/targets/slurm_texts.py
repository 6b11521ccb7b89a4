"""What sinfo, squeue, scontrol and sacct print, as text and as JSON: a node's owner writes parts of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.targets import Target, require
from slurm_guard.core.errors import SlurmError
from slurm_guard.slurm import parse_json, parse_text, states

if TYPE_CHECKING:
    from slurm_guard.slurm.gateway import NodeState

GOLDEN = Path(__file__).resolve().parents[2] / "tests/golden/slurm"
TOKEN = "<TOKEN>"


def _judged(nodes: list[NodeState]) -> None:
    for node in nodes:
        require(node.name, "a node without a name")
        for answer in (
            states.may_drain(node, ("root",)),
            states.may_resume(node, ("root",)),
            states.counts_against_budget(node),
        ):
            require(answer.ok or answer.why, "no, without a reason")


def node_text(data: bytes) -> None:
    """sinfo -O."""
    try:
        _judged(parse_text.nodes(data.decode("utf-8", "replace"), TOKEN, 1e9))
    except SlurmError:
        return


def job_text(data: bytes) -> None:
    """squeue -O and sacct -p."""
    text = data.decode("utf-8", "replace")
    for read in (parse_text.jobs, parse_text.runs):
        try:
            for one in read(text, TOKEN):  # type: ignore[operator]
                require(one.job_id >= 0, "a job without an id")
        except SlurmError:
            continue


def address_text(data: bytes) -> None:
    """scontrol show node -o, and the same from sinfo: where a node may send from."""
    text = data.decode("utf-8", "replace")
    parse_text.addresses(text)
    try:
        parse_text.listed_addresses(text, TOKEN)
    except SlurmError:
        return


def slurm_json(data: bytes) -> None:
    """--json of all of them."""
    text = data.decode("utf-8", "replace")
    try:
        told = parse_json.document(text)
    except SlurmError:
        return
    parse_json.plugin(told)
    for read in (parse_json.nodes, parse_json.jobs):
        try:
            found = read(told)  # type: ignore[operator]
        except SlurmError:
            continue
        if read is parse_json.nodes:
            _judged(found)


def _golden(*names: str) -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for name in names for path in sorted(GOLDEN.glob(f"*/{name}")))


SMALL = (
    b'{"nodes":[{"name":"n1","state":["IDLE","DRAIN"],"reason":"SG:x","reason_set_by_user":"root","comment":"",'
    b'"reason_changed_at":{"set":true,"infinite":false,"number":5},"partitions":["main"]}],"errors":[]}',
    b'{"jobs":[{"job_id":7,"job_state":["RUNNING"],"user_id":1001,"nodes":"n[1-2]","array_task_id":{"set":false},'
    b'"gres_detail":["gpu:2(IDX:0-1)"],"start_time":1796090000,"exit_code":{"return_code":{"number":1}}}]}',
    b'{"errors":[{"error":"Unable to contact slurm controller"}]}',
)
ADDRESSES = (
    b"NodeName=n1 Arch=x86_64 NodeAddr=10.0.0.1 NodeHostName=n1 Comment=NodeName=n2 NodeAddr=1.2.3.4\n"
)
TARGETS = (
    Target("node_text", "sinfo's nodes", node_text, _golden("nodes*.txt")),
    Target("job_text", "squeue's and sacct's jobs", job_text, _golden("jobs.txt", "runs.txt")),
    Target(
        "address_text",
        "nodes' addresses",
        address_text,
        (ADDRESSES, b"n[1-2]<TOKEN>10.0.0.1<TOKEN>h<TOKEN>\n"),
    ),
    Target("slurm_json", "Slurm's JSON", slurm_json, SMALL),
)
