"""slurm.conf, gres.conf, cgroup.conf and slurmdbd.conf of a cluster, as text."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

CPUS, MEMORY_MB, GPUS = 64, 2_000_000, 8
HOOK_FILES = {
    "Prolog": "prolog",
    "Epilog": "epilog",
    "HealthCheckProgram": "healthcheck",
    "TaskProlog": "task_prolog",
    "TaskEpilog": "task_epilog",
    "PrologSlurmctld": "prolog_slurmctld",
    "EpilogSlurmctld": "epilog_slurmctld",
}


@dataclass
class Layout:
    """Where the parts of a cluster are, and what it consists of."""

    directory: Path
    name: str
    nodes: list[str]
    port: int  # slurmctld; slurmd's follow, the last one is slurmdbd's
    slurm_user: str = "root"
    dbd: bool = False
    hooks: tuple[str, ...] = ()  # slurm.conf keys of HOOK_FILES
    health_interval: int = 0
    conf: dict[str, str] = field(default_factory=dict)  # the caller's; an empty value removes a line

    @property
    def conf_path(self) -> Path:
        """slurm.conf."""
        return self.directory / "etc/slurm.conf"

    @property
    def munge_socket(self) -> Path:
        """Of the private munged."""
        return self.directory / "run/munge.sock"

    @property
    def dbd_port(self) -> int:
        """slurmdbd's port, the last one of the block."""
        return self.port + len(self.nodes) + 1

    @property
    def ports(self) -> int:
        """How many consecutive ports the cluster needs."""
        return len(self.nodes) + 2

    @property
    def hostname(self) -> str:
        """This host's short name."""
        return socket.gethostname().partition(".")[0]


def slurm_conf(layout: Layout) -> str:
    """The whole slurm.conf. Keys of `layout.conf` replace ours, whatever their case."""
    keys = {
        **_daemons(layout),
        **_behaviour(layout),
        **_scheduling(),
        **_accounting(layout),
        **_hooks(layout),
    }
    own = {key.lower() for key in layout.conf}
    kept = {key: value for key, value in keys.items() if key.lower() not in own}
    lines = [f"{key}={value}" for key, value in {**kept, **layout.conf}.items() if value != ""]
    return "\n".join([*lines, *_nodes(layout), ""])


def gres_conf(layout: Layout) -> str:
    """Each node's GPUs are the device files in its own folder."""
    lines = ["AutoDetect=off"]
    for node in layout.nodes:
        files = layout.directory / "nodes" / node / f"dev/nvidia[0-{GPUS - 1}]"
        lines.append(f"NodeName={node} Name=gpu Type=h100 File={files}")
    return "\n".join([*lines, ""])


def slurmdbd_conf(layout: Layout) -> str:
    """slurmdbd finds its MariaDB by the environment variable MYSQL_UNIX_PORT."""
    directory = layout.directory
    keys = {
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={layout.munge_socket}",
        "DbdHost": "localhost",
        "DbdAddr": "127.0.0.1",
        "DbdPort": layout.dbd_port,
        "CommunicationParameters": _listening(layout.hostname),  # slurmdbd does not bind to its DbdAddr
        "SlurmUser": layout.slurm_user,
        "LogFile": directory / "log/slurmdbd.log",
        "PidFile": directory / "run/slurmdbd.daemon.pid",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "localhost",
        "StorageUser": "root",
        "StorageLoc": "slurm_acct_db",
    }
    return "".join(f"{key}={value}\n" for key, value in keys.items())


def _daemons(layout: Layout) -> dict[str, object]:
    directory = layout.directory
    return {
        "ClusterName": layout.name,
        "SlurmctldHost": f"{layout.hostname}(127.0.0.1)",
        "SlurmUser": layout.slurm_user,
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={layout.munge_socket}",
        "CredType": "cred/munge",
        "SlurmctldPort": layout.port,
        "SlurmctldPidFile": directory / "run/slurmctld/daemon.pid",
        "SlurmdPidFile": directory / "run/slurmd.%n.daemon.pid",
        "SlurmctldLogFile": directory / "log/slurmctld.log",
        "SlurmdLogFile": directory / "log/slurmd.%n.log",
        "SlurmctldDebug": "verbose",
        "SlurmdDebug": "verbose",
        "StateSaveLocation": directory / "state",
        "SlurmdSpoolDir": directory / "spool/%n",
        "ProctrackType": "proctrack/linuxproc",  # no cgroups
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "MpiDefault": "none",
    }


def _behaviour(layout: Layout) -> dict[str, object]:
    return {
        "SlurmctldTimeout": 30,
        "SlurmdTimeout": 30,
        "MessageTimeout": 10,
        "CommunicationParameters": _listening(layout.hostname),
        "RebootProgram": layout.directory / "hooks/reboot",
        "ReturnToService": 1,
        "MailProg": "/bin/true",
        "SlurmdParameters": "config_overrides",  # nodes may claim more than the host has
    }


def _listening(hostname: str) -> str:
    """Loopback only where that works: slurmd and srun then bind to what the host's name resolves to, and
    slurmd calls srun back at 127.0.0.1."""
    try:
        loopback = socket.gethostbyname(hostname) == "127.0.0.1"
    except OSError:
        loopback = False
    return "NoCtldInAddrAny,NoInAddrAny" if loopback else "NoCtldInAddrAny"


def _scheduling() -> dict[str, object]:
    return {
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "DefMemPerCPU": 1024,
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "sched_interval=1,bf_interval=1,sched_min_interval=0,batch_sched_delay=0",
        "KillWait": 5,
        "InactiveLimit": 0,
        "MinJobAge": 300,
        "GresTypes": "gpu",
    }


def _accounting(layout: Layout) -> dict[str, object]:
    if not layout.dbd:
        return {"AccountingStorageType": "accounting_storage/none"}
    return {
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "127.0.0.1",
        "AccountingStoragePort": layout.dbd_port,
        "AccountingStoragePass": layout.munge_socket,  # slurmdbd connections ignore AuthInfo
        "AccountingStorageTRES": "gres/gpu",
        "AccountingStoreFlags": "job_comment",
    }


def _hooks(layout: Layout) -> dict[str, object]:
    keys: dict[str, object] = {"PrologFlags": "Alloc"}
    for key in layout.hooks:
        keys[key] = layout.directory / "hooks" / HOOK_FILES[key]
    if "HealthCheckProgram" in layout.hooks:
        keys["HealthCheckInterval"] = layout.health_interval or 10
        keys["HealthCheckNodeState"] = "ANY"
    return keys


def _nodes(layout: Layout) -> list[str]:
    first, count = layout.port + 1, len(layout.nodes)
    ports = f"{first}" if count == 1 else f"[{first}-{first + count - 1}]"
    names = "n1" if count == 1 else f"n[1-{count}]"
    hardware = f"CPUs={CPUS} RealMemory={MEMORY_MB} Gres=gpu:h100:{GPUS} State=UNKNOWN"
    return [
        f"NodeName={names} NodeHostname={layout.hostname} NodeAddr=127.0.0.1 Port={ports} {hardware}",
        f"PartitionName=main Nodes={names} Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO",
    ]
