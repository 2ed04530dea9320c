"""Parent program of test.sh: makes the file, runs targets, reads what is left."""
import os, signal, struct, subprocess, sys

d = sys.argv[1]
F = d + "/map"
HEAD = struct.Struct("=8sIIQQQIIII")
CAP = 16384


def create(cap=CAP, magic=b"SLSANCOV", length=None, owner=0):
    try:
        os.unlink(F)
    except FileNotFoundError:
        pass
    with open(F, "wb") as f:
        f.write(HEAD.pack(magic, 1, 4096, cap, 0, 0, 0, 0, owner, 0))
        f.truncate(4096 + cap if length is None else length)


def read():
    b = open(F, "rb").read()
    magic, ver, hb, cap, size, dropped, live, n, owner, _ = HEAD.unpack_from(b)
    assert (magic, ver, hb) == (b"SLSANCOV", 1, 4096) and size % 64 == 0 and size <= cap
    mods = [struct.unpack_from("=4I", b, HEAD.size + 16 * i) for i in range(n)]
    counts = {i: c for i, c in enumerate(b[4096:4096 + size]) if c}
    return dict(size=size, live=live, mods=mods, counts=counts, dropped=dropped, owner=owner)


def run(exe, *args, rc=0, env=True, **more):
    e = {k: v for k, v in os.environ.items() if not k.startswith("SYMLEASE_")}
    if env:
        e["SYMLEASE_SANCOV_FILE"] = F
    # clang links a sanitizer runtime: let SIGSEGV really end the target
    e["UBSAN_OPTIONS"] = "handle_segv=0"
    e["ASAN_OPTIONS"] = "detect_leaks=0:handle_segv=0"
    e.update(more)
    p = subprocess.run([d + "/" + exe, *args], env=e, capture_output=True, text=True,
                       preexec_fn=nocore, timeout=60)
    assert p.returncode == rc, (exe, args, p)
    return p


def nocore():
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def parse(out, word):
    line = [l for l in out.splitlines() if l.startswith(word + " ")][0]
    return {int(a): int(b) for a, b in (x.split(":") for x in line.split()[1:])}


def bucket(c):
    return next(b for lo, b in ((128, 128), (32, 64), (16, 32), (8, 16), (4, 8), (3, 4), (2, 2), (1, 1))
                if c >= lo)


DEATHS = (("abort", signal.SIGABRT), ("kill", signal.SIGKILL), ("segv", signal.SIGSEGV))

for exe in ("guard", "guard_asan", "paged", "paged_asan", "counters"):
    if not os.path.exists(d + "/" + exe):
        continue
    live, direct = (1, 1) if "guard" in exe else (2, int("paged" in exe))
    # normal ends: ids stable over runs; counts as the loop ran; API and file agree
    seen = []
    for _ in range(2):
        create()
        out = run(exe, "exit", "77").stdout
        r = read()
        seen.append((r["mods"], r["counts"], r["size"]))
        assert "hooks live: " + ("guard" if live == 1 else "counters") in out, out
        assert r["live"] == live and len(r["mods"]) == 1 and r["owner"] != 0 and r["dropped"] == 0
        base, edges, kind, dr = r["mods"][0]
        assert base == 0 and edges > 8 and kind == live and dr == direct, r
        assert sum(c == 77 for c in r["counts"].values()) == 2, r  # hit() and the loop's body
        counts, classes = parse(out, "counts"), parse(out, "classes")
        hits = [k for k, v in counts.items() if v == 77]
        assert all(r["counts"][k] == 77 for k in hits) and all(classes[k] == 64 for k in hits)
        assert set(counts) <= set(classes)
    assert seen[0] == seen[1], seen
    # private memory gives the same numbers
    out = run(exe, "exit", "77", env=False).stdout
    assert parse(out, "counts") == counts and "shared 0" in out
    # hits over 255: guard never zero (256 -> 1, 257 -> 2); the compiler's own array wraps
    for n, g, c in ((255, 255, 255), (256, 1, 0), (257, 2, 1), (510, 255, 254), (511, 1, 255)):
        create()
        got = parse(run(exe, "exit", str(n)).stdout, "counts")
        assert all(got.get(k, 0) == (g if live == 1 else c) for k in hits), (exe, n, got)
    for n in (1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 127, 128, 255):
        got = parse(run(exe, "exit", str(n), env=False).stdout, "classes")
        assert all(got[k] == bucket(n) for k in hits), (exe, n, got)
    # deaths
    for how, sig in DEATHS + (("publish", signal.SIGKILL),):
        create()
        run(exe, how, "77", rc=-sig)
        r = read()
        if direct or how == "publish":
            assert all(r["counts"][k] == 77 for k in hits), (exe, how, r)
        else:  # documented: lost without publish
            assert r["counts"] == {} and r["live"] == live, r
    # reset
    create()
    assert all(parse(run(exe, "reset", "77").stdout, "counts").get(k, 0) <= 1 for k in hits)
    # a forked child keeps its own data, and shares the map only if counted in place
    create()
    out = run(exe, "fork", "77").stdout
    assert "other 7" in out, out
    assert sorted(read()["counts"][k] for k in hits) == [77, 78 if direct else 77], (exe, read())
    # dlopen: a second module, counted; closing it does not hurt; ids stable
    plug = d + "/plug_" + ("guard" if live == 1 else "counters") + ".so"
    both = []
    for how in ("exit", "dlclose", "exit"):
        create()
        run(exe, how, "77", plug)
        r = read()
        assert len(r["mods"]) == 2, r
        b, e, k, dr = r["mods"][1]
        assert b >= edges and k == live and dr == (live == 1)
        assert sorted(r["counts"].get(b + i, 0) for i in range(e))[-1] == 3, r
        both.append((r["mods"], {i: c for i, c in r["counts"].items() if b <= i < b + e}))
    assert both[0] == both[1] == both[2], both
    # files that are not ours stay as they are, the target runs on
    for kw in (dict(magic=b"SLSANCOX"), dict(length=4096), dict(length=100), dict(cap=0),
               dict(cap=100), dict(owner=1), dict(cap=1 << 40, length=8192)):
        create(**kw)
        before = open(F, "rb").read()
        p = run(exe, "exit", "77")
        assert "shared 0" in p.stdout and p.stderr == "" and "private (" in p.stdout, p
        assert parse(p.stdout, "counts") == counts and open(F, "rb").read() == before
        p = run(exe, "exit", "1", SYMLEASE_SANCOV_VERBOSE="1")
        assert p.stderr.count("\n") == 1 and p.stderr.startswith("symlease-sancov: "), p
    create()
    os.rename(F, F + ".real")
    os.symlink(F + ".real", F)
    assert "shared 0" in run(exe, "exit", "1").stdout
    os.unlink(F)
    os.mkfifo(F)
    assert "not a regular file" in run(exe, "exit", "1").stdout
    os.unlink(F)
    assert "cannot be opened" in run(exe, "exit", "1").stdout
    print("ok", exe)

# a full map: edges dropped, said in the header, target runs
create(cap=4096)
run("guard_big", rc=0)
r = read()
assert r["dropped"] > 4096 and r["mods"] == [] and r["live"] == 1, r
print("ok dropped")

# no instrumentation: not live, said on the descriptor and on stderr
create()
before = open(F, "rb").read()
p = run("plain", "exit", "5")
assert "hooks NOT live" in p.stdout and "hooks NOT live" in p.stderr
assert "size 0 edges 0 shared 0" in p.stdout and open(F, "rb").read() == before
print("ok plain")
