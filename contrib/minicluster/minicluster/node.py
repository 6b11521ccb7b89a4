"""One node: its simulated machine and its slurmd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minicluster.simulated import SimulatedMachine

if TYPE_CHECKING:
    from pathlib import Path

    from minicluster.daemons import Daemons


class Node:
    """A node of a running cluster; get it with `cluster.node("n2")`."""

    def __init__(self, name: str, directory: Path, daemons: Daemons) -> None:
        self.name = name
        self.machine = SimulatedMachine(directory, name)
        self._daemons = daemons

    @property
    def root(self) -> Path:
        """The simulated machine's root folder: `proc`, `sys`, `dev/kmsg`, `scratch`, ..."""
        return self.machine.root

    def fault(self, name: str, /, device: str | None = None, **values: object) -> None:
        """Break something: `node.fault("gpu_pcie.width", "gpu3", width=4)`. Raises FaultError."""
        self.machine.fault(name, device, **values)

    def clear(self, name: str | None = None, device: str | None = None) -> list[dict[str, Any]]:
        """Mend it: everything, one fault (or check), or one fault on one device; what was mended."""
        return self.machine.clear(name, device)

    def faults(self) -> list[dict[str, Any]]:
        """What is broken now: name, device, values."""
        return self.machine.faults()

    def reboot(self, restart_slurmd: bool = False) -> None:
        """A new boot of the simulated machine; with `restart_slurmd` Slurm sees it too."""
        if restart_slurmd:
            self.stop_slurmd()
        self.machine.reboot()
        if restart_slurmd:
            self._daemons.start_slurmd(self.name, rebooted=True)

    def start_slurmd(self) -> None:
        """Start this node's slurmd, if it isn't running."""
        self._daemons.start_slurmd(self.name)

    def stop_slurmd(self) -> None:
        """End this node's slurmd; running job steps go on, as when a real slurmd is stopped."""
        self._daemons.stop(f"slurmd.{self.name}")
