# SPDX-License-Identifier: Apache-2.0
"""The workers of tables in the SIGKILL torture (interop-tests/torture/WORKER.md): putters and lookers."""

from __future__ import annotations

import contextlib
import enum
import os
import struct
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import flyring
from flyring._core import crc32c
from flyring_torture_worker import AnyWorker, Kind, Phase

Change = enum.IntEnum("Change", "PUT IF_ABSENT COMPARE REMOVE CLEAR GROW")
How = enum.IntEnum("How", "GET WALK SNAPSHOT HELD_SNAPSHOT LEFT_SNAPSHOT")
KEYS: Final = 20
VALUE: Final = struct.Struct("<IIqq")  # checksum of the rest, length, key, number


class Seen(NamedTuple):
    key: int = -1
    number: int = -1  # -1: absent
    version: int = 0
    fault: int = 0  # 1: torn, 2: busy


def create_table(orders: dict[str, str]) -> None:
    key: Any = orders["key"]
    capacity, value_bytes = int(orders["capacity"]), int(orders["value_bytes"])
    checked = orders["checked"] == "1"
    flyring.Table.create(
        orders["channel"], key=key, capacity=capacity, value_bytes=value_bytes, checked=checked
    ).close()


def what_of(key: int, value: bytes, version: int) -> Seen:
    """What a value says."""
    if len(value) < VALUE.size:
        return Seen(key, 0, version, 1)
    checksum, length, of, number = VALUE.unpack_from(value)
    right = length == len(value) and of == key and checksum == crc32c(value[4:])
    return Seen(key, number, version, 0 if right else 1)


class TableWorker(AnyWorker):
    def __init__(self, orders: dict[str, str]) -> None:
        super().__init__(orders)
        self.table = flyring.Table.open(orders["channel"])
        self.text = self.table.key_type == "text"
        self.next = int(orders["seed"]) << 24  # the number of the next value

    def key(self, key: int) -> str | int:
        return f"key {key}" if self.text else key

    def look(self, key: int) -> Seen:
        try:
            found = self.table.get_versioned(self.key(key))
        except flyring.BusyError:
            return Seen(key, 0, 0, 2)
        return Seen(key) if found is None else what_of(key, found[0], found[1])

    def note(self, seen: Seen, begin: int, end: int, how: How) -> None:
        self.side.log(Kind.SAW, *seen, begin, end, how)

    def walk_of(self, table: flyring.Table, how: How, begin: int, end: int, stamp: int, size: int) -> None:
        """Logs all keys of a table by iteration, and those that it has not met."""
        found = [what_of(int(key[4:]) if self.text else key, value, 0) for key, value in table.items()]
        end = end or time.monotonic_ns()
        found += [Seen(key) for key in set(range(KEYS)) - {seen.key for seen in found}]
        for seen in found:
            if how in (How.SNAPSHOT, How.HELD_SNAPSHOT) and seen.number >= 0:
                versioned = table.get_versioned(self.key(seen.key))
                seen = seen._replace(version=versioned[1] if versioned else 0)
            self.note(seen, begin, end, how)
        self.side.log(Kind.WALKED, how, len(found), begin, end, stamp, size)

    def copy_path(self) -> str:
        return f"{self.orders['channel']}.{self.orders['name']}.table"

    def copy(self, make: Callable[[str], int], how: How) -> None:
        """Makes a copy and opens it."""
        self.enter(Phase.COPYING, 2)
        begin = time.monotonic_ns()
        size = make(self.copy_path())
        end = time.monotonic_ns()
        self.linger(2)
        with flyring.Table.open(self.copy_path(), read_only=self.below(2) == 0) as copied:
            self.walk_of(copied, how, begin, end, copied.version, size)
        self.side.phase(Phase.WORKING)

    def left_copy(self) -> None:
        """Looks at the copy that a process of this name has left, which may have been killed in the next one."""
        if os.path.exists(self.copy_path()):
            with flyring.Table.open(self.copy_path()) as copied:
                self.walk_of(copied, How.LEFT_SNAPSHOT, 0, time.monotonic_ns(), copied.version, 0)

    def be_idle(self) -> None:
        self.side.phase(Phase.IDLE)
        self.side.nap(self.random.random() * 4e-3)


