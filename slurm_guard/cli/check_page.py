"""One check, or one fault of it, explained as text: `sguard check show`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from slurm_guard.cli import output
from slurm_guard.cli.wrapped import wrap
from slurm_guard.core.policy import DRAIN_TIERS

if TYPE_CHECKING:
    from slurm_guard.cli.host import Host


def print_page(described: dict[str, Any], host: Host) -> None:
    """Print what `check.describe` says."""
    state = "on" if described["enabled"] else "off"
    modes = ", ".join(f"{action} {mode}" for action, mode in described["modes"].items())
    print(_filled(f"{described['check']}: {described['text']}") + "\n")
    for title, text in (
        ("runs in", ", ".join(described["hooks"])),
        ("reads", ", ".join(described["probes"])),
        ("blame", f"{described['blame']}, scope {described['scope']}"),
        (f"on {host.node}", f"{state}; {modes}"),
    ):
        print(f"{title + ':':<12} {text}")
    if described["params"]:
        print()
        rows = [
            (one["name"], _value(one["default"], "from the node class"), _value(one["here"], "nothing"))
            for one in described["params"]
        ]
        output.table(("parameter", "default", "here"), rows)
    print()
    for fault in described["faults"]:
        _print_fault(fault)
    if described["nothing_expected"]:
        from slurm_guard.cli.check import nothing_expected

        output.warn(nothing_expected(described["check"], described["nothing_expected"], host))
    if host.plan_note():
        output.warn(host.plan_note())


def _filled(text: str) -> str:
    """Paragraphs at the width of an answer; lines that are indented or listed stay lines."""
    found = []
    for paragraph in text.split("\n\n"):
        lines = paragraph.splitlines()
        is_plain = not any(line.startswith((" ", "-", "*")) for line in lines)
        some = [" ".join(lines)] if is_plain else lines
        found.append("\n".join("\n".join(wrap(line)) for line in some))
    return "\n\n".join(found)


def _print_fault(fault: dict[str, Any]) -> None:
    marks = f" ({', '.join(fault['marks'])})" if fault["marks"] else ""
    effect = "" if fault["tier"] in DRAIN_TIERS else ", never a drain"
    print(f"{fault['fault']}: {fault['tier']}{effect}{marks}")
    for text in (fault["text"], fault["remedy"] and f"Remedy: {fault['remedy']}"):
        if text:
            print("\n".join(wrap(text, "    ", "    ")))


def _value(value: Any, none: str) -> str:
    """A parameter's value; a default of None is what the node class expects, which may be nothing here."""
    return none if value is None else json.dumps(value)
