#!/bin/bash
# The long campaigns: the tests' own code with bigger numbers (1,000 kills, 500 interleavings, 2,000 examples
# for every property), the demo with 20 seeds, every fuzz target for a minute (FUZZ=seconds), then jobs, faults and
# restarts on a real Slurm for a while.
#   scripts/soak.sh [MINUTES of the last part, default 10]
set -euo pipefail
cd "$(dirname "$0")/.."

failed=0
SOAK=1 scripts/run-tests.sh --timeout=7200 || failed=1
for seed in $(seq 1 "${SEEDS:-20}"); do
    if output=$(scripts/run-demo.sh "$seed" 2>&1); then
        echo "demo, seed $seed: told to its end"
    else
        printf '%s\n' "$output"
        echo "demo, seed $seed: FAILED"
        failed=1
    fi
done
scripts/fuzz.sh "${FUZZ:-60}" || failed=1
.venv/bin/python -m bench.soak --minutes "${1:-10}" || failed=1
exit "$failed"
