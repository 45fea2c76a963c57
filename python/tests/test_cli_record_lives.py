# SPDX-License-Identifier: Apache-2.0
"""``flyring record`` of services, of channels that come, go and lie on a disk, and a power loss of the recording
(spec/journal.md 9)."""

from __future__ import annotations

import json
import os
import signal
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from flyring import Channel, ChannelReplacedError, Journal, layout
from flyring.cli.recording import Recorded, recorded
from journals import Folder, Z
from recordings import RANDOM, Command, publish, run, stats, until, until_kept, what_is_in
from services import echo, service

SEGMENT = "--segment-size=64k"


def made(name: str = "quotes", capacity: int = 4096) -> Channel:
    return Channel.create(name, "broadcast", publishers=2, subscribers=4, capacity=capacity)


def lag(channel: Channel) -> int:
    return sum(gate.lag for gate in channel.stats().subscribers[0].gates)


def test_a_service_is_recorded_lossy_with_questions_and_answers() -> None:
    with service("prices") as channel, channel.server("desk") as server, channel.client("me") as client:
        status, _, error = run("record", "prices", "--to", "day", SEGMENT)
        assert (status, "kind service" in error, "use --lossy" in error) == (2, True, True)
        recorder = Command("record", "prices", "--to", "day", "--lossy", SEGMENT)
        until(lambda: "day" in [path.stem for path in Path(channel.path).parent.glob("*.journal")])
        until(lambda: stats("day").messages > 1)
        for number in range(20):
            call = client.start(b"price %d?" % number, 7)
            assert server.poll(echo) == 1
            assert client.poll() == 1
            assert bytes(call.result()) == b"price %d?" % number
        until(lambda: stats("day").messages >= 2 + 2 * 20)
        assert recorder.end()[0] == 0
    status, out, error = run("journal", "cat", "day")
    lines = [json.loads(line) for line in out.splitlines()]
    expected = [f"price {number}?" for number in range(20)]  # what is behind the prefixes
    for sender in ("me", "desk"):
        assert [line["text"] for line in lines if line["sender"] == sender] == expected
    assert (status, len(lines), {line["type"] for line in lines}) == (0, 40, {7}), error
    with service("again"):
        status, _, error = run("replay", "day", "--fast", "--to", "again")
    assert (status, "its calls are not played again" in error) == (2, True)


def test_a_channel_that_is_replaced_is_drained_and_the_new_one_recorded() -> None:
    with made() as old, old.publisher("a") as a:
        recorder = Command("record", "quotes", "--to", "day", SEGMENT)
        until_kept(old, "record-day")
        publish([a], 0, 10)
        assert run("rm", "quotes", "--force")[0] == 0
        with made() as new, new.publisher("b") as b:
            until_kept(new, "record-day")
            publish([b], 0, 5)
            number = 10
            while number < 210:  # more than the old ring holds: it is read until its publisher has gone
                with suppress(ChannelReplacedError):  # a publisher that is held back is told now and then
                    publish([a], number, 1)
                    number += 1
            publish([b], 5, 5)
            until(lambda: lag(old) == lag(new) == 0)
        a.close()
        status, _, error = recorder.end()
    assert status == 0, error
    assert what_is_in("day") == ({("quotes", "a"): list(range(210)), ("quotes", "b"): list(range(10))}, [])
    with Journal.open("day", read_only=True) as journal:
        sources = {one.sender: one.source for one in recorded(journal) if isinstance(one, Recorded)}
    assert (sources["a"].channel_id, sources["b"].channel_id) == (old.id, new.id)


def test_channels_of_a_pattern_that_come_later_are_recorded(tmp_path: Path) -> None:
    recorder = Command("record", "quotes-*", f"{tmp_path}/disk-*", "--to", "day", SEGMENT)
    until(lambda: run("journal", "info", "day")[0] == 0)
    with made("quotes-1") as one, made(f"{tmp_path}/disk-1.ring") as two, made("other"):
        until_kept(one, "record-day")
        until_kept(two, "record-day")
        with one.publisher("a") as a, two.publisher("b") as b:
            publish([a, b], 0, 300)
            until(lambda: lag(one) == lag(two) == 0)
        status, _, error = recorder.end()
    assert status == 0, error
    expected = list(range(300))
    assert what_is_in("day") == ({("quotes-1", "a"): expected, ("disk-1", "b"): expected}, [])


def unsynced(folder: Folder) -> int:
    """How many bytes a power loss takes."""
    kept = folder.word(layout.JOURNAL_CONTROL_SYNCED) + layout.JOURNAL_CHECK_SIZE
    return folder.word(layout.JOURNAL_CONTROL_PUBLISHED) - kept


def stops_unsynced(recorder: Command, folder: Folder) -> bool:
    """Stops the recorder. True if it has messages that are not synced then; else it goes on."""
    if unsynced(folder) <= 0:
        return False
    recorder.process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, recorder.process.pid, os.WSTOPPED)
    if unsynced(folder) > 0:
        return True
    recorder.process.send_signal(signal.SIGCONT)
    return False


def lose_power(folder: Folder) -> None:
    """Drops all that was not synced."""
    kept = folder.word(layout.JOURNAL_CONTROL_SYNCED) + layout.JOURNAL_CHECK_SIZE
    for position in folder.segments():
        if position >= kept:
            folder.segment(position).unlink()
        elif position + Z > kept:
            folder.write(kept, bytes(position + Z - kept))
    folder.store(layout.JOURNAL_CONTROL_BOOT_ID, 1)


def test_a_power_loss_of_the_recording_loses_nothing_of_a_channel_on_a_disk(folder: Path, tmp_path: Path) -> None:
    """A gate is stored only behind what is synced, so the next recorder reads again what the disk has lost."""
    path, sent = f"{tmp_path}/quotes.ring", 0
    with made(path, 32768) as channel, channel.publisher("a") as a, channel.publisher("b") as b:
        stop = threading.Event()

        def work() -> None:
            nonlocal sent
            while not stop.is_set():
                publish([a, b], sent, 20)
                sent += 20

        thread = threading.Thread(target=work)
        recorder = Command("record", path, "--to", "day", SEGMENT)
        until_kept(channel, "record-day")
        thread.start()
        for _ in range(3):
            wanted = stats("day").messages + RANDOM.randrange(100, 1000)
            until(lambda wanted=wanted: stats("day").messages > wanted)
            journal = Folder(folder / "day.journal")
            until(lambda recorder=recorder, journal=journal: stops_unsynced(recorder, journal))
            recorder.kill()
            assert unsynced(journal) > 0
            lose_power(journal)
            recorder = Command("record", path, "--to", "day", SEGMENT)
            until_kept(channel, "record-day")
        stop.set()
        thread.join()
        until(lambda: lag(channel) == 0)
        status, _, error = recorder.end()
        assert status == 0, error
    assert what_is_in("day") == ({("quotes", "a"): list(range(sent)), ("quotes", "b"): list(range(sent))}, [])


@pytest.mark.parametrize("arguments", [[], ["--lossy"]])
def test_a_pattern_that_matches_nothing_yet_waits(arguments: list[str]) -> None:
    recorder = Command("record", "nothing-*", "--to", "day", SEGMENT, "--for", "0.1", *arguments)
    assert recorder.end(None)[0] == 0
    assert what_is_in("day") == ({}, [])
