#!/bin/sh
# Installs what was built: programs, plugins, units, configuration, completions, manual pages, a
# Grafana dashboard, alerts for Prometheus, and the schema of JSON output.
# `make install` and deploy/deb.sh run it.
#
#   deploy/install.sh [--from DIR] [--destdir DIR] [--prefix DIR]
#
# --from DIR     where cargo put the programs [default: target/release]
# --destdir DIR  the root of the machine that is installed to [default: /]
# --prefix DIR   [default: /usr/local]
#
# SIGNING_KEY is the file of the secret key that signs the plugins (`volhost plugin key new`), and
# SIGNING_PASSWORD_FILE has its password. Without a key the plugins are not signed.
#
# A configuration file that exists is kept.
set -eu

from=target/release
destdir=
prefix=/usr/local

fail() { echo "install: $*" >&2; exit 1; }

while [ $# -gt 0 ]; do
    case $1 in
    --from | --destdir | --prefix) [ $# -ge 2 ] || fail "$1 needs a folder" ;;
    *) fail "unknown option $1; see the head of deploy/install.sh" ;;
    esac
    case $1 in
    --from) from=$2 ;;
    --destdir) destdir=${2%/} ;;
    --prefix) prefix=${2%/} ;;
    esac
    shift 2
done
case $prefix in
/*) ;;
*) fail "the prefix $prefix is no absolute path" ;;
esac

# A path is meant from where this was called.
signing_key=${SIGNING_KEY:+$(realpath -m "$SIGNING_KEY")}
signing_password=${SIGNING_PASSWORD_FILE:+$(realpath -m "$SIGNING_PASSWORD_FILE")}
from=$(realpath -m "$from")
[ -z "$destdir" ] || destdir=$(realpath -m "$destdir")
cd "$(dirname "$0")/.."

# Cargo's target folder is above that of the profile, and above that of another compilation target;
# plugins are always in the checkout's.
list=$(dirname "$(dirname "$from")")/shipped-plugins.sha256
[ -f "$list" ] || list=$(dirname "$from")/shipped-plugins.sha256
for needed in "$from/volhost" "$from/volhostd" "$from/volhost-controller" "$from/kubectl-volhost"; do
    [ -f "$needed" ] || fail "$needed is not built; run make install, or give its folder with --from"
done
[ -f "$list" ] || fail "$list, the list of the plugins, is missing; run make plugins"
# The list gives these files their rights: a plugin of another build would be refused at the start.
(cd target/plugins && sha256sum --quiet --strict -c "$list") ||
    fail "target/plugins and $list are not of one build; run make plugins"

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

# Signed before anything is installed, so that a wrong password leaves the machine as it is.
if [ -n "$signing_key" ]; then
    mkdir "$made/plugins"
    while read -r _ plugin; do
        cp "target/plugins/$plugin" "$made/plugins/"
    done <"$list"
    set -- --key "$signing_key" ${signing_password:+--password-file "$signing_password"}
    "$from/volhost" plugin key public "$@" >"$made/volhost.pub" || fail "the plugins cannot be signed with $signing_key"
    "$from/volhost" plugin sign "$@" "$made"/plugins/*.wasm >/dev/null || fail "the plugins cannot be signed with $signing_key"
else
    # A key that is made here and thrown away would vouch for nothing: who changes the plugins could
    # make one as well.
    echo "install: the plugins are not signed, since SIGNING_KEY names no key; their digests are in $prefix/lib/volhost/shipped-plugins.sha256" >&2
fi

put() { # MODE FILE PLACE
    install -D -m "$1" "$2" "$destdir$3"
}
# Paths of the prefix in a text.
put_text() { # FILE PLACE
    install -d "$destdir$(dirname "$2")"
    sed "s,/usr/local,$prefix,g" "$1" >"$destdir$2"
    chmod 0644 "$destdir$2"
}

for program in volhost volhostd volhost-controller kubectl-volhost; do
    put 0755 "$from/$program" "$prefix/bin/$program"
    "${STRIP:-strip}" --strip-unneeded --remove-section=.comment --remove-section=.note "$destdir$prefix/bin/$program"
done

# The list first: the daemon that runs meanwhile takes no plugin that is not in it.
put 0644 "$list" "$prefix/lib/volhost/shipped-plugins.sha256"
while read -r _ plugin; do
    signature=$prefix/lib/volhost/plugins/$plugin.minisig
    # The signature before the plugin, which is refused with that of another build.
    if [ -n "$signing_key" ]; then put 0644 "$made/plugins/$plugin.minisig" "$signature"; else rm -f "$destdir$signature"; fi
    put 0644 "target/plugins/$plugin" "$prefix/lib/volhost/plugins/$plugin"
done <"$list"

put_text deploy/volhost.service "$prefix/lib/systemd/system/volhost.service"
put_text deploy/volhost-docker.service "$prefix/lib/systemd/system/volhost-docker.service"
put_text deploy/volhost-volume@.service "$prefix/lib/systemd/system/volhost-volume@.service"
put_text deploy/volhost-node-agent.service "$prefix/lib/systemd/system/volhost-node-agent.service"

put 0644 deploy/grafana/volhost.json "$prefix/share/volhost/grafana/volhost.json"
put 0644 deploy/prometheus/volhost.rules.yml "$prefix/share/volhost/prometheus/volhost.rules.yml"
put 0644 deploy/schema/volhost.io-v1.json "$prefix/share/volhost/schema/volhost.io-v1.json"

install -d -m 0755 "$destdir/etc/volhost" "$destdir/etc/volhost/manifests" "$destdir/etc/volhost/trusted-keys"
[ -z "$signing_key" ] || put 0644 "$made/volhost.pub" /etc/volhost/trusted-keys/volhost.pub
if [ -e "$destdir/etc/volhost/config.toml" ]; then
    echo "install: $destdir/etc/volhost/config.toml exists and is kept; deploy/config.toml is the new one"
else
    put_text deploy/config.toml /etc/volhost/config.toml
fi

for shell in bash zsh fish; do
    "$from/volhost" completions $shell >"$made/$shell"
done
put 0644 "$made/bash" "$prefix/share/bash-completion/completions/volhost"
put 0644 "$made/fish" "$prefix/share/fish/vendor_completions.d/volhost.fish"
# Debian's zsh looks for those of packages in a folder of their own.
case $prefix in
/usr) put 0644 "$made/zsh" /usr/share/zsh/vendor-completions/_volhost ;;
*) put 0644 "$made/zsh" "$prefix/share/zsh/site-functions/_volhost" ;;
esac

"$from/volhost" man --dir "$made/man"
"$from/kubectl-volhost" man >"$made/man/kubectl-volhost.1"
for page in "$made"/man/*.1; do
    gzip -9n "$page"
    put 0644 "$page.gz" "$prefix/share/man/man1/$(basename "$page").gz"
done
# `volhost run` becomes the daemon: the page of both.
ln -sf volhost-run.1.gz "$destdir$prefix/share/man/man1/volhostd.1.gz"
