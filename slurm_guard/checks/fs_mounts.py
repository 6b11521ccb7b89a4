"""Every expected file system is mounted, of the right type, with the right options, and answers in time."""

from __future__ import annotations

from slurm_guard.core.check import Check, Fault, failed, passed, timed_out, unknown
from slurm_guard.probes.mounts import SHARED_TYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from slurm_guard.core.expectation import Expectation
    from slurm_guard.core.outcome import Facts, Finding

_ALWAYS_READ_ONLY = ("squashfs", "erofs", "iso9660", "cvmfs2", "fuse.cvmfs2", "cramfs")
#: The server answered, and root may not look: nothing is said about the file system's health.
_NOT_PERMITTED = ("EACCES", "EPERM")


class FsMounts(Check):
    """Options are whole words that must be among the mount's own or the file system's; `rw` unless `ro`."""

    name = "fs_mounts"
    probe = "mounts"
    scope = "node"
    params: dict[str, Any] = {}
    expects = "mounts"
    remedy = "Look at the mount, its server and the kernel log; mount it again."
    faults = {
        "missing": Fault(
            "DRAIN",
            "an expected file system is not mounted",
            refuse=True,
            grace=True,
            remedy="`systemctl status` of its mount unit tells why; mount it, then look at fstab's order.",
        ),
        "hung": Fault(
            "DRAIN",
            "a file system does not answer",
            refuse=True,
            grace=True,
            remedy="See whether its server answers other nodes; if only this one hangs, reboot it.",
        ),
        "stale": Fault(
            "DRAIN",
            "mounted, but the server knows it no longer",
            refuse=True,
            remedy="`umount -l` and mount again; the server's export was made anew.",
        ),
        "error": Fault("DRAIN", "the file system answers with an error"),
        "wrong_type": Fault("DRAIN", "another type of file system is mounted there"),
        "readonly": Fault(
            "DRAIN",
            "mounted read-only",
            remedy="The kernel log tells why it was remounted; check the disk before mounting it writable.",
        ),
        "options": Fault("WARN", "an expected mount option is not set"),
    }

    def judge(self, facts: Any, params: Any, expect: Expectation) -> Iterator[Finding]:
        """Each mount of the node class by itself; none expected gives no finding, which is `skip`."""
        seen = {entry.key: entry for entry in facts}
        for mount in expect.expected.get("mounts") or []:
            entry = seen.get(mount["path"])
            if entry is None:
                yield unknown(f"{mount['path']} was not looked at in this run", device=mount["path"])
                continue
            found = list(_mount(entry, mount, expect))
            yield from found or [passed(device=mount["path"])]


def _mount(entry: Facts, mount: Any, expect: Expectation) -> Iterator[Finding]:
    path, shared = mount["path"], _is_shared(mount, entry)
    cause: dict[str, Any] = {"device": path, "scope": "shared" if shared else "node"}
    cause["blame"] = "storage" if shared else "node"
    if entry.hung:
        yield _hung(entry, path, expect, cause)
        return
    if not entry.mounted:
        yield failed(f"{path} is not mounted; expected {_wanted(mount)}", code="missing", **cause)
        return
    if entry.automount and mount.get("type") != "autofs":
        seen = f"{path} waits for the automounter, which answered {entry.error or 'nothing'}"
        yield failed(f"{seen}; expected {_wanted(mount)}", code="missing", **cause)
        return
    if entry.error:
        yield _error(entry, path, cause)
    yield from _as_configured(entry, mount)


def _hung(entry: Facts, path: str, expect: Expectation, cause: dict[str, Any]) -> Finding:
    again = path in (expect.run.get("hung_before") or ())
    where = f" (process {entry.pid} waits in {entry.wchan})" if entry.get("wchan") else ""
    message = f"{path} does not answer{where}; expected an answer in time"
    if entry.confirmed or entry.still or again:
        return timed_out(message, code="hung", **cause)
    return unknown(f"{message}; one slow answer is no proof", code="hung", **cause)


def _error(entry: Facts, path: str, cause: dict[str, Any]) -> Finding:
    message = f"{path} is mounted and answers {entry.error}, expected its size"
    if entry.error in _NOT_PERMITTED:
        return unknown(message, code="error", **cause)
    return failed(message, code="stale" if entry.error == "ESTALE" else "error", **cause)


def _as_configured(entry: Facts, mount: Any) -> Iterator[Finding]:
    """What the mount table says against what is configured: this node's own doing, shared storage or not."""
    path = mount["path"]
    wanted = mount.get("type")
    if wanted and not _is_type(entry.type, wanted):
        message = f"{path} is {entry.type} ({entry.source}), expected {wanted}"
        yield failed(message, device=path, code="wrong_type")
    options = _words(mount.get("options"))
    present = {*entry.options, *entry.super_options}
    if "ro" in present and "ro" not in options and entry.type not in _ALWAYS_READ_ONLY:
        yield failed(f"{path} is read-only (ro), expected rw", device=path, code="readonly")
    lacking = [word for word in options if word not in present and word != "rw"]
    if lacking:
        has = ",".join(sorted(present))[:200]
        message = f"{path} is mounted without {','.join(lacking)}; it has {has}"
        yield failed(message, device=path, code="options")


def _is_shared(mount: Any, entry: Facts) -> bool:
    said = mount.get("shared")
    return bool(said) if said is not None else (mount.get("type") or entry.get("type")) in SHARED_TYPES


def _is_type(seen: str, wanted: str) -> bool:
    """`nfs` also stands for NFS 4, which the kernel calls nfs4, and `fuse` for any FUSE file system."""
    wider = seen == "nfs4" if wanted == "nfs" else wanted == "fuse" and seen.startswith("fuse.")
    return wider or seen == wanted


def _wanted(mount: Any) -> str:
    words = (mount.get("type"), ",".join(_words(mount.get("options"))))
    return " ".join(word for word in words if word) or "a mount"


def _words(options: Any) -> list[str]:
    return options.split(",") if isinstance(options, str) else list(options or ())
