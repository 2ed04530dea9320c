"""A coordinator in plain Python that shares a campaign's directory with symlease.

Written from the description of the format alone, for the interop tests. It
shares no code with the library: its own locks, its own publishing, its own
reading and checking of records.
"""

import fcntl
import hashlib
import json
import math
import os
import secrets
import stat
import sys
import threading
import time

# Records may nest deeply; json's scanner counts its calls against this limit.
sys.setrecursionlimit(20_000)
sys.set_int_max_str_digits(0)

RECORD_MAX = 4 << 20
SHARD_MAX = 64 << 20
INDEX_END = 1 << 23
# What only symlease writes: kept when a lease is renewed, dropped by a claim.
FOREIGN = ("fence", "session", "ttl", "version")
HEX = frozenset("0123456789abcdef")


class Corrupt(Exception):
    """A file is not what its format says; nobody may overwrite it."""


class LockTimeout(Exception):
    """Somebody else kept a lock beyond the deadline."""


# --- JSON, strictly, with numbers kept as they were written ---


class Number:
    """A JSON number: its digits, and its value where somebody asks."""

    __slots__ = ("text",)

    def __init__(self, text):
        self.text = text

    @property
    def whole(self):
        return all(mark not in self.text for mark in ".eE")

    @property
    def value(self):
        return int(self.text) if self.whole else float(self.text)


def _unique(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Corrupt("a key stands twice")
    return found


def _no_constant(name):
    raise Corrupt(f"{name} is no JSON")


def parse(data):
    """One JSON object in UTF-8, and nothing after it."""
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_int=Number,
            parse_float=Number,
            parse_constant=_no_constant,
        )
    except (ValueError, RecursionError) as error:
        raise Corrupt(str(error)) from error
    if not isinstance(value, dict):
        raise Corrupt("not an object")
    return value


class _Raw(str):
    """Text that is JSON already."""


def text_of(value):
    """Canonical JSON. Walks with a list of its own, so depth costs no stack."""
    out, todo = [], [value]
    while todo:
        item = todo.pop()
        if isinstance(item, _Raw):
            out.append(item)
        elif isinstance(item, Number):
            out.append(item.text)
        elif isinstance(item, dict):
            todo.append(_Raw("}"))
            for place, key in enumerate(sorted(item, reverse=True)):
                comma = "" if place == len(item) - 1 else ","
                todo.append(item[key])
                todo.append(_Raw(comma + json.dumps(key) + ":"))
            out.append("{")
        elif isinstance(item, (list, tuple)):
            todo.append(_Raw("]"))
            for place in range(len(item) - 1, -1, -1):
                todo.append(item[place])
                if place:
                    todo.append(_Raw(","))
            out.append("[")
        else:
            out.append(json.dumps(item, allow_nan=False))
    return "".join(out)


def line_of(value):
    return text_of(value).encode("ascii") + b"\n"


