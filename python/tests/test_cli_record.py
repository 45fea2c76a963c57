# SPDX-License-Identifier: Apache-2.0
"""``flyring record``, as a process (spec/journal.md 9)."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import sys
import threading
import time
from collections.abc import Callable

import pytest

from conftest import SPEC
from flyring import Channel, Journal, Publisher, PublisherStats, layout
from flyring.cli import main
from flyring.cli.record import duration
from flyring.cli.recording import Recorded, recorded, state_before
from flyring.journal_seek import JournalStart
from flyring.sbe import Schema
from journals import Folder
from recordings import RANDOM, Command, publish, run, stats, until, until_kept, what_is_in

SEGMENT = "--segment-size=64k"


def made(name: str = "quotes", **options: object) -> Channel:
    return Channel.create(name, **{"kind": "broadcast", "publishers": 2, "subscribers": 4, "capacity": 4096, **options})


def test_it_records_all_messages_of_all_channels_that_match() -> None:
    with made("quotes-1") as one, made("quotes-2") as two, made("other"):
        recorder = Command("record", "quotes-*", "--to", "day", SEGMENT)
        until_kept(one, "record-day")
        until_kept(two, "record-day")
        with one.publisher("a") as a, one.publisher("b") as b, two.publisher("c") as c:
            publish([a, b, c], 0, 3000)
        until(lambda: all(gate.lag == 0 for of in (one, two) for gate in of.stats().subscribers[0].gates))
        status, _, error = recorder.end()
    assert (status, error.splitlines()[-1].split(",")[0]) == (0, "flyring: 9000 messages"), error
    numbers, losses = what_is_in("day")
    expected = list(range(3000))
    assert numbers == {("quotes-1", "a"): expected, ("quotes-1", "b"): expected, ("quotes-2", "c"): expected}
    assert losses == []
    with Journal.open("day") as journal:
        assert journal.header.content == layout.JOURNAL_CONTENT_RECORDING
        assert journal.stats().segments > 5
    assert run("journal", "check", "day")[0] == 0


def test_a_ring_whose_first_message_begins_a_segment_is_known_there() -> None:
    """Its sender record fits into the segment before, in front of the new segment's state."""
    with made(capacity=32768) as channel, channel.publisher("a") as a, channel.publisher("b") as b:
        for _ in range(480):
            a.send(bytes(40))
        b.send(bytes(4000))
        assert run("record", "quotes", "--to", "day", SEGMENT, "--lossy", "--since-start", "--count", 481)[0] == 0
    with Journal.open("day") as journal:
        *_, before, last = recorded(journal)
        assert isinstance(before, Recorded) and isinstance(last, Recorded)
        assert 61440 < before.at < 65536 < last.at
        of_ring = state_before(journal, last.count + 1, journal.stats().published).rings[0, last.ring]
        assert (of_ring.sender, of_ring.epoch, of_ring.number) == ("b", 1, 1)


def test_a_killed_recorder_goes_on_without_loss_and_without_doubles() -> None:
    with made() as channel, channel.publisher("a") as a, channel.publisher("b") as b:
        stop = threading.Event()
        sent = 0

        def work() -> None:
            nonlocal sent
            while not stop.is_set():
                publish([a, b], sent, 50)
                sent += 50

        recorder = Command("record", "quotes", "--to", "day", SEGMENT)
        until_kept(channel, "record-day")
        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(6):
            before = sent
            until(lambda before=before: sent > before)
            time.sleep(RANDOM.random() * 0.15)
            recorder.kill()
            recorder = Command("record", "quotes", "--to", "day", SEGMENT)
            until_kept(channel, "record-day")
        stop.set()
        thread.join()
        until(lambda: all(gate.lag == 0 for gate in channel.stats().subscribers[0].gates))
        status, _, error = recorder.end()
        assert status == 0, error
    numbers, losses = what_is_in("day")
    assert losses == []
    assert numbers == {("quotes", "a"): list(range(sent)), ("quotes", "b"): list(range(sent))}


def test_what_the_old_owner_of_a_ring_left_keeps_its_sender() -> None:
    with made(publishers=1, capacity=16384) as channel:
        recorder = Command("record", "quotes", "--to", "day", SEGMENT)
        until_kept(channel, "record-day")
        with channel.publisher("first") as first:
            publish([first], 0, 20)
            until(lambda: channel.stats().subscribers[0].gates[0].lag == 0)
            assert recorder.end()[0] == 0
            publish([first], 20, 20)
        with channel.publisher("second") as second:  # the reader does not know the sender of what is left
            publish([second], 0, 20)
        recorder = Command("record", "quotes", "--to", "day", SEGMENT)
        until(lambda: channel.stats().subscribers[0].gates[0].lag == 0)
        assert recorder.end()[0] == 0
    numbers, losses = what_is_in("day")
    assert numbers == {("quotes", "first"): list(range(40)), ("quotes", "second"): list(range(20))}
    assert losses == []


