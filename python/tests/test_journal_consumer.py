# SPDX-License-Identifier: Apache-2.0
"""Consumers of journals: gates and the pairs that prove them, resume, queue verbs, forget (spec/journal.md 6)."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conftest import Child
from flyring import (
    Action,
    BusyError,
    CorruptJournalError,
    DamagedError,
    InvalidArgumentError,
    Journal,
    JournalConsumer,
    JournalStart,
    NeedsRecoveryError,
    NoFreeSlotError,
    NoSuchChannelError,
    layout,
)
from flyring._core import crc32c
from flyring.journal_gate import read_gate
from flyring.journal_seek import find_place
from flyring.journal_segment import prepare
from flyring.system import is_locked
from journals import OTHER_BOOT, THIS_BOOT, DyingWriter, Folder, Z, made, payloads

PAIR_0, PAIR_1 = layout.JOURNAL_CONSUMER_PAIR_0, layout.JOURNAL_CONSUMER_PAIR_1


@pytest.fixture
def journal() -> Iterator[Journal]:
    with made(consumers=3) as one:
        with one.writer(helper=False) as writer:
            writer.append_many(payloads(1000))
        yield one


def slot(journal: Journal, number: int = 0) -> bytes:
    with (Folder(journal.path).path / "control").open("rb") as file:
        file.seek(4096 + 1024 + 256 * number)
        return file.read(256)


def rest(consumer: JournalConsumer) -> int:
    """How many messages it still gets."""
    count = 0
    while consumer.pop() is not None:
        count += 1
    return count


def proven(journal: Journal) -> tuple[int, int, int]:
    """The gate, and count and lost of the pair that proves it."""
    data = slot(journal)
    (gate,) = struct.unpack_from("<q", data, 128)
    for at in (PAIR_0, PAIR_1):
        position, count, lost, crc = struct.unpack_from("<qqqI", data, at)
        if crc == crc32c(data[at : at + 24]) and position == gate:
            return gate, count, lost
    raise AssertionError("no pair proves the gate")


def test_goes_on_where_it_stopped(journal: Journal) -> None:
    numbers: list[int] = []
    for _ in range(11):
        with journal.consumer("c") as consumer:
            assert consumer.number == len(numbers) and consumer.size == len(consumer) == 1000 - len(numbers)
            consumer.poll(lambda message: numbers.append(message.number), limit=100)
            assert (consumer.name, consumer.slot) == ("c", 0)
        gate, count, lost = proven(journal)
        assert count == len(numbers) and lost == 0 and gate == consumer.position
    assert numbers == [*range(1000)]
    assert slot(journal)[16] == 1  # kept


def test_pairs_alternate(journal: Journal) -> None:
    with journal.consumer("c") as consumer:
        seen = set()
        for i in range(4):
            consumer.take()
            seen.add(struct.unpack_from("<q", slot(journal), PAIR_0)[0])
            assert proven(journal)[1] == i + 1
        assert len(seen) < 4  # the other pair was written in between


def test_start_counts_only_for_a_new_name(journal: Journal) -> None:
    with journal.consumer("c", JournalStart.at_number(500)) as consumer:
        assert consumer.pop() == payloads(1000)[500]
    with journal.consumer("c", "newest") as consumer:
        assert consumer.number == 501
    with journal.consumer("new", "newest") as consumer:
        assert consumer.size == 0 and consumer.pop() is None
        with pytest.raises(InvalidArgumentError):
            consumer.seek("oldest")


def test_queue(journal: Journal) -> None:
    with journal.consumer("c", "newest") as consumer:
        journal.push(b"one")
        journal.push(b"two")
        assert consumer.peek() == b"one" and consumer.peek() == b"one" and consumer.size == 2
        assert consumer.pop() == b"one"
        assert consumer.pop() == b"two" and consumer.peek() is None and consumer.pop(timeout=0.01) is None


def test_actions_store_the_gate(journal: Journal) -> None:
    with journal.consumer("c") as consumer:
        counts = []

        def handler(message: object) -> Action | None:
            counts.append(proven(journal)[1])
            return [None, Action.COMMIT, None, Action.ABORT][len(counts) - 1]

        consumer.poll(handler)
        assert counts == [0, 0, 2, 2] and proven(journal)[1] == 3
        with pytest.raises(ZeroDivisionError):
            consumer.poll(lambda message: 1 / 0)
        assert proven(journal)[1] == 4


def test_view_outlives_handler(journal: Journal) -> None:
    with journal.consumer("c") as consumer:
        views: list[memoryview] = []
        with pytest.raises(BufferError):
            consumer.poll(lambda message: views.append(message.data))
        assert proven(journal)[1] == 0  # in front of the message that is still in use
        views[0].release()
        assert consumer.take() is not None
        assert proven(journal)[1] == 2


def test_gate_within_a_poll() -> None:
    with made() as journal, journal.consumer("c") as consumer:
        with journal.writer(helper=False) as writer:
            for _ in range(100):
                writer.append(bytes(4000))
        gates: list[int] = []
        consumer.poll(lambda message: gates.append(proven(journal)[0]))
        assert len(set(gates)) >= 100 * 4032 // 65536


def test_names_and_slots(journal: Journal) -> None:
    for name in ("", "a/b", "x" * 65):
        with pytest.raises(InvalidArgumentError):
            journal.consumer(name)
    consumers = [journal.consumer(name) for name in "abc"]
    with pytest.raises(NoFreeSlotError) as error:
        journal.consumer("d")
    assert (error.value.kind, error.value.slots) == ("consumer", 3)
    with pytest.raises(NoFreeSlotError) as error:
        journal.consumer("b")
    assert [owner.name for owner in error.value.owners] == ["b"]
    with pytest.raises(BusyError):
        journal.forget("b")
    consumers[1].close()
    journal.forget("b")
    with pytest.raises(InvalidArgumentError) as missing:
        journal.forget("b")
    assert missing.value.argument == "name"
    with journal.consumer("d") as fourth:
        assert fourth.slot == 1 and fourth.number == 0
    consumers[0].forget()
    consumers[2].close()
    assert [one.name for one in journal.stats().consumers] == ["d", "c"]


def test_killed_consumer(journal: Journal, child: Callable[..., Child]) -> None:
    one = child(
        """
        from flyring import Journal
        journal = Journal.open("j")
        consumer = journal.consumer("c")
        for i in range(10):
            consumer.take()
        def handler(message):
            if message.number == 20:
                print("there", flush=True)
                input()
        consumer.poll(handler)
        """
    )
    assert one.line() == "there"
    with pytest.raises(NoFreeSlotError):
        journal.consumer("c")
    one.kill()
    with journal.consumer("c") as consumer:  # what was consumed since the last store comes again
        assert consumer.number == 10
        assert [message.number for _ in range(990) if (message := consumer.take())] == [*range(10, 1000)]


def test_unproven_gate(journal: Journal) -> None:
    """A kill between the pair and the gate, or a power loss: the count is found by a walk."""
    with journal.consumer("c") as consumer:
        for _ in range(50):
            consumer.take()
    gate = read_gate(journal._files, 0)
    for at in (PAIR_0, PAIR_1):
        journal._files.memory.write(gate.at + at + 8, b"\1" * 8)
    assert journal.stats().consumers[0].behind == -1
    with journal.consumer("c") as consumer:
        assert consumer.number == 50
    assert proven(journal)[1] == 50


@pytest.mark.parametrize("gate", [-1, 63, 1 << 40, 2**62])
def test_hostile_gate(journal: Journal, gate: int) -> None:
    with journal.consumer("c"):
        pass
    journal._files.memory.store64(4096 + 1024 + 128, gate)
    with pytest.raises(CorruptJournalError):
        journal.consumer("c")
    assert len(journal.stats().consumers) == 1


@pytest.mark.parametrize("rolls", [False, True])
def test_reopens_at_each_store_of_a_writer(rolls: bool) -> None:
    """A gate may lie behind a record whose length is stored and whose ``published`` is not yet."""
    wanted = [bytes([i]) * 2000 for i in range(3)]
    with made() as journal:
        with journal.writer(helper=False) as writer:
            while rolls and writer.position < Z - 2000:
                writer.append(bytes(100))
            prepare(journal._files, Z)
            writer.close(sync=False)
        there, found, above = Folder(journal.path), [], 0
        journal.consumer("c", "newest").close()
        dying = DyingWriter(there)
        for payload in wanted:
            for _ in (step for steps in (dying.append(payload), dying.check()) for step in steps):
                for _ in range(2):  # the second one begins at the gate of the first one
                    with journal.consumer("c") as consumer:
                        assert consumer.lost == 0
                        consumer.poll(lambda message: found.append(bytes(message)))
                above += proven(journal)[0] > there.word(layout.JOURNAL_CONTROL_PUBLISHED)
        assert found == wanted
        assert above >= 6


def test_trim_frees_what_a_consumer_above_published_does_not_need() -> None:
    with made() as journal, journal.consumer("c") as consumer:
        with journal.writer(helper=False) as writer:
            while writer.position < Z:
                writer.append(bytes(4000))
        while consumer.take() is not None:
            pass
        for _ in DyingWriter(Folder(journal.path)).append(b"x"):
            if consumer.take() is not None:
                break
        assert proven(journal)[0] > journal.stats().published
        assert journal.trim(consumed=True) == 4096 + Z


@pytest.mark.parametrize("offset", [-64, 64])
def test_a_hostile_gate_above_published(journal: Journal, offset: int) -> None:
    """Below ``claimed``, and within a record or where there is none."""
    with journal.consumer("c"):
        pass
    dying = DyingWriter(Folder(journal.path))
    steps = dying.append(bytes(200))
    while not dying.committed:
        next(steps)
    end = journal.stats().published
    journal._files.memory.store64(4096 + 1024 + 128, end + 256 + offset)
    with pytest.raises(CorruptJournalError):
        journal.consumer("c")


def test_walks_to_the_start_of_a_new_name_without_the_control_lock(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that nothing waits for a long walk. A trim may come in between: then the messages are lost, and counted."""
    with journal.writer(helper=False) as writer:
        writer.append_many(payloads(2000))
    walks = 0

    def find(*arguments: Any) -> Any:
        nonlocal walks
        walks += 1
        at = layout.HEADER_LENGTH + layout.CONTROL_CONTROL_LOCK
        assert not is_locked(journal._files.file, at, journal.path)
        found = find_place(*arguments)
        assert journal.trim(size=Z) > 0
        return found

    monkeypatch.setattr("flyring.journal_consumer.find_place", find)
    with journal.consumer("c", JournalStart.at_number(10)) as consumer:
        assert consumer.position == journal.stats().trimmed > 0
        assert consumer.lost == consumer.number - 10 == proven(journal)[2] > 0
        assert consumer.size == 3000 - consumer.number
        message = consumer.take()
        assert message is not None and message.number == 10 + consumer.lost
    monkeypatch.undo()
    assert walks == 1


