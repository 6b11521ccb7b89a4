"""`sguard check list|show|run`: the health checks of this host."""

from typing import Annotated, Any

import typer

from slurm_guard.cli import options, output
from slurm_guard.cli.host import Host
from slurm_guard.core import check as registry
from slurm_guard.core.context import HOOKS
from slurm_guard.core.errors import NotFoundError
from slurm_guard.core.policy import TIERS

app = typer.Typer(no_args_is_help=True, help="List, explain and run health checks.")

_ACTIONS = ("drain", "refuse", "resume")


@app.command("list")
def list_checks(node: options.Node = None, root: options.Root = "/", as_json: options.Json = False) -> None:
    """List the checks: their hooks, gravest tier, what they look at."""
    host = Host(root, node)
    rows = [_summary(name, host) for name in registry.names()]
    if as_json:
        output.emit_json("checks", {"checks": rows})
        return
    cells = [(row["check"], *_short(row), row["text"].partition(". ")[0].removesuffix(".")) for row in rows]
    output.table(("check", "hooks", "up to tier", "here", "says"), cells)
    for row in rows:
        if row["enabled"] and row["nothing_expected"] and host.plan.node_class:
            output.warn(nothing_expected(row["check"], row["nothing_expected"], host))


def nothing_expected(check: str, what: str, host: Host) -> str:
    """That a check has nothing to compare with on this node, so that its silence says little."""
    where = f"in class {host.plan.node_class}" if host.plan.node_class else "of a node in no class"
    return f"{check}: nothing expected {where} (`{what}`)"


def _short(row: dict[str, Any]) -> tuple[str, str, str]:
    """Hooks, gravest tier and state of a check, as a list of checks has room for them."""
    hooks = "all" if set(row["hooks"]) == set(HOOKS) else ",".join(row["hooks"])
    return hooks, row["tiers"][-1] if row["tiers"] else "", "on" if row["enabled"] else "off"


@app.command("show")
def show(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A check, or one of its faults.", autocompletion=options.checks),
    ],
    node: options.Node = None,
    root: options.Root = "/",
    as_json: options.Json = False,
) -> None:
    """Explain a check, or one of its faults, as it is on a node.

    Parameters, faults with tiers and remedies, and what the guard may do about them here.
    """
    host = Host(root, node)
    check, _, code = name.partition(".")
    described = describe(find(check), host, code)
    if as_json:
        output.emit_json("check", described)
        return
    from slurm_guard.cli.check_page import print_page

    print_page(described, host)


@app.command("run")
def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Checks, or patterns such as 'gpu_*'; default: all.",
            autocompletion=options.checks,
        ),
    ] = None,
    hook: Annotated[
        str,
        typer.Option(
            "--hook",
            metavar="HOOK",
            help=f"Run the checks of this hook: {', '.join(HOOKS)}.",
            autocompletion=options.hooks,
        ),
    ] = "healthcheck",
    node: Annotated[
        str | None, typer.Option("-w", "--node", metavar="NODE", help="This host's NodeName.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Name the checks that passed, too.")
    ] = False,
    root: options.Root = "/",
    as_json: options.Json = False,
    nagios: Annotated[bool, typer.Option("--nagios", help="One line and exit codes for Nagios.")] = False,
    record: Annotated[bool, typer.Option("--record", help="Leave a run record in the spool.")] = False,
) -> int:
    """Run checks on this host, now. Nothing is drained, no Slurm program is called."""
    from slurm_guard.cli import check_run

    if hook not in HOOKS:
        raise typer.BadParameter(f"{hook!r} is not a hook; expected {', '.join(HOOKS)}", param_hint="--hook")
    if nagios and as_json:
        raise typer.BadParameter("give one of them: each prints another form", param_hint="--nagios, --json")
    chosen = [one for name in names or [] for one in _matching(name)]
    host = Host(root, node)
    outcome = check_run.run(host, hook, list(dict.fromkeys(chosen)) or None, record=record)
    form = "nagios" if nagios else "json" if as_json else "verbose" if verbose else "text"
    return check_run.show(host, outcome, hook, form)


def _matching(name: str) -> list[str]:
    """The checks that a name or a pattern means. Raises NotFoundError if there are none."""
    import fnmatch

    if not any(letter in name for letter in "*?"):
        return [find(name).name]
    found = fnmatch.filter(registry.names(), name)
    if not found:
        raise NotFoundError(
            f"no check is named like {output.printable(name)[:60]!r}; see `sguard check list`"
        )
    return found


