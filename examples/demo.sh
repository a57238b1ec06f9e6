#!/bin/sh
# Starts volhost on the manifests of this folder, in a mount namespace and a root folder of its own,
# shows the volumes, and unmounts everything again. On a terminal it runs until Ctrl-C.
#
#   VOLHOST_BIN=target/debug/volhost VOLHOST_PLUGIN_DIR=target/plugins examples/demo.sh
set -eu

say() { printf '%s\n' "$*"; }
die() { printf 'demo: %s\n' "$*" >&2; exit 1; }

binary=${VOLHOST_BIN:-target/debug/volhost}
folder=${VOLHOST_PLUGIN_DIR:-target/plugins}
volhost=$(readlink -e "$binary") || die "$binary does not exist; run \`make build\`, or \`make demo\` for all of it"
plugins=$(readlink -e "$folder") || die "$folder does not exist; run \`make plugins\`, or \`make demo\` for all of it"
examples=$(dirname "$(readlink -f "$0")")

# The folder of the examples' hostPath and local volumes. It is a mount only inside the namespace.
scratch=/tmp/volhost-demo

if [ "${VOLHOST_DEMO_INSIDE:-}" = "" ]; then
    command -v unshare >/dev/null || die "unshare is missing; install util-linux"
    if [ "$(id -u)" -eq 0 ]; then
        as=
    else
        say "You are not root. Trying a user namespace: in it you are root over mounts that only the demo sees."
        if ! unshare --user --map-root-user --mount true 2>/dev/null; then
            say "This machine does not let you make one (see /proc/sys/user/max_user_namespaces, and"
            say "kernel.unprivileged_userns_clone or kernel.apparmor_restrict_unprivileged_userns)."
            say "What works without privileges: \`cargo test -p volhost-core -p volhost-model -p volhost-runtime\`, and"
            say "\`$1 plugin inspect $2/empty-dir.wasm\`. For the demo, run \`sudo make demo\`."
            exit 1
        fi
        as="--user --map-root-user"
    fi
    mkdir "$scratch" 2>/dev/null || die "$scratch exists: another demo is running, or one was killed (then: rmdir $scratch)"
    trap 'rmdir "$scratch" 2>/dev/null || true' EXIT
    # The inner shell handles Ctrl-C; this one only cleans up after it.
    trap : INT TERM
    # shellcheck disable=SC2086 # $as is two words or none
    VOLHOST_DEMO_INSIDE=1 VOLHOST_BIN=$volhost VOLHOST_PLUGIN_DIR=$plugins unshare $as --mount --propagation private "$0"
    exit $?
fi

mount -t tmpfs -o mode=0755 volhost-demo "$scratch"
mkdir "$scratch/root" "$scratch/disk1"
echo "hello from the disk" > "$scratch/disk1/greeting"
export VOLHOST_SOCKET="$scratch/volhost.sock"
log="$scratch/volhost.log"
ready="$scratch/ready"
mkfifo "$ready"

# In a session of its own, so that Ctrl-C reaches this script alone, which then unmounts the
# volumes.
setsid "$volhost" run --root-dir "$scratch/root" --cache-dir "$scratch/cache" --plugin-dir "$plugins" --manifests "$examples" \
    --node-name demo-node --ready-file /proc/self/fd/3 3>"$ready" >"$log" 2>&1 &
daemon=$!

finish() {
    trap : INT TERM
    say
    say "Unmounting the volumes ..."
    status=0
    "$volhost" drain --timeout 60s || status=$?
    kill "$daemon" 2>/dev/null || true
    wait "$daemon" || true
    [ "$status" -eq 0 ] || { cat "$log" >&2; exit "$status"; }
    left=$(awk -v root="$scratch/root" 'index($5, root) == 1 { print $5 }' /proc/self/mountinfo)
    [ -z "$left" ] || die "mounts are left: $left"
    umount "$scratch"
    say "Done: nothing is left behind."
}

# The daemon writes a line when it serves, or closes the pipe when it ends.
read -r line <"$ready" || { cat "$log" >&2; die "volhost ended before it was ready; its log is above"; }
say "volhost runs: node demo-node, root folder $scratch/root"

stop=0
trap 'stop=1' INT TERM
for pod in $("$volhost" get pods | awk 'NR > 1 { print $1 "/" $2 }'); do
    # Every plugin is compiled first, which takes a busy machine a while.
    "$volhost" wait pod "$pod" --timeout 3m || { cat "$log" >&2; exit 1; }
done
say
"$volhost" get pods
say
"$volhost" get volumes
say
say "The kernel's view:"
awk -v root="$scratch/root" 'index($5, root "/pods") == 1 { i = index($0, " - "); split(substr($0, i + 3), fs, " "); printf "  %-6s %-12s %s\n", fs[1], $6, $5 }' /proc/self/mountinfo

if [ -t 1 ] && [ -t 0 ] && [ "$stop" -eq 0 ]; then
    say
    say "volhost still runs. In another terminal, as root:"
    say "  nsenter -t $daemon -m env VOLHOST_SOCKET=$VOLHOST_SOCKET $volhost get volumes -w"
    say "  nsenter -t $daemon -m env VOLHOST_SOCKET=$VOLHOST_SOCKET $volhost describe pod default/scratch"
    say "  edit a manifest in $examples and see it take effect"
    say "Ctrl-C removes everything."
    wait "$daemon" || true
fi
finish
