"""Where things lie. Everything hangs on one argument, `--root` (default `/`), never on the environment."""

from __future__ import annotations

import json
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


#: A node.json has a few keys.
_LARGEST_NODE_FILE = 1 << 20


class Places:
    """The guard's files and the kernel's, below one root folder.

    `etc/slurm-guard/node.json` may move the guard's own folders (`{"places": {"var": …, "run": …}}`), since
    /var may be a tmpfs and / read-only. Such paths are taken below the root as well.
    """

    def __init__(self, root: str = "/") -> None:
        self.root = os.path.abspath(root)
        self.etc = self.below("etc/slurm-guard")
        self.node_file = os.path.join(self.etc, "node.json")
        self.node_problem = ""
        self.node = self._read_node_file()
        self.var = self._place("var", "var/lib/slurm-guard")
        self.run = self._place("run", "run/slurm-guard")

    def below(self, path: str) -> str:
        """A path of the node as it is reached from here: `/scratch` is `<root>/scratch`."""
        return os.path.normpath(os.path.join(self.root, path.lstrip("/")))

    def _read_node_file(self) -> dict[str, Any]:
        try:
            with open(self.node_file, "rb", opener=without_waiting) as file:
                status = os.fstat(file.fileno())
                why = "no regular file" if not stat.S_ISREG(status.st_mode) else written_by_others(status)
                if why:
                    raise ValueError(why)
                content = json.loads(file.read(_LARGEST_NODE_FILE))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            self.node_problem = f"{self.node_file}: {error}; expected a JSON object; the defaults are used"
            return {}
        if isinstance(content, dict):
            return content
        self.node_problem = f"{self.node_file}: expected a JSON object; the defaults are used"
        return {}

    def _place(self, name: str, usual: str) -> str:
        """One of the guard's own folders: the node file's, else the usual one."""
        places = self.node.get("places", {})
        named = places.get(name, usual) if isinstance(places, dict) else None
        if isinstance(named, str) and named:
            return self.below(named)
        self.node_problem = f"{self.node_file}: expected a path for places.{name}; /{usual} is used"
        return self.below(usual)

    @property
    def config(self) -> str:
        """The admin's `slurm-guard.toml`; `conf.d` lies beside it."""
        return os.path.join(self.etc, "slurm-guard.toml")

    @property
    def plan(self) -> str:
        """The compiled node plan, as `sguard config apply` leaves it."""
        return os.path.join(self.var, "plan.json")

    @property
    def spool(self) -> str:
        """Run records that wait to be ingested, one file each."""
        return os.path.join(self.var, "spool")

    @property
    def requests(self) -> str:
        """Actions that wait on disk, one file each."""
        return os.path.join(self.var, "requests")

    @property
    def faults(self) -> str:
        """Open faults and clean runs of this node; survives a reboot."""
        return os.path.join(self.var, "faults.json")

    @property
    def sightings(self) -> str:
        """Since when, and how often, faults were seen on this node; only where a rule asks."""
        return os.path.join(self.var, "sightings.json")

    @property
    def inventory(self) -> str:
        """Which machine and which GPUs this node had last."""
        return os.path.join(self.var, "inventory.json")

    @property
    def database(self) -> str:
        """The store of this host."""
        return os.path.join(self.var, "store.sqlite")

    @property
    def state(self) -> str:
        """Counters, kernel-log cursor and children left behind, of this boot."""
        return os.path.join(self.run, "state.json")

    @property
    def writer(self) -> str:
        """The process of this boot that was left behind in a write to a sick disk."""
        return os.path.join(self.run, "writer.json")

    @property
    def answer(self) -> str:
        """What Slurm last said of a drain on this node."""
        return os.path.join(self.run, "answer.json")

    @property
    def allocations(self) -> str:
        """Open allocations, one file each: the prolog writes, the epilog closes."""
        return os.path.join(self.run, "allocations")

    @property
    def kill_switches(self) -> tuple[str, str]:
        """If one of these files exists, hooks do nothing at all."""
        return os.path.join(self.etc, "disabled"), os.path.join(self.run, "disabled")

    @property
    def syslog(self) -> str:
        """The system log's socket."""
        return self.below("dev/log")

    def library(self, path: str | None) -> str | None:
        """The NVML library of the plan, below the root; None lets the loader search."""
        return self.below(path) if path else None

    def lock(self, name: str) -> str:
        """A lock file of this boot."""
        return os.path.join(self.run, f"{name}.lock")


def written_by_others(status: os.stat_result) -> str:
    """Why somebody other than root (or this process's user) decides what is in a file; empty if nobody does.

    For files that name programs and places to root: who can write them is root.
    """
    if status.st_uid not in (0, os.geteuid()):
        return f"belongs to uid {status.st_uid}, expected root"
    if status.st_mode & stat.S_IWOTH:
        return "may be written by everybody, expected root alone"
    if status.st_mode & stat.S_IWGRP and status.st_gid not in (0, os.getegid()):
        return f"may be written by group {status.st_gid}, expected root alone"
    return ""


def without_waiting(path: str, flags: int) -> int:
    """An opener for `open`. Where a pipe lies in the file's place, nobody waits for its other end."""
    return os.open(path, flags | os.O_NONBLOCK)
