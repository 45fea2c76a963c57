# SPDX-License-Identifier: Apache-2.0
"""Interrupts at any instruction leave slots, locks, descriptors and mappings as before the operation, or as after it.
Objects from before a closefrom do not damage later ones (spec/channel.md 5.1)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import flyring
from conftest import in_child
from flyring import (
    Channel,
    ClosedError,
    FlyringError,
    InvalidArgumentError,
    Journal,
    TwoThreadsError,
    ViewAliveError,
    layout,
)
from flyring.system import control_lock, new_lock

SHAPE: Any = {"kind": "broadcast", "capacity": 4096, "publishers": 2, "subscribers": 2, "counters": 64}
PACKAGE = os.path.dirname(flyring.__file__)


class Interrupted(KeyboardInterrupt):
    pass


class At:
    """Raises an exception at the n-th executed instruction of this package."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, frame: FrameType, event: str, argument: object) -> At | None:
        if not frame.f_code.co_filename.startswith(PACKAGE) or frame.f_code.co_name == "__del__":
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.n -= 1
            if self.n == 0:
                raise Interrupted
        return self


def interrupted(operation: Callable[[], object], n: int) -> bool:
    """Runs an operation. Returns whether it was interrupted before its end."""
    sys._getframe().f_trace_opcodes = True  # Python 3.12.1 traces instructions only if settrace finds this on a frame
    sys.settrace(At(n))
    try:
        operation()
    except Interrupted:
        return True
    finally:
        sys.settrace(None)
    return False


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def mappings(path: str) -> int:
    return sum(path in line for line in Path("/proc/self/maps").read_text().splitlines())


def open_close() -> None:
    Channel.open("target").close()


def take_publisher() -> None:
    with Channel.open("target") as channel, channel.publisher("p") as publisher:
        publisher.offer(b"x")


def take_subscriber() -> None:
    with Channel.open("target") as channel, channel.subscriber() as subscriber:
        subscriber.take()


def keep_and_forget() -> None:
    with Channel.open("target") as channel:
        channel.subscriber("kept", kept=True).forget()


def evict_subscriber() -> None:
    with Channel.open("target") as channel:
        channel.evict(1)


def count() -> None:
    with Channel.open("target") as channel:
        channel.counters().allocate("n").free()


def replace() -> None:
    Channel.replace("target", **SHAPE).close()


def wait_in_vain() -> None:
    with Channel.open("target") as channel, channel.publisher("p") as publisher, channel.subscriber() as subscriber:
        subscriber.take(timeout=0.0001)
        publisher.offer(b"x")
        with contextlib.suppress(flyring.TimedOutError):
            publisher.flush(0.0001)
        with contextlib.suppress(flyring.BackPressuredError):
            while True:
                publisher.send(bytes(900), timeout=0.0001)
        waits = flyring.WaitSet()
        waits.add(publisher)
        waits.wait(0.0001)


def wait_for_a_slot() -> None:
    with Channel.wait_for("target", 1) as channel, channel.subscriber(), channel.subscriber():
        with contextlib.suppress(flyring.NoFreeSlotError):
            channel.subscriber(timeout=0.001)
        with contextlib.suppress(flyring.TimedOutError):
            Channel.wait_for("missing", 0.0001)


def wait_in_a_loop() -> None:
    async def main() -> None:
        with Channel.open("target") as channel, channel.publisher("p") as publisher, channel.subscriber() as subscriber:
            await subscriber.receive(0.0001)
            await publisher.send_async(b"x")
            await subscriber.receive()

    asyncio.run(main())


STEP = 397  # try an interrupt at every so many instructions

OPERATIONS = [open_close, take_publisher, take_subscriber, keep_and_forget, evict_subscriber, count, replace]
OPERATIONS += [wait_in_vain, wait_for_a_slot, wait_in_a_loop]


