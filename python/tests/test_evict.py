# SPDX-License-Identifier: Apache-2.0
"""Eviction of subscribers, by an operator or by a publisher with a lag limit (spec/channel.md 6.2, 6.9, 6.11)."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from conftest import Child
from flyring import (
    Channel,
    CorruptRingError,
    InvalidArgumentError,
    Message,
    Publisher,
    SlotLostError,
    Subscriber,
    layout,
)
from flyring.system import control_lock, new_lock


def gates(channel: Channel, slot: int) -> list[int]:
    return [channel._attached.memory.load64(channel.header.gate(ring, slot)) for ring in range(channel.publishers)]


def evicting(channel: Channel, slot: int) -> int:
    at = channel.header.subscriber_slot(slot) + layout.SUBSCRIBER_SLOT_EVICTING
    return channel._attached.memory.load32(at)


def fill(publisher: Publisher, length: int = 100) -> int:
    sent = 0
    while publisher.offer(bytes(length)):
        sent += 1
    return sent


# By an operator


@pytest.mark.parametrize("call", ["take", "poll", "wait"])
def test_an_evicted_subscriber_is_told_and_holds_no_publisher_back(call: str) -> None:
    with Channel.create("victim", "broadcast", capacity=4096, publishers=2) as channel:
        victim, other, publisher = channel.subscriber("v"), channel.subscriber("o"), channel.publisher()
        fill(publisher)
        channel.evict(victim.slot)
        assert (gates(channel, 0), evicting(channel, 0)) == ([-1, -1], 1)
        assert publisher.held_by().slot == other.slot  # type: ignore[union-attr]
        uses: dict[str, Callable[[], Any]] = {
            "take": victim.take,
            "poll": lambda: victim.poll(print),
            "wait": lambda: victim.take(timeout=5),
        }
        for _ in range(2):
            with pytest.raises(SlotLostError) as caught:
                uses[call]()
            assert (caught.value.kind, caught.value.slot) == ("subscriber", 0)
        with channel.subscriber("next") as heir:  # the slot is free at once, although the victim is not closed
            assert (heir.slot, evicting(channel, 0)) == (0, 0)
            assert heir.epoch == victim.epoch + 2
            victim.close()
            while other.take():
                pass
            publisher.offer(b"x")
            assert heir.take() == b"x"


def test_what_an_evicted_subscriber_still_tells() -> None:
    with Channel.create("victim", "broadcast", capacity=4096, publishers=2) as channel:
        victim, publisher = channel.subscriber("v", kept=True), channel.publisher()
        publisher.offer(b"x")
        publisher.offer(b"y")

        def handler(message: Message) -> None:
            channel.evict(victim.slot)
            with pytest.raises(SlotLostError):
                victim.ended(0)
            assert victim.position(0) == message.position + 64

        with pytest.raises(SlotLostError):
            victim.poll(handler)
        assert (gates(channel, 0), evicting(channel, 0)) == ([-1, -1], 1)
        for use in (lambda: victim.ended(0), victim.take, victim.forget):
            with pytest.raises(SlotLostError):
                use()
        for wrong in (lambda: victim.ended(2), lambda: victim.take(-1), lambda: victim.poll(print, 0)):
            with pytest.raises(InvalidArgumentError):
                wrong()
        assert (victim.name, victim.slot, victim.rings, victim.kept) == ("v", 0, (0, 1), True)
        assert (victim.position(0), victim.position(1)) == (192, 64)
        victim.close()


def test_a_gate_that_was_stored_after_the_evict_is_taken_back() -> None:
    with Channel.create("back", "broadcast", capacity=4096, publishers=1) as channel:
        victim, publisher = channel.subscriber(), channel.publisher()
        publisher.offer(b"x")
        stored: list[int] = []

        def handler(message: Message) -> None:
            channel.evict(victim.slot)
            assert gates(channel, 0) == [-1]
            stored.append(message.position)

        with pytest.raises(SlotLostError):  # at the end of the poll that handed the message out (6.9, 5)
            victim.poll(handler)
        assert stored == [64]
        assert (gates(channel, 0), evicting(channel, 0)) == ([-1], 1)
        for _ in range(20):
            assert publisher.offer(bytes(500))


def test_a_handler_that_raises_gets_its_error_out_before_the_loss_is_told() -> None:
    with Channel.create("both", "broadcast", capacity=4096, publishers=1) as channel:
        victim, publisher = channel.subscriber(), channel.publisher()
        publisher.offer(b"x")

        def handler(message: Message) -> None:
            channel.evict(victim.slot)
            raise LookupError

        with pytest.raises(LookupError):
            victim.poll(handler)
        with pytest.raises(SlotLostError):
            victim.take()
        assert gates(channel, 0) == [-1]


def test_an_evicted_reader_never_calls_a_later_lap_corrupt() -> None:
    with Channel.create("later", "broadcast", capacity=4096, publishers=1) as channel:
        victim, publisher = channel.subscriber(), channel.publisher()
        publisher.offer(b"x")
        publisher.offer(b"y")

        def handler(message: Message) -> None:
            channel.evict(victim.slot)
            at = channel.header.ring(0) + 128 % 4096  # simulates the next lap's bytes there
            channel._attached.memory.store32(at, 5)

        with pytest.raises(SlotLostError):
            victim.poll(handler)
        second = channel.subscriber()
        publisher.offer(b"z")
        channel._attached.memory.store32(channel.header.ring(0) + 192, 5)
        with pytest.raises(CorruptRingError):  # without the eviction it is a corrupt ring
            second.take()


def test_a_kept_slot_stays_kept_and_its_next_owner_joins() -> None:
    with Channel.create("kept", "broadcast", capacity=4096, publishers=2) as channel:
        publisher = channel.publisher()
        with channel.subscriber("log", kept=True) as log:
            publisher.offer(b"lost")
            slot = log.slot
        assert gates(channel, slot) == [0, 64]
        channel.evict(slot)  # its owner is away
        assert gates(channel, slot) == [-1, -1]
        publisher.offer(b"lost too")
        with channel.subscriber("log", rings=[0]) as log:  # it joins, so it may choose other rings
            assert (log.slot, log.kept, log.rings) == (slot, True, (0,))
            assert (gates(channel, slot), evicting(channel, slot)) == ([publisher.position, -1], 0)
            publisher.offer(b"next")
            assert log.take() == b"next"
        with channel.subscriber("log") as log:
            assert log.rings == (0,)


def test_a_kept_victim_that_stores_a_gate_afterwards_is_not_resumed_there(child: Callable[..., Child]) -> None:
    code = """
        import os, signal, sys, flyring
        channel = flyring.Channel.open(sys.argv[1])
        log = channel.subscriber("log", kept=True)
        print("joined", flush=True)
        sys.stdin.readline()
        def handler(message):
            channel.evict(log.slot)
            channel._attached.memory.store64(channel.header.gate(0, log.slot), message.position)
            os.kill(os.getpid(), signal.SIGKILL)  # before its poll would have taken the gate back
        log.poll(handler)
    """
    with Channel.create("after", "broadcast", capacity=4096, publishers=1) as channel, channel.publisher() as publisher:
        victim = child(code, channel.path)
        assert victim.line() == "joined"
        publisher.offer(b"x")
        victim.say()
        assert victim.process.wait() == -signal.SIGKILL
        assert (gates(channel, 0), evicting(channel, 0)) == ([64], 1)
        fill(publisher, 1000)
        time.sleep(0.002)
        assert publisher.send(bytes(1000), timeout=5)  # the evicted slot is retired, although it is kept
        with channel.subscriber("log") as log:
            assert (log.position(0), log.kept) == (publisher.position, True)


@pytest.mark.parametrize("slot", [-1, 2, 2**40, "0", None, 0.0])
def test_slots_that_are_not_there(slot: Any) -> None:
    with Channel.create("slots", "broadcast", subscribers=2) as channel:
        with pytest.raises(InvalidArgumentError) as caught:
            channel.evict(slot)
        assert caught.value.argument == "slot"


def test_an_empty_slot_can_be_evicted_and_closed_channels_tell() -> None:
    with Channel.create("empty", "broadcast") as channel:
        channel.evict(0)
        channel.evict(0)
        with channel.subscriber() as subscriber:
            assert (subscriber.slot, subscriber.take()) == (0, None)


# Killed half-way

KILLED_AT_STORE = """
    import dataclasses, os, signal, sys
    import flyring
    from flyring import slots

    class Memory:
        # The channel's memory, until the n-th store: then SIGKILL.
        def __init__(self, memory, n):
            self.memory, self.n = memory, n
        def __getattr__(self, name):
            method = getattr(self.memory, name)
            if not name.startswith(("store", "add", "write")):
                return method
            def counted(*arguments):
                if self.n == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                self.n -= 1
                return method(*arguments)
            return counted

    channel = flyring.Channel.open(sys.argv[1])
    attached = dataclasses.replace(channel._attached, memory=Memory(channel._attached.memory, int(sys.argv[2])))
    eval(sys.argv[3])
    print("done", attached.memory.n, flush=True)
