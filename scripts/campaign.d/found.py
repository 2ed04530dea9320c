"""The checks of what a campaign found and left, from the raw files on disk."""
import collections
import fcntl
import os
import pathlib
import re
import stat
import struct
import subprocess

import disk
from check import KILLED, SURVIVORS, count

COVERAGE_SHARDS = 64
HEADER = 4096
CAPACITY = 1 << 20
RUN_TIMEOUT = 5.0


def check_corpus(c, checks):
    faults = []
    named = {}
    for name, record in c.records().items():
        manifest = record.get("commit")
        if manifest is None or record.get("status") != "done":
            continue
        if manifest.get("schema") != "symlease-commit-v1":
            faults.append(f"work {name[:8]}: a manifest of another schema")
            continue
        for result in manifest["results"]:
            named.setdefault(result["sha256"], result)
    there = set(c.digests.values())
    for name, digest in c.digests.items():
        result = named.get(digest)
        if result is None:
            faults.append(f"{name}: in the corpus, in no commit")
        elif c.files[name].stat().st_size != result["size"]:
            faults.append(f"{name}: {c.files[name].stat().st_size} bytes, its manifest says {result['size']}")
        if re.fullmatch("[0-9a-f]{64}", name) and name != digest:
            faults.append(f"{name}: its content is another")
    if len(there) != len(c.digests):
        faults.append(f"{len(c.digests) - len(there)} corpus files have the content of another")
    known = set(named) - there
    says = c.total("published")
    if says > len(c.digests):
        faults.append(f"survivors published {says} files, the corpus has {len(c.digests)}")
    if c.total("lost"):
        faults.append(f"{c.total('lost')} results were lost")
    if not c.digests:
        faults.append("the corpus is empty")
    checks.add(
        "corpus = union of all commits",
        "every corpus file stands in the manifest of a record that is done, with its digest and size; "
        "results that are not there brought no new bit (the next check would miss it)",
        f"{count(len(c.digests), 'file')}, all from {count(len(named), 'committed result')}; "
        f"{count(len(known), 'result')} not novel; {c.total('lost')} lost",
        faults,
    )


# AFL's buckets: a count's bit.
BUCKETS = [0, 1, 2, 4] + [8] * 4 + [16] * 8 + [32] * 16 + [64] * 96 + [128] * 128


def measure(target, path, file):
    """One run of the coverage build on a fresh map: {index: bits}, map size."""
    with open(file, "wb") as new:
        new.write(struct.pack("<8sIIQ", b"SLSANCOV", 1, HEADER, CAPACITY))
        new.truncate(HEADER + CAPACITY)
    environment = {"PATH": os.environ.get("PATH", ""), "SYMLEASE_SANCOV_FILE": str(file)}
    with open(path, "rb") as data:
        ended = subprocess.run(
            [target],
            stdin=data,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=RUN_TIMEOUT,
        )
    raw = pathlib.Path(file).read_bytes()
    size, dropped, live = struct.unpack_from("<QQI", raw, 24)
    if not live or dropped:
        raise ValueError(f"live {live}, {dropped} edges dropped")
    counts = raw[HEADER : HEADER + size]
    return {i: BUCKETS[n] for i, n in enumerate(counts) if n}, size, ended.returncode


def read_authority(c, faults):
    """{index: bits} of the shards on disk, each checked by the format."""
    bits = {}
    root = c.root / ".coverage_owner"
    shards = 0
    for path in sorted((root / "state").glob("*.json")):
        shards += 1
        try:
            shard = disk.read(path)
            number = int(path.stem)
            last = -1
            if shard["schema"] != 1 or shard["shard"] != number or type(shard["epoch"]) is not int:
                raise ValueError("schema, shard or epoch")
            for index, mask in shard["entries"]:
                if type(index) is not int or type(mask) is not int:
                    raise ValueError("an entry of other types")
                if not last < index < 1 << 23 or index % COVERAGE_SHARDS != number or not 0 < mask < 256:
                    raise ValueError(f"entry [{index}, {mask}]")
                last = index
                bits[index] = mask
        except (OSError, ValueError, KeyError, TypeError) as error:
            faults.append(f"shard {path.name}: {error!r}")
    return bits, shards


def kept_aside(c):
    """Crashes and hangs: published, and merged, beside the corpus."""
    found = []
    for kind in ("crashes", "hangs"):
        folder = c.place / kind
        if folder.is_dir():
            found += sorted(folder.iterdir())
    return found


