#!/bin/bash
# The whole test suite; without root or without Slurm's daemons, the part that needs neither.
#   JOBS=N scripts/run-tests.sh [PYTEST ARGUMENT...]      N workers, default 3
set -euo pipefail
cd "$(dirname "$0")/.."

arguments=(-q tests)
if ! scripts/setup-debian.sh --check python cluster accounting 2>/dev/null; then
    # What is missing was said by scripts/setup-debian.sh, which `make test` runs first.
    arguments+=(--ignore=tests/cluster)
elif [ "$(id -u)" -ne 0 ]; then
    echo "test: not root, so the tests on a real Slurm (tests/cluster) and others that need root are left out" >&2
    arguments+=(--ignore=tests/cluster)
fi
reach=(setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$PWD/.venv/bin/sguard")
if [ "$(id -u)" -eq 0 ] && [ -z "${IN_THE_OPEN:-}" ] && ! "${reach[@]}"; then
    if unshare --mount true 2>/dev/null; then
        IN_THE_OPEN=1 exec unshare --mount scripts/in-the-open.sh scripts/run-tests.sh "$@"
    fi
    echo "test: other users cannot reach $PWD, and there can be no view in which they do:" >&2
    echo "test: tests that run programs as another user will fail; use a checkout in a folder open to all" >&2
fi
# A file stays with one worker, since its tests share a cluster. Tests on a real Slurm mostly wait, so three
# workers keep two cores busy.
exec .venv/bin/python -m pytest -n "${JOBS:-3}" --dist loadfile "${arguments[@]}" "$@"
