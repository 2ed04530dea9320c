"""afl-fuzz -M main for a minute, two coordinators beside it, one of them killed
and started again, three times; then what must hold.
  campaign.py COORDINATOR TARGET SOLVER SEEDS DIRECTORY SECONDS"""
import collections
import hashlib
import json
import os
import pathlib
import re
import shlex
import signal
import struct
import subprocess
import sys
import time

COORDINATOR, TARGET, SOLVER, SEEDS, PLACE = (pathlib.Path(p).resolve() for p in sys.argv[1:6])
SECONDS = int(sys.argv[6])
OUT = PLACE / "out"
PEER = OUT / "symlease"
ENV = {**os.environ, "AFL_SKIP_CPUFREQ": "1", "AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES": "1", "AFL_NO_UI": "1",
       "AFL_NO_AFFINITY": "1", "AFL_SYNC_TIME": "1", "TERM": "dumb"}  # main syncs every half a minute
failures = []


def check(name, holds, more=""):
    print(f"  {'PASS' if holds else 'FAIL'}  {name}{': ' + str(more) if more != '' else ''}", flush=True)
    if not holds:
        failures.append(name)


def start(name, words, env=None):
    print("  +", shlex.join(map(str, words)), flush=True)
    log = open(PLACE / f"{name}.log", "w")
    return subprocess.Popen(list(map(str, words)), env=env or ENV, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def coordinator(name, seconds):
    return start(name, [COORDINATOR, "--afl", OUT, "--target", TARGET, "--solver", f"{PLACE}/solver.sh @@", "--ttl", 3,
                        "--owner", name, "--summary", PLACE / f"{name}.json", "--time", seconds])


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def entries(folder):
    return sorted(p for p in folder.iterdir() if not p.name.startswith("."))


def records():
    for path in (PEER / "campaign/.work_lease_table").glob("*/*.json"):
        yield json.loads(path.read_text())


# The solver notes each input that it is asked to list: once for each analysis.
(PLACE / "solver.sh").write_text(f"""#!/bin/sh
for last; do :; done
case " $* " in *" --list "*) sha256sum <"$last" >>{PLACE}/analysed ;; esac
exec {SOLVER} "$@"
""")
(PLACE / "solver.sh").chmod(0o755)
(PLACE / "analysed").write_text("")

fuzzer = start("main", ["afl-fuzz", "-i", SEEDS, "-o", OUT, "-M", "main", "-V", SECONDS, "--", TARGET])
until = time.monotonic() + 60
while not (OUT / "main/fuzzer_stats").exists():
    assert time.monotonic() < until and fuzzer.poll() is None, "afl-fuzz does not start; see main.log"
    time.sleep(0.1)
rest = SECONDS - 8
begun = time.monotonic()
steady = coordinator("steady", rest)
# It takes over what main covers before it writes this, and so before the others.
while not (PEER / "fuzzer_stats").exists():
    assert time.monotonic() < begun + 30 and steady.poll() is None, "it does not begin; see steady.log"
    time.sleep(0.05)
for turn in range(3):
    owner = f"killed-{turn}"
    killed = coordinator(owner, rest)
    # Killed once it has committed something and works on more; each time a little later.
    last = time.monotonic() + 15
    while time.monotonic() < last:
        mine = [r for r in records() if r["owner"] == owner] if (PEER / "campaign").exists() else []
        if any(r["status"] == "leased" for r in mine) and any(r["status"] == "done" for r in mine):
            break
        time.sleep(0.02)
    time.sleep(0.17 * turn)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    held = [r["id"] for r in records() if r["owner"] == owner and r["status"] != "done"]
    print(f"  killed by SIGKILL at {time.monotonic() - begun:.1f} s, holding {len(held)} work leases", flush=True)
again = coordinator("again", int(rest - (time.monotonic() - begun)))
time.sleep(max(0, rest - (time.monotonic() - begun) - 8))
whatsup = subprocess.run(["afl-whatsup", OUT], env=ENV, capture_output=True, text=True, timeout=60)
ends = {"steady": steady.wait(60), "again": again.wait(60), "afl-fuzz": fuzzer.wait(SECONDS + 60)}

print("What must hold")
check("all end as they should", set(ends.values()) == {0}, ends)
summaries = [json.loads((PLACE / f"{name}.json").read_text()) for name in ("steady", "again")]
check("no errors", all(s["errors"] == 0 for s in summaries), [s["errors"] for s in summaries])

published = entries(PEER / "queue")
found = [re.fullmatch(r"id:(\d{6}),sha256:([0-9a-f]{64}),\+cov", p.name) for p in published]
check("queue/ holds entries of the peer alone", published and all(found), len(published))
check("no gap in the ids", [int(f[1]) for f in found if f] == list(range(len(published))))
check("names tell the bytes", all(f and f[2] == digest(p) for f, p in zip(found, published)))
check("no identical files in it", len({digest(p) for p in published}) == len(published))
corpus = {digest(p) for p in entries(PEER / "campaign/corpus")}
check("it is the corpus", {f[2] for f in found if f} == corpus, len(corpus))

main = entries(OUT / "main/queue")
imports = [p for p in main if ",sync:symlease," in p.name]
stats = dict(re.split(r"\s*:\s*", line, maxsplit=1) for line in (OUT / "main/fuzzer_stats").read_text().splitlines())
check("main imports them", len(imports) > 0, f"{len(imports)} of {len(published)} are in main's queue of {len(main)}; "
      f"corpus_imported {stats['corpus_imported']}")
check("what main imported is ours", {digest(p) for p in imports} <= corpus)
check("no identical files among its imports", len({digest(p) for p in imports}) == len(imports))
seen = struct.unpack("I", (OUT / "main/.synced/symlease").read_bytes()[:4])[0]
check("main has looked at them in order", 0 < seen <= len(published), f"{seen} of {len(published)} at its last sync")

# What was begun twice was claimed twice: its first holder was killed, or ended by
# its time and gave it back. One job each, so there are as many as such ends at most.
attempts = {json.dumps(r["payload"]["input"]): r["attempts"] for r in records()}
times = collections.Counter((PLACE / "analysed").read_text().split()[::2])
times.pop(hashlib.sha256(b"").hexdigest(), None)  # the trial at start
twice = {d: n for d, n in times.items() if n > 1}
ended = 3 + sum(s["abandoned"] for s in summaries)
check("no input is analysed twice", all(n <= attempts.get(json.dumps(d), 0) for d, n in twice.items()) and
      sum(twice.values()) - len(twice) <= ended,
      f"{len(times)} inputs; {len(twice)} begun again, after {ended} holders were killed or gave back")
check("one record an input", len(attempts) == sum(1 for _ in records()), len(attempts))
# updated 0: given back at the end. A dead one's work is anybody's, and waits for its turn.
check("nobody alive has left anything held", all(
    r["status"] == "done" or r["status"] == "leased" and (r["updated"] == 0 or r["owner"].startswith("killed-"))
    for r in records()))
check("AFL++'s coverage is taken over", sum(s["afl_bits"] for s in summaries) > 0, sum(s["afl_bits"] for s in summaries))
queued = {digest(p) for p in main}
print(f"  {len(queued & set(times))} of main's {len(main)} entries were analysed, and {len(corpus & set(times))} of the "
      f"{len(corpus)} that were found")

check("afl-whatsup shows it", whatsup.returncode == 0 and ">>> symlease (0 days" in whatsup.stdout,
      " ".join(line.strip() for line in whatsup.stdout.splitlines() if "Fuzzers alive" in line))
plot = subprocess.run(["afl-plot", PEER, PLACE / "plot"], capture_output=True, text=True, timeout=120)
images = sorted(p.name for p in (PLACE / "plot").glob("*.png") if p.stat().st_size > 500) if (PLACE / "plot").exists() else []
check("afl-plot draws it", plot.returncode == 0 and len(images) == 4 and not plot.stderr, images or plot.stderr[-200:])
left = subprocess.run(["pgrep", "-f", str(PLACE)], capture_output=True, text=True).stdout.split()
check("no process is left", set(left) <= {str(os.getpid()), str(os.getppid())}, "")
sys.exit(1 if failures else 0)
