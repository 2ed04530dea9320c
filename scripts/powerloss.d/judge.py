"""Compares what was told outside with a plain copy of the disk. Shares no code
with the library. A record may be newer than the last answer, never older."""
import hashlib
import json
import tarfile

import claims

WORK, TARGET, COVERAGE = ".work_lease_table/", ".target_lease_table/", ".coverage_owner/"
RANKS = {"leased": 0, "committing": 1, "done": 2}
PUBLISHED, BY_DIGEST, THERE, LOST, NOT_NOVEL = 1, 2, 3, 4, 5
HALF = 32768  # merges use the map below it, commits above


class Disk:
    """A copy of the campaign's folder, read file by file."""

    def __init__(self, path):
        self.faults, self.temporary = [], []
        self.work, self.targets, self.shards = {}, {}, {}
        self.transactions, self.corpus, self.staged = [], {}, {}
        self.intents = False
        with tarfile.open(path) as tar:
            for member in tar:
                name = member.name.removeprefix("campaign/")
                if name.startswith(TARGET + ".intents"):
                    self.intents = True
                if member.isfile():
                    self.take(name, tar.extractfile(member).read())

    def take(self, name, content):
        base = name.rsplit("/", 1)[-1]
        if name.startswith("corpus/"):
            self.corpus[base] = hashlib.sha256(content).hexdigest()
        elif name.startswith("staging/"):
            self.staged[base] = hashlib.sha256(content).hexdigest()
        elif base.endswith(".tmp"):
            self.temporary.append(name)
        elif base.endswith(".json"):
            self.record(name, base[:-5], content)

    def record(self, name, base, content):
        try:
            record = json.loads(content)
            if name.startswith(COVERAGE + "state/"):
                self.shards[record["shard"]] = record["entries"]
            elif name.startswith(COVERAGE + "claim-transactions/"):
                self.transactions += [one["entries"] for one in record["records"]]
            elif len(base) == 64 and "/." not in name[1:]:
                self.lease(name, base, record)
        except (ValueError, KeyError, TypeError) as error:
            self.faults.append(f"{name}: {len(content)} bytes, not whole: {error!r}")

    def lease(self, name, base, record):
        if record["id"] != base or record["status"] not in RANKS or not record["token"]:
            raise ValueError("not a lease of this name")
        if name.startswith(WORK):
            self.work[base] = record
        else:
            self.targets[record["target"]] = record

    def authority(self):
        bits = {}
        for entries in [*self.shards.values(), *self.transactions]:
            claims.add(bits, entries)
        return bits