def publish_while(condition: Callable[[], bool], publisher: Publisher, numbers: list[int]) -> int:
    """Publishes these numbers while the condition holds. Returns how many were published."""
    for count, number in enumerate(numbers):
        if not condition():
            return count
        publish([publisher], number, 1)
    return len(numbers)


def test_the_sender_behind_an_owner_record_that_a_lossy_recorder_has_not_seen_is_not_known() -> None:
    command = ("record", "quotes", "--to", "day", "--lossy", "--since-start", SEGMENT)

    def state() -> PublisherStats:
        return channel.stats().publishers[0]

    with made(publishers=1, subscribers=1) as channel:
        old, second, third = ([9 * i for i in range(n)] for n in (200, 2, 200))  # records of 64 bytes
        with channel.publisher("first") as publisher:
            # What an owner has announced becomes padding, up to the next owner's record. A reader may begin at the
            # first record boundary of an eighth of the ring. Here that is the end of the next owner's record.
            old = old[: publish_while(lambda: state().claimed != 2560 - 64, publisher, old)]
            recorder = Command(*command)
            until(lambda: os.path.exists(os.path.join(os.environ["FLYRING_DIR"], "day.journal", "control")))
            until(lambda: len(what_is_in("day")[0].get(("quotes", "first"), ())) == len(old))
            recorder.end()
        with channel.publisher("second") as publisher:
            publish_while(lambda: True, publisher, second)
            assert state().published == 2560 + 2 * 64
        with channel.publisher("third") as publisher:
            third = third[: publish_while(lambda: state().published < 2048 + 4096, publisher, third)]
            assert state().claimed <= 2560 + 4096 - 8  # so 2560 is the oldest place at which a reader may begin
        recorder = Command(*command)
        until(lambda: len(what_is_in("day")[0].get(("quotes", "third"), ())) == len(third))
        recorder.end()
    numbers, losses = what_is_in("day")
    assert losses == []
    assert numbers == {("quotes", "first"): old, ("quotes", ""): second, ("quotes", "third"): third}


def test_what_is_in_the_journal_above_the_gate_is_not_written_again() -> None:
    """The recorder died between the journal and the gate: here by hand, the gate goes back."""
    with made(publishers=1) as channel, channel.publisher("a") as a:
        recorder = Command("record", "quotes", "--to", "day", SEGMENT)
        until_kept(channel, "record-day")
        publish([a], 0, 5)
        gate = channel.header.gate(0, 0)
        until(lambda: channel.stats().subscribers[0].gates[0].lag == 0)
        low = channel._attached.memory.load64(gate)
        publish([a], 5, 10)
        until(lambda: channel.stats().subscribers[0].gates[0].lag == 0)
        recorder.kill()
        channel._attached.memory.store64(gate, low)
        channel._attached.memory.store64_plain(gate + layout.GATE_COUNT, 5)
        recorder = Command("record", "quotes", "--to", "day", SEGMENT)
        until_kept(channel, "record-day")
        publish([a], 15, 1)
        until(lambda: channel.stats().subscribers[0].gates[0].lag == 0)
        recorder.end()
    assert what_is_in("day") == ({("quotes", "a"): list(range(16))}, [])


def test_publishers_wait_for_a_recorder_that_is_stopped_and_it_is_told() -> None:
    with made(publishers=1) as channel, channel.publisher("a") as a:
        recorder = Command("record", "quotes", "--to", "day", SEGMENT)
        until_kept(channel, "record-day")
        recorder.process.send_signal(signal.SIGSTOP)
        sent = 0
        while a.offer(bytes(8), 1):
            sent += 1
        assert sent < 100
        assert channel.stats().publishers[0].blocked_by == (0,)
        recorder.process.send_signal(signal.SIGCONT)
        publish([a], 0, 1)
        until(lambda: channel.stats().subscribers[0].gates[0].lag == 0)
        assert recorder.end()[0] == 0


