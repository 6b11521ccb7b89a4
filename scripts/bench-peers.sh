#!/bin/bash
# Installs gpucm (the command is health_checks) into .venv-peers and runs the same kind of checks with it and with
# slurm_guard, side by side.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly GPUCM=0.0.2
if [ "$(cat .venv-peers/.stamp 2>/dev/null)" != "$GPUCM" ]; then
    rm -rf .venv-peers
    .venv/bin/python -m venv .venv-peers
    .venv-peers/bin/python -m pip install -qq --disable-pip-version-check "gpucm==$GPUCM"
    echo "$GPUCM" >.venv-peers/.stamp
fi
exec .venv/bin/python -m bench peers "$@"
