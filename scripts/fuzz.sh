#!/bin/bash
# Fuzzes every parser that reads bytes from the network or from users, with atheris in an environment of its own; where
# atheris has no wheel for this Python, with plain mutation of the seeds, which finds less.
#   scripts/fuzz.sh [SECONDS for each target, default 60] [NAME...]
set -euo pipefail
cd "$(dirname "$0")/.."

readonly SECONDS_EACH="${1:-60}"
shift || true
if [ ! -x .venv-fuzz/bin/python ] || ! .venv-fuzz/bin/python -c 'import slurm_guard' 2>/dev/null; then
    rm -rf .venv-fuzz
    .venv/bin/python -m venv .venv-fuzz
    .venv-fuzz/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt hatchling editables
    .venv-fuzz/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt --no-build-isolation -e .
    .venv-fuzz/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt atheris ||
        echo "fuzz: no atheris for this Python; the seeds are mutated without looking at coverage" >&2
fi
exec nice .venv-fuzz/bin/python -m fuzz --seconds "$SECONDS_EACH" "$@"
