"""The files of a campaign as format.md describes them, read by nobody else's code."""
import fcntl
import hashlib
import json
import math
import os
import re

TEMPORARY = re.compile(r"(.+)\.json\.[^/]*\.tmp$")
WORK, TARGET, COVERAGE = ".work_lease_table", ".target_lease_table", ".coverage_owner"


class Bad(Exception):
    """What stands there is not what may stand there."""


def need(holds, what):
    if not holds:
        raise Bad(what)


def pairs(members):
    found = dict(members)
    need(len(found) == len(members), "a key twice")
    return found


def refuse(word):
    raise Bad(f"{word} in a file")


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def line(data):
    """One object on one line with sorted keys and a final newline."""
    try:
        value = json.loads(data.decode(), object_pairs_hook=pairs, parse_constant=refuse)
    except ValueError as error:
        raise Bad(f"no JSON: {error}") from error
    need(isinstance(value, dict), "no object")
    need(data.decode() == canonical(value) + "\n", "not one canonical line")
    return value


def integer(value, least=0, most=2**64 - 1):
    return type(value) is int and least <= value <= most


def seconds(value):
    return type(value) in (int, float) and math.isfinite(value) and value >= 0


def lease(name, data):
    record = line(data)
    need(record.get("schema") == 1 and record.get("id") == name, "schema or id")
    need(record.get("status") in ("leased", "committing", "done"), "status")
    need(isinstance(record.get("payload"), dict), "payload")
    need(isinstance(record.get("token"), str) and record["token"], "token")
    need(seconds(record.get("updated")), "updated")
    need(integer(record.get("fence")), "fence")
    need(seconds(record.get("ttl")) and record["ttl"] > 0, "ttl")
    need(integer(record.get("attempts"), 1) and integer(record.get("steals")), "attempts, steals")
    need(isinstance(record.get("commit", {}), dict), "commit")
    return record


def entries(record, number, count):
    need(record.get("schema") == 1 and record.get("shard") == number, "schema or shard")
    need(integer(record.get("epoch")), "epoch")
    last = -1
    for index, bits in record["entries"]:
        need(integer(index, last + 1, 2**23 - 1) and integer(bits, 1, 255), "an entry")
        need(index % count == number, "an entry of another shard")
        last = index
    names = record["contributors"].items()
    need(all(name and integer(times) for name, times in names), "contributors")
    return dict(record["entries"])


def transaction(name, data):
    record = line(data)
    digest = record.pop("transaction_sha256")
    sha256 = hashlib.sha256(canonical(record).encode()).hexdigest()
    need(digest == sha256 == name, "the transaction's digest")
    numbers = [shard["shard"] for shard in record["records"]]
    need(numbers == sorted(set(numbers)), "the transaction's order")
    return [entries(shard, shard["shard"], record["shard_count"]) for shard in record["records"]]


class Campaign:
    """Everything below root/, each file known by its place, or Bad."""

    def __init__(self, root, shards=4):
        self.root, self.shards = root, shards
        self.leases = {WORK: {}, TARGET: {}}
        self.map, self.pending = {}, {}
        self.temporaries, self.transactions, self.intents, self.locks = [], [], [], []
        self.corpus, self.staged = {}, []
        for place, _, names in os.walk(root):
            for name in names:
                path = os.path.join(place, name)
                below = os.path.relpath(path, root)
                try:
                    self.take(below, below.split("/"), path)
                except Bad as bad:
                    raise Bad(f"{below}: {bad}") from bad

    def take(self, below, parts, path):
        with open(path, "rb") as file:
            data = file.read()
        table, name = parts[0], parts[-1]
        if table == "corpus":
            self.corpus[name] = data.decode()
        elif table == "staged":
            self.staged.append(name)
        elif parts[1:2] == [".sessions"]:
            if name.endswith(".tmp"):
                self.temporaries.append(below)
        elif name.endswith(".tmp"):
            need(TEMPORARY.match(name), "a temporary that no sweep would find")
            self.temporaries.append(below)
        elif name.endswith(".lock"):
            need(data == b"", "a lock file with content")
            self.locks.append(path)
        elif name in ("symlease.json", "map.json"):
            need(line(data)["schema"] == 1, "schema")
        elif parts[1:2] == [".intents"]:
            self.intents.append(below)
            line(data)
        elif table in self.leases and len(parts) == 3 and name.endswith(".json"):
            record = lease(name[:-5], data)
            need(int(parts[1]) == int(name[:8], 16) % self.shards, "the wrong folder")
            self.leases[table][name[:-5]] = (data, record)
        elif parts[1:2] == ["state"] and name.endswith(".json"):
            number = int(name[:-5])
            self.map.update(entries(line(data), number, self.shards))
        elif parts[1:2] == ["claim-transactions"] and name.endswith(".json"):
            self.transactions.append(below)
            for shard in transaction(name[:-5], data):
                for index, bits in shard.items():
                    self.pending[index] = self.pending.get(index, 0) | bits
        elif parts[1:2] == ["coordinators"]:
            beat = line(data)
            need(beat["index"] < beat["count"] and seconds(beat["updated"]), "heartbeat")
        else:
            need(below == "published", "a file that nobody knows")

    def covered(self):
        """The map with what pending transactions will add."""
        union = dict(self.map)
        for index, bits in self.pending.items():
            union[index] = union.get(index, 0) | bits
        return union

    def fences(self):
        both = [*self.leases[WORK].items(), *self.leases[TARGET].items()]
        return {name: record["fence"] for name, (_, record) in both}

    def check_locks_free(self):
        """L1: nobody holds any."""
        for path in self.locks:
            with open(path, "rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError as error:
                    raise Bad(f"{path} is locked by a dead process") from error
                # Another thread's child, before its exec, would keep what a close leaves.
                fcntl.flock(file, fcntl.LOCK_UN)


def work_id(name):
    return hashlib.sha256(name.encode()).hexdigest()


def target_id(number):
    return hashlib.sha256(f"target:{number}".encode()).hexdigest()
