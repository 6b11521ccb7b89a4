"""The first door to Slurm: `scontrol`, `sinfo`, `squeue` and `sacct`, by absolute path."""

from __future__ import annotations

import os
import time

from slurm_guard.core import reason as reasons
from slurm_guard.core.errors import SlurmError, SlurmRefusedError, SlurmUnreachableError
from slurm_guard.slurm import command, parse_json, parse_text, values
from slurm_guard.slurm.gateway import DEADLINE_S, Gateway, plain_job_id, plain_node_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from slurm_guard.slurm.gateway import JobInfo, JobRun, NodeState

#: Where a program is looked for if the plan does not name it.
FOLDERS = ("/usr/bin", "/usr/local/bin", "/opt/slurm/bin")
#: More names than this do not go on a command line; all nodes are read instead.
_MOST_NAMES = 1000
_LONGEST_COMMENT = 400

_UNREACHABLE = (
    "unable to contact slurm controller",
    "unable to contact",
    "socket timed out",
    "connection refused",
    "connection failure",
    "communication connection",
    "zero bytes were transmitted",
    "unable to establish",
    "could not establish",
    "unable to connect",
    "cannot stat file",
    "authentication error",
    "authentication credential",
    "munge encode failed",
    "slurmctld in standby",
    "slurm backup controller",
)
_REFUSED = (
    "invalid node name",
    "invalid node state",
    "invalid user id",
    "invalid job id",
    "access/permission denied",
    "access denied",
    "permission denied",
    "request denied",
    "not found",
    "not permitted",
    "already finished",
    "already completing",
)
_NO_SUCH_JOB = "invalid job id"


