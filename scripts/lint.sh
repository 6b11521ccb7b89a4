#!/bin/bash
# Every static check, all of them even when one fails; ends with 1 if any did.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

# Of slurm/, all but what only the admin's commands use.
mapfile -t slurm < <(find slurm_guard/slurm -name '*.py' ! -name hostlist.py ! -name '*slurm_gateway.py' \
    ! -name rest_gateway.py | sort)
readonly HOT=(slurm_guard/core slurm_guard/probes slurm_guard/checks slurm_guard/engine "${slurm[@]}")

failed=()

step() { # NAME COMMAND...
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        echo "ok    $name"
    else
        failed+=("$name")
        printf 'FAIL  %s\n%s\n' "$name" "$output"
    fi
}

step "ruff check" ruff check -q .
step "ruff format" ruff format -q --check --diff .
step "mypy --strict" mypy --no-error-summary
step "import-linter" lint-imports --no-cache
step "vermin 3.9 (hot modules)" vermin -q --no-tips --violations -t=3.9- "${HOT[@]}"
step "generated docs" python scripts/gendocs.py --check
for script in scripts/*.sh .ci/run prolog/sguard-* epilog/sguard-* healthcheck/sguard-*; do
    [ ! -f "$script" ] || step "syntax of $script" "$(sed -n '1s|^#!\(/bin/[a-z]*\).*|\1|p' "$script")" -n "$script"
done

if [ ${#failed[@]} -gt 0 ]; then
    printf -v names '%s, ' "${failed[@]}"
    echo "lint: ${#failed[@]} failed: ${names%, }"
    exit 1
fi
