"""What hot modules import when they are loaded, read from their text; `subprocess` comes later."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "slurm_guard"
FOLDERS = ("core", "probes", "checks", "engine")
#: Of slurm/, all but what only the admin's commands use.
COLD_SLURM = {"hostlist.py", "pyslurm_gateway.py", "rest_gateway.py"}

#: Imported only when there is something to act on; test_loaded_modules would notice them in a healthy run.
LATE = {"settle.py", "act.py"}

#: Cheap enough, or needed by every hook, to be imported at load time. Others belong inside a function.
CHEAP = {
    "__future__", "collections.abc", "contextlib", "ctypes", "errno", "fcntl", "fnmatch", "gc",
    "importlib", "io", "itertools", "json", "math", "os", "re", "select", "signal", "socket", "stat",
    "struct", "sys", "time", "zlib",
}  # fmt: skip


def hot_modules() -> list[Path]:
    """Every module that a hook may load."""
    found = [path for folder in FOLDERS for path in (PACKAGE / folder).rglob("*.py") if path.name not in LATE]
    slurm = [path for path in (PACKAGE / "slurm").glob("*.py") if path.name not in COLD_SLURM]
    return sorted(found + slurm)


def imported_at_load(tree: ast.Module) -> set[str]:
    """Modules named by imports that run when the module is loaded; `if TYPE_CHECKING:` does not run."""
    found: set[str] = set()
    pending: list[ast.stmt] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            pending.extend(node.orelse)
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            pending.extend(child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt))
    return found


@pytest.mark.parametrize("path", hot_modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_hot_module_loads_cheap_modules_only(path: Path) -> None:
    loaded = imported_at_load(ast.parse(path.read_text()))
    dear = {name for name in loaded if name not in CHEAP and not name.startswith("slurm_guard")}
    assert not dear, f"import {', '.join(sorted(dear))} inside the function that needs it"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import subprocess", {"subprocess"}),
        ("def f():\n    import subprocess", set()),
        ("try:\n    import pynvml\nexcept ImportError:\n    pass", {"pynvml"}),
        ("if TYPE_CHECKING:\n    from typing import Any", set()),
        ("class A:\n    import logging", {"logging"}),
        ("from os import path", {"os"}),
    ],
)
def test_reading_of_imports(text: str, expected: set[str]) -> None:
    assert imported_at_load(ast.parse(text)) == expected
