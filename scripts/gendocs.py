"""Write the pages of docs/ that derive from the code; with --check, only say whether they are up to date.

    python scripts/gendocs.py [--check]

Exit codes: 0 written (or up to date), 1 a page differs from what the code says.
"""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts import clidocs  # noqa: E402
from slurm_guard.core import check, errors  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = ROOT / "docs"
NOTICE = "<!-- Written by scripts/gendocs.py from the code; edit the code, then `make docs`. -->\n\n"

SUCCESS_CODES = (
    (0, "Healthy, or done: nothing was found that needs a person."),
    (1, "Findings: at least one result is worse than a skip, or the job or node has a problem on record."),
    (2, "Usage: an unknown option or argument, or one that is missing."),
)
NAGIOS_CODES = ((0, "OK"), (1, "WARNING"), (2, "CRITICAL"), (3, "UNKNOWN"))


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table; cells are kept to one line."""
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += [
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows
    ]
    return "\n".join(lines) + "\n"


def error_classes(root: type[errors.GuardError] = errors.GuardError) -> Iterator[type[errors.GuardError]]:
    """The whole tree, parents before their children."""
    yield root
    for child in root.__subclasses__():
        yield from error_classes(child)


def exit_codes_page() -> str:
    """One row for each exit code: the three that are no errors, then one per error class."""
    rows = [(str(code), "", text) for code, text in SUCCESS_CODES]
    rows += [
        (str(cls.exit_code), f"`{cls.__name__}`", inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0])
        for cls in sorted(error_classes(), key=lambda cls: cls.exit_code)
    ]
    nagios = table(("code", "Nagios"), [(str(code), word) for code, word in NAGIOS_CODES])
    return (
        f"{NOTICE}# Exit codes of `sguard`\n\n{table(('code', 'error', 'meaning'), rows)}\n"
        f"With `--nagios`, `sguard check run` ends with the codes that Nagios expects instead:\n\n{nagios}\n"
        "The hooks' own exit codes, which only Slurm sees, are in "
        "[install.md](install.md#exit-codes-of-the-hooks).\n"
    )


def fault_rows(cls: type[check.Check]) -> list[tuple[str, ...]]:
    """One row per fault code of a check."""
    rows = []
    for code, fault in sorted(cls.faults.items()):
        marks = [mark for mark in ("sure", "refuse", "event", "grace") if getattr(fault, mark)]
        remedy = fault.remedy or cls.remedy
        rows.append((f"`{cls.name}.{code}`", fault.tier, ", ".join(marks), fault.text, remedy))
    return rows


def check_section(cls: type[check.Check]) -> str:
    """Everything about one check, from its module's and its class's own words."""
    module = inspect.cleandoc(sys.modules[cls.__module__].__doc__ or "")
    facts = [
        ("runs in", ", ".join(cls.hooks)),
        ("reads", ", ".join(f"`{name}`" for name in cls.sources())),
        ("scope", cls.scope),
        ("blame", cls.blame),
        ("tier, where a fault has none of its own", cls.tier),
        ("remedy", cls.remedy or "see the faults"),
    ]
    parts = [
        f"## `{cls.name}`\n",
        module + "\n",
        "\n".join(f"- {name}: {text}" for name, text in facts) + "\n",
    ]
    if cls.params:
        rows = [(f"`{name}`", parameter_default(value)) for name, value in sorted(cls.params.items())]
        parts.append(table(("parameter", "default"), rows))
    if cls.metrics:
        listed = ", ".join(f"`{name}` ({unit})" for name, unit in sorted(cls.metrics.items()))
        parts.append(f"A class may give references for {listed}.\n")
    if cls.faults:
        parts.append(table(("fault", "tier", "marks", "meaning", "remedy"), fault_rows(cls)))
    return "\n".join(parts)


def parameter_default(value: Any) -> str:
    """How a parameter's default reads in the docs."""
    return "the node class's expected value" if value is None else f"`{json.dumps(value)}`"


def checks_page() -> str:
    """All built-in checks, a summary first."""
    classes = [check.load(name) for name in check.names()]
    rows = [
        (
            f"[`{cls.name}`](#{cls.name})",
            inspect.cleandoc(sys.modules[cls.__module__].__doc__ or "").split("\n")[0],
        )
        for cls in classes
    ]
    sections = "\n".join(check_section(cls) for cls in classes)
    return (
        f"{NOTICE}# Checks\n\n"
        "A fault is written `check.code`, with its device, everywhere: in records, in the policy, in a\n"
        "node's drain reason and in the test cluster. Marks: *sure* acts on the first run, *refuse* lets a\n"
        "prolog refuse the job for it, *event* stays open until a reset or reboot, *grace* is `unknown` for\n"
        "a while after boot.\n\n"
        f"{table(('check', 'says'), rows)}\n{sections}"
    )


def pages() -> dict[Path, str]:
    """Every generated file with its text."""
    texts = {DOCS / "exit-codes.md": exit_codes_page(), DOCS / "checks.md": checks_page()}
    texts.update({DOCS / name: text for name, text in clidocs.pages(NOTICE).items()})
    return texts


def stale_files(texts: dict[Path, str]) -> list[Path]:
    """Pages that differ from the code, and man pages of commands that no longer exist."""
    differing = [path for path, text in texts.items() if not path.is_file() or path.read_text() != text]
    return differing + [path for path in (DOCS / "man").glob("*.1") if path not in texts]


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description="Write the generated pages of docs/.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is out of date")
    arguments = parser.parse_args()
    texts = pages()
    stale = stale_files(texts)
    if arguments.check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: run `make docs` and commit it")
        return 1 if stale else 0
    for path in stale:
        if path in texts:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[path])
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
