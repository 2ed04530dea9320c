#!/usr/bin/env bash
# Builds the coordinator and its targets, then: two on one campaign, deaths at
# each pause point, signals, crashes and hangs, a solver that claims by itself,
# programs that are missing or replaced, places that cannot be used, a full disk.
# With AFL++: its queues read, what is found published as a sync peer.
# `test.sh NAME...`: those tests alone. Needs clang, g++, python3 and afl++; SYMLEASE_LIB is the folder of
# libsymlease.a (else the release folder below CARGO_TARGET_DIR or ../target).
set -euo pipefail
cd "$(dirname "$0")"
lib=${SYMLEASE_LIB:-${CARGO_TARGET_DIR:-../target}/release}
[[ -e $lib/libsymlease.a ]] || { echo "no libsymlease.a in $lib: cargo build --release" >&2; exit 1; }
lib=$(cd "$lib" && pwd)
d=$(mktemp -d)
chmod 711 "$d"
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
        [[ $source == verify.cpp || $source == afl_units.cpp ]] || objects+=("$d/${source%.cpp}.o")
    done
    # shellcheck disable=SC2086
    {
    ${CXX:-g++} "${objects[@]}" $libs -o "$d/coordinator"
    ${CXX:-g++} "$d"/{verify,target,build,files,process}.o $libs -o "$d/verify"
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
symcc() { # the adapter, and a target of the stand-in runtime: to solve, and to measure
    [[ ! -e $d/standin ]] || return 0
    local s=../adapters/symcc/standin
    # shellcheck disable=SC2086
    {
    SYMLEASE_LIB=$lib sh ../adapters/symcc/build.sh "$d"
    ${CXX:-g++} -std=c++17 -g -O1 -I$s -fPIC -shared $s/runtime.cpp $s/trace_map.cpp -o "$d/libsymcc-rt.so"
    ${CXX:-g++} -std=c++17 -g -O1 -I$s -DSITES=0x55aa12340000ul $s/target.cpp -L"$d" -Wl,-rpath,"$d" \
        -lsymcc-rt -o "$d/standin"
    clang++ -std=c++17 -g -O0 -DPLAIN -fsanitize-coverage=trace-pc-guard $s/target.cpp "$d/harness.o" \
        "$d/sancov.o" -o "$d/standin.cov"
    }
}
# start <campaign> <name> <options...>: in the background, its pid in $pid;
# $corpus, $summary: other places; ${under[@]}: a command that it runs under
declare -a under=()
start() {
    local c=$1 name=$2
    shift 2
    "${under[@]}" "$d/coordinator" --campaign "$c/campaign" --seeds "$c/seeds" \
        --corpus "${corpus:-$c/corpus}" --owner "$name" --summary "${summary:-$c/$name.json}" \
        --durability process "$@" 2>"$d/$name.log" &
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
ended() { exits 0 "$@"; }
exits() { # exits <code> <pid> <name>: within two minutes
    local n code=0
    for ((n = 0; n < 1200; n++)); do
        kill -0 "$2" 2>/dev/null || {
            wait "$2" || code=$?
            [[ $code == "$1" ]] || fail "$3: exit code $code, not $1"
            return 0
        }
        sleep 0.1
    done
    fail "$3 does not end"
}
until_true() { # until_true <words> <command...>: within a minute
    local n words=$1
    shift
    for ((n = 0; n < 600; n++)); do "$@" && return 0; sleep 0.1; done
    fail "$words"
}
await() { until_true "$1 does not come" compgen -G "$1" >/dev/null; }
says() { # says <name> <words>: once it is said
    until_true "$1 does not say: $2" grep -q -e "$2" "$d/$1.log"
}
counts_are() { [[ $("$d/verify" "$c/campaign" 2>/dev/null) == "$*" ]]; }
done_is() { [[ $("$d/verify" "$c/campaign" 2>/dev/null) == *" $1" ]]; }
records() { until_true "leased, committing, done do not become $*" counts_are "$@"; }
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
    start "$c" "dying-$1" "${demo[@]:0:4}" --ttl 86400
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
    # Its TTL is a day: its session says that it is dead (D1).
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
    local begun
    records 1 0 1
    begun=$SECONDS
    kill -TERM "$pid"
    ended "$pid" slow
    ((SECONDS - begun <= 5)) || fail "SIGTERM took $((SECONDS - begun)) s"
    [[ $(value "$c/slow.json" abandoned) == 1 ]] || fail "SIGTERM: nothing was abandoned"
    start "$c" next --target "$d/demo.cov" --solver-kind symcc --solver "true" --once
    ended "$pid" next
}

faults() {
    fresh faults
    printf 'AAAABBBB' >"$c/seeds/one"
    start "$c" faults --target "$d/faulty.cov" --solver "$d/faulty.solver --timeout 1 @@" \
        --target-timeout 1 --hangs "$c/slow" --once
    ended "$pid" faults
    whole "$d/faulty.cov"
    grep -q CRSH "$c"/crashes/* || fail "the crash was not kept"
    grep -q HANG "$c"/slow/* || fail "the hang was not kept"
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

solvings() { stat -c %s "$c/solvings" 2>/dev/null || echo 0; }
reached() { # everything the stand-in's target has
    local each
    for each in '\AS' '\A.{4}loop' '\A.{8}wrap' '\A.{12}[\xc9-\xff]'; do
        LC_ALL=C grep -lrPz "$each" "$c/corpus" >/dev/null || fail "$c/corpus: nothing with $each"
    done
}
by_adapter() { # a SymCC-built solver with the adapter: each target once, over inputs, processes and deaths
    symcc
    local standin=(--target "$d/standin.cov" --solver "$d/standin @@" --ttl 3) adapter=(--symcc-adapter "$d/libsymlease-symcc.so")
    fresh usual
    export STANDIN_LOG=$c/solvings
    start "$c" usual "${standin[@]}" --solver-kind symcc --once
    ended "$pid" usual
    reached
    local usual
    usual=$(solvings)
    fresh adapter
    export STANDIN_LOG=$c/solvings
    start "$c" a "${standin[@]}" "${adapter[@]}" --once --jobs 2
    local first=$pid
    start "$c" b "${standin[@]}" "${adapter[@]}" --once
    ended "$first" a
    ended "$pid" b
    reached
    whole "$d/standin.cov"
    digests "$c/corpus"
    local targets all
    targets=$(cat "$c"/campaign/.symcc/digests/* | grep -c .)
    all=$(solvings)
    # What has no solution is tried from each input; what has one is solved once.
    ((all < usual / 2)) || fail "$all solvings, without the adapter $usual"
    [[ $(cat "$c"/campaign/.symcc/digests/* | grep . | sort -u | wc -l) == "$targets" ]] || fail "a target was solved twice"
    [[ -z $(ls "$c/campaign/.symcc/inputs") ]] || fail "inputs are left in $c/campaign/.symcc/inputs"
    [[ $(value "$c/a.json" errors) == 0 && $(value "$c/b.json" errors) == 0 ]] || fail "errors with the adapter"
    # killed while it solves: what is staged is published by the next, its targets are not solved again
    fresh adapter-killed
    export STANDIN_LOG=$c/solvings STANDIN_SOLVE_US=500000
    start "$c" killed "${standin[@]}" "${adapter[@]}"
    await "$c/campaign/.symcc/inputs/*/????????*"
    kill -KILL "$pid"
    wait "$pid" 2>/dev/null || true
    unset STANDIN_SOLVE_US
    local staged
    staged=$(find "$c"/campaign/.symcc/inputs -type f -printf '%f\n')
    start "$c" next "${standin[@]}" "${adapter[@]}" --once
    ended "$pid" next
    local each
    for each in $staged; do [[ -e $c/corpus/$each ]] || fail "the staged input $each is lost"; done
    reached
    [[ $(cat "$c"/campaign/.symcc/digests/* | grep . | sort | uniq -d | wc -l) == 0 ]] || fail "a target was solved twice"
    [[ -z $(ls "$c/campaign/.symcc/inputs") ]] || fail "inputs of done work are left"
    unset STANDIN_LOG
    # not in force: said
    fresh adapter-off
    start "$c" off --target "$d/standin.cov" --solver "/bin/cat @@" "${adapter[@]}" --once
    ended "$pid" off
    grep -q 'ERROR: --symcc-adapter is not in force: .*hooks NOT live: no SymCC runtime in cat' "$d/off.log" ||
        fail "an adapter without a runtime was not said"
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

another_seed() { printf '\177\121\255\003EFGHIJKLMNOPQ185UVWX%s' "$1" >"$c/seeds/$1"; }
over() { cp "$1" "$2.new" && mv "$2.new" "$2"; } # over <program> <place>: as a build system does

missing_target() { # is no input's fault: said, given back, tried again
    fresh missing
    cp "$d/demo.cov" "$c/target"
    start "$c" missing --target "$c/target"
    records 0 0 1
    rm "$c/target"
    another_seed two
    says missing "ERROR: import .*/two: .*No such file"
    head -c 9000 "$d/demo.cov" >"$c/target" # half of it is linked
    chmod +x "$c/target"
    another_seed three
    says missing "ERROR: import .*is being replaced" &
    local asks=$!
    for _ in {1..600}; do # grows all the time, until that is said
        kill -0 "$asks" 2>/dev/null || break
        echo >>"$c/target"
        sleep 0.1
    done
    wait "$asks" || fail "a target that is being written was judged"
    over "$d/demo.cov" "$c/target" # the same build: another file
    records 0 0 3
    kill -TERM "$pid"
    ended "$pid" missing
    [[ $(value "$c/missing.json" failed_inputs) == "[]" ]] || fail "an input was ended for a missing target"
    whole "$d/demo.cov"
}

replaced_target() { # its counts belong into another map (C6)
    fresh replaced
    cp "$d/demo.cov" "$c/target"
    start "$c" replaced --target "$c/target"
    records 0 0 1
    over "$d/faulty.cov" "$c/target"
    another_seed two
    exits 4 "$pid" replaced
    grep -q 'ERROR: target .* is another build now' "$d/replaced.log" || fail "it was not said why"
    done_is 1 || fail "work was done with another build"
    start "$c" back --target "$d/demo.cov" --once
    ended "$pid" back
    whole "$d/demo.cov"
    start "$c" other --target "$c/target"
    exits 1 "$pid" other
    grep -q 'another build needs another campaign' "$d/other.log" || fail "it was not said what to do"
    # in the middle of a run
    local how
    for how in over cp; do
        fresh "during-$how"
        printf 'HANGxxxx' >"$c/seeds/one"
        cp "$d/faulty.cov" "$c/target"
        start "$c" during --target "$c/target" --target-timeout 4
        await "$c/campaign/staging/*/counts-0"
        if [[ $how == cp ]]; then rm "$c/target"; fi # it runs: no writing in place
        $how "$d/demo.cov" "$c/target"
        exits 4 "$pid" during
        [[ -z $(ls "$c/hangs") ]] || fail "a run counts that saw the target replaced"
        done_is 0 || fail "work was done with another build"
    done
    # a solver: its work ids name its build
    fresh solver
    printf '#!/bin/sh\nsleep 3\n' >"$c/solver"
    chmod +x "$c/solver"
    start "$c" solver --target "$d/demo.cov" --solver "$c/solver" --solver-kind symcc
    await "$c/campaign/staging/*/*/log"
    over "$d/failing.sh" "$c/solver"
    exits 4 "$pid" solver
    done_is 1 || fail "a replaced solver's work is done"
}

places() { # what cannot work is said at start
    fresh places
    local elsewhere
    elsewhere=$(mktemp -d -p /dev/shm)
    if [[ $(stat -c %d "$elsewhere") != "$(stat -c %d "$c")" ]]; then
        corpus=$elsewhere/corpus start "$c" far "${demo[@]}" --once
        exits 1 "$pid" far
        grep -q "$elsewhere/corpus is not on the campaign's file system" "$d/far.log" || fail "not said"
    fi
    rm -rf "$elsewhere"
    summary=$c/nowhere/x.json start "$c" nowhere "${demo[@]}" --once
    exits 1 "$pid" nowhere
    grep -q "create $c/nowhere/x.json" "$d/nowhere.log" || fail "the summary's place was not said"
    counts_are || fail "a campaign was begun"
    mkdir "$c/gone"
    summary=$c/gone/x.json start "$c" gone --target "$d/demo.cov"
    records 0 0 1
    rmdir "$c/gone"
    kill -TERM "$pid"
    exits 5 "$pid" gone
    start "$c" wrong --target "$d/demo.cov" --solver "$d/demo.cov @@" --once
    exits 1 "$pid" wrong
    grep -q 'not one of kind i2s' "$d/wrong.log" || fail "the wrong solver was not said"
    printf '#!/bin/sh\nexit 127\n' >"$c/no-library"
    chmod +x "$c/no-library"
    start "$c" no-library --target "$d/demo.cov" --solver "$c/no-library" --solver-kind symcc --once
    exits 5 "$pid" no-library
    done_is 1 || fail "what the solver did not run on is done"
}

privileges() { # as one who may not write or read everything, nor start all it wants
    ((EUID == 0)) || { echo "coordinator: not root, no other user"; return 0; }
    command -v setpriv >/dev/null && command -v prlimit >/dev/null || return 0
    under=(setpriv --reuid=54321 --regid=54321 --clear-groups)
    fresh privileges
    mkdir -p "$c"/{campaign,corpus,crashes,hangs}
    chmod 777 "$c" "$c"/{campaign,crashes,hangs}
    start "$c" closed --target "$d/demo.cov" --once
    exits 1 "$pid" closed
    grep -q "publish into $c/corpus: Permission denied" "$d/closed.log" || fail "not said"
    chmod 777 "$c/corpus"
    another_seed secret
    chmod 0 "$c/seeds/secret"
    start "$c" secret --target "$d/demo.cov" --once
    exits 5 "$pid" secret
    [[ $(grep -c 'ERROR: input: open .*secret: Permission denied' "$d/secret.log") == 1 ]] ||
        fail "an input that cannot be read is not said once"
    local most
    for most in 1 2 3; do
        rm -rf "$c/campaign"
        mkdir -m 777 "$c/campaign"
        under=(setpriv --reuid=54321 --regid=54321 --clear-groups prlimit "--nproc=$most")
        start "$c" "few-$most" --target "$d/demo.cov" --jobs 2 --time 2
        exits "$((most < 3 ? 1 : 5))" "$pid" "few-$most"
        grep -q 'start .*thread.*Resource\|fork for.*Resource' "$d/few-$most.log" || fail "not said what"
    done
    grep -q 'job 2 of 2.*going on with 1' "$d/few-3.log" || fail "it does not go on with one job"
    under=()
}

signals() {
    printf '#!/bin/sh\nsleep 600\n' >"$d/sleeper.sh"
    chmod +x "$d/sleeper.sh"
    fresh early # before the campaign is open
    start "$c" early --target "$d/sleeper.sh" --target-timeout 600
    await "$c/campaign/staging/*/counts"
    kill -TERM "$pid"
    exits 1 "$pid" early
    grep -q 'before it began' "$d/early.log" || fail "an early signal: nothing was said"
    fresh nohup
    under=(env --ignore-signal=HUP --ignore-signal=INT)
    start "$c" nohup --target "$d/demo.cov"
    under=()
    records 0 0 1
    kill -HUP "$pid"
    kill -INT "$pid"
    another_seed two
    records 0 0 2
    kill -TERM "$pid"
    ended "$pid" nohup
    under=(env --default-signal=HUP --default-signal=INT)
    local each
    for each in HUP INT; do
        start "$c" "by-$each" --target "$d/demo.cov"
        says "by-$each" "owner by-$each"
        kill "-$each" "$pid"
        ended "$pid" "by-$each"
    done
    under=()
}

seeds() { # what is passed over is said
    fresh seeds
    mkdir -p "$c/seeds/queue" "$c/more"
    another_seed two
    mv "$c/seeds/two" "$c/more/"
    ln -s "$c/more/two" "$c/seeds/linked"
    ln -s "$c/more/none" "$c/seeds/dangling"
    mkfifo "$c/seeds/fifo"
    : >"$c/seeds/empty"
    echo hidden >"$c/seeds/.state"
    start "$c" seeds --target "$d/demo.cov" --once
    ended "$pid" seeds
    grep -q 'seeds: 2 taken, passed over: 1 empty, 1 directories, 1 hidden (\.\*), 1 dangling links, 1 no regular files$' \
        "$d/seeds.log" || fail "it was not said what was passed over"
    counts_are 0 0 2 || fail "not both seeds were taken"
    fresh none
    rm "$c/seeds/one"
    start "$c" none --target "$d/demo.cov" --once
    exits 1 "$pid" none
    start "$c" waits --target "$d/demo.cov"
    says waits 'ERROR: no input'
    kill -TERM "$pid"
    exits 5 "$pid" waits
}

arguments() { # each is refused, with words
    fresh arguments
    local words
    while IFS='|' read -r -a words; do
        # shellcheck disable=SC2086
        start "$c" argument --target "$d/demo.cov" ${words[0]}
        exits 2 "$pid" "${words[0]}"
        grep -qF -e "${words[1]}" "$d/argument.log" || fail "${words[0]}: does not say ${words[1]}"
    done <<'END'
--jobs 2.5|--jobs: "2.5" is no whole number from 1 to 1024
--jobs 0|--jobs: "0" is no whole number from 1 to 1024
--jobs -1|--jobs: "-1" is no whole number from 1 to 1024
--ttl 5x|--ttl: "5x" is no number from 0.1 to 86400
--ttl nan|--ttl: "nan" is no number from 0.1 to 86400
--ttl 5 --ttl 6|--ttl: given twice
--target other|--target: given twice
--once --once|--once: given twice
--colour|--colour: not known
--symcc-adapter /etc/passwd|--symcc-adapter: needs a --solver
--solver true --symcc-adapter /nowhere/x.so|--symcc-adapter: /nowhere/x.so is no file that can be read
--solver true --solver-kind i2s --symcc-adapter /etc/passwd|--symcc-adapter: is for --solver-kind symcc
--jobs|--jobs: its value is missing
END
    start "$c" argument --target "$d/demo.cov" --crashes "$c/corpus"
    exits 2 "$pid" crashes
}

instance() { # instance <name> <target>: what afl-fuzz keeps in OUT, with one seed; in $afl/<name>
    local at=$c/out/$1
    mkdir -p "$at"/queue/.state "$at"/{crashes,hangs,.synced}
    printf 'ABCDEFGHIJKLMNOPQ185UVWX' >"$at/queue/id:000000,time:0,execs:0,orig:seed"
    {
        printf '%s : 1\n' fuzzer_pid start_time run_time execs_done cur_item corpus_count pending_total pending_favs \
            saved_crashes last_find last_crash last_hang exec_timeout cycles_done cycles_wo_finds
        printf 'bitmap_cvg : 1%%\nafl_banner : %s\ncommand_line : afl-fuzz -i in -o out -M %s -- %s\n' "$1" "$1" "$2"
    } >"$at/fuzzer_stats"
}
virgin() { # virgin <target> <file>...: fuzz_bitmap of an instance that knows these
    rm -rf "$c/known" "$c/maps"
    mkdir "$c/known"
    cp "${@:2}" "$c/known"
    afl-showmap -b -m none -i "$c/known" -o "$c/maps" -- "$1" >/dev/null 2>&1 || true
    python3 -c 'import sys
maps = [open(p, "rb").read() for p in sys.argv[1:]]
sys.stdout.buffer.write(bytes(255 & ~(lambda m: __import__("functools").reduce(int.__or__, m))(m) for m in zip(*maps)))' "$c"/maps/*
}
join() { # join <name> <options...>: a coordinator of $c/out
    local name=$1
    shift
    "$d/coordinator" --afl "$c/out" --target "$d/demo.afl" --owner "$name" --summary "$c/$name.json" \
        --durability process --ttl 3 "$@" 2>"$d/$name.log" &
    pid=$!
    started+=("$pid")
}
i2s=(--solver "$d/demo.solver --timeout 1 @@")
peer_is_whole() { # ids without a gap, names that tell the bytes, nothing twice, nothing else
    python3 - "$c/out/symlease" "$@" <<'PY' || fail "the peer in $c/out is not whole"
import hashlib, pathlib, re, sys
peer = pathlib.Path(sys.argv[1])
for folder, more in (("queue", ",+cov"), ("crashes", ""), ("hangs", "")):
    names = sorted(p.name for p in (peer / folder).iterdir())
    digests = []
    for number, name in enumerate(names):
        found = re.fullmatch(r"id:(\d{6}),sha256:([0-9a-f]{64})" + re.escape(more), name)
        assert found and int(found[1]) == number, (folder, number, name)
        body = (peer / folder / name).read_bytes()
        assert hashlib.sha256(body).hexdigest() == found[2] and body, name
        digests.append(found[2])
    assert len(set(digests)) == len(digests), folder
    print(folder, len(names))
corpus = {p.name for p in (peer / "campaign/corpus").iterdir()}
published = {p.name[17:81] for p in (peer / "queue").iterdir()}
assert corpus == published, (corpus ^ published)
assert sorted(p.name for p in (peer / ".symlease").iterdir()) in (["lock", "totals"], ["lock", "next", "totals"])
PY
}

afl_build() {
    command -v afl-clang-fast >/dev/null || fail "no afl-clang-fast: apt-get install afl++"
    [[ ! -e $d/demo.afl ]] || return 0
    afl-clang-fast -O0 -g -fsanitize=fuzzer $solver/target.c -o "$d/demo.afl" >/dev/null 2>&1
    afl-clang-fast -O0 -g -fsanitize=fuzzer faulty_target.c -o "$d/faulty.afl" >/dev/null 2>&1
    ${CXX:-g++} "$d"/afl_{units,names}.o -o "$d/units"
}
afl_parts() { # names, priorities, ids
    afl_build
    "$d/units" || fail "units"
}
afl_two() { # two coordinators, two instances with the same inputs; then nothing is left to do
    afl_build
    fresh afl-two
    instance main "$d/demo.afl"
    instance second "$d/demo.afl"
    virgin "$d/demo.afl" "$c"/out/main/queue/id* >"$c/out/main/fuzz_bitmap"
    join one "${i2s[@]}" --once
    local first=$pid
    join two "${i2s[@]}" --once --jobs 2
    ended "$first" one
    ended "$pid" two
    corpus=$c/out/symlease/campaign/corpus
    ln -s out/symlease/campaign/corpus "$c/corpus"
    deep
    peer_is_whole
    local name sum=0 bits=0 published=0
    for name in one two; do
        sum=$((sum + $(value "$c/$name.json" completed)))
        bits=$((bits + $(value "$c/$name.json" afl_bits)))
        published=$((published + $(value "$c/$name.json" afl_published)))
        [[ $(value "$c/$name.json" errors) == 0 ]] || fail "$name has errors"
    done
    # one seed, though two queues have it, and what was found; each once
    [[ $sum == $((published + 1)) ]] || fail "$sum runs of $published + 1 inputs"
    ((bits >= 5)) || fail "fuzz_bitmap brought $bits bits"
    # AFL++ takes some over: the same bytes, nothing to do. One is cut down, one vanishes, one is new.
    local each number=1
    for each in "$c"/out/symlease/queue/*; do
        cp "$each" "$c/out/main/queue/$(printf 'id:%06d,sync:symlease,src:0,+cov' $number)"
        number=$((number + 1))
    done
    join third "${i2s[@]}"
    until_true "the queue is not read" grep -qs "corpus_imported *: $((number + 1))\$" "$c/out/symlease/fuzzer_stats"
    [[ $(value_of completed third) == 0 ]] || fail "an input was analysed twice"
    printf 'zzzzzzzzzzzzzzzzzzzzzzzzzzzz' >"$c/out/main/queue/id:000900,src:000000,op:havoc"
    until_true "a new entry is not read" grep -qs "corpus_imported *: $((number + 2))\$" "$c/out/symlease/fuzzer_stats"
    kill -TERM "$pid"
    ended "$pid" third
    [[ $(value "$c/third.json" completed) == 1 ]] || fail "the new entry was not analysed"
    peer_is_whole
    afl-whatsup "$c/out" >"$c/whatsup" 2>/dev/null || fail "afl-whatsup: exit $?"
    grep -q '>>> symlease (0 days, 0 hrs)' "$c/whatsup" || fail "afl-whatsup does not show the peer"
    corpus=
}
value_of() { if [[ -e $c/$2.json ]]; then value "$c/$2.json" "$1"; else echo 0; fi; }
afl_known() { # what AFL++ covers is not published; another build's map is not ours
    afl_build
    fresh afl-known
    instance main "$d/demo.afl"
    head -c 64 /dev/zero >"$c/out/main/fuzz_bitmap"
    join all "${i2s[@]}" --once
    ended "$pid" all
    [[ $(value "$c/all.json" afl_published) == 0 && $(value "$c/all.json" not_novel) -gt 3 ]] ||
        fail "it publishes what AFL++ has covered"
    fresh afl-other
    instance main "$d/faulty.afl"
    head -c 64 /dev/zero >"$c/out/main/fuzz_bitmap"
    join other "${i2s[@]}" --once
    ended "$pid" other
    grep -q 'is not taken over: it runs another build' "$d/other.log" || fail "another build was not said"
    [[ $(value "$c/other.json" afl_bits) == 0 && $(value "$c/other.json" afl_published) -gt 3 ]] ||
        fail "another build's coverage counts here"
    join plain "${i2s[@]}" --afl-peer other --once
    kill -0 "$pid"
    ended "$pid" plain
    rm -rf "$c/out/symlease/.symlease"
    join taken "${i2s[@]}" --once
    exits 1 "$pid" taken
    grep -q 'is another instance' "$d/taken.log" || fail "another instance's directory was taken"
    "$d/coordinator" --afl "$c/out" --afl-peer new --target "$d/demo.cov" --once 2>"$d/unbuilt.log" && fail "not of AFL++"
    grep -q 'AFL_DUMP_MAP_SIZE=1 gives no map size' "$d/unbuilt.log" || fail "a target not of AFL++ was not said"
}
afl_order() { # +cov first, then originals, then small ones
    afl_build
    fresh afl-order
    instance main "$d/demo.afl"
    local q=$c/out/main/queue
    printf 4444444444 >"$q/id:000001,src:000000,op:havoc"
    printf 55555555555 >"$q/id:000002,src:000000,op:havoc"
    printf 2222222222222222222222222222222222 >"$q/id:000003,src:000000,op:havoc,+cov"
    printf 11111111 >"$q/id:000004,src:000002,op:splice,+cov"
    # shellcheck disable=SC2016
    printf '#!/bin/sh\nhead -c 1 "$1" >>%s/order\n' "$c" >"$c/logging.sh"
    chmod +x "$c/logging.sh"
    join order --solver "$c/logging.sh @@" --solver-kind symcc --once
    ended "$pid" order
    [[ $(cat "$c/order") == 12A45 ]] || fail "the order is $(cat "$c/order"), not 12A45"
}
afl_killed() { # with a file written that has no name yet; another waits, then goes on
    afl_build
    fresh afl-killed
    instance main "$d/demo.afl"
    export "SYMLEASE_COORDINATOR_PAUSE_PUBLISH=$c/paused"
    join dying "${i2s[@]}"
    unset SYMLEASE_COORDINATOR_PAUSE_PUBLISH
    local dying=$pid
    await "$c/paused"
    join waiting "${i2s[@]}" --once
    ended "$pid" waiting # it published nothing: the lock is held by one that lives
    [[ -z $(ls "$c/out/symlease/queue") ]] || fail "a live holder's lock was robbed"
    kill -KILL "$dying"
    wait "$dying" 2>/dev/null || true
    join next "${i2s[@]}" --once
    ended "$pid" next
    peer_is_whole
    [[ -n $(ls "$c/out/symlease/queue") ]] || fail "nothing is published after a death"
}
afl_faults() { # crashes and hangs have their own folders
    afl_build
    fresh afl-faults
    instance main "$d/faulty.afl"
    printf 'AAAABBBB' >"$c/out/main/queue/id:000000,time:0,execs:0,orig:seed"
    "$d/coordinator" --afl "$c/out" --target "$d/faulty.afl" --solver "$d/faulty.solver --timeout 1 @@" \
        --target-timeout 1 --durability process --once --summary "$c/faulty.json" 2>"$d/faulty.log" || fail "faulty: $?"
    peer_is_whole
    grep -q CRSH "$c"/out/symlease/crashes/* || fail "the crash was not kept"
    grep -q HANG "$c"/out/symlease/hangs/* || fail "the hang was not kept"
    grep -qr fine "$c/out/symlease/queue" || fail "the good result is not published"
    ! grep -qrE 'CRSH|HANG' "$c/out/symlease/queue" || fail "AFL++ would import a crash"
    gone "$d/faulty.afl" || fail "a target's run is left behind"
    # killed while it measures one that hangs: afl-showmap ends, and with it the target
    fresh afl-orphan
    instance main "$d/faulty.afl"
    # shellcheck disable=SC2016
    printf '#!/bin/sh\nprintf HANGxxxx >"$SYMCC_OUTPUT_DIR/000000"\n' >"$c/hanging.sh"
    chmod +x "$c/hanging.sh"
    "$d/coordinator" --afl "$c/out" --target "$d/faulty.afl" --solver "$c/hanging.sh" --solver-kind symcc \
        --target-timeout 600 --durability process 2>"$d/orphan.log" &
    pid=$!
    started+=("$pid")
    await "$c/out/symlease/campaign/staging/*/counts-0/in/input"
    until_true "no target runs" pgrep -f "$d/faulty.afl" >/dev/null
    sleep 1
    kill -KILL "$pid"
    wait "$pid" 2>/dev/null || true
    until_true "a target outlives the coordinator" gone "$d/faulty.afl"
}
gone() { ! pgrep -f "$1" >/dev/null; }

build
declare -a all=(two_coordinators 'death_at COMMIT' 'death_at HOLD' terminated faults by_itself by_adapter full_disk
    missing_target replaced_target places privileges signals seeds arguments
    afl_parts afl_two afl_known afl_order afl_killed afl_faults)
(($# == 0)) || all=("$@")
for each in "${all[@]}"; do
    $each
    echo "coordinator: $each"
done
echo "coordinator: all ok"
