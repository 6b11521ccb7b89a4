"""`sguard`: the entry point. Every outcome becomes an exit code and every error one line here.

Exit codes: 0 healthy or done, 1 findings, 2 usage, 10 and more one per error class (`core/errors.py`).
"""

# No `from __future__ import annotations` in the modules of commands: typer reads annotations at run time.

import contextlib
import errno
import os
import sys
from typing import Annotated

import click
import typer

from slurm_guard import __version__
from slurm_guard.cli.lazy import HELP, LazyGroup
from slurm_guard.core.errors import GuardError, SetupError, SlurmError

_EXIT_INTERRUPTED = 130
_EXIT_BROKEN_PIPE = 141
#: What writing an answer may end with; the system names no file then.
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)

app = typer.Typer(
    cls=LazyGroup,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"sguard {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where an error came from.")] = False,
) -> None:
    """Health checks for Slurm nodes: what was wrong, whose fault was it, what happens next.

    Exit codes: 0 healthy or done, 1 findings, 2 usage, 10 and more by kind of error (docs/exit-codes.md).
    """


def click_command() -> click.Command:
    """The root command, as click sees it; docs and completion are made from it."""
    command = typer.main.get_command(app)
    command.name = "sguard"
    command.context_settings = HELP
    return command


def main(argv: list[str] | None = None) -> int:
    """Run `sguard` with arguments (default: the process's own); the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    command = click_command()
    instruction = os.environ.get("_SGUARD_COMPLETE")
    if instruction:
        from click.shell_completion import shell_complete

        return shell_complete(command, {}, "sguard", "_SGUARD_COMPLETE", instruction)
    wants_traceback = "--traceback" in arguments[:1]
    if sys.stdout is None:
        _say("standard output is closed: there is nowhere to answer, so nothing was done")
        return GuardError.exit_code
    try:
        code = _invoke(command, arguments)
        sys.stdout.flush()
    except Exception as error:  # noqa: BLE001 - the one place where every error becomes a line and a code
        if wants_traceback and not isinstance(error, (BrokenPipeError, click.ClickException)):
            import traceback

            traceback.print_exc()
        return _explain(error)
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    return code


def _invoke(command: click.Command, arguments: list[str]) -> int:
    """The command's own exit code: what it returned, or raised as `typer.Exit`."""
    try:
        with command.make_context("sguard", list(arguments)) as context:
            answer = command.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    return answer if isinstance(answer, int) else 0


def _explain(error: Exception) -> int:
    """Say on stderr what went wrong; the exit code for it."""
    if isinstance(error, click.ClickException):
        from slurm_guard.cli.usage import show

        show(error)
        return error.exit_code
    if isinstance(error, click.Abort):
        return _EXIT_INTERRUPTED
    if isinstance(error, BrokenPipeError):
        _forget_stdout()
        return _EXIT_BROKEN_PIPE
    if isinstance(error, GuardError):
        for line in _lines(error):
            _say(line)
        return error.exit_code
    if isinstance(error, OSError) and (error.filename or error.errno in _UNWRITABLE):
        return _explain_os(error)
    first = (str(error).splitlines() or [""])[0]
    _say(f"unexpected {type(error).__name__}: {first}; run with `sguard --traceback …` for more")
    return GuardError.exit_code


def _lines(error: GuardError) -> list[str]:
    if isinstance(error, SlurmError):
        from slurm_guard.cli.output import brief

        return [brief(str(error))]
    return str(error).splitlines() or [type(error).__name__]


def _explain_os(error: OSError) -> int:
    """A file, or the answer itself, that this system does not let us read or write."""
    if error.filename is None:
        _forget_stdout()
        _say(f"the answer could not be written: {error.strerror}")
        return GuardError.exit_code
    as_root = "; run as root" if isinstance(error, PermissionError) and os.getuid() != 0 else ""
    _say(f"{error.filename}: {error.strerror}{as_root}")
    return SetupError.exit_code


def _say(text: str) -> None:
    said = "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)
    from slurm_guard.cli.wrapped import for_stderr

    with contextlib.suppress(OSError):
        print("\n".join(for_stderr(said)), file=sys.stderr)


def _forget_stdout() -> None:
    """Point stdout nowhere, so that Python's last flush does not complain about a reader that left."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError):
        os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
