"""symlease for Python coordinators: the same tables, over the C library.

    from symlease import FencedWorkLeaseTable, FencedTargetLeaseTable
    from symlease import CoverageOwnerShardGossip

A coordinator that brought tables of these names along changes its import and
nothing else; the files in the directories stay the same (docs/python.md)."""

from .coverage import CoverageOwnerShardGossip
from .errors import (
    CallbackFailed, CampaignMismatch, CorruptRecord, Indeterminate, InternalError,
    InvalidArgument, LimitExceeded, LockTimeout, SharedFilesystemCapabilityError, StorageError,
    SymleaseError, Unavailable, Unsupported,
)
from .leases import FencedTargetLeaseTable, FencedWorkLeaseTable, LeaseHeartbeatBatch

__all__ = [
    "CallbackFailed", "CampaignMismatch", "CorruptRecord", "CoverageOwnerShardGossip",
    "FencedTargetLeaseTable", "FencedWorkLeaseTable", "Indeterminate", "InternalError",
    "InvalidArgument", "LeaseHeartbeatBatch", "LimitExceeded", "LockTimeout",
    "SharedFilesystemCapabilityError", "StorageError", "SymleaseError", "Unavailable",
    "Unsupported",
]
