"""The command line: how long `sguard --help` takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.measure import alternate, bare_interpreter
from bench.table import Row

if TYPE_CHECKING:
    from bench.setting import Setting

BUDGET_MS = 150


def rows(setting: Setting) -> list[Row]:
    """Wall time, since a person waits for it."""
    commands = {
        "bare": (bare_interpreter(setting.python), None),
        "help": ([setting.sguard, "--help"], None),
    }
    found = alternate(commands, setting.repetitions)
    wall = found["help"].wall_ms()
    return [
        Row(
            "sguard --help",
            f"<= {BUDGET_MS} ms",
            "84 plain help; gcm 600",
            f"{wall:.0f} ms wall, {found['help'].cpu_ms():.0f} CPU",
            f"{found['bare'].wall_ms():.0f} ms",
            holds=wall <= BUDGET_MS,
        )
    ]