def check_authority(c, checks):
    faults = []
    authority, shards = read_authority(c, faults)
    union, sizes = {}, set()
    aside = kept_aside(c)
    for path in [*c.files.values(), *aside]:
        try:
            found, size, _ = measure(c.run["target"], path, c.place / "measure.map")
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            faults.append(f"{path.name}: {error}")
            continue
        sizes.add(size)
        for index, mask in found.items():
            union[index] = union.get(index, 0) | mask
    (c.place / "measure.map").unlink(missing_ok=True)
    for index in sorted(set(authority) | set(union)):
        more = authority.get(index, 0) & ~union.get(index, 0)
        less = union.get(index, 0) & ~authority.get(index, 0)
        if more:
            faults.append(f"edge {index}: the authority has bits 0x{more:02x} that no corpus file has")
        if less:
            faults.append(f"edge {index}: bits 0x{less:02x} of the corpus are not in the authority")
    try:
        identity = disk.read(c.root / ".coverage_owner" / "map.json")
        if sizes != {identity["size"]}:
            faults.append(f"map.json says {identity['size']} bytes, the build has {sizes}")
    except (TypeError, KeyError, ValueError) as error:
        faults.append(f"map.json: {error!r}")
    if not union:
        faults.append("nothing was measured")
    total = sum(mask.bit_count() for mask in union.values())
    checks.add(
        "authority = exact OR of the corpus",
        "each file is run once more on a fresh map. A bit too few: a merge was lost. "
        "A bit too many: it was counted, but the file that shows it was lost",
        f"{count(len(union), 'edge')}, {count(total, 'bit')} from {count(len(c.files) + len(aside), 'run')}; "
        f"the same in {count(shards, 'shard')}",
        faults,
    )
    return union, total


def check_leftovers(c, checks):
    faults, looked = [], 0
    for base in (c.root, c.corpus, c.place / "crashes", c.place / "hangs"):
        for path in disk.tree(base) if base.is_dir() else []:
            looked += 1
            name = pathlib.Path(path).name
            first = pathlib.Path(path).parts
            if name.endswith(".tmp"):
                faults.append(f"temporary {path}")
            elif ".intents" in first:
                faults.append(f"a group change under way: {path}")
            elif "claim-transactions" in first and not name.endswith(".lock") or "claim-transaction" in name:
                faults.append(f"a merge under way: {path}")
            elif first[0] == "staging":
                faults.append(f"staged {path}")
            elif base == c.corpus and name.endswith(".map"):
                faults.append(f"side file in the corpus: {path}")
    checks.add(
        "nothing temporary is left",
        "the killed left temporaries, staged files or transactions where they stood; "
        "the survivors have swept them",
        f"{count(looked, 'file')} looked at",
        faults,
    )


def check_locks(c, checks):
    faults, looked = [], 0
    for root in (".work_lease_table", ".target_lease_table", ".coverage_owner"):
        for path in (c.root / root).rglob("*.lock"):
            looked += 1
            if not stat.S_ISREG(path.lstat().st_mode):
                faults.append(f"{path.name} is no regular file")
                continue
            with open(path) as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    faults.append(f"{path.name} is still locked")
    checks.add(
        "no lock is held",
        "the kernel drops a dead process's locks; lock files stay, so that all lock one inode",
        f"{count(looked, 'lock file')}, all free",
        faults,
    )


def check_targets(c, checks):
    end = max(pathlib.Path(path).stat().st_mtime for path, _ in c.work.values()) if c.work else 0
    faults = []
    for name, (_, record) in c.targets.items():
        if record.get("owner") not in KILLED and record.get("updated", 0) > 0:
            faults.append(f"target {name[:8]} is leased by {record.get('owner')}, which has ended")
        if record.get("updated", 0) + record.get("ttl", 0) > end + c.run["ttl"]:
            faults.append(f"target {name[:8]} lives on")
    checks.add(
        "no target stays leased",
        "the survivors gave theirs back; what a killed one held is past its time, free for the next claim",
        f"{count(len(c.targets), 'record')} of the killed that nobody wanted since",
        faults,
    )


def check_duplicates(c, checks):
    held, done = c.total("held_answers"), c.total("done_answers")
    refused = c.total("target_groups_refused")
    faults = [] if held + done > 0 else ["no coordinator was ever told that work is held or done"]
    checks.add(
        "duplicates avoided",
        "two coordinators saw the same work and one of them was told so: executions that "
        "without leases would have been made twice",
        f"{held} x held by another, {done} x done already; {refused} target groups refused",
        faults,
    )


def check_progress(c, checks):
    seeds = {disk.sha256(path) for path in pathlib.Path(c.run["seeds"]).iterdir()}
    new = [path for name, path in c.files.items() if c.digests[name] not in seeds]
    tags = collections.Counter()
    for path in new:
        head = path.read_bytes()[:4]
        if head in (b"RAW:", b"BACK", b"DRIP", b"TRIP"):
            tags[head.decode()] += 1
    faults = [] if new else ["nothing was found beyond the seeds"]
    for who in SURVIVORS:
        if not c.summaries[who].get("completed"):
            faults.append(f"{who} completed nothing")
    checks.add(
        "the campaign got somewhere",
        "otherwise the checks above would pass on nothing; the named entry points of the harness "
        "are in no seed, the solver found them",
        f"{count(len(seeds), 'seed')} -> {count(len(new), 'new file')}; entry points found: "
        f"{', '.join(f'{tag} ({n} files)' for tag, n in sorted(tags.items())) or 'none'}",
        faults,
    )