def find(name: str) -> type[registry.Check]:
    """The class of a check by name. Raises NotFoundError with the nearest names."""
    known = registry.names()
    if name not in known:
        import difflib

        near = difflib.get_close_matches(name, known)
        hint = f"did you mean {', '.join(near)}?" if near else "`sguard check list` lists them"
        raise NotFoundError(f"no check named {output.printable(name)[:60]!r}; {hint}")
    return registry.load(name)


def _summary(name: str, host: Host) -> dict[str, Any]:
    enabled = host.plan.checks is None or name in host.plan.checks
    try:
        cls = registry.load(name)
    except Exception as error:  # noqa: BLE001 - one broken file must not hide the other checks
        problem = f"cannot be loaded: {type(error).__name__}: {error}"
        lacking = {"hooks": [], "tiers": [], "enabled": enabled, "nothing_expected": None}
        return {"check": name, **lacking, "text": problem}
    return {
        "check": name,
        "hooks": list(cls.hooks),
        "tiers": _tiers(cls, host),
        "enabled": enabled,
        "nothing_expected": cls.expects if registry.lacks_expectation(cls, host.plan) else None,
        "text": _words(cls).partition("\n")[0],
    }


def _tiers(cls: type[registry.Check], host: Host) -> list[str]:
    """The tiers of a check's faults under this site's policy, mildest first."""
    codes = [(f"{cls.name}.{code}", fault.tier) for code, fault in cls.faults.items()]
    found = {host.plan.tier(name, tier) for name, tier in codes or [(cls.name, cls.tier)]}
    return sorted(found, key=lambda tier: TIERS.index(tier) if tier in TIERS else -1)


def _words(cls: type[registry.Check]) -> str:
    """A check's own explanation: its module's docstring, else its class's."""
    import inspect
    import sys

    return inspect.cleandoc(sys.modules[cls.__module__].__doc__ or cls.__doc__ or "")


def describe(cls: type[registry.Check], host: Host, code: str = "") -> dict[str, Any]:
    """All about a check, or about one fault of it, on this node, as `check show --json` prints it.

    Raises NotFoundError if the check has no such fault.
    """
    codes = [_known_code(cls, code)] if code else sorted(cls.faults, key=_in_order)
    set_here = (host.plan.checks or {}).get(cls.name) or {}
    params = [
        {"name": name, "default": default, "here": _in_force(name, default, set_here, host)}
        for name, default in sorted(cls.params.items())
    ]
    return {
        "check": cls.name,
        "text": _words(cls),
        "hooks": list(cls.hooks),
        "probes": list(cls.sources()),
        "blame": cls.blame,
        "scope": cls.scope,
        "remedy": cls.remedy,
        "enabled": host.plan.checks is None or cls.name in host.plan.checks,
        "nothing_expected": cls.expects if registry.lacks_expectation(cls, host.plan) else None,
        "modes": {action: host.plan.mode(cls.name, action) for action in _ACTIONS},
        "params": params,
        "faults": [_fault(cls, one, host) for one in codes],
    }


def _in_order(code: str) -> tuple[Any, ...]:
    """Xids as numbers, before words."""
    return (0, int(code), "") if code.isdigit() else (1, 0, code)


def _known_code(cls: type[registry.Check], code: str) -> str:
    import difflib
    import re

    if code in cls.faults or (cls.open_faults and re.fullmatch(cls.open_faults, code)):
        return code
    near = difflib.get_close_matches(code, cls.faults, n=1)
    hint = f"did you mean {cls.name}.{near[0]}?" if near else f"`sguard check show {cls.name}` lists them"
    raise NotFoundError(f"{cls.name} has no fault {output.printable(code)[:60]!r}; {hint}")


def _in_force(name: str, default: Any, set_here: dict[str, Any], host: Host) -> Any:
    value = set_here.get(name, default)
    return host.plan.expected.get(name) if value is None else value


def _fault(cls: type[registry.Check], code: str, host: Host) -> dict[str, Any]:
    fault = cls.fault(code)
    name = f"{cls.name}.{code}"
    marks = [mark for mark in ("sure", "refuse", "event", "grace") if getattr(fault, mark)]
    return {
        "fault": name,
        "tier": host.plan.tier(name, fault.tier),
        "default_tier": fault.tier,
        "marks": marks,
        "text": fault.text,
        "remedy": fault.remedy or cls.remedy,
    }
