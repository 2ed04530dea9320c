"""What each operation may leave behind: per record the old bytes or a change by its rules."""
from records import TARGET, WORK, Bad, need, target_id, work_id
import hashlib

KNOWN = {4: 1, 9: 3}
FIRST = {4: 3, 5: 1, 6: 128, 1003: 64}
SECOND = {5: 3, 8: 1}
GROUP = [target_id(number) for number in (11, 12, 13)]


def union(*maps):
    out = {}
    for each in maps:
        for index, bits in each.items():
            out[index] = out.get(index, 0) | bits
    return out


def bits_in(covered):
    return sum(bin(bits).count("1") for bits in covered.values())


def claimed(old, new):
    need(new["status"] == "leased" and new["owner"] == "actor", "not claimed by the actor")
    need(new["attempts"] == (old or {}).get("attempts", 0) + 1, "attempts")
    need(not old or (new["fence"] > old["fence"] and new["token"] != old["token"]), "fence, token")


def renewed(old, new):
    same = ("status", "token", "fence", "attempts", "steals", "payload", "owner")
    need(all(new[key] == old[key] for key in same), "a heartbeat changed more than the time")
    need(new["updated"] > old["updated"], "not renewed")


def abandoned(old, new):
    need(new["status"] == "leased" and new["updated"] == 0, "not abandoned")
    need(new["token"] != old["token"] and new["fence"] == old["fence"], "token, fence")


def begun(old, new):
    need(new["status"] == "committing" and new["token"] == old["token"], "not committing")
    need(new["commit"] == {"m": 1}, "the manifest")


def completed(old, new):
    need(new["status"] == "done" and new["token"] == old["token"], "not done")
    need(new["commit"] == old["commit"] and "completed" in new, "the manifest, the time")


def committed(old, new):
    need(new["status"] in ("committing", "done") and new["token"] == old["token"], "status, token")
    need(new["commit"]["schema"] == "symlease-commit-v1", "the manifest")


def replayed(old, new):
    if new["status"] == "committing":  # taken up, and not ended
        need(new["commit"] == old["commit"] and new["token"] == old["token"], "manifest, token")
        need(new["replays"] == old.get("replays", 0) + 1, "replays")
    else:
        completed(old, new)


# operation: (rule for its work ids, rule for its targets); absent in both: nothing changes.
RULES = {
    "first": (claimed, claimed),
    "claim": (claimed, None),
    "claim-expired": (claimed, None),
    "heartbeat": (renewed, None),
    "heartbeat-many": (renewed, None),
    "heartbeat-all": (renewed, renewed),
    "abandon": (abandoned, None),
    "begin-commit": (begun, None),
    "complete": (completed, None),
    "replay": (completed, None),
    "commit": (committed, None),
    "commit-empty": (committed, None),
    "replay-commits": (replayed, None),
    "group-claim": (None, claimed),
    "group-claim-expired": (None, claimed),
    "group-heartbeat": (None, renewed),
    "group-release": (None, "gone"),
}
WORK_OF = {"claim": ["fresh"], "heartbeat-many": ["one", "two", "three"],
           "heartbeat-all": ["one", "two", "three"]}
MERGES = ("first", "merge", "merge-dense")
COMMITS = ("commit", "replay-commits")


def ids_of(operation):
    """Table and id of all records that the operation changes, with their rule."""
    work, target = RULES.get(operation, (None, None))
    if work:
        for name in WORK_OF.get(operation, ["one"]):
            yield WORK, work_id(name), work
    if target:
        for name in GROUP:
            yield TARGET, name, target


def compare(operation, before, after):
    """Which records changed (by their rules; all others must be the same bytes)."""
    rules = {(table, name): rule for table, name, rule in ids_of(operation)}
    changed = set()
    for table in (WORK, TARGET):
        for name in {*before.leases[table], *after.leases[table]}:
            old = before.leases[table].get(name)
            new = after.leases[table].get(name)
            if old == new:
                continue
            rule = rules.get((table, name))
            need(rule, f"{name} changed, which is not this operation's")
            if rule == "gone":
                need(new is None, f"{name}: changed instead of removed")
            else:
                need(new is not None, f"{name}: removed")
                try:
                    rule(old and old[1], new[1])
                except (Bad, KeyError) as bad:
                    raise Bad(f"{name}: {bad}") from bad
            changed.add((table, name))
    return changed


def group_is_whole(operation, changed):
    """G1: all members old, or all new."""
    members = [(table, name) for table, name, _ in ids_of(operation) if table == TARGET]
    return len({member in changed for member in members}) <= 1


def contains(whole, part):
    return all(whole.get(index, 0) & bits == bits for index, bits in part.items())


def final_map(operation):
    if operation == "first":
        return union(FIRST, SECOND)
    if operation in MERGES:
        return union(KNOWN, FIRST, SECOND)
    if operation in COMMITS:
        return union(KNOWN, FIRST)
    return KNOWN


def total_novel(operation):
    before = {} if operation == "first" else KNOWN
    return bits_in(final_map(operation)) - bits_in(before)


def check_corpus(found, whole):
    """Every result that had to be published, under its name, and nothing foreign."""
    sha = lambda text: hashlib.sha256(text.encode()).hexdigest()
    must = {"novel": "novel", sha("kept"): "kept", sha("dark"): "dark"}
    may = {**must, "known": "known"}
    for name, text in found.items():
        need(may.get(name) == text, f"corpus/{name} holds {text!r}")
    need(not whole or all(name in found for name in must), f"the corpus has only {sorted(found)}")
