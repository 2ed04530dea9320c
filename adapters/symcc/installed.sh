#!/bin/sh
# The adapter as it is installed: alone, moved, and then preloaded or linked in.
#   installed.sh CMAKE BUILD-FOLDER LIB-FOLDER-BELOW-THE-PREFIX
set -eu
cmake=$1 build=$2 libdir=$3
cd "$(dirname "$0")"
d=$(mktemp -d)
trap 'rm -rf "$d"' EXIT
fail() { echo "symcc installed: $*" >&2; exit 1; }
"$cmake" --install "$build" --prefix "$d/first" --component symcc >/dev/null
mv "$d/first" "$d/moved"
lib=$d/moved/$libdir
[ "$(find "$d/moved" -type f | wc -l)" = 3 ] || fail "not three files: $(find "$d/moved" -type f)"

# Nothing of the place it was built in, and only the system beside it.
readelf -d "$lib/libsymlease-symcc.so" >"$d/dynamic"
grep -q 'SONAME.*\[libsymlease-symcc\.so\]' "$d/dynamic" || fail "no soname"
grep -E 'RPATH|RUNPATH' "$d/dynamic" && fail "it has a search path"
sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' "$d/dynamic" | while read -r each; do
    case $each in
    libc.so.* | libgcc_s.so.* | libm.so.* | ld-linux*) ;;
    libpthread.so.* | libdl.so.* | librt.so.* | libutil.so.*) ;; # of a libc before 2.34
    *) fail "it needs $each" ;;
    esac
done
shown=$(nm -D --defined-only "$lib/libsymlease-symcc.so" | awk '{ print $3 }' | sort | tr '\n' ' ')
[ "$shown" = "_ZN4qsym11AflTraceMap19isInterestingBranchEmb _sym_notify_basic_block _sym_notify_call symcc_set_test_case_handler " ] ||
    fail "it shows $shown"

CXX="${CXX:-c++} -std=c++17 -g -O1 -Istandin -DSITES=0x55aa12340000ul"
# shellcheck disable=SC2086
{
    $CXX -fPIC -shared standin/runtime.cpp standin/trace_map.cpp -o "$d/libsymcc-rt.so"
    $CXX standin/target.cpp -L"$d" -Wl,-rpath,"$d" -lsymcc-rt -o "$d/target"
    $CXX -c standin/target.cpp -o "$d/target.o"
    $CXX -c standin/runtime.cpp -o "$d/runtime.o"
    $CXX -c standin/trace_map.cpp -o "$d/trace_map.o"
    $CXX "$d/target.o" "$d/runtime.o" "$d/trace_map.o" @"$lib/symlease_symcc.wrap" \
        "$lib/libsymlease-symcc-wrap.o" "$build/lib/libsymlease.a" \
        -lpthread -ldl -lm -lrt -lutil -lgcc_s -o "$d/target-static"
}
printf 'ABCDEFGHIJKLMNOPQ' >"$d/seed"
twice() { # twice <name> <command...>: the first run makes inputs, the second none
    name=$1
    shift
    mkdir "$d/$name"
    for turn in 1 2; do
        SYMCC_OUTPUT_DIR="$d/$name" SYMLEASE_SYMCC_CAMPAIGN="$d/$name.campaign" "$@" "$d/seed" \
            >/dev/null 2>"$d/said" || [ $? = 3 ] || fail "$name: $(cat "$d/said")"
        grep -q 'branches live, inputs live, calls live, blocks live' "$d/said" ||
            fail "$name: $(cat "$d/said")"
        made=$(find "$d/$name" -type f | wc -l)
        [ "$turn" = 2 ] || first=$made
    done
    [ "$first" -ge 8 ] || fail "$name: $first inputs"
    [ "$made" = "$first" ] || fail "$name: the second run made $made, not $first"
}
twice preloaded env LD_PRELOAD="$lib/libsymlease-symcc.so" "$d/target"
twice static "$d/target-static"
echo "symcc installed: all ok"
