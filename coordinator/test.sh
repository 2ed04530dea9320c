#!/usr/bin/env bash
# Builds the coordinator and its targets, then: two on one campaign, deaths at
# each pause point, SIGTERM, crashes and hangs, a solver that claims by itself,
# a full disk. Needs clang, g++ and python3; SYMLEASE_LIB is the folder of
# libsymlease.a (else the release folder below CARGO_TARGET_DIR or ../target).
set -euo pipefail
cd "$(dirname "$0")"
lib=${SYMLEASE_LIB:-${CARGO_TARGET_DIR:-../target}/release}
[[ -e $lib/libsymlease.a ]] || { echo "no libsymlease.a in $lib: cargo build --release" >&2; exit 1; }
lib=$(cd "$lib" && pwd)
d=$(mktemp -d)
declare -a started=() mounted=()
cleanup() {
    local each
    for each in "${started[@]}"; do kill -KILL "$each" 2>/dev/null || true; done
    for each in "${mounted[@]}"; do umount "$each" || true; done
    rm -rf "$d"
}
trap cleanup EXIT
fail() { echo "coordinator: $*" >&2; tail -n 20 "$d"/*.log >&2 || true; exit 1; }

libs="$lib/libsymlease.a -lpthread -ldl -lm -lrt -lutil -lgcc_s"
W="-g -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -I../include"
solver=../adapters/solver
build() {
    local source objects=()
    for source in *.cpp; do
        ${CXX:-g++} -std=c++17 -O1 -g -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror \
            -I../include -I../adapters/sancov -c "$source" -o "$d/${source%.cpp}.o"
        [[ $source == verify.cpp ]] || objects+=("$d/${source%.cpp}.o")
    done
    # shellcheck disable=SC2086
    {
    ${CXX:-g++} "${objects[@]}" $libs -o "$d/coordinator"
    ${CXX:-g++} "$d"/{verify,target,files,process}.o $libs -o "$d/verify"
    clang $W -O2 -c $solver/symlease_i2s.c -o "$d/i2s.o"
    clang $W -O2 -c $solver/symlease_harness.c -o "$d/harness.o"
    clang $W -O2 -c ../adapters/sancov/symlease_sancov.c -o "$d/sancov.o"
    local name file
    for name in demo faulty; do
        file=$solver/target.c
        [[ $name == demo ]] || file=faulty_target.c
        clang $W -O0 -fsanitize-coverage=trace-cmp,trace-pc-guard -fno-builtin "$file" "$d/i2s.o" \
            @$solver/symlease_i2s.wrap $libs -o "$d/$name.solver"
        clang $W -O0 -fsanitize-coverage=trace-pc-guard "$file" "$d/harness.o" "$d/sancov.o" \
            -o "$d/$name.cov"
    done
    }
}
# start <campaign> <name> <options...>: in the background, its pid in $pid
start() {
    local c=$1 name=$2
    shift 2
    "$d/coordinator" --campaign "$c/campaign" --seeds "$c/seeds" --corpus "$c/corpus" \
        --owner "$name" --summary "$c/$name.json" --durability process "$@" 2>"$d/$name.log" &
    pid=$!
    started+=("$pid")
}
demo=(--target "$d/demo.cov" --solver "$d/demo.solver --timeout 1 @@" --ttl 3)
fresh() { # fresh <name>: a place with the demo's seed, in $c
    c=$d/$1
    mkdir -p "$c/seeds"
    printf 'ABCDEFGHIJKLMNOPQ185UVWX' >"$c/seeds/one"
}
value() { python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$@"; }
ended() { # ended <pid> <name>: with 0, within a minute
    local n
    for ((n = 0; n < 600; n++)); do
        kill -0 "$1" 2>/dev/null || { wait "$1" || fail "$2: exit code $?"; return 0; }
        sleep 0.1
    done
    fail "$2 does not end"
}
await() { # await <file>
    local n
    for ((n = 0; n < 300; n++)); do [[ -e $1 ]] && return 0; sleep 0.1; done
    fail "$1 does not come"
}
whole() { # whole <target>: nothing left over, the authority is the corpus's; $done_records
    done_records=$("$d/verify" "$c/campaign" "$c/corpus" "$1") || fail "verify of $c"
    local left
    left=$(find "$c" -name '*.tmp' -o -path '*/staging/*' -type f)
    [[ -z $left ]] || fail "left over: $left"
}
deep() { # byte 23 is 200, behind all the others
    python3 - "$c/corpus" <<'PY' || fail "the deep marker is not in $c/corpus"
import pathlib, sys
bodies = [p.read_bytes() for p in pathlib.Path(sys.argv[1]).iterdir()]
assert any(b[:4] == b"\x7f\x51\xad\x03" and b[10:20] == b"keyword742" and b[23] == 200 for b in bodies)
PY
}
digests() { # names in the corpus are their digests: nothing is there twice
    (cd "$1" && sha256sum -- *) | awk '$1 != $2 { exit 1 }' || fail "$1: a name is no digest"
}

two_coordinators() {
    fresh two
    start "$c" a "${demo[@]}" --once --jobs 2
    local first=$pid
    start "$c" b "${demo[@]}" --once
    ended "$first" a
    ended "$pid" b
    deep
    whole "$d/demo.cov"
    digests "$c/corpus"
    local name sum=0
    for name in a b; do sum=$((sum + $(value "$c/$name.json" completed) + $(value "$c/$name.json" replayed))); done
    [[ $sum == "$done_records" ]] || fail "$done_records records are done, counted are $sum"
    start "$c" again "${demo[@]}" --once
    ended "$pid" again
    [[ $(value "$c/again.json" completed) == 0 ]] || fail "work was done twice"
}

death_at() { # death_at <COMMIT|HOLD>
    fresh "death-$1"
    export "SYMLEASE_COORDINATOR_PAUSE_$1=$c/paused"
    start "$c" "dying-$1" "${demo[@]}"
    unset "SYMLEASE_COORDINATOR_PAUSE_$1"
    local dying=$pid at work counts
    await "$c/paused"
    read -r at work <"$c/paused"
    [[ $at == "$dying" ]] || fail "$c/paused names $at, not $dying"
    counts=$("$d/verify" "$c/campaign")
    [[ $1 != COMMIT || $counts == "0 1 0" ]] || fail "COMMIT: leased, committing, done are $counts"
    [[ $1 != HOLD || $counts == "1 0 1" ]] || fail "HOLD: leased, committing, done are $counts"
    compgen -G "$c/campaign/.work_lease_table/*/$work.json" >/dev/null || fail "no record $work"
    kill -KILL "$dying"
    wait "$dying" 2>/dev/null || true
    start "$c" "third-$1" "${demo[@]}" --once
    local third=$pid
    start "$c" "fourth-$1" "${demo[@]}" --once
    ended "$third" "third-$1"
    ended "$pid" "fourth-$1"
    deep
    start "$c" "fifth-$1" "${demo[@]}" --once # cleans what the dead one left
    ended "$pid" "fifth-$1"
    whole "$d/demo.cov"
    local name sum=0 replayed=0
    for name in third fourth; do
        sum=$((sum + $(value "$c/$name-$1.json" completed)))
        replayed=$((replayed + $(value "$c/$name-$1.json" replayed)))
    done
    [[ $1 != COMMIT || $replayed == 1 ]] || fail "COMMIT: $replayed commits were replayed"
    [[ $1 != HOLD || $((sum + 1)) == "$done_records" ]] || fail "HOLD: $sum + 1 of $done_records"
    [[ $1 != COMMIT || $((sum + 1)) == "$done_records" ]] || fail "COMMIT: $sum + 1 of $done_records"
}

