"""As much of symlease's C face as the interop tests call, through ctypes.

The shared library is named by SYMLEASE_LIBRARY."""

import ctypes as c
import os
import re

ANSWERS = {
    0: "OK", 1: "HELD", 2: "COMMITTING", 3: "DONE", 4: "STALE", 5: "ALREADY", 6: "CONFLICT",
    7: "ABSENT", -1: "E_INVALID", -2: "E_TIMEOUT", -3: "E_IO", -4: "E_CORRUPT",
    -5: "E_UNSUPPORTED", -6: "E_LIMIT", -7: "E_INTERNAL", -8: "E_UNAVAILABLE",
    -9: "E_MISMATCH", -10: "E_INDETERMINATE", -11: "E_CALLBACK",
}
WORK, TARGET = 0, 1
CLOCK = c.CFUNCTYPE(c.c_double, c.c_void_p)


class Options(c.Structure):
    _fields_ = [
        ("struct_size", c.c_size_t), ("owner", c.c_char_p), ("map_identity", c.c_char_p),
        ("work_root", c.c_char_p), ("target_root", c.c_char_p), ("coverage_root", c.c_char_p),
        ("map_size", c.c_uint64), ("work_ttl", c.c_double), ("target_ttl", c.c_double),
        ("lock_timeout", c.c_double), ("clock_skew", c.c_double), ("coverage_ttl", c.c_double),
        ("clock", CLOCK), ("clock_user", c.c_void_p), ("worker", c.c_uint32),
        ("lease_shards", c.c_uint32), ("coverage_shards", c.c_uint32),
        ("coordinator_index", c.c_uint32), ("coordinator_count", c.c_uint32),
        ("file_mode", c.c_uint32), ("flags", c.c_uint32), ("engine", c.c_int32),
        ("durability", c.c_int32), ("expiry", c.c_int32), ("session", c.c_int32),
        ("reserved", c.c_uint32),
    ]


class Lease(c.Structure):
    _fields_ = [
        ("id", c.c_char * 65), ("token", c.c_char * 384), ("fence", c.c_uint64),
        ("attempts", c.c_uint32), ("steals", c.c_uint32), ("updated", c.c_double),
        ("ttl", c.c_double), ("reserved", c.c_uint64 * 8),
    ]


class Group(c.Structure):
    _fields_ = [
        ("targets", c.c_uint64 * 64), ("count", c.c_uint32), ("token", c.c_char * 384),
        ("fence", c.c_uint64), ("updated", c.c_double), ("ttl", c.c_double),
        ("reserved", c.c_uint64 * 8),
    ]


class Edge(c.Structure):
    _fields_ = [("index", c.c_uint32), ("bits", c.c_uint8)]


def load():
    lib = c.CDLL(os.environ["SYMLEASE_LIBRARY"])
    p, s, i = c.c_void_p, c.c_char_p, c.c_int32
    u64 = c.POINTER(c.c_uint64)
    calls = {
        "symlease_options_init": (None, [p, c.c_size_t]),
        "symlease_last_error": (s, []),
        "symlease_string_free": (None, [p]),
        "symlease_close": (None, [p]),
        "symlease_open": (i, [s, p, p]),
        "symlease_work_id_json": (i, [s, p]),
        "symlease_target_id": (i, [c.c_uint64, p]),
        "symlease_claim": (i, [p, s, s, p, p]),
        "symlease_heartbeat": (i, [p, p]),
        "symlease_verify": (i, [p, p]),
        "symlease_abandon": (i, [p, p]),
        "symlease_begin_commit": (i, [p, p, s]),
        "symlease_complete": (i, [p, p]),
        "symlease_group_claim": (i, [p, u64, c.c_size_t, s, p, p]),
        "symlease_group_heartbeat": (i, [p, p]),
        "symlease_group_release": (i, [p, p]),
        "symlease_group_verify": (i, [p, p]),
        "symlease_coverage_merge_sparse": (i, [p, p, c.c_size_t, u64]),
        "symlease_coverage_pull": (i, [p, p, c.c_size_t, u64]),
        "symlease_coverage_totals": (i, [p, u64, u64]),
        "symlease_coverage_heartbeat": (i, [p]),
        "symlease_read_record": (i, [p, i, s, p]),
    }
    for name, (result, arguments) in calls.items():
        call = getattr(lib, name)
        call.restype, call.argtypes = result, arguments
    return lib


