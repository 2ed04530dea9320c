#!/usr/bin/env bash
# build.sh ZLIB LIB OUT: the harness and zlib itself, instrumented twice.
# ZLIB: zlib's sources; LIB: the folder of libsymlease.a.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
zlib=$1 lib=$2 out=$3
CC=${CC:-clang}
mkdir -p "$out"
adapters=$here/../adapters
# What reads its input's fields, and what computes on them. The solver is shown
# the comparisons of the former: those of the latter (trees, sums) it cannot solve.
readers=("$here/zlib_harness.c" "$zlib"/{inflate,infback}.c)
others=("$zlib"/{adler32,crc32,deflate,inffast,inftrees,trees,zutil}.c)

compile() { # compile FOLDER FLAGS...: the sources, four at a time
    local into=$1
    shift
    mkdir -p "$out/$into"
    printf '%s\n' "${sources[@]}" | xargs -P 4 -I{} sh -c \
        '"$@" -c "$0" -o "'"$out/$into"'/$(basename "$0" .c).o"' {} "$CC" -w -I"$zlib" "$@"
}
sources=("${readers[@]}" "${others[@]}")
compile coverage -O2 -fsanitize-coverage=trace-pc-guard
sources=("${readers[@]}")
compile solver -O1 -fsanitize-coverage=trace-cmp,trace-pc-guard -fno-builtin -DSOLVE_ONE_IN=2
sources=("${others[@]}")
compile solver -O1 -fno-builtin

"$CC" -O2 -c "$adapters/sancov/symlease_sancov.c" -o "$out/sancov.o"
"$CC" -O2 -c "$adapters/solver/symlease_harness.c" -o "$out/main.o"
"$CC" -O2 -I"$here/../include" -c "$adapters/solver/symlease_i2s.c" -o "$out/i2s.o"
"$CC" "$out"/coverage/*.o "$out/main.o" "$out/sancov.o" -o "$out/zlib.coverage"
# sancov.o holds the guard hooks, which clang's own runtime would else have to.
"$CC" "$out"/solver/*.o "$out/i2s.o" "$out/sancov.o" "@$adapters/solver/symlease_i2s.wrap" \
    "$lib/libsymlease.a" -lpthread -ldl -lm -lrt -lutil -lgcc_s -o "$out/zlib.solver"