terminated() {
    fresh terminated
    printf '#!/bin/sh\nsleep 600\n' >"$d/sleeper.sh"
    chmod +x "$d/sleeper.sh"
    start "$c" slow --target "$d/demo.cov" --solver "$d/sleeper.sh" --solver-kind symcc \
        --run-timeout 600 --ttl 30
    local n begun
    for ((n = 0; n < 100; n++)); do [[ $("$d/verify" "$c/campaign" 2>/dev/null) == "1 0 1" ]] && break; sleep 0.1; done
    begun=$SECONDS
    kill -TERM "$pid"
    ended "$pid" slow
    ((SECONDS - begun <= 5)) || fail "SIGTERM took $((SECONDS - begun)) s"
    [[ $(value "$c/slow.json" abandoned) == 1 ]] || fail "SIGTERM: nothing was abandoned"
    start "$c" next "${demo[@]}" --solver-kind symcc --solver "true" --once
    ended "$pid" next
}

faults() {
    fresh faults
    printf 'AAAABBBB' >"$c/seeds/one"
    start "$c" faults --target "$d/faulty.cov" --solver "$d/faulty.solver --timeout 1 @@" \
        --target-timeout 1 --once
    ended "$pid" faults
    whole "$d/faulty.cov"
    grep -q CRSH "$c"/crashes/* || fail "the crash was not kept"
    grep -q HANG "$c"/hangs/* || fail "the hang was not kept"
    grep -qr fine "$c/corpus" || fail "the good result is not in the corpus"
    (($(value "$c/faults.json" crashes) >= 1 && $(value "$c/faults.json" hangs) >= 1)) ||
        fail "crashes and hangs were not counted"
    # a solver that fails three times: the input is ended, and listed
    fresh failing
    printf '#!/bin/sh\nkill -9 $$\n' >"$d/failing.sh"
    chmod +x "$d/failing.sh"
    start "$c" failing --target "$d/demo.cov" --solver "$d/failing.sh" --solver-kind symcc --once
    ended "$pid" failing
    [[ $(value "$c/failing.json" failed_inputs) == *seeds/one* ]] || fail "the failed input is not listed"
    [[ $(value "$c/failing.json" solver_runs) == 3 ]] || fail "not three runs"
}

by_itself() { # a SymCC-like solver: stdin or a file, writes to SYMCC_OUTPUT_DIR
    fresh symcc
    # shellcheck disable=SC2016
    printf '#!/bin/sh\ntest -n "$SYMCC_MULTI_MASTER_TARGET_LEASE_DIR" || exit 9\n%s\n' \
        'if [ $# = 1 ]; then test "$1" = "$SYMCC_INPUT_FILE" || exit 9; else set -- /dev/stdin; test -z "$SYMCC_INPUT_FILE" || exit 9; fi
printf "\177\121\255\003" >"$SYMCC_OUTPUT_DIR/000000"; tail -c +5 "$1" >>"$SYMCC_OUTPUT_DIR/000000"
cp "$1" "$SYMCC_OUTPUT_DIR/000001"; exit 1' >"$d/symcc.sh"
    chmod +x "$d/symcc.sh"
    local how
    for how in "$d/symcc.sh" "$d/symcc.sh @@"; do
        rm -rf "$c/campaign" "$c/corpus"
        start "$c" symcc --target "$d/demo.cov" --solver "$how" --solver-kind symcc --once
        ended "$pid" symcc
        whole "$d/demo.cov"
        [[ $(find "$c/corpus" -type f | wc -l) == 2 ]] || fail "solver $how: the result is not published"
        [[ $(value "$c/symcc.json" target_groups_claimed) == 0 ]] || fail "a group was claimed"
    done
}

full_disk() {
    fresh full
    mkdir "$c/disk"
    mount -t tmpfs -o size=4m none "$c/disk" 2>/dev/null || { echo "coordinator: no mount, no full disk"; return 0; }
    mounted+=("$c/disk")
    mv "$c/seeds" "$c/disk/"
    c=$c/disk
    head -c 16m /dev/zero >"$c/filler" 2>/dev/null || true
    truncate -s -300K "$c/filler" # enough to begin, not enough to work
    start "$c" full "${demo[@]}" --time 20 --once
    sleep 3
    kill -0 "$pid" || fail "a full disk ended it"
    grep -q 'ERROR.*space' "$d/full.log" || fail "the full disk was not said"
    rm "$c/filler"
    ended "$pid" full
    start "$c" roomy "${demo[@]}" --once
    ended "$pid" roomy
    deep
    whole "$d/demo.cov"
}

build
two_coordinators
death_at COMMIT
death_at HOLD
terminated
faults
by_itself
full_disk
echo "coordinator: all ok"
