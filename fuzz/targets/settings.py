"""What admins write: TOML and slurm.conf. A bad file is a sentence with file and line, never a traceback."""

from __future__ import annotations

from fuzz.targets import Target, require, scratch, seeds
from slurm_guard.config import load, slurm_conf
from slurm_guard.core.errors import ConfigError


def toml(data: bytes) -> None:
    """slurm-guard.toml, read and judged whole."""
    here = scratch.places()
    scratch.put(here.config, data)
    reading = load.read(here)
    for problem in reading.problems:
        require(str(problem).strip(), "a problem without words")
    try:
        load.require(reading)
    except ConfigError as error:
        require(str(error), "no, without a reason")


def slurm_conf_file(data: bytes) -> None:
    """slurm.conf; Include lines find no file here."""
    path = scratch.put(f"{scratch.root()}/slurm.conf", data.replace(b"/", b"_"))
    found = slurm_conf.read(path)
    for key in ("prolog", "nodename", "prologflags", "healthcheckinterval"):
        found.all(key), found.last(key), found.place(key), found.words(key), found.number(key)


TOML = (*seeds("toml"), b'[[rule]]\nfault = "gpu_xid"\n[budget]\nnodes = 4\n')
CONF = (
    b"ClusterName=lab\nProlog=_opt_x # c\nNodeName=n[1-4] CPUs=4 \\\n Gres=gpu:8\nPrologFlags=Alloc,Contain\nInclude nodes.conf\nHealthCheckInterval=300\n",
)
TARGETS = (
    Target("toml", "slurm-guard.toml", toml, TOML),
    Target("slurm_conf", "slurm.conf", slurm_conf_file, CONF),
)
