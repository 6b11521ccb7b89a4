#!/bin/bash
# Run a command in this checkout with the folders above it open to every user, for this command alone: some tests
# run programs of the checkout as other users, and root's home is mostly closed to them. Needs root.
#   unshare --mount scripts/in-the-open.sh COMMAND [ARGUMENT...]
set -euo pipefail
cd "$(dirname "$0")/.."
checkout=$(pwd -P)

closed=""
for ((folder_end = 1; folder_end < ${#checkout}; folder_end++)); do
    [ "${checkout:folder_end:1}" = / ] || continue
    folder=${checkout:0:folder_end}
    if ! setpriv --reuid=65534 --regid=65534 --clear-groups test -x "$folder"; then
        closed=$folder
        break
    fi
done
if [ -n "$closed" ]; then
    # An empty folder takes the closed one's place in this mount namespace, with the checkout where it was.
    held=$(mktemp -d)
    mount --bind "$checkout" "$held"
    mount -t tmpfs -o mode=755 tmpfs "$closed"
    mkdir -p "$checkout"
    mount --move "$held" "$checkout"
    rmdir "$held"
    cd "$checkout"
fi
exec "$@"
