"""Expected file systems have free space and free inodes. Never a reason to drain unless the site says so."""

from __future__ import annotations

from slurm_guard.core.check import Check, Fault, skipped, unknown
from slurm_guard.core.outcome import FAIL, WARN
from slurm_guard.probes.mounts import SHARED_TYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from slurm_guard.core.expectation import Expectation
    from slurm_guard.core.outcome import Finding


class FsSpace(Check):
    """`warn` and `fail` are percent in use, where what only root may take counts as used.

    `filesystems` are further mount points to look at, next to the node class's mounts. One that is not
    mounted, hangs or answers with an error is `fs_mounts`' business and skipped here: it never passes.
    """

    name = "fs_space"
    probe = "mounts"
    scope = "node"
    params = {"warn": 85, "fail": 95, "filesystems": None}
    rising = (("warn", "fail"),)
    metrics = {"fs_used": "%", "fs_inodes_used": "%"}
    remedy = "Clean up, or tell the users who fill it; on a node's own disk look for what ended jobs left."
    faults = {
        "full": Fault("WARN", "little or no space is left"),
        "inodes": Fault("WARN", "few or no inodes are left, so no files can be made"),
    }

    def judge(self, facts: Any, params: Any, expect: Expectation) -> Iterator[Finding]:
        """Space and inodes of each file system; storage that nodes share is told and blamed as such."""
        said = {mount["path"]: mount.get("shared") for mount in expect.expected.get("mounts") or []}
        for entry in facts:
            if entry.hung or not entry.mounted or entry.space is None:
                yield skipped(f"{entry.key} could not be asked, see fs_mounts", device=entry.key)
                continue
            where: dict[str, Any] = {"device": entry.key}
            shared = said.get(entry.key)
            if shared or (shared is None and entry.type in SHARED_TYPES):
                where.update(scope="shared", blame="storage")
            space = entry.space
            yield _used("full", space.size, space.free, where, params, expect)
            yield _used("inodes", space.inodes, space.inodes_free, where, params, expect)


def _used(
    code: str, total: int, free: int, where: dict[str, Any], params: Any, expect: Expectation
) -> Finding:
    device = where["device"]
    metric = "fs_used" if code == "full" else "fs_inodes_used"
    if not total:
        return skipped(f"{device}: {metric} does not apply, its total is 0", **where)
    if not 0 <= free <= total:
        return unknown(f"{device} says that {free} of {total} are free ({metric})", code=code, **where)
    percent = round(100.0 * (total - free) / total, 2)
    limits = {"warn": params["warn"], "fail": params["fail"]}
    found = expect(metric, percent, "%", fault=code, **limits, **where)
    if found.status in (WARN, FAIL):
        left = _size(free) if code == "full" else f"{free} inodes"
        found.message = f"{device} has {left} left: {found.message}"
    return found


def _size(number: float) -> str:
    """A number of bytes for people: `3.2 GiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if number < 1024:
            return f"{number:.3g} {unit}"
        number /= 1024
    return f"{number:.3g} PiB"
