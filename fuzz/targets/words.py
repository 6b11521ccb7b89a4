"""Short texts that people and Slurm write: reasons, tags, hostlists, GPU lists, the hook's environment."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from fuzz.targets import Target, require
from slurm_guard.cli import timeforms
from slurm_guard.core import reason, tag
from slurm_guard.core.context import Context, parse_gpu_list
from slurm_guard.core.errors import GuardError
from slurm_guard.slurm import host_names, hostlist, said, values

NOW = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
UNSAFE = set("\"'`\\$|;\n\r\t\0")


def reasons(data: bytes) -> None:
    """A node's reason as Slurm gives it, and a fault on its way to Slurm."""
    text = data.decode("utf-8", "replace")
    found = reason.parse(text)
    if found is not None and len(reason.strip_slurms_additions(text)) <= reason.LONGEST:
        again = reason.parse(str(found))
        require(again is not None and again.fault == found.fault, "our own reason is not ours")
    if reason.is_ours_unchanged(text):
        require(found is not None, "ours, and cannot be read")
    fault, _, device = text.partition(" ")
    for made in (reason.clean(text), reason.build(fault, device)):
        require((made.isascii() and made.isprintable()) or not made, "not plain text")
        require(not UNSAFE & set(made) and len(made) <= reason.LONGEST, "a text that Slurm cannot bear")


def tags(data: bytes) -> None:
    """A node's comment: only our own is ever written over, and what we write is read back."""
    text = data.decode("utf-8", "replace")
    found = tag.parse(text)
    entry = tag.Entry(1_790_000_000, [7], [1001])
    made = tag.added(text, entry, 0.0)
    require((made is None) == (found is None), "somebody else's comment is written over")
    if found is None:
        require(tag.taken_back(text) is None, "somebody else's comment is taken back")
        return
    require(not text or text.startswith(tag.MARK), "a comment without our mark is taken for ours")
    read = tag.parse(made or "")
    require(read is not None and str(read[0]) == str(entry), "our own note cannot be read")
    require(len(made or "") < 1200, "a comment that grows")
    require(tag.parse(tag.taken_back(text) or "") is not None, "what is left cannot be read")


def hostlists(data: bytes) -> None:
    """A hostlist: the hot reader and ClusterShell's mean the same names, and folding loses none."""
    text = data.decode("utf-8", "replace")
    try:
        names = host_names.expand(text, 500)
    except host_names.HostlistError as error:
        require("\n" not in str(error), "a message of several lines")
        return
    require(all(names), "an empty name")
    try:
        folded = hostlist.fold(names)
    except hostlist.HostlistError:
        return
    require(set(host_names.expand(folded, 500)) == set(names), "folding changed the names")
    require(set(hostlist.nodeset(text, 500)) == set(names), "sets and lists differ")


def environment(data: bytes) -> None:
    """SLURM_* and GPU lists, NAME=VALUE a line."""
    pairs = (line.partition(b"=")[::2] for line in data.split(b"\n"))
    env = {
        name.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
        for name, value in pairs
    }
    for hook in ("prolog", "epilog", "healthcheck"):
        found = Context(hook, env)
        found.as_dict()
        require(found.job_id is None or 0 <= found.job_id < 10**18, "a job id that is none")
        require(
            all(gpu.isascii() and "/" not in gpu.split("/")[0] for gpu in found.gpus), "a GPU that is none"
        )
        require(len(found.gpus) <= 70_000, "GPUs without end")
    with suppress(ValueError):
        parse_gpu_list(data.decode("utf-8", "replace"))


def slurm_values(data: bytes) -> None:
    """Single values out of Slurm's answers, and times that people type."""
    text = data.decode("utf-8", "replace")
    for read in (
        values.text,
        values.number,
        values.job_number,
        values.user,
        values.exit_status,
        values.seconds,
    ):
        with suppress(GuardError, ValueError):
            read(text)  # type: ignore[operator]
    require("\n" not in values.one_line(text), "several lines")
    require(said.printable(text).replace("\n", "").isprintable(), "control characters")
    with suppress(GuardError, ValueError):
        timeforms.parse(text, NOW)


TARGETS = (
    Target(
        "reasons",
        "drain reasons",
        reasons,
        (
            b"SG:gpu_xid.79 gpu3",
            b"SGJ:gpu_processes.left gpu1 : reboot issued",
            b"Not responding",
            b"SG:a.b c\xc3\xbc",
        ),
    ),
    Target(
        "tags",
        "our note in a node's comment",
        tags,
        (b"slurm_guard drained 1796093659 jobs 1204 uids 1001 / 1796090021 jobs - uids -", b"rack 7", b""),
    ),
    Target(
        "hostlists",
        "hostlists, hot and cold",
        hostlists,
        (
            b"gpu[001-003,007],login",
            b"n00[1-3,7],m[01-10]",
            b"node[1-2][3-4]",
            b"a[9-11]b,n[1",
            b"n[1-2],n[1-2]",
        ),
    ),
    Target(
        "environment",
        "SLURM_* and GPU lists",
        environment,
        (
            b"SLURM_JOB_ID=12\nSLURM_JOB_GPUS=0-3,7\nSLURM_JOB_UID=1001\nSLURMD_NODENAME=n1",
            b"CUDA_VISIBLE_DEVICES=MIG-GPU-12345678-aaaa/1/2,GPU-12345678\nSLURM_JOBID=4294967294",
        ),
    ),
    Target(
        "slurm_values",
        "numbers, users, times and exit codes",
        slurm_values,
        (b"root(0)", b"1-02:03:04", b"1234_[5-9%2]", b"0:15", b"INFINITE", b"2026-11-30T23:52:09"),
    ),
)
