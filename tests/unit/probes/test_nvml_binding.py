"""How the probe imports the vendor's binding: cheaply, and without a trace for whoever comes after."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

LATER = """
import json, sys
{before}
from slurm_guard.probes import nvml
binding = nvml._binding()
dear = [name for name in ("tempfile", "shutil", "subprocess") if name in sys.modules]
import ctypes.util
print(json.dumps([hasattr(binding, "nvmlInit"), dear, ctypes.util.__file__.rpartition("/")[2],
                  ctypes.util.find_library("c") is not None]))
"""


@pytest.mark.parametrize(
    ("before", "dear"),
    [
        pytest.param("", [], id="first"),
        pytest.param("import ctypes.util", ["tempfile", "shutil", "subprocess"], id="already there"),
    ],
)
def test_the_binding_comes_without_ctypes_util_and_leaves_it_as_it_was(before: str, dear: list[str]) -> None:
    path = [entry for entry in sys.path if entry]
    code = f"import sys\nsys.path[:] = {path!r}\n{LATER.format(before=before)}"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""
    assert json.loads(done.stdout) == [True, dear, "util.py", True]
