"""Errors of the minicluster. Each message says what is wrong and what to do, in one line."""

from __future__ import annotations


class MiniclusterError(Exception):
    """Something the caller can act on; the command line prints it without a traceback."""


class RequirementError(MiniclusterError):
    """The host lacks something: root, a Debian package, a kernel feature."""


class FaultError(MiniclusterError):
    """No such fault, device or setting."""


class StartError(MiniclusterError):
    """A daemon did not come up; the message carries the end of its log."""
