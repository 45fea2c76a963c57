#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A journal that is larger than memory: a peer of one language writes it to a disk, then a peer of each language reads
and compares all of it. Each peer has a memory limit of its own, which also counts the pages of files that it touches,
so most of the journal is on the disk alone when it is read. The limit needs a control group, and so root: without one
the peers run without a limit, and the end says so.

    larger.py [--bytes 2147483648] [--memory 67108864] [--writer LANGUAGE]... [--reader LANGUAGE]... [--folder DIR]
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import time

from driver import ROOT, Peer, PeerFailed, Refused, commands

V1 = pathlib.Path("/sys/fs/cgroup/memory")
V2 = pathlib.Path("/sys/fs/cgroup")
STREAM = {"seed": 7, "min": 44_950, "max": 45_050, "numbered": True}  # few lengths: Python's peer keeps a table of each
MEAN = 45_032  # bytes of a record of this stream, on average
IN_MEMORY = {"tmpfs", "ramfs"}


class NoLimit(Exception):
    """The kernel, or the rights of this user, give no memory limit."""


class Limit:
    """A control group with a memory limit."""

    def __init__(self, name, size):
        old = (V1 / "memory.limit_in_bytes").exists()
        self.folder = (V1 if old else V2) / f"flyring-{os.getpid()}-{name}"
        try:
            if not old and "memory" not in (V2 / "cgroup.subtree_control").read_text().split():
                (V2 / "cgroup.subtree_control").write_text("+memory")
            self.folder.mkdir()
            (self.folder / ("memory.limit_in_bytes" if old else "memory.max")).write_text(str(size))
        except OSError as e:
            self.remove()
            raise NoLimit(f"{e.filename or self.folder}: {e.strerror}") from e
        self.peak = self.folder / ("memory.max_usage_in_bytes" if old else "memory.peak")

    @classmethod
    def fault(cls):
        """Returns why no limit can be set; empty if it can."""
        try:
            cls("trial", 1 << 26).remove()
        except NoLimit as e:
            return str(e)
        return ""

    def command(self, argv):
        """Returns the command that runs `argv` in this group."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs"), *argv]

    def used(self):
        try:
            return int(self.peak.read_text())
        except OSError:
            return 0

    def remove(self):
        for _ in range(100):
            try:
                self.folder.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.02)  # the process has just ended


@contextlib.contextmanager
def limited(language, size, folder, logs):
    """A peer with a memory limit; without one if `size` is 0."""
    limit = Limit(language, size) if size else None
    argv = commands()[language]
    try:
        peer = Peer(language, limit.command(argv) if limit else argv, logs, folder)
        try:
            yield peer, limit
        except BaseException:
            peer.kill()
            raise
        peer.quit()
    finally:
        if limit:
            limit.remove()


def file_system_of(folder):
    """Returns the type of the file system that holds a folder."""
    best, kind = "", ""
    with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
        for line in mounts:
            words = line.split()
            at = words[4]
            if (str(folder) + "/").startswith(at.rstrip("/") + "/") and len(at) >= len(best):
                best, kind = at, words[words.index("-") + 1]
    return kind


def patience(arguments):
    """Seconds that a stream may take. The peer in Python compares 30 MB a second on a machine that is free."""
    return 600 + arguments.bytes // 10**7


def write(language, count, arguments, folder, logs):
    begin = time.monotonic()
    with limited(language, arguments.memory, folder, logs) as (peer, limit):
        peer.call("create", journal="j", name="large", segment_size=1 << 24, any_file_system=True)
        peer.call("writer", journal="j", writer="w")
        limits = {"seconds": patience(arguments), "within": patience(arguments) + 300}
        done = peer.call("append_stream", writer="w", count=count, **limits, **STREAM)
        peer.call("close", writer="w", sync=True, within=600)
        return done, limit.used() if limit else 0, time.monotonic() - begin


def forget_pages(folder):
    """Drops the pages of all files in a folder from the page cache, whichever group they are charged to."""
    for path in folder.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(language, count, arguments, folder, logs):
    begin = time.monotonic()
    with limited(language, arguments.memory, folder, logs) as (peer, limit):
        peer.call("open", journal="j", name="large", any_file_system=True)
        peer.call("reader", journal="j", reader="r")
        limits = {"seconds": patience(arguments), "within": patience(arguments) + 300}
        done = peer.call("read_stream", reader="r", count=count, **limits, **STREAM)
        return done, limit.used() if limit else 0, time.monotonic() - begin


def trial(language, readers, arguments, folder, logs):
    """Writes and reads one journal. Yields (what, fault or "", figures)."""
    count = arguments.bytes // MEAN
    try:
        done, used, took = write(language, count, arguments, folder, logs)
    except (PeerFailed, Refused) as e:
        yield f"{language} writes", str(e), ""
        return
    size = sum(file.stat().st_size for file in (folder / "large.journal").iterdir())
    fault = f"{done['count']} of {count} messages" if done["count"] != count else ""
    if size < arguments.bytes * 0.95:
        fault = f"the journal has only {size} bytes"
    yield f"{language} writes", fault, f"{size / 2**20:.0f} MiB with {used / 2**20:.0f} MiB of memory, {took:.1f} s"
    for reader in readers:
        forget_pages(folder / "large.journal")
        try:
            done, used, took = read(reader, count, arguments, folder, logs)
            right = done["verified"] and done["count"] == done["number"] == count and done["lost"] == 0
            yield (
                f"{reader} reads what {language} wrote",
                "" if right else str(done),
                f"{used / 2**20:.0f} MiB, {took:.1f} s",
            )
        except (PeerFailed, Refused) as e:
            yield f"{reader} reads what {language} wrote", str(e), ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=1 << 31)
    parser.add_argument("--memory", type=int, default=1 << 26)
    parser.add_argument("--writer", action="append", choices=commands())
    parser.add_argument("--reader", action="append", choices=commands())
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    logs = ROOT / "build" / "log" / "larger"
    logs.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="flyring-larger-", dir=arguments.folder)).resolve()
    passed = failed = 0
    try:
        if (kind := file_system_of(folder)) in IN_MEMORY:
            print(f"skip  the memory limit: {folder} is on {kind}, whose files are memory; give another --folder")
            arguments.memory = 0
        elif why := Limit.fault():
            print(f"skip  the memory limit: {why}; run this as root, where control groups may be made")
            arguments.memory = 0
        for language in arguments.writer or commands():
            for what, fault, figures in trial(language, arguments.reader or commands(), arguments, folder, logs):
                print(f"{'FAIL' if fault else 'ok  '}  {what}: {fault or figures}", flush=True)
                passed, failed = passed + (not fault), failed + bool(fault)
            shutil.rmtree(folder / "large.journal", ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
