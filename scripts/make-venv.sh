#!/bin/bash
# Builds .venv at the repository's root: the interpreter, the pinned packages, slurm_guard itself (editable).
# Run by `make venv`; safe to run again.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly VENV=.venv
readonly WANTED='import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'

usable() { "$1" -c "$WANTED" >/dev/null 2>&1; }

find_python() {
    local python
    for python in /usr/bin/python3 python3 python3.14 python3.13 python3.12 python3.11; do
        if command -v "$python" >/dev/null && usable "$python"; then
            command -v "$python"
            return
        fi
    done
    echo "venv: no Python >= 3.11 with the venv module here; install one (Debian: python3-venv)." \
        "Until then only the hooks' shims work (Python >= 3.9)." >&2
    return 1
}

main() {
    local python
    # A folder whose interpreter is gone (an upgrade, a moved checkout) is of no use: start again.
    if [ -e "$VENV" ] && ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
        rm -rf "$VENV"
    fi
    if [ ! -e "$VENV" ]; then
        python=$(find_python)
        "$python" -m venv "$VENV"
    fi
    # hatchling first, so that the editable build uses the pinned one instead of an isolated download.
    "$VENV/bin/python" -m pip install -qq --disable-pip-version-check -c constraints.txt hatchling editables
    "$VENV/bin/python" -m pip install -qq --disable-pip-version-check -c constraints.txt \
        --no-build-isolation -e '.[dev]'
    touch "$VENV/.stamp"
}

main
