"""What test.sh built is run here. The seed is useless but for three digits."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HOME = pathlib.Path(sys.argv[1])
SEED = HOME / "seed"
SEED.write_bytes(b"ABCDEFGHIJKLMNOPQ185UVWX")
BASE = {k: v for k, v in os.environ.items() if not k.startswith(("SYMCC_", "SYMLEASE_"))}


def run(program, *args, code=0, stdin=b"", **env):
    done = subprocess.run([str(HOME / program), *map(str, args)], input=stdin,
                          env={**BASE, **env}, capture_output=True, timeout=120)
    assert done.returncode == code, (program, args, done.returncode, done.stderr.decode())
    return done.stdout.decode(), done.stderr.decode()


def ids(program, *args, **env):
    lines = run(program, "--list", *args, **env)[0].split()
    assert lines and len(lines) == len(set(lines)) and "0" not in lines
    assert all(0 < int(i) < 2**64 for i in lines)
    return lines


def folder(name):
    path = HOME / name
    path.mkdir()
    return path


def outputs(path):
    assert not [p for p in path.iterdir() if p.name.startswith(".")], "temporaries left"
    found = sorted(path.iterdir())
    assert all(len(p.name) == 6 and p.name.isdigit() for p in found)
    bodies = [p.read_bytes() for p in found]
    assert len(bodies) == len(set(bodies)), "the same output twice"
    return bodies


def solve_all_levels(program, *options, rounds=14, **env):
    """Outputs as inputs, level by level, one lease-free call an input."""
    deep = HOME / "deep"
    deep.unlink(missing_ok=True)
    tried, queue, made = set(), [SEED.read_bytes()], 0
    listed = set()
    for level in range(1, rounds + 1):
        following = []
        for body in queue:
            name = HOME / "at"
            name.write_bytes(body)
            new = [i for i in ids(program, *options, name, **env) if i not in listed]
            if not new:
                continue
            out = pathlib.Path(tempfile.mkdtemp(dir=HOME))
            wanted = HOME / "wanted"
            wanted.write_text("\n".join(new) + "\n")
            run(program, "--targets", wanted, *options, name, SYMCC_OUTPUT_DIR=str(out), **env)
            listed.update(new)
            bodies = outputs(out)
            assert body not in bodies, "the input itself came out"
            following += [b for b in bodies if b not in tried]
            tried.update(bodies)
            made += len(bodies)
        for body in following:
            run(program, "--list", stdin=body, DEEP=str(deep), **env)
            if deep.exists():
                print(f"{program} {' '.join(options)}: deep in level {level}, {made} outputs")
                return body
        queue = following
    return None


# the harness, for coverage
deep_input = solve_all_levels("solver", "--check")
assert deep_input is not None
(HOME / "deep").unlink()
run("harness", stdin=deep_input, DEEP=str(HOME / "deep"))
assert (HOME / "deep").exists()
(HOME / "found").write_bytes(deep_input)
(HOME / "deep").unlink()
run("harness", SEED, HOME / "found", DEEP=str(HOME / "deep"))
assert (HOME / "deep").exists()
run("harness", HOME / "none", code=3)
for program in ("solver_O0", "solver_text", "solver_asan", "solver_asan_wrap"):
    assert solve_all_levels(program, "--check") is not None, program
assert solve_all_levels("solver_no") is not None
# a loop's comparison takes both sides early: more of it is another target
assert solve_all_levels("solver_O0", "--check", LOOP="1") is None
assert solve_all_levels("solver_O0", "--check", "--again", "3", LOOP="1") is not None

# ids: the same in every run, process and place; others in another build
first = ids("solver", SEED)
assert all(ids("solver", SEED) == first for _ in range(10))
assert ids("solver", stdin=SEED.read_bytes()) == first
assert ids("solver", SYMCC_INPUT_FILE=str(SEED)) == first
moved = HOME / "moved"
moved.write_bytes((HOME / "solver").read_bytes())
moved.chmod(0o755)
assert ids("moved", SEED) == first
assert all(ids("solver_text", SEED) == ids("solver_text", SEED) for _ in range(5))
assert not set(ids("solver_no", SEED)) & set(ids("solver_text", SEED)) & set(first)
solvable = run("solver", "--list", "--solvable", SEED)[0].split()
assert solvable and set(solvable) <= set(first)
assert "the target prints" not in run("solver", "--list", SEED)[0]
assert "the target prints" in run("solver", "--list", "--verbose", SEED)[1]

# only the targets given have outputs; all of them together are what --all makes
alone = {}
for n, target in enumerate(first):
    out = folder(f"one-{n}")
    run("solver", "--targets", "-", "--output", out, SEED, stdin=f"{target}\n".encode())
    alone[target] = set(outputs(out))
    assert bool(alone[target]) == (target in solvable)
out = folder("all")
run("solver", "--all", "--output", out, SEED)
assert set(outputs(out)) == set().union(*alone.values())
run("solver", "--all", "--output", out, SEED)
assert set(outputs(out)) == set().union(*alone.values()), "written again"
out = folder("foreign")
run("solver", "--targets", "-", "--output", out, SEED, stdin=b"12345\n")
assert outputs(out) == []
listing = HOME / "listing"
listing.write_text(solvable[0] + "\n")
run("solver", SEED, SYMLEASE_I2S_TARGETS=str(listing), SYMCC_OUTPUT_DIR=str(out))
assert set(outputs(out)) == alone[solvable[0]]

# alone: claims for itself, skips what another process holds, gives all back
campaign = folder("campaign")
holder = subprocess.Popen([HOME / "holder", campaign, *solvable], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE)
assert holder.stdout.readline() == b"held\n"
out = folder("held")
said = run("solver", "--campaign", campaign, "--output", out, SEED)[1]
assert outputs(out) == [] and f"held by others {len(solvable)}" in said, said
holder.communicate(b"")
assert holder.returncode == 0
holder = subprocess.Popen([HOME / "holder", campaign, solvable[0]], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE)
assert holder.stdout.readline() == b"held\n"
said = run("solver", "--campaign", campaign, "--output", out, SEED)[1]
assert f"claimed {len(solvable) - 1}, held by others 1" in said, said
assert set(outputs(out)) == set().union(*(alone[t] for t in solvable[1:]))
holder.communicate(b"")
again = subprocess.run([HOME / "holder", campaign, *solvable], input=b"", capture_output=True)
assert again.returncode == 0, "a lease was left"
roots = folder("roots")
said = run("solver", SEED, SYMCC_OUTPUT_DIR=str(folder("env")),
           SYMCC_MULTI_MASTER_TARGET_LEASE_DIR=str(roots))[1]
assert f"claimed {len(solvable)}, held by others 0" in said, said
run("solver_no", "--campaign", campaign, "--output", out, SEED, code=5)

# crash and hang: what was compared until then is there
for mode, word in (("crash", "died by signal 6"), ("hang", "hung")):
    start = time.monotonic()
    got, said = run("solver", "--list", "--timeout", "0.5", SEED, MODE=mode)
    assert word in said and set(got.split()) & set(first), said
    assert time.monotonic() - start < 5
    out = folder(f"end-{mode}")
    run("solver", "--all", "--timeout", "0.5", "--output", out, SEED, MODE=mode)
    assert any(b.startswith(bytes.fromhex("5ac3218f")) for b in outputs(out)), mode

# a lease is renewed while candidates run longer than it lives
said = run("solver", "--check", "--timeout", "0.4", "--max", "5", SEED, MODE="hang",
           SYMCC_OUTPUT_DIR=str(folder("slow")), SYMCC_MULTI_MASTER_TARGET_LEASE_DIR=str(roots),
           SYMCC_MULTI_MASTER_TARGET_LEASE_TTL="1")[1]
assert "lost" not in said and "release" not in said and "held by others 0" in said, said

# refusals
run("solver", SEED, code=2)
run("solver", "--bogus", code=2)
run("solver", "--all", SEED, code=2)
run("solver", "--targets", "-", "--output", out, SEED, stdin=b"x\n", code=2)
run("solver", "--all", "--output", HOME / "none", SEED, code=6)
run("solver", "--list", HOME / "none", code=3)
assert "compared nothing" in run("bare", "--list", SEED, code=4)[1]
run("solver", "--list", "--all", SEED, code=2)
