#!/bin/bash
# The demo on a real Slurm; needs root and Slurm's daemons (scripts/setup-debian.sh installs them).
#   scripts/run-demo.sh [SEED]
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "$(id -u)" -ne 0 ]; then
    echo "demo: not root, so no Slurm daemons can be started here; the CLI and 'make unit' still work" >&2
    exit 1
fi
scripts/setup-debian.sh --check python cluster || exit 1
exec .venv/bin/python contrib/demo/demo.py ${1:+--seed "$1"}
