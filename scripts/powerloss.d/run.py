#!/usr/bin/env python3
"""Cuts the power of user-mode Linux guests while they change a campaign, boots
them again and compares the disk with every answer that was told outside.

Every wait has a deadline, and what was started is ended, however this ends."""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import claims
import judge
import uml

SIZES = {"ext4": "96M", "xfs": "320M"}
FRESH = 10  # cuts after which a disk is replaced by a new one
WORKERS = 4
UP = 120.0  # seconds until a guest must have come to a mark
LONGEST = 8.0  # seconds that workers run at most
KINDS = (
    "claim", "heartbeat", "heartbeat_many", "abandon", "begin_commit", "complete", "commit", "group_claim",
    "group_heartbeat", "group_release", "merge", "merge_many", "replay", "replay_commits",
)
CONTROLS = {
    "process": ({"DURABILITY": "process"}, "a campaign that promises nothing against power loss"),
    "all": ({"NO_SYNC": "all"}, "no sync does anything"),
    "files": ({"NO_SYNC": "files"}, "a sync of a file does nothing"),
    "directories": ({"NO_SYNC": "directories"}, "a sync of a directory does nothing"),
    "disk": ({"DISK": "lies"}, "a disk that forgets what it was told to flush"),
}
# What a control must lead to: a loss that the comparison saw, or a damaged file system.
SHOWN = ("found: ", "recovered: ", "the guest says: failed: the file system itself")
guests, printing, stop = set(), threading.Lock(), threading.Event()


def say(text):
    with printing:
        print(text, flush=True)


class Disk:
    """One image, all its boots, and what was told in them."""

    def __init__(self, options, place, file_system, settings):
        self.options, self.place, self.file_system = options, place, file_system
        self.settings = {"DURABILITY": "power", **settings}
        self.out = place / "out"
        self.out.mkdir(parents=True)
        self.image, self.before = self.out / "disk.img", place / "cut.img"
        self.boot = self.volatile = 0
        self.told = None
        subprocess.run(["truncate", "-s", SIZES[file_system], self.image], check=True, timeout=30)
        force = {"ext4": ["-F"], "xfs": ["-f"]}[file_system]
        subprocess.run([f"mkfs.{file_system}", "-q", *force, self.image], check=True, timeout=60)

    def write_cache(self, dice, last):
        """What is preloaded under the guest, so that its disk has a write cache that
        forgets: not in every boot, and not where only the check runs. The guest then
        uses its image by a loop device: its own driver, ubd, passes no flush on."""
        disk = self.settings.get("DISK") or dice.choice(("plain", "volatile", "volatile"))
        if disk == "plain" or last or "NO_SYNC" in self.settings:
            return None
        self.volatile += 1
        preload = {
            "LD_PRELOAD": f"{self.options.programs}/volatile_disk.so", "VOLATILE_DISK": str(self.image),
            "VOLATILE_SEED": str(dice.getrandbits(60)),
        }
        return preload | ({"VOLATILE_LIES": "1"} if disk == "lies" else {})

    def start(self, last, lag, cache):
        self.boot += 1
        copy(self.image, self.before)
        preload = ""
        if "NO_SYNC" in self.settings:
            preload = f"LD_PRELOAD={self.options.programs}/no_sync.so NO_SYNC={self.settings['NO_SYNC']}"
        values = {
            "BOOT": f"{self.boot:04}", "FILE_SYSTEM": self.file_system, "SEED": self.options.seed,
            "GUEST": self.options.programs / "guest", "WORKERS": WORKERS, "LAG": lag, "PRELOAD": preload,
            "DURABILITY": self.settings["DURABILITY"], "STOP": "yes" if last else "no",
            "DEVICE": "/dev/loop0" if cache else "/dev/ubda",
        }
        (self.out / "boot.env").write_text("".join(f"{key}='{value}'\n" for key, value in values.items()))
        guest = uml.Guest(self.options.init, self.image, self.out, f"{self.boot:04}", cache)
        guests.add(guest)
        return guest

    def run(self, dice, kind, last=False):
        """One boot, from power on to power off; the faults that it found."""
        faults = []
        guest = self.start(last, dice.choice((0, 0, 20)), self.write_cache(dice, last))
        try:
            if kind == "boot" and not last:
                guest.wait("up", UP)
                time.sleep(dice.uniform(0.0, 1.5))
            else:
                guest.wait("stopped" if last else "working", UP)
                self.let_work(dice, kind, last)
        except uml.Broken as error:
            faults.append(str(error))
        finally:
            guest.cut()
            guests.discard(guest)
        return faults[:1] if stop.is_set() else self.judged(guest.reached()) + faults

    def let_work(self, dice, kind, last):
        if last:
            return
        if kind == "time":
            time.sleep(dice.uniform(0.0, 1.5))
            return
        wanted, deadline = dice.randint(300, 30000), time.monotonic() + LONGEST
        while self.told_bytes() < wanted and time.monotonic() < deadline:
            time.sleep(0.0005)
        # At once after a line, or a moment later, in the middle of the next calls.
        time.sleep(dice.choice((0.0, dice.uniform(0.0, 0.01))))

    def told_bytes(self):
        return sum(path.stat().st_size for path in self.out.glob(f"{self.boot:04}.b*.log"))

    def judged(self, reached):
        logs = sorted(self.out.glob("*.log"))
        earlier = [path for path in logs if int(path.name[:4]) < self.boot]
        recovery = [path for path in logs if path.name == f"{self.boot:04}.recover.log"]
        faults = []
        for mark, paths in (("found", earlier), ("recovered", earlier + recovery)):
            if mark not in reached:
                continue
            told = claims.Told()
            told.read(paths)
            disk = judge.Disk(self.out / f"{self.boot:04}.{mark}.tar")
            found = judge.Judge(told, disk, mark == "recovered").faults
            if mark == "recovered":
                found += judge.counted(recovery[0], disk)
            faults += [f"{mark}: {fault}" for fault in found]
            (self.out / f"{self.boot:04}.{mark}.tar").unlink()
        self.told = claims.Told()
        self.told.read(logs)
        return faults


