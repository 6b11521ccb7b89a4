"""When a hook ships: after its run, from a detached child, and seldom.

A storm of short jobs costs one shipment every few seconds: one child waits (lock `ship-wait`), and it lists
the spool after that lock is let go, so whoever finds it held knows that his record goes too. One child sends
at a time (lock `ship`).
"""

from __future__ import annotations

import fcntl
import os
import struct
import time

from slurm_guard.engine import child, files, ship_state, syslog
from slurm_guard.engine.destination import destination

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurm_guard.core.paths import Places
    from slurm_guard.engine.destination import Destination
    from slurm_guard.engine.run import Run

#: How long the one that sends may keep the one that waits: a whole shipment and a little.
PATIENCE_S = 75.0
#: How often it looks.
PAUSE_S = 0.1
#: Beyond all other deadlines (a resolver, a munged that hangs): then the child is killed.
_LAST_S = 90
#: For a healthcheck's child that must know whether the collector acts.
HAND_OVER_S = 10.0


def later(this: Run) -> None:
    """After a hook run: start the shipper, unless there is nothing to send, or one waits already."""
    if destination(this.places, this.plan) is not None and _wanted(this.places):
        child.detach(lambda: quietly(this))


def _wanted(places: Places) -> bool:
    if is_held(places.lock("ship-wait")) or ship_state.load(places).pause_s():
        return False
    return _waiting(places)


def _waiting(places: Places) -> bool:
    try:
        with os.scandir(places.spool) as entries:
            return any(entry.name.endswith(".json") for entry in entries)
    except OSError:
        return False


def is_held(path: str) -> bool:
    """True while another process holds this record lock. Takes nothing, so that two who ask do not meet."""
    question = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, question)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return bool(struct.unpack("hhqqi4x", answer)[0] != fcntl.F_UNLCK)


def quietly(this: Run) -> None:
    """Wait and ship in this (detached) process; what goes wrong is told to the log alone."""
    to = destination(this.places, this.plan)
    if to is None or not _wanted(this.places):
        return
    import signal

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    try:
        os.nice(10)
        _wait_and_ship(this, to)
    except Exception as error:
        this.log(f"records were not sent: {type(error).__name__}: {error}", syslog.ERROR)


def _wait_and_ship(this: Run, to: Destination) -> None:
    import random
    import signal

    try:
        waiting = files.try_lock(this.places.lock("ship-wait"))
        if waiting is None:
            return
    except OSError:
        waiting = None  # where there can be no lock file, nobody else holds it
    gap = ship_state.load(this.places).gap_s(to.jitter_s)
    time.sleep(max(gap, random.uniform(0, to.jitter_s)))  # noqa: S311  # spreads load; nothing secret
    signal.alarm(int(PATIENCE_S) + _LAST_S)
    with files.locked(this.places.lock("ship"), PATIENCE_S, PAUSE_S) as alone:
        if waiting is not None:
            os.close(waiting)
        if alone:
            _ship(this, to)


def _ship(this: Run, to: Destination) -> None:
    from slurm_guard.engine import ship

    if any(os.path.exists(switch) for switch in this.places.kill_switches):
        return  # thrown since the hook began
    before = ship_state.load(this.places)
    if before.pause_s():
        return  # another shipper has just failed
    done = ship.ship(this.places, this.plan, to)
    if done.why and not before.tries:
        this.log(f"records stay here for now: {done.why}")
    elif before.tries and not done.why:
        this.log(f"records are sent again: {done.acknowledged} acknowledged", syslog.NOTICE)
    if done.refused:
        this.log(f"{len(done.refused)} records were refused and set aside, e.g. {done.refused[0][1]}")
    if done.plan:
        this.log(f"the plan is now {done.plan}, from the collector", syslog.NOTICE)
    if done.plan_why:
        this.log(f"the collector's plan was not taken: {done.plan_why}", syslog.ERROR)


def hand_over(this: Run) -> None:
    """Where the collector acts: tell it now, so that it can take over what waits here.

    Without its word within a few seconds, or while it is known to be silent, the node acts by itself: so this
    is done in a child of its own, which nothing waits for longer.
    """
    to = destination(this.places, this.plan)
    if to is None or not to.acting or ship_state.load(this.places).pause_s():
        return

    def work() -> None:
        from slurm_guard.engine import ship

        with files.locked(this.places.lock("ship"), HAND_OVER_S, PAUSE_S) as alone:
            if alone:
                ship.ship(this.places, this.plan, to, HAND_OVER_S)

    told = child.bounded(work, 2 * HAND_OVER_S)
    if told != "done":
        this.log(f"the collector was not asked to act ({told}): this node acts by itself")
