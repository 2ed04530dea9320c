"""The C interface (symlease.h), call for call, through ctypes.

The shared library is the file that SYMLEASE_LIBRARY names, else
libsymlease.so.0 beside this package, else the one that the system's loader
finds. It is loaded at the first use, not at import."""

import ctypes as c
import os
import threading
from typing import Any, Callable, Optional

from .errors import error_of

OK, HELD, COMMITTING, DONE, STALE, ALREADY, CONFLICT, ABSENT = range(8)
E_INVALID, E_TIMEOUT, E_IO, E_CORRUPT, E_UNSUPPORTED, E_LIMIT = range(-1, -7, -1)
E_INTERNAL, E_UNAVAILABLE, E_MISMATCH, E_INDETERMINATE, E_CALLBACK = range(-7, -12, -1)

ID_SIZE, TOKEN_SIZE, OWNER_SIZE, GROUP_MAX = 65, 384, 256, 64
TABLE_WORK, TABLE_TARGET, TABLE_COVERAGE = range(3)
SCAN_LEASED, SCAN_COMMITTING, SCAN_DONE, SCAN_CORRUPT, SCAN_ALL = 1, 2, 4, 8, 15
SESSION_OWN, SESSION_NONE = 0, 1
CLAIM_TAKEOVER = 1
ABI_VERSION = 0

CLOCK = c.CFUNCTYPE(c.c_double, c.c_void_p)


class Options(c.Structure):
    """symlease_options."""

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


class ClaimOptions(c.Structure):
    """symlease_claim_options."""

    _fields_ = [
        ("struct_size", c.c_size_t), ("owner", c.c_char_p), ("ttl", c.c_double),
        ("new_ttl", c.c_double), ("now", c.c_double), ("worker", c.c_uint32),
        ("flags", c.c_uint32),
    ]


class Lease(c.Structure):
    """symlease_lease."""

    _fields_ = [
        ("id", c.c_char * ID_SIZE), ("token", c.c_char * TOKEN_SIZE), ("fence", c.c_uint64),
        ("attempts", c.c_uint32), ("steals", c.c_uint32), ("updated", c.c_double),
        ("ttl", c.c_double), ("reserved", c.c_uint64 * 8),
    ]


class Group(c.Structure):
    """symlease_group."""

    _fields_ = [
        ("targets", c.c_uint64 * GROUP_MAX), ("count", c.c_uint32),
        ("token", c.c_char * TOKEN_SIZE), ("fence", c.c_uint64), ("updated", c.c_double),
        ("ttl", c.c_double), ("reserved", c.c_uint64 * 8),
    ]


class View(c.Structure):
    """symlease_view: one record, valid during a visit."""

    _fields_ = [
        ("struct_size", c.c_size_t), ("id", c.c_char_p), ("owner", c.c_char_p),
        ("previous_owner", c.c_char_p), ("token", c.c_char_p), ("payload", c.c_char_p),
        ("manifest", c.c_char_p), ("json", c.c_char_p), ("session", c.c_char_p),
        ("fence", c.c_uint64), ("target", c.c_uint64), ("updated", c.c_double),
        ("ttl", c.c_double), ("remaining", c.c_double), ("worker", c.c_uint32),
        ("attempts", c.c_uint32), ("steals", c.c_uint32), ("status", c.c_int32),
        ("life", c.c_int32), ("holder", c.c_int32),
    ]


class Edge(c.Structure):
    """symlease_edge."""

    _fields_ = [("index", c.c_uint32), ("bits", c.c_uint8)]


class Sparse(c.Structure):
    """symlease_sparse."""

    _fields_ = [("edges", c.POINTER(Edge)), ("count", c.c_size_t)]


class Counters(c.Structure):
    """symlease_counters."""

    _fields_ = [
        (name, c.c_uint64)
        for name in ("locks", "contended", "timeouts", "wait_ns", "retries", "syncs",
                     "cache_hits", "indeterminate")
    ] + [("reserved", c.c_uint64 * 8)]


VISIT = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(View))
NOVEL = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_size_t, c.POINTER(Edge), c.c_size_t)


