"""Targets of AFL++ with symlease linked in, under the fork server and in the
persistent mode: what they cost beside the same target without it (P12), and
what afl-fuzz makes of them.
  linked.py FOLDER-OF-THE-PROGRAMS DIRECTORY SECONDS"""
import fcntl
import os
import pathlib
import shlex
import subprocess
import sys
import time

PROGRAMS, PLACE = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
SECONDS = sys.argv[3]
P12 = 1.02  # of an execution under the fork server
ENV = {**os.environ, "AFL_SKIP_CPUFREQ": "1", "AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES": "1", "AFL_NO_UI": "1",
       "AFL_NO_AFFINITY": "1"}
failures = []


def check(name, holds, more=""):
    print(f"  {'PASS' if holds else 'FAIL'}  {name}{': ' + str(more) if more != '' else ''}", flush=True)
    if not holds:
        failures.append(name)


def left_over(campaign):
    """Sessions, temporaries, locks that are held, processes."""
    found = [str(p) for p in campaign.rglob("*") if p.is_file() and (".tmp" in p.name or "session" in str(p.relative_to(campaign)))]
    for path in campaign.rglob("*.lock"):
        with open(path) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(f"held: {path}")
    until = time.monotonic() + 10  # afl-fuzz's last child may still be ending
    while (alive := subprocess.run(["pgrep", "-f", f"{PROGRAMS}/(plain|linked)"], capture_output=True, text=True).stdout.split()):
        if time.monotonic() > until:
            return found + [f"process {p}" for p in alive]
        time.sleep(0.1)
    return found


(PLACE / "in").mkdir(parents=True, exist_ok=True)
(PLACE / "in/seed").write_bytes(b"aabbxyz")
for mode in ("fork", "persistent"):
    print(f"== {mode}", flush=True)
    campaign = PLACE / f"{mode}.campaign"
    plain, linked = PROGRAMS / f"plain.{mode}", PROGRAMS / f"linked.{mode}"
    how = f"{linked}:SYMLEASE_E2E_CAMPAIGN={campaign}"
    words = [PROGRAMS / "forkserver", SECONDS, PLACE / "in/seed", f"without={plain}", f"opened={how}",
             f"sparse={how}:SYMLEASE_E2E_MERGE=sparse", f"dense={how}:SYMLEASE_E2E_MERGE=dense"]
    print("  +", shlex.join(map(str, words)), flush=True)
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=int(SECONDS) + 120)
    check("no hang, no crash", done.returncode == 0, done.stderr.strip())
    times = {name: (int(runs), int(took)) for name, runs, took in map(str.split, done.stdout.splitlines())}
    for name, (runs, took) in times.items():
        print(f"        {name:8} {runs:8} runs, median {took / 1000:8.1f} us, {took / times['without'][1]:.2f} of without")
    if mode == "fork" and times:
        for name in ("sparse", "dense"):
            check(f"P12, {name}", times[name][1] <= P12 * times["without"][1], f"{times[name][1] / times['without'][1]:.2f}, goal {P12}")
    check("nothing is left", not left_over(campaign), left_over(campaign))
    words = ["afl-fuzz", "-i", PLACE / "in", "-o", PLACE / f"{mode}.out", "-V", SECONDS, "--", linked]
    print("  + SYMLEASE_E2E_CAMPAIGN=... SYMLEASE_E2E_MERGE=sparse", shlex.join(map(str, words)), flush=True)
    with open(PLACE / f"{mode}.log", "w") as log:
        code = subprocess.run(list(map(str, words)), stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=int(SECONDS) + 120,
                              env={**ENV, "SYMLEASE_E2E_CAMPAIGN": str(campaign), "SYMLEASE_E2E_MERGE": "sparse"}).returncode
    stats = PLACE / f"{mode}.out/default/fuzzer_stats"
    seen = dict(map(str.strip, line.split(":", 1)) for line in stats.read_text().splitlines()) if stats.exists() else {}
    check("afl-fuzz ends as it should", code == 0 and int(seen.get("execs_done", 0)) > 0,
          f"exit {code}, {seen.get('execs_done')} executions, {seen.get('execs_per_sec')} a second")
    check("no crash, no hang", seen.get("saved_crashes") == "0" and seen.get("saved_hangs") == "0")
    check("nothing is left", not left_over(campaign), left_over(campaign))
sys.exit(1 if failures else 0)
