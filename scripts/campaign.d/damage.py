#!/usr/bin/env python3
"""Proves that the report can fail: damage.py PLAYED_CAMPAIGN

Copies a campaign that passed, damages each copy in one way, and asks for the
verdict. Every damage must fail the check that is there for it."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import disk

HERE = pathlib.Path(__file__).parent


def write(path, record):
    path.write_text(json.dumps(record))


def change(path, **fields):
    record = disk.read(path)
    record.update(fields)
    write(path, record)


class Copy:
    def __init__(self, place):
        self.place = place
        self.campaign = place / "campaign"
        self.run = json.loads((place / "run.json").read_text())

    def work(self, name=None):
        """One record, or the named one."""
        for record_id, path in sorted(disk.record_files(self.campaign / ".work_lease_table")):
            if name in (None, record_id):
                return pathlib.Path(path)
        raise KeyError(name)

    def killed(self, who):
        return self.work(self.run["proofs"][who]["work"])

    def found(self):
        """A corpus file that is no seed."""
        seeds = {disk.sha256(path) for path in pathlib.Path(self.run["seeds"]).iterdir()}
        return next(p for p in sorted((self.place / "corpus").iterdir()) if disk.sha256(p) not in seeds)

    def shard(self):
        state = self.campaign / ".coverage_owner" / "state"
        return next(p for p in sorted(state.glob("*.json")) if disk.read(p)["entries"])

    def summary(self, **more):
        path = self.place / "steady.json"
        summary = disk.read(path)
        for key, value in more.items():
            summary[key] += value
        write(path, summary)

    def rerun(self, **fields):
        self.run.update(fields)
        write(self.place / "run.json", self.run)

    def history(self, **fields):
        """A state that a watcher cannot have seen before the last one."""
        name = next(iter(sorted(self.run["history"])))
        self.run["history"][name][-1].update(fields)
        self.rerun()


def append(path, data):
    with open(path, "ab") as file:
        file.write(data)


def drop_bit(c):
    shard = disk.read(c.shard())
    shard["entries"].pop()
    write(c.shard(), shard)


def add_bit(c):
    shard = disk.read(c.shard())
    shard["entries"][0][1] |= 0x80 if shard["entries"][0][1] < 0x80 else 0x40
    write(c.shard(), shard)


def rise(path, key):
    change(path, **{key: disk.read(path)[key] + 1})


# (what is damaged, the check that must see it, how)
DAMAGES = (
    ("a work record is not done", "every work item done exactly once", lambda c: change(c.work(), status="leased")),
    ("a completion counted twice", "every work item done exactly once", lambda c: c.summary(completed=1)),
    ("a record removed", "taken over with a higher fence", lambda c: c.work().unlink()),
    ("a fence that fell", "taken over with a higher fence", lambda c: c.history(fence=2**62)),
    ("done, and then not", "taken over with a higher fence", lambda c: c.history(status="done", token="x")),
    ("the commit executed anew", "killed in a commit", lambda c: rise(c.killed("mid-commit"), "attempts")),
    ("the commit's token changed", "killed in a commit", lambda c: change(c.killed("mid-commit"), token="x")),
    ("the dead holder's fence kept", "killed while it held leases",
     lambda c: change(c.killed("mid-hold"), fence=c.run["proofs"]["mid-hold"]["after"]["fence"])),
    ("a coordinator that failed", "ends", lambda c: c.rerun(exits=dict(c.run["exits"], steady=3))),
    ("a corpus file of nobody", "corpus = union of all commits",
     lambda c: (c.place / "corpus" / "stray").write_bytes(b"stray")),
    ("a corpus file cut", "corpus = union of all commits", lambda c: os.truncate(c.found(), 3)),
    ("a corpus file twice", "corpus = union of all commits",
     lambda c: shutil.copy(c.found(), c.place / "corpus" / "twice")),
    ("a bit lost", "authority = exact OR of the corpus", drop_bit),
    ("a bit that no file has", "authority = exact OR of the corpus", add_bit),
    ("the corpus lost", "authority = exact OR of the corpus",
     lambda c: [p.unlink() for p in (c.place / "corpus").iterdir()]),
    ("a temporary left", "nothing temporary is left",
     lambda c: (c.work().parent / f".{c.work().name}.abc.tmp").write_bytes(b"")),
    ("a staged file left", "nothing temporary is left",
     lambda c: (c.campaign / "staging" / "stray").write_bytes(b"")),
    ("a target still leased", "no target stays leased", lambda c: write_target(c)),
    ("a record that is torn", "records are whole", lambda c: os.truncate(c.work(), 40)),
    ("a record under another id", "records are whole", lambda c: change(c.work(), payload={"other": 1})),
    ("nobody was ever refused", "duplicates avoided", lambda c: quiet(c)),
)  # fmt: skip


def write_target(c):
    name = disk.target_id("stray")
    path = disk.record_path(c.campaign / ".target_lease_table", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    work = disk.read(c.work())
    write(path, dict(work, id=name, status="leased", target="stray", owner="steady", ttl=4.0))


def quiet(c):
    for who in ("steady", "newcomer"):
        change(c.place / f"{who}.json", held_answers=0, done_answers=0)


def verdict(place):
    """(exit code, {check: passed}), from a report that runs on its own."""
    (place / "report.json").unlink(missing_ok=True)
    ended = subprocess.run(
        [sys.executable, HERE / "report.py", place], capture_output=True, text=True, timeout=300
    )
    try:
        checks = json.loads((place / "report.json").read_text())["checks"]
    except OSError:
        sys.exit(f"no report was written:\n{ended.stderr}")
    return ended.returncode, {check["check"]: check["passed"] for check in checks}


def main():
    played = pathlib.Path(sys.argv[1]).resolve()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (what, check, damage) in enumerate((("nothing", None, lambda c: None), *DAMAGES)):
            place = pathlib.Path(folder) / str(number)
            shutil.copytree(played, place)
            damage(Copy(place))
            code, checks = verdict(place)
            seen = code == 0 if check is None else code == 1 and checks[check] is False
            wrong += not seen
            failed = ", ".join(name for name, passed in checks.items() if not passed)
            print(f"{'ok' if seen else 'NOT SEEN'}: {what}: {failed or 'all checks pass'}", flush=True)
            shutil.rmtree(place)
    print(f"{len(DAMAGES)} damages, {wrong} not seen as they must be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
