#!/usr/bin/env python3
"""Kills, or stops, a real process at every one of its system calls, and checks what is left.

sweep.py PROGRAM [--operation NAME]... [--every N] [--jobs N] [--deep] [--in DIRECTORY]
PROGRAM is built from main.c, operations.c, recover.c. Prints a line of figures for each
operation; every failure prints the command that repeats it. --every N takes each N-th point
only; --deep kills recovery, too, in every distinct state that a death left, not in one.
"""
import argparse
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import expected
from records import TARGET, WORK, Bad, Campaign, need

CALL = re.compile(r"^(\w+)\(")
PATIENCE = 20
# Failures that are printed of each sweep; all are counted.
SHOWN = 5
# A group change of the dead is settled by the next group call (G1), not only by its TTL (H2).
WHOLE_GROUPS = False
# Nothing that these leave is kept by a TTL: what they change names their session (D1).
AT_ONCE = ("first", "claim", "claim-expired", "group-claim", "group-claim-expired")


class Case:
    """One copy of the prepared directory, and the processes that run in it."""

    def __init__(self, sweep, template):
        self.sweep = sweep
        self.place = tempfile.mkdtemp(dir=sweep.place)
        self.home = os.path.join(self.place, "case")
        shutil.copytree(template, self.home, symlinks=True)

    def close(self):
        shutil.rmtree(self.place, ignore_errors=True)

    def command(self, step, operation):
        return [self.sweep.program, self.home, step, operation]

    def run(self, step, operation, prefix=()):
        command = [*prefix, *self.command(step, operation)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        return done.returncode, done.stdout, done.stderr

    def steady(self, step, operation):
        code, out, err = self.run(step, operation)
        need(code == 0 and not err, f"{step}: exit {code}: {err.strip()}")
        return [line.split() for line in out.splitlines()]

    def read(self):
        return Campaign(os.path.join(self.home, "root"))


def values(lines, word):
    return [line[1:] for line in lines if line[0] == word]


def complete_lines(text):
    """A line that was cut by the kill was not said."""
    return [line.split() for line in text.splitlines(keepends=True) if line.endswith("\n")]


def points_of(case, step, operation):
    """All calls behind the mark, as strace counts them: (name, number of that name)."""
    trace = os.path.join(case.place, "trace")
    code, _, err = case.run(step, operation, ("strace", "-o", trace))
    need(code == 0, f"the traced run failed: {err}")
    counts, points, begun = {}, [], False
    with open(trace, encoding="utf-8", errors="replace") as lines:
        for text in lines:
            found = CALL.match(text)
            if not found:
                continue
            name = found.group(1)
            counts[name] = counts.get(name, 0) + 1
            if begun:
                points.append((name, counts[name]))
            begun = begun or text.startswith('write(-1, "begin"')
    need(begun and points, "no mark in the trace")
    return points


def inject(point, what):
    name, when = point
    return ("strace", "-qq", "-e", f"trace={name}", "-e", f"inject={name}:signal={what}:when={when}")


def acknowledged(operation, said, changed):
    """What was answered OK is there (F17, durability against a death)."""
    acts = values(said, "act")
    wanted = {(table, name) for table, name, _ in expected.ids_of(operation)}
    if acts and all(act[0] == "SYMLEASE_OK" for act in acts):
        full = len(acts) == (3 if operation == "first" else 1)
        need(not full or changed == wanted, "answered OK, but records are as before")
        if operation == "first" and len(acts) == 1:
            need(any(table != TARGET for table, _ in changed), "the claim is gone")
    for act in acts:
        need(act[0] == "SYMLEASE_OK", f"act answered {act[0]}")


def recovered(case, operation, before, after, said, first=False):
    """Recovers as another process would; the invariants of the end state. Answers whether
    all was free at once. `first`: nobody but the actor has changed anything so far."""
    lines = case.steady("recover", operation)
    settled = case.read()
    answers = values(lines, "claim") + [["", *group] for group in values(lines, "group")]
    waits = any(answer[1] in ("SYMLEASE_HELD", "SYMLEASE_COMMITTING") for answer in answers)
    refused = [group for group in values(lines, "group") if group[0] == "SYMLEASE_HELD"]
    if WHOLE_GROUPS and first and refused:
        changed = expected.compare(operation, before, settled)
        need(expected.group_is_whole(operation, changed), "a group call left half a group (G1)")
    if waits:
        lines += [["later"], *case.steady("later", operation)]
    good = ("SYMLEASE_OK", "SYMLEASE_DONE")
    last = {answer[0]: answer[1:] for answer in values(lines, "claim")}
    last.update({"group": group for group in values(lines, "group")})
    for what, (status, fence) in last.items():
        need(status in good, f"{what}: {status} after the TTL")
        if status == "SYMLEASE_OK":
            ids = {name for table, name, _ in expected.ids_of(operation)
                   if (table == TARGET) == (what == "group")}
            fences = [after.fences().get(name, 0) for name in ids
                      if what == "group" or name == expected.work_id(what)]
            need(int(fence) > max(fences, default=0), f"{what}: the fence did not rise")
    need(not values(lines, "sweep"), f"replay_commits: {values(lines, 'sweep')}")
    end = case.read()
    need(not end.temporaries, f"temporaries after the sweep (H4): {end.temporaries}")
    need(not end.intents, f"intents after recovery (G1): {end.intents}")
    if operation in expected.MERGES or operation in expected.COMMITS:
        need(not end.transactions, "a transaction after the next merge (C5)")
    taken = any(record.get("commit") == {"taken": 1}
                for _, record in end.leases[WORK].values())
    if not (taken and operation in expected.COMMITS):  # whoever took the work had no maps
        need(end.covered() == expected.final_map(operation), f"the map is {end.covered()} (C4)")
    merged = [int(merge[1]) for merge in values(lines, "merge")]
    if operation in expected.MERGES:
        credited = [int(novel[0]) for novel in values(said, "novel")] + merged
        total, answered = sum(credited), bool(values(said, "novel"))
        most = expected.total_novel(operation)
        need(total <= most and (total == most or not answered), f"credited {credited} of {most} (C4)")
    if operation in expected.COMMITS:
        expected.check_corpus(end.corpus, whole=not taken)
        need(taken or not end.staged, f"still staged: {end.staged}")
    return not waits


def killed(case, operation, step, point, before):
    """One death. Answers the crash state and whether it was free at once; None: not reached."""
    code, out, err = case.run(step, operation, ("env", *inject(point, "KILL")))
    if code == 0:
        return None
    need(code in (-signal.SIGKILL, 128 + signal.SIGKILL), f"exit {code}: {err}")
    said = complete_lines(out) if step == "act" else []
    after = case.read()
    after.check_locks_free()
    state = None
    if step == "act":
        changed = expected.compare(operation, before, after)
        acknowledged(operation, said, changed)
        if operation in expected.MERGES and values(said, "novel"):
            need(after.covered() == expected.final_map(operation), "credited bits are lost")
        half = not expected.group_is_whole(operation, changed)
        if half or after.temporaries or after.transactions or after.intents:
            state = (half, len(changed), len(after.temporaries), len(after.transactions),
                     len(after.intents), len(after.corpus), len(after.staged))
            state += ("half",) if half else ()
    if state and state not in case.sweep.states.setdefault(operation, {}):
        kept = os.path.join(tempfile.mkdtemp(dir=case.sweep.place), "case")
        shutil.copytree(case.home, kept, symlinks=True)
        case.sweep.states[operation][state] = kept
    free = recovered(case, operation, before, after, said, step == "act")
    if step == "act":
        wanted = {(table, name) for table, name, _ in expected.ids_of(operation)}
        known = operation in AT_ONCE or (wanted and changed == wanted)
        need(free or not known, "the session is dead, and its leases are not free at once (D1)")
    return free


def wait_stopped(strace, trace):
    """Until strace tells that its child is stopped; its process id. None: it ended."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if strace.poll() is not None:
            return None
        with open(trace, encoding="utf-8", errors="replace") as lines:
            if "stopped by SIGSTOP" in lines.read():
                with open(f"/proc/{strace.pid}/task/{strace.pid}/children", encoding="ascii") as file:
                    return int(file.read().split()[0])
        time.sleep(0.0005)
    raise Bad("strace never stopped it")


def stopped(case, operation, point, before):
    """F29: stopped at a call, the TTL passes, another takes over and commits, it goes on.
    Answers whether the takeover had to leave something alone."""
    trace, said_path = os.path.join(case.place, "trace"), os.path.join(case.place, "said")
    open(trace, "wb").close()
    prefix = [*inject(point, "STOP"), "-o", trace]
    with open(said_path, "wb") as said_file:
        strace = subprocess.Popen([*prefix, *case.command("act", operation)],
                                  stdout=said_file, stderr=subprocess.PIPE)
    child = None
    try:
        child = wait_stopped(strace, trace)
        if child is None:
            return None
        at_stop = case.read()
        changed = expected.compare(operation, before, at_stop)
        took = case.steady("takeover", operation)
        taken = case.read()
    finally:
        if child is not None:
            os.kill(child, signal.SIGCONT)
        try:
            _, err = strace.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            if child is not None:
                os.kill(child, signal.SIGKILL)
            strace.kill()
            raise
    need(strace.returncode == 0 and not err, f"exit {strace.returncode}: {err}")
    with open(said_path, encoding="utf-8") as file:
        said = complete_lines(file.read())
    after = case.read()
    judge_stopped(operation, changed, took, taken, said, after)
    after.check_locks_free()
    check_credit(operation, said, took)
    said_novel = values(said, "novel") + [merge[1:] for merge in values(took, "merge")]
    recovered(case, operation, before, after, [["novel", *novel] for novel in said_novel])
    answers = values(took, "claim") + [["", *group] for group in values(took, "group")]
    return any(answer[1] != "SYMLEASE_OK" for answer in answers)


def judge_stopped(operation, changed, took, taken, said, after):
    """Who was overtaken changes nothing and is not told OK."""
    overtaken = {expected.work_id(name): status
                 for name, status, _ in values(took, "claim") if status == "SYMLEASE_OK"}
    for status, _ in values(took, "group"):
        if status == "SYMLEASE_OK":
            overtaken.update({name: status for name in expected.GROUP})
    acts = values(said, "act")
    each = values(said, "each")
    for table, name, _ in expected.ids_of(operation):
        if name not in overtaken:
            continue
        need(after.leases[table].get(name) == taken.leases[table].get(name),
             f"{name}: changed by a process that was overtaken (F29)")
        if (table, name) in changed or operation == "first":
            continue
        place = expected.WORK_OF.get(operation, []) if table != TARGET else []
        mine = [entry for number, entry in enumerate(each[0]) if
                expected.work_id(place[number]) == name] if each and place else [
                    group[0] for group in values(said, "group")] if each else acts[0]
        need(mine and mine[0] != "SYMLEASE_OK", f"{name}: overtaken, and told {mine} (F29)")


def check_credit(operation, said, took):
    """C4: both live to read their answers, so every bit is credited exactly once so far."""
    if operation not in expected.MERGES:
        return
    mine = [int(novel[0]) for novel in values(said, "novel")]
    theirs = [int(merge[1]) for merge in values(took, "merge") if merge[0] == "SYMLEASE_OK"]
    need(sum(mine + theirs) == expected.total_novel(operation), f"credited {mine} and {theirs}")


class Sweep:
    """Everything for one program."""

    def __init__(self, arguments):
        self.program = os.path.abspath(arguments.program)
        self.arguments = arguments
        self.place = tempfile.mkdtemp(prefix="symlease-killsweep.", dir=arguments.place)
        self.states, self.failures, self.points = {}, 0, 0
        self.pool = concurrent.futures.ThreadPoolExecutor(arguments.jobs)

    def one(self, template, job, operation, *rest):
        case = Case(self, template)
        try:
            return job(case, operation, *rest)
        finally:
            case.close()

    def all(self, what, template, points, job, operation, *rest):
        """Runs `job` at each point; prints the figures."""
        points = points[:: self.arguments.every]
        futures = {}
        for point in points:
            where = (operation, "act", point) if what == "stop" else (operation, what, point)
            before = (rest[0],)
            call = (where[2],) if what == "stop" else (where[1], where[2])
            futures[self.pool.submit(self.one, template, job, operation, *call, *before)] = point
        reached = positive = failed = 0
        for future in concurrent.futures.as_completed(futures):
            name, when = futures[future]
            try:
                answer = future.result()
                reached += answer is not None
                positive += bool(answer)
            except (Bad, KeyError, subprocess.TimeoutExpired) as error:
                self.failures += 1
                failed += 1
                if failed > SHOWN:
                    continue
                print(f"FAILED {operation} {what} at {name} {when}: {error!r}\n  again: "
                      f"scripts/killsweep --operation {operation} --only {what}:{name}:{when}", flush=True)
        self.points += reached + failed
        note = "left something alone" if what == "stop" else "all free at once"
        print(f"{operation:20} {what:8} {len(points):4} points, {reached:4} reached, {positive:4} {note}",
              flush=True)
        # A call may come once more or less from run to run (memory, start-up), not many.
        if len(points) - reached - failed > 2 + len(points) // 20 and not self.arguments.only:
            self.failures += 1
            print(f"FAILED {operation} {what}: {len(points) - reached - failed} points were not reached")

    def operation(self, operation):
        template = os.path.join(tempfile.mkdtemp(dir=self.place), "case")
        os.makedirs(os.path.join(template, "root"))
        subprocess.run([self.program, template, "prepare", operation], check=True, timeout=PATIENCE)
        before = Campaign(os.path.join(template, "root"))
        only = self.arguments.only and self.arguments.only.split(":")
        points = [(only[1], int(only[2]))] if only else self.one(
            template, lambda case, name: points_of(case, "act", name), operation)
        if not only or only[0] == "act":
            self.all("act", template, points, killed, operation, before)
        if not only or only[0] == "stop":
            self.all("stop", template, points, stopped, operation, before)
        if only:
            return
        kept = sorted(self.states.get(operation, {}).items(), key=str, reverse=True)
        for _, state in kept if self.arguments.deep else kept[:1]:
            points = self.one(state, lambda case, name: points_of(case, "recover", name), operation)
            before = Campaign(os.path.join(state, "root"))
            self.all("recover", state, points, killed, operation, before)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--operation", action="append")
    parser.add_argument("--only", help="act, or stop:CALL:NUMBER, of one operation")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--deep", action="store_true")
    parser.add_argument("--in", dest="place", default="/dev/shm" if os.path.isdir("/dev/shm") else None)
    arguments = parser.parse_args()
    names = subprocess.run([arguments.program, "/", "list"], capture_output=True, text=True, check=True)
    operations = arguments.operation or names.stdout.split()
    sweep = Sweep(arguments)
    begun = time.monotonic()
    try:
        for operation in operations:
            sweep.operation(operation)
    finally:
        sweep.pool.shutdown(cancel_futures=True)
        shutil.rmtree(sweep.place, ignore_errors=True)
    print(f"{len(operations)} operations, {sweep.points} points, {sweep.failures} failures, "
          f"{time.monotonic() - begun:.0f} s")
    return 1 if sweep.failures else 0


if __name__ == "__main__":
    sys.exit(main())