def _calls() -> dict:
    """Call -> (what it returns, what it takes)."""
    p, s, n, i, d = c.c_void_p, c.c_char_p, c.c_size_t, c.c_int32, c.c_double
    u32, u64, many = c.c_uint32, c.c_uint64, c.POINTER(c.c_uint64)
    return {
        "version": (s, []), "abi_version": (u32, []), "status_name": (s, [i]),
        "last_error": (s, []), "last_errno": (c.c_int, []), "string_free": (None, [p]),
        "options_init": (None, [p, n]), "open": (i, [s, p, p]), "close": (None, [p]),
        "work_id": (i, [p, n, p]), "work_id_json": (i, [s, p]), "target_id": (i, [u64, p]),
        "claim": (i, [p, s, s, p, p]), "claim_with": (i, [p, s, s, p, p, p]),
        "verify": (i, [p, p]), "heartbeat": (i, [p, p]), "abandon": (i, [p, p]),
        "heartbeat_many": (i, [p, p, n, p]), "begin_commit": (i, [p, p, s]),
        "complete": (i, [p, p]), "replay": (i, [p, s, s, VISIT, p]),
        "list_expired": (i, [p, d, n, VISIT, p]), "list_commits": (i, [p, n, VISIT, p]),
        "scan": (i, [p, i, u32, s, n, VISIT, p]), "read_record": (i, [p, i, s, p]),
        "group_claim": (i, [p, many, n, s, p, p]),
        "group_claim_with": (i, [p, many, n, s, p, p, p]),
        "group_heartbeat": (i, [p, p]), "group_release": (i, [p, p]),
        "group_verify": (i, [p, p]), "coverage_heartbeat": (i, [p]),
        "coverage_merge_sparse": (i, [p, p, n, many]),
        "coverage_merge_sparse_many": (i, [p, p, n, many, NOVEL, p]),
        "coverage_pull": (i, [p, p, n, many]), "coverage_pull_sparse": (i, [p, NOVEL, p, many]),
        "coverage_totals": (i, [p, many, many]), "coverage_owner": (i, [p, u32, p, p]),
        "probe": (i, [s, d, p]), "read_counters": (i, [p, p]),
    }


def _open_library() -> c.CDLL:
    named = os.environ.get("SYMLEASE_LIBRARY")
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libsymlease.so.0")
    path = named or (beside if os.path.exists(beside) else "libsymlease.so.0")
    try:
        loaded = c.CDLL(path)
    except OSError as error:
        hint = "SYMLEASE_LIBRARY names it" if named else "set SYMLEASE_LIBRARY to its path"
        raise ImportError(f"symlease: the shared library cannot be loaded ({hint}): {error}")
    for name, (result, arguments) in _calls().items():
        call = getattr(loaded, "symlease_" + name)
        call.restype, call.argtypes = result, arguments
    found = loaded.symlease_abi_version()
    if found != ABI_VERSION:
        raise ImportError(f"symlease: {path} has ABI {found}, this module needs {ABI_VERSION}")
    return loaded


_loading = threading.Lock()
_library: Optional[c.CDLL] = None


def library() -> c.CDLL:
    """The shared library, loaded once."""
    global _library
    if _library is None:
        with _loading:
            if _library is None:
                _library = _open_library()
    return _library


def call(name: str, *arguments: Any) -> int:
    """symlease_<name>: its answer (0 or more). Errors become exceptions."""
    loaded = library()
    status = getattr(loaded, "symlease_" + name)(*arguments)
    if status < 0:
        raise last_error(status)
    return status


def last_error(status: int):
    """The exception of this thread's last error."""
    loaded = library()
    text = loaded.symlease_last_error().decode("utf-8", "replace")
    return error_of(status, text, loaded.symlease_last_errno())


def text_of(name: str, *arguments: Any) -> str:
    """A call whose last argument is a `char **`: the text, freed."""
    out = c.c_void_p()
    call(name, *arguments, c.byref(out))
    try:
        return c.string_at(out).decode("utf-8")
    finally:
        library().symlease_string_free(out)


class Visits:
    """Runs `each` for every visit. An exception in it stops the visit and is
    raised again by `check`, after the call has returned: ctypes itself would
    only print it."""

    def __init__(self, kind: Any, each: Callable[..., Any]) -> None:
        self.error: Optional[BaseException] = None
        self._each = each
        self.function = kind(self._visit)

    def _visit(self, _user: Any, *arguments: Any) -> int:
        try:
            self._each(*arguments)
        except BaseException as error:  # raised again by check
            self.error = error
            return 1
        return 0

    def check(self) -> None:
        if self.error is not None:
            raise self.error
