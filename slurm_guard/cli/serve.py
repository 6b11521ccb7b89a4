"""`sguard serve`: the collector, the one place that all nodes send their records to."""

import os
import pwd
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slurm_guard.cli import options, output
from slurm_guard.core.errors import SetupError

if TYPE_CHECKING:
    from slurm_guard.collector.settings import Settings
    from slurm_guard.config.model import Collector as Wanted
    from slurm_guard.core.paths import Places


def serve(
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen", metavar="ADDRESS:PORT", help="Listen there instead of where the configuration says."
        ),
    ] = None,
    root: options.Root = "/",
    as_json: options.Json = False,
) -> int:
    """Take the records of all nodes, and give them their plan.

    Serves until SIGTERM. Settings: [collector] in slurm-guard.toml; docs/collector.md says how to set it up.
    Refuses what is not signed. Listens on loopback unless told otherwise. Run it as SlurmUser, or as a Slurm
    operator.
    """
    from slurm_guard.collector import server
    from slurm_guard.collector.service import Collector
    from slurm_guard.collector.user import note_on_owners, note_on_signing, require_lasting_user
    from slurm_guard.core.paths import Places
    from slurm_guard.web import jobs

    require_lasting_user()
    places = Places(root)
    settings = _settings(places, listen)
    server.check_certificate(settings)
    collector = Collector(settings)
    try:
        sockets = server.listen(settings)
    except BaseException:
        collector.store.close()
        raise
    notes = [note_on_signing(settings.uids)]
    if settings.acting:
        notes.append(note_on_owners(collector.plans.owners()))
    more = jobs.routes(collector)
    server.run(
        collector, sockets, more, ready=lambda: _announce(settings, [*notes, collector.plan.problem], as_json)
    )
    return 0


def _settings(places: "Places", listen: str | None) -> "Settings":
    from slurm_guard.collector.settings import Settings
    from slurm_guard.config import host as hosts
    from slurm_guard.config import load
    from slurm_guard.config.fields import host_and_port

    config = load.load(places)
    wanted, found = config.collector, hosts.look(places, config)
    try:
        host, port = host_and_port(listen or wanted.listen)
    except ValueError as error:
        raise typer.BadParameter(f"{listen!r}; expected {error}", param_hint="--listen") from None
    return Settings(
        store=Path(places.database),
        plan=Path(places.plan),
        alive=Path(places.var) / "collector.alive",
        cluster=config.cluster or found.cluster,
        host=host,
        port=port,
        certificate=wanted.certificate or "",
        key=wanted.key or "",
        token_file=_token_file(places, wanted),
        munge_socket=wanted.munge_socket or "",
        uids=frozenset(wanted.uids),
        admins=frozenset(map(_uid_of, wanted.admins)),
        programs=found.programs,
        slurm_conf=found.slurm_conf,
        addresses=wanted.addresses,
        acting=wanted.acting,
        calls_per_s=wanted.calls_per_s,
        silent_after_s=wanted.silent_after * wanted.interval_s,
        switches=places.kill_switches,
    )


def _token_file(places: "Places", wanted: "Wanted") -> str:
    """The token file below the root, once it was found to be good."""
    from slurm_guard.core.errors import CollectorError
    from slurm_guard.engine.signing import read_token

    if not wanted.token_file:
        return ""
    path = places.below(wanted.token_file)
    try:
        read_token(path)
    except CollectorError as error:
        raise SetupError(f"{error}; make it with `head -c 32 /dev/urandom | base64`") from None
    return path


def _uid_of(name: str) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise SetupError(
            f"admins in [collector]: no user {name} on this host; expected a user's name"
        ) from None


def _announce(settings: "Settings", notes: list[str], as_json: bool) -> None:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    url = f"{'https' if settings.certificate else 'http'}://{host}:{settings.port}"
    if as_json:
        told = {"store": str(settings.store), "plan": str(settings.plan), "alive": str(settings.alive)}
        signing = "token" if settings.token_file else "munge"
        more = {"signing": signing, "cluster": settings.cluster, "uid": os.geteuid(), "pid": os.getpid()}
        output.emit_json("serve", {"url": url, **told, **more})
    else:
        print(
            f"listening on {url}; store {settings.store}; plan {settings.plan}; requests signed with "
            f"{settings.signing}; cluster {settings.cluster or 'as the plan says'}; uid {os.geteuid()}"
        )
    sys.stdout.flush()
    if settings.host not in ("127.0.0.1", "::1", "localhost") and not settings.certificate:
        output.warn("not encrypted: whoever is on this network can read records; set certificate and key")
    for note in filter(None, notes):
        output.warn(note)
