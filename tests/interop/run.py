"""Interop tests: the library and a Python peer on one campaign.

    SYMLEASE_LIBRARY=.../libsymlease.so python3 tests/interop/run.py

Prints what was done and measured; ends with 1 where anything differs."""

import fcntl
import glob
import hashlib
import json
import math
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True

import library
import tables as peer
from library import Campaign
from tables import CoverageOwnerShardGossip, FencedTargetLeaseTable, FencedWorkLeaseTable

HERE = os.path.dirname(os.path.abspath(__file__))
VECTORS = os.path.join(HERE, "..", "data", "vectors.json")
SPAWN = multiprocessing.get_context("spawn")
FOREIGN = ("fence", "ttl", "version")
OLD = 1_700_000_000.0
DEPTH = 5_000
PAYLOAD = (
    '{"big":-123456789012345678901234567890,"deep":' + '[{"k":' * DEPTH + "0" + "}]" * DEPTH
    + ',"digits":' + "7" * 5_000
    + ',"e":1e3,"f":1.0,"g":1E+05,"h":0.10,"i":1.7976931348623157e308,"j":5e-324,"k":-0'
    + ',"l":-0.0,"lone":"\\ud800","low":"\\udfff\\ud800","pair":"\\ud83d\\ude00"'
    + ',"text":"\\u00e9\\u4e2d\\u0007\\n\\"\\\\/","wide":18446744073709551616}'
)


def work_table(root, owner="peer:1", **more):
    return FencedWorkLeaseTable(os.path.join(root, ".work_lease_table"), owner, **more)


def target_table(root, owner="peer:1", **more):
    return FencedTargetLeaseTable(os.path.join(root, ".target_lease_table"), owner, **more)


def coverage_table(root, owner="peer:1", **more):
    return CoverageOwnerShardGossip(os.path.join(root, ".coverage_owner"), owner, **more)


def same(found, wanted, what=""):
    if found != wanted:
        left, right = repr(found), repr(wanted)
        at = len(os.path.commonprefix([left, right]))
        raise AssertionError(f"{what}: {left[max(0, at - 300):][:800]}, not "
                             f"{right[max(0, at - 300):][:800]} (from character {at})")


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


def fields(data):
    """Field -> its text as it stands, of one canonical line."""
    record = peer.parse(data)
    same(peer.line_of(record), data, "not the canonical line")
    return {key: peer.text_of(value) for key, value in record.items()}


def differing(before, after):
    """The fields whose texts differ."""
    left, right = fields(before), fields(after)
    return {key for key in left | right if left.get(key) != right.get(key)}


def add_fields(path, **extra):
    record = peer.parse(bytes_of(path))
    record.update({key: peer.parse(text.encode()) for key, text in extra.items()})
    peer.publish(path, peer.line_of(record))


UNKNOWN = '{"a":[1.00,{"z":1e400}],"b":98765432109876543210}'


def test_records(root):
    """Each side reads what the other wrote, and loses no field and no digit."""
    table = work_table(root)
    name = peer.work_id(PAYLOAD)
    same(library.work_id(PAYLOAD), name, "work id")
    path = table.place(name)
    with Campaign(root, "lib:1", work_ttl=300.0) as lib:
        # Python claims; the library renews and commits.
        answer, token = table.claim(name, PAYLOAD)
        same(answer, "OK", "peer's claim")
        add_fields(path, unknown=UNKNOWN, zz=UNKNOWN)
        first = bytes_of(path)
        same(fields(first)["payload"], PAYLOAD, "payload as the peer wrote it")
        answer, text = lib.read_record(name)
        same((answer, text.rstrip("\n")), ("OK", first.decode().rstrip("\n")), "read_record")
        same(lib.claim(name)[0], "HELD", "library against the peer's lease")
        same(lib.heartbeat(name, token), "OK", "library renews the peer's lease")
        second = bytes_of(path)
        same(differing(first, second) - {"session"}, {"updated", "version"}, "library's heartbeat")
        # Python renews what the library wrote, its own fields included.
        same(table.heartbeat(name, token), "OK", "peer after the library")
        same(differing(second, bytes_of(path)), {"updated"}, "peer's heartbeat")
        same(lib.begin_commit(name, token, UNKNOWN), "OK", "library begins the commit")
        third = bytes_of(path)
        same(fields(third)["commit"], UNKNOWN, "manifest as the library wrote it")
        same(table.begin_commit(name, token, UNKNOWN), "OK", "the same manifest")
        same(table.begin_commit(name, token, "{}"), "CONFLICT", "another manifest")
        same(table.complete(name, token), "OK", "peer completes")
        same(differing(third, bytes_of(path)), {"status", "completed"}, "peer's complete")
        same(lib.complete(name, token), "ALREADY", "library sees it")

        # The library claims; Python renews, then steals after the time.
        payload = PAYLOAD.replace('"f":1.0', '"f":2.0')
        name = peer.work_id(payload)
        path = table.place(name)
        answer, lease = lib.claim(name, payload)
        same(answer, "OK", "library's claim")
        first = bytes_of(path)
        same(fields(first)["payload"], payload, "payload as the library wrote it")
        for field in FOREIGN:
            assert field in fields(first), field
        same(table.claim(name), ("HELD", None), "peer against the library's lease")
        add_fields(path, unknown=UNKNOWN)
        first = bytes_of(path)
        same(table.heartbeat(name, lease.token.decode()), "OK", "peer renews")
        same(differing(first, bytes_of(path)), {"updated"}, "peer's heartbeat")
        late = work_table(root, clock=lambda: time.time() + 301)
        answer, token = late.claim(name)
        same(answer, "OK", "peer steals")
        stolen = fields(bytes_of(path))
        same(stolen["payload"], payload, "payload after a peer's steal")
        same(stolen["unknown"], UNKNOWN, "unknown field after a peer's steal")
        assert not stolen.keys() & set(FOREIGN), stolen.keys()
    print(f"  2 records, {DEPTH * 2} levels, an integer of 5,000 digits: no text changed")


