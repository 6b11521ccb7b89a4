"""Questions to the NVML double, and changes to its state file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minicluster.machine.gpu import STATE_FILE

if TYPE_CHECKING:
    from pathlib import Path

Ask = Callable[..., Any]


def write_state(root: Path, extra: str) -> None:
    """Put `extra` at the end of the state file, where it wins."""
    path = root / STATE_FILE
    temporary = path.with_suffix(".new")
    temporary.write_text(path.read_text() + "\n" + extra + "\n")
    temporary.rename(path)


def gpu0(call: str, *arguments: object) -> Callable[[Any], Any]:
    """A question: this call about GPU 0, or the name of its error."""
    return lambda nvml: getattr(nvml, call)(nvml.nvmlDeviceGetHandleByIndex(0), *arguments)
