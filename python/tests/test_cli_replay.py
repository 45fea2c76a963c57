# SPDX-License-Identifier: Apache-2.0
"""``flyring replay``, as a process (spec/journal.md 9)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flyring import Channel, Journal, Message, Subscriber
from flyring.cli.recording import Recorded, recorded
from recordings import Command, publish, run, until, until_kept

GAP = 0.2  # s: between two halves of the recording
COUNT = 100  # messages of each sender in each half


@pytest.fixture
def day() -> Iterator[Channel]:
    """A recording of two senders in two halves, and its channel, in which nothing else waits."""
    with Channel.create("quotes", "broadcast", publishers=3, subscribers=3, capacity=65536) as channel:
        recorder = Command("record", "quotes", "--to", "day", "--forget", "--segment-size=256k")
        until_kept(channel, "record-day")
        with channel.publisher("a") as a, channel.publisher("b") as b:
            publish([a, b], 0, COUNT)
            until(lambda: all(gate.lag == 0 for gate in channel.stats().subscribers[0].gates))
            time.sleep(GAP)
            publish([a, b], COUNT, COUNT)
            until(lambda: all(gate.lag == 0 for gate in channel.stats().subscribers[0].gates))
        assert recorder.end()[0] == 0
        assert not channel.stats().subscribers[0].kept
        yield channel


def drained(subscriber: Subscriber) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}

    def each(message: Message) -> None:
        number = int.from_bytes(bytes(message)[:8], "little")
        assert bytes(message) == number.to_bytes(8, "little") * (1 + number % 9)
        assert message.type == 1 + number % 3
        found.setdefault(message.sender.name, []).append(number)

    while subscriber.poll(each):
        pass
    return found


def test_it_publishes_everything_again_with_the_senders_names(day: Channel) -> None:
    with day.subscriber() as subscriber:
        status, _, error = run("replay", "day", "--fast")
        assert (status, error.split(",")[0]) == (0, f"flyring: {4 * COUNT} messages")
        assert drained(subscriber) == {"a": list(range(2 * COUNT)), "b": list(range(2 * COUNT))}


@pytest.mark.parametrize(("arguments", "least", "most"), [([], 1.0, 100.0), (["--speed", "20"], 0.05, 1.0)])
def test_the_pace_is_that_of_the_recording(day: Channel, arguments: list[str], least: float, most: float) -> None:
    """Both are parts of the recording's time. The least is exact: no message comes before it is due. The most only
    tells the paces apart."""
    with Journal.open("day") as journal:
        times = [one.time for one in recorded(journal) if isinstance(one, Recorded)]
    recording = (times[-1] - times[0]) / 1e9
    with day.subscriber(wait="spin") as subscriber:
        started = time.monotonic()
        command = Command("replay", "day", *arguments)
        first = subscriber.take(20)
        began = time.monotonic()  # later than the first message, if this process had to wait for a processor
        assert first is not None
        count = 1
        while count < 4 * COUNT:
            assert subscriber.take(20) is not None
            count += 1
        ended = time.monotonic()
        assert command.end(None)[0] == 0
    assert recording * least <= ended - started
    assert ended - began < recording * most


def test_a_part_is_chosen_by_time_number_sender_and_type(day: Channel) -> None:
    with Journal.open("day") as journal:
        every = [one for one in recorded(journal) if isinstance(one, Recorded)]
    middle = every[2 * COUNT]
    with day.subscriber() as subscriber:
        assert run("replay", "day", "--fast", "--from", middle.time, "--sender", "a")[0] == 0
        assert drained(subscriber) == {"a": list(range(COUNT, 2 * COUNT))}
        assert run("replay", "day", "--fast", "--until", middle.time, "--type", "2", "--sender", "b")[0] == 0
        assert drained(subscriber) == {"b": [number for number in range(COUNT) if number % 3 == 1]}
        arguments = ["--from-number", str(every[10].count), "--until-number", str(every[20].count)]
        assert run("replay", "day", "--fast", *arguments)[0] == 0
        expected: dict[str, list[int]] = {}
        for one in every[10:20]:
            expected.setdefault(one.sender, []).append(int.from_bytes(one.payload[:8], "little"))
        assert drained(subscriber) == expected


def test_it_goes_to_other_channels_and_loops(day: Channel) -> None:
    with (
        Channel.create("again", "broadcast", publishers=2, subscribers=1, capacity=65536) as other,
        other.subscriber() as subscriber,
        day.subscriber() as nothing,
    ):
        assert run("replay", "day", "--fast", "--to", "quotes=again", "--loop", "2", "--sender", "a")[0] == 0
        assert drained(subscriber) == {"a": 2 * list(range(2 * COUNT))}
        assert run("replay", "day", "--fast", "--to", "again", "--type", "1")[0] == 0
        assert sorted(drained(subscriber)["replay"]) == sorted(2 * [n for n in range(2 * COUNT) if n % 3 == 0])
        assert drained(nothing) == {}


def test_rings_of_many_channels_go_to_theirs_and_a_ring_may_change_its_sender() -> None:
    with (
        Channel.create("x", "broadcast", publishers=2, subscribers=2, capacity=4096) as x,
        Channel.create("y", "broadcast", publishers=1, subscribers=2, capacity=4096) as y,
        Channel.create("large", "broadcast", publishers=2, subscribers=1, capacity=1 << 20) as large,
    ):
        recorder = Command("record", "x", "y", "--to", "both", "--forget", "--segment-size=64k")
        until_kept(x, "record-both")
        until_kept(y, "record-both")
        with x.publisher("b") as b, y.publisher("c") as c:
            with x.publisher("a") as a:
                publish([a, b, c], 0, 700)
            with x.publisher("d") as d:  # in the ring of a
                publish([d, c, b], 700, 700)
            until(lambda: all(gate.lag == 0 for of in (x, y) for gate in of.stats().subscribers[0].gates))
        assert recorder.end()[0] == 0
        with large.subscriber() as all_of_x, y.subscriber() as slow:
            command = Command("replay", "both", "--fast", "--to", "x=large")
            until(lambda: any(one.blocked_for > 0 for one in y.stats().publishers))  # it waits for room
            received: list[int] = []
            while len(received) < 1400:
                assert slow.poll(lambda message: received.append(int.from_bytes(bytes(message)[:8], "little")), 10, 60)
            status, _, error = command.end(None)
            assert (status, error.split(",")[0]) == (0, "flyring: 4200 messages")
            assert received == list(range(1400))
            every = list(range(1400))
            assert drained(all_of_x) == {"a": every[:700], "b": every, "d": every[700:]}


def test_what_is_damaged_is_told_and_the_rest_is_played(day: Channel) -> None:
    with Journal.open("day", read_only=True) as journal:
        every = [one for one in recorded(journal) if isinstance(one, Recorded)]
        with Path(journal.path, f"{0:019d}.seg").open("r+b") as file:
            file.seek(4096 + every[3].at + 40)
            file.write(b"x")
    with day.subscriber() as subscriber:
        status, _, error = run("replay", "day", "--fast")
        assert (status, "DAMAGED from" in error) == (1, True)
        assert f"flyring: {sum(map(len, drained(subscriber).values()))} messages" in error


def test_step_publishes_one_message_for_each_line(day: Channel) -> None:
    with day.subscriber() as subscriber:
        command = Command("replay", "day", "--step", "--sender", "a")
        assert command.process.stdin is not None
        for number in range(3):
            assert subscriber.take(0) is None
            command.process.stdin.write("\n")
            command.process.stdin.flush()
            message = subscriber.take(20)
            assert message is not None
            assert int.from_bytes(bytes(message)[:8], "little") == number
        assert command.end(None)[0] == 0


def test_late_messages_are_counted(day: Channel) -> None:
    """A reader that stops makes the publisher wait, and what was due meanwhile is late."""
    with day.subscriber() as subscriber, Channel.create("small", "broadcast", publishers=2, capacity=4096) as small:
        with small.subscriber() as slow:
            command = Command("replay", "day", "--to", "quotes=small")
            until(lambda: any(one.blocked_for > 0 for one in small.stats().publishers))
            time.sleep(2 * GAP)
            received = 0
            while received < 4 * COUNT:
                received += slow.poll(lambda _: None, timeout=20)
            status, _, error = command.end(None)
        assert drained(subscriber) == {}
    assert status == 0
    assert " late, at most " in error


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nothing"], "nothing"),
        (["mine"], "no recording"),
        (["day", "--speed", "0"], "speed"),
        (["day", "--to", "=x"], "NAME=CHANNEL"),
        (["day", "--to", "absent"], "absent"),
    ],
)
def test_what_cannot_be_played_is_told(day: Channel, arguments: list[str], text: str) -> None:
    Journal.create("mine", segment_size=65536).close()
    status, _, error = run("replay", *arguments)
    assert status == 2
    assert text in error
    assert "Traceback" not in error