def test_states(root):
    """The state machine, every step on the other side than the one before."""
    now = [OLD]
    table = work_table(root, ttl=10.0, clock=lambda: now[0])
    options = {"clock": lambda: now[0], "work_ttl": 10.0}
    steps = 0
    with Campaign(root, "lib:1", **options) as lib, Campaign(root, "lib:2", **options) as other:

        def ask(found, wanted):
            nonlocal steps
            steps += 1
            answer = found[0] if isinstance(found, tuple) else found
            same(answer, wanted, f"step {steps}")
            return found

        # Python claims, the library renews with that token, Python commits.
        one = hashlib.sha256(b"one").hexdigest()
        _, token = ask(table.claim(one, "{}"), "OK")
        assert token.startswith(f"peer:1:0:{os.getpid()}:"), token
        now[0] += 9
        ask(lib.heartbeat(one, token), "OK")
        now[0] += 9
        ask(table.claim(one), "HELD")
        ask(lib.claim(one), "HELD")
        ask(table.begin_commit(one, token, '{"x":1}'), "OK")
        now[0] += 1000
        ask(lib.claim(one), "COMMITTING")
        ask(table.claim(one), "COMMITTING")
        ask(lib.on_lease("verify", one, token), "COMMITTING")
        ask(lib.abandon(one, token), "COMMITTING")
        ask(lib.begin_commit(one, token, '{"x":1}'), "OK")
        ask(lib.begin_commit(one, token, '{"x":2}'), "CONFLICT")
        ask(table.complete(one, token), "OK")
        ask(lib.claim(one), "DONE")
        ask(table.claim(one), "DONE")
        ask(lib.heartbeat(one, token), "ALREADY")
        ask(table.heartbeat(one, token), "ALREADY")
        ask(lib.complete(one, token), "ALREADY")

        # A steals B's C's lease: peer, library, peer, library; fences rise.
        two = hashlib.sha256(b"two").hexdigest()
        _, first = ask(table.claim(two, "{}"), "OK")
        ask(lib.claim(two), "HELD")
        now[0] += 11
        ask(lib.heartbeat(two, first), "OK")  # late, but nobody took it
        now[0] += 11
        _, lease = ask(lib.claim(two), "OK")
        same((lease.attempts, lease.steals), (2, 1), "attempts and steals")
        fence, second = lease.fence, lease.token.decode()
        assert fence > 0
        ask(table.heartbeat(two, first), "STALE")
        ask(table.begin_commit(two, first, "{}"), "STALE")
        ask(table.complete(two, first), "STALE")
        now[0] += 9
        ask(table.claim(two), "HELD")
        now[0] += 2
        _, third = ask(table.claim(two), "OK")
        ask(lib.heartbeat(two, second), "STALE")
        ask(lib.begin_commit(two, second, "{}"), "STALE")
        ask(lib.abandon(two, second), "STALE")
        same(table.read(two)["previous_owner"], "lib:1", "previous owner")
        now[0] += 11
        _, lease = ask(lib.claim(two), "OK")
        assert lease.fence > fence, (lease.fence, fence)
        same((lease.attempts, lease.steals), (4, 3), "attempts and steals")
        fence = lease.fence
        now[0] += 11
        _, lease = ask(other.claim(two), "OK")
        assert lease.fence > fence
        ask(table.complete(two, third), "STALE")

        # Abandoned by one, free at once for the other.
        ask(other.abandon(two, lease.token.decode()), "OK")
        ask(other.heartbeat(two, lease.token.decode()), "STALE")
        _, token = ask(table.claim(two), "OK")
        ask(table.abandon(two, token), "OK")
        ask(table.heartbeat(two, token), "STALE")
        _, lease = ask(lib.claim(two), "OK")
        same(lease.attempts, 7, "attempts")
        # Complete without a manifest, by the peer, of the library's lease.
        ask(table.complete(two, lease.token.decode()), "OK")
        ask(lib.on_lease("verify", two, lease.token.decode()), "ALREADY")
        ask(other.claim(two), "DONE")
    print(f"  {steps} steps")


