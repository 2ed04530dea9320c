"""The tables as a Python coordinator uses them.

    SYMLEASE_LIBRARY=.../libsymlease.so python3 -m unittest discover -s python/tests"""

import errno
import fcntl
import glob
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import symlease
from symlease import CoverageOwnerShardGossip, FencedTargetLeaseTable, FencedWorkLeaseTable

A, B, C = ("00000000" + "a" * 56, "00000004" + "b" * 56, "00000001" + "c" * 56)
PAYLOAD = {"path": "seed", "origin": "generated"}
MANIFEST = {"schema": "test-v1", "children": ["a" * 64]}


class Scratch(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = os.path.join(folder.name, "table")

    def work(self, **options):
        options = {"shard_count": 4, "lease_ttl": 10.0, **options}
        table = FencedWorkLeaseTable(self.root, **options)
        self.addCleanup(table.close)
        return table

    def targets(self, **options):
        options = {"shard_count": 4, "lease_ttl": 10.0, **options}
        table = FencedTargetLeaseTable(self.root, **options)
        self.addCleanup(table.close)
        return table

    def coverage(self, **options):
        table = CoverageOwnerShardGossip(self.root, **{"shard_count": 8, **options})
        self.addCleanup(table.close)
        return table

    def damage(self, path, text="{"):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)


