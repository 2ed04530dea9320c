"""The coverage authority under the names that Python coordinators use."""

import ctypes as c
import os
import re
import time
from typing import Any, Dict, Iterable, List, Mapping, Optional, Set, Tuple, Union

from . import binding
from .binding import Edge, Sparse
from .table import Table, duration, moment

Delta = Union[bytes, bytearray, List[Tuple[int, int]]]
MAP_MAX = 1 << 23
"""Indices of a coverage map: 0 to 2^23 - 1."""
_SET = re.compile(rb"[^\0]")


class CoverageOwnerShardGossip(Table):
    """The OR of all hit-count bits of a campaign, each new bit credited once.

    root, shard_count (1 to 4,096): as for the lease tables; 64 shards.
    coordinator_id: who is named as contributor; coordinator_index of
        coordinator_count: its place among the owners of shards.
    heartbeat_ttl: seconds that a coordinator counts as alive.
    lock_ttl: an age for messages only; kept so that callers need no change.
    """

    def __init__(self, root: Any, *, shard_count: int = 64, coordinator_id: str = "master",
                 coordinator_index: int = 0, coordinator_count: int = 1,
                 heartbeat_ttl: float = 30.0, lock_ttl: float = 30.0,
                 lock_acquire_timeout: float = 60.0, verify_filesystem: bool = False,
                 filesystem_probe_timeout: float = 5.0) -> None:
        if type(shard_count) is not int or not 1 <= shard_count <= 4096:
            raise ValueError(f"coverage shard count must be 1 to 4096, not {shard_count!r}")
        if (type(coordinator_index) is not int or type(coordinator_count) is not int
                or not 0 <= coordinator_index < coordinator_count <= 4096):
            raise ValueError(f"coverage coordinator {coordinator_index!r} of "
                             f"{coordinator_count!r} is not a place in 1 to 4096")
        if not isinstance(coordinator_id, str) or not coordinator_id or "\0" in coordinator_id:
            raise ValueError("coverage coordinator identity must be a text that is not empty")
        self.shard_count = shard_count
        self.coordinator_id = coordinator_id
        self.coordinator_index = coordinator_index
        self.coordinator_count = coordinator_count
        self.heartbeat_ttl = duration(heartbeat_ttl, 1.0, "coverage heartbeat TTL")
        self.lock_ttl = duration(lock_ttl, 1.0, "coverage lock age hint")
        self.lock_acquire_timeout = duration(
            lock_acquire_timeout, 0.001, "coverage lock acquisition timeout")
        self.known: Dict[int, int] = {}
        self.claims = self.claim_batches = self.claim_shard_writes = 0
        self.claimed_features = self.duplicate_features = 0
        self.pulls = self.pulled_features = 0
        self._recent: Set[int] = set()
        # What the library has given of shards that nobody asked for yet.
        self._waiting: Dict[int, Dict[int, int]] = {}
        options = self.new_options(
            coverage_root=os.fsencode(root), owner=coordinator_id.encode(),
            coverage_shards=shard_count, coordinator_index=coordinator_index,
            coordinator_count=coordinator_count, coverage_ttl=self.heartbeat_ttl,
            lock_timeout=self.lock_acquire_timeout, session=binding.SESSION_NONE)
        super().__init__(root, options, verify_filesystem, filesystem_probe_timeout)
        self.heartbeat()

    def shard_for_index(self, index: int) -> int:
        """The shard of a map index. ValueError: not an index."""
        if type(index) is not int or not 0 <= index < MAP_MAX:
            raise ValueError(f"invalid bitmap index {index!r}")
        return index % self.shard_count

    def heartbeat(self, *, now: Optional[float] = None) -> None:
        """Says that this coordinator lives."""
        self._call("coverage_heartbeat", now=self._now(now))

    def owner_for_shard(self, shard: int, *, now: Optional[float] = None) -> Tuple[int, str]:
        """(index, id) of a shard's preferred owner: the first that lives, from
        the shard's own place on."""
        if type(shard) is not int or not 0 <= shard < self.shard_count:
            raise ValueError(f"invalid coverage shard {shard!r} of {self.shard_count}")
        index, owner = c.c_uint32(), c.create_string_buffer(binding.OWNER_SIZE)
        self._call("coverage_owner", shard, c.byref(index), owner, now=self._now(now))
        return index.value, owner.value.decode()

    def claim(self, delta: Delta, *, now: Optional[float] = None) -> int:
        """Merges one map (bytes, or (index, bits) pairs): how many bits were new
        to everybody."""
        return self.claim_many([delta], now=now)[0]

    def claim_many(self, deltas: List[Delta], *, now: Optional[float] = None) -> List[int]:
        """Merges maps in order, as if one by one, with at most one write a shard."""
        if not isinstance(deltas, list):
            raise ValueError("a coverage claim batch must be a list")
        moment_now = self._now(now)
        rows = [_pairs(delta) for delta in deltas]
        self.claims += len(deltas)
        self.claim_batches += 1
        novel = self._merge(rows, moment_now) if any(rows) else [0] * len(rows)
        asked = sum(bin(bits).count("1") for row in rows for _, bits in row)
        self.claimed_features += sum(novel)
        self.duplicate_features += asked - sum(novel)
        return novel

    def pull(self, shards: Optional[Iterable[int]] = None) -> List[Tuple[int, int]]:
        """(index, bits) that pulls have not given yet, own claims included, of
        these shards (None: all)."""
        wanted = self._wanted(shards)
        if wanted:
            self._fetch()
        merged: Dict[int, int] = {}
        for shard in wanted:
            merged.update(self._waiting.pop(shard, {}))
        for index, bits in merged.items():
            self.known[index] = self.known.get(index, 0) | bits
        self.pulls += 1
        self.pulled_features += sum(bin(bits).count("1") for bits in merged.values())
        return sorted(merged.items())

    def pull_recent_claims(self) -> List[Tuple[int, int]]:
        """As pull, of the shards in which own claims since the last such call
        found something new."""
        recent, self._recent = self._recent, set()
        return self.pull(recent)

    def snapshot(self) -> Dict[str, Any]:
        """This coordinator's settings and counts."""
        named = ("coordinator_index", "coordinator_count", "claims", "claim_batches",
                 "claim_shard_writes", "claimed_features", "duplicate_features", "pulls",
                 "pulled_features")
        return {
            "schema": 1, "shards": self.shard_count, "coordinator": self.coordinator_id,
            "known_bytes": len(self.known), **{name: getattr(self, name) for name in named},
        }

    def _merge(self, rows: List[List[Tuple[int, int]]], now: float) -> List[int]:
        arrays = [(Edge * len(row))(*row) for row in rows]
        lists = (Sparse * len(rows))(*(
            Sparse(c.cast(array, c.POINTER(Edge)), len(array)) for array in arrays))
        novel = (c.c_uint64 * len(rows))()
        changed: Set[int] = set()
        visits = binding.Visits(binding.NOVEL, lambda _candidate, edges, count: changed.update(
            edges[place].index % self.shard_count for place in range(count)))
        self._call("coverage_merge_sparse_many", lists, len(rows), novel, visits.function, None,
                   now=now)
        visits.check()
        self._recent |= changed
        self.claim_shard_writes += len(changed)
        return list(novel)

    def _fetch(self) -> None:
        """Takes over what is new in every shard."""
        news: Dict[int, Dict[int, int]] = {}
        visits = binding.Visits(binding.NOVEL, lambda shard, edges, count: news.update(
            {shard: {edges[place].index: edges[place].bits for place in range(count)}}))
        self._call("coverage_pull_sparse", visits.function, None, None)
        visits.check()
        for shard, edges in news.items():
            waiting = self._waiting.setdefault(shard, {})
            for index, bits in edges.items():
                waiting[index] = waiting.get(index, 0) | bits

    def _wanted(self, shards: Optional[Iterable[int]]) -> List[int]:
        if shards is None:
            return list(range(self.shard_count))
        if isinstance(shards, (str, bytes, bytearray, Mapping)):
            raise ValueError("coverage pull shards must be an iterable of integers")
        try:
            wanted = set(shards)
        except TypeError as error:
            raise ValueError("coverage pull shards must be an iterable of integers") from error
        for shard in wanted:
            if type(shard) is not int or not 0 <= shard < self.shard_count:
                raise ValueError(f"coverage pull: invalid shard {shard!r} of {self.shard_count}")
        return sorted(wanted)

    @staticmethod
    def _now(now: Optional[float]) -> float:
        return moment(time.time() if now is None else now, "coverage timestamp")


def _pairs(delta: Delta) -> List[Tuple[int, int]]:
    """(index, bits) of a map in either form. ValueError: neither."""
    if isinstance(delta, (bytes, bytearray)):
        if len(delta) > MAP_MAX:
            raise ValueError(f"coverage bitmap of {len(delta)} bytes: at most {MAP_MAX}")
        return [(one.start(), one[0][0]) for one in _SET.finditer(delta)]
    if not isinstance(delta, list):
        raise ValueError("a coverage delta must be bytes or a list of (index, bits)")
    seen: Set[int] = set()
    for row in delta:
        if not isinstance(row, (list, tuple)) or len(row) != 2:
            raise ValueError(f"coverage delta: {row!r} is not a pair")
        index, bits = row
        if type(index) is not int or not 0 <= index < MAP_MAX or index in seen:
            raise ValueError(f"coverage delta: index {index!r} is invalid, or there twice")
        if type(bits) is not int or not 1 <= bits <= 0xFF:
            raise ValueError(f"coverage delta: bits {bits!r} of index {index} are invalid")
        seen.add(index)
    return [tuple(row) for row in delta]
