"""Tell the story of slurm_guard on a real Slurm, in under three minutes: `demo.py [--seed N]`.

Lines that begin with `# ` are narration; everything else is a command and what it printed. Needs root and
Slurm's daemons (scripts/setup-debian.sh). Exit codes: 0 the story went as told, 1 it did not, 130 Ctrl-C, 141
the reader of its output left.
"""

from __future__ import annotations

import argparse
import os
import pwd
import secrets
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import story
from stage import CHECKOUT, USER, Stage, StoryError

if TYPE_CHECKING:
    from types import FrameType

NODES = 4
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    """Draw a story, tell it, and leave nothing behind."""
    seed = arguments().seed
    lacking = missing()
    if lacking:
        print(f"demo: {lacking}", file=sys.stderr)
        return 1
    for name in ENDINGS:
        signal.signal(name, interrupted)
    directory = Path(tempfile.mkdtemp(prefix="sguard-demo-"))
    directory.chmod(0o755)
    stage = Stage(directory, NODES)
    code, ended = 1, False
    try:
        code = perform(stage, seed)
    finally:
        ended = clean_up(stage)
    if code == 0 and ended:
        stage.act("The end: everything is stopped and removed")
    return code if ended else code or 1


def perform(stage: Stage, seed: int) -> int:
    """Tell the story; the exit code."""
    try:
        stage.say(
            f"Seed {seed}: `make demo SEED={seed}` tells this very story again. Folder: {stage.directory}"
        )
        story.tell(stage, story.draw(seed, stage.names))
    except StoryError as error:
        print(f"\ndemo: the story did not go as told (seed {seed}): {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody listens any more
        return 141
    except KeyboardInterrupt:
        print("\ndemo: interrupted; cleaning up", file=sys.stderr)
        return 130
    return 0


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="From a hardware fault to a job report, on a real Slurm.")
    parser.add_argument(
        "--seed", type=int, default=secrets.randbelow(1000), help="which story (default: any)"
    )
    return parser.parse_args()


def missing() -> str:
    """What keeps the demo from running here, in one line; empty if nothing does."""
    if os.getuid() != 0:
        return "not root, so no Slurm daemons can be started here; the CLI and `make unit` still work"
    programs = [
        name for name in ("slurmctld", "slurmd", "munged") if shutil.which(name, path=_ADMIN_PATH) is None
    ]
    if programs:
        return f"{', '.join(programs)} not installed: run scripts/setup-debian.sh"
    if not (CHECKOUT / ".venv/bin/sguard").exists():
        return "no .venv/bin/sguard: run `make venv`"
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return f"no user {USER!r} to submit jobs as"
    return ""


_ADMIN_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin"


def interrupted(number: int, frame: FrameType | None) -> None:
    """End through the clean-up, which no second signal cuts short."""
    ignore_endings()
    raise KeyboardInterrupt


def ignore_endings() -> None:
    """From now on, finish."""
    for name in ENDINGS:
        signal.signal(name, signal.SIG_IGN)


def clean_up(stage: Stage) -> bool:
    """Stop the cluster and remove the folder; False, with the folder kept, if something runs on."""
    ignore_endings()
    if not stage.down():
        return False
    shutil.rmtree(stage.directory, ignore_errors=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