class Work(Scratch):
    def test_a_stale_token_does_nothing(self):
        first, second = self.work(), self.work()
        old = first.claim(A, PAYLOAD, owner="a", worker=1, now=100.0)
        self.assertTrue(old.startswith("a:1:"))
        self.assertIsNone(second.claim(A, PAYLOAD, owner="b", now=105.0))
        self.assertEqual(second.recover_expired(now=109.0), [])
        self.assertEqual(second.recover_expired_records(now=110.0), [(A, PAYLOAD)])
        new = second.claim(A, PAYLOAD, owner="b", now=110.0)
        self.assertNotEqual(old, new)
        self.assertFalse(first.heartbeat(A, old, now=111.0))
        self.assertFalse(first.begin_commit(A, old, commit=MANIFEST, now=111.0))
        self.assertFalse(first.complete(A, old, now=111.0))
        self.assertFalse(first.abandon(A, old))
        self.assertEqual(first.complete_once(A, old), "stale")
        self.assertTrue(second.complete(A, new, now=112.0))
        self.assertIsNone(first.claim(A, PAYLOAD, owner="a", now=500.0))

    def test_a_heartbeat_moves_the_expiry(self):
        table = self.work()
        token = table.claim(A, PAYLOAD, owner="m", now=10.0)
        self.assertTrue(table.heartbeat(A, token, now=19.0))
        self.assertEqual(table.recover_expired(now=28.5), [])
        self.assertEqual(table.recover_expired(now=29.0), [PAYLOAD])

    def test_a_batch_renews_what_is_held_and_names_what_is_lost(self):
        table = self.work()
        tokens = {one: table.claim(one, PAYLOAD, owner="m", now=10.0) for one in (A, B, C)}
        before = table.counters()["syncs"]
        batch = table.heartbeat_many({**tokens, C: "another", "no id": "x"}, now=19.0)
        self.assertEqual(batch.renewed, (A, B))
        self.assertEqual(batch.lost, (C, "no id"))
        self.assertEqual(batch.directory_syncs, 1, "A and B share a folder")
        self.assertEqual(table.counters()["syncs"] - before, 3, "two records, one folder")
        self.assertEqual({name: record["updated"] for name, record in table.snapshot_records()},
                         {A: 19.0, B: 19.0, C: 10.0})
        self.assertEqual(table.heartbeat_many({}), ((), (), 0))
        with self.assertRaises(TypeError):
            table.heartbeat_many([A])

    def test_a_commit_is_finished_once_by_anybody(self):
        table, helper = self.work(), self.work()
        token = table.claim(A, PAYLOAD, owner="m", now=10.0)
        self.assertTrue(table.begin_commit(A, token, commit=MANIFEST, now=11.0))
        self.assertTrue(table.begin_commit(A, token, commit=MANIFEST, now=11.5))
        self.assertTrue(table.begin_commit(A, token, now=11.5), "no manifest: as it stands")
        self.assertFalse(table.begin_commit(A, token, commit={"other": 1}, now=12.0))
        self.assertIsNone(helper.claim(A, PAYLOAD, owner="b", now=500.0))
        self.assertFalse(table.abandon(A, token))
        self.assertEqual(helper.recover_committing_records(), [(A, PAYLOAD, token, MANIFEST)])
        self.assertEqual(helper.recover_expired(now=500.0), [])

        def broken(_manifest):
            raise OSError("publication interrupted")

        with self.assertRaisesRegex(OSError, "publication interrupted"):
            helper.replay_commit_once(A, token, broken, now=13.0)
        self.assertEqual(len(helper.recover_committing_records()), 1)
        seen = []
        self.assertEqual(helper.replay_commit_once(A, token, seen.append), "completed")
        self.assertEqual(helper.replay_commit_once(A, token, seen.append), "already")
        self.assertEqual(helper.replay_commit_once(A, "other", seen.append), "stale")
        self.assertEqual(seen, [MANIFEST])
        self.assertEqual(table.complete_once(A, token), "already")
        self.assertEqual(table.snapshot_counts(now=500.0),
                         {"leased": 0, "committing": 0, "expired": 0, "done": 1})

    def test_nothing_of_a_peer_is_lost_and_a_peer_reads_ours(self):
        table = self.work()
        token = table.claim(A, PAYLOAD, owner="m", worker=3, now=10.0)
        path = table.record_path(A)
        with open(path, encoding="ascii") as file:
            record = json.load(file)
        self.assertEqual((record["schema"], record["id"], record["status"], record["payload"],
                          record["owner"], record["worker"], record["token"], record["updated"]),
                         (1, A, "leased", PAYLOAD, "m", 3, token, 10.0))
        record["theirs"] = [1, {"b": None}]
        self.damage(path, json.dumps(record, sort_keys=True, separators=(",", ":")) + "\n")
        self.assertTrue(table.heartbeat(A, token, now=12.0))
        self.assertEqual(dict(table.snapshot_records())[A]["theirs"], [1, {"b": None}])

    def test_a_damaged_record_is_refused_and_stays(self):
        table = self.work()
        path = table.record_path(A)
        self.damage(path, '{"schema":0}\n')
        self.assertIsNone(table.claim(A, PAYLOAD, owner="m"))
        self.assertFalse(table.heartbeat(A, "t"))
        self.assertEqual(table.complete_once(A, "t"), "stale")
        self.assertEqual(table.recover_expired(now=1e9), [])
        self.assertEqual(table.snapshot_counts()["leased"], 0)
        for look in (table.snapshot_records, table.recover_committing_records):
            with self.assertRaisesRegex(ValueError, "invalid fenced lease record: " + A):
                look()
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), '{"schema":0}\n')

    def test_zero_takes_over_whatever_the_time(self):
        table = self.work()
        old = table.claim(A, PAYLOAD, owner="m", now=100.0)
        self.assertEqual(table.recover_expired_records(now=2.0, lease_ttl=0.0), [(A, PAYLOAD)])
        self.assertIsNone(table.claim(A, PAYLOAD, owner="r", now=2.0))
        new = table.claim(A, PAYLOAD, owner="r", now=2.0, lease_ttl=0.0)
        self.assertTrue(new)
        self.assertFalse(table.heartbeat(A, old, now=3.0))

    def test_what_cannot_be_right_is_named(self):
        table = self.work()
        self.assertIsNone(table.claim(None, PAYLOAD, owner="m"))
        self.assertIsNone(table.claim("A" * 64, PAYLOAD, owner="m"))
        with self.assertRaisesRegex(ValueError, "timestamp must be finite"):
            table.claim(A, PAYLOAD, owner="m", now=float("nan"))
        with self.assertRaisesRegex(ValueError, "TTL must be finite"):
            table.recover_expired(lease_ttl=float("inf"))
        with self.assertRaises(TypeError):
            table.claim(A, {"object": object()}, owner="m")
        with self.assertRaises(symlease.LimitExceeded):
            table.claim(A, {"long": "x" * (1 << 20)}, owner="m")
        for name, text in (("lease_ttl", "lease TTL"), ("lock_ttl", "lock age hint"),
                           ("lock_acquire_timeout", "lock acquisition timeout")):
            with self.assertRaisesRegex(ValueError, text):
                self.work(**{name: float("inf")})
        self.assertEqual(table.snapshot_records(), [])
        table.claim(A, PAYLOAD, owner="m")
        with self.assertRaises(symlease.CampaignMismatch):
            self.work(shard_count=5).claim(B, PAYLOAD, owner="m")
        table.close()
        table.close()
        with self.assertRaisesRegex(ValueError, "closed"):
            table.claim(A, PAYLOAD, owner="m")

    def test_a_held_lock_is_waited_for_and_never_stolen(self):
        table = self.work(lock_acquire_timeout=0.05, lock_ttl=1.0)
        token = table.claim(A, PAYLOAD, owner="m", now=1.0)
        with open(table.lock_path(A), "rb+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.utime(table.lock_path(A), (1.0, 1.0))
            for call in (lambda: table.claim(A, PAYLOAD, owner="o"),
                         lambda: table.complete(A, token)):
                with self.assertRaises(TimeoutError) as caught:
                    call()
                self.assertIsInstance(caught.exception, symlease.LockTimeout)
                self.assertIn(A, str(caught.exception))
        self.assertTrue(table.heartbeat(A, token))

    def test_a_system_error_has_its_built_in_class(self):
        table = self.work()
        token = table.claim(A, PAYLOAD, owner="m")
        os.unlink(table.lock_path(A))
        os.mkdir(table.lock_path(A))
        with self.assertRaises(symlease.SymleaseError) as caught:
            table.begin_commit(A, token, commit=MANIFEST)
        self.assertIn(A, str(caught.exception))
        self.assertIsInstance(symlease.errors.error_of(-3, "x", errno.EACCES), PermissionError)
        self.assertIsInstance(symlease.errors.error_of(-3, "x", errno.EACCES),
                              symlease.StorageError)
        self.assertEqual(symlease.errors.error_of(-3, "x", errno.ENOSPC).errno, errno.ENOSPC)

    def test_threads_have_their_own_now(self):
        table = self.work(lease_ttl=1.0)
        ids = [f"{number:064x}" for number in range(64)]

        def claim(some):
            for name in some:
                table.claim(name, PAYLOAD, owner="t", now=float(int(name, 16)))

        threads = [threading.Thread(target=claim, args=(ids[at::8],)) for at in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([(name, record["updated"]) for name, record in table.snapshot_records()],
                         [(name, float(int(name, 16))) for name in ids])

    def test_a_session_is_asked_for(self):
        for session, freed in ((False, False), (True, True)):
            with self.subTest(session=session):
                root = self.root + str(session)
                code = ("import sys; sys.path.insert(0, sys.argv[1]); import os, signal\n"
                        "from symlease import FencedWorkLeaseTable\n"
                        "table = FencedWorkLeaseTable(sys.argv[2], shard_count=4, "
                        f"lease_ttl=600.0, session={session})\n"
                        "assert table.claim('%s', {}, owner='child')\n"
                        "os.kill(os.getpid(), signal.SIGKILL)\n" % A)
                done = subprocess.run([sys.executable, "-c", code, os.path.dirname(HERE), root],
                                      check=False)
                self.assertEqual(done.returncode, -9)
                with FencedWorkLeaseTable(root, shard_count=4, lease_ttl=600.0) as table:
                    token = table.claim(A, PAYLOAD, owner="m")
                self.assertEqual(token is not None, freed)

    def test_the_directory_is_proven_where_asked(self):
        report = self.work(verify_filesystem=True).filesystem_capabilities
        self.assertIn("exclusion across processes", report["proven"])
        self.assertIsNone(self.work().filesystem_capabilities)
        with self.assertRaisesRegex(ValueError, "probe timeout"):
            self.work(verify_filesystem=True, filesystem_probe_timeout=float("inf"))


class Targets(Scratch):
    def test_groups_are_had_whole_or_not_at_all(self):
        first, second = self.targets(), self.targets()
        token = first.claim_group((11, 22, 11, 0, -5, "x"), PAYLOAD, owner="a", now=100.0)
        self.assertIsNotNone(token)
        self.assertIsNone(second.claim_group((22, 33), PAYLOAD, owner="b", now=105.0))
        self.assertFalse(os.path.exists(second.record_path(second.target_id(33))))
        self.assertEqual(first.snapshot_counts(now=105.0)["leased"], 2)
        self.assertTrue(first.heartbeat_group((22, 11), token, now=109.0))
        self.assertIsNone(second.claim_group((22, 33), PAYLOAD, owner="b", now=118.5))
        other = second.claim_group((22, 33), PAYLOAD, owner="b", now=119.0)
        self.assertIsNotNone(other)
        self.assertFalse(first.heartbeat_group((11, 22), token, now=120.0))
        self.assertFalse(first.release_group((11, 22), token))
        self.assertTrue(second.release_group((22, 33), other))
        self.assertIsNotNone(first.claim_group((22, 33), PAYLOAD, owner="a", now=121.0))

    def test_more_than_64_are_the_first_64(self):
        table = self.targets()
        self.assertEqual(len(table.normalize_targets(range(100))), 64)
        token = table.claim_group(range(1, 100), PAYLOAD, owner="a", now=1.0)
        self.assertEqual(table.snapshot_counts(now=1.0)["leased"], 64)
        self.assertTrue(table.release_group(range(1, 100), token))
        self.assertIsNone(table.claim_group((0,), PAYLOAD, owner="a"))
        self.assertFalse(table.heartbeat_group((), token))

    def test_a_damaged_member_refuses_the_group(self):
        table = self.targets()
        self.damage(table.record_path(table.target_id(101)))
        self.assertIsNone(table.claim_group((100, 101), PAYLOAD, owner="a", now=1.0))
        self.assertIn(table.target_id(101), table.last_error)
        self.assertFalse(table.heartbeat_group((101,), "t", now=1.0))
        self.assertFalse(os.path.exists(table.record_path(table.target_id(100))))

    def test_nothing_is_published_of_what_cannot_be_json(self):
        table = self.targets()
        with self.assertRaises(TypeError):
            table.claim_group((1, 2), {"object": object()}, owner="a")
        with self.assertRaisesRegex(ValueError, "timestamp must be finite"):
            table.claim_group((1, 2), {}, owner="a", now=float("nan"))
        self.assertEqual(table.snapshot_records(), [])


def _write(root, rank, results):
    table = CoverageOwnerShardGossip(root, shard_count=8, coordinator_id=f"writer-{rank}",
                                     coordinator_index=rank, coordinator_count=8)
    results.put(table.claim([(index, 1 << rank) for index in range(256)]))


class Coverage(Scratch):
    def test_each_bit_is_credited_once_in_order(self):
        table = self.coverage()
        dense = bytearray(300)
        dense[7], dense[299] = 3, 128
        self.assertEqual(table.claim_many([[(7, 1)], dense, bytes(dense), [(9, 255)]]),
                         [1, 2, 0, 8])
        self.assertEqual(table.claim([(9, 255)]), 0)
        self.assertEqual(table.pull(), [(7, 3), (9, 255), (299, 128)])
        self.assertEqual(table.pull(), [])
        counts = table.snapshot()
        self.assertEqual((counts["claims"], counts["claim_batches"], counts["claimed_features"],
                          counts["duplicate_features"], counts["known_bytes"]),
                         (5, 2, 11, 12, 3))
        self.assertEqual(table.claim_many([]), [])

    def test_pulls_of_some_shards_keep_the_rest(self):
        table, other = self.coverage(), self.coverage(coordinator_id="other")
        other.claim([(0, 1), (1, 2), (2, 4)])
        table.claim([(1, 1), (3, 1)])
        self.assertEqual(table.pull_recent_claims(), [(1, 3), (3, 1)])
        self.assertEqual(table.pull_recent_claims(), [])
        self.assertEqual(table.pull([0]), [(0, 1)])
        self.assertEqual(table.pull(), [(2, 4)])

    def test_owners_are_those_that_live(self):
        first = self.coverage(coordinator_id="a", coordinator_index=0, coordinator_count=2)
        second = self.coverage(coordinator_id="b", coordinator_index=1, coordinator_count=2)
        first.heartbeat(now=1000.0)
        second.heartbeat(now=1000.0)
        self.assertEqual(first.owner_for_shard(0, now=1001.0), (0, "a"))
        self.assertEqual(first.owner_for_shard(1, now=1001.0), (1, "b"))
        self.assertEqual(first.owner_for_shard(1, now=1031.0), (0, "a"))

    def test_what_cannot_be_right_is_named(self):
        table = self.coverage()
        for bad in ([(0, 0)], [(0, 256)], [(-1, 1)], [(1 << 23, 1)], [(1, 1), (1, 2)], [(1,)],
                    [(True, 1)], "text", None, bytes((1 << 23) + 1)):
            with self.assertRaises(ValueError):
                table.claim(bad)
        for bad in ("0", [8], [-1], [1.0], 5):
            with self.assertRaises(ValueError):
                table.pull(bad)
        for bad in ({"shard_count": 0}, {"shard_count": 4097}, {"coordinator_index": 1},
                    {"coordinator_id": ""}, {"heartbeat_ttl": float("nan")}):
            with self.assertRaises(ValueError):
                self.coverage(**bad)
        with self.assertRaisesRegex(ValueError, "coverage timestamp"):
            table.claim([(1, 1)], now=-1.0)
        self.assertEqual(table.pull(), [])

    def test_a_damaged_shard_is_an_error_and_stays(self):
        table = self.coverage()
        table.claim([(1, 1)])
        (path,) = glob.glob(os.path.join(self.root, "state", "0001.json"))
        self.damage(path)
        with self.assertRaises(symlease.CorruptRecord):
            table.claim([(1, 2)])
        with self.assertRaises(symlease.CorruptRecord):
            self.coverage(coordinator_id="new").pull()

    def test_eight_processes_lose_nothing(self):
        context = multiprocessing.get_context("fork")
        results = context.Queue()
        writers = [context.Process(target=_write, args=(self.root, rank, results))
                   for rank in range(8)]
        for writer in writers:
            writer.start()
        novel = [results.get(timeout=60) for _ in writers]
        for writer in writers:
            writer.join(60)
            self.assertEqual(writer.exitcode, 0)
        self.assertEqual(sum(novel), 2048)
        self.assertEqual(self.coverage().pull(), [(index, 255) for index in range(256)])


if __name__ == "__main__":
    unittest.main()