class Judge:
    """Faults of one copy of the disk, each with what was told."""

    def __init__(self, told, disk, recovered):
        self.told, self.disk, self.recovered = told, disk, recovered
        self.faults = told.faults + disk.faults
        if recovered and disk.temporary:
            self.faults += [f"{name}: a temporary outlived the sweep (H4)" for name in disk.temporary]
        if recovered and disk.transactions:
            self.faults.append("a coverage transaction outlived recovery (C5)")
        self.judge_work()
        self.judge_targets()
        self.judge_coverage()
        self.judge_files()

    def judge_work(self):
        told, disk = self.told, self.disk
        for work_id, (wanted, call) in told.work.items():
            record = disk.work.get(work_id)
            if record is None:
                self.faults.append(f"work {work_id}: absent; {call} was answered OK with {wanted}")
                continue
            rank = RANKS[record["status"]]
            if rank == 0 and record["updated"] == 0:
                rank = 1  # abandoned; it ends a claim as a commit does
            version = record.get("version", 0)
            found = (record["fence"], rank, version)
            older = found[:2] < wanted[:2] or found[:2] == wanted[:2] and wanted[2] and version < wanted[2]
            if older:
                self.faults.append(f"work {work_id}: {found}; {call} was answered OK with {wanted}")
        for work_id, record in disk.work.items():
            self.judge_record(work_id, record)
        for work_id, call in told.done_ids.items():
            if disk.work.get(work_id, {}).get("status") != "done":
                self.faults.append(f"work {work_id}: not done; {call}")
        done = sum(record["status"] == "done" for record in disk.work.values())
        if done < told.done_count:
            self.faults.append(f"{done} done records, {told.done_count} answered OK")

    def judge_record(self, work_id, record):
        """Nothing is there that nobody announced, and what is there is whole."""
        told, fence = self.told, record["fence"]
        if record["payload"] != {"work": told.names.get(work_id)}:
            self.faults.append(f"work {work_id}: payload {record['payload']}")
        claim = told.claims[work_id].get(fence)
        abandoned = record["status"] == "leased" and record["updated"] == 0
        if claim is None:
            if record["owner"] not in told.open_claims[work_id]:
                self.faults.append(f"work {work_id}: a claim by {record['owner']} that nobody announced")
        elif claim[0] != record["token"] and not abandoned:
            self.faults.append(f"work {work_id}: token {record['token']}, told {claim[0]}")
        begun = told.begun[work_id, fence]
        if record["status"] != "leased" and not begun:
            self.faults.append(f"work {work_id}: {record['status']}, but no commit was announced")
        if "own" in record.get("commit", {}) and record["commit"]["own"] != told.manifests.get((work_id, fence)):
            self.faults.append(f"work {work_id}: manifest {record['commit']}")
        if self.recovered and record["status"] == "committing":
            self.faults.append(f"work {work_id}: still committing after the replay (C7)")

    def judge_targets(self):
        told, disk = self.told, self.disk
        for target, (fence, updated) in told.targets.items():
            record, excuses = disk.targets.get(target), told.open_targets[target]
            if record is None:
                if updated != float("inf") and ("group_release", fence) not in excuses:
                    self.faults.append(f"target {target}: absent; fence {fence} was answered OK")
            elif (record["fence"], record["updated"]) < (fence, updated):
                self.faults.append(
                    f"target {target}: {record['fence']}, {record['updated']}; answered OK: {fence}, {updated}")
        for target, record in disk.targets.items():
            if record["fence"] not in told.group_claims[target]:
                if ("group_claim", record["owner"]) not in told.open_targets[target]:
                    self.faults.append(f"target {target}: a claim by {record['owner']} that nobody announced")
            self.judge_group(target, record)

    def judge_group(self, target, record):
        """Members carry one record, or newer ones of other claims (H1, G1)."""
        for other in record["targets"]:
            there = self.disk.targets.get(other)
            excused = self.told.open_targets[other] and not (self.recovered and self.disk.intents)
            if there is None:
                newer = self.told.targets.get(other, (0, 0))[0] > record["fence"] or self.told.open_targets[other]
                if not newer:
                    self.faults.append(f"target {target}: its group lacks {other} (G1)")
            elif there["fence"] < record["fence"] or (
                    there["fence"] == record["fence"] and there["updated"] != record["updated"]):
                if not excused:
                    self.faults.append(f"target {target}: {other} of its group is older (G1)")

    def judge_coverage(self):
        told = self.told
        there = self.disk.authority()
        lost = {i: bits & ~there.get(i, 0) for i, bits in told.merged.items()}
        if claims.count(lost):
            first = next(i for i, bits in lost.items() if bits)
            self.faults.append(f"coverage: {claims.count(lost)} merged bits are gone, index {first} (C4)")
        low = {i: bits for i, bits in there.items() if i < HALF}
        high = {i: bits for i, bits in there.items() if i >= HALF}
        unknown = {i: bits & ~told.offered.get(i, 0) for i, bits in low.items()}
        if claims.count(unknown):
            self.faults.append(f"coverage: {claims.count(unknown)} bits that nobody merged")
        for what, bits, credit in zip(("merges", "commits"), (low, high), told.credit):
            if credit > claims.count(bits):
                self.faults.append(f"coverage: {credit} bits credited to {what}, {claims.count(bits)} there (C4)")
        # C7: what is known of a result is in the corpus, or still to come.
        kept = {}
        for digest in [*self.disk.corpus.values(), *self.disk.staged.values()]:
            for index, bits in told.contents.get(digest, {}).items():
                kept[index] = kept.get(index, 0) | bits
        gone = {i: bits & ~kept.get(i, 0) for i, bits in high.items()}
        if claims.count(gone):
            first = next(i for i, bits in gone.items() if bits)
            self.faults.append(f"commit: {claims.count(gone)} known bits without their file, index {first} (C7)")

    def judge_files(self):
        corpus = self.disk.corpus
        for name, digest in corpus.items():
            if digest not in self.told.contents:
                self.faults.append(f"corpus/{name}: a content that nobody staged")
        for content, name, outcome, call in self.told.files:
            digest = hashlib.sha256(content.encode()).hexdigest()
            wanted = {PUBLISHED: [name or digest], BY_DIGEST: [digest], THERE: [name or digest, digest]}
            places = wanted.get(outcome, [])
            if places and not any(corpus.get(place) == digest for place in places):
                self.faults.append(f"corpus/{places[0]}: {call} published it (outcome {outcome}), it is not there")
            if outcome not in wanted and outcome != NOT_NOVEL:
                self.faults.append(f"{call}: a result's outcome is {outcome} (C7)")


def counted(path, disk):
    """What the library counted after recovery against the files themselves."""
    for line in path.read_text().splitlines():
        counts = json.loads(line).get("counts")
        if counts:
            states = [record["status"] for record in disk.work.values()]
            own = {status: states.count(status) for status in RANKS}
            own |= {"corrupt": 0, "targets": len(disk.targets), "targets_corrupt": 0}
            there = disk.authority()
            own |= {"edges": len(there), "bits": claims.count(there)}
            return [f"the library counts {key} {counts[key]}, on the disk are {own[key]}"
                    for key in own if counts[key] != own[key]]
    return [f"{path.name}: recovery did not come to its end"]