def copy(image, to):
    subprocess.run(["cp", "--sparse=always", "--reflink=auto", image, to], check=True, timeout=120)


def keep(disk, faults):
    """Moves what shows the fault to where it stays: the disk as the power cut left it."""
    place = disk.options.keep / f"{disk.file_system}-{disk.options.seed}-{int(time.time())}"
    place.mkdir(parents=True)
    shutil.copytree(disk.out, place / "out", ignore=shutil.ignore_patterns("uml", "disk.img", f"{disk.boot:04}.*"))
    copy(disk.before, place / "cut.img")
    case = {"file_system": disk.file_system, "boot": disk.boot, "settings": disk.settings, "faults": faults}
    (place / "case.json").write_text(json.dumps(case, indent=1))
    return place


def failed(disk, faults, command):
    place = keep(disk, faults)
    lines = [f"{disk.file_system}: FAIL, {len(faults)} faults"] + [f"    {fault}" for fault in faults[:12]]
    lines += [
        f"    the disk as the cut left it, and all that was told: {place}",
        f"    look again:  scripts/powerloss --again {place}",
        f"    same plan:   {command}",
    ]
    say("\n".join(lines))


class Campaign(threading.Thread):
    """Many cuts of one file system."""

    def __init__(self, options, place, file_system):
        super().__init__(name=file_system, daemon=True)
        self.options, self.place, self.file_system = options, place, file_system
        self.passed, self.error = False, None
        self.cuts = self.answers = self.cut_calls = self.volatile = 0
        self.calls = dict.fromkeys(KINDS, 0)

    def run(self):
        try:
            self.passed = self.play()
            for control in self.options.control if self.passed else ():
                self.passed = self.control(control) and self.passed
        except Exception as error:  # shown by the main thread, which exits with it
            self.passed, self.error = False, error

    def dice(self, *what):
        return random.Random("/".join(str(part) for part in (self.options.seed, self.file_system, *what)))

    def play(self):
        disk = None
        for cycle in range(self.options.cycles):
            if stop.is_set():
                return False
            if disk is None:
                disk = Disk(self.options, self.place / f"{self.file_system}-{cycle}", self.file_system, {})
            dice = self.dice(cycle)
            kind = dice.choices(("answers", "time", "boot"), (6, 2, 2))[0]
            if not self.cycle(disk, dice, cycle, kind):
                return False
            if (cycle + 1) % FRESH == 0 or cycle + 1 == self.options.cycles:
                faults = disk.run(dice, "answers", last=True)
                if not self.accept(disk, faults):
                    return False
                self.add(disk)
                disk = None
        return self.summary()

    def cycle(self, disk, dice, cycle, kind):
        faults = disk.run(dice, kind)
        self.cuts += 1
        if not self.accept(disk, faults):
            return False
        total = sum(disk.told.calls.values())
        say(f"{self.file_system:<5} cut {cycle + 1:>4} ({kind:<7})  boot {disk.boot:>2} of its disk, "
            f"{total:>5} answers of OK so far, {disk.told.open:>3} calls cut short")
        return True

    def accept(self, disk, faults):
        if faults and not stop.is_set():
            o = self.options
            failed(disk, faults, f"scripts/powerloss --cycles {o.cycles} --file-system {self.file_system} --seed {o.seed}")
        return not faults

    def add(self, disk):
        for call, number in disk.told.calls.items():
            self.calls[call] += number
        self.answers = sum(self.calls.values())
        self.cut_calls += disk.told.open
        self.volatile += disk.volatile
        shutil.rmtree(disk.place)

    def summary(self):
        kinds = ", ".join(f"{call} {number:,}" for call, number in self.calls.items())
        say(f"{self.file_system}: {self.cuts} power cuts ({self.volatile} of a disk with a volatile write cache), "
            f"{self.answers:,} answers of OK, none lost; {self.cut_calls} calls cut short\n    {kinds}")
        missing = [call for call, number in self.calls.items() if not number]
        if self.cuts >= 20 and missing or self.cuts and not self.answers:
            say(f"{self.file_system}: FAIL, never answered OK: {', '.join(missing)}")
            return False
        return True

    def control(self, name):
        """The same without a guard: the check must see the loss."""
        settings, what = CONTROLS[name]
        disk = Disk(self.options, self.place / f"{self.file_system}-{name}", self.file_system, settings)
        dice = self.dice("control", name)
        for cut in range(1, self.options.control_cuts + 1):
            faults = disk.run(dice, "answers", last=False)
            if stop.is_set():
                return False
            # A guest that is only too slow has shown nothing.
            shown = [fault for fault in faults if fault.startswith(SHOWN)]
            if faults and not shown:
                raise uml.Broken(f"control {name}: {faults[0]}")
            if shown:
                say(f"{self.file_system}: control: {what}: caught after cut {cut - 1}, {len(shown)} faults, as\n"
                    f"    {shown[0]}")
                shutil.rmtree(disk.place)
                return True
        say(f"{self.file_system}: FAIL, control: {what}: {cut} cuts, and nothing was missed")
        return False


