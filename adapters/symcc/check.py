"""What test.sh built is run here: a target of the stand-in runtime, with and
without the adapter. Nothing here depends on how fast the machine is."""
import collections
import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

HOME = pathlib.Path(sys.argv[1])
ADAPTER = HOME / "libsymlease-symcc.so"
SEED = HOME / "seed"
SEED.write_bytes(b"ABCDEFGHIJKLMNOPQ")
BASE = {k: v for k, v in os.environ.items() if not k.startswith(("SYMCC_", "SYMLEASE_", "LD_PRELOAD"))}
Run = collections.namedtuple("Run", "code said found counts")


def folder(name):
    path = HOME / name
    (path / "out").mkdir(parents=True)
    return path


def run(place, out="out", program="target", seed=SEED, preload=True, linked=False, code=3, stderr=None, **env):
    """One run in `place`; its campaign is place/campaign, its inputs go to place/out."""
    directory = place / out
    directory.mkdir(exist_ok=True)
    env = {**BASE, "SYMLEASE_SYMCC_CAMPAIGN": str(place / "campaign"), "SYMLEASE_SYMCC_VERBOSE": "1",
           "SYMCC_OUTPUT_DIR": str(directory), "STANDIN_LOG": str(place / "solvings"),
           **({"LD_PRELOAD": str(ADAPTER)} if preload else {}), **{k: str(v) for k, v in env.items()}}
    done = subprocess.run([HOME / program, seed], env=env, timeout=60, stdout=subprocess.PIPE,
                          stderr=stderr or subprocess.PIPE)
    said = (done.stderr or b"").decode()
    assert done.returncode == code, (done.returncode, said)
    line = re.search(r"(events \d+.*)", said)
    counts = {k: int(v) for k, v in re.findall(r"([a-z ]+?) (\d+)(?:,|$)", line[1])} if line else {}
    return Run(done.returncode, said, done.stdout.decode(), {k.strip(): v for k, v in counts.items()})


def bodies(place, out="out"):
    found = [p.read_bytes() for p in sorted((place / out).iterdir())]
    assert not [p.name for p in (place / out).iterdir() if p.name.startswith(".")], "temporaries left"
    return found


def whole(place, out="out"):
    """Names are digests of whole inputs."""
    for path in (place / out).iterdir():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name, path


def solvings(place):
    return (place / "solvings").stat().st_size if (place / "solvings").exists() else 0


def leased(place):
    return int(subprocess.run([HOME / "lease", place / "campaign", "leased"], check=True,
                              stdout=subprocess.PIPE, timeout=60).stdout)


def digests(place):
    lines = [line for path in sorted((place / "campaign/.symcc/digests").iterdir())
             for line in path.read_text().split("\n") if line]
    assert all(re.fullmatch("[0-9a-f]{64}", line) for line in lines), lines
    return lines


# ---- as usual: what the runtime makes by itself, run after run ----
place = folder("usual")
run(place, preload=False)
USUAL = set(bodies(place))
N = len(USUAL)
assert N == len(bodies(place)) and N >= 8
before = solvings(place)
run(place, out="again", preload=False)
assert solvings(place) == 2 * before and set(bodies(place, "again")) == USUAL

# ---- six identical runs: N, 0, 0, 0, 0, 0, though wrapper sites are others each time ----
place = folder("six")
new = []
for turn in range(6):
    had = len(bodies(place))
    seen = run(place)
    new.append(len(bodies(place)) - had)
    assert seen.counts["inputs"] == new[-1] == seen.counts["remembered"], seen
assert new == [N, 0, 0, 0, 0, 0], new
assert set(bodies(place)) == USUAL and solvings(place) == N and leased(place) == 0
whole(place)
TARGETS = digests(place)
assert len(set(TARGETS)) == len(TARGETS) == N

# ---- another build: its sites mean other targets ----
seen = run(place, out="other", program="target2")
assert len(bodies(place, "other")) == N and seen.counts["known"] == 0, seen

