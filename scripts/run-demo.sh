#!/bin/bash
# The demo on a real Slurm; needs root and Slurm's daemons (scripts/setup-debian.sh installs them).
#   scripts/run-demo.sh [SEED]
set -euo pipefail
cd "$(dirname "$0")/.."

seed=${1:-}
case $seed in
    *[!0-9]*)
        echo "demo: SEED=$seed is not a whole number; for example: make demo SEED=7" >&2
        exit 2
        ;;
esac
if [ "$(id -u)" -ne 0 ]; then
    echo "demo: not root, which Slurm's daemons need here: run 'sudo make demo';" \
        "without root 'make unit' and .venv/bin/sguard work" >&2
    exit 1
fi
scripts/setup-debian.sh --check python cluster || exit 1
exec .venv/bin/python contrib/demo/demo.py ${seed:+--seed "$seed"}
