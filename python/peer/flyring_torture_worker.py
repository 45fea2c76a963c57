# SPDX-License-Identifier: Apache-2.0
"""The common parts of all workers of the SIGKILL torture (interop-tests/torture/WORKER.md): side file, random choices,
naps, faults, and counters."""

from __future__ import annotations

import enum
import mmap
import os
import random
import struct
import time
from typing import Final

import flyring
from flyring._core import crc32c

Phase = enum.IntEnum(
    "Phase",
    "WORKING TAKING RECOVERING OFFERING CLAIMING WRITING COMMITTING ABORTING IN_BATCH HELD_BACK CLOSING "
    "JOINING RESUMING POLLING HANDLING IDLE LEAVING FORGETTING STARTING READING EVICTING COUNTING "
    "SEATING FETCHING FINISHING GIVING_BACK REPLYING CALLING AWAITING "
    "PUTTING REMOVING COMPARING CLEARING GROWING COPYING LOOKING WALKING SLEEPING "
    "APPENDING PUSHING SYNCING TRIMMING",
)
Kind = enum.IntEnum(
    "Kind",
    "TAKEN ACKNOWLEDGED CLOSED DEAD_WAIT HELD JOINED MESSAGE LEFT EVICTED SLOT_LOST LOST COUNTER FIRST "
    "SEATED JOB DONE GIVING GIVEN IDLE REQUEST CALLED ENDED BEGUN CHANGED SAW WALKED SLEPT "
    "APPENDING APPENDED FOLLOWING READ POLLED",
)
HEADER: Final = struct.Struct("<IIqqq")  # checksum of the rest, length, publisher, epoch, sequence
NAP: Final = 20e-6


def run_delay() -> int:
    """Returns how long this thread has waited for a processor, in ns."""
    with open("/proc/thread-self/schedstat", "rb") as file:
        return int(file.read().split()[1])


def moment() -> tuple[int, int]:
    """Returns the time, and how long this thread has waited for a processor until then. Reads both again if the thread
    waited in between."""
    while True:
        delay, now = run_delay(), time.monotonic_ns()
        if run_delay() == delay:
            return now, delay


class Side:
    """The side file, which survives the death of this process."""

    def __init__(self, path: str) -> None:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self.words = memoryview(mmap.mmap(fd, 0)).cast("q")
        os.close(fd)
        self.count, self.room = 0, (len(self.words) - 512) // 8 - 300

    def phase(self, phase: Phase) -> None:
        self.words[0] = phase

    def stopped(self) -> bool:
        return self.words[1] != 0

    def full(self) -> bool:
        return self.count >= self.room

    def attempted(self, count: int) -> None:
        self.words[3] = count

    def counting(self, count: int) -> None:
        self.words[4] = count

    def counted(self, count: int) -> None:
        self.words[5] = count

    def nap(self, seconds: float) -> None:
        self.words[6] = 1
        time.sleep(seconds)
        self.words[6] = 0

    def log(self, *values: int) -> None:
        at = 512 + 8 * self.count
        for i, value in enumerate(values):
            self.words[at + i] = value
        self.count += 1
        self.words[2] = self.count


class AnyWorker:
    """What all workers share, also those of tables."""

    def __init__(self, orders: dict[str, str]) -> None:
        self.orders = orders
        self.side = Side(orders["side"])
        self.random = random.Random(int(orders["seed"]))
        self.faults = 0

    def run(self) -> None:
        raise NotImplementedError

    # Chance

    def below(self, bound: int) -> int:
        return int(self.random.random() * bound)

    def enter(self, phase: Phase, odds: int = 200) -> None:
        """Enters a phase, and sometimes stays in it for a while, so that the driver can kill the process there."""
        self.side.phase(phase)
        self.linger(odds)

    def linger(self, odds: int = 200) -> None:
        if self.below(odds) == 0:
            self.side.nap(self.random.random() * 4e-4)

    def fault(self, name: str, every: int = 20) -> bool:
        if self.orders["fault"] != name:
            return False
        self.faults += 1
        return self.faults % every == 0


class Worker(AnyWorker):
    def __init__(self, orders: dict[str, str]) -> None:
        super().__init__(orders)
        self.channel = flyring.Channel.open(orders["channel"], read_only=orders["role"] == "lossy")
        self.total = self.lost_to_the_machine = 0
        self.own: flyring.Counter | None = None
        self.common: flyring.Counter | None = None

    def run(self) -> None:
        counts = self.orders["role"] in ("publisher", "reliable", "kept")
        if counts:
            self.begin_counting()
        while not (self.side.stopped() or self.side.full()):
            self.session()
        if counts:
            self.end_counting()
        self.channel.close()

    def session(self) -> None:
        raise NotImplementedError

    def spin(self) -> None:
        """Spins for 20 us. A gap in this time is caused by the machine, because this thread does nothing else."""
        last = begin = time.monotonic_ns()
        while last - begin < 20_000:
            now = time.monotonic_ns()
            if now - last > 50_000:
                self.lost_to_the_machine += now - last
            last = now

    # Counters: its own, and one that all workers of the channel increment

    def begin_counting(self) -> None:
        counters = self.channel.counters()
        self.enter(Phase.COUNTING, 2)
        self.own = counters.allocate(f"{self.orders['name']} {os.getpid()}")
        self.linger(2)
        self.side.log(Kind.COUNTER, self.own.id)
        self.side.phase(Phase.WORKING)
        self.common = counters.find("common")

    def count(self, n: int) -> None:
        assert self.own is not None and self.common is not None
        self.total += n
        self.side.counting(self.total)
        self.own.get_and_add(n)
        if self.below(2) == 0:
            self.common.get_and_add(n)
        else:
            while not self.common.compare_and_set(old := self.common.get_volatile(), old + n):
                pass
        self.side.counted(self.total)
        if self.fault("count"):
            self.common.get_and_add(1)

    def end_counting(self) -> None:
        assert self.own is not None
        if self.own.get_volatile() != self.total:
            raise AssertionError(f"its own counter is {self.own.get_volatile()}, not {self.total}")
        self.side.log(Kind.COUNTER, -1)  # logged before the increment, which a kill may prevent
        self.enter(Phase.COUNTING, 2)
        self.own.free()
        self.linger(2)
        self.side.phase(Phase.WORKING)


def publisher_number(name: str) -> int:
    """Returns the publisher's number in messages, made from its name so that readers can compare both."""
    return crc32c(name.encode())
