#!/bin/sh
# Runs a program with a new, empty directory (below SYMLEASE_TEST_ROOT, where
# that is set) as its last argument; removes the directory afterwards. A program
# that prints to stderr has failed, unless SYMLEASE_TEST_STDERR is set: the
# library prints nothing.
place=$(mktemp -d "${SYMLEASE_TEST_ROOT:-${TMPDIR:-/tmp}}/symlease-test.XXXXXX") || exit 1
mkdir "$place/root" || exit 1
"$@" "$place/root" 2>"$place/stderr"
code=$?
cat "$place/stderr" >&2
if [ "$code" -eq 0 ] && [ -z "$SYMLEASE_TEST_STDERR" ] && [ -s "$place/stderr" ]; then
    echo "printed to stderr" >&2
    code=1
fi
rm -rf "$place"
exit "$code"