LIB = load()


def last_error():
    return LIB.symlease_last_error().decode()


def work_id(payload):
    out = c.create_string_buffer(65)
    status = LIB.symlease_work_id_json(payload.encode(), out)
    return out.value.decode() if status == 0 else ANSWERS[status]


def target_id(target):
    out = c.create_string_buffer(65)
    assert LIB.symlease_target_id(target, out) == 0
    return out.value.decode()


class Campaign:
    """One open handle. Calls answer in the words of ANSWERS."""

    def __init__(self, root, owner, clock=None, **options):
        self.options = Options()
        LIB.symlease_options_init(c.byref(self.options), c.sizeof(Options))
        self.options.owner = owner.encode()
        if clock:
            self.options.clock = CLOCK(lambda _: clock())
        for name, value in options.items():
            setattr(self.options, name, value)
        self.handle = c.c_void_p()
        status = LIB.symlease_open(os.fsencode(root), c.byref(self.options),
                                   c.byref(self.handle))
        if status:
            raise OSError(f"symlease_open: {ANSWERS[status]}: {last_error()}")

    def close(self):
        LIB.symlease_close(self.handle)
        self.handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def claim(self, name, payload=None):
        """(answer, lease); the lease is None unless the answer is OK."""
        lease = Lease()
        text = None if payload is None else payload.encode()
        status = LIB.symlease_claim(self.handle, name.encode(), text, c.byref(lease), None)
        return ANSWERS[status], lease if status == 0 else None

    def on_lease(self, call, name, token, *more):
        """(answer, lease) of a call that knows only an id and a token."""
        lease = Lease(id=name.encode(), token=token.encode())
        status = getattr(LIB, "symlease_" + call)(self.handle, c.byref(lease), *more)
        return ANSWERS[status], lease

    def heartbeat(self, name, token):
        return self.on_lease("heartbeat", name, token)[0]

    def abandon(self, name, token):
        return self.on_lease("abandon", name, token)[0]

    def begin_commit(self, name, token, manifest):
        return self.on_lease("begin_commit", name, token, manifest.encode())[0]

    def complete(self, name, token):
        return self.on_lease("complete", name, token)[0]

    def group_claim(self, targets, payload=None):
        group = Group()
        array = (c.c_uint64 * len(targets))(*targets)
        text = None if payload is None else payload.encode()
        status = LIB.symlease_group_claim(self.handle, array, len(targets), text,
                                          c.byref(group), None)
        return ANSWERS[status], group if status == 0 else None

    def on_group(self, call, targets, token):
        group = Group(count=len(targets), token=token.encode())
        group.targets[: len(targets)] = targets
        return ANSWERS[getattr(LIB, "symlease_group_" + call)(self.handle, c.byref(group))]

    def merge(self, edges):
        """(answer, bits that were new to everybody) of an {index: mask}."""
        array = (Edge * len(edges))(*edges.items())
        novel = c.c_uint64()
        status = LIB.symlease_coverage_merge_sparse(self.handle, array, len(edges),
                                                    c.byref(novel))
        return ANSWERS[status], novel.value

    def pull(self, size):
        """(answer, {index: mask})."""
        image = (c.c_uint8 * size)()
        status = LIB.symlease_coverage_pull(self.handle, image, size, None)
        found = re.finditer(rb"[^\0]", bytes(image))
        return ANSWERS[status], {one.start(): one[0][0] for one in found}

    def totals(self):
        edges, bits = c.c_uint64(), c.c_uint64()
        status = LIB.symlease_coverage_totals(self.handle, c.byref(edges), c.byref(bits))
        return ANSWERS[status], edges.value, bits.value

    def coverage_heartbeat(self):
        return ANSWERS[LIB.symlease_coverage_heartbeat(self.handle)]

    def read_record(self, name, table=WORK):
        """(answer, text)."""
        out = c.c_void_p()
        status = LIB.symlease_read_record(self.handle, table, name.encode(), c.byref(out))
        text = None
        if status == 0:
            text = c.string_at(out).decode()
            LIB.symlease_string_free(out)
        return ANSWERS[status], text
