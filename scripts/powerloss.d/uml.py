"""A user-mode Linux guest: started, watched, and cut off from its power."""
import os
import pathlib
import shutil
import signal
import subprocess
import time

KERNEL = "linux.uml"
MEMORY = 256 << 20


class Unable(Exception):
    """No guest can run on this machine, and why."""


class Broken(Exception):
    """A guest did not come as far as it must."""


def room_in_memory(need):
    """/dev/shm where it has room: no sync of the guest waits for a real disk."""
    place = pathlib.Path("/dev/shm")
    try:
        return place if shutil.disk_usage(place).free > need else None
    except OSError:
        return None


class Guest:
    """One boot. Its processes are one group, so that one signal ends all."""

    def __init__(self, init, image, out, name, preload=None):
        self.out = out
        self.marks = out / f"{name}.marks"
        self.console = out / f"{name}.console"
        memory = room_in_memory(2 * MEMORY)
        command = [
            KERNEL, "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}",
            f"mem={MEMORY >> 20}M", f"powerloss={out}", f"uml_dir={out}/uml", "con=null",
            "con0=null,fd:1", "quiet",
        ]
        if image and not preload:
            command.append(f"ubda={image}")
        environment = {**os.environ, "TMPDIR": str(memory or out), **(preload or {})}
        with open(self.console, "wb") as console:
            try:
                self.process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=console, stderr=console,
                    start_new_session=True, env=environment)
            except OSError as error:
                raise Unable(f"{KERNEL} does not start: {error}") from error

    def reached(self):
        try:
            return self.marks.read_text().split("\n")[:-1]
        except FileNotFoundError:
            return []

    def wait(self, mark, seconds):
        """Until the guest has said `mark`."""
        deadline = time.monotonic() + seconds
        while True:
            reached = self.reached()
            failed = [line for line in reached if line.startswith("failed")]
            if failed:
                raise Broken(f"the guest says: {failed[0]}")
            if mark in reached:
                return
            if self.process.poll() is not None:
                raise Broken(f"the guest ended ({self.process.returncode}) before it said {mark!r}")
            if time.monotonic() > deadline:
                raise Broken(f"the guest did not say {mark!r} in {seconds} s")
            time.sleep(0.005)

    def cut(self):
        """Takes the power away, and is back only when nothing of the guest runs."""
        group = self.process.pid
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(timeout=30)
        deadline = time.monotonic() + 30
        while True:
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                return
            if time.monotonic() > deadline:
                raise Broken("a process of the guest does not die")
            time.sleep(0.002)


def try_out(init, place):
    """Boots once; raises Unable with the reason where this machine cannot."""
    if not shutil.which(KERNEL):
        raise Unable(f"{KERNEL} (Debian package user-mode-linux) is not installed")
    (place / "boot.env").write_text("BOOT=try\nFILE_SYSTEM=none\n")
    guest = Guest(init, None, place, "try")
    try:
        guest.wait("up", 60)
    except Broken as error:
        said = guest.console.read_text(errors="replace").strip().splitlines()
        raise Unable("; ".join([str(error)] + said[-3:])) from error
    finally:
        guest.cut()
    missing = {"ext4", "xfs"} - set((place / "filesystems").read_text().split())
    if missing:
        raise Unable(f"the guest's kernel does not know {', '.join(sorted(missing))}")
