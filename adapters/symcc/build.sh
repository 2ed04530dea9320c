#!/bin/sh
# Builds libsymlease-symcc.so and libsymlease-symcc-wrap.o into a folder:
#   build.sh FOLDER      SYMLEASE_LIB: the folder of libsymlease.a
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:?usage: build.sh FOLDER}
lib=${SYMLEASE_LIB:-${CARGO_TARGET_DIR:-$here/../../target}/release}
test -e "$lib/libsymlease.a" || { echo "no libsymlease.a in $lib: cargo build --release" >&2; exit 1; }
CC=${CC:-cc}
W="-O2 -g -fPIC -std=c11 -D_GNU_SOURCE -Wall -Wextra -Wpedantic -Werror -fvisibility=hidden -I$here/../../include"
mkdir -p "$out/symcc-objects"
cd "$here"
objects=
for source in claim decide io settings solved staging target; do
    # shellcheck disable=SC2086
    $CC $W -c $source.c -o "$out/symcc-objects/$source.o"
    objects="$objects $out/symcc-objects/$source.o"
done
# shellcheck disable=SC2086
{
$CC $W -c hooks.c -o "$out/symcc-objects/hooks.o"
$CC $W -DSYMLEASE_SYMCC_WRAP -c hooks.c -o "$out/symcc-objects/wrap.o"
# The library lies within: one file to preload, and no name of it shown. The
# hooks mean themselves by their names, whoever comes first (-Bsymbolic-functions).
$CC -shared -o "$out/libsymlease-symcc.so" "$out/symcc-objects/hooks.o" $objects \
    "$lib/libsymlease.a" -Wl,--exclude-libs,ALL -Wl,-Bsymbolic-functions -Wl,-z,nodelete -Wl,-z,defs -Wl,--gc-sections \
    -Wl,--strip-debug -Wl,-soname,libsymlease-symcc.so -lpthread -ldl -lm -lrt -lutil -lgcc_s
# An object, not an archive: nothing refers to it before --wrap does.
ld -r -o "$out/libsymlease-symcc-wrap.o" "$out/symcc-objects/wrap.o" $objects
}
rm -rf "$out/symcc-objects"
