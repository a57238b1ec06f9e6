#!/bin/sh
# Writes the licences and notices of what is linked into volhost's programs and plugins, which go
# with every copy of them. deploy/deb.sh and deploy/image.sh run it.
#
#   deploy/notices.sh DIR
#
# DIR/third-party-notices.txt     the crates of crates.io
# DIR/rust-standard-library.html  the standard library
#
# The list is that of all programs and plugins: each file depends on Cargo.lock and the toolchain
# alone. The texts come from the sources that cargo builds.
set -eu
LC_ALL=C
export LC_ALL

fail() { echo "notices: $*" >&2; exit 1; }

[ $# = 1 ] || fail "it takes one folder; see the head of deploy/notices.sh"
out=$(realpath -m "$1")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Programs of packages, and those of images.
target=$(uname -m)-unknown-linux-gnu
static_target=$(uname -m)-unknown-linux-musl
plugin_target=wasm32-unknown-unknown

library=$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html
[ -f "$library" ] || fail "$library is missing, the notices of Rust's standard library: rustup's toolchains have it"

# --- which crates are linked: CRATE vVERSION|LICENCE|REPOSITORY ---

# Macros and build scripts run in the compiler; they are in no program.
linked() { # TARGET OPTION...
    cargo tree --quiet --locked --edges normal,no-proc-macro --prefix none --format '{p}|{l}|{r}' --target "$@" ||
        fail "cargo does not say what is linked"
}
for programs in "$target" "$static_target"; do
    linked "$programs" -p volhost -p volhostd -p volhost-controller -p volhost-kubectl
done >"$work/linked"
set --
for manifest in plugins/*/Cargo.toml; do
    set -- "$@" -p "$(sed -n 's/^name = "\(.*\)"/\1/p' "$manifest" | head -n 1)"
done
linked $plugin_target "$@" >>"$work/linked"
# cargo marks a crate that it has printed before; volhost's own crates have a path.
sed 's/ (\*)$//' "$work/linked" | grep -v -e ' (/' -e '^$' | sort -u >"$work/crates"

# --- their texts: CRATE vVERSION|LICENCE|REPOSITORY|FILE, a line a file ---

cargo metadata --quiet --locked --format-version 1 --filter-platform "$target" --filter-platform "$static_target" \
    --filter-platform $plugin_target >"$work/metadata" || fail "cargo does not say where its sources are"
grep -o '"manifest_path":"[^"]*/Cargo.toml"' "$work/metadata" | sed 's,.*":"\(.*\)/Cargo.toml",\1,' >"$work/folders"
while IFS='|' read -r crate licence repository; do
    folder=$(grep "/${crate% v*}-${crate##* v}\$" "$work/folders") || fail "the source of $crate is not where cargo keeps crates"
    find "$folder" -type f ! -name '*.rs' \
        -iregex '.*/\(un\)?\(licen[cs]e\|copying\|copyright\|notice\)[^/]*\|.*/\.?licen[cs]es/[^/]*' | sort >"$work/found"
    [ -s "$work/found" ] || echo >"$work/found"
    while read -r file; do
        echo "$crate|$licence|$repository|$file"
    done <"$work/found"
done <"$work/crates" >"$work/files"

# --- the list, and each text once ---

cut -d'|' -f4 "$work/files" | sed "s,^\$,/dev/null," | xargs -d '\n' sha256sum | cut -d' ' -f1 | paste -d'|' "$work/files" - |
    awk -F'|' -v texts="$work/texts" '
        function text(digest, file) {
            if (!(digest in number)) { number[digest] = ++last; print file >texts }
            return " " number[digest]
        }
        !($1 in licence) { order[++crates] = $1; licence[$1] = $2; repository[$1] = $3 }
        $4 != "" {
            own[$1] = own[$1] text($5, $4)
            # The first crate of a repository that has texts: those without any have these.
            if ($3 != "" && !($3 in first)) first[$3] = $1
            # The text of this licence names no author.
            if ($1 ~ /^wasmtime v/) common["Apache-2.0 WITH LLVM-exception"] = own[$1]
        }
        END {
            for (i = 1; i <= crates; i++) {
                crate = order[i]
                found = own[crate]
                if (found == "") found = own[first[repository[crate]]]
                if (found == "") found = common[licence[crate]]
                if (found == "" && licence[crate] == "Apache-2.0") found = text("LICENSE", "LICENSE")
                if (found == "") { print crate " has no text of its licence (" licence[crate] ")" >"/dev/stderr"; missing = 1 }
                sub(/ v/, " ", crate)
                print crate " (" licence[order[i]] "):" found
            }
            exit missing
        }' >"$work/list" || fail "the list is not whole"

mkdir -p "$out"
{
    echo "volhost and its plugins are linked with the packages of this list. Each line has a package, its
version, its licence, and the numbers of its texts, which follow the list.
"
    cat "$work/list"
    number=0
    while read -r file; do
        number=$((number + 1))
        printf '\n======== text %s ========\n\n' $number
        cat "$file"
    done <"$work/texts"
} >"$out/third-party-notices.txt"
cp "$library" "$out/rust-standard-library.html"