def again(options, place):
    """Boots a kept disk and checks it once more."""
    kept = pathlib.Path(options.again)
    case = json.loads((kept / "case.json").read_text())
    disk = Disk(options, place / "again", case["file_system"], case["settings"])
    shutil.copytree(kept / "out", disk.out, dirs_exist_ok=True)
    copy(kept / "cut.img", disk.image)
    disk.boot = case["boot"] - 1
    faults = disk.run(random.Random(0), "answers", last=True)
    for fault in faults[:40]:
        say(f"    {fault}")
    say(f"{case['file_system']}: {len(faults)} faults; when it was kept: {len(case['faults'])}")
    return 1 if faults else 0


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--file-system", choices=sorted(SIZES), action="append")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--control", choices=sorted(CONTROLS), action="append", default=[])
    parser.add_argument("--control-cuts", type=int, default=10)
    parser.add_argument("--again")
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--init", type=pathlib.Path, required=True)
    parser.add_argument("--keep", type=pathlib.Path, required=True)
    return parser.parse_args()


def end_all(*_):
    stop.set()
    for guest in list(guests):
        os.killpg(guest.process.pid, signal.SIGKILL)
    raise SystemExit(1)


def main():
    options = arguments()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end_all)
    with tempfile.TemporaryDirectory(prefix="symlease-powerloss-", dir=uml.room_in_memory(4 << 30)) as name:
        place = pathlib.Path(name)
        try:
            uml.try_out(options.init, place)
        except uml.Unable as error:
            say(f"POWER LOSS WAS NOT TRIED: no user-mode Linux guest runs here: {error}")
            return 3
        if options.again:
            return again(options, place)
        say(f"seed {options.seed}")
        campaigns = [Campaign(options, place, one) for one in options.file_system or sorted(SIZES)]
        for campaign in campaigns:
            campaign.start()
        while any(campaign.is_alive() for campaign in campaigns):
            time.sleep(0.1)
        for campaign in campaigns:
            if campaign.error:
                say(f"{campaign.file_system}: could not go on: {campaign.error!r}")
        passed = all(campaign.passed for campaign in campaigns)
        say("power loss: " + ("PASS" if passed else "FAIL"))
        return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
