"""Reads a probe's facts in a forked child, as the engine does: for the tests of checks."""

from __future__ import annotations

import importlib
import json
import os
import traceback
from typing import TYPE_CHECKING, Any

import pynvml  # noqa: F401  # forked children inherit it, which halves what they cost

from slurm_guard.core.outcome import Facts
from slurm_guard.core.paths import Places

if TYPE_CHECKING:
    from pathlib import Path


def in_child(source: str, root: Path, request: Facts) -> Facts:
    """`facts`, or the `problem` that kept the probe from giving any. A bug in the probe fails the test."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with os.fdopen(write_end, "w") as pipe:
                pipe.write(json.dumps(_answer(source, root, request)))
            code = 0
        finally:
            os._exit(code)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        text = pipe.read()
    status = os.waitpid(pid, 0)[1]
    assert status == 0, f"the probe {source} ended with status {status}"
    found = json.loads(text, object_hook=Facts)
    assert "traceback" not in found, found.traceback
    assert isinstance(found, Facts)
    return found


def _answer(source: str, root: Path, request: Facts) -> dict[str, Any]:
    try:
        probe = importlib.import_module(f"slurm_guard.probes.{source}")
        places = Places(str(root))
        if hasattr(probe, "stream"):
            return {"facts": [thunk() for _, thunk in probe.stream(places, request)]}
        return {"facts": probe.read(places, request)}
    except OSError as error:
        return {"problem": str(error)}
    except Exception as error:
        if type(error).__name__ == "ProbeError":
            return {"problem": str(error)}
        return {"traceback": traceback.format_exc()}
