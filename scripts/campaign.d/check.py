"""The checks of the leases of a campaign that run.py has played, from the raw files on disk.
Shares no code with the library."""
import collections
import json
import os
import pathlib

import disk

KILLED = ("mid-commit", "mid-hold")
SURVIVORS = ("steady", "newcomer")


class Checks:
    """What was checked, why, and what came out."""

    def __init__(self):
        self.all = []

    def add(self, name, why, found, faults):
        faults = [str(fault) for fault in faults]
        self.all.append({"check": name, "why": why, "found": found, "faults": faults, "passed": not faults})

    @property
    def passed(self):
        return bool(self.all) and all(check["passed"] for check in self.all)


class Campaign:
    """All of it, read once, after the last coordinator has ended."""

    def __init__(self, place):
        self.place = pathlib.Path(place)
        self.root = self.place / "campaign"
        self.corpus = self.place / "corpus"
        self.run = json.loads((self.place / "run.json").read_text())
        self.unreadable = []
        self.work = self.table("work")
        self.targets = self.table("target")
        self.summaries = {}
        for who in SURVIVORS:
            try:
                self.summaries[who] = json.loads((self.place / f"{who}.json").read_text())
            except (OSError, ValueError):
                self.summaries[who] = {}
        self.files = {n: self.corpus / n for n in sorted(os.listdir(self.corpus))}
        self.digests = {n: disk.sha256(p) for n, p in self.files.items()}

    def table(self, name):
        found = {}
        for record_id, path in disk.record_files(self.root / f".{name}_lease_table"):
            try:
                record = disk.read(path)
            except (OSError, ValueError) as error:
                self.unreadable.append(f"{path}: {error}")
                continue
            if record_id in found:
                self.unreadable.append(f"{record_id}: two records")
            found[record_id] = (path, record)
        return found

    def records(self):
        return {name: record for name, (_, record) in self.work.items()}

    def total(self, *keys):
        return sum(summary.get(key, 0) for summary in self.summaries.values() for key in keys)


def count(number, what):
    irregular = {"entry": "entries"}
    plural = irregular.get(what, what + "s")
    return f"{number:,} {what if number == 1 else plural}"


# --- the checks ---


def check_ends(c, checks):
    faults = []
    for who, code in c.run["exits"].items():
        if who in KILLED and code != -9:
            faults.append(f"{who} should have died of SIGKILL, ended with {code}")
        if who in SURVIVORS and code != 0:
            faults.append(f"{who} ended with {code}: see {who}.log")
        if who in SURVIVORS and not c.summaries[who]:
            faults.append(f"{who} left no summary")
    checks.add(
        "ends",
        "two coordinators die of SIGKILL, which nothing can catch; the others end well",
        f"{len(KILLED)} killed, {len(SURVIVORS)} ended with 0",
        faults,
    )


def manifest_results(record):
    return (record.get("commit") or {}).get("results", [])


def check_commit_kill(c, checks):
    proof = c.run["proofs"]["mid-commit"]
    work, before, after = proof["work"], proof["before"] or {}, proof["after"] or {}
    now = c.records().get(work, {})
    faults = []
    for when, record in (("before", before), ("at", after)):
        if record.get("status") != "committing":
            faults.append(f"{when} the kill the record was {record.get('status')}, not committing")
        if record.get("owner") != "mid-commit":
            faults.append(f"{when} the kill its owner was {record.get('owner')}")
    results = manifest_results(after)
    if not results:
        faults.append("its manifest names no results")
    for result in results:
        name = pathlib.Path(result["staged"]).name
        if not any(pathlib.Path(path).name == name for path in proof["staged"]):
            if not (c.corpus / result["name"]).exists():
                faults.append(f"{name} was neither staged nor published")
    if now.get("status") != "done":
        faults.append(f"now it is {now.get('status')}, not done")
    for key in ("token", "fence", "owner", "attempts"):
        if now.get(key) != after.get(key):
            faults.append(f"{key} changed: it was executed anew, not replayed")
    if c.total("replayed") < 1:
        faults.append("no survivor says that it replayed a commit")
    late = f"{now['completed'] - proof['killed']:.1f} s after the death" if "completed" in now else "never"
    checks.add(
        "killed in a commit",
        "a commit that has begun cannot be taken away: others finish it from its manifest, "
        "under the dead holder's own token and fence",
        f"work {work[:8]}: committing, {count(len(results), 'result')} in its manifest -> "
        f"{now.get('status')}, {late}",
        faults,
    )


