"""Work leases and target groups under the names that Python coordinators use.

Every method takes `now`, in Unix seconds (None: the clock), and raises the
exceptions of `symlease.errors`. A damaged record is never overwritten: whoever
asks for it is refused."""

import ctypes as c
import json
import os
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from . import binding
from .binding import Group, Lease
from .errors import CallbackFailed, CorruptRecord, StorageError, error_of
from .table import Table, duration, json_text, moment

Payload = Dict[str, Any]


class LeaseHeartbeatBatch(NamedTuple):
    """What a batch of heartbeats came to."""

    renewed: Tuple[str, ...]
    lost: Tuple[str, ...]
    directory_syncs: int
    """Directories with renewed records: each is synced once."""


class FencedWorkLeaseTable(Table):
    """Work leases in one directory, shared with coordinators in any language.

    root: the table's directory, made at the first change.
    shard_count: folders of records; fixed by whoever comes first, and checked.
    lease_ttl: seconds, 1 to 86,400: what claims write, and by which they judge.
    lock_ttl: an age for messages only; kept so that callers need no change.
    lock_acquire_timeout: seconds that one call waits for a lock.
    verify_filesystem: probe the directory first (filesystem_capabilities).
    session: a dead process's leases are free at once instead of after their
        TTL, and close() frees what is held. Off, as coordinators that hand
        tokens over to later processes expect.
    """

    _TABLE = binding.TABLE_WORK
    _ROOT = "work_root"

    def __init__(self, root: Any, *, shard_count: int = 256, lease_ttl: float = 300.0,
                 lock_ttl: float = 30.0, lock_acquire_timeout: float = 60.0,
                 verify_filesystem: bool = False, filesystem_probe_timeout: float = 5.0,
                 session: bool = False) -> None:
        self.shard_count = max(1, int(shard_count))
        self.lease_ttl = duration(lease_ttl, 1.0, "lease TTL")
        self.lock_ttl = duration(lock_ttl, 1.0, "lock age hint")
        self.lock_acquire_timeout = duration(
            lock_acquire_timeout, 0.001, "lock acquisition timeout")
        options = self.new_options(
            lease_shards=self.shard_count, work_ttl=self.lease_ttl, target_ttl=self.lease_ttl,
            lock_timeout=self.lock_acquire_timeout,
            session=binding.SESSION_OWN if session else binding.SESSION_NONE,
            **{self._ROOT: os.fsencode(root)})
        super().__init__(root, options, verify_filesystem, filesystem_probe_timeout)

    @staticmethod
    def valid_work_id(work_id: Any) -> bool:
        """64 lower-case hex digits."""
        return (isinstance(work_id, str) and len(work_id) == 64
                and all(digit in "0123456789abcdef" for digit in work_id))

    def shard_for_work(self, work_id: str) -> int:
        """The folder of an id. ValueError: not an id."""
        if not self.valid_work_id(work_id):
            raise ValueError(f"invalid work id {work_id!r}")
        return int(work_id[:8], 16) % self.shard_count

    def shard_dir(self, shard: int) -> str:
        """The path of a folder. ValueError: there is no such shard."""
        if not 0 <= shard < self.shard_count:
            raise ValueError(f"invalid lease shard {shard!r} of {self.shard_count}")
        return os.path.join(self.root, f"{shard:03d}")

    def record_path(self, work_id: str) -> str:
        """Where a record lies."""
        return os.path.join(self.shard_dir(self.shard_for_work(work_id)), f"{work_id}.json")

    def lock_path(self, work_id: str) -> str:
        """Where its lock file lies."""
        return self.record_path(work_id) + ".lock"

    def claim(self, work_id: str, payload: Payload, *, owner: str, worker: int = 0,
              lease_ttl: Optional[float] = None, now: Optional[float] = None) -> Optional[str]:
        """The token; None: held, committing, done or damaged. lease_ttl judges
        the record that is there; 0 takes it over whatever its time."""
        if not self.valid_work_id(work_id):
            return None
        options = self._claim_options(owner, worker, lease_ttl)
        lease = Lease()
        try:
            answer = self._call("claim_with", work_id.encode(), json_text(payload),
                                c.byref(options), c.byref(lease), None, now=self._now(now))
        except CorruptRecord:
            return None
        return lease.token.decode() if answer == binding.OK else None

    def heartbeat(self, work_id: str, token: str, *, now: Optional[float] = None) -> bool:
        """Whether the lease is still this token's; it is renewed then."""
        if not self.valid_work_id(work_id) or not token:
            return False
        return self.heartbeat_many({work_id: token}, now=now).renewed == (work_id,)

    def heartbeat_many(self, leases: Mapping[str, str], *,
                       now: Optional[float] = None) -> LeaseHeartbeatBatch:
        """Renews {id: token}, each directory synced once. What failed is raised
        after every other lease had its turn."""
        if not isinstance(leases, Mapping):
            raise TypeError("a lease heartbeat batch must be a mapping")
        pairs = [(name, str(token or "")) for name, token in leases.items()]
        usable = sorted(pair for pair in pairs if self._usable(*pair))
        lost = [name for name, token in pairs
                if isinstance(name, str) and not self._usable(name, token)]
        array = (Lease * len(usable))(*(
            Lease(id=name.encode(), token=token.encode()) for name, token in usable))
        results = (c.c_int32 * len(usable))()
        self._call("heartbeat_many", array, len(usable), results, now=self._now(now))
        renewed: List[str] = []
        failed: List[Tuple[str, int]] = []
        for (name, _), result in zip(usable, results):
            if result in (binding.OK, binding.COMMITTING):
                renewed.append(name)
            elif result > 0 or result == binding.E_CORRUPT:
                lost.append(name)
            else:
                failed.append((name, result))
        if failed:
            name, status = failed[0]
            said = binding.library().symlease_status_name(status).decode()
            text = f"heartbeat of {name}: {said} ({len(failed)} of {len(usable)} failed)"
            raise error_of(status, text, None)
        folders = len({self.shard_for_work(name) for name in renewed})
        return LeaseHeartbeatBatch(tuple(renewed), tuple(sorted(lost)), folders)

    def abandon(self, work_id: str, token: str) -> bool:
        """Gives back a lease that was not tried. The record stays, dated 0: the
        fence goes on rising."""
        return self._on_lease("abandon", work_id, token, None) == binding.OK

    def begin_commit(self, work_id: str, token: str, *, commit: Optional[Payload] = None,
                     now: Optional[float] = None) -> bool:
        """Fences the result, irreversibly. `commit` is the manifest by which
        anybody can finish; without one nobody but the holder can."""
        if commit is not None and not isinstance(commit, dict):
            raise ValueError("a commit manifest must be a dictionary")
        if commit is None and self._on_lease("verify", work_id, token, now) == binding.COMMITTING:
            return True
        text = json_text(commit or {})
        return self._on_lease("begin_commit", work_id, token, now, text) == binding.OK

    def complete_once(self, work_id: str, token: str, *, now: Optional[float] = None) -> str:
        """"completed" for the one call that did it, then "already"; "stale"."""
        return self._ended(self._on_lease("complete", work_id, token, now))

    def complete(self, work_id: str, token: str, *, now: Optional[float] = None) -> bool:
        """Whether it is done by this token."""
        return self.complete_once(work_id, token, now=now) != "stale"

    def replay_commit_once(self, work_id: str, token: str, publish: Callable[[Payload], Any], *,
                           now: Optional[float] = None) -> str:
        """Runs publish(manifest) under the record's lock and completes; what
        publish raises is raised, and the record stays committing."""
        if not self._usable(work_id, token) or not callable(publish):
            return "stale"
        visits = binding.Visits(
            binding.VISIT, lambda view: publish(json.loads(view.contents.manifest)))
        try:
            answer = self._call("replay", work_id.encode(), str(token).encode(),
                                visits.function, None, now=self._now(now))
        except CorruptRecord:
            return "stale"
        except CallbackFailed:
            visits.check()
            raise
        return self._ended(answer)

    def recover_expired(self, *, now: Optional[float] = None, lease_ttl: Optional[float] = None,
                        limit: int = 0) -> List[Payload]:
        """The payloads of recover_expired_records."""
        found = self.recover_expired_records(now=now, lease_ttl=lease_ttl, limit=limit)
        return [payload for _, payload in found]

    def recover_expired_records(self, *, now: Optional[float] = None,
                                lease_ttl: Optional[float] = None,
                                limit: int = 0) -> List[Tuple[str, Payload]]:
        """(id, payload) of leases past lease_ttl seconds (None: the table's; 0:
        all that are leased), oldest first, abandoned ones last."""
        ttl = self.lease_ttl if lease_ttl is None else moment(lease_ttl, "lease TTL")
        found: List[Tuple[str, Payload]] = []
        visits = binding.Visits(binding.VISIT, lambda view: found.append(
            (view.contents.id.decode(), json.loads(view.contents.payload))))
        self._call("list_expired", ttl, max(0, limit), visits.function, None,
                   now=self._now(now))
        visits.check()
        return found

    def recover_committing_records(
            self, *, limit: int = 0) -> List[Tuple[str, Payload, str, Payload]]:
        """(id, payload, token, manifest) of what is committing, oldest first.
        ValueError: a damaged record, or one without a manifest."""
        found = []
        for name, record in self.snapshot_records():
            if record["status"] != "committing":
                continue
            if not isinstance(record.get("commit"), dict):
                raise CorruptRecord(f"committing record lacks durable manifest: {name}")
            found.append((name, record["payload"], record["token"], record["commit"]))
        return found[:limit] if limit > 0 else found

    def snapshot_records(self, *, limit: int = 0) -> List[Tuple[str, Payload]]:
        """(id, record) of every record, oldest first. ValueError: a damaged one."""
        found: List[Tuple[float, str, Payload]] = []

        def visit(view: Any) -> None:
            name = view.contents.id.decode()
            if view.contents.json is None:
                reason = binding.library().symlease_last_error().decode("utf-8", "replace")
                raise CorruptRecord(f"invalid fenced lease record: {name}: {reason}")
            found.append((view.contents.updated, name, json.loads(view.contents.json)))

        self._scan(binding.SCAN_ALL, visit)
        found.sort(key=lambda one: one[:2])
        pairs = [(name, record) for _, name, record in found]
        return pairs[:limit] if limit > 0 else pairs

    def snapshot_counts(self, *, now: Optional[float] = None) -> Dict[str, int]:
        """leased, committing, expired (of the leased), done."""
        moment_now = self._now(now)
        counts = {"leased": 0, "committing": 0, "expired": 0, "done": 0}
        names = {binding.SCAN_LEASED: "leased", binding.SCAN_COMMITTING: "committing",
                 binding.SCAN_DONE: "done"}

        def visit(view: Any) -> None:
            name = names[view.contents.status]
            counts[name] += 1
            if name == "leased" and moment_now - view.contents.updated >= self.lease_ttl:
                counts["expired"] += 1

        self._scan(binding.SCAN_ALL & ~binding.SCAN_CORRUPT, visit)
        return counts

    def _scan(self, mask: int, visit: Callable[[Any], None]) -> None:
        visits = binding.Visits(binding.VISIT, visit)
        self._call("scan", self._TABLE, mask, None, 0, visits.function, None)
        visits.check()

    def _claim_options(self, owner: str, worker: int,
                       lease_ttl: Optional[float]) -> binding.ClaimOptions:
        ttl = self.lease_ttl if lease_ttl is None else moment(lease_ttl, "claim lease TTL")
        options = binding.ClaimOptions(
            owner=str(owner or "master").encode(), ttl=ttl, worker=int(worker))
        options.struct_size = c.sizeof(options)
        if ttl == 0.0:
            options.flags = binding.CLAIM_TAKEOVER
        return options

    def _usable(self, work_id: Any, token: Any) -> bool:
        """Whether an id and a token can be anybody's at all."""
        text = str(token or "").encode()
        return self.valid_work_id(work_id) and 0 < len(text) < binding.TOKEN_SIZE

    def _on_lease(self, call: str, work_id: str, token: str, now: Optional[float],
                  *more: Any) -> int:
        """A call by id and token; what can be nobody's lease is stale, and so
        is a damaged record."""
        if not self._usable(work_id, token):
            return binding.STALE
        lease = Lease(id=work_id.encode(), token=str(token).encode())
        try:
            return self._call(call, c.byref(lease), *more, now=self._now(now))
        except CorruptRecord:
            return binding.STALE

    @staticmethod
    def _ended(answer: int) -> str:
        return {binding.OK: "completed", binding.ALREADY: "already"}.get(answer, "stale")

    @staticmethod
    def _now(now: Optional[float]) -> float:
        """The moment of a call: `now`, else the clock's."""
        return moment(time.time() if now is None else now, "lease timestamp")