@pytest.fixture
def quick_collections() -> Iterator[None]:
    """Excludes pytest's and imported objects from garbage collections, which otherwise take most of the time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.usefixtures("quick_collections")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_instruction_leaves_nothing_behind(operation: Callable[[], None], folder: Path) -> None:
    with Channel.create("target", **SHAPE) as channel:
        operation()
        gc.collect()
        before = descriptors(), mappings(channel.path)
        n, done = 1, 0
        while interrupted(operation, n):
            gc.collect()
            assert (descriptors(), mappings(channel.path)) == before, n
            assert os.listdir(folder) == ["target.ring"], n
            with Channel.open("target") as other:  # works at once, so no lock is held
                other.publisher("p").close()
                with other.publisher() as publisher, other.publisher(), other.subscriber() as subscriber:
                    assert publisher.offer(b"still works")
                    assert subscriber.take() == b"still works"
            done += 1
            n += STEP
        assert done >= 3


def test_an_object_of_an_earlier_life_unlocks_nothing_of_the_next_one() -> None:
    """After closefrom, a new lock gets the same descriptor number for the same file."""

    def work() -> None:
        warnings.simplefilter("ignore")
        channel = Channel.open("life")
        old, reader = channel.publisher("p"), channel.subscriber("s", kept=True)
        os.closerange(3, 1000)
        again = Channel.open("life")
        new, heir = again.publisher("p"), again.subscriber("s", kept=True)
        assert (new.epoch, heir.epoch) == (2, 2)
        with pytest.raises(FlyringError):
            old.offer(b"x")
        with pytest.raises(FlyringError):
            reader.take()
        old.close()
        reader.close()
        channel.close()
        del old, reader, channel
        gc.collect()
        code = """
            import flyring, sys
            channel = flyring.Channel.open("life")
            for take in (lambda: channel.publisher("p"), lambda: channel.subscriber("s", kept=True)):
                try:
                    take()
                    sys.exit("the slot was unlocked")
                except flyring.NoFreeSlotError:
                    pass
        """
        assert subprocess.run([sys.executable, "-c", textwrap.dedent(code)]).returncode == 0
        assert new.offer(b"mine")
        assert heir.take() == b"mine"

    with Channel.create("life", "broadcast", capacity=4096, publishers=1, subscribers=1):
        in_child(work)


def test_a_mapping_keeps_no_descriptor(folder: Path) -> None:
    before = descriptors()
    with Channel.create("few", **SHAPE) as channel:
        assert descriptors() == before + 1
        with channel.publisher(), channel.subscriber():
            assert descriptors() == before + 3
    assert descriptors() == before


def test_python_code_between_check_and_use_is_harmless() -> None:
    channel = Channel.create("evil", **SHAPE)
    counter, memory = channel.counters().allocate("n"), channel._attached.memory

    class Index:
        def __index__(self) -> int:
            channel.close()
            return 5

    with pytest.raises(ClosedError):
        counter.set(Index())  # type: ignore[arg-type]
    with pytest.raises(ClosedError):
        memory.store64(Index(), 5)  # type: ignore[arg-type]


def test_a_channel_that_cannot_be_closed_now_closes_nothing() -> None:
    with Channel.create("all", **SHAPE) as channel:
        publisher, other, subscriber = channel.publisher(), channel.publisher(), channel.subscriber()
        claim = publisher.claim(8)
        view = claim.data
        with pytest.raises(ViewAliveError):
            channel.close()
        assert not any(one.closed for one in (channel, publisher, other, subscriber))
        assert other.offer(b"goes on")
        view.release()
        seen: list[type[FlyringError]] = []

        def handler(message: object) -> None:
            with pytest.raises(FlyringError) as caught:
                channel.close()
            seen.append(type(caught.value))

        assert subscriber.poll(handler) == 1
        assert seen == [ViewAliveError]
        assert not publisher.closed
        claim.abort()


def test_other_threads_run_while_a_large_message_is_copied() -> None:
    with Channel.create("large", "broadcast", capacity=1 << 25, publishers=1, subscribers=1, counters=0) as channel:
        publisher, body = channel.publisher(), bytes((1 << 23) - 8)
        refused: list[type[FlyringError]] = []
        started, ended = threading.Event(), threading.Event()

        def close() -> None:
            started.wait()
            while not ended.is_set():
                try:
                    channel.publisher("other").close()
                except FlyringError as error:
                    if "slot" not in str(error):
                        refused.append(type(error))
                try:
                    publisher.claim(1).abort()
                except TwoThreadsError as error:
                    refused.append(type(error))
                except FlyringError:
                    pass
                time.sleep(0)

        thread = threading.Thread(target=close)
        thread.start()
        started.set()
        deadline = time.monotonic() + 20  # a busy machine may not run the other thread for long
        while TwoThreadsError not in refused and time.monotonic() < deadline:
            publisher.offer(body)
        ended.set()
        thread.join()
        assert TwoThreadsError in refused


@pytest.mark.parametrize(("kind", "way"), [("subscriber", "take"), ("lossy", "take"), ("lossy", "poll")])
def test_other_threads_run_while_a_large_message_is_read(kind: str, way: str) -> None:
    """Other threads run, but their calls on the same object are refused. (A subscriber's poll copies nothing.)"""
    with Channel.create("large", "broadcast", capacity=1 << 25, publishers=1, subscribers=1, counters=0) as channel:
        publisher, body = channel.publisher(), bytes((1 << 23) - 8)
        reader = channel.subscriber() if kind == "subscriber" else channel.lossy_subscriber()
        refused: list[TwoThreadsError] = []
        ended = threading.Event()

        def disturb() -> None:
            while not ended.is_set():
                try:
                    reader.poll(print, 0)
                except InvalidArgumentError:
                    time.sleep(0)
                except TwoThreadsError as error:
                    refused.append(error)

        thread = threading.Thread(target=disturb)
        thread.start()
        read: list[int] = []
        deadline = time.monotonic() + 20  # a busy machine may not run the other thread for long
        while not refused and time.monotonic() < deadline:
            publisher.offer(body)
            if way == "take":
                message = reader.take()
                assert message is not None
                read.append(len(message))
                del message
            else:
                reader.poll(lambda message: read.append(len(message)))
        ended.set()
        thread.join()
        assert read == [len(body)] * len(read)
        assert refused


@pytest.fixture
def slots(folder: Path) -> Iterator[Channel]:
    with Channel.create("slots", **SHAPE) as channel:
        yield channel


def test_evict_frees_publishers_at_once_also_in_the_middle_of_a_poll(slots: Channel) -> None:
    publisher, subscriber = slots.publisher(), slots.subscriber()
    while publisher.offer(bytes(8)):
        pass

    def handler(message: flyring.Message) -> None:
        if message.position == 64:  # the first message, behind the owner record
            slots.evict(subscriber.slot)

    with pytest.raises(flyring.SlotLostError):
        subscriber.poll(handler)
    assert [slots._attached.memory.load64(slots.header.gate(ring, subscriber.slot)) for ring in (0, 1)] == [-1, -1]
    assert publisher.offer(bytes(8))
    assert subscriber.name == ""
    for lost in (subscriber.take, lambda: subscriber.poll(print), subscriber.forget):
        with pytest.raises(flyring.SlotLostError):
            lost()
    subscriber.close()
    publisher.close()


@pytest.mark.parametrize("what", ["subscriber", "consumer"])
def test_forget_while_another_thread_closes(what: str, slots: Channel) -> None:
    """It waits for the control lock, which another process has. The name stays: the close came first."""
    with Journal.create("j", segment_size=65536) as journal:
        owner: Any = slots.subscriber("s", kept=True) if what == "subscriber" else journal.consumer("s")
        files: Any = slots._attached if what == "subscriber" else journal._files
        errors: list[BaseException] = []

        def forget() -> None:
            try:
                owner.forget()
            except BaseException as error:
                errors.append(error)

        other = new_lock(files.file, files.path)
        with control_lock(other, files.path):
            thread = threading.Thread(target=forget)
            thread.start()
            time.sleep(0.05)
            owner.close()
        other.close()
        thread.join()
        assert [type(error) for error in errors] == [ClosedError]
        again = slots.subscriber("s", kept=True) if what == "subscriber" else journal.consumer("s")
        assert again.epoch == owner.epoch + 1
        again.forget()


def test_a_gate_that_an_evicted_owner_stored_late_is_taken_back_by_the_publisher(slots: Channel) -> None:
    publisher, subscriber = slots.publisher(), slots.subscriber()
    while publisher.offer(bytes(8)):
        pass
    memory, gate = slots._attached.memory, slots.header.gate(0, subscriber.slot)
    stale = memory.load64(gate)
    slots.evict(subscriber.slot)
    memory.store64(gate, stale)  # simulates a late store of the victim, which never polls again
    assert publisher.send(bytes(8), timeout=5)
    assert memory.load64(gate) == layout.NOT_GATING
    subscriber.close()
    publisher.close()


def test_a_freed_counter_is_closed_for_every_handle(slots: Channel) -> None:
    counters = slots.counters()
    first = counters.allocate("a")
    second = counters.counter(first.id)
    first.free()
    heir = counters.allocate("b")
    assert heir.id == first.id
    uses: list[Callable[[], object]] = [
        first.free, second.free, first.get, first.get_volatile, lambda: first.set(1), lambda: first.get_and_add(1),
        lambda: second.compare_and_set(0, 1), lambda: second.set_release(1), lambda: second.label,
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(ClosedError, match="freed"):
            use()
    assert counters.find("b") is not None
    assert heir.get() == 0


def test_an_impossible_epoch_starts_again(slots: Channel) -> None:
    at = slots.header.publisher_slot(0)
    for wrong in (-2, -1, 2**62 + 1, 2**63 - 1):
        slots._attached.memory.store64(at, wrong)
        with slots.publisher() as publisher:
            assert (publisher.ring, publisher.epoch) == (0, 1)
            assert publisher.offer(b"x")


def test_no_free_slot_names_the_owners(slots: Channel) -> None:
    with slots.subscriber("a", kept=True), slots.subscriber("b") as other:
        with pytest.raises(flyring.NoFreeSlotError, match=rf"0 by 'a' \(pid {os.getpid()}\), 1 by 'b'") as caught:
            slots.subscriber()
        assert [owner.slot for owner in caught.value.owners] == [0, 1]
        with pytest.raises(flyring.NoFreeSlotError, match=rf"slot 0 \('a'\) is owned by pid {os.getpid()}"):
            slots.subscriber("a", kept=True)
        other.close()
    slots.subscriber("c", kept=True).close()
    with pytest.raises(flyring.NoFreeSlotError, match="kept for 'a', which is not attached"):
        slots.subscriber()