"""


def kill_at_each_store(child: Callable[..., Child], channel: Channel, what: str, check: Callable[[int], None]) -> int:
    """Runs an operation again and again, killed before its n-th store, for all n. Returns how many stores it has."""
    n = 0
    while True:
        one = child(KILLED_AT_STORE, channel.path, str(n), what)
        if one.process.wait() == 0:
            assert one.line() == "done 0"
            check(n)
            return n
        assert one.process.returncode == -signal.SIGKILL
        check(n)
        n += 1


def test_an_evict_cut_off_half_way_and_the_next_owner_of_a_kept_slot(child: Callable[..., Child]) -> None:
    with Channel.create("half", "broadcast", capacity=4096, publishers=3) as channel:
        publisher = channel.publisher("p")
        sent = resumed = joined = 0

        def check(killed_at: int) -> None:
            nonlocal sent, resumed, joined
            with channel.subscriber("log", kept=True) as log:
                got = [bytes(message) for _ in range(5) if (message := log.take())]
                if got:  # it gates all of its rings, or none
                    assert (got, log.rings) == ([b"%d" % sent], (0, 1, 2))
                    resumed += 1
                else:
                    joined += 1
                assert evicting(channel, 0) == 0
                assert gates(channel, 0) == [log.position(ring) for ring in range(3)]
                assert -1 not in gates(channel, 0)
            sent += 1
            publisher.offer(b"%d" % sent)

        channel.subscriber("log", kept=True).close()
        publisher.offer(b"0")
        assert kill_at_each_store(child, channel, "slots.evict(attached, 0)", check) == 5
        assert (resumed, joined) == (2, 4)  # until evicting is 1 the slot is not evicted
        channel.subscriber("log").forget()


@pytest.mark.parametrize("marked", [True, False])
def test_a_kept_slots_join_cut_off_half_way_is_not_resumed(child: Callable[..., Child], marked: bool) -> None:
    with Channel.create("join", "broadcast", capacity=4096, publishers=2) as channel:
        publisher, other = channel.publisher("p"), channel.publisher("q")
        joined = 0

        def check(killed_at: int) -> None:
            nonlocal joined
            publisher.offer(b"after the death")
            with channel.subscriber("log", kept=True) as log:
                assert log.rings == (0, 1)
                assert gates(channel, 0) == [log.position(0), log.position(1)]
                joined += log.take() is None
            nowhere_to_resume()
            other.offer(b"on")

        def nowhere_to_resume() -> None:
            channel.evict(0)
            assert gates(channel, 0) == [-1, -1]
            if not marked:  # without a gate for another reason: a join that found a corrupt ring
                at = channel.header.subscriber_slot(0) + layout.SUBSCRIBER_SLOT_EVICTING
                channel._attached.memory.store32(at, 0)

        channel.subscriber("log", kept=True).close()
        nowhere_to_resume()
        stores = kill_at_each_store(child, channel, 'slots.take_subscriber_slot(attached, "log", True, None)', check)
        assert stores >= 9
        # Only after the last store, evicting := 0, can the next owner resume.
        assert joined == stores


# With a lag limit


@pytest.mark.parametrize("max_lag", [2048, 3000, 4096])
@pytest.mark.parametrize("kept", [False, True])
def test_a_subscriber_beyond_max_lag_is_evicted_and_no_other(max_lag: int, kept: bool) -> None:
    with Channel.create("lag", "broadcast", capacity=4096, publishers=2) as channel:
        slow, quick = channel.subscriber("slow", kept=kept), channel.subscriber("quick")
        publisher = channel.publisher(max_lag=max_lag)
        lag = 0
        for i in range(200):
            if evicting(channel, 0) == 0:
                lag = publisher.position
            assert publisher.offer(b"%05d" % i * 5)
            assert quick.take() == b"%05d" % i * 5
            assert evicting(channel, 1) == 0
        assert max_lag - 512 - 64 - 8 < lag <= max_lag
        with pytest.raises(SlotLostError):
            slow.take()
        assert gates(channel, 0) == [-1, -1]
        with channel.subscriber("slow", kept=kept) as again:
            publisher.offer(b"again")
            assert again.take() == b"again"
        assert quick.take() == b"again"


def test_a_batch_evicts_for_all_of_it() -> None:
    with Channel.create("batch", "broadcast", capacity=4096, publishers=1) as channel:
        slow, publisher = channel.subscriber(), channel.publisher(max_lag=2048)
        while publisher.position + 64 * 4 + 8 <= 2048:
            assert publisher.offer(bytes(10))
        assert evicting(channel, 0) == 0
        assert publisher.offer_batch([bytes(10)] * 16) == 16
        assert evicting(channel, 0) == 1
        with pytest.raises(SlotLostError):
            slow.take()


def test_without_a_limit_no_subscriber_is_evicted() -> None:
    with Channel.create("nolimit", "broadcast", capacity=4096, publishers=1) as channel:
        slow, publisher = channel.subscriber(), channel.publisher()
        sent = fill(publisher)
        time.sleep(0.002)
        assert publisher.offer(bytes(100)) is None
        assert slow.poll(lambda message: None) == sent


def test_while_the_control_lock_is_taken_no_subscriber_is_evicted_for_its_lag() -> None:
    with Channel.create("locked", "broadcast", capacity=4096, publishers=1) as channel:
        slow, publisher = channel.subscriber(), channel.publisher(max_lag=4096)
        lock = new_lock(channel._attached.file, channel.path)
        with control_lock(lock, channel.path):
            sent = fill(publisher)
            time.sleep(0.002)
            assert publisher.offer(bytes(100)) is None
            assert evicting(channel, 0) == 0
        lock.close()
        assert publisher.offer(bytes(100))
        assert evicting(channel, 0) == 1
        assert sent > 0
        slow.close()


def test_a_granted_limit_stays_when_a_later_subscriber_allows_less() -> None:
    with Channel.create("granted", "broadcast", capacity=4096, publishers=1) as channel:
        publisher = channel.publisher(max_lag=2048)
        assert publisher.offer(b"x")  # no gate holds it back, so there is room up to the ring's end
        slow, sent = channel.subscriber(), 0
        while publisher.position < 3968:
            assert publisher.offer(b"y")
            sent += 1
        lock = new_lock(channel._attached.file, channel.path)
        with control_lock(lock, channel.path):  # prevents the eviction of slow
            assert publisher.offer_batch([b"z"] * 4) == 1
        lock.close()
        got: list[bytes] = []
        slow.poll(lambda message: got.append(bytes(message)), 1000)
        assert got == [b"y"] * sent + [b"z"]
        assert publisher.position == slow.position(0) == 4032


@pytest.mark.parametrize("max_lag", [-1, 1, 2047, 4097, 2**40])
def test_lags_that_cannot_be(max_lag: int) -> None:
    with Channel.create("bad", "broadcast", capacity=4096) as channel:
        with pytest.raises(InvalidArgumentError) as caught:
            channel.publisher(max_lag=max_lag)
        assert caught.value.argument == "max_lag"
        with channel.publisher(max_lag=0) as publisher:
            assert publisher.ring == 0


# Races with the slot's next owner


def in_two_threads(one: Callable[[], Any], two: Callable[[], Any]) -> None:
    errors: list[BaseException] = []
    barrier = threading.Barrier(2)

    def run(call: Callable[[], Any]) -> None:
        try:
            barrier.wait(10)
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in (one, two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not errors, errors


def after(seconds: float, call: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> None:
        time.sleep(seconds)
        call()

    return run


def append_to(taken: list[Subscriber], take: Callable[[], Subscriber]) -> Callable[[], Any]:
    return lambda: taken.append(take())


def check_owner(channel: Channel, subscriber: Subscriber, publisher: Publisher) -> bool:
    """Returns whether the subscriber lost its slot. If not, checks that it gates and gets messages."""
    publisher.send(b"after", timeout=5)
    try:
        last = None
        while (message := subscriber.take()) is not None:
            last = bytes(message)
    except SlotLostError:
        assert gates(channel, subscriber.slot) == [-1]
        return True
    assert last == b"after"
    assert gates(channel, subscriber.slot) == [publisher.position]
    return False


def test_evict_against_a_slots_next_owner() -> None:
    rng, outcomes = random.Random(1), {False: 0, True: 0}
    with Channel.create("race", "broadcast", capacity=4096, publishers=1, subscribers=1) as channel:
        publisher = channel.publisher()
        give_up = time.monotonic() + 30
        while min(outcomes.values()) < 10 and time.monotonic() < give_up:
            taken: list[Subscriber] = []
            pauses = rng.random() / 1000, rng.random() / 1000
            in_two_threads(
                after(pauses[0], lambda: channel.evict(0)),
                after(pauses[1], append_to(taken, channel.subscriber)),
            )
            outcomes[check_owner(channel, taken[0], publisher)] += 1
            taken[0].close()
    assert min(outcomes.values()) >= 10, outcomes


def test_retire_against_a_slots_next_owner() -> None:
    rng, outcomes = random.Random(2), {1: 0, 2: 0}
    with Channel.create("retire", "broadcast", capacity=4096, publishers=1, subscribers=1) as channel:
        publisher = channel.publisher()
        give_up = time.monotonic() + 30
        while min(outcomes.values()) < 10 and time.monotonic() < give_up:
            dead = channel.subscriber()
            fill(publisher)
            dead._lock.close()  # as the kernel does at a kill
            taken: list[Subscriber] = []
            pause = rng.random() / 125  # a waiting publisher tests for dead readers every 4 ms
            in_two_threads(
                lambda: publisher.send(bytes(100), timeout=10),
                after(pause, append_to(taken, channel.subscriber)),
            )
            outcomes[taken[0].epoch - dead.epoch] += 1  # 1: the next owner came first; 2: the slot was retired first
            assert not check_owner(channel, taken[0], publisher)
            with pytest.raises(SlotLostError):
                dead.take()
            assert gates(channel, 0) == [publisher.position]  # the dead owner changed no gate of the next owner
            taken[0].close()
            dead.close()
    assert min(outcomes.values()) >= 10, outcomes
