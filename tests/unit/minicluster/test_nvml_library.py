"""Building the NVML double, and what it exports."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from pathlib import Path

import pytest

from minicluster import nvml_library
from minicluster.errors import RequirementError


def test_every_exported_call_is_one_that_the_binding_knows(library: Path) -> None:
    import pynvml

    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    ).stdout
    exported = {line.split()[-1] for line in symbols.splitlines() if " T " in line}
    known = set(re.findall(r'"(nvml\w+)"', Path(pynvml.__file__).read_text()))
    assert "nvmlDeviceGetCount_v2" in exported
    assert exported - known <= {"nvmlInit_v2"}
    assert len(exported) > 85


def test_a_broken_compiler_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'no such header' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin:/bin")
    with pytest.raises(RequirementError, match="no such header"):
        nvml_library.build(tmp_path / "cache")
    assert [path for path in (tmp_path / "cache").rglob("*") if not path.is_dir()] == []
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(RequirementError, match="apt-get install"):
        nvml_library.build(tmp_path / "cache")


def test_two_who_compile_at_once_do_not_meet(tmp_path: Path) -> None:
    built: list[Path] = []
    builders = [threading.Thread(target=lambda: built.append(nvml_library.build(tmp_path))) for _ in range(3)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
    (library,) = set(built)
    assert len(built) == 3
    assert [path.name for path in library.parent.iterdir()] == [nvml_library.NAME]
