#!/usr/bin/env python3
"""Plays the campaign: starts the coordinators, kills two, watches the records
all the while, and hands over to the report.

It reads the files on disk alone and shares no code with the library. Every
wait has a deadline, and what was started is ended, however this ends."""
import argparse
import ctypes
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import disk
import report

TTL = 4.0  # seconds a lease lives without a heartbeat
RUN = 30.0  # seconds that the steady coordinator runs
NEWCOMER = 120.0  # seconds that the newcomer may take; it ends when no work is left
PAUSE_WAIT = 20.0  # seconds to wait for a pause point
HOLD = 1.0  # seconds to look at a paused coordinator before it is killed
END_WAIT = 15.0  # seconds beyond its time until a coordinator must have ended
GLANCE = 0.2  # seconds between two looks at the records

PR_SET_CHILD_SUBREAPER = 36


class Failed(Exception):
    """The campaign could not be played to its end."""


class Play:
    def __init__(self, options, place):
        self.options = options
        self.place = place
        self.campaign = place / "campaign"
        self.corpus = place / "corpus"
        self.work = self.campaign / ".work_lease_table"
        self.start_time = time.monotonic()
        self.children = {}
        self.events = []
        self.watcher = disk.Watcher(self.work)
        self.proofs = {}

    def now(self):
        return round(time.monotonic() - self.start_time, 2)

    def note(self, who, what):
        self.events.append({"at": self.now(), "who": who, "what": what})
        print(f"  {self.now():5.1f} s  {who:<10}  {what}", flush=True)

    def start(self, who, seconds, pause=None, once=False):
        o = self.options
        command = [
            o.coordinator,
            "--campaign", self.campaign,
            "--seeds", o.seeds,
            "--corpus", self.corpus,
            "--target", o.target,
            "--solver", f"{shlex.quote(str(o.solver))} --max 1 @@",
            "--solver-kind", "i2s",
            "--jobs", "2",
            "--time", f"{seconds:g}",
            "--ttl", f"{TTL:g}",
            "--durability", "process",  # what SIGKILL asks for; power loss is not played
            "--run-timeout", "2",
            "--owner", who,
            "--summary", self.place / f"{who}.json",
        ]  # fmt: skip
        if once:
            command.append("--once")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("SYMCC_", "SYMLEASE_"))}
        if pause:
            environment[f"SYMLEASE_COORDINATOR_PAUSE_{pause}"] = str(self.place / f"{who}.paused")
        with open(self.place / f"{who}.log", "wb") as log:
            self.children[who] = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        self.note(who, f"starts{', will pause' if pause else ''}")

    def wait(self, seconds, until=lambda: False):
        """Looks at the records until something is true, or the time is over."""
        end = time.monotonic() + seconds
        while not (found := until()) and time.monotonic() < end:
            self.watcher.look()
            time.sleep(min(GLANCE, max(0.0, end - time.monotonic())))
        return found

    def paused(self, who):
        """The work id that a coordinator holds at its pause point."""
        path = self.place / f"{who}.paused"

        def reached():
            if self.children[who].poll() is not None:
                raise Failed(f"{who} ended before its pause point: see {who}.log")
            return path.exists() and path.read_text().endswith("\n") and path.read_text().split()

        found = self.wait(PAUSE_WAIT, reached)
        if not found:
            raise Failed(f"{who} did not reach its pause point in {PAUSE_WAIT:g} s")
        pid, work = found
        if int(pid) != self.children[who].pid:
            raise Failed(f"{who}: pid {pid} paused, {self.children[who].pid} was started")
        return work

    def kill_paused(self, who, expected):
        """Looks at a paused coordinator's record, kills it, looks again."""
        work = self.paused(who)
        record = disk.record_path(self.work, work)
        self.note(who, f"pauses, holding work {work[:8]}")
        first = disk.read(record)
        self.wait(HOLD)
        before = disk.read(record)
        staged = disk.tree(self.campaign / "staging")
        child = self.children[who]
        # Stopped it writes no more, and its session still lives: what is seen
        # now is what it leaves. Once it is dead others take over within
        # milliseconds, faster than anybody can look.
        child.send_signal(signal.SIGSTOP)
        _, stopped = os.waitpid(child.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(stopped):
            raise Failed(f"{who} ended before it was killed: see {who}.log")
        after = disk.read(record)
        left = disk.snapshot(self.campaign)
        child.send_signal(signal.SIGKILL)
        child.wait(timeout=5)
        self.watcher.look()
        self.proofs[who] = {
            "expected": expected,
            "work": work,
            "first": first,
            "before": before,
            "after": after,
            "staged": staged,
            "left": left,
            "killed": time.time(),
        }
        status = (after or {}).get("status", "no record")
        self.note(who, f"killed by SIGKILL; its record says {status}")

    def ended(self, limits):
        """Waits until all of them have ended: {who: seconds from now}."""
        began = time.monotonic()
        open_ = dict(limits)

        def all_ended():
            for who in list(open_):
                code = self.children[who].poll()
                if code is not None:
                    del open_[who]
                    self.note(who, f"ends, exit {code}")
                elif time.monotonic() - began > limits[who] + END_WAIT:
                    raise Failed(f"{who} was still running {END_WAIT:g} s after its time")
            return not open_

        self.wait(max(limits.values()) + 2 * END_WAIT, all_ended)

    def play(self):
        self.campaign.mkdir()
        self.corpus.mkdir()
        self.start("mid-commit", RUN, pause="COMMIT")
        self.start("mid-hold", RUN, pause="HOLD")
        self.start("steady", RUN)
        started = time.monotonic()
        # In this order: who replays the commit within milliseconds of that death
        # then lives to say so.
        self.kill_paused("mid-hold", "leased")
        self.kill_paused("mid-commit", "committing")
        self.start("newcomer", NEWCOMER, once=True)
        self.ended({"steady": RUN - (time.monotonic() - started), "newcomer": NEWCOMER})
        self.watcher.look()

    def end_children(self):
        """Coordinators, and what the killed ones left running."""
        for child in self.children.values():
            if child.poll() is None:
                child.kill()
                child.wait()
        # Orphans come to us (subreaper); theirs come in the next round.
        for _ in range(20):
            mine = disk.children_of(os.getpid())
            if not mine:
                break
            for pid in mine:
                try:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                except (ProcessLookupError, ChildProcessError):
                    pass

    def record(self):
        run = {
            "seconds": self.now(),
            "ttl": TTL,
            "events": self.events,
            "proofs": self.proofs,
            "history": self.watcher.history,
            "glances": self.watcher.looks,
            "exits": {who: child.returncode for who, child in self.children.items()},
            "target": str(self.options.target),
            "seeds": str(self.options.seeds),
        }
        (self.place / "run.json").write_text(json.dumps(run, indent=1))


def terminated(number, _frame):
    raise Failed(f"signal {number}")


def main():
    parser = argparse.ArgumentParser()
    for name in ("coordinator", "target", "solver", "seeds"):
        parser.add_argument(f"--{name}", required=True, type=pathlib.Path)
    parser.add_argument("--directory", type=pathlib.Path)
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, terminated)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    if options.directory:
        options.directory.mkdir(parents=True)
        place = options.directory.resolve()
    else:
        place = pathlib.Path(tempfile.mkdtemp(prefix="symlease-campaign."))
    play = Play(options, place)
    passed = False
    try:
        play.play()
        play.end_children()
        play.record()
        passed = report.report(place)
    except Failed as why:
        print(f"campaign: {why}", file=sys.stderr)
        for who in play.children:
            last = (place / f"{who}.log").read_text(errors="replace").splitlines()[-5:]
            print(*(f"  {who}: {line}" for line in last), sep="\n", file=sys.stderr)
    finally:
        play.end_children()
    if passed and not options.directory:
        shutil.rmtree(place)
    else:
        print(f"everything is kept in {place}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
