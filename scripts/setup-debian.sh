#!/bin/bash
# Installs the Debian packages that slurm_guard's demo and cluster tests need, and only those that are missing.
#
#   scripts/setup-debian.sh [--check] [GROUP...]    groups: python cluster accounting (default: all)
#
# --check installs nothing. Exit codes: 0 all there, 3 something is missing and could not be installed (one line
# on stderr says what, and what still works), anything else: apt-get's own failure.
# No daemon is started or left enabled: a policy-rc.d guards the installation and is taken away again; one that is
# already there is kept as it is.
set -euo pipefail

readonly POLICY=${DPKG_ROOT:-}/usr/sbin/policy-rc.d
PACKAGES_python="python3-venv"
PACKAGES_cluster="slurmctld slurmd slurm-client munge openssh-server gcc libc6-dev procps"
PACKAGES_accounting="slurmdbd slurm-wlm-mysql-plugin mariadb-server"
UNITS="munge slurmctld slurmd slurmdbd mariadb ssh"

missing_packages() { # PACKAGE...
    local name
    for name in "$@"; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || echo "$name"
    done
}

is_debian() { [ -r "${DPKG_ROOT:-}/etc/debian_version" ] && command -v apt-get >/dev/null; }

say_what_works() { # REASON MISSING...
    local reason=$1
    shift
    echo "setup: $reason; missing: $*. The CLI, 'make lint' and the unit tests still work;" \
        "'make demo' and the cluster tests need these." >&2
}

guard_daemons() {
    [ -e "$POLICY" ] && return
    printf '#!/bin/sh\nexit 101\n' >"$POLICY"
    chmod 755 "$POLICY"
    trap 'rm -f "$POLICY"' EXIT
    trap 'exit 130' INT TERM
}

apt() { DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"; }

have_candidates() { # PACKAGE...
    local found
    found=$(apt-cache policy "$@" | grep -c 'Candidate: [^(]') || true
    [ "$found" -eq $# ]
}

install_packages() { # PACKAGE...
    local log
    log=$(mktemp)
    have_candidates "$@" || apt update >"$log" 2>&1 || { cat "$log" >&2; rm -f "$log"; return 1; }
    # A package list that is old names versions that are gone: renew it once and try again.
    apt install --no-install-recommends "$@" >"$log" 2>&1 ||
        { apt update && apt install --no-install-recommends "$@"; } >"$log" 2>&1 ||
        { cat "$log" >&2; rm -f "$log"; return 1; }
    rm -f "$log"
}

# The packages enable their services for the next boot; only what this run brought in is disabled again.
disable_units() { # PACKAGE...
    local unit
    command -v systemctl >/dev/null || return 0
    for unit in $UNITS; do
        case " $* " in
            *" $unit "* | *" $unit-server "* | *" open$unit-server "*) systemctl --quiet disable "$unit" >/dev/null 2>&1 || true ;;
        esac
    done
}

main() {
    local check= groups=() wanted=() missing group variable
    for group in "$@"; do
        case $group in
            --check) check=yes ;;
            python | cluster | accounting) groups+=("$group") ;;
            *) echo "setup: unknown group '$group' (python, cluster, accounting)" >&2; exit 2 ;;
        esac
    done
    [ ${#groups[@]} -gt 0 ] || groups=(python cluster accounting)
    for group in "${groups[@]}"; do
        variable=PACKAGES_$group
        read -ra packages <<<"${!variable}"
        wanted+=("${packages[@]}")
    done

    is_debian || { say_what_works "this is not Debian" "${wanted[@]}"; exit 3; }
    mapfile -t missing < <(missing_packages "${wanted[@]}")
    [ ${#missing[@]} -gt 0 ] || exit 0
    [ -z "$check" ] || { say_what_works "not installed" "${missing[@]}"; exit 3; }
    [ "$(id -u)" -eq 0 ] || { say_what_works "not root" "${missing[@]}"; exit 3; }

    echo "setup: installing ${missing[*]}" >&2
    guard_daemons
    install_packages "${missing[@]}"
    disable_units "${missing[@]}"
}

main "$@"