def test_groups(root):
    """Groups that the other side renews, steals and releases."""
    now = [OLD]
    table = target_table(root, ttl=10.0, clock=lambda: now[0])
    targets = [77, 5, 18446744073709551615, 5, 0, 88]
    clean = [77, 5, 18446744073709551615, 88]
    for target in clean + [1, 2, 4294967296]:
        same(library.target_id(target), peer.target_id(target), "target id")

    def moments():
        found = [table.read(peer.target_id(target)) for target in clean]
        return {record["updated"].text for record in found if record}

    with Campaign(root, "lib:1", clock=lambda: now[0], target_ttl=10.0) as lib:
        _, token = table.claim_group(targets, '{"p":1.00}')
        same(lib.group_claim([9, 88])[0], "HELD", "library against a peer's group")
        assert table.read(peer.target_id(9)) is None, "a refused group left a member"
        now[0] += 9
        same(lib.on_group("verify", clean, token), "OK", "library looks")
        same(lib.on_group("heartbeat", clean, token), "OK", "library renews the peer's group")
        same(moments(), {repr(now[0])}, "one time in all members (H1)")
        now[0] += 9
        same(table.heartbeat_group(targets, token), "OK", "peer renews")
        same(moments(), {repr(now[0])}, "one time in all members (H1)")
        record = fields(bytes_of(table.place(peer.target_id(5))))
        same(record["payload"], '{"p":1.00}', "payload")
        order = [t for _, t in sorted((peer.target_id(t), t) for t in clean)]
        same(json.loads(record["targets"]), order, "targets in id order")
        now[0] += 11
        answer, group = lib.group_claim([3, 77, 5])
        same(answer, "OK", "library steals two of four")
        mine = group.token.decode()
        same(table.heartbeat_group(targets, token), "STALE", "the rest of the old group")
        same(table.release_group(targets, token), "STALE", "the rest of the old group")
        record = fields(bytes_of(table.place(peer.target_id(77))))
        order = [t for _, t in sorted((peer.target_id(t), t) for t in (3, 77, 5))]
        same(json.loads(record["targets"]), order, "targets in id order, by the library")
        same(record["target"], "77", "target")
        same(table.claim_group([1, 5])[0], "HELD", "peer against the library's group")
        now[0] += 11
        _, token = table.claim_group([1, 5])
        assert token, "peer steals one of three"
        same(lib.on_group("heartbeat", [3, 77, 5], mine), "STALE", "the library's old group")
        same(lib.on_group("release", [1, 5], token), "OK", "library releases the peer's group")
        answer, group = lib.group_claim([1, 5])
        same(answer, "OK", "free again")
        same(table.heartbeat_group([1, 5], group.token.decode()), "OK", "peer renews")
        same(table.release_group([1, 5], group.token.decode()), "OK", "peer releases")
        same(lib.on_group("heartbeat", [1, 5], group.token.decode()), "STALE", "released")
        assert table.read(peer.target_id(5)) is None
    print("  groups of 2 to 4 renewed, stolen and released across")


def merge_and_die(root, step, edges):
    def hook(reached):
        if reached == step:
            os._exit(9)

    coverage_table(root, "peer:dead").claim_many([edges], hook)


def pending_in(root):
    names = glob.glob(os.path.join(root, ".coverage_owner", "claim-transactions", "*.json"))
    return names + glob.glob(os.path.join(root, ".coverage_owner", ".coverage-claim-*.json"))


def stopped(process):
    """Stops a process; true once it stands still."""
    os.kill(process.pid, signal.SIGSTOP)
    return os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT).si_status \
        == signal.SIGSTOP