def test_a_slot_that_was_evicted_is_taken_again_and_the_loss_is_exact() -> None:
    with made(publishers=1) as channel, channel.publisher("a") as a:
        recorder = Command("record", "quotes", "--to", "day", SEGMENT)
        until_kept(channel, "record-day")
        publish([a], 0, 10)
        until(lambda: channel.stats().subscribers[0].gates[0].lag == 0)
        recorder.process.send_signal(signal.SIGSTOP)
        assert main(["evict", "quotes", "0"]) == 0
        publish([a], 10, 500)
        recorder.process.send_signal(signal.SIGCONT)
        until_kept(channel, "record-day")
        until(lambda: channel.stats().subscribers[0].epoch > 2 and not channel.stats().subscribers[0].evicting)
        publish([a], 510, 10)
        until(lambda: channel.stats().subscribers[0].gates[0].lag == 0)
        status, _, error = recorder.end()
    assert status == 1
    assert "lost 500" in error
    numbers, losses = what_is_in("day")
    assert numbers["quotes", "a"] == [*range(10), *range(510, 520)]
    assert [one.messages for one in losses] == [500]


@pytest.mark.parametrize("kind", ["inbox", "broadcast", "queue"])
def test_a_lossy_recorder_records_every_kind_and_its_losses_are_exact(kind: str) -> None:
    options: dict[str, object] = {"kind": kind, "capacity": 4096}
    options |= {"inbox": {"publishers": 1}, "broadcast": {"publishers": 1}, "queue": {"producers": 1}}[kind]
    with Channel.create("quotes", **options) as channel, channel.publisher("a") as a:
        first = Command("record", "quotes", "--to", "day", "--lossy", "--since-start", SEGMENT)
        until(lambda: os.path.exists(os.path.join(os.environ["FLYRING_DIR"], "day.journal", "control")))
        until(lambda: stats("day").messages > 1)
        sent = 0
        if kind == "broadcast":
            publish([a], 0, 20)
            until(lambda: len(what_is_in("day")[0].get(("quotes", "a"), ())) == 20)
            first.process.send_signal(signal.SIGSTOP)
            publish([a], 20, 1000)
            first.process.send_signal(signal.SIGCONT)
            sent = 1020
        else:
            while a.offer(sent.to_bytes(8, "little") * (1 + sent % 9), 1 + sent % 3):
                sent += 1
        last = sent - 1
        until(lambda: what_is_in("day")[0].get(("quotes", "a"), [-1])[-1] == last)
        first.end()
        numbers, losses = what_is_in("day")
        found = numbers["quotes", "a"]
        assert len(found) + sum(one.messages for one in losses) == sent
        assert found == sorted(set(found))
        assert bool(losses) == (kind == "broadcast")
        again = Command("record", "quotes", "--to", "day", "--lossy", "--for", "0.2s", SEGMENT)
        again.end(None)
        assert what_is_in("day") == (numbers, losses)  # nothing twice


def test_reading_begins_anywhere_and_knows_source_and_sender() -> None:
    schema = Schema.load(SPEC / "sbe" / "prices.xml")
    with made(schema=schema) as channel, channel.publisher("a") as a, channel.publisher("b") as b:
        recorder = Command("record", "quotes", "--to", "day", "--segment-size=256k")
        until_kept(channel, "record-day")
        publish([a, b], 0, 4000)
        until(lambda: all(gate.lag == 0 for gate in channel.stats().subscribers[0].gates))
        recorder.end()
    with Journal.open("day") as journal:
        every = [one for one in recorded(journal) if isinstance(one, Recorded)]
        assert len(every) == 8000
        assert every[0].source.schema.decode() == schema.text
        for at in (0, 1, 777, 4001, 7999):
            wanted = every[at]
            found = next(iter(recorded(journal, JournalStart.at_number(wanted.count))))
            assert found == wanted
        state = state_before(journal, journal.stats().messages, journal.stats().published)
        assert sorted(one.number for one in state.rings.values()) == [4000, 4000]
    status, out, error = run("journal", "cat", "day", "--from-number", every[5].count, "--count", 2, "--sender", "a")
    found_lines = [json.loads(line) for line in out.splitlines()]
    wanted_numbers = [one.count for one in every[5:] if one.sender == "a"][:2]
    assert [(line["number"], line["sender"]) for line in found_lines] == [(number, "a") for number in wanted_numbers]
    assert (status, "not decoded: 2" in error) == (1, True)  # these bytes are no messages of the schema


def test_files_are_removed_by_size_and_the_rest_is_read() -> None:
    with made(publishers=1) as channel, channel.publisher("a") as a:
        recorder = Command("record", "quotes", "--to", "day", SEGMENT, "--max-size", "256k")
        until_kept(channel, "record-day")
        publish([a], 0, 12000)
        until(lambda: channel.stats().subscribers[0].gates[0].lag == 0)
        until(lambda: stats("day").trimmed > 0)
        recorder.end()
    numbers, losses = what_is_in("day")
    found = numbers["quotes", "a"]
    assert losses == []
    assert 0 < found[0] < found[-1] == 11999
    assert found == list(range(found[0], 12000))


