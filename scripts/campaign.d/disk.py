"""Reads a campaign's raw files, by the description of the format alone."""
import hashlib
import json
import math
import os
import pathlib
import re

SHARDS = 256


def unique(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def refuse(constant):
    raise ValueError(f"{constant} is no JSON")


def parse(data):
    value = json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_constant=refuse)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def read(path):
    """A record that is there, or None."""
    try:
        return parse(pathlib.Path(path).read_bytes())
    except FileNotFoundError:
        return None


def shard_of(name, shards=SHARDS):
    return f"{int(name[:8], 16) % shards:03d}"


def record_path(root, name, shards=SHARDS):
    return pathlib.Path(root) / shard_of(name, shards) / f"{name}.json"


def record_files(root):
    """(id, path) of all records of a lease table."""
    try:
        folders = [f for f in os.scandir(root) if f.name.isdigit() and f.is_dir()]
    except FileNotFoundError:
        return
    for folder in folders:
        try:
            names = os.listdir(folder.path)
        except FileNotFoundError:
            continue
        for name in names:
            if name.endswith(".json"):
                yield name[:-5], os.path.join(folder.path, name)


def lease_faults(name, path, record):
    """What is wrong with a record, by the table of fields in the format."""

    def number(key, low=0):
        value = record.get(key)
        return type(value) in (int, float) and math.isfinite(value) and value >= low

    def whole(key):
        return type(record.get(key)) is int and record[key] >= 0

    faults = []
    if record.get("schema") != 1 or type(record["schema"]) is not int:
        faults.append("schema is not 1")
    if record.get("id") != name or not re.fullmatch("[0-9a-f]{64}", name):
        faults.append("id is not its file's name")
    elif pathlib.Path(path).parent.name != shard_of(name):
        faults.append("in another shard's folder")
    if record.get("status") not in ("leased", "committing", "done"):
        faults.append("unknown status")
    if not isinstance(record.get("payload"), dict):
        faults.append("payload is no object")
    if not (isinstance(record.get("token"), str) and record["token"]):
        faults.append("no token")
    if not number("updated"):
        faults.append("updated is no time")
    if not whole("attempts") or not whole("steals"):
        faults.append("attempts or steals are no counts")
    if not (whole("fence") and record["fence"] < 2**64 - 1):
        faults.append("no fence")
    if "commit" in record and not isinstance(record["commit"], dict):
        faults.append("commit is no object")
    if record.get("status") == "done" and not number("completed"):
        faults.append("done without a time")
    return faults


def payload_id(payload):
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def target_id(target):
    return hashlib.sha256(f"target:{target}".encode("ascii")).hexdigest()


def tree(root):
    """Paths of all files below a folder, relative, sorted."""
    root = pathlib.Path(root)
    found = []
    for folder, _, names in os.walk(root):
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found)


def snapshot(campaign):
    """Every lease record as it stands, by table and id."""
    tables = {}
    for table in ("work", "target"):
        root = pathlib.Path(campaign) / f".{table}_lease_table"
        records = {name: read(path) for name, path in record_files(root)}
        tables[table] = {name: record for name, record in records.items() if record}
    return tables


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def children_of(parent):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = pathlib.Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            if int(text.rsplit(")", 1)[1].split()[1]) == parent:
                found.append(int(entry))
    return found


class Watcher:
    """Looks at the work records again and again, and keeps what changed."""

    KEPT = ("status", "owner", "token", "fence", "attempts", "steals", "completed")

    def __init__(self, root):
        self.root = root
        self.seen = {}
        self.history = {}
        self.looks = 0

    def look(self):
        self.looks += 1
        for name, path in record_files(self.root):
            try:
                stat = os.stat(path)
                version = (stat.st_ino, stat.st_mtime_ns)
                if self.seen.get(name) == version:
                    continue
                record = read(path)
            except (FileNotFoundError, ValueError):
                continue  # what is damaged at the end is found by the checks
            if record is None:
                continue
            self.seen[name] = version
            state = {key: record.get(key) for key in self.KEPT}
            states = self.history.setdefault(name, [])
            if not states or states[-1] != state:
                states.append(state)