def check_hold_kill(c, checks):
    proof = c.run["proofs"]["mid-hold"]
    work, before, after = proof["work"], proof["before"] or {}, proof["after"] or {}
    now = c.records().get(work, {})
    held = [t for t in proof["left"]["target"].values() if t.get("owner") == "mid-hold"]
    faults = []
    for when, record in (("before", before), ("at", after)):
        if record.get("status") != "leased" or record.get("owner") != "mid-hold":
            faults.append(f"{when} the kill the record was {record.get('status')} by {record.get('owner')}")
    if not held:
        faults.append("it held no target")
    if now.get("status") != "done":
        faults.append(f"now it is {now.get('status')}, not done")
    if not now.get("fence", 0) > after.get("fence", 0):
        faults.append(f"its fence did not rise: {after.get('fence')} -> {now.get('fence')}")
    if now.get("owner") == "mid-hold" or now.get("token") == after.get("token"):
        faults.append("it was done under the dead holder's name")
    if not now.get("steals", 0) > after.get("steals", 0):
        faults.append("no steal was counted")
    checks.add(
        "killed while it held leases",
        "a lease that has not committed is taken over by a new claim, whose higher fence shuts "
        "the old holder out for ever",
        f"work {work[:8]} and {count(len(held), 'target')}: leased -> {now.get('status')} by "
        f"{now.get('owner')}, fence higher by "
        f"{(now.get('fence', 0) - after.get('fence', 0)) / 1e9:.1f} s (it counts nanoseconds)",
        faults,
    )


def check_records(c, checks):
    faults = list(c.unreadable)
    for name, (path, record) in c.work.items():
        faults += [f"work {name[:8]}: {fault}" for fault in disk.lease_faults(name, path, record)]
        if disk.payload_id(record.get("payload")) != name:
            faults.append(f"work {name[:8]}: its id is not its payload's digest")
    for name, (path, record) in c.targets.items():
        faults += [f"target {name[:8]}: {fault}" for fault in disk.lease_faults(name, path, record)]
        if disk.target_id(record.get("target")) != name:
            faults.append(f"target {name[:8]}: its id is not its target's digest")
    checks.add(
        "records are whole",
        "each file is one strict JSON record in its shard's folder, its id the SHA-256 of what it is about",
        f"{count(len(c.work), 'work record')}, {count(len(c.targets), 'target record')} left",
        faults,
    )


def check_once(c, checks):
    records = c.records()
    states = collections.Counter(record.get("status") for record in records.values())
    faults = [
        f"work {name[:8]} is {record.get('status')} by {record.get('owner')}"
        for name, record in records.items()
        if record.get("status") != "done"
    ]
    if not records:
        faults.append("there is no work record")
    # Done by their holders, and for the dead: each counted by exactly one survivor.
    owners = collections.Counter(r.get("owner") for r in records.values() if r.get("status") == "done")
    dead_before = sum(
        1
        for who in KILLED
        for record in c.run["proofs"][who]["left"]["work"].values()
        if record.get("owner") == who and record.get("status") == "done"
    )
    counted = c.total("completed", "replayed") + dead_before
    if counted != states["done"]:
        faults.append(f"{counted} completions were counted for {states['done']} records that are done")
    for who in SURVIVORS:
        if c.summaries[who].get("completed", 0) > owners[who]:
            faults.append(
                f"{who} counted {c.summaries[who]['completed']} completions, {owners[who]} records bear its name"
            )
    strangers = set(owners) - set(KILLED) - set(SURVIVORS)
    if strangers:
        faults.append(f"owners that nobody started: {', '.join(sorted(map(str, strangers)))}")
    checks.add(
        "every work item done exactly once",
        "all records are done, and the completions the coordinators counted are as many as the "
        "records: none twice, none forgotten",
        f"{count(states['done'], 'item')} = {c.total('completed')} completed by survivors + "
        f"{c.total('replayed')} replayed + {dead_before} by the killed before they died",
        faults,
    )


def check_fences(c, checks):
    faults, changes, claims = [], 0, 0
    records = c.records()
    for name, states in c.run["history"].items():
        now = records.get(name)
        if now is None:
            faults.append(f"work {name[:8]} was seen and is gone")
            continue
        states = states + [{key: now.get(key) for key in disk.Watcher.KEPT}]
        for old, new in zip(states, states[1:]):
            if old == new:
                continue
            changes += 1
            what = f"work {name[:8]}: {old['status']} by {old['owner']} -> {new['status']} by {new['owner']}"
            if old["status"] == "done":
                faults.append(f"{what}: done is for ever")
            if old["status"] == "committing" and (new["status"] == "leased" or new["token"] != old["token"]):
                faults.append(f"{what}: a commit was taken away")
            if new["fence"] < old["fence"]:
                faults.append(f"{what}: the fence fell")
            if new["owner"] != old["owner"] or new["attempts"] != old["attempts"]:
                claims += 1
                if not new["fence"] > old["fence"]:
                    faults.append(f"{what}: the fence did not rise")
    stolen = [r for r in records.values() if r.get("steals", 0) > 0]
    for record in stolen:
        if record["attempts"] <= record["steals"] or not record.get("previous_owner"):
            faults.append(f"work {record['id'][:8]}: steals without attempts or previous owner")
    checks.add(
        "taken over with a higher fence",
        "whoever watches from outside sees only allowed changes: fences rise with every claim, "
        "a begun commit keeps its token, done stays done",
        f"{count(changes, 'change')} seen in {count(c.run['glances'], 'glance')}, {count(claims, 'claim')} of "
        f"a record that was there; {count(len(stolen), 'item')} changed owner",
        faults,
    )