def work_id(payload):
    """The id of a payload given as JSON text: numbers as Python prints them."""
    canonical = json.dumps(json.loads(payload), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def target_id(target):
    return hashlib.sha256(f"target:{target}".encode("ascii")).hexdigest()


def _int(value):
    """A plain integer from a parsed field; None for anything else."""
    return value.value if isinstance(value, Number) and value.whole else None


def _count(value):
    number = _int(value)
    return number if number is not None and number >= 0 else None


def _time(value):
    if not isinstance(value, Number):
        return None
    try:
        moment = float(value.value)
    except (OverflowError, ValueError):
        return None
    return moment if math.isfinite(moment) and moment >= 0 else None


# --- files ---


def read_file(path, limit):
    """The bytes, or None where nothing is. Larger files are not read whole."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise Corrupt(f"{path}: more than {limit} bytes")
    return data


def sync_directory(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def publish(path, data, unique=""):
    """All of the new content under its name, or all of the old."""
    temporary = f"{path}.{os.getpid()}.{time.time_ns()}{unique}.tmp"
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except FileNotFoundError:
            pass
        raise
    sync_directory(os.path.dirname(path))


def remove(path):
    os.unlink(path)
    sync_directory(os.path.dirname(path))


def make_directory(path):
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    make_directory(parent)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    sync_directory(parent)


class Lock:
    """flock on `<path>.lock`, which stays where it is for ever."""

    def __init__(self, path, timeout):
        self.path, self.timeout, self.fd = path + ".lock", timeout, None

    def __enter__(self):
        end = time.monotonic() + self.timeout
        pause = 0.0002
        while True:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise OSError(f"{self.path}: no regular file")
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(fd), os.stat(self.path, follow_symlinks=False)):
                    self.fd = fd
                    return self
            except BlockingIOError:
                pass
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)
            if time.monotonic() >= end:
                raise LockTimeout(self.path)
            time.sleep(pause * (0.5 + secrets.randbelow(1000) / 1000))
            pause = min(pause * 2, 0.005)

    def __exit__(self, *_):
        os.close(self.fd)
        self.fd = None


class Locks:
    """Several locks in the order given, within one deadline; all or none."""

    def __init__(self, paths, timeout):
        self.paths, self.timeout, self.held = list(paths), timeout, []

    def __enter__(self):
        end = time.monotonic() + self.timeout
        try:
            for path in self.paths:
                lock = Lock(path, max(0.0, end - time.monotonic()))
                self.held.append(lock.__enter__())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        while self.held:
            self.held.pop().__exit__()


# --- leases ---


def check_lease(name, record):
    """Raises Corrupt unless `record` is a valid lease record of id `name`."""

    def need(holds, what):
        if not holds:
            raise Corrupt(f"{name}: {what}")

    need(_int(record.get("schema")) == 1, "schema")
    need(record.get("id") == name, "id")
    need(record.get("status") in ("leased", "committing", "done"), "status")
    need(isinstance(record.get("payload"), dict), "payload")
    token = record.get("token")
    need(isinstance(token, str) and token != "", "token")
    need(_time(record.get("updated")) is not None, "updated")
    if "commit" in record:
        need(isinstance(record["commit"], dict), "commit")
    if "ttl" in record:
        need((_time(record["ttl"]) or 0) > 0, "ttl")
    if "fence" in record:
        fence = _count(record["fence"])
        need(fence is not None and fence < 1 << 64, "fence")


class _Leases:
    """What both lease tables share: places, reading, and the rule of claims."""

    def __init__(self, root, owner, worker=0, shards=256, ttl=300.0, lock_timeout=60.0,
                 clock=time.time):
        self.root, self.owner, self.worker = os.path.abspath(root), owner, worker
        self.shards, self.ttl, self.lock_timeout = shards, ttl, lock_timeout
        self.clock = clock
        self._last = 0
        self._guard = threading.Lock()

    def place(self, name):
        if len(name) != 64 or not HEX.issuperset(name):
            raise ValueError(f"{name!r} is no id")
        folder = f"{int(name[:8], 16) % self.shards:03d}"
        return os.path.join(self.root, folder, name + ".json")

    def read(self, name):
        """The record, or None; raises Corrupt."""
        data = read_file(self.place(name), RECORD_MAX)
        if data is None:
            return None
        record = parse(data)
        check_lease(name, record)
        return record

    def _lock(self, name):
        make_directory(os.path.dirname(self.place(name)))
        return Lock(self.place(name), self.lock_timeout)

    def _write(self, record):
        data = line_of(record)
        if len(data) > RECORD_MAX:
            raise ValueError("the record is too large")
        publish(self.place(record["id"]), data)

    def _token(self):
        """Unlike every token before it in this process, and in any other."""
        with self._guard:
            self._last = max(self._last + 1, time.time_ns())
            return f"{self.owner}:{self.worker}:{os.getpid()}:{self._last}"

    def _refusal(self, record, now):
        if record is None:
            return None
        if record["status"] != "leased":
            return record["status"].upper()
        updated = _time(record["updated"])
        return "HELD" if updated != 0 and now - updated < self.ttl else None

    def _claimed(self, name, old, payload, token, now):
        new = dict(old or {})
        for field in FOREIGN + ("commit", "completed"):
            new.pop(field, None)
        before = new.get("owner", "")
        taken = old is not None and before != self.owner
        new.update(
            schema=1,
            id=name,
            status="leased",
            owner=self.owner,
            previous_owner=before,
            worker=self.worker,
            token=token,
            updated=now,
            attempts=(_count(new.get("attempts")) or 0) + 1,
            steals=(_count(new.get("steals")) or 0) + taken,
        )
        if payload is not None:
            new["payload"] = parse(payload.encode("utf-8"))
        new.setdefault("payload", {})
        return new


class FencedWorkLeaseTable(_Leases):
    """One exact execution each. Answers are words: OK, HELD, STALE ..."""

    def claim(self, name, payload=None):
        """(answer, token); the token is None unless the answer is OK."""
        with self._lock(name):
            old, now = self.read(name), self.clock()
            refused = self._refusal(old, now)
            if refused:
                return refused, None
            token = self._token()
            self._write(self._claimed(name, old, payload, token, now))
            return "OK", token

    def _holder(self, name, token):
        record = self.read(name)
        return record if record is not None and record["token"] == token else None

    def heartbeat(self, name, token):
        with self._lock(name):
            record = self._holder(name, token)
            if record is None:
                return "STALE"
            if record["status"] == "done":
                return "ALREADY"
            record["updated"] = self.clock()
            self._write(record)
            return "OK"

    def abandon(self, name, token):
        with self._lock(name):
            record = self._holder(name, token)
            if record is None or record["status"] == "done":
                return "STALE"
            if record["status"] == "committing":
                return "COMMITTING"
            record.update(updated=0, token=self._token())
            record.pop("session", None)
            self._write(record)
            return "OK"

    def begin_commit(self, name, token, manifest):
        wanted = parse(manifest.encode("utf-8"))
        with self._lock(name):
            record = self._holder(name, token)
            if record is None or record["status"] == "done":
                return "STALE"
            if record["status"] == "committing" and "commit" in record:
                same = text_of(record["commit"]) == text_of(wanted)
                return "OK" if same else "CONFLICT"
            record.update(status="committing", commit=wanted)
            self._write(record)
            return "OK"

    def complete(self, name, token):
        with self._lock(name):
            record = self._holder(name, token)
            if record is None:
                return "STALE"
            if record["status"] == "done":
                return "ALREADY"
            record.update(status="done", completed=self.clock())
            self._write(record)
            return "OK"


class FencedTargetLeaseTable(_Leases):
    """Groups of branch targets under one token each."""

    MOST = 64

    def members(self, targets):
        """id -> target, in id order."""
        wanted = {target for target in targets if target > 0}
        if not 0 < len(wanted) <= self.MOST:
            raise ValueError(f"{len(wanted)} targets in a group")
        return dict(sorted((target_id(target), target) for target in wanted))

    def _locks(self, members):
        for name in members:
            make_directory(os.path.dirname(self.place(name)))
        return Locks(map(self.place, members), self.lock_timeout)

    def claim_group(self, targets, payload=None):
        members = self.members(targets)
        with self._locks(members):
            old = {name: self.read(name) for name in members}
            now = self.clock()
            for record in old.values():
                refused = self._refusal(record, now)
                if refused:
                    return refused, None
            token = self._token()
            new = {}
            for name, target in members.items():
                new[name] = self._claimed(name, old[name], payload, token, now)
                new[name].update(target=target, targets=list(members.values()))
            self._publish_all(old, new)
            return "OK", token

    def heartbeat_group(self, targets, token):
        members = self.members(targets)
        with self._locks(members):
            old = self._held(members, token)
            if old is None:
                return "STALE"
            now = self.clock()
            self._publish_all(old, {name: dict(old[name], updated=now) for name in old})
            return "OK"

    def release_group(self, targets, token):
        members = self.members(targets)
        with self._locks(members):
            old = self._held(members, token)
            if old is None:
                return "STALE"
            self._publish_all(old, dict.fromkeys(old))
            return "OK"

    def _held(self, members, token):
        found = {}
        for name in members:
            record = self.read(name)
            if record is None or record["status"] != "leased" or record["token"] != token:
                return None
            found[name] = record
        return found

    def _publish_all(self, old, new):
        """All of them; after a failure those already changed go back."""
        changed = []
        try:
            for name, record in new.items():
                changed.append(name)
                self._put(name, record)
        except BaseException:
            for name in changed:
                try:
                    self._put(name, old[name])
                except OSError:
                    pass
            raise

    def _put(self, name, record):
        if record is not None:
            self._write(record)
        elif os.path.lexists(self.place(name)):
            remove(self.place(name))


# --- coverage ---


def check_shard(shard, count, record):
    """The entries of a valid shard record as {index: mask}; raises Corrupt."""

    def need(holds, what):
        if not holds:
            raise Corrupt(f"coverage shard {shard}: {what}")

    need(_int(record.get("schema")) == 1, "schema")
    need(_int(record.get("shard")) == shard, "shard")
    need(_count(record.get("epoch")) is not None, "epoch")
    need(isinstance(record.get("contributors"), dict), "contributors")
    for name, times in record["contributors"].items():
        need(name != "" and _count(times) is not None, "contributor")
    need(isinstance(record.get("entries"), list), "entries")
    found, last = {}, -1
    for row in record["entries"]:
        need(isinstance(row, list) and len(row) == 2, "row")
        index, mask = _int(row[0]), _int(row[1])
        need(index is not None and last < index < INDEX_END, "index")
        need(index % count == shard, "foreign index")
        need(mask is not None and 1 <= mask <= 255, "mask")
        found[index] = mask
        last = index
    if "owner_index" in record:
        need(_count(record["owner_index"]) is not None, "owner_index")
    for field in ("owner", "last_writer"):
        if field in record:
            need(isinstance(record[field], str), field)
    if "updated" in record:
        need(_time(record["updated"]) is not None, "updated")
    return found


class CoverageOwnerShardGossip:
    """The OR of all coverage bits, in shards; each bit is credited once."""

    OLD_NAME = ".coverage-claim-transaction.json"

    def __init__(self, root, owner, shards=64, index=0, count=1, lock_timeout=60.0, ttl=30.0,
                 clock=time.time):
        self.root, self.owner, self.shards = os.path.abspath(root), owner, shards
        self.index, self.count, self.ttl = index, count, ttl
        self.lock_timeout, self.clock = lock_timeout, clock
        self.seen = {}
        self.state = os.path.join(self.root, "state")
        self.transactions = os.path.join(self.root, "claim-transactions")
        self.coordinators = os.path.join(self.root, "coordinators")

    def place(self, shard):
        return os.path.join(self.state, f"{shard:04d}.json")

    def read(self, shard):
        """(record, {index: mask}); an absent shard is empty, a bad one Corrupt."""
        data = read_file(self.place(shard), SHARD_MAX)
        if data is None:
            empty = {"schema": Number("1"), "shard": Number(str(shard)), "epoch": Number("0"),
                     "entries": [], "contributors": {}}
            return empty, {}
        record = parse(data)
        return record, check_shard(shard, self.shards, record)

    def heartbeat(self):
        make_directory(self.coordinators)
        beat = {"schema": 1, "count": self.count, "index": self.index, "id": self.owner,
                "updated": self.clock()}
        path = os.path.join(self.coordinators, f"{self.index:04d}.json")
        publish(path, line_of(beat), "." + secrets.token_hex(4))

    def _owner_of(self, shard, now):
        for step in range(self.count):
            index = (shard + step) % self.count
            path = os.path.join(self.coordinators, f"{index:04d}.json")
            try:
                beat = parse(read_file(path, 4096) or b"")
            except (Corrupt, OSError):
                continue
            moment, name = _time(beat.get("updated")), beat.get("id")
            if moment is not None and isinstance(name, str) and name and now - moment < self.ttl:
                return index, name
        return self.index, self.owner

    def _pending(self):
        """(path, transaction) of each merge that may have been cut off."""
        paths = [os.path.join(self.root, self.OLD_NAME)]
        try:
            listed = sorted(os.listdir(self.transactions))
        except FileNotFoundError:
            listed = []
        for name in listed:
            stem, _, rest = name.partition(".")
            if rest == "json" and len(stem) == 64 and HEX.issuperset(stem):
                paths.append(os.path.join(self.transactions, name))
        for path in paths:
            data = read_file(path, SHARD_MAX)
            if data is not None:
                yield path, self._check_transaction(path, parse(data))

    def _check_transaction(self, path, found):
        fields = {"schema", "shard_count", "coordinator", "created", "records",
                  "novel_by_candidate", "transaction_sha256"}
        good = (
            set(found) == fields
            and _int(found["schema"]) == 1
            and _int(found["shard_count"]) == self.shards
            and isinstance(found["coordinator"], str)
            and _time(found["created"]) is not None
            and isinstance(found["records"], list)
            and isinstance(found["novel_by_candidate"], list)
            and all(_count(bits) is not None for bits in found["novel_by_candidate"])
            and found["transaction_sha256"] == self._digest(found)
        )
        if not good:
            raise Corrupt(f"{path}: no transaction")
        last = -1
        for record in found["records"]:
            shard = _int(record.get("shard")) if isinstance(record, dict) else None
            if shard is None or not last < shard < self.shards:
                raise Corrupt(f"{path}: shards do not rise")
            check_shard(shard, self.shards, record)
            last = shard
        return found

    @staticmethod
    def _digest(transaction):
        rest = {key: item for key, item in transaction.items() if key != "transaction_sha256"}
        return hashlib.sha256(text_of(rest).encode("ascii")).hexdigest()

    @staticmethod
    def _shards_in(transaction):
        return [_int(record["shard"]) for record in transaction["records"]]

    def _settle(self, path, numbers):
        """Rolls a dead writer's merge forward. Takes no bit away."""
        make_directory(self.state)
        with Locks(map(self.place, numbers), self.lock_timeout):
            data = read_file(path, SHARD_MAX)
            if data is None:
                return
            transaction = self._check_transaction(path, parse(data))
            if self._shards_in(transaction) != numbers:
                return
            for logged in transaction["records"]:
                shard = _int(logged["shard"])
                there, mine = self.read(shard)
                both = dict(mine)
                for index, mask in check_shard(shard, self.shards, logged).items():
                    both[index] = both.get(index, 0) | mask
                old, new = _int(there["epoch"]), _int(logged["epoch"])
                if both == mine and new <= old:
                    continue
                merged = dict(there, **logged) if new > old else dict(logged, **there)
                merged["epoch"] = new if new > old else old + 1
                names = dict(there["contributors"])
                for name, times in logged["contributors"].items():
                    if name not in names or _int(names[name]) < _int(times):
                        names[name] = times
                merged["contributors"] = names
                merged["entries"] = sorted(map(list, both.items()))
                self._publish_shard(shard, merged)
            remove(path)

    def _publish_shard(self, shard, record):
        publish(self.place(shard), line_of(record), "." + secrets.token_hex(4))

    def claim_many(self, candidates, hook=lambda step: None):
        """Merges `candidates` ({index: mask} each) in order. Answers the bits
        of each that nobody had. `hook` lets tests die on the way."""
        numbers = sorted({index % self.shards for one in candidates for index in one})
        make_directory(self.state)
        while True:
            with Locks(map(self.place, numbers), self.lock_timeout):
                hit = next(
                    ((path, self._shards_in(found)) for path, found in self._pending()
                     if not set(numbers).isdisjoint(self._shards_in(found))),
                    None,
                )
                if hit is None:
                    return self._merge(candidates, numbers, hook)
            self._settle(*hit)

    def _merge(self, candidates, numbers, hook):
        at_hand = {shard: self.read(shard) for shard in numbers}
        novel, touched = [], set()
        for candidate in candidates:
            new = {}
            for index, mask in sorted(candidate.items()):
                entries = at_hand[index % self.shards][1]
                fresh = mask & ~entries.get(index, 0)
                if fresh:
                    new[index] = fresh
                    entries[index] = entries.get(index, 0) | fresh
                    touched.add(index % self.shards)
            novel.append(new)
        now = self.clock()
        records = {}
        for shard in sorted(touched):
            record, entries = at_hand[shard]
            owner_index, owner = self._owner_of(shard, now)
            names = dict(record["contributors"])
            names[self.owner] = (_int(names[self.owner]) if self.owner in names else 0) + 1
            records[shard] = dict(
                record,
                epoch=_int(record["epoch"]) + 1,
                entries=sorted(map(list, entries.items())),
                contributors=names,
                owner_index=owner_index,
                owner=owner,
                last_writer=self.owner,
                updated=now,
            )
        path = None
        if len(records) > 1:
            path = self._log(records, novel, now)
            hook("logged")
        for place, (shard, record) in enumerate(records.items()):
            self._publish_shard(shard, record)
            if place == 0:
                hook("one published")
        hook("published")
        if path:
            remove(path)
        return novel

    def _log(self, records, novel, now):
        make_directory(self.transactions)
        transaction = {
            "schema": 1,
            "shard_count": self.shards,
            "coordinator": self.owner,
            "created": now,
            "records": list(records.values()),
            "novel_by_candidate": [sum(map(int.bit_count, one.values())) for one in novel],
        }
        digest = self._digest(transaction)
        transaction["transaction_sha256"] = digest
        path = os.path.join(self.transactions, digest + ".json")
        publish(path, line_of(transaction), "." + secrets.token_hex(4))
        return path

    def pull(self):
        """{index: mask} of what earlier pulls of this object did not give."""
        for path, found in list(self._pending()):
            self._settle(path, self._shards_in(found))
        fresh = {}
        for shard in range(self.shards):
            for index, mask in self.read(shard)[1].items():
                new = mask & ~self.seen.get(index, 0)
                if new:
                    fresh[index] = new
                    self.seen[index] = self.seen.get(index, 0) | new
        return fresh
