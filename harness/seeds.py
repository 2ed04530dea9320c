#!/usr/bin/env python3
"""Writes the seeds of the zlib harness into a directory: small streams, some
broken on purpose where a comparison can tell how to mend them."""
import pathlib
import struct
import sys
import zlib

TEXT = b"a lease is a promise with a date; " * 4


def packed(data, level, window=15, strategy=0):
    z = zlib.compressobj(level, zlib.DEFLATED, window, 8, strategy)
    return z.compress(data) + z.flush()


def gzip(flags, fields, data, crc):
    head = struct.pack("<BBBBIBB", 0x1F, 0x8B, 8, flags, 0, 0, 3)
    return head + fields + packed(data, 9, -15) + struct.pack("<II", crc, len(data))


SEEDS = {
    "zlib-dynamic": packed(bytes(range(64)) + TEXT, 9),
    "zlib-fixed": packed(b"symlease" * 3, 9, 15, zlib.Z_FIXED),
    "zlib-stored": packed(b"stored as it is", 0),
    "zlib-bad-sum": packed(TEXT, 6)[:-4] + b"\0\0\0\0",
    "gzip-plain": gzip(0, b"", b"plain", zlib.crc32(b"plain")),
    "gzip-bad-sum": gzip(8, b"name\0", TEXT, 0),
    "gzip-fields": gzip(30, b"\x04\0more" + b"name\0" + b"comment\0" + b"\0\0", b"fields", 0),
    "text": b"no stream at all, but words",
}

if __name__ == "__main__":
    place = pathlib.Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    for name, data in SEEDS.items():
        (place / name).write_bytes(data)