class FencedTargetLeaseTable(FencedWorkLeaseTable):
    """Groups of up to 64 branch targets, leased all or none.

    last_error: why a group call was last answered None or False for an I/O
    error (all members stand as they were then)."""

    MAX_TARGETS = binding.GROUP_MAX
    _TABLE = binding.TABLE_TARGET
    _ROOT = "target_root"
    last_error = ""

    @classmethod
    def normalize_targets(cls, targets: Iterable[Any]) -> Tuple[int, ...]:
        """The first 64 different positive integers, in their order."""
        found: Dict[int, None] = {}
        for value in targets:
            try:
                target = int(value)
            except (TypeError, ValueError, OverflowError):
                continue
            if 0 < target < 1 << 64 and len(found) < cls.MAX_TARGETS:
                found.setdefault(target)
        return tuple(found)

    @staticmethod
    def target_id(target: int) -> str:
        """The record id of a target."""
        out = c.create_string_buffer(binding.ID_SIZE)
        binding.call("target_id", int(target), out)
        return out.value.decode()

    def claim_group(self, targets: Iterable[Any], payload: Payload, *, owner: str,
                    worker: int = 0, now: Optional[float] = None) -> Optional[str]:
        """One token for all targets; None: one of them is held or damaged, or an
        I/O error that was taken back."""
        group = self.normalize_targets(targets)
        if not group:
            return None
        options = self._claim_options(owner, worker, None)
        array = (c.c_uint64 * len(group))(*group)
        out = Group()
        answer = self._on_group("group_claim_with", array, len(group), json_text(payload),
                                c.byref(options), c.byref(out), None, now=self._now(now))
        return out.token.decode() if answer == binding.OK else None

    def heartbeat_group(self, targets: Iterable[Any], token: str, *,
                        now: Optional[float] = None) -> bool:
        """Whether every target is still this token's; all are renewed then."""
        return self._held("group_heartbeat", targets, token, now)

    def release_group(self, targets: Iterable[Any], token: str) -> bool:
        """Whether every target was this token's; all are free then."""
        return self._held("group_release", targets, token, None)

    def _held(self, call: str, targets: Iterable[Any], token: str,
              now: Optional[float]) -> bool:
        members = self.normalize_targets(targets)
        text = str(token or "").encode()
        if not members or not 0 < len(text) < binding.TOKEN_SIZE:
            return False
        group = Group(count=len(members), token=text)
        group.targets[: len(members)] = members
        return self._on_group(call, c.byref(group), now=self._now(now)) == binding.OK

    def _on_group(self, call: str, *arguments: Any, now: float) -> int:
        try:
            return self._call(call, *arguments, now=now)
        except (CorruptRecord, StorageError) as error:
            self.last_error = str(error)
            return binding.STALE
