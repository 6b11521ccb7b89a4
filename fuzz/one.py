"""One target in this process: `python -m fuzz.one NAME SECONDS FOLDER`; 0 if nothing was found.

libFuzzer ends its process, so each target has one of its own. What is found lies in FOLDER/found.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import atheris
except ImportError:  # plain mutation then
    atheris = None

if TYPE_CHECKING:
    from fuzz.targets import Target

LONGEST = 1 << 16
#: An input that takes longer is a fault: whoever sends it would keep us busy.
TIMEOUT_S, RSS_MB = 10, 1500


def main(argv: list[str]) -> int:
    """Run one target for so many seconds."""
    name, seconds, folder = argv[0], int(argv[1]), Path(argv[2])
    target = _load(name)
    corpus, found = folder / "corpus" / name, folder / "found" / name
    for path in (corpus, found):
        path.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    if atheris is None:
        return _mutate(target, seconds, found)
    options = [
        f"-max_total_time={seconds}",
        f"-artifact_prefix={found}/",
        f"-timeout={TIMEOUT_S}",
        f"-rss_limit_mb={RSS_MB}",
        f"-max_len={LONGEST}",
        "-print_final_stats=1",
        "-verbosity=1",
        str(corpus),
    ]
    atheris.Setup([sys.argv[0], *options], target.run)
    atheris.Fuzz()
    return 0


def _load(name: str) -> Target:
    """The target; our own modules are instrumented for coverage while they are imported."""
    from importlib import import_module

    if atheris is None:
        return import_module("fuzz.targets").all_targets()[name]  # type: ignore[no-any-return]
    with atheris.instrument_imports(include=["slurm_guard"]):
        return import_module("fuzz.targets").all_targets()[name]  # type: ignore[no-any-return]


def _mutate(target: Target, seconds: int, found: Path) -> int:
    """Without coverage: seeds, cut, joined and with bytes changed."""
    rng, end, count = random.Random(seconds), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        data = _changed(bytearray(rng.choice(target.seeds)), rng)
        count += 1
        try:
            target.run(data)
        except Exception:
            (found / f"crash-{count}").write_bytes(data)
            raise
    print(f"stat::number_of_executed_units: {count}")
    return 0


def _changed(data: bytearray, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 8)):
        at, kind = rng.randint(0, len(data)), rng.randint(0, 3)
        if kind == 0:
            data[at:at] = bytes(rng.choices(b'[]{}",:=\n\\0-9\x00\xff n', k=rng.randint(1, 4)))
        elif kind == 1:
            del data[at : at + rng.randint(1, 16)]
        elif kind == 2 and at < len(data):
            data[at] = rng.randrange(256)
        else:
            data[at:at] = data[max(0, at - rng.randint(1, 32)) : at]
    return bytes(data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
