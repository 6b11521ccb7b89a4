"""Compiles the NVML double, once per state of its sources, and puts a copy into each node's folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from minicluster.errors import RequirementError
from minicluster.machine.gpu import LIBRARY_FOLDER

SOURCES = Path(__file__).resolve().parent.parent / "nvml_double"
CACHE = Path("/var/cache/minicluster") if os.geteuid() == 0 else Path.home() / ".cache/minicluster"
NAME = "libnvidia-ml.so.1"
FLAGS = (
    "-std=gnu11",
    "-O2",
    "-Wall",
    "-Wextra",
    "-fvisibility=hidden",
    "-shared",
    "-fPIC",
    "-pthread",
    f"-Wl,-soname,{NAME}",
)


def build(cache: Path = CACHE) -> Path:
    """The compiled library. Raises RequirementError without a C compiler, or if it doesn't compile."""
    folder = cache / _fingerprint()
    library = folder / NAME
    if library.exists():
        return library
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise RequirementError(
            "no C compiler for the NVML double; run: apt-get install -y --no-install-recommends gcc libc6-dev"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as unfinished:  # of our own: others may be compiling too
        _compile(compiler, Path(unfinished) / NAME).rename(library)
    return library


def _compile(compiler: str, target: Path) -> Path:
    sources = sorted(str(path) for path in SOURCES.glob("*.c"))
    argv = [compiler, *FLAGS, "-o", str(target), *sources, "-ldl"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    except subprocess.TimeoutExpired:
        raise RequirementError(f"{compiler} took longer than 300 s to compile the NVML double") from None
    if done.returncode != 0:
        raise RequirementError(f"the NVML double doesn't compile ({compiler}): {done.stderr.strip()[-400:]}")
    return target


def install(library: Path, root: Path) -> Path:
    """A copy of its own for a node: the library finds its state file beside itself."""
    target = root / LIBRARY_FOLDER / NAME
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(library, target)
    target.chmod(0o755)
    unversioned = target.with_name("libnvidia-ml.so")
    unversioned.unlink(missing_ok=True)
    unversioned.symlink_to(NAME)
    return target


def _fingerprint() -> str:
    """Changes with any source file and with the flags."""
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    for path in sorted(SOURCES.iterdir()):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
