"""Every line of nvml_double/getters.def answers with its own keys, in its own form."""

from __future__ import annotations

import ctypes
import re
from typing import TYPE_CHECKING, Any

from minicluster import nvml_library
from minicluster.machine.gpu import STATE_FILE

from .nvml_questions import Ask, write_state

if TYPE_CHECKING:
    from minicluster.simulated import SimulatedMachine

TEXT = (nvml_library.SOURCES / "getters.def").read_text()
LINE = re.compile(r'^([A-Z]+)\((\w+), (?:\w+, )?"(\w+)"(?:, "(\w+)")?\)$', re.MULTILINE)
TABLE = LINE.findall(TEXT)  # form, symbol, first key, second key (of a PAIR)


def ask(n: Any, form: str, symbol: str) -> Any:
    """The answer of a call about GPU 0, whatever the binding would make of it."""
    first = ctypes.c_ulonglong() if form == "WIDE" else ctypes.c_uint()
    second, text = ctypes.c_uint(), ctypes.create_string_buffer(96)
    arguments = {
        "TEXT": (text, ctypes.c_uint(len(text))),
        "PAIR": (ctypes.byref(first), ctypes.byref(second)),
        "NUMBERED": (ctypes.c_uint(1), ctypes.byref(first)),
    }.get(form, (ctypes.byref(first),))
    code = n._nvmlGetFunctionPointer(symbol)(n.nvmlDeviceGetHandleByIndex(0), *arguments)
    if code != 0:
        return f"code {code}"
    return {"TEXT": text.value.decode(), "PAIR": (first.value, second.value)}.get(form, first.value)


def ask_all(n: Any) -> list[tuple[str, Any]]:
    return [(symbol, ask(n, form, symbol)) for form, symbol, _, _ in TABLE]


def test_every_line_is_read() -> None:
    assert len(TABLE) == sum(line.endswith(")") for line in TEXT.splitlines()) > 45
    assert {form for form, *_ in TABLE} == {"TEXT", "UNSIGNED", "WIDE", "PAIR", "NUMBERED"}


def test_every_line_answers_with_its_keys(machine: SimulatedMachine, nvml: Ask) -> None:
    """Each key has a number of its own, too large for 32 bits: another key, or another width, would show."""
    keys = dict.fromkeys(key for _, _, *both in TABLE for key in both if key)
    low = {key: 100 + position for position, key in enumerate(keys)}
    state = [f"{key}={2**32 + number}\n{key}.1={2**32 + number}" for key, number in low.items()]
    write_state(machine.root, "\n".join(["[gpu0]", *state]))

    def wanted(form: str, first: str, second: str) -> Any:
        whole = 2**32 + low[first]
        special = {"TEXT": str(whole), "WIDE": whole, "PAIR": (low[first], low.get(second))}
        return special.get(form, low[first])

    assert nvml(ask_all) == [(symbol, wanted(form, first, second)) for form, symbol, first, second in TABLE]


def test_not_supported_and_the_second_of_a_pair(machine: SimulatedMachine, nvml: Ask) -> None:
    def entry(form: str, key: str) -> str:
        return f"{key}=5" if form == "PAIR" else f"{key}=N/A\n{key}.1=N/A"

    path = machine.root / STATE_FILE
    system = path.read_text().partition("[gpu]")[0]  # without the defaults that [gpu] has for the second keys
    path.write_text("\n".join([system, "[gpu0]", *(entry(form, first) for form, _, first, _ in TABLE), ""]))
    assert nvml(ask_all) == [(symbol, (5, 5) if form == "PAIR" else "code 3") for form, symbol, _, _ in TABLE]
