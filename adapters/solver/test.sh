#!/bin/sh
# Build the demo target in every mode, solve it, check ids, leases and ends.
# Needs clang, python3 and a libsymlease: SYMLEASE_LIB is the folder that holds
# it (else the release folder below CARGO_TARGET_DIR or ../../target).
set -eu
cd "$(dirname "$0")"
CC=${CC:-clang}
lib=${SYMLEASE_LIB:-${CARGO_TARGET_DIR:-../../target}/release}
test -e "$lib/libsymlease.a" || { echo "no libsymlease.a in $lib: cargo build --release" >&2; exit 1; }
lib=$(cd "$lib" && pwd)
d=$(mktemp -d)
trap 'rm -rf "$d"' EXIT
W="-g -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -I../../include"
COV="-fsanitize-coverage=trace-cmp,trace-pc-guard -fno-builtin"
L="$lib/libsymlease.a -lpthread -ldl -lm -lrt -lutil -lgcc_s"
WRAP=@symlease_i2s.wrap
# shellcheck disable=SC2086
{
$CC $W -O2 -c symlease_i2s.c -o "$d/s.o"
$CC $W -O2 -DSYMLEASE_I2S_NO_CAMPAIGN -c symlease_i2s.c -o "$d/s_no.o"
# the target's flags on the solver itself must do no harm
$CC $W -O1 -DSYMLEASE_I2S_NO_CAMPAIGN $COV -fsanitize=address -c symlease_i2s.c -o "$d/s_asan.o"
$CC $W -O2 $COV target.c "$d/s.o" $WRAP $L -o "$d/solver"
$CC $W -O0 $COV target.c "$d/s.o" $WRAP $L -o "$d/solver_O0"
$CC $W -O2 $COV target.c "$d/s_no.o" $WRAP -Wl,--build-id=sha1 -o "$d/solver_no"
$CC $W -O2 $COV target.c "$d/s_no.o" $WRAP -Wl,--build-id=none -o "$d/solver_text"
$CC $W -O1 $COV -fsanitize=address target.c "$d/s_asan.o" -o "$d/solver_asan"
$CC $W -O1 $COV -fsanitize=address target.c "$d/s_asan.o" $WRAP -o "$d/solver_asan_wrap"
$CC $W -O2 $COV -c target.c -o "$d/t.o"
$CC $W -O2 -c symlease_harness.c -o "$d/h.o"
$CC $W -O2 -c ../sancov/symlease_sancov.c -o "$d/cov.o"
$CC $W -O2 -fsanitize-coverage=trace-pc-guard target.c "$d/h.o" "$d/cov.o" -o "$d/harness"
$CC $W -O2 target.c "$d/s_no.o" -o "$d/bare"
$CC $W holder.c $L -o "$d/holder"
}
python3 check.py "$d"
echo "solver: all ok"