# ---- bits alone refuse nothing; digests alone do, and the bits are mended ----
alone = folder("bits")
(alone / "campaign/.symcc").mkdir(parents=True)
shutil.copytree(place / "campaign/.symcc/bits", alone / "campaign/.symcc/bits")
seen = run(alone)
assert "; 16 bits" in seen.said or f"; {2 * N} bits" in seen.said, seen.said
assert set(bodies(alone)) == USUAL and seen.counts["known"] == 0, seen
alone = folder("digests")
(alone / "campaign/.symcc").mkdir(parents=True)
shutil.copytree(place / "campaign/.symcc/digests", alone / "campaign/.symcc/digests")
seen = run(alone)
assert bodies(alone) == [] and seen.counts["known"] == N and seen.counts["claimed"] == 0, seen
assert leased(alone) == 0
seen = run(alone)
assert f"{N} bits" in seen.said, seen.said
# lines that a death, a full disk or a power cut has spoilt
alone = folder("torn")
seen = run(alone)
for path in (alone / "campaign/.symcc/digests").iterdir():
    text = path.read_bytes()
    path.write_bytes(b"\n0123" + text + b"\0" * 40 + b"\nffff" + b"x" * 9000)
seen = run(alone)
assert len(bodies(alone)) == N and seen.counts["inputs"] == 0, seen
for path in (alone / "campaign/.symcc/digests").iterdir():
    path.write_bytes(path.read_bytes().replace(b"\n", b"")[:30])
seen = run(alone)
assert seen.counts["inputs"] == N and solvings(alone) == 2 * N, seen
seen = run(alone)
assert seen.counts["known"] == N, seen

# ---- eight at once: each target is solved once ----
place = folder("eight")
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    runs = list(pool.map(lambda n: run(place, STANDIN_SOLVE_US=20000), range(8)))
assert set(bodies(place)) == USUAL and len(bodies(place)) == N
assert solvings(place) == N == sum(r.counts["inputs"] for r in runs), runs
assert sum(r.counts["claimed"] for r in runs) == N and leased(place) == 0
assert sum(r.counts["held"] + r.counts["known"] for r in runs) == 7 * N
assert all(r.counts["errors"] == 0 for r in runs), runs
whole(place)

# ---- killed at each solving, before its input and after: nothing is lost, and
# nobody waits for the dead one's lease to end ----
for where in ("BEFORE", "AFTER"):
    for at in range(1, N + 1):
        place = folder(f"killed-{where}-{at}")
        run(place, code=-9, **{f"STANDIN_DIE_{where}": at})
        staged = at if where == "AFTER" else at - 1
        assert len(bodies(place)) == staged, (where, at)
        whole(place)
        seen = run(place)
        assert set(bodies(place)) == USUAL and seen.counts["inputs"] == N - staged, (where, at, seen)
        assert seen.counts["taken over"] == (where == "BEFORE") and leased(place) == 0, seen
# one process dies after the other, each at its first solving
place = folder("all-die")
for at in range(N):
    run(place, code=-9, STANDIN_DIE_AFTER=1)
run(place)
assert set(bodies(place)) == USUAL and solvings(place) == N

