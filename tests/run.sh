#!/usr/bin/env bash
# Runs every test of the workspace, several test programs at a time: most of them wait most of the time.
#
#   tests/run.sh [PROGRAMS]      how many at a time (as many as there are processors unless given)
#
# Each of the PROGRAMS cargos goes through all test programs in cargo's order, with cargo's folder and
# environment, and runs those that no other one has claimed. The first one begins with the longest.
# The output of a program is printed whole when it ends. Documentation tests come last, and after them once more what
# the failed tests printed.
set -uo pipefail

# It emulates a machine for each test that it runs. Alone it keeps all processors busy, with a test
# more than there are processors, for each waits at times; beside others it would only take longer.
ALONE=vm
# It takes longest: begun late, it would run on when all others have ended.
LONGEST=kubernetes
PROGRAM_DEADLINE=45m

# Cargo calls back with the program to run: the claim is the folder, which only one call can make.
if [ "${1-}" = --claim ]; then
    shift
    program=${1##*/}
    claim=$VOLHOST_TEST_CLAIMS/$program
    mkdir "$claim" 2>/dev/null || exit 0
    TIMEFORMAT='%0R s (user %0U s, system %0S s)'
    # A program that hangs must end before the whole is given up, or its output would be lost with it:
    # the test harness names each test that has run for more than a minute.
    { time timeout --kill-after=10s "$PROGRAM_DEADLINE" "$@" >"$claim/output" 2>&1; } 2>"$claim/time"
    status=$?
    {
        flock 9
        echo
        echo "     Ran ${program%-*} in $(tail -n1 "$claim/time"), status $status"
        [ "$status" != 124 ] || echo "It was ended: a test program has $PROGRAM_DEADLINE."
        cat "$claim/output"
        [ "$status" = 0 ] || {
            echo
            echo "$program, status $status:"
            # From the harness' list of failures on; without one, the program was killed.
            grep -q '^failures:$' "$claim/output" && sed -n '/^failures:$/,$p' "$claim/output" || tail -n 40 "$claim/output"
        } >>"$VOLHOST_TEST_CLAIMS/failures"
    } 9>>"$VOLHOST_TEST_CLAIMS/lock"
    exit $status
fi

cd "$(dirname "$0")/.." || exit 1
programs=${1:-$(nproc)}

cargo test --workspace --tests --no-run --quiet || exit

VOLHOST_TEST_CLAIMS=$(mktemp -d)
export VOLHOST_TEST_CLAIMS
trap 'rm -rf "$VOLHOST_TEST_CLAIMS"' EXIT
runner="target.'cfg(unix)'.runner = ['$PWD/tests/run.sh', '--claim']"

# What cargo says on standard error is the same for each program run; its list of failed targets is
# printed at the end.
run() {
    cargo --config "$runner" test --workspace --no-fail-fast "${@:2}" 2>>"$VOLHOST_TEST_CLAIMS/job-$1"
}

# All test programs; before them, in the first job, the longest one.
job() {
    local failed=0
    [ "$1" != 1 ] || run "$1" --test "$LONGEST" || failed=1
    run "$1" --tests || failed=1
    return $failed
}

failed=0
run alone --test "$ALONE" -- --test-threads=$((programs + 1)) || failed=1
jobs=()
for number in $(seq "$programs"); do
    job "$number" &
    jobs+=($!)
done
for job in "${jobs[@]}"; do
    wait "$job" || failed=1
done
sed -n '/^error/,$p' "$VOLHOST_TEST_CLAIMS"/job-*

cargo test --workspace --no-fail-fast --doc || failed=1
cat "$VOLHOST_TEST_CLAIMS/failures" 2>/dev/null
exit $failed
