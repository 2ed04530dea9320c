"""What the tables share: one open handle, its clock, and checks of arguments."""

import ctypes as c
import json
import math
import os
import threading
import time
import weakref
from typing import Any, Dict, Optional

from . import binding
from .binding import Options
from .errors import SharedFilesystemCapabilityError


def duration(value: Any, least: float, what: str) -> float:
    """Seconds, at least `least`. ValueError: not a finite number."""
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not math.isfinite(seconds):
        raise ValueError(f"{what} must be a finite number of seconds, not {value!r}")
    return max(least, seconds)


def moment(value: Any, what: str) -> float:
    """Seconds, not negative. ValueError: anything else."""
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = math.nan
    if not math.isfinite(seconds) or seconds < 0.0:
        raise ValueError(f"{what} must be finite and non-negative, not {value!r}")
    return seconds


def json_text(value: Dict[str, Any]) -> bytes:
    """The canonical text of an object. TypeError: not a JSON value."""
    text = json.dumps(dict(value), sort_keys=True, separators=(",", ":"))
    return text.encode("ascii")


def probe(root: Any, timeout: float) -> Dict[str, Any]:
    """What this directory was proven to do. Raises
    SharedFilesystemCapabilityError where something is missing."""
    seconds = duration(timeout, 0.001, "probe timeout")
    # A table's directory is made at the first change: till then, what it will lie in.
    place = os.path.abspath(os.fsencode(root))
    while not os.path.lexists(place):
        place = os.path.dirname(place)
    report = json.loads(binding.text_of("probe", place, seconds))
    if not report.get("usable"):
        found = report.get("failed", []) + report.get("blocked", [])
        raise SharedFilesystemCapabilityError(f"{os.fsdecode(root)}: failed: {found}")
    return report


def _close(handle: c.c_void_p) -> None:
    binding.library().symlease_close(handle)
    handle.value = None


class Table:
    """One open handle on one table root. May be used by many threads, and by
    the children of a fork."""

    def __init__(self, root: Any, options: Options, verify: bool, probe_timeout: float) -> None:
        self.root = os.fsdecode(root)
        self.filesystem_capabilities = probe(root, probe_timeout) if verify else None
        # `now` of the call that this thread is in: the handle's clock tells it.
        self._local = threading.local()
        local = self._local
        self._clock = binding.CLOCK(
            lambda _user: time.time() if getattr(local, "now", None) is None else local.now)
        options.clock = self._clock
        self._options = options
        self._handle = c.c_void_p()
        binding.call("open", None, c.byref(options), c.byref(self._handle))
        self._finalizer = weakref.finalize(self, _close, self._handle)
        self._finalizer.atexit = False

    @staticmethod
    def new_options(**named: Any) -> Options:
        """The library's defaults, and these."""
        options = Options()
        binding.library().symlease_options_init(c.byref(options), c.sizeof(options))
        for name, value in named.items():
            setattr(options, name, value)
        return options

    def close(self) -> None:
        """Ends the handle and its session. May be called again."""
        self._finalizer()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def counters(self) -> Dict[str, int]:
        """The library's counters of this handle: locks, contended, timeouts,
        wait_ns, retries, syncs, cache_hits, indeterminate."""
        found = binding.Counters()
        self._call("read_counters", c.byref(found))
        return {name: getattr(found, name) for name, *_ in found._fields_ if name != "reserved"}

    def _call(self, name: str, *arguments: Any, now: Optional[float] = None) -> int:
        """One call on the handle, at `now` (None: the clock)."""
        if not self._handle.value:
            raise ValueError(f"{type(self).__name__} of {self.root}: closed")
        self._local.now = now
        try:
            return binding.call(name, self._handle, *arguments)
        finally:
            self._local.now = None