# ---- what another process solves is refused, its constraint is not ----
place = folder("held")
with subprocess.Popen([HOME / "holder", place / "campaign", str(int(TARGETS[0][:16], 16))],
                      stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
    assert other.stdout.readline() == b"held\n"
    seen = run(place)
    assert seen.counts["held"] == 1 and seen.counts["inputs"] == N - 1, seen
    assert set(bodies(place)) < USUAL
    other.communicate(b"", timeout=30)
seen = run(place)
assert set(bodies(place)) == USUAL and seen.counts["inputs"] == 1, seen

# ---- loops: later turns are other targets; as the formula alone has it, one ----
deep = HOME / "deep"
deep.write_bytes(b"Sa__loop" + b"wrap" + b"\xff\x00" + b"OPQ")
runs = {}
for hits in ("1", "0"):
    place = folder(f"hits-{hits}")
    runs[hits] = run(place, seed=deep, SYMLEASE_SYMCC_HITS=hits)
    assert run(place, seed=deep, SYMLEASE_SYMCC_HITS=hits).counts["inputs"] == 0
assert runs["1"].counts["inputs"] == runs["0"].counts["inputs"] + 2, runs  # QSYM itself passes the 3rd by

# ---- input by input, the adapter reaches what is reached without it ----
def reach(name, **how):
    place, done, todo = folder(name), set(), [SEED]
    while todo:
        seed = todo.pop(0)
        run(place, seed=seed, **how)
        for path in sorted((place / "out").iterdir()):
            body = path.read_bytes()
            path.unlink()
            if body not in done:
                done.add(body)
                todo.append(HOME / f"{name}-{len(done)}")
                todo[-1].write_bytes(body)
        assert len(done) < 400, "no end"
    return done


reached = reach("reached", SYMLEASE_SYMCC_HITS=1)
for mark in (b"S", b"....loop", b"........wrap"):
    assert any(re.match(mark, body, re.S) for body in reached), (mark, reached)
# As the formula alone has it, a keyword's second letter is its first one's target.
assert not any(body[4:8] == b"loop" for body in reach("formula", SYMLEASE_SYMCC_HITS=0))

# ---- a branch whose other side no input takes: tried again, or remembered ----
for remember, again in (("solved", 1), ("tried", 0)):
    place = folder(f"unsolvable-{remember}")
    seen = run(place, seed=deep, SYMLEASE_SYMCC_REMEMBER=remember)
    assert seen.counts["claimed"] == seen.counts["inputs"] + 1, seen
    assert leased(place) == 0
    seen = run(place, seed=deep, SYMLEASE_SYMCC_REMEMBER=remember)
    assert seen.counts["claimed"] == again and seen.counts["inputs"] == 0, (remember, seen)

# ---- the target's own handler is called too; without it ours is ----
place = folder("handler")
seen = run(place, OWN_HANDLER=1)
assert f"own {N}" in seen.found and set(bodies(place)) == USUAL, seen

# ---- QSYM's map stays this run's own ----
place = folder("map")
shared = HOME / "shared-map"
shared.write_bytes(b"\0" * 65536)
seen = run(place, SYMCC_AFL_COVERAGE_MAP=shared)
assert set(bodies(place)) == USUAL and not any(shared.read_bytes()), seen
assert "SYMCC_AFL_COVERAGE_MAP is left out" in seen.said
run(place, out="kept", SYMCC_AFL_COVERAGE_MAP=shared, SYMLEASE_SYMCC_KEEP_MAP=1)
assert any(shared.read_bytes())

# ---- target leases that the adapter makes are as durable as asked ----
for asked, made in (("process", "process"), ("power", "power"), (None, "power")):
    place = folder(f"durable-{asked}")
    run(place, **({"SYMLEASE_SYMCC_DURABILITY": asked} if asked else {}))
    assert f'"durability":"{made}"' in (place / "campaign/.target_lease_table/symlease.json").read_text()

# ---- fork: each side claims for itself ----
place = folder("fork")
seen = run(place, FORK=1)
assert set(bodies(place)) == USUAL and solvings(place) == N and leased(place) == 0
whole(place)

# ---- under a work lease: what is made after it is lost is remembered by nobody ----
place = folder("work")
work = hashlib.sha256(b"work").hexdigest()


def claim(how):
    return subprocess.run([HOME / "lease", place / "campaign", how, work], check=True, timeout=60,
                          stdout=subprocess.PIPE).stdout.decode().strip()


token = claim("claim")
run(place, code=-9, STANDIN_DIE_AFTER=2, SYMLEASE_SYMCC_WORK=work, SYMLEASE_SYMCC_TOKEN=token)
assert len(digests(place)) == 2
newer = claim("takeover")
seen = run(place, SYMLEASE_SYMCC_WORK=work, SYMLEASE_SYMCC_TOKEN=token)
assert seen.counts["stale"] == N - 2 and len(digests(place)) == 2 and leased(place) == 0, seen
seen = run(place, SYMLEASE_SYMCC_WORK=work, SYMLEASE_SYMCC_TOKEN=newer)
assert seen.counts["remembered"] == N - 2 and set(bodies(place)) == USUAL, seen

# ---- no system call where nothing is to be done ----
place = folder("quick")
for always, what in ((0, "the runtime passes it by"), (1, "it was solved before")):
    for preload in (False, True):
        if always and not preload:
            continue  # the stand-in would solve a million times
        seen = run(place, preload=preload, code=0, EVENTS=1000000, STANDIN_ALWAYS=always,
                   STANDIN_OPTIMISTIC=1)
        print(f"{'with' if preload else 'without'} the adapter, {what}: {seen.found.strip()}")

# ---- no-op, and trouble of every kind: as usual ----
place = folder("disabled")
seen = run(place, SYMLEASE_DISABLE=1)
assert seen.said == "" and set(bodies(place)) == USUAL and not (place / "campaign").exists()
assert (place / "out/000000").exists()
place = folder("nowhere")
seen = run(place, SYMLEASE_SYMCC_CAMPAIGN="")
assert "solving as usual" in seen.said and set(bodies(place)) == USUAL
(HOME / "file").write_text("no directory")
for number, where in enumerate((HOME / "file", HOME / "file/below", "/proc/none")):
    place = folder(f"trouble-{number}")
    seen = run(place, SYMLEASE_SYMCC_CAMPAIGN=where)
    assert "solving as usual" in seen.said and set(bodies(place)) == USUAL, seen.said
for what in ("bits/symlease.json", "bits/map.json", "digests", "../.target_lease_table/symlease.json"):
    place = folder("damaged-" + what.replace("/", "-").replace(".", ""))
    run(place)
    victim = place / "campaign/.symcc" / what
    if victim.is_dir():
        shutil.rmtree(victim)
    victim.write_text("{damaged")
    seen = run(place, out="after")
    assert victim.read_text() == "{damaged", "a damaged file was changed"
    if what.startswith("bits"):  # digests are enough
        assert bodies(place, "after") == [] and "digests alone" in seen.said, seen
    else:
        assert set(bodies(place, "after")) == USUAL and "as usual" in seen.said, (what, seen)
# every record of a target damaged: claims fail, all is solved all the same
place = folder("damaged-targets")
run(place, code=-9, STANDIN_DIE_BEFORE=1)
records = list((place / "campaign/.target_lease_table").glob("*/*.json"))
assert len(records) == 1
records[0].write_text("{damaged")
seen = run(place)
assert set(bodies(place)) == USUAL and seen.counts["errors"] == 1 and "claim of a target" in seen.said, seen
# words that nobody reads, a full disk, descriptors that are closed, a size limit
read, write = os.pipe()
os.close(read)
place = folder("pipe")
run(place, stderr=write)
assert set(bodies(place)) == USUAL
os.close(write)
place = folder("full-words")
with open("/dev/full", "w") as full:
    run(place, stderr=full)
assert set(bodies(place)) == USUAL
for name, limits in (("closed", "exec 0<&- 1<&- 2<&-"), ("fsize", "ulimit -f 0"), ("nofile", "ulimit -n 4"),
                     ("memory", "ulimit -v 60000")):
    place = folder(f"limit-{name}")

    done = subprocess.run(["bash", "-c", f'{limits}; exec "$@"', "-", HOME / "target", SEED], timeout=60,
                          env={**BASE, "LD_PRELOAD": str(ADAPTER), "SYMCC_OUTPUT_DIR": str(place / "out"),
                               "SYMLEASE_SYMCC_CAMPAIGN": str(place / "campaign")},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 3, (name, done)
    whole(place)
    if name == "closed":
        assert set(bodies(place)) == USUAL

# ---- which hooks are live is said ----
env = {**BASE, "LD_PRELOAD": str(ADAPTER), "SYMLEASE_SYMCC_CAMPAIGN": str(HOME / "none")}
done = subprocess.run(["/bin/true"], env=env, capture_output=True, timeout=60)
assert done.returncode == 0 and b"NOT live: no SymCC runtime in true" in done.stderr, done
place = folder("bound")
seen = run(place, program="target-bound")
assert "branches NOT live (the runtime is bound to its own" in seen.said and "inputs live" in seen.said, seen.said
assert set(bodies(place)) == USUAL
place = folder("behind")
seen = run(place, program="target-behind", preload=False)
assert "branches NOT live (the runtime's own comes first" in seen.said, seen.said
assert set(bodies(place)) == USUAL
place = folder("unwrapped")
seen = run(place, program="target-unwrapped", preload=False)
assert "hooks NOT live" in seen.said and set(bodies(place)) == USUAL, seen.said
place = folder("merged")
seen = run(place, program="target-merged", preload=False)
assert "inputs come, but no branch was met" in seen.said and set(bodies(place)) == USUAL, seen.said

# ---- linked before the runtime; all in one program, by --wrap ----
for program in ("target-linked", "target-static"):
    place = folder(program + "-six")
    made = []
    for turn in range(6):
        seen = run(place, program=program, preload=False)
        made.append(seen.counts["inputs"])
        assert "branches live, inputs live, calls live, blocks live" in seen.said, seen.said
    assert made == [N, 0, 0, 0, 0, 0] and set(bodies(place)) == USUAL, (program, made)
    whole(place)
    place = folder(program + "-disabled")
    seen = run(place, program=program, preload=False, SYMLEASE_DISABLE=1)
    assert seen.said == "" and set(bodies(place)) == USUAL and (place / "out/000000").exists()