def catch(process, caught):
    """Stops a busy process at a moment when `caught()` holds; it stays stopped."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        time.sleep(random.uniform(0.0, 0.01))
        if not stopped(process):
            raise AssertionError("the process to be stopped has ended")
        if caught():
            return
        os.kill(process.pid, signal.SIGCONT)
    raise AssertionError("the moment to stop the process never came")


def merge_for_ever(root, indices):
    """A library process that merges one new bit of each index, then the next."""
    with Campaign(root, "lib:busy") as lib:
        turn = 0
        while True:
            # Later rounds on other indices of the same shards, the bits all new.
            base, bit = 64 * 64 * (turn // 8), 1 << turn % 8
            answer, _ = lib.merge({base + index: bit for index in indices})
            same(answer, "OK", "merge")
            turn += 1


def test_coverage(root):
    """Shards and pending transactions of either side, and the exact OR."""
    rng = random.Random(5)
    mine = coverage_table(root)
    with Campaign(root, "lib:1") as lib:
        truth = {}

        def offer(edges, merge):
            new = sum((bits & ~truth.get(at, 0)).bit_count() for at, bits in edges.items())
            for at, bits in edges.items():
                truth[at] = truth.get(at, 0) | bits
            same(merge(edges), new, "credited bits")

        def by_library(edges):
            answer, bits = lib.merge(edges)
            same(answer, "OK", "merge: " + library.last_error())
            return bits

        def by_peer(edges):
            return sum(bits.bit_count() for bits in mine.claim_many([edges])[0].values())

        def random_edges():
            return {rng.randrange(5000): rng.randrange(1, 256) for _ in range(40)}

        mine.heartbeat()
        same(lib.coverage_heartbeat(), "OK", "heartbeat")
        for _ in range(20):
            offer(random_edges(), by_library)
            offer(random_edges(), by_peer)
        path = mine.place(7)
        add_fields(path, unknown=UNKNOWN)
        for merge in (by_library, by_peer, by_library):
            before = bytes_of(path)
            offer({7 + 64 * rng.randrange(1000, 100_000): 1}, merge)
            assert differing(before, bytes_of(path)) <= {
                "entries", "epoch", "contributors", "owner", "owner_index", "last_writer",
                "updated"}
            same(fields(bytes_of(path))["unknown"], UNKNOWN, "unknown field of a shard")

        # A Python process dies at each step of a merge; the library settles it.
        recovered = 0
        for step in ("logged", "one published", "published"):
            edges = {at: 0x55 for at in range(10_000 + recovered, 10_000 + 64, 3)}
            process = SPAWN.Process(target=merge_and_die, args=(root, step, edges))
            process.start()
            process.join()
            same(process.exitcode, 9, "the peer that dies")
            same(len(pending_in(root)), 1, "pending")
            if recovered == 2:
                # The older name counts as well.
                old = os.path.join(root, ".coverage_owner", CoverageOwnerShardGossip.OLD_NAME)
                os.rename(pending_in(root)[0], old)
            for at, bits in edges.items():
                truth[at] = truth.get(at, 0) | bits
            answer, image = lib.pull(1 << 23)
            same(answer, "OK", "pull")
            assert all(image.get(at) == bits for at, bits in edges.items()), "a pending bit"
            offer({min(edges): 0x80 >> 2 * recovered}, by_library)
            same(pending_in(root), [], "pending after the library's merge")
            recovered += 1
        fresh = coverage_table(root, "peer:fresh").pull()
        same(fresh, truth, "the OR as the peer reads it")
        with Campaign(root, "lib:fresh") as again:
            same(again.pull(1 << 23), ("OK", truth), "the OR as the library reads it")
            bits = sum(map(int.bit_count, truth.values()))
            same(again.totals(), ("OK", len(truth), bits), "totals")

    # A library process is killed with a merge pending; Python settles it.
    for turn in range(3):
        place = os.path.join(root, f"killed{turn}")
        process = SPAWN.Process(target=merge_for_ever, args=(place, list(range(64))))
        process.start()
        while not pending_in(place):
            time.sleep(0.001)
        catch(process, lambda: len(pending_in(place)) == 1)
        logged = peer.parse(bytes_of(pending_in(place)[0]))
        process.kill()
        process.join()
        table = coverage_table(place)
        if turn == 0:
            found = table.pull()
        else:
            edge = {64 * 64 * 1000: 1}
            same(table.claim_many([edge]), [edge], "credited")
            found = table.pull()
            same(found.pop(64 * 64 * 1000), 1, "own bit")
        same(pending_in(place), [], "pending after the peer's turn")
        for record in logged["records"]:
            for index, mask in record["entries"]:
                assert found[index.value] & mask.value == mask.value, "a logged bit is missing"
        # Every round wholly or not at all: 64 equal bytes in each block.
        blocks = {}
        for index, mask in found.items():
            blocks.setdefault(index // 4096, []).append(mask)
        assert all(len(block) == 64 and len(set(block)) == 1 for block in blocks.values()), blocks
        with Campaign(place, "lib:2") as lib:
            image = lib.pull(1 << 23)[1]
            image.pop(64 * 64 * 1000, None)
            same(image, found, "the library's OR after the peer's recovery")
    print(f"  {len(truth)} indices exact; {recovered} Python and 3 library merges recovered")


def one_of(side, root, number, ttl):
    """(claim, begin_commit, complete, abandon) with the same words on both sides."""
    if side == "peer":
        table = work_table(root, f"peer:{number}", ttl=ttl)
        return table.claim, table.begin_commit, table.complete, table.abandon
    lib = Campaign(root, f"lib:{number}", work_ttl=ttl)

    def claim(name, payload):
        answer, lease = lib.claim(name, payload)
        return answer, lease and lease.token.decode()

    return claim, lib.begin_commit, lib.complete, lib.abandon


def work_contender(side, root, number, payloads, start, out):
    rng = random.Random(number)
    claim, begin_commit, complete, abandon = one_of(side, root, number, 0.5)
    todo = {peer.work_id(payload): payload for payload in payloads}
    mine, counted = [], dict.fromkeys(("claims", "abandoned", "slow", "stale"), 0)
    start.wait()
    while todo:
        name = rng.choice(sorted(todo))
        answer, token = claim(name, todo[name])
        if answer == "DONE":
            del todo[name]
        if answer != "OK":
            assert answer in ("DONE", "HELD", "COMMITTING"), answer
            continue
        counted["claims"] += 1
        if rng.random() < 0.2:
            counted["abandoned"] += 1
            assert abandon(name, token) in ("OK", "STALE")
            continue
        if rng.random() < 0.05:
            counted["slow"] += 1
            time.sleep(0.8)  # past the TTL: it may be stolen meanwhile
        answer = begin_commit(name, token, json.dumps({"by": f"{side}:{number}"}))
        if answer == "OK":
            answer = complete(name, token)
            same(answer, "OK", "complete after begin commit")
            mine.append(name)
        else:
            same(answer, "STALE", "begin commit of a lost lease")
            counted["stale"] += 1
    out.put((side, number, mine, counted))


def coverage_contender(side, root, number, start, out):
    rng = random.Random(100 + number)
    if side == "peer":
        table = coverage_table(root, f"peer:{number}")

        def merge(edges):
            return sum(bits.bit_count() for bits in table.claim_many([edges])[0].values())
    else:
        lib = Campaign(root, f"lib:{number}")

        def merge(edges):
            answer, bits = lib.merge(edges)
            same(answer, "OK", "merge: " + library.last_error())
            return bits

    def parts(low):
        indices = list(range(low, low + 256))
        rng.shuffle(indices)
        return [indices[at : at + 16] for at in range(0, 256, 16)]

    start.wait()
    own = sum(merge(dict.fromkeys(part, 1 << number)) for part in parts(0))
    shared = sum(merge(dict.fromkeys(part, 255)) for part in parts(256))
    out.put((side, number, own, shared))


def compete(target, *arguments):
    """Four Python and four library processes at once; what each one put out."""
    start, out = SPAWN.Barrier(8), SPAWN.Queue()
    sides = ["peer", "library"] * 4
    processes = [
        SPAWN.Process(target=target, args=(side, arguments[0], number, *arguments[1:], start, out))
        for number, side in enumerate(sides)
    ]
    for process in processes:
        process.start()
    found = []
    end = time.monotonic() + 150
    while len(found) < len(processes):
        if not out.empty():
            found.append(out.get())
        elif any(process.exitcode for process in processes) or time.monotonic() > end:
            for process in processes:
                process.kill()
            raise AssertionError(f"a contender failed; {len(found)} ended well")
        else:
            time.sleep(0.01)
    for process in processes:
        process.join()
    return found


def test_contention(root):
    """Both sides on the same work ids and on the same coverage indices."""
    payloads = [f'{{"job":{number},"x":{number}.50}}' for number in range(150)]
    began = time.monotonic()
    found = compete(work_contender, root, payloads)
    spent = time.monotonic() - began
    finished = [name for _, _, mine, _ in found for name in mine]
    same(len(finished), 150, "completions")
    same(len(set(finished)), 150, "distinct completions")
    table = work_table(root)
    by = {name: f"{side}:{number}" for side, number, mine, _ in found for name in mine}
    for payload in payloads:
        name = peer.work_id(payload)
        record = table.read(name)
        same(record["status"], "done", "status")
        same(peer.text_of(record["payload"]), payload, "payload")
        same(record["commit"]["by"], by[name], "whose commit stands")
    totals = {key: sum(counted[key] for *_, counted in found) for key in found[0][3]}
    share = sum(len(mine) for side, _, mine, _ in found if side == "peer")
    print(f"  150 ids, each completed once ({share} by Python, {150 - share} by the library) "
          f"in {spent:.1f} s; {totals}")

    began = time.monotonic()
    found = compete(coverage_contender, root)
    spent = time.monotonic() - began
    for side, number, own, _ in found:
        same(own, 256, f"bits credited to {side}:{number}")
    same(sum(shared for *_, shared in found), 2048, "credits of shared bits")
    whole = dict.fromkeys(range(512), 255)
    same(coverage_table(root).pull(), whole, "final map, by Python")
    with Campaign(root, "lib:look") as lib:
        same(lib.pull(512), ("OK", whole), "final map, by the library")
    share = sum(shared for side, _, _, shared in found if side == "peer")
    print(f"  8 x 256 bits of their own and 2048 shared ones ({share} credited to Python), "
          f"each credited once, all 0xff, in {spent:.1f} s")


def test_vectors(root):
    """Both sides judge every valid and every damaged file alike."""
    with open(VECTORS, encoding="utf-8") as file:
        vectors = json.load(file)
    name = vectors["records"]["id"]
    table = work_table(root, clock=lambda: OLD)
    path = table.place(name)
    os.makedirs(os.path.dirname(path), 0o700)
    good = vectors["records"]["valid"][0]
    cases = [("valid", text.encode(), True) for text in vectors["records"]["valid"]]
    cases += [(one["why"], one["text"].encode(), False) for one in vectors["records"]["invalid"]]

    def with_field(text):
        return good.replace('"owner":', text + ',"owner":').encode()

    cases += [
        ("fence 0", with_field('"fence":0'), True),
        ("fence 2^64-1", with_field('"fence":18446744073709551615'), True),
        ("fence 2^64", with_field('"fence":18446744073709551616'), False),
        ("fence -1", with_field('"fence":-1'), False),
        ("fence is a boolean", with_field('"fence":true'), False),
        ("fence 1.0", with_field('"fence":1.0'), False),
        ("ttl 0", with_field('"ttl":0'), False),
        ("ttl 1e9", with_field('"ttl":1e9'), True),
        ("ttl 1e999", with_field('"ttl":1e999'), False),
        ("ttl is a string", with_field('"ttl":"1"'), False),
        ("updated is a boolean", good.replace("1786060800.25", "true").encode(), False),
        ("updated Infinity", good.replace("1786060800.25", "Infinity").encode(), False),
        ("updated -0.0", good.replace("1786060800.25", "-0.0").encode(), True),
        ("updated 01", good.replace("1786060800.25", "01").encode(), False),
        ("updated 1.", good.replace("1786060800.25", "1.").encode(), False),
        ("schema is true", good.replace('"schema":1', '"schema":true').encode(), False),
        ("duplicate in a payload", good.replace('"payload":{}', '"payload":{"a":1,"a":1}')
         .encode(), False),
        ("duplicate by an escape", good.replace('"payload":{}', '"payload":{"a":1,"\\u0061":1}')
         .encode(), False),
        ("NaN in a payload", good.replace('"payload":{}', '"payload":{"a":NaN}').encode(), False),
        ("1e999 in a payload", good.replace('"payload":{}', '"payload":{"a":1e999}').encode(),
         True),
        ("invalid UTF-8", good.encode().replace(b"host:1", b"host\xff", 1), False),
        ("a surrogate in UTF-8", good.encode().replace(b"host:1", b"h\xed\xa0\x80", 1), False),
        ("a byte order mark", b"\xef\xbb\xbf" + good.encode(), False),
        ("a control character", good.encode().replace(b"host:1", b"host\x01", 1), False),
        ("a NUL at the end", good.encode() + b"\0", False),
        ("no newline", good.rstrip("\n").encode(), True),
        ("spaces", good.replace(":", " : ", 1).encode(), True),
        ("a trailing comma", good.replace("}\n", ",}\n").encode(), False),
        ("single quotes", b"{'a':1}", False),
    ]
    with Campaign(root, "lib:1", clock=lambda: OLD) as lib:
        for why, data, valid in cases:
            with open(path, "wb") as file:
                file.write(data)
            try:
                table.read(name)
                mine = True
            except peer.Corrupt:
                mine = False
            theirs = lib.read_record(name)[0]
            same((mine, theirs), (valid, "OK" if valid else "E_CORRUPT"), f"record: {why}")
            if not valid:
                same(lib.claim(name, "{}")[0], "E_CORRUPT", f"claim: {why}")
                try:
                    table.claim(name, "{}")
                    raise AssertionError(f"the peer claimed over {why}")
                except peer.Corrupt:
                    pass
                same(bytes_of(path), data, f"bytes after refused claims: {why}")
    records = len(cases)

    shard = vectors["coverage_shards"]["shard"]
    cases = [("valid", text.encode(), True) for text in vectors["coverage_shards"]["valid"]]
    cases += [(one["why"], one["text"].encode(), False)
              for one in vectors["coverage_shards"]["invalid"]]
    cover = coverage_table(root)
    os.makedirs(cover.state, 0o700)
    with Campaign(root, "lib:1") as lib:
        for why, data, valid in cases:
            with open(cover.place(shard), "wb") as file:
                file.write(data)
            try:
                cover.read(shard)
                mine = True
            except peer.Corrupt:
                mine = False
            theirs = lib.totals()[0]
            same((mine, theirs), (valid, "OK" if valid else "E_CORRUPT"), f"shard: {why}")
            if not valid:
                same(lib.merge({shard: 1, shard + 1: 1})[0], "E_CORRUPT", f"merge: {why}")
                try:
                    cover.claim_many([{shard: 1, shard + 1: 1}])
                    raise AssertionError(f"the peer merged into {why}")
                except peer.Corrupt:
                    pass
                same(bytes_of(cover.place(shard)), data, f"bytes after refused merges: {why}")
    for one in vectors["work_ids"]:
        same((peer.work_id(one["payload"]), library.work_id(one["payload"])),
             (one["id"], one["id"]), "work id")
    print(f"  {records} records and {len(cases)} shards judged alike")


def random_text(rng):
    ranges = [(0, 0x20), (0x20, 0x80), (0x7F, 0x100), (0x100, 0x3000), (0xD800, 0xE000),
              (0xE000, 0x10000), (0x10000, 0x110000)]
    return "".join(chr(rng.randrange(*rng.choice(ranges))) for _ in range(rng.randrange(8)))


def random_number(rng):
    kind = rng.randrange(8)
    if kind == 0:
        return str(rng.randrange(-5, 6))
    if kind == 1:
        return str(rng.randrange(-(10**40), 10**40))
    if kind == 2:
        return repr(rng.uniform(-1e6, 1e6))
    if kind == 3:
        return f"{rng.randrange(10**18)}.{rng.randrange(10**8)}e{rng.randrange(-330, 290)}"
    if kind == 4:
        return f"{rng.randrange(100)}{rng.choice('eE')}{rng.choice(['', '+', '-'])}{rng.randrange(30)}"
    if kind == 5:
        return f"-0.{'0' * rng.randrange(8)}{rng.randrange(1000)}0"
    if kind == 6:
        return rng.choice(["-0", "-0.0", "0e0", "1e16", "1e15", "9999999999999999.0", "0.0001",
                           "0.00001", "5e-324", "2.5e-324", "1.7976931348623157e308",
                           "4.35", "123456789012345680.0", "1E22", "1e23"])
    while True:
        value = struct_double(rng.getrandbits(64))
        if math.isfinite(value):
            return repr(value)


def struct_double(bits):
    return float(memoryview(bits.to_bytes(8, "little")).cast("d")[0])


def random_json(rng, depth):
    """JSON text with random spellings of numbers, strings and spaces."""
    space = rng.choice(["", "", "", " ", "\n\t"])
    kind = rng.randrange(7 if depth else 4)
    if kind == 0:
        return rng.choice(["true", "false", "null"])
    if kind in (1, 2):
        return space + random_number(rng)
    if kind == 3:
        return random_string(rng)
    if kind == 4:
        items = [random_json(rng, depth - 1) for _ in range(rng.randrange(5))]
        return "[" + ("," + space).join(items) + space + "]"
    return random_object(rng, depth, space)


def random_string(rng):
    text = random_text(rng)
    plain = rng.random() < 0.5 and not any("\ud800" <= char < "\ue000" for char in text)
    return json.dumps(text, ensure_ascii=not plain)


def random_object(rng, depth, space=""):
    # Keys by what they mean: two spellings of one would be a duplicate.
    keys = {}
    for _ in range(rng.randrange(6)):
        key = random_string(rng)
        keys[json.loads(key)] = key
    pairs = [f"{key}{space}:{random_json(rng, depth - 1)}" for key in keys.values()]
    return "{" + space + ("," + space).join(pairs) + "}"


def test_work_ids(_):
    """Work ids of random payloads are those of Python's json and hashlib."""
    rng = random.Random(20_261_201)
    for number in range(2000):
        payload = random_object(rng, 4)
        theirs, mine = library.work_id(payload), peer.work_id(payload)
        same(theirs, mine, f"payload {number}: {payload!r}")
    print("  2000 payloads")


