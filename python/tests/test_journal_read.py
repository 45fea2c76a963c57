# SPDX-License-Identifier: Apache-2.0
"""Readers of journals: tail, cold, where to begin, damage, durable, waits (spec/journal.md 3.3)."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from flyring import (
    Action,
    ClosedError,
    DamagedError,
    InvalidArgumentError,
    Journal,
    JournalMessage,
    JournalStart,
    JournalWriter,
    Message,
    ViewAliveError,
    layout,
)
from journals import Folder, Z, made, payloads, read_all


@pytest.fixture
def journal() -> Iterator[Journal]:
    with made() as one:
        yield one


@pytest.fixture
def writer(journal: Journal) -> Iterator[JournalWriter]:
    with journal.writer("w", helper=False) as one:
        yield one


# Messages


def test_message(journal: Journal, writer: JournalWriter) -> None:
    writer.append(b"zero")
    position = writer.append(b"hello", 7, time=99)
    with journal.reader() as reader:
        first = reader.take()
        assert first is not None and first.number == 0 and first.time > 10**18
        seen: list[JournalMessage] = []

        def look(message: JournalMessage) -> None:
            assert (bytes(message), message.type, message.number) == (b"hello", 7, 1)
            assert (message.position, message.time, message.ring) == (position, 99, 0)
            assert message.sender.epoch == 0 and isinstance(message, Message)
            seen.append(message)

        assert reader.poll(look) == 1
        with pytest.raises(ClosedError):
            bytes(seen[0])
        assert seen[0].number == 1
        assert (reader.position, reader.number) == (writer.position, 2)
        assert reader.take() is None and reader.poll(look) == 0


def test_tail_and_cold_agree(journal: Journal, writer: JournalWriter) -> None:
    """Readers that poll at random moments, and limits, see all messages, whichever way they come."""
    chance = random.Random(5)
    readers = [journal.reader() for _ in range(4)]
    found: list[list[bytes]] = [[] for _ in readers]
    wanted: list[bytes] = []
    for i in range(4000):
        payload = i.to_bytes(4, "little") * chance.choice((1, 5, 30, 200))
        wanted.append(payload)
        writer.append(payload)
        if chance.random() < 0.02:
            writer._make_check()
        for k, reader in enumerate(readers):
            if chance.random() < (1, 0.1, 0.01, 0.002)[k]:
                if chance.random() < 0.5:
                    reader.poll(lambda message, k=k: found[k].append(bytes(message)), limit=chance.randint(1, 300))  # type: ignore[misc]
                elif (message := reader.take()) is not None:
                    found[k].append(bytes(message))
    for k, reader in enumerate(readers):
        while reader.poll(lambda message, k=k: found[k].append(bytes(message))):  # type: ignore[misc]
            pass
        assert found[k] == wanted
        assert reader.number == 4000 and reader.lost == reader.cuts == 0
        reader.close()


def test_actions(journal: Journal, writer: JournalWriter) -> None:
    writer.append_many(payloads(10))
    with journal.reader() as reader:
        seen: list[int] = []

        def handler(message: JournalMessage) -> Action | None:
            seen.append(message.number)
            if message.number == 2:
                return Action.BREAK
            return Action.ABORT if message.number == 5 and seen.count(5) == 1 else None

        assert reader.poll(handler) == 3
        assert reader.poll(handler) == 2
        assert reader.poll(handler) == 5
        assert seen == [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9]


def test_handler_raises(journal: Journal, writer: JournalWriter) -> None:
    writer.append_many(payloads(3))
    with journal.reader() as reader:
        with pytest.raises(ZeroDivisionError):
            reader.poll(lambda message: 1 / 0)
        assert reader.number == 1
        with pytest.raises(ViewAliveError):
            reader.poll(lambda message: reader.close())


def test_view_outlives_handler(journal: Journal, writer: JournalWriter) -> None:
    writer.append_many(payloads(3))
    with journal.reader() as reader:
        views: list[memoryview] = []
        with pytest.raises(ViewAliveError):
            reader.poll(lambda message: views.append(message.data))
        with pytest.raises(ViewAliveError):
            reader.take()
        with pytest.raises(ViewAliveError):
            reader.close()
        assert bytes(views[0]) == payloads(1)[0]
        views[0].release()
        assert reader.poll(lambda message: None) == 2


# Where to begin


def test_starts(journal: Journal, writer: JournalWriter) -> None:
    places = [(writer.append(payload, time=1000 + 10 * i), payload) for i, payload in enumerate(payloads(3000))]
    assert len(Folder(journal.path).segments()) > 5
    with journal.reader("newest") as reader:
        assert (reader.position, reader.number) == (writer.position, 3000)
        assert reader.take() is None
    with journal.reader("oldest") as reader:
        assert (reader.position, reader.number) == (0, 0)
        for i in (0, 1, 500, 999, 1700, 2999):
            position, payload = places[i]
            for start in (
                JournalStart.at_position(position),
                JournalStart.at_number(i),
                JournalStart.at_time(1000 + 10 * i),
                JournalStart.at_time(991 + 10 * i),
            ):
                reader.seek(start)
                message = reader.take()
                assert message is not None and (message.number, message.position) == (i, position), start
                assert bytes(message) == payload
                assert reader.lost == 0
        for start in (
            JournalStart.at_position(writer.position),
            JournalStart.at_number(3000),
            JournalStart.at_time(10**18),
            "newest",
        ):
            reader.seek(start)
            assert (reader.position, reader.number) == (writer.position, 3000)
        reader.seek("oldest")
        assert reader.number == 0
        for start in (
            JournalStart.at_position(writer.position + 64),
            JournalStart.at_position(places[5][0] + 64),
            JournalStart.at_position(places[5][0] + 1),
            JournalStart.at_number(3001),
            JournalStart.at_number(-1),
            JournalStart.at_position(-64),
            "now",
        ):
            with pytest.raises(InvalidArgumentError) as error:
                reader.seek(start)  # type: ignore[arg-type]
            assert error.value.argument == "start", start


def test_begins_at_what_is_committed_and_not_yet_published(journal: Journal, writer: JournalWriter) -> None:
    """A writer is stopped, or was killed, between the commit of a batch and its store of ``published``: append 5 and 6.
    A tail hands out such messages: what it says of them must be a start."""
    places = [writer.append(bytes([i % 251]) * 200, time=1000 + i) for i in range(600)]
    end = writer.position
    for published in (places[595], places[599]):
        journal._files.store(layout.JOURNAL_CONTROL_PUBLISHED, published)
        at = JournalStart.at_position
        for start in (at(places[599]), JournalStart.at_number(599), JournalStart.at_time(1599)):
            with journal.reader(start) as reader:
                assert (reader.number, reader.lost) == (599, 0), start
                message = reader.take()
                assert message is not None and message.position == places[599]
                assert reader.take() is None
        for start in (at(end), JournalStart.at_number(600), JournalStart.at_time(1600)):
            with journal.reader(start) as reader:
                assert (reader.position, reader.number) == (end, 600), start
                assert reader.take() is None
        with journal.consumer(f"c{published}", at(end)) as consumer:
            assert consumer.number == 600
        for start in (at(end + 64), at(end - 64), JournalStart.at_number(601)):
            with pytest.raises(InvalidArgumentError):
                journal.reader(start)
        with pytest.raises(InvalidArgumentError):
            journal.reader(at(end), durable=True)
    journal._files.store(layout.JOURNAL_CONTROL_PUBLISHED, end)


def test_each_record_is_a_place(journal: Journal, writer: JournalWriter) -> None:
    writer.append_many(payloads(1500))
    numbers = 0
    for record in Folder(journal.path).records():
        with journal.reader(JournalStart.at_position(record.position)) as reader:
            assert (reader.position, reader.number) == (record.position, numbers)
            message = reader.take()
            assert message is None or message.number == numbers
        numbers += record.type > 0


def test_start_in_an_empty_journal() -> None:
    starts = ("oldest", "newest", JournalStart.at_number(0), JournalStart.at_time(5), JournalStart.at_position(64))
    for i, start in enumerate(starts):
        with made(f"empty-{i}") as journal, journal.reader(start) as reader:  # type: ignore[arg-type]
            assert reader.take() is None
            journal.push(b"x")
            assert reader.take() == b"x" and reader.take() is None


# Damage


def spans(there: Folder) -> list[tuple[int, int]]:
    """The spans behind checks: (begin, position of the check that ends it)."""
    checks = [record.position for record in there.records() if record.type == -3]
    return [(a + 64, b) for a, b in pairwise(checks)]


def test_flipped_bit(journal: Journal, writer: JournalWriter) -> None:
    for payload in payloads(2000):
        writer.append(payload)
    there = Folder(journal.path)
    begin, end = spans(there)[1]
    there.flip(begin + 64 * 5 + 20)
    lost = [one for one in there_messages(there) if begin <= one < end]
    with journal.reader() as reader:
        with pytest.raises(DamagedError) as error:
            while reader.poll(lambda message: None):
                pass
        assert (error.value.from_, error.value.to, error.value.messages) == (begin, end, len(lost))
        assert reader.position == begin
        with pytest.raises(DamagedError):  # it stays where it is
            reader.take()
        assert reader.number == there_messages(there).index(begin)
    with journal.reader(skip_damaged=True) as reader:
        numbers: list[int] = []
        while reader.poll(lambda message: numbers.append(message.number)):
            pass
        assert reader.lost == len(lost)
        first = there_messages(there).index(begin)
        assert numbers == [*range(first), *range(first + len(lost), 2000)]


def test_a_poll_returns_what_it_has_before_it_raises(journal: Journal, writer: JournalWriter) -> None:
    for payload in payloads(2000):
        writer.append(payload)
    there = Folder(journal.path)
    begin, _ = spans(there)[1]
    there.flip(begin + 64 * 5 + 20)
    numbers: list[int] = []
    with journal.reader() as reader:
        while reader.poll(lambda message: numbers.append(message.number), 2000):
            assert reader.number == len(numbers)
            with pytest.raises(DamagedError):
                reader.poll(lambda message: None)
            break
    assert numbers == list(range(there_messages(there).index(begin)))


def test_ended(journal: Journal) -> None:
    with journal.reader() as reader:
        assert not reader.ended()
        with journal.writer() as writer:
            writer.append(b"1")
            assert not reader.ended()
        assert not reader.ended()
        assert reader.take() == b"1"
        while reader.poll(lambda message: None):
            pass
        assert reader.ended()
        journal.push(b"2")
        assert not reader.ended()


def there_messages(there: Folder) -> list[int]:
    """The positions of all messages, by lengths alone."""
    found, at, end = [], 0, there.word(layout.JOURNAL_CONTROL_PUBLISHED)
    while at < end:
        head = there.read(at, 8)
        length, kind = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:], "little", signed=True)
        if kind > 0:
            found.append(at)
        at += (length + 63) // 64 * 64
    return found


@pytest.mark.parametrize("what", ["length", "type", "check", "first check"])
def test_damaged_structure(journal: Journal, writer: JournalWriter, what: str) -> None:
    for payload in payloads(3000):
        writer.append(payload)
    there = Folder(journal.path)
    begin, end = spans(there)[2]
    at = {"length": begin + 128 + 1, "type": begin + 128 + 4, "check": end + 20, "first check": Z + 30}[what]
    there.flip(at)
    with journal.reader() as reader, pytest.raises(DamagedError):
        while reader.poll(lambda message: None):
            pass
    with journal.reader(skip_damaged=True) as reader:
        numbers: list[int] = []
        while reader.poll(lambda message: numbers.append(message.number)):
            pass
        assert reader.number == 3000 and len(numbers) + reader.lost == 3000 and 0 < reader.lost < 1200
        assert numbers == sorted(numbers)


def test_segment_removed_by_hand(journal: Journal, writer: JournalWriter) -> None:
    for payload in payloads(3000):
        writer.append(payload)
    there = Folder(journal.path)
    positions = there_messages(there)
    there.segment(2 * Z).unlink()
    gone = [i for i, position in enumerate(positions) if 2 * Z <= position < 3 * Z]
    with journal.reader() as reader, pytest.raises(DamagedError) as error:
        while reader.poll(lambda message: None):
            pass
    assert error.value.to == 3 * Z and error.value.messages >= len(gone)
    with journal.reader(skip_damaged=True) as reader:
        numbers: list[int] = []
        while reader.poll(lambda message: numbers.append(message.number)):
            pass
        assert reader.lost == error.value.messages and reader.number == 3000
        assert not set(gone) & set(numbers)
    writer.close(sync=False)  # a sync would miss the segment


def test_the_first_check_of_the_oldest_segment_is_damaged(journal: Journal, writer: JournalWriter) -> None:
    for payload in payloads(3000):
        writer.append(payload)
    there = Folder(journal.path)
    there.flip(30)
    with pytest.raises(DamagedError) as error:
        journal.reader()
    assert (error.value.from_, error.value.messages) == (0, -1)
    with journal.reader(skip_damaged=True) as reader:
        assert reader.position == error.value.to + 64
        first, numbers = reader.number, []
        while reader.poll(lambda message: numbers.append(message.number)):
            pass
        assert numbers == list(range(first, 3000)) and first > 0


def test_a_prepared_segment_that_is_removed_by_hand_is_made_again(journal: Journal) -> None:
    with journal.writer(ahead=1) as writer:
        there, numbers = Folder(journal.path), []
        for segment in (Z, 2 * Z, 3 * Z):
            while segment not in writer._helper._mapped:
                time.sleep(0.001)
            there.segment(segment).unlink()
            while writer.position < segment + Z // 2:
                writer.append(bytes(300))
            assert there.segment(segment).exists()
        with journal.reader() as reader:
            while reader.poll(lambda message: numbers.append(message.number)):
                pass
        assert numbers == list(range(len(numbers))) and reader.number == writer.number


def test_last_segment_removed_by_hand(journal: Journal, writer: JournalWriter) -> None:
    for payload in payloads(3000):
        writer.append(payload)
    there = Folder(journal.path)
    begin = [end for _, end in spans(there) if end < writer.position // Z * Z][-1] + 64
    there.segment(writer.position).unlink()
    with journal.reader() as reader:
        with pytest.raises(DamagedError) as error:
            while reader.poll(lambda message: None):
                pass
        found = error.value
        assert (found.from_, found.to, found.messages) == (begin, writer.position, -1)
    with journal.reader(skip_damaged=True) as reader:
        while reader.poll(lambda message: None):
            pass
        assert reader.position == begin and reader.lost == 0  # it waits for a check
    writer.close(sync=False)  # a sync would miss the segment


# Durable


def test_durable(journal: Journal, writer: JournalWriter) -> None:
    with journal.reader(durable=True) as reader:
        writer.append(b"one")
        assert reader.take() is None
        writer.sync()
        message = reader.take()
        assert message is not None and bytes(message) == b"one" and reader.durable
        writer.append(b"two")
        assert reader.take() is None and reader.poll(lambda message: None) == 0
        timer = threading.Timer(0.05, writer.sync)
        timer.start()
        message = reader.take(timeout=5)
        timer.join()
        assert message is not None and bytes(message) == b"two"
    with journal.reader("newest", durable=True) as reader:
        assert (reader.number, reader.position) == (2, writer.position)


# More


def test_a_reader_holds_nobody_back(journal: Journal, writer: JournalWriter) -> None:
    with journal.reader("newest") as reader:
        for payload in payloads(5000):
            writer.append(payload)
        assert reader.position == 64
        found: list[int] = []
        while reader.poll(lambda message: found.append(message.number)):
            pass
        assert found == [*range(5000)]


def test_many_readers_of_large_messages(journal: Journal, writer: JournalWriter) -> None:
    wanted = [bytes([i]) * (Z // 4 - 16) for i in range(30)]
    for payload in wanted:
        writer.append(payload)
    assert read_all(journal) == wanted
    assert Path(journal.path).exists()


@pytest.mark.parametrize("segment", range(1, 6))
def test_a_seek_passes_a_segment_without_its_first_check(segment: int) -> None:
    """Of a segment whose first check is damaged only what lies up to its next check cannot be found."""
    size, messages = 1 << 17, 700  # two spans
    with made("damaged", segment_size=size) as journal:
        with journal.writer(helper=False) as writer:
            positions = [writer.append(bytes(900), 1, time=10 * i) for i in range(messages)]
        base = segment * size
        with (Folder(journal.path).path / f"{base:019d}.seg").open("r+b") as file:
            file.seek(layout.HEADER_LENGTH)
            file.write(bytes(64))
        first = next(i for i in range(messages) if positions[i] >= base)
        behind = next((i for i in range(messages) if positions[i] - positions[first] >= 1 << 16), messages)
        for wanted in range(0, messages, 3):
            found = behind if first <= wanted < behind else wanted
            with (
                journal.reader(JournalStart.at_number(wanted)) as reader,
                journal.reader(JournalStart.at_time(max(0, 10 * wanted - 9))) as timed,
            ):
                assert (reader.number, reader.lost, timed.number) == (found, found - wanted, found), wanted
