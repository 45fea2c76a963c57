# SPDX-License-Identifier: Apache-2.0
"""Finds sleepers (channel.md 6.16) from outside: in the words of the channel's file, and in /proc if the peer's process
is in this pid namespace."""

import mmap
import os
import pathlib
import struct
import time

from harness import Wrong

# Offsets in the file (channel.md 4.2, 4.3). Repeated here, because the driver's container has no binding and no spec/.
CAPACITY, PUBLISHERS, RINGS, STRIDE, CONTROL = 72, 76, 136, 144, 4096
WORDS = {"data": CONTROL + 64, "room": CONTROL + 128, "jobs": CONTROL + 192}
PUBLISHED, GATE, MORE_GATES, GATE_STRIDE = 320, 384, 768, 128  # in a ring's trailer, 4.7
SLOTS, SLOT, WAKES = CONTROL + 256, 256, 104
FUTEX_CALLS = {"x86_64": {202, 449}, "aarch64": {98, 449}}.get(os.uname().machine, set())


class TableFile:
    """The words of a table in which sleepers leave a bit (spec/table.md 2.2, 2.3), through its file."""

    DATA_ASLEEP, CELL_ASLEEP = 4096 + 68, 12

    def __init__(self, path):
        with open(path, "r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), 0)
        self.cells, self.stride = (struct.unpack_from("<q", self.bytes, at)[0] for at in (88, 96))
        self.first = struct.unpack_from("<q", self.bytes, 136)[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.bytes.close()

    def forget_sleepers(self, _):
        for at in (self.DATA_ASLEEP, *(self.first + k * self.stride + self.CELL_ASLEEP for k in range(self.cells))):
            struct.pack_into("<I", self.bytes, at, 0)


class File:
    """The words of one channel, read and written through its file."""

    def __init__(self, path):
        with open(path, "r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), 0)
        self.capacity, self.publishers = struct.unpack_from("<ii", self.bytes, CAPACITY)
        self.rings, self.stride = struct.unpack_from("<qq", self.bytes, RINGS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.bytes.close()

    def sequence(self, pair):
        """Returns the number of wakes, modulo 2^32."""
        return struct.unpack_from("<I", self.bytes, WORDS[pair])[0]

    def asleep(self, pair):
        """Returns the mask of the rings for which a process may sleep."""
        return struct.unpack_from("<I", self.bytes, WORDS[pair] + 4)[0]

    def forget_sleepers(self, pair):
        struct.pack_into("<I", self.bytes, WORDS[pair] + 4, 0)

    def _trailer(self, ring, offset):
        return struct.unpack_from("<q", self.bytes, self.rings + ring * self.stride + self.capacity + offset)[0]

    def published(self, ring=0):
        return self._trailer(ring, PUBLISHED)

    def gate(self, slot=0, ring=0):
        return self._trailer(ring, GATE if slot == 0 else MORE_GATES + GATE_STRIDE * (slot - 1))

    def wakes(self, side, slot=0):
        """Returns the word `wakes` of a slot: the epoch of an owner that wakes sleepers."""
        at = SLOTS + SLOT * (slot + (self.publishers if side == "subscriber" else 0))
        return struct.unpack_from("<q", self.bytes, at + WAKES)[0]


class Thread:
    """One thread of a peer."""

    def __init__(self, pid, tid):
        self.pid, self.tid, self.folder = pid, tid, pathlib.Path(f"/proc/{pid}/task/{tid}")

    def state(self):
        """Returns its state (R, S, D, T ...), and how often it has gone to sleep."""
        fields = dict(line.split(":", 1) for line in (self.folder / "status").read_text().splitlines() if ":" in line)
        return fields["State"].split()[0], int(fields["voluntary_ctxt_switches"])

    def switches(self):
        return self.state()[1]

    def in_futex(self):
        """Returns whether it is in a futex call."""
        word = (self.folder / "syscall").read_text().split()[0]
        return word.isdigit() and int(word) in FUTEX_CALLS

    def others_run(self):
        """Returns whether another thread of its process runs, is runnable, or waits for a device."""
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            try:
                state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue  # it has ended
            if state in "RD" and task.name != str(self.tid):
                return True
        return False


def serving(peer, seconds=5):
    """Returns the thread of an idle peer that reads requests; None for a peer in another container."""
    if not hasattr(peer, "process"):
        return None
    late = time.monotonic() + seconds
    while time.monotonic() < late:
        for task in pathlib.Path(f"/proc/{peer.pid}/task").iterdir():
            try:
                if (task / "syscall").read_text().startswith("0 0x0 "):  # read(0, ...)
                    return Thread(peer.pid, int(task.name))
            except OSError:
                pass  # the thread has ended
        time.sleep(0.0005)
    raise Wrong(f"{peer.label}: no thread reads its standard input")


def until_asleep(thread, file, pair, seconds=5):
    """Waits until a process sleeps: the file has the bit, and the thread, if it is visible, is in a futex call."""
    late, state = time.monotonic() + seconds, "not seen"
    while time.monotonic() < late:
        if file.asleep(pair):
            state = thread.state()[0] if thread else "S"
            if state == "S" and (not thread or thread.in_futex()):
                return
        time.sleep(0.0005)
    raise Wrong(f"expected a sleep within {seconds} s; found: thread {state}, {pair}_asleep {file.asleep(pair):#x}")
