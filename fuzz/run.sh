#!/usr/bin/env bash
# Builds the fuzz targets and runs each, two at a time, on the committed corpus.
#
#   TIME=600 fuzz/run.sh [TARGET...]      seconds for each target (20 unless set); every target unless named
#   RUNS=20000 fuzz/run.sh [TARGET...]    so many inputs for each target, chosen alike in each run
#
# Works with stable Rust: libFuzzer finds its way by the compiler's coverage counters. What a run by
# time finds that the corpus lacks is kept beside the build, and the next one starts with it, too.
# An input that fails is written to fuzz/artifacts/TARGET/, and a run with that file repeats it:
#   fuzz/run.sh --repeat TARGET FILE
set -uo pipefail
cd "$(dirname "$0")" || exit 1

TIME=${TIME:-20}
RUNS=${RUNS-}
# Seconds for one input, and MiB of memory: a parser that needs more has a defect.
INPUT_SECONDS=10
INPUT_MIB=1024
HOST=$(rustc -vV | sed -n 's/^host: //p')
BUILT=${CARGO_TARGET_DIR:-../target}/fuzz

coverage=(--cfg fuzzing -Cpasses=sancov-module)
for option in level=4 inline-8bit-counters pc-table trace-compares; do
    coverage+=("-Cllvm-args=-sanitizer-coverage-$option")
done

# With --target, so that build scripts and macros are not instrumented.
if ! RUSTFLAGS="${coverage[*]}" CARGO_TARGET_DIR=$BUILT \
    cargo build --quiet --release --locked --target "$HOST"; then
    echo "if Cargo.lock is out of date: cargo update --workspace --manifest-path fuzz/Cargo.toml" >&2
    exit 1
fi
programs=$BUILT/$HOST/release

if [ "${1-}" = --repeat ]; then
    exec "$programs/$2" "$3"
fi

run() {
    local target=$1 found=$2/found/$1 log limits=(-max_total_time="$TIME")
    log=$(mktemp)
    if [ -n "$RUNS" ]; then
        # Neither the seed nor what earlier runs found may differ. (libFuzzer writes to the first folder.)
        found=$(mktemp -d)
        limits=(-runs="$RUNS" -seed=1)
    fi
    mkdir -p "$found" "artifacts/$target" "corpus/$target"
    "$3/$target" "${limits[@]}" -timeout=$INPUT_SECONDS -rss_limit_mb=$INPUT_MIB \
        -artifact_prefix="artifacts/$target/" -verbosity=1 "$found" "corpus/$target" >"$log" 2>&1
    local status=$?
    [ -z "$RUNS" ] || rm -rf "$found"
    if [ $status = 0 ]; then
        echo "$target: $(grep -o 'Done [0-9]* runs.*' "$log"), $(grep -o 'cov: [0-9]*' "$log" | tail -n 1)"
        rm -f "$log"
        return 0
    fi
    echo "$target: FAILED"
    tail -n 30 "$log"
    rm -f "$log"
    return 1
}
export -f run
export TIME RUNS INPUT_SECONDS INPUT_MIB RUST_BACKTRACE=0

if [ $# = 0 ]; then
    set -- fuzz_targets/*.rs
    set -- "${@##*/}"
    set -- "${@%.rs}"
fi
printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -c 'run {} "$@"' run "$BUILT" "$programs"
