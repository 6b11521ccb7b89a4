"""What errors say to people."""

from __future__ import annotations

import pytest

from slurm_guard.core.errors import GuardError, ProbeError, in_words


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ProbeError("the bus does not answer; reboot"), "the bus does not answer; reboot"),
        (GuardError(), "GuardError: "),
        (PermissionError(13, "Permission denied", "/sys/x"), "/sys/x: Permission denied"),
        (BlockingIOError(11, "Resource temporarily unavailable"), "Resource temporarily unavailable"),
        (OSError("odd"), "OSError: odd"),
        (KeyError("pid"), "KeyError: 'pid'"),
    ],
)
def test_an_error_in_words(error: BaseException, said: str) -> None:
    assert in_words(error) == said
