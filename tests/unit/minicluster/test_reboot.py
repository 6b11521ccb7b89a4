"""A reboot of a simulated machine, as a hook that looks at the wrong moment sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minicluster import simulated

if TYPE_CHECKING:
    import pytest

    from minicluster.simulated import SimulatedMachine

BOOT_ID = "proc/sys/kernel/random/boot_id"


def test_no_moment_of_a_reboot_shows_the_old_boots_events_as_the_new_ones(
    machine: SimulatedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook may look at any instant; on a real machine it would have been ended."""
    machine.fault("gpu_xid.79", "gpu3")
    old = (machine.root / BOOT_ID).read_text()
    shown = []
    begin = simulated.kmsg.start

    def watched(*arguments: object) -> None:
        shown.append((machine.root / BOOT_ID).read_text())
        begin(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(simulated.kmsg, "start", watched)
    machine.reboot()
    assert shown == [old]
    assert "Xid" not in (machine.root / "dev/kmsg").read_text()
    assert (machine.root / BOOT_ID).read_text() != old
