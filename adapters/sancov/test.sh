#!/bin/sh
# Build the target in every mode and check it. Needs clang, GNU ld, python3.
set -eu
cd "$(dirname "$0")"
CC=${CC:-clang}
d=$(mktemp -d)
trap 'rm -rf "$d"' EXIT
W="-O0 -g -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror"
G=-fsanitize-coverage=trace-pc-guard
C=-fsanitize-coverage=inline-8bit-counters,pc-table
LD=-Wl,-T,symlease_sancov.ld
# shellcheck disable=SC2086
{
$CC $W -O2 -fPIC -c symlease_sancov.c -o "$d/s.o"
$CC $W target.c "$d/s.o" -ldl -rdynamic -o "$d/plain"
$CC $W $G target.c "$d/s.o" -ldl -rdynamic -o "$d/guard"
$CC $W $C target.c "$d/s.o" -ldl -rdynamic -o "$d/counters"
$CC $W $C target.c "$d/s.o" -ldl -rdynamic $LD -o "$d/paged"
# the same flags on the adapter itself must not make it count itself
$CC $W $G -fsanitize=address -c symlease_sancov.c -o "$d/sg.o"
$CC $W $G -fsanitize=address target.c "$d/sg.o" -ldl -rdynamic -o "$d/guard_asan"
$CC $W $C -fsanitize=address target.c "$d/s.o" -ldl -rdynamic $LD -o "$d/paged_asan"
$CC $W $G -shared -fPIC plug.c -o "$d/plug_guard.so"
$CC $W $C -shared -fPIC plug.c -o "$d/plug_counters.so"
python3 - > "$d/big.c" <<'P'
print("int main(int c, char **v) { (void)v; switch (c) { default: return c - 1;")
for i in range(2, 5000): print("case %d: if (v[%d]) return %d; break;" % (i, i % 7, i % 100))
print("} return 0; }")
P
$CC $W $G "$d/big.c" "$d/s.o" -o "$d/guard_big"
}
# nothing that runs by itself, no TLS
if readelf -SW "$d/s.o" | grep -E 'init_array|fini_array|\.ctors|\.tbss|\.tdata'; then
  echo "constructor or TLS in the object"; exit 1
fi
if nm -u "$d/s.o" | grep -E 'atexit|pthread|flock'; then exit 1; fi
python3 check.py "$d"
echo "sancov: all ok"
