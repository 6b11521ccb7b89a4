"""What the InfiniBand checks share: which ports the site leaves out."""

from __future__ import annotations

from slurm_guard.core.plan import matches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurm_guard.core.outcome import Facts


def is_ignored(port: Facts, ignore: list[str]) -> bool:
    """True if a list of patterns holds the port (`mlx5_4/1`, `mlx5_bond*`) or its adapter (`mlx5_4`)."""
    return any(matches(pattern, port.name) or pattern == port.device for pattern in ignore)