def test_progress_in_a_terminal_is_one_line() -> None:
    with made(publishers=1) as channel, channel.publisher("a") as a:
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(sys.executable, [sys.executable, "-m", "flyring.cli", "record", "quotes", "--to", "day",
                                      "--every", "0.05", SEGMENT])  # fmt: skip
        until_kept(channel, "record-day")
        publish([a], 0, 10)
        text = ""
        while "10 messages" not in text:
            text += os.read(terminal, 4096).decode()
        os.kill(pid, signal.SIGINT)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        os.close(terminal)
    assert "\r" in text
    assert "lost 0" in text
    assert "lag 0" in text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nothing", "--to", "day", SEGMENT], "nothing"),
        (["work", "--to", "day", SEGMENT], "use --lossy"),
        (["quotes", "--to", "mine"], "no recording"),
        (["large", "--to", "day", SEGMENT], "--segment-size"),
    ],
)
def test_what_cannot_be_recorded_is_told(arguments: list[str], text: str) -> None:
    with made(), Channel.create("work", kind="queue", producers=1, workers=1), made("large", capacity=1 << 20):
        Journal.create("mine", segment_size=65536).close()
        status, _, error = run("record", *arguments)
    assert status == 2
    assert text in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("text", "seconds"), [("10ms", 0.01), ("1.5", 1.5), ("30s", 30), ("10m", 600), ("2h", 7200), ("7d", 604_800)]
)
def test_a_time_may_have_a_unit(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("option", ["--sync=10us", "--sync=-1", "--for=", "--max-size=1MB", "--segment-size=-1"])
def test_a_size_or_time_that_is_none_is_refused(option: str) -> None:
    status, _, error = run("record", "quotes", "--to", "day", option)
    assert status == 2
    assert "; write 65536" in error or ": write 10ms" in error


def test_progress_as_json_has_rates_losses_and_lag() -> None:
    with made(publishers=1):
        recorder = Command("record", "quotes", "--to", "day", SEGMENT, "--json", "--every", "0.05", "--for", "0.3")
        status, out, _ = recorder.end(None)
    assert status == 0
    every = [json.loads(line) for line in out.splitlines()]
    assert len(every) > 1
    assert every[-1]["end"] is True
    assert {"messages_per_second", "lost", "lag", "lag_bytes", "waiting"} <= every[-1].keys()


def test_cat_follows_a_recording_and_ctrl_c_ends_it() -> None:
    with made(publishers=1) as channel, channel.publisher("a") as a:
        recorder = Command("record", "quotes", "--to", "day", SEGMENT)
        until_kept(channel, "record-day")
        a.send(b"one")
        until(lambda: stats("day").messages > 2)
        follower = Command("journal", "cat", "day", "--follow")
        assert follower.process.stdout is not None
        assert json.loads(follower.process.stdout.readline())["text"] == "one"
        a.send(b"two")
        assert json.loads(follower.process.stdout.readline())["text"] == "two"
        assert follower.end()[0] == 0
        assert recorder.end()[0] == 0


def test_a_damaged_recording_is_read_around_the_damage_and_it_is_told() -> None:
    with made(publishers=1) as channel, channel.publisher("a") as a:
        recorder = Command("record", "quotes", "--to", "day", SEGMENT)
        until_kept(channel, "record-day")
        publish([a], 0, 3000)
        until(lambda: channel.stats().subscribers[0].gates[0].lag == 0)
        assert recorder.end()[0] == 0
    with Journal.open("day", read_only=True) as journal:
        every = [one for one in recorded(journal) if isinstance(one, Recorded)]
        Folder(journal.path).flip(every[1500].at + 40)
    status, out, error = run("journal", "cat", "day")
    found = {json.loads(line)["position"] for line in out.splitlines()}
    missing = [one for one in every if one.position not in found]
    assert every[1500] in missing
    assert 0 < len(missing) < 1100
    assert status == 1
    (told,) = re.findall(r"DAMAGED from (\d+) to (\d+): (\d+) messages", error)
    begin, end, messages = map(int, told)
    assert (begin, end) == (begin // 64 * 64, end // 64 * 64)
    assert begin <= min(one.at for one in missing)
    assert max(one.at for one in missing) < end
    assert messages - len(missing) in (0, 3)  # with a state: source, sender, state
    status, out, _ = run("journal", "check", "day", "--json")
    assert status == 1
    assert json.loads(out)["damages"] == [{"from": begin, "to": end, "messages": messages}]
