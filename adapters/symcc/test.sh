#!/bin/sh
# Builds the adapter, a stand-in for SymCC's runtime and a target of it; check.py
# runs them. Needs cc, c++, clang, python3; SYMLEASE_LIB is the folder of
# libsymlease.a (else the release folder below CARGO_TARGET_DIR or ../../target).
set -eu
cd "$(dirname "$0")"
lib=${SYMLEASE_LIB:-${CARGO_TARGET_DIR:-../../target}/release}
test -e "$lib/libsymlease.a" || { echo "no libsymlease.a in $lib: cargo build --release" >&2; exit 1; }
lib=$(cd "$lib" && pwd)
d=$(mktemp -d)
trap 'rm -rf "$d"' EXIT
SYMLEASE_LIB=$lib ./build.sh "$d"
L="$lib/libsymlease.a -lpthread -ldl -lm -lrt -lutil -lgcc_s"
W="-g -O1 -Wall -Wextra -Werror"
CXX="${CXX:-c++} -std=c++17 $W -Istandin"
R="-L$d -Wl,-rpath,$d"
# shellcheck disable=SC2086
{
$CXX -fPIC -shared standin/runtime.cpp standin/trace_map.cpp -o "$d/libsymcc-rt.so"
$CXX -fPIC -shared -Wl,-Bsymbolic standin/runtime.cpp standin/trace_map.cpp -o "$d/libbound-rt.so"
# Two builds: the compiler's numbers are others, and so is the build id.
$CXX -DSITES=0x55aa12340000ul -c standin/target.cpp -o "$d/target.o"
$CXX "$d/target.o" $R -lsymcc-rt -o "$d/target"
$CXX -DSITES=0x561f00775a40ul standin/target.cpp $R -lsymcc-rt -o "$d/target2"
$CXX "$d/target.o" $R -lbound-rt -o "$d/target-bound"
# Linked in place of preloaded: before the runtime, and wrongly behind it.
$CXX "$d/target.o" $R -Wl,--no-as-needed -lsymlease-symcc -lsymcc-rt -o "$d/target-linked"
$CXX "$d/target.o" $R -Wl,--no-as-needed -lsymcc-rt -lsymlease-symcc -o "$d/target-behind"
# All in one program, by --wrap.
$CXX -c standin/runtime.cpp -o "$d/runtime.o"
$CXX -c standin/trace_map.cpp -o "$d/trace_map.o"
ld -r "$d/runtime.o" "$d/trace_map.o" -o "$d/merged.o" # calls within one object are not wrapped
S="$d/libsymlease-symcc-wrap.o $L"
$CXX "$d/target.o" "$d/runtime.o" "$d/trace_map.o" @symlease_symcc.wrap $S -o "$d/target-static"
$CXX "$d/target.o" "$d/merged.o" @symlease_symcc.wrap $S -o "$d/target-merged"
$CXX "$d/target.o" "$d/runtime.o" "$d/trace_map.o" $S -o "$d/target-unwrapped"
cc -std=c11 $W -I../../include standin/lease.c $L -o "$d/lease"
cc -std=c11 -D_GNU_SOURCE $W -I../../include ../solver/holder.c $L -o "$d/holder"
}
python3 check.py "$d"
echo "symcc: all ok"
