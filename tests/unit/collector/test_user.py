"""Who may run the collector."""

from __future__ import annotations

import pytest

from slurm_guard.collector.user import note_on_owners, note_on_signing, require_lasting_user
from slurm_guard.core.errors import SetupError


@pytest.mark.parametrize("uid", [0, 998, 1000, 61183, 64030 + 1490, 65534, 200_000])
def test_lasting_users_may(uid: int) -> None:
    require_lasting_user(uid)


@pytest.mark.parametrize("uid", [61184, 63000, 65519])
def test_dynamic_users_may_not(uid: int) -> None:
    with pytest.raises(SetupError, match="User=slurm"):
        require_lasting_user(uid)


def test_a_signer_that_nodes_do_not_know_is_told() -> None:
    assert note_on_signing(frozenset(), 0) == ""
    assert note_on_signing(frozenset({998}), 998) == ""
    assert "uid 998" in note_on_signing(frozenset({997}), 998)


def test_a_drainer_whom_nodes_do_not_know_is_told() -> None:
    assert note_on_owners(["root", "slurm"], 0) == ""
    assert note_on_owners(["root", "998"], 998) == ""
    assert "add 400998 to `owners`" in note_on_owners(["root", "slurm"], 400_998)
