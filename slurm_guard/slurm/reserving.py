"""The door to Slurm for an admin who proves a node: reservations, and a command run as a job within one.

Only `sguard resume --verify` comes here; hooks neither reserve nor run anything.
"""

from __future__ import annotations

import os
import re

from slurm_guard.core.errors import SlurmError
from slurm_guard.slurm import command, host_names, parse_text, values
from slurm_guard.slurm.command_gateway import CommandGateway, _columns, _token
from slurm_guard.slurm.gateway import DEADLINE_S, plain_node_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Nobody but root may use it, running jobs are no reason against it, and no job of others starts there.
_FLAGS = "flags=maint,ignore_jobs"
_NAME = re.compile(r"[A-Za-z0-9_.:/%+-]{1,400}")
_LINE = re.compile(r"ReservationName=(.*?) StartTime=(.*)")
_GPUS = re.compile(r"gpu(?::[A-Za-z0-9_.-]+)?:[1-9][0-9]{0,4}(?=[,(]|$)")
#: How Slurm says that there is no such reservation.
_GONE = ("requested reservation is invalid", "not found")
#: What srun itself needs before and after the command.
_SLACK_S = 5.0
_LARGEST = 4 << 20


class Reservation:
    """A reservation as Slurm knows it. `flags` and `state` are Slurm's words in upper case."""

    __slots__ = ("flags", "name", "nodes", "state", "users")

    def __init__(
        self, name: str, nodes: Iterable[str], users: Iterable[str], flags: Iterable[str], state: str
    ) -> None:
        self.name = name
        self.nodes = frozenset(nodes)
        self.users = tuple(users)
        self.flags = frozenset(flags)
        self.state = state

    def __repr__(self) -> str:
        return f"Reservation({self.name!r}, {sorted(self.nodes)}, {self.state})"


class ReservingGateway(CommandGateway):
    """`scontrol`, `srun` and `scancel` beside what CommandGateway has. Errors as in Gateway."""

    def reservations(self, deadline: float = DEADLINE_S) -> list[Reservation]:
        """All reservations, from one call."""
        return parse(self._ask("scontrol", ["show", "reservation", "-o"], deadline)[0])

    def reserve(self, name: str, node: str, deadline: float = DEADLINE_S) -> None:
        """Reserve one node for root's maintenance, from now on and without an end.

        Without an end, since a node that is being proven must not be given out because time went by.
        """
        what = [f"reservationname={_plain(name)}", f"nodes={plain_node_name(node)}", "users=root", _FLAGS]
        when = ["starttime=now", "duration=infinite"]
        self._ask("scontrol", ["create", "reservation", *what, *when], deadline)

    def unreserve(self, name: str, deadline: float = DEADLINE_S) -> None:
        """Remove a reservation; one that is gone is no error. Slurm refuses while jobs run in it."""
        try:
            self._ask("scontrol", ["delete", f"reservationname={_plain(name)}"], deadline)
        except SlurmError as error:
            if not any(text in str(error).lower() for text in _GONE):
                raise

    def cancel_in(self, name: str, deadline: float = DEADLINE_S) -> None:
        """Cancel every job of a reservation."""
        self._ask("scancel", [f"--reservation={_plain(name)}"], deadline)

    def gpus_of(self, node: str, deadline: float = DEADLINE_S) -> list[str]:
        """The GPUs that slurm.conf gives a node, as srun takes them: `["gpu:h100:8"]`; none without GRES."""
        token = _token()
        argv = ["--local", "-a", "-h", "-N", "-n", plain_node_name(node), "-O", _columns(("Gres",), token)]
        rows = parse_text.records(self._ask("sinfo", argv, deadline)[0], token, 1)
        # A node of several partitions is told once for each.
        return _GPUS.findall(values.text(rows[0][0])) if rows else []

    def run_in(
        self, name: str, node: str, argv: list[str], patience_s: float, seconds: float
    ) -> command.Reply:
        """Run a command on a whole node, as a job within a reservation; whatever its exit status.

        It may wait `patience_s` for its start and takes `seconds` at most. Two more calls read the node.
        """
        partitions, gpus = self.node(node).partitions, self.gpus_of(node)
        options = [
            f"--reservation={_plain(name)}",
            f"--nodelist={plain_node_name(node)}",
            *([f"--partition={','.join(partitions)}"] if partitions else []),
            *([f"--gres={','.join(gpus)}"] if gpus else []),
            *("--nodes=1", "--ntasks=1", "--exclusive", "--mem=0", "--mpi=none", "--input=none", "--quiet"),
            *("--job-name=sguard_verify", "--chdir=/", f"--immediate={round(patience_s)}"),
            f"--time={-(-round(seconds) // 60)}",
        ]
        self.calls += 1
        whole = [self._path("srun"), *options, *argv]
        return command.run(whole, self.slurm_conf, patience_s + seconds + _SLACK_S, _LARGEST)

    def _path(self, program: str) -> str:
        """Programs that the plan does not name lie beside scontrol."""
        beside = os.path.join(os.path.dirname(self.programs.get("scontrol", "")), program)
        if program not in self.programs and os.path.isabs(beside) and os.access(beside, os.X_OK):
            return beside
        return super()._path(program)


def parse(text: str) -> list[Reservation]:
    """The reservations of `scontrol show reservation -o`.

    Raises:
        SlurmError: a line is neither one nor the words for none; nothing can be said of the nodes then.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if [line.strip() for line in lines] == ["No reservations in the system"]:
        return []
    return [_one(line) for line in lines]


def _one(line: str) -> Reservation:
    found = _LINE.fullmatch(line.rstrip())
    if found is None:
        raise SlurmError(f"scontrol told {line[:80]!r}; expected ReservationName=… StartTime=…")
    name, rest = found[1], f" StartTime={found[2]}"
    nodes = _field(rest, "Nodes")
    try:
        names = host_names.expand(nodes) if nodes else []
    except host_names.HostlistError as error:
        raise SlurmError(f"reservation {name[:80]!r} has nodes that cannot be read: {error}") from None
    users, flags = _field(rest, "Users").split(","), _field(rest, "Flags").upper().split(",")
    return Reservation(name, names, filter(None, users), filter(None, flags), _field(rest, "State").upper())


def _field(text: str, name: str) -> str:
    """A field's value, empty for none. The first counts: what people write (comment) comes last."""
    found = re.search(rf" {name}=(\S*)", text)
    return values.text(found[1]) if found else ""


def _plain(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise SlurmError(f"{name!r} is no name for a reservation of ours")
    return name