def hold_work(root, name, ready):
    """A Python process that keeps a record's lock until it is killed."""
    table = work_table(root, "peer:dead", clock=lambda: OLD)
    same(table.claim(name, '{"x":1}')[0], "OK", "the holder's claim")
    with peer.Lock(table.place(name), 5.0):
        ready.set()
        time.sleep(600)


def renew_for_ever(root, name):
    """A library process that writes one record again and again, dated long ago."""
    with Campaign(root, "lib:dead", clock=lambda: OLD) as lib:
        answer, lease = lib.claim(name, '{"x":1}')
        while answer == "OK":
            answer = lib.heartbeat(name, lease.token.decode())


def hold_shard(root, shard, ready):
    table = coverage_table(root, "peer:dead", shards=8)
    peer.make_directory(table.state)
    with peer.Lock(table.place(shard), 5.0):
        ready.set()
        time.sleep(600)


def merge_shards_for_ever(root, start):
    """A library process that merges new bits of all eight shards."""
    with Campaign(root, "lib:dead", coverage_shards=8) as lib:
        for turn in range(1_000_000):
            answer, _ = lib.merge({start + 8 * turn + at: 1 for at in range(8)})
            same(answer, "OK", "merge")


def locked(path):
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False


def reclaim_after_kill(process, lock, call):
    """Kills a holder while `call` waits for its lock. Seconds from the kill to
    the answer, which `call` checks."""
    ended = []

    def wait():
        try:
            call()
            ended.append(time.monotonic())
        except BaseException as error:
            ended.append(error)

    assert locked(lock), "the holder holds nothing"
    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(0.03)
    assert not ended, f"nobody waited: {ended}"
    killed = time.monotonic()
    os.kill(process.pid, signal.SIGKILL)
    waiter.join()
    process.join()
    same(process.exitcode, -signal.SIGKILL, "the holder's end")
    if isinstance(ended[0], BaseException):
        raise ended[0]
    return ended[0] - killed


