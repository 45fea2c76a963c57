# SPDX-License-Identifier: Apache-2.0
"""Processes that die, stop, or lose their descriptors at the worst moment (spec/channel.md 5, 6.7, 6.8). These cases
fail in other libraries. More are in test_slots.py (claims), test_evict.py (evict, join) and test_lossy.py (lapped)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Child, fill
from flyring import Channel, ClosedError, NoFreeSlotError, Subscriber, layout

Start = Callable[..., Child]


def everything(subscriber: Subscriber) -> list[bytes]:
    got: list[bytes] = []
    while subscriber.poll(lambda message: got.append(bytes(message))):
        pass
    return got


CLAIM_AT_THE_END = """
    import os, signal, sys, flyring
    channel = flyring.Channel.open(sys.argv[1])
    publisher, left, length = channel.publisher("owner"), int(sys.argv[2]), int(sys.argv[3])
    sent = 0
    while publisher.position < 8192 or publisher.position % 4096 != 4096 - left:
        assert publisher.send(b"%04d" % sent, timeout=10)
        sent += 1
    claim = publisher.claim(length, timeout=10)
    claim[:] = b"\\xff" * length
    print(sent, publisher.position, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("alignment", [64, 8])
@pytest.mark.parametrize("left", [64, 128, 512])
@pytest.mark.parametrize("length", [0, 56, 120, 1000])
def test_a_dead_claim_at_the_rings_end(child: Start, alignment: int, left: int, length: int) -> None:
    with Channel.create("end", "broadcast", capacity=4096, publishers=1, alignment=alignment) as channel:
        subscriber, got = channel.subscriber(), []
        victim = child(CLAIM_AT_THE_END, channel.path, str(left), str(length))
        while victim.process.poll() is None:
            got += everything(subscriber)
        assert victim.process.returncode == -signal.SIGKILL
        sent, position = map(int, victim.line().split())
        assert position == 3 * 4096 - (0 if length + 8 > left else left)  # at the ring's end, or before it
        assert got + everything(subscriber) == [b"%04d" % i for i in range(sent)]
        with channel.publisher("owner") as heir:
            assert heir.epoch == 2
            for i in range(200):
                assert heir.offer(b"heir %d" % i)
                assert everything(subscriber) == [b"heir %d" % i]


STOPPED_IN_A_CLAIM = """
    import os, signal, sys, flyring
    channel = flyring.Channel.open(sys.argv[1])
    publisher = channel.publisher("slow")
    claim = publisher.claim(8)
    claim[:] = b"finally!"
    print("claimed", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
    claim.commit()
    print("committed", flush=True)
    sys.stdin.read()
"""


def test_a_slow_claimer_is_never_declared_dead(child: Start) -> None:
    with Channel.create("slow", "broadcast", capacity=4096, publishers=1) as channel:
        subscriber = channel.subscriber()
        claimer = child(STOPPED_IN_A_CLAIM, channel.path)
        assert claimer.line() == "claimed"
        stopped(claimer)
        for name in ("", "slow", "other"):
            with pytest.raises(NoFreeSlotError):
                channel.publisher(name)
        assert subscriber.take(timeout=0.2) is None
        claimer.process.send_signal(signal.SIGCONT)
        assert claimer.line() == "committed"
        assert subscriber.take() == b"finally!"


def stopped(one: Child) -> None:
    give_up = time.monotonic() + 10
    while Path(f"/proc/{one.process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < give_up
        time.sleep(0.001)


DIES_IN_A_BATCH = """
    import mmap, os, signal, sys, tempfile, flyring
    channel = flyring.Channel.open(sys.argv[1])
    publisher, bad = channel.publisher("p"), int(sys.argv[2])
    publisher.offer(b"before")
    with tempfile.TemporaryFile() as file:
        file.truncate(4096)
        lost = mmap.mmap(file.fileno(), 4096)
        file.truncate(0)  # reading the mapping is SIGBUS now: the process dies while it copies this message
    batch = [b"batch %d" % i for i in range(8)]
    batch[bad] = memoryview(lost)[:10]
    print("now", flush=True)
    publisher.offer_batch(batch)
"""


@pytest.mark.parametrize("bad", range(8))
def test_a_batch_cut_by_death_is_not_there_at_all(child: Start, bad: int) -> None:
    with Channel.create("cut", "broadcast", capacity=4096, publishers=1) as channel:
        subscriber = channel.subscriber()
        victim = child(DIES_IN_A_BATCH, channel.path, str(bad))
        assert victim.line() == "now"
        assert victim.process.wait() == -signal.SIGBUS
        memory, data = channel._attached.memory, channel.header.ring(0)
        written = [memory.load32(data + at) for at in range(192, 192 + 7 * 64, 64)]
        assert sum(length > 0 for length in written) == (bad or 7)  # records 2, 3, ... come first
        assert everything(subscriber) == [b"before"]
        with channel.publisher("p") as heir:
            heir.offer(b"after")
            assert everything(subscriber) == [b"after"]
            assert memory.load64(channel.header.trailer(0) + layout.TRAILER_MESSAGES_DONE) == 2


def test_no_subscriber_for_many_laps_then_one() -> None:
    with Channel.create("laps", "broadcast", capacity=4096, publishers=1) as channel, channel.publisher() as publisher:
        for i in range(5000):
            assert publisher.offer(b"%d" % i)
        assert publisher.position > 50 * 4096
        with channel.subscriber() as subscriber:
            assert everything(subscriber) == []
            sent = fill(publisher)
            assert sent > 40  # there is a whole ring of room
            assert everything(subscriber) == [b"%08d" % i for i in range(sent)]


def test_an_unreaped_zombie_owns_nothing(child: Start) -> None:
    code = """
        import os, sys, flyring
        channel = flyring.Channel.open(sys.argv[1])
        publisher, subscriber = channel.publisher("p"), channel.subscriber()
        publisher.offer(b"x")
        print("ready", flush=True)
        sys.stdin.read()
    """
    with Channel.create("zombie", "broadcast", capacity=4096, publishers=2, subscribers=1) as channel:
        victim, publisher = child(code, channel.path), channel.publisher("q")
        assert victim.line() == "ready"
        fill(publisher)
        os.kill(victim.process.pid, signal.SIGKILL)  # without waiting for its death
        give_up = time.monotonic() + 10
        while Path(f"/proc/{victim.process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < give_up
        assert publisher.send(b"12345678", timeout=5)
        with channel.publisher("p") as heir, channel.subscriber() as subscriber:
            assert (heir.ring, subscriber.slot) == (0 if publisher.ring else 1, 0)
        assert Path(f"/proc/{victim.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


CLOSEFROM = """
    import os, sys, flyring
    channel = flyring.Channel.open(sys.argv[1])
    publisher, subscriber = channel.publisher("p"), channel.subscriber("s", kept=True)
    publisher.offer(b"before")
    os.closerange(3, 1000)
    others = [open("/dev/zero", "r+b") for _ in range(20)]  # have the numbers now
    print("closed", flush=True)
    sys.stdin.readline()
    for attempt in (lambda: publisher.offer(b"x"), subscriber.take, channel.publisher, channel.subscriber,
                    lambda: channel.evict(0), lambda: channel.counters().allocate("n")):
        try:
            print(attempt(), flush=True)
        except flyring.FlyringError as error:
            print(error.code, flush=True)
    channel.close()
    closed = 0
    for other in others:
        try:
            os.fstat(other.fileno())
        except OSError:
            closed += 1
    print(closed, flush=True)
    os._exit(0)
"""


def test_closefrom_in_a_live_owner_loses_its_slots_and_damages_nothing(child: Start) -> None:
    with Channel.create("closefrom", "broadcast", capacity=4096, publishers=1, subscribers=1) as channel:
        victim = child(CLOSEFROM, channel.path)
        assert victim.line() == "closed"
        with channel.publisher("p") as heir, channel.subscriber("s") as subscriber:  # its locks are released
            assert subscriber.take() == b"before"
            heir.offer(b"heir")
            before = Path(channel.path).read_bytes()
            victim.say()
            assert [victim.line() for _ in range(6)] == ["slot-lost", "slot-lost", *["closed"] * 4]
            assert victim.line() == "0"  # it did not close the files that have its descriptor numbers now
            assert victim.process.wait() == 0
            assert Path(channel.path).read_bytes() == before
            assert subscriber.take() == b"heir"


READER = """
    import sys, flyring
    channel = flyring.Channel.open(sys.argv[1])
    subscriber = channel.subscriber()
    print(subscriber.slot, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("readers", [1, 3])
@pytest.mark.long
def test_a_spinning_publisher_gets_on_after_its_readers_were_killed(child: Start, readers: int) -> None:
    with Channel.create("spin", "broadcast", capacity=4096, publishers=2, subscribers=4) as channel:
        publisher, header = channel.publisher(), channel.header
        other = channel.publisher()
        probe = other._lock  # any description but those of the victims
        for _ in range(5):
            victims = [child(READER, channel.path) for _ in range(readers)]
            slots = [int(victim.line()) for victim in victims]
            fill(publisher)
            for _ in range(1000):
                assert publisher.offer(bytes(100)) is None
            for victim in victims:
                os.kill(victim.process.pid, signal.SIGKILL)
            while any(probe.is_locked(header.subscriber_slot(slot)) for slot in slots):
                assert publisher.offer(bytes(100)) is None or not probe.is_locked(header.subscriber_slot(slots[0]))
            # The locks are free, so a test for dead readers is due after 1 ms in any case.
            offers, end = 1, time.perf_counter_ns() + 1_000_000
            while publisher.offer(bytes(100)) is None:
                offers += time.perf_counter_ns() >= end  # counts the offers after the millisecond
                assert offers <= 2
            assert [channel._attached.memory.load64(header.gate(0, slot)) for slot in slots] == [-1] * readers


def test_a_spinning_publisher_gets_on_with_the_first_offer_after_1_ms(child: Start) -> None:
    """An offer that begins 1 ms after the dead reader's lock is free must test for dead readers (6.2, 4)."""
    waits: list[float] = []
    channels = [Channel.create(f"wait-{i}", "broadcast", capacity=4096, subscribers=1) for i in range(5)]
    victims = [child(READER, channel.path) for channel in channels]
    for channel, victim in zip(channels, victims, strict=True):
        slot = int(victim.line())
        with channel, channel.publisher() as publisher, channel.publisher() as other:
            probe, at = other._lock, channel.header.subscriber_slot(slot)
            fill(publisher)
            victim.process.kill()
            free, begin = 0, time.perf_counter_ns()  # free: when the lock was first seen free
            while publisher.offer(bytes(500)) is None:
                assert not free or begin - free < 1_000_000
                if not free and not probe.is_locked(at):
                    free = time.perf_counter_ns()
                begin = time.perf_counter_ns()
            waits.append((time.perf_counter_ns() - free) / 1e6 if free else 0)
    print(f"{len(waits)} deaths: median {sorted(waits)[len(waits) // 2]:.2f} ms, longest {max(waits):.2f} ms")


PUBLISHER = """
    import sys, flyring
    channel = flyring.Channel.open(sys.argv[1])
    publisher = channel.publisher()
    print("ready", flush=True)
    i = 0
    while True:
        batch = [b"%d" % (i + k) for k in range(i % 5)]
        if batch:
            i += publisher.offer_batch(batch)
        i += publisher.offer(b"%d" % i) is not None
"""


@pytest.mark.parametrize("leave", ["close", "evict", "kept"])
def test_a_subscriber_that_joins_and_leaves_at_full_speed_sees_a_gapless_suffix(child: Start, leave: str) -> None:
    with Channel.create("suffix", "broadcast", capacity=4096, publishers=1) as channel:
        other = child(PUBLISHER, channel.path)
        assert other.line() == "ready"
        memory, published = channel._attached.memory, channel.header.trailer(0) + layout.TRAILER_PUBLISHED
        moved = total = turn = 0
        last, give_up = -1, time.monotonic() + 300  # a busy machine may rarely run both at the same time
        while turn < 60 or (min(moved / 10, total / 5000) < 1 and time.monotonic() < give_up):
            before = memory.load64(published)
            subscriber = channel.subscriber("s", kept=leave == "kept" and turn % 3 != 0)
            moved += before < subscriber.position(0)
            got: list[int] = []
            while len(got) < 1 + turn % 150:
                message = subscriber.take(timeout=10)
                assert message is not None
                got.append(int(bytes(message)))
            assert got == list(range(got[0], got[0] + len(got)))
            if leave == "kept" and subscriber.kept and turn % 3 == 2:
                assert got[0] == last + 1  # a kept subscriber continues at its position
            else:
                assert got[0] > last
            last, total = got[-1], total + len(got)
            if leave == "evict":
                channel.evict(subscriber.slot)
            if leave == "kept" and turn % 3 == 2:
                subscriber.forget()
            subscriber.close()
            turn += 1
        assert moved >= 10  # the publisher went on during the joins
        assert total >= 5000
        other.kill()


def test_a_closed_channel_says_so_after_closefrom() -> None:
    channel = Channel.create("closed", "broadcast")
    os.close(channel._attached.file.fileno())
    with pytest.raises(ClosedError, match="descriptor"):
        channel.publisher()
    channel.close()
