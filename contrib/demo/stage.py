"""The demo's stage: a cluster in a folder, commands that are shown with what they print, and waiting."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CHECKOUT = Path(__file__).resolve().parents[2]
USER = "games"
_MINICLUSTER = CHECKOUT / "contrib/minicluster/bin/minicluster"
WIDTH = 96
_SCHEDULER = "sched_interval=1,bf_interval=1,sched_min_interval=0,batch_sched_delay=0,nohold_on_prolog_fail"


class StoryError(Exception):
    """The story did not go as it is told."""


class Stage:
    """Runs commands in the demo's folder and shows them; narration is marked with `#`."""

    def __init__(self, directory: Path, nodes: int) -> None:
        self.directory = directory
        self.names = [f"n{number}" for number in range(1, nodes + 1)]
        self.began = time.monotonic()
        programs = f"{CHECKOUT}/.venv/bin:{_MINICLUSTER.parent}"
        self.env = {
            **os.environ,
            "PATH": f"{programs}:{os.environ.get('PATH', '/usr/bin:/bin')}",
            "SLURM_CONF": str(directory / "etc/slurm.conf"),
            "MINICLUSTER_DIR": str(directory),
            "LC_ALL": "C.UTF-8",
        }

    # What the audience sees.

    def act(self, title: str) -> None:
        """Begin a part of the story."""
        print(f"\n{f'#### {title} ':#<{WIDTH}} {time.monotonic() - self.began:3.0f} s", flush=True)

    def say(self, text: str) -> None:
        """A line of narration."""
        print(textwrap.fill(text, WIDTH, initial_indent="# ", subsequent_indent="# "), flush=True)

    def show(
        self, command: str, *, cwd: str = ".", user: str | None = None, codes: Sequence[int] = (0,)
    ) -> str:
        """Run a command, show it and what it printed. StoryError if it ends with any other code."""
        print(f"{user or 'root'}{'$' if user else '#'} {command}", flush=True)
        code, output = self._run(shlex.split(command), cwd, user)
        if output:
            print(output.rstrip("\n"), flush=True)
        if code not in codes:
            raise StoryError(f"`{command}` ended with {code}, expected {' or '.join(map(str, codes))}")
        return output

    def expect(self, condition: object, what: str) -> None:
        """Check one beat of the story."""
        if not condition:
            raise StoryError(f"expected that {what}\n{self._look()}")

    def until(self, what: str, condition: Callable[[], Any], seconds: float = 120.0) -> Any:
        """Wait for a beat of the story. StoryError, with what the cluster looks like, if it does not come."""
        end = time.monotonic() + seconds
        while not (answer := condition()):
            if time.monotonic() > end:
                raise StoryError(f"waited {seconds:.0f} s in vain until {what}\n{self._look()}")
            time.sleep(0.1)
        return answer

    # What the story asks without showing it.

    def ask(self, *argv: str) -> str:
        """The output of a command that is not shown."""
        return self._run(argv, ".", None)[1].strip()

    def job(self, job_id: int) -> dict[str, str]:
        """The fields of `scontrol show job`."""
        words = self.ask("scontrol", "show", "job", "-o", str(job_id)).split(" ")
        return dict(word.partition("=")[::2] for word in words if "=" in word)

    def is_in(self, job_id: int, state: str) -> bool:
        """True if a job is in a state."""
        return self.job(job_id).get("JobState") == state

    def state(self, node: str) -> str:
        """A node's state, as sinfo calls it."""
        return self.ask("sinfo", "-h", "-N", "-n", node, "-o", "%T").partition("\n")[0]

    def reason(self, node: str) -> str:
        """A node's reason in Slurm."""
        return self.ask("sinfo", "-h", "-N", "-n", node, "-o", "%E").partition("\n")[0]

    def records(self, node: str) -> list[dict[str, Any]]:
        """The run records that wait on a node."""
        found = []
        for path in sorted((self.directory / "nodes" / node / "var/lib/slurm-guard/spool").glob("*.json")):
            try:
                found.append(json.loads(path.read_text()))
            except (OSError, ValueError):
                continue
        return found

    def submit(self, options: str) -> int:
        """Submit a job as an ordinary user, shown; its id."""
        return int(self.show(f"sbatch --parsable {options}", cwd="jobs", user=USER).strip())

    # The cluster.

    def up(self, health_interval: int) -> None:
        """Start the cluster, with the guard's hooks on every node."""
        snippet = self.directory / "sguard-taskprolog"
        words = f"minicluster up . --nodes {len(self.names)} --hooks {CHECKOUT}"
        words += f" --health-interval {health_interval}"
        self.show(f"{words} --conf SchedulerParameters={_SCHEDULER} --conf TaskProlog={snippet}")
        # The job's user runs it, and may not enter a checkout in root's home.
        snippet.write_bytes((CHECKOUT / "contrib/taskprolog/sguard-taskprolog").read_bytes())
        snippet.chmod(0o755)

    def down(self) -> bool:
        """End everything that was started, whatever state it is in. False if something runs on."""
        code, output = self._run(["minicluster", "down", ".", "--remove"], ".", None, quiet=True)
        if code != 0:
            print(
                f"demo: the cluster did not end: {output.strip()}\nTry again: {_MINICLUSTER} down --remove "
                f"{self.directory}", file=sys.stderr
            )  # fmt: skip
        return code == 0

    def _run(
        self, argv: Sequence[str], cwd: str, user: str | None, *, quiet: bool = False
    ) -> tuple[int, str]:
        try:
            done = subprocess.run(
                argv, cwd=self.directory / cwd, env=self.env, user=user, text=True, timeout=300, check=False,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                extra_groups=[] if user else None,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            if quiet:
                return 1, str(error)
            raise StoryError(f"`{shlex.join(argv)}`: {error}") from None
        return done.returncode, done.stdout

    def _look(self) -> str:
        nodes = self.ask("sinfo", "-N", "-o", "%N %T %E")
        return f"{nodes}\n{self.ask('squeue', '-t', 'all', '-o', '%i %j %T %r %N')}"
