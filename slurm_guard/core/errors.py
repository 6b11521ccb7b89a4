"""One tree of errors; each class's docstring says what it means, `exit_code` what `sguard` ends with.

A message says what went wrong, where, what was expected and what to do. The table of exit codes in the
docs is generated from this module.
"""

from __future__ import annotations


class GuardError(Exception):
    """Something in slurm_guard failed; see the message."""

    exit_code = 10


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
