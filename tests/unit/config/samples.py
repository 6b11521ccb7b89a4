"""Configurations and a catalogue of checks for these tests."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from slurm_guard.config import load
from slurm_guard.config.catalogue import Catalogue
from slurm_guard.core.check import Check, Fault
from slurm_guard.core.paths import Places

if TYPE_CHECKING:
    from pathlib import Path

    from slurm_guard.config.load import Reading

CLASS = '[[class]]\nname = "k"\nnodes = "k[1-4]"\n'


def _check(params: dict[str, Any], codes: tuple[str, ...], **more: Any) -> type[Check]:
    faults = {code: Fault("DRAIN", code) for code in codes}
    rest = {"metrics": {}, "open_faults": "", "open_faults_text": "", "rising": (), **more}
    return cast("type[Check]", SimpleNamespace(params=params, faults=faults, **rest))


CATALOGUE = Catalogue(
    {
        "fan_speed": _check(
            {"lowest": 900, "ratio": 0.25, "quiet": False, "unit": "rpm"},
            ("slow", "stopped"),
            metrics={"fan_rpm": "rpm", "fan_noise": "dB"},
        ),
        "heat": _check({"warn_c": 50, "fail_c": 60}, ("hot",), rising=(("warn_c", "fail_c"),)),
        "fan_count": _check({"fans": None, "ignore": ["fan0"], "limits": {}}, ("few",)),
        "link_log": _check(
            {"window_s": 60},
            ("13", "79", "lost"),
            open_faults=r"[1-9]\d{0,2}|x_\d+",
            open_faults_text="a number from 1 to 999, or x_ with a number",
        ),
    },
    {"half_baked": "SyntaxError: invalid syntax"},
)
WHOLE = Catalogue(CATALOGUE.classes)

FULL = """
cluster = "delta"
owners = ["root", "slurmadm"]
grace_s = 120
stale_after_s = 864000

[slurm]
conf = "/opt/site/slurm.conf"
bin = "/opt/site/bin"

[nvml]
library = "/opt/site/lib/libnvidia-ml.so.1"
python_path = ["/opt/site/python"]

[deadlines]
prolog = 5
epilog = 12.5
healthcheck = 30

[spool]
files = 500
bytes = 1048576
age_s = 3600

[budget]
nodes = 7
percent = 12.5
per_hour = 9
shared_nodes = 0
nodes_per_job = 3
nodes_per_user = 0

[return]
clean_runs = 5
clean_s = 90
watch_s = 0
flaps = 4
flap_window_s = 7200

[confirm]
runs = 3
of = 4

[policy]
"fan_speed.slow" = "JOB"
link_log.79 = "DRAIN_RMA"
fan_count = "NOTE"

[checks.fan_speed]
lowest = 1200
[checks.link_log]
enabled = false

[[class]]
name = "wide"
nodes = "w[01-03]"
gpus = 4
ib_ports = 2
fans = 6
[[class.mounts]]
path = "/home"
type = "nfs4"
options = ["rw", "nosuid"]
[[class.mounts]]
path = "/deep/scratch"
shared = true
[class.references]
fan_rpm = { value = 2000, lower = -0.1, upper = 0.2, unit = "rpm" }
[class.checks.fan_speed]
ratio = 0.5
[class.checks.link_log]
enabled = true

[[class]]
name = "small"
nodes = "s1"

[[mode]]
mode = "observe"
[[mode]]
check = "fan_*"
action = "drain"
mode = "enforce"
nodes = "w[01-02],s1"
[[mode]]
check = "fan_speed"
action = "refuse"
mode = "enforce"
nodes = "lone7"
"""


def places_with(folder: Path, text: str | None = None, **conf_d: str) -> Places:
    """A root folder with a configuration; `conf_d` maps names (without .toml) to texts."""
    etc = folder / "etc" / "slurm-guard"
    (etc / "conf.d").mkdir(parents=True, exist_ok=True)
    if text is not None:
        (etc / "slurm-guard.toml").write_text(text)
    for name, content in conf_d.items():
        (etc / "conf.d" / f"{name}.toml").write_text(content)
    return Places(str(folder))


def read(folder: Path, text: str | None = None, catalogue: Catalogue = WHOLE, **conf_d: str) -> Reading:
    """Write and read a configuration."""
    return load.read(places_with(folder, text, **conf_d), catalogue)


def assert_told(root: Path, text: str, line: int, key: str, found: str, expected: str) -> None:
    """Exactly one problem with this configuration: in this line, with this key, saying this."""
    reading = read(root, text)
    assert reading.config is None
    told = [(one.line, one.key) for one in reading.problems]
    assert told == [(line, key)], [str(one) for one in reading.problems]
    problem = reading.problems[0]
    assert problem.file == str(root / "etc/slurm-guard/slurm-guard.toml")
    assert found in problem.found
    assert expected in problem.expected
