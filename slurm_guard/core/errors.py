"""One tree of errors; each class's docstring says what it means, `exit_code` what `sguard` ends with.

A message says what went wrong, where, what was expected and what to do. The table of exit codes in the
docs is generated from this module.
"""

from __future__ import annotations


class GuardError(Exception):
    """Something in slurm_guard failed; see the message."""

    exit_code = 10


def in_words(error: BaseException) -> str:
    """What an error says to a person: a message of ours as it is, else with what kind of surprise it was."""
    if isinstance(error, GuardError) and str(error):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return f"{type(error).__name__}: {error}"


class ConfigError(GuardError):
    """The configuration has errors; every one is listed with file, key and what was expected."""

    exit_code = 11


class SlurmError(GuardError):
    """Slurm answered with an error or with something that could not be read."""

    exit_code = 13


class SlurmUnreachableError(SlurmError):
    """Slurm's controller (or a Slurm program) did not answer within the deadline."""

    exit_code = 14


class SlurmRefusedError(SlurmError):
    """Slurm refused the request: not permitted, no such node, or an invalid state change."""

    exit_code = 15


class OwnershipError(GuardError):
    """The node's state or reason belongs to somebody else, so nothing was written."""

    exit_code = 16


class StoreError(GuardError):
    """The results database is unusable: wrong schema version, not writable, or damaged."""

    exit_code = 17


class RecordError(GuardError):
    """A run record is torn, foreign or of a future version; it was set aside, not lost."""

    exit_code = 18


class ProbeError(GuardError):
    """A source of facts could not be read."""

    exit_code = 19


class NotFoundError(GuardError):
    """No such job, node, check or finding is on record."""

    exit_code = 20


class SetupError(GuardError):
    """This host lacks something slurm_guard needs: root, a program, a folder or a package."""

    exit_code = 21


class MungeError(GuardError):
    """Munge made or accepted no credential: munged is not there, or the credential is old, used or foreign.

    `name` says which: `replayed`, `expired`, `rewound`, `unauthorized`, `socket`, `timeout` or `bad`; `code`
    is libmunge's own number.
    """

    exit_code = 22

    def __init__(self, message: str, name: str = "bad", code: int = 1) -> None:
        super().__init__(message)
        self.name = name
        self.code = code


class CollectorError(GuardError):
    """The collector did not answer, refused this node, or gave no usable answer; the records stay here.

    `status` is the HTTP status, 0 without an answer; `retry_after` is how many seconds the collector asked to
    be left alone, None where it did not say.
    """

    exit_code = 23

    def __init__(self, message: str, status: int = 0, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class RemoteError(GuardError):
    """A node was not reached by SSH, or did not answer as `sguard collect` expects; its records stay there.

    `why` is the same for all nodes that fail alike, `remedy` says what to do, `detail` is what concerns this
    one node alone, such as its key.
    """

    exit_code = 24

    def __init__(self, why: str, remedy: str = "", detail: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.remedy = remedy
        self.detail = detail
