"""`sguard` itself: help, errors as lines and codes, and what it imports."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import typer

from slurm_guard import __version__
from slurm_guard.cli import lazy, main
from slurm_guard.core import errors

if TYPE_CHECKING:
    from collections.abc import Callable

HEAVY = ("ClusterShell", "pydantic", "rich", "sqlalchemy", "asyncio", "paramiko")


def run(*arguments: str) -> int:
    return main.main(list(arguments))


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Makes the command `job` raise what it is given."""

    def prepare(error: BaseException) -> None:
        def job() -> None:
            raise error

        monkeypatch.setattr(lazy.LazyGroup, "get_command", lambda *_: lazy.as_command("job", job))

    return prepare


def test_help_lists_every_command_and_imports_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    printed = capsys.readouterr().out
    for name, entry in lazy.COMMANDS.items():
        assert f"  {name}" in printed
        assert entry.help.split()[0] in printed


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"sguard {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["jbo"], "No such command 'jbo'. Did you mean job?"),
        (["--frobnicate"], "No such option"),
        (["check", "lsit"], "No such command 'lsit'. Did you mean 'list'?\n"),
        (["config", "chek"], "No such command 'chek'. Did you mean 'check'?\n"),
        (["init", "--writ"], "No such option '--writ'. Did you mean --write?\n"),
        (["explain", "gpu_xid.79"], "No such command 'explain'. Did you mean check show?\n"),
        (["version"], "Did you mean --version?\n"),
        (["check", "run", "--hook", "spank"], "expected prolog, epilog, healthcheck"),
    ],
)
def test_usage_errors_end_with_2(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("words", [["-h"], ["check", "-h"], ["check", "run", "-h"], ["job", "-h"]])
def test_help_has_a_short_name_too(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith(f"Usage: sguard {' '.join(words[:-1])}".rstrip())
    assert captured.err == ""


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize(
    "words", [["doctor", "--root", "/none" * 20], ["check", "run", "x" * 90], ["job", "a b" * 30]]
)
def test_messages_fit_a_terminal_and_are_one_line_for_a_program(
    words: list[str], is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    assert run(*words) in (2, 20, 21)
    lines = capsys.readouterr().err.splitlines()
    message = [line for line in lines if not line.startswith(("Usage", "Try")) and line]
    if is_terminal:
        assert len(message) > 1
        assert all(len(line) <= 80 for line in message if len(line.split()) > 1)
    else:
        assert len(message) == 1


def every_error() -> list[type[errors.GuardError]]:
    found, pending = [], [errors.GuardError]
    while pending:
        cls = pending.pop()
        found.append(cls)
        pending.extend(cls.__subclasses__())
    return found


@pytest.mark.parametrize("cls", every_error(), ids=lambda cls: cls.__name__)
def test_each_error_class_is_a_line_and_its_code(
    cls: type[errors.GuardError], failing: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    failing(cls("n1: broken; mend it"))
    assert run("job") == cls.exit_code
    captured = capsys.readouterr()
    assert captured.err == "sguard: n1: broken; mend it\n"
    assert captured.out == ""


def test_a_list_of_errors_is_one_line_each(
    failing: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    failing(errors.ConfigError("a.toml:3: one\nb.toml:4: two"))
    assert run("job") == errors.ConfigError.exit_code
    assert capsys.readouterr().err == "sguard: a.toml:3: one\nsguard: b.toml:4: two\n"


def test_an_unexpected_error_is_one_line(
    failing: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    failing(ZeroDivisionError("by\nnothing"))
    assert run("job") == 10
    said = capsys.readouterr().err
    assert said == "sguard: unexpected ZeroDivisionError: by; run with `sguard --traceback …` for more\n"


def test_traceback_on_request(
    failing: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    failing(ZeroDivisionError("by nothing"))
    assert run("--traceback", "job") == 10
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [(KeyboardInterrupt(), 130), (BrokenPipeError(), 141), (typer.Exit(1), 1), (typer.Abort(), 130)],
)
def test_quiet_endings(
    error: BaseException,
    code: int,
    failing: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(main, "_forget_stdout", lambda: None)
    failing(error)
    assert run("job") == code
    assert capsys.readouterr() == ("", "")


def test_what_a_command_returns_is_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def job() -> int:
        return 1

    monkeypatch.setattr(lazy.LazyGroup, "get_command", lambda *_: lazy.as_command("job", job))
    assert run("job") == 1


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from slurm_guard.cli.main import main; main(['--help']); print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.splitlines()[-1].split()}
    assert not loaded & set(HEAVY)
    assert "slurm_guard" in loaded


def test_a_reader_that_leaves_is_no_error() -> None:
    code = "import sys; from slurm_guard.cli.main import main; sys.exit(main(['check', 'list', '--json']))"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (141, "")


@pytest.mark.parametrize("arguments", ["check list", "check list --json", "--help"])
@pytest.mark.parametrize(
    ("redirection", "said"),
    [(">/dev/full", "the answer could not be written: No space left on device"), (">&-", "output is closed")],
)
def test_nowhere_to_answer_is_one_line(arguments: str, redirection: str, said: str) -> None:
    script = f"exec {sys.executable} -m slurm_guard.cli.main {arguments} {redirection}"
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 10
    assert said in done.stderr.splitlines()[-1]
    assert "unexpected" not in done.stderr
    assert "Exception" not in done.stderr


def test_what_the_system_forbids_is_one_line(
    failing: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(main.os, "getuid", lambda: 1000)
    failing(PermissionError(13, "Permission denied", "/srv/x"))
    assert run("job") == errors.SetupError.exit_code
    assert capsys.readouterr().err == "sguard: /srv/x: Permission denied; run as root\n"


@pytest.mark.parametrize("name", list(lazy.COMMANDS))
def test_every_argument_is_explained(name: str) -> None:
    import importlib

    entry = lazy.COMMANDS[name]
    command = lazy.as_command(
        name, getattr(importlib.import_module(f"slurm_guard.cli.{entry.module}"), entry.attribute)
    )
    commands = [command, *getattr(command, "commands", {}).values()]
    arguments = [one for each in commands for one in each.params if one.param_type_name == "argument"]
    assert all(one.help for one in arguments), [one.name for one in arguments]


@pytest.mark.parametrize("name", list(lazy.COMMANDS))
def test_the_help_table_says_what_the_commands_say(name: str) -> None:
    import importlib

    entry = lazy.COMMANDS[name]
    module = importlib.import_module(f"slurm_guard.cli.{entry.module}")
    command = lazy.as_command(name, getattr(module, entry.attribute))
    assert command.get_short_help_str(limit=200) == entry.help


def test_completion_of_command_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "_SGUARD_COMPLETE": "bash_complete",
        "COMP_WORDS": "sguard dr",
        "COMP_CWORD": "1",
    }.items():
        monkeypatch.setenv(name, value)
    assert run() == 0
    assert capsys.readouterr().out.split() == ["plain,drains", "plain,drain"]