class Putter(TableWorker):
    """Changes a table."""

    last = 0  # the version of its last put

    def run(self) -> None:
        self.left_copy()
        while not (self.side.stopped() or self.side.full()):
            if self.below(2) == 0:
                self.hold()
            else:
                timeout = (0, 0.02, 2)[self.below(3)]
                for _ in range(self.below(60)):
                    if self.side.stopped() or self.side.full():
                        break
                    if self.below(20) == 0:
                        self.be_idle()
                    self.some(self.table, timeout=timeout)
            self.be_idle()
        self.table.close()

    def hold(self) -> None:
        side, asked = self.side, time.monotonic_ns()
        self.enter(Phase.SEATING, 2)
        try:
            writer = self.table.writer(self.orders["name"], timeout=self.random.random() * 0.2)
        except flyring.NoFreeSlotError:
            side.phase(Phase.WORKING)
            return
        self.linger(2)
        side.log(Kind.SEATED, 0, writer.epoch, time.monotonic_ns(), asked)
        for _ in range(self.below(300)):
            if side.stopped() or side.full():
                break
            if self.below(20) == 0:
                self.be_idle()
            if self.below(200) == 0:
                self.copy(writer.snapshot, How.HELD_SNAPSHOT)
            else:
                self.some(writer)
        leaves = time.monotonic_ns()
        self.enter(Phase.LEAVING, 2)
        writer.close()
        self.linger(2)
        side.log(Kind.LEFT, 0, 0, 0, leaves)
        side.phase(Phase.WORKING)

    def change(
        self, what: Change, phase: Phase, key: int, number: int, expected: int, make: Callable[[], int | None]
    ) -> None:
        """A change, logged before and after it. Its result is -1 if it was not made."""
        side = self.side
        side.log(Kind.BEGUN, what, key, number, expected, 0, time.monotonic_ns())
        self.enter(phase, 2 if what in (Change.CLEAR, Change.GROW) else 200)
        result = -1
        if what == Change.PUT and self.fault("lost"):
            result = self.last + 2
        else:
            try:
                made = make()
                result = 1 if made is None else int(made)
            except (flyring.NoFreeSlotError, flyring.NoSpaceError):
                pass
            except flyring.InvalidArgumentError:
                if what != Change.GROW:  # another process has made the table larger
                    raise
        self.linger()
        side.log(Kind.CHANGED, result, time.monotonic_ns())
        if what <= Change.COMPARE and result > 0:
            self.last = result
        side.phase(Phase.WORKING)

    def value_of(self, key: int, longest: int) -> bytes:
        length = VALUE.size + self.below(longest - VALUE.size + 1)
        filling = (self.next & 0xFF).to_bytes(1, "little") * (length - VALUE.size)
        value = bytearray(VALUE.pack(0, length, key, self.next) + filling)
        value[:4] = crc32c(value[4:]).to_bytes(4, "little")
        if self.fault("torn"):
            value[VALUE.size - 1] ^= 1
        return bytes(value)

    def some(self, verbs: Any, **timeout: float) -> None:
        """One change, by a writer or by the table."""
        number, dice = self.below(KEYS), self.below(400)
        key = self.key(number)
        if dice < 2:
            self.change(Change.CLEAR, Phase.CLEARING, -1, 0, 0, lambda: verbs.clear(**timeout))
        elif dice < 4 and not self.text:
            capacity = self.table.capacity + 1
            self.change(Change.GROW, Phase.GROWING, -1, 0, 0, lambda: verbs.grow(capacity, **timeout))
        elif dice < 120:
            self.change(Change.REMOVE, Phase.REMOVING, number, 0, 0, lambda: verbs.remove(key, **timeout))
        else:
            seen = Seen()
            if dice < 200:
                begin = time.monotonic_ns()
                seen = self.look(number)
                self.note(seen, begin, time.monotonic_ns(), How.GET)
            value = self.value_of(number, 500 if self.text else 200)
            self.next += 1
            if dice < 200 and seen.fault == 0:
                what, phase, expected = Change.COMPARE, Phase.COMPARING, seen.version
                make = lambda: verbs.compare_and_put(key, expected, value, **timeout)  # noqa: E731
            elif dice < 240:
                what, phase, expected = Change.IF_ABSENT, Phase.COMPARING, 0
                make = lambda: verbs.put_if_absent(key, value, **timeout)  # noqa: E731
            else:
                what, phase, expected = Change.PUT, Phase.PUTTING, 0
                make = lambda: verbs.put(key, value, **timeout)  # noqa: E731
            self.change(what, phase, number, self.next - 1, expected, make)


class Looker(TableWorker):
    """Reads a table."""

    def run(self) -> None:
        self.before: dict[int, Seen] = {}
        self.left_copy()
        while not self.side.full():
            if self.side.stopped():  # after this look, nothing is changed
                for key in range(KEYS):
                    self.get_one(key)
                self.walk_one()
                break
            dice = self.below(300)
            if dice == 0:
                self.copy(self.table.snapshot, How.SNAPSHOT)
            elif dice < 10:
                self.walk_one()
            elif dice < 16:
                self.sleep()
            else:
                self.get_one(self.below(KEYS))
            if self.below(20) == 0:
                self.be_idle()
        self.table.close()

    def get_one(self, key: int) -> None:
        self.side.phase(Phase.LOOKING)
        begin = time.monotonic_ns()
        seen = self.look(key)
        if seen.fault == 0 and self.below(4) == 0:
            seen = self.in_place(key)
        end = time.monotonic_ns()
        self.linger()
        if self.fault("stale", 50) and key in self.before:
            seen = self.before[key]
        if self.fault("blind", 50):
            seen = Seen(key)
        if seen.version:
            self.before.setdefault(key, seen)
        self.note(seen, begin, end, How.GET)
        self.side.phase(Phase.WORKING)

    def in_place(self, key: int) -> Seen:
        try:
            found = self.table.read(self.key(key), lambda value: what_of(key, bytes(value), 0))
        except flyring.BusyError:
            return Seen(key, 0, 0, 2)
        return Seen(key) if found is None else found

    def walk_one(self) -> None:
        self.enter(Phase.WALKING, 2)
        begin = time.monotonic_ns()
        with contextlib.suppress(flyring.BusyError):
            self.walk_of(self.table, How.WALK, begin, 0, self.table.version, 0)
        self.side.phase(Phase.WORKING)

    def sleep(self) -> None:
        any_key = self.below(3) == 0
        key = -1 if any_key else self.below(KEYS)
        seen = Seen() if any_key else self.look(key)
        if seen.fault:
            return
        before = self.table.version if any_key else seen.version
        timeout = 0.02 if self.below(2) == 0 else 0.4
        self.side.phase(Phase.SLEEPING)
        begin, result = time.monotonic_ns(), -1
        try:
            if any_key:
                result = self.table.wait_changed(before, timeout=timeout)
            else:
                result = self.table.wait_changed(self.key(key), before, timeout=timeout)
        except (flyring.TimedOutError, flyring.BusyError):
            pass
        if self.fault("deaf", 1):
            self.side.nap(0.6)
        self.side.log(Kind.SLEPT, key, before, result, begin, time.monotonic_ns())
        self.side.phase(Phase.WORKING)
