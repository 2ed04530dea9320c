"""What goes wrong, as exceptions.

Each error of the library has a class of its own, which is also the built-in
class that a Python program expects there: ValueError for what was asked
wrongly or is damaged, TimeoutError for a lock, OSError for storage. Answers
(somebody else holds it, a stale token) are return values, never exceptions."""

from typing import Dict, Optional, Tuple, Type


class SymleaseError(Exception):
    """Any error of the library. `status`: its SYMLEASE_E_* number."""

    status = 0


class InvalidArgument(SymleaseError, ValueError):
    """An argument that can never be right (E_INVALID)."""

    status = -1


class LockTimeout(SymleaseError, TimeoutError):
    """A lock was not had within lock_acquire_timeout (E_TIMEOUT)."""

    status = -2


class StorageError(SymleaseError, OSError):
    """A system call failed (E_IO). Also the built-in class of its errno, such
    as PermissionError or IsADirectoryError."""

    status = -3


class CorruptRecord(SymleaseError, ValueError):
    """A file that is there is damaged; it was left as it is (E_CORRUPT)."""

    status = -4


class Unsupported(SymleaseError, OSError):
    """The file system or this version cannot do it (E_UNSUPPORTED)."""

    status = -5


class LimitExceeded(SymleaseError, ValueError):
    """Larger than the format allows; nothing was changed (E_LIMIT)."""

    status = -6


class InternalError(SymleaseError, RuntimeError):
    """A fault of the library itself (E_INTERNAL)."""

    status = -7


class Unavailable(SymleaseError, OSError):
    """The store cannot be reached now (E_UNAVAILABLE)."""

    status = -8


class CampaignMismatch(SymleaseError, ValueError):
    """Another shard count, map or durability than the directory has (E_MISMATCH)."""

    status = -9


class Indeterminate(SymleaseError, OSError):
    """It may or may not have happened; the same call again settles it
    (E_INDETERMINATE)."""

    status = -10


class CallbackFailed(SymleaseError, RuntimeError):
    """A callback refused (E_CALLBACK)."""

    status = -11


class SharedFilesystemCapabilityError(SymleaseError, RuntimeError):
    """verify_filesystem found that the directory cannot be shared safely."""


_CLASSES: Dict[int, Type[SymleaseError]] = {
    one.status: one
    for one in (
        InvalidArgument, LockTimeout, StorageError, CorruptRecord, Unsupported, LimitExceeded,
        InternalError, Unavailable, CampaignMismatch, Indeterminate, CallbackFailed,
    )
}
_STORAGE: Dict[type, type] = {}


def _storage_class(number: int) -> type:
    """StorageError and the built-in class of this errno in one."""
    built_in = type(OSError(number, ""))
    if built_in is OSError:
        return StorageError
    if built_in not in _STORAGE:
        document = {"__doc__": built_in.__doc__, "__module__": __name__}
        _STORAGE[built_in] = type(built_in.__name__, (StorageError, built_in), document)
    return _STORAGE[built_in]


def error_of(status: int, text: str, number: Optional[int]) -> SymleaseError:
    """The exception of an error status. `number`: errno, 0 or None where none
    was involved."""
    chosen: type = _CLASSES.get(status, SymleaseError)
    if chosen is StorageError and number:
        chosen = _storage_class(number)
    arguments: Tuple = (number, text) if number and issubclass(chosen, OSError) else (text,)
    error = chosen(*arguments)
    error.status = status
    return error