def during_the_walk(monkeypatch: pytest.MonkeyPatch, then: Callable[[], object]) -> None:
    """Calls ``then`` once, when the walk to a consumer's start has ended."""

    def find(*arguments: Any) -> Any:
        monkeypatch.undo()
        found = find_place(*arguments)
        then()
        return found

    monkeypatch.setattr("flyring.journal_consumer.find_place", find)


def test_a_consumer_of_the_same_name_may_come_first_during_the_walk(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with journal.writer(helper=False) as writer:
        writer.append_many(payloads(20))

    def first() -> None:
        with journal.consumer("c", JournalStart.at_number(3)) as consumer:
            consumer.take()

    during_the_walk(monkeypatch, first)
    with journal.consumer("c", JournalStart.at_number(10)) as consumer:
        assert (consumer.number, consumer.epoch, consumer.lost) == (4, 2, 0)
        assert len(list(consumer)) == 16 + 1000
        consumer.forget()
    kept: list[JournalConsumer] = []
    during_the_walk(monkeypatch, lambda: kept.append(journal.consumer("c")))
    with pytest.raises(NoFreeSlotError):
        journal.consumer("c", JournalStart.at_number(10))
    kept[0].close()


def test_an_unlink_during_the_walk_is_no_such_channel(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    during_the_walk(monkeypatch, lambda: Journal.unlink(journal.path))
    with pytest.raises(NoSuchChannelError):
        journal.consumer("c", JournalStart.at_number(10))


@pytest.mark.parametrize("gate", [2 * Z, 2 * Z + 64, 3 * Z - 64])
def test_a_gate_in_a_segment_that_is_gone_is_damaged(journal: Journal, gate: int) -> None:
    with journal.writer(helper=False) as writer:
        writer.append_many(payloads(1000))
    journal.consumer("c").close()
    (Folder(journal.path).path / f"{2 * Z:019d}.seg").unlink()
    Folder(journal.path).store(1024 + layout.JOURNAL_CONSUMER_GATE, gate)
    with pytest.raises(DamagedError) as error:
        journal.consumer("c")
    found = error.value
    assert (found.from_, found.to, found.messages) == (gate, 3 * Z, -1)  # no pair proves this gate
    with journal.consumer("c", skip_damaged=True) as consumer:
        assert (consumer.position, consumer.lost) == (3 * Z + 64, 0)
        size = consumer.size
        assert rest(consumer) == size > 0


@pytest.mark.parametrize("what", ["segment", "span"])
def test_a_gate_in_what_is_damaged_can_be_skipped(journal: Journal, what: str) -> None:
    with journal.writer(helper=False) as writer:
        writer.append_many(payloads(1000))
    there = Folder(journal.path)
    with journal.consumer("c") as consumer:
        while consumer.position < 2 * Z + 320:
            consumer.pop()
        gate, number = consumer.position, consumer.number
    if what == "segment":
        there.segment(2 * Z).unlink()
    else:
        there.write(2 * Z + 64, b"\xff" * 8)  # in front of the gate: no walk leads there
    with pytest.raises(DamagedError) as error:
        journal.consumer("c")
    found = error.value
    assert found.from_ == gate < found.to <= 3 * Z
    with journal.consumer("c", skip_damaged=True) as consumer:
        assert consumer.position == found.to + 64
        assert found.messages == consumer.lost == consumer.number - number > 0
        assert journal.stats().consumers[0].lost == consumer.lost
        size = consumer.size
        assert rest(consumer) == size == 2000 - found.messages - number
    with journal.consumer("c") as consumer:
        assert (consumer.lost, consumer.size) == (found.messages, 0)
    with pytest.raises(DamagedError) as error:
        journal.reader(JournalStart.at_position(gate))
    assert (error.value.from_, error.value.to, error.value.messages) == (gate, found.to, -1)
    with journal.reader(JournalStart.at_position(gate), skip_damaged=True) as reader:
        assert (reader.position, reader.lost) == (found.to + 64, 0)


def test_what_the_errors_of_a_name_say(journal: Journal) -> None:
    consumers = [journal.consumer(name) for name in "abc"]
    with pytest.raises(NoFreeSlotError, match=rf"consumer 'b' of the journal at .* owned by pid {os.getpid()}; "):
        journal.consumer("b")
    consumers[0].close()
    with pytest.raises(NoFreeSlotError, match=r"all 3 names of consumers .* are taken: 'a', 'b', 'c'; ") as error:
        journal.consumer("d")
    assert [owner.name for owner in error.value.owners] == ["b", "c"]
    for consumer in consumers:
        consumer.close()
    with made("none", consumers=0) as none, pytest.raises(NoFreeSlotError, match="has no consumers: it was created"):
        none.consumer("c")


def test_another_boot() -> None:
    with made(_identity=OTHER_BOOT) as first:
        first.push(b"x")
    with Journal.open("j", _identity=THIS_BOOT) as journal:
        for call in (lambda: journal.consumer("c"), lambda: journal.forget("c"), lambda: journal.trim(consumed=True)):
            with pytest.raises(NeedsRecoveryError):
                call()


def test_sync(journal: Journal) -> None:
    with journal.consumer("c") as consumer:
        consumer.take()
        consumer.sync()


def test_iteration(journal: Journal) -> None:
    with journal.consumer("c") as consumer:
        assert [message.number for message in consumer] == [*range(1000)]