def test_killed(root):
    """Forty holders are killed; each lock is had at once by the one who waits."""
    table = work_table(root, "peer:next", lock_timeout=20.0)
    cover = coverage_table(root, "peer:next", shards=8, lock_timeout=20.0)
    times, pending = [], 0
    with Campaign(root, "lib:next", lock_timeout=20.0, coverage_shards=8) as lib:
        for number in range(20):
            name = hashlib.sha256(f"held {number}".encode()).hexdigest()
            lock = table.place(name) + ".lock"
            if number % 2:
                ready = SPAWN.Event()
                process = SPAWN.Process(target=hold_work, args=(root, name, ready))
                process.start()
                assert ready.wait(30), "the holder never held"
            else:
                process = SPAWN.Process(target=renew_for_ever, args=(root, name))
                process.start()
                while not os.path.exists(table.place(name)):
                    time.sleep(0.001)
                catch(process, lambda lock=lock: locked(lock))
            by = table if number % 4 < 2 else lib
            times.append(reclaim_after_kill(
                process, lock, lambda: same(by.claim(name)[0], "OK", "claim of a dead one's")))
            same(fields(bytes_of(table.place(name)))["attempts"], "2", "attempts")
        work = max(times)

        for number in range(20):
            shard = number % 8
            lock = cover.place(shard) + ".lock"
            if number % 2:
                ready = SPAWN.Event()
                process = SPAWN.Process(target=hold_shard, args=(root, shard, ready))
                process.start()
                assert ready.wait(30), "the holder never held"
            else:
                start = 8 * 10_000 * (number + 1)
                process = SPAWN.Process(target=merge_shards_for_ever, args=(root, start))
                process.start()
                # The one above may still be at its start: wait for its first merge.
                mark = os.path.join(cover.state, "0000.json")
                was = os.path.getmtime(mark) if os.path.exists(mark) else 0
                while not os.path.exists(mark) or os.path.getmtime(mark) == was:
                    time.sleep(0.001)
                catch(process, lambda lock=lock: locked(lock))
            pending += len(pending_in(root))
            edge = {8 * number + shard: 1}

            def merge():
                if number % 4 < 2:
                    same(cover.claim_many([edge]), [edge], "merge behind a dead one")
                else:
                    same(lib.merge(edge), ("OK", 1), "merge behind a dead one")

            times.append(reclaim_after_kill(process, lock, merge))
        same(pending_in(root), [], "pending merges")
        found = cover.pull()
        assert all(8 * number + number % 8 in found for number in range(20))
        same(lib.pull(1 << 23), ("OK", found), "both sides' maps")
    locks = len(glob.glob(os.path.join(root, ".work_lease_table", "*", "*.lock")))
    shards = len(glob.glob(os.path.join(root, ".coverage_owner", "state", "*.lock")))
    same((len(times), locks, shards), (40, 20, 8), "reclaims, lock files")
    print(f"  40 holders killed (20 Python, 20 library), 40 reclaims, no time-out; longest "
          f"{max(times) * 1000:.1f} ms (work {work * 1000:.1f} ms); {pending} merges were "
          f"pending; lock files: {locks} of 20 ids, {shards} of 8 shards")


TESTS = [test_records, test_states, test_groups, test_coverage, test_vectors, test_work_ids,
         test_contention, test_killed]


def main():
    wanted = sys.argv[1:]
    for test in TESTS:
        if wanted and test.__name__ not in wanted:
            continue
        print(f"{test.__name__}: {test.__doc__}", flush=True)
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="symlease-interop-") as root:
            try:
                test(root)
            finally:
                for process in multiprocessing.active_children():
                    process.kill()
                    process.join()
        print(f"  {time.monotonic() - began:.1f} s", flush=True)
    print("interop: all passed")


if __name__ == "__main__":
    main()