class CommandGateway(Gateway):
    """Slurm through its own programs.

    `programs` maps `scontrol`, `sinfo`, `squeue`, `sacct` to absolute paths; `slurm_conf` may be empty.
    `calls` counts the programs that were started. Nodes and jobs are read from text columns, or from JSON
    with `json`; accounting always from text, since sacct's JSON of 22.05 calls every exit code 0.
    """

    def __init__(
        self, programs: dict[str, str] | None = None, slurm_conf: str = "", json: bool = False
    ) -> None:
        super().__init__()
        self.json = json
        self.programs = dict(programs or {})
        self.slurm_conf = slurm_conf
        self.calls = 0

    def nodes(self, names: Iterable[str] | None = None, deadline: float = DEADLINE_S) -> list[NodeState]:
        """See Gateway. Nodes come once each, in sinfo's order; those in no partition are not told."""
        wanted = None if names is None else [plain_node_name(name) for name in names]
        if wanted is not None and not wanted:
            return []
        selection = ["--local", "-a"]
        if wanted is not None and len(wanted) <= _MOST_NAMES:
            selection += ["-n", ",".join(wanted)]
        found = self._nodes(selection, deadline)
        if not found:
            _nothing_told(wanted)
        return found if wanted is None else [node for node in found if node.name in wanted]

    def addresses(self, deadline: float = DEADLINE_S) -> dict[str, tuple[str, str]]:
        """NodeAddr and NodeHostName of every node, by NodeName, from one call; nodes in no partition too.

        Where a node's comment or reason imitates a line of the answer, a second call tells what is true.
        """
        found = parse_text.addresses(self._ask("scontrol", ["show", "node", "-a", "-o"], deadline)[0])
        if found is None:
            token = _token()
            columns = _columns(parse_text.ADDRESS_FIELDS, token)
            text, _ = self._ask("sinfo", ["--local", "-a", "-N", "-h", "-O", columns], deadline)
            found = parse_text.listed_addresses(text, token)
        if not found:
            raise SlurmError("scontrol told of no node's address; expected every node of the cluster")
        return found

    def drain(self, name: str, reason: str, deadline: float = DEADLINE_S, comment: str | None = None) -> None:
        """See Gateway. The reason is cleaned."""
        self.drain_many([name], reason, deadline, comment)

    def drain_many(
        self, names: Iterable[str], reason: str, deadline: float = DEADLINE_S, comment: str | None = None
    ) -> None:
        """See Gateway."""
        wanted, text = ",".join(plain_node_name(name) for name in names), reasons.clean(reason)
        if not text:
            raise SlurmError(f"no drain of {wanted[:80]} without a reason; got {reason[:80]!r}")
        if not wanted:
            raise SlurmError("no drain without a node; expected at least one NodeName")
        self._update([f"nodename={wanted}", "state=drain", f"reason={text}", *_comment(comment)], deadline)

    def resume(self, name: str, deadline: float = DEADLINE_S, comment: str | None = None) -> None:
        """See Gateway."""
        self._update([f"nodename={plain_node_name(name)}", "state=resume", *_comment(comment)], deadline)

    def job(self, job_id: int | str, deadline: float = DEADLINE_S) -> JobInfo | None:
        """See Gateway. Slurm forgets a job MinJobAge seconds after its end."""
        try:
            found = self._jobs(["-t", "all", "-j", plain_job_id(job_id)], deadline)
        except SlurmRefusedError as error:
            if _NO_SUCH_JOB in str(error).lower():
                return None
            raise
        return found[0] if found else None

    def jobs_on(self, name: str, deadline: float = DEADLINE_S) -> list[JobInfo]:
        """See Gateway."""
        return self._jobs(
            ["-t", "running,completing,configuring,suspended", "-w", plain_node_name(name)], deadline
        )

    def accounting(self, job_id: int | str, deadline: float = DEADLINE_S) -> list[JobRun]:
        """See Gateway. Needs slurmdbd; without it SlurmError says that accounting storage is disabled."""
        token = _token()
        argv = ["-n", "-p", "-D", "--local", f"--delimiter={token}"]
        argv += ["-j", plain_job_id(job_id), "-o", ",".join(parse_text.RUN_FIELDS)]
        text, problem = self._ask("sacct", argv, deadline)
        if "accounting storage is disabled" in problem.lower():
            raise SlurmError("accounting storage is disabled in slurm.conf; expected slurmdbd for past jobs")
        return parse_text.runs(text, token)

    def set_admin_comment(self, job_id: int | str, text: str, deadline: float = DEADLINE_S) -> bool:
        """See Gateway. Two calls: a read and, if there is no comment, a write."""
        known = self.job(job_id, deadline)
        if known is None or known.admin_comment:
            return False
        comment = reasons.clean(text, _LONGEST_COMMENT)
        self._update([f"jobid={plain_job_id(job_id)}", f"admincomment={comment}"], deadline)
        return True

    def _nodes(self, selection: list[str], deadline: float) -> list[NodeState]:
        # Without -N, sinfo puts alike nodes on one line: with it, 5,000 nodes cost it 2 s, without 10 ms.
        if self.json:
            text, _ = self._ask("sinfo", [*selection, "-N", "--json"], deadline)
            return parse_json.nodes(parse_json.document(text), time.monotonic())
        token = _token()
        columns = _columns(parse_text.NODE_FIELDS, token)
        text, _ = self._ask("sinfo", [*selection, "-h", "-O", columns], deadline)
        return parse_text.nodes(text, token, time.monotonic())

    def _jobs(self, selection: list[str], deadline: float) -> list[JobInfo]:
        if self.json:
            text, _ = self._ask("squeue", ["--local", "-a", *selection, "--json"], deadline)
            return parse_json.jobs(parse_json.document(text))
        token = _token()
        argv = ["--local", "-h", "-a", *selection, "-O", _columns(parse_text.JOB_FIELDS, token)]
        return parse_text.jobs(self._ask("squeue", argv, deadline)[0], token)

    def _update(self, changes: list[str], deadline: float) -> None:
        self._ask("scontrol", ["update", *changes], deadline)

    def _ask(self, program: str, argv: list[str], deadline: float) -> tuple[str, str]:
        """Standard output and error of a call that Slurm granted."""
        self.calls += 1
        answer = command.run([self._path(program), *argv], self.slurm_conf, deadline)
        # Some programs end with 0 although they never reached the controller.
        if answer.status != 0 or (answer.problem and not answer.output.strip()):
            _judge(program, answer)
        return answer.output.decode("utf-8", "replace"), answer.problem

    def _path(self, program: str) -> str:
        if program in self.programs:
            return self.programs[program]
        for folder in FOLDERS:
            path = os.path.join(folder, program)
            if os.access(path, os.X_OK):
                return path
        raise SlurmUnreachableError(
            f"{program} is not in {', '.join(FOLDERS)}; set slurm.programs in the configuration"
        )


def _comment(text: str | None) -> list[str]:
    return [] if text is None else [f"comment={reasons.clean(text, _LONGEST_COMMENT)}"]


def _judge(program: str, answer: command.Reply) -> None:
    """Turn a refusal or failure into its error; a mere warning of a granted call passes."""
    said = values.one_line(answer.problem or answer.output.decode("utf-8", "replace"))
    lower = said.lower()
    message = f"{program}: {said or 'no word'} (exit status {answer.status})"
    if any(text in lower for text in _UNREACHABLE):
        raise SlurmUnreachableError(message)
    if answer.status == 0:
        return
    if any(text in lower for text in _REFUSED):
        raise SlurmRefusedError(message)
    raise SlurmError(message)


def _nothing_told(wanted: list[str] | None) -> None:
    """An empty answer is an error, not a state."""
    if wanted is None:
        raise SlurmError("sinfo told no node at all; expected every node of the cluster")
    names = ", ".join(wanted)
    raise SlurmRefusedError(
        f"no node {names}, or it is in no partition; expected its NodeName as in slurm.conf"
    )


def _token() -> str:
    """A field's end that nobody can have written into a reason or a job's name."""
    return f"~{os.urandom(8).hex()}~"


def _columns(fields: Iterable[str], token: str) -> str:
    return ",".join(f"{field}:{token}" for field in fields)
