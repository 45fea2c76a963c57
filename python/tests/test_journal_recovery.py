# SPDX-License-Identifier: Apache-2.0
"""Journals after a power loss and after failed syncs (spec/journal.md 5, 7)."""

from __future__ import annotations

import errno
import os
import random
import shutil
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from flyring import IoError, Journal, JournalStart, ViewAliveError, layout
from flyring._identity import Identity
from journals import OTHER_BOOT, THIS_BOOT, Folder, Z, made, payloads, read_all
from journals_power import Disk


def boot(number: int) -> Identity:
    return Identity(boot_id=uuid.UUID(int=100 + number))


def reopened(identity: Identity = OTHER_BOOT) -> Journal:
    return Journal.open("j", _identity=identity)


def test_nothing_is_lost_when_the_disk_has_all() -> None:
    with made(_identity=THIS_BOOT) as journal, journal.writer(helper=False) as writer:
        writer.append_many(payloads(1000))
        end = writer.position
        writer.sync()
    with reopened() as journal:
        assert journal.stats().needs_recovery
        assert read_all(journal) == payloads(1000)
        with journal.reader() as reader, journal.writer(helper=False) as writer:
            found = writer.recovery
            assert found is not None and found.messages == 1000 and found.position == end + 64 and found.reason == 1
            assert found.next % Z == 0 and found.next > found.position
            assert not journal.stats().needs_recovery
            writer.append(b"more")
            seen: list[bytes] = []
            while reader.poll(lambda message: seen.append(bytes(message))):
                pass
            assert seen == [*payloads(1000), b"more"] and reader.cuts == 1 and reader.lost == 0
        assert Folder(journal.path).messages() == [*payloads(1000), b"more"]
        with journal.writer(helper=False) as writer:
            assert writer.recovery is None


def test_end_is_cut_off() -> None:
    """What is not proven is gone: a record behind the last check, though it looks whole."""
    with made(_identity=THIS_BOOT) as journal, journal.writer(helper=False) as writer:
        writer.append_many(payloads(100))
        writer.sync()
        proven = writer.position
        writer.append_many(payloads(50))
        reached = writer.position
        writer.close(sync=False)
    with reopened() as journal:
        assert read_all(journal) == payloads(100)
        kept = JournalStart.at_position(reached - 128)
        with journal.writer(helper=False) as writer:
            found = writer.recovery
            assert found is not None
            assert (found.position, found.reached, found.messages, found.next) == (proven, reached, 100, Z)
            position = writer.append(b"next")
            assert position == Z + 64
        with journal.reader(kept) as reader:  # a position that was handed out leads to no other record
            message = reader.take()
            assert message == b"next" and reader.cuts == 1 and reader.number == 101


def test_a_reader_that_skips_in_another_boot_loses_only_what_was_durable() -> None:
    """Below ``synced`` it loses what is damaged, exactly. What is not proven behind it is not damaged: it waits there,
    and the recovery cuts it off."""
    with made(_identity=THIS_BOOT) as journal, journal.writer(helper=False) as writer:
        places = [writer.append(payload) for payload in payloads(1000)]
        writer.sync()
        places += [writer.append(payload) for payload in payloads(1000, 1000)]
        writer.close(sync=False)
    there = Folder(journal.path)
    for message in (300, 1500):
        there.flip(places[message] + 20)
    with reopened() as journal, journal.reader(skip_damaged=True) as reader:
        read = 0
        while more := reader.poll(lambda message: None):
            read += more
        lost, end = reader.lost, reader.number
        assert lost > 0 and places[300 + lost] - places[300] <= 65536 + 1024
        assert end == read + lost and 1000 < end <= 1500
        with journal.writer(helper=False) as writer:
            assert writer.recovery is not None and writer.recovery.messages == end
            writer.append(b"next")
            seen: list[bytes] = []
            while reader.poll(lambda message: seen.append(bytes(message))):
                pass
            assert (seen, reader.lost, reader.cuts) == ([b"next"], lost, 1)


def test_first_wrong_check_ends_the_walk() -> None:
    with made(_identity=THIS_BOOT) as journal, journal.writer(helper=False) as writer:
        for payload in payloads(100):
            writer.append(payload)
            writer._make_check()
        writer.close(sync=False)
    there = Folder(journal.path)
    checks = [one.position for one in there.records() if one.type == -3]
    there.flip(checks[40] - 10)
    with reopened() as journal, journal.writer(helper=False) as writer:
        found = writer.recovery
        assert found is not None and found.position == checks[39] + 64 and found.messages == 39
        assert found.reached == checks[40]
        assert read_all(journal) == payloads(39)


def test_a_kill_inside_the_recovery() -> None:
    """A recovery that is killed, at any sync of it, is done again."""
    with made(_identity=THIS_BOOT, consumers=2) as journal, journal.writer(helper=False) as writer:
        writer.append_many(payloads(100))
        writer.sync()
        with journal.consumer("ahead") as ahead, journal.consumer("behind") as behind:
            writer.append_many(payloads(700, 200))
            while ahead.take() is not None:
                pass
            for _ in range(30):
                behind.take()
        writer.close(sync=False)
    before = Folder(journal.path).copy("before")
    for kill_at in range(20):
        shutil.rmtree(journal.path)
        shutil.copytree(before.path, journal.path)
        calls = 0

        class KilledError(Exception):
            pass

        def counted(real: Any, most: int = kill_at) -> Any:
            def sync(fd: int) -> None:
                nonlocal calls
                calls += 1
                if calls > most:
                    raise KilledError
                real(fd)

            return sync

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "fsync", counted(os.fsync))
            patch.setattr(os, "fdatasync", counted(os.fdatasync))
            with reopened() as one:
                try:
                    one.writer(helper=False).close(sync=False)
                except KilledError:
                    pass
                else:
                    assert kill_at > 3
                    break
        with reopened() as one:
            read_all(one)
            with one.writer(helper=False) as writer:
                writer.append(b"on")
            found = Folder(one.path).messages()
            assert found[:100] == payloads(100) and found[-1] == b"on"
            with one.consumer("behind") as behind, one.consumer("ahead") as ahead:
                assert behind.number == 30 and behind.take() == payloads(100)[30]
                assert ahead.take() == b"on"
    else:
        raise AssertionError("the recovery did not end")


def test_gates(folder: Path) -> None:
    with made(_identity=THIS_BOOT, consumers=3) as journal, journal.writer(helper=False) as writer:
        writer.append_many(payloads(100))
        writer.sync()
        with journal.consumer("a") as a, journal.consumer("b") as b:
            for _ in range(60):
                a.take()
            writer.append_many(payloads(50))
            for _ in range(130):
                b.take()
        writer.close(sync=False)
    with reopened() as journal:
        with journal.writer(helper=False) as writer:
            assert writer.recovery is not None
            gates = {one.name: (one.position, one.behind) for one in journal.stats().consumers}
            assert gates["b"] == (writer.recovery.next, 0) and gates["a"][1] == 40
            writer.append(b"x")
        with journal.consumer("a") as a, journal.consumer("b") as b:
            assert (a.number, a.lost) == (60, 0)
            assert (b.number, b.size) == (100, 1) and b.pop() == b"x"


def test_failed_sync(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    disk = Disk(monkeypatch, folder / "j.journal")
    journal = made(_identity=THIS_BOOT)
    writer = journal.writer(helper=False)
    writer.append_many(payloads(100))
    disk.fail_at = 0
    with pytest.raises(IoError) as error:
        writer.sync()
    assert error.value.errno == 5
    disk.fail_at = None
    for call in (lambda: writer.append(b"x"), writer.sync, lambda: writer.claim(1)):
        with pytest.raises(IoError) as error:
            call()
        assert error.value.errno == 5
    writer.close()
    assert journal.stats().failed and journal.stats().synced == 0
    assert read_all(journal) == payloads(100)  # readers go on
    disk.fail_at = 0
    with pytest.raises(IoError):
        journal.writer(helper=False)
    assert journal.stats().failed
    disk.fail_at = None
    with journal.writer(helper=False) as writer:
        assert not journal.stats().failed and writer.recovery is None
        assert journal.stats().synced > 0
        writer.append(b"on")
    assert Folder(journal.path).messages() == [*payloads(100), b"on"]
    journal.close()


def test_sync_is_io_if_a_segment_was_removed_by_hand(folder: Path) -> None:
    with made() as journal, journal.writer(helper=False) as writer:
        while writer.position < 2 * Z + 1000:
            writer.append(b"x" * 1000)
        segment = Folder(journal.path).segment(Z)
        kept = segment.rename(folder / "kept")
        for _ in range(2):
            with pytest.raises(IoError) as error:
                writer.sync()
            assert (error.value.call, error.value.errno, error.value.path) == ("open", errno.ENOENT, str(segment))
            assert journal.stats().synced == 0 and not journal.stats().failed
            writer.append(b"goes on")
        kept.rename(segment)
        writer.sync()
        assert journal.stats().synced > 2 * Z


def test_close_within_recovery_progress() -> None:
    with made(_identity=THIS_BOOT) as journal, journal.writer(helper=False) as writer:
        writer.append(b"x")
    for take in (lambda one: one.writer(helper=False).close(), lambda one: one.push(b"y")):
        refused: list[str] = []

        def closes(done: int, all_bytes: int, refused: list[str] = refused) -> None:
            with pytest.raises(ViewAliveError):
                other.close()
            refused.append("view-alive")

        identity = Identity(boot_id=uuid.uuid4())
        with Journal.open("j", recovery_progress=closes, _identity=identity) as other:
            take(other)
            assert refused


def test_failed_sync_of_another_process(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    from flyring.journal_sync import make_durable

    disk = Disk(monkeypatch, folder / "j.journal")
    with made() as journal, Journal.open("j") as other:
        writer = journal.writer(helper=False)
        writer.append(b"x")
        writer._make_check()
        disk.fail_at = 0
        with pytest.raises(IoError):
            make_durable(other._files)
        disk.fail_at = None
        with pytest.raises(IoError):
            writer.append(b"y")
        writer.close()
        assert not make_durable(other._files)  # never tried again


def test_failed_sync_of_the_helper(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer tells the number of the error that its helper met."""

    def stale(fd: int) -> None:
        raise OSError(errno.ESTALE, "stale")

    with made(sync=0.001) as journal:
        writer = journal.writer()
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", stale)
            with pytest.raises(IoError) as error:
                for _ in range(2000):
                    writer.append(b"x")
                    time.sleep(0.001)
        for _ in range(2):
            with pytest.raises(IoError) as error:
                writer.append(b"x")
            assert error.value.errno == errno.ESTALE
        writer.close()


def test_pages_dropped_after_a_failed_sync(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    disk = Disk(monkeypatch, folder / "j.journal")
    with made() as journal:
        writer = journal.writer(helper=False)
        writer.append_many(payloads(100))
        writer.sync()
        end = writer.position
        writer.append_many(payloads(100))
        reader, looking = journal.reader(), journal.reader()
        for each in (reader, looking):
            while each.poll(lambda message: None):
                pass
        disk.fail_at = 0
        with pytest.raises(IoError):
            writer.sync()
        disk.fail_at = None
        writer.close()
        there = Folder(journal.path)
        there.write(end + 640, bytes(1024))  # the kernel had not written it, and read it again
        with journal.writer(helper=False) as writer:
            found = writer.recovery
            assert found is not None and found.reason == 2 and found.position == end and found.messages == 100
            writer.append(b"on")
            message = reader.take(timeout=5)  # a wait looks at published each time
            assert message == b"on" and reader.cuts == 1
            looks = 1
            while (message := looking.take()) is None:  # of the looks that find nothing, one of 1024 does
                looks += 1
            assert message == b"on" and looking.cuts == 1 and looks <= 1024
        reader.close()
        looking.close()
        assert there.messages() == [*payloads(100), b"on"]


def test_sync_each(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    disk = Disk(monkeypatch, folder / "j.journal")
    with made(_identity=THIS_BOOT, sync="each") as journal, journal.writer(helper=False) as writer:
        for payload in payloads(50):
            writer.append(payload)
        with writer.claim(3) as claim:
            claim[:] = b"abc"
        writer.append_many([b"d", b"e"])
        before = disk.syncs
        disk.lose_power(random.Random(1), folder / "lost.journal")
        assert disk.syncs == before
    with Journal.open(str(folder / "lost.journal"), _identity=OTHER_BOOT) as lost, lost.writer(helper=False):
        assert read_all(lost) == [*payloads(50), b"abc", b"d", b"e"]


@pytest.mark.parametrize("seed", range(40))
def test_power_losses(monkeypatch: pytest.MonkeyPatch, folder: Path, seed: int) -> None:
    """Random work, syncs and power losses: all up to the last sync is there, nothing half or foreign, and a position
    that was handed out never leads to another record."""
    chance = random.Random(seed)
    path, number = folder / "j.journal", 0
    synced: list[bytes] = []
    handed_out: dict[int, bytes] = {}
    gate = 0
    disk = Disk(monkeypatch, path)
    made(_identity=boot(0), consumers=2).close()
    for life in range(1, 6):
        with Journal.open("j", _identity=boot(life - 1)) as journal:
            writer = journal.writer(helper=False)
            found = read_all(journal)
            assert found[: len(synced)] == synced, life
            assert len(set(found)) == len(found)
            expected = list(found)
            with journal.consumer("c") as consumer:
                assert consumer.number >= min(gate, len(found))
                for _ in range(chance.randint(20, 600)):
                    kind = chance.random()
                    if kind < 0.9:
                        payload = number.to_bytes(8, "little") * chance.choice((1, 4, 30, 300))
                        number += 1
                        expected.append(payload)
                        position = writer.append(payload)
                        if chance.random() < 0.2:
                            handed_out[position] = payload
                    elif kind < 0.93:
                        writer.sync()
                        synced = list(expected)
                    elif kind < 0.95:
                        consumer.take()
                    elif kind < 0.96:
                        consumer.sync()
                        gate = consumer.number
                    elif kind < 0.98:
                        disk.note()
                    else:
                        writer._make_check()
            assert Folder(journal.path).messages() == expected
            if chance.random() < 0.3:
                writer.close()
                synced = list(expected)
            else:
                writer.close(sync=False)
        lost = folder / "lost.journal"
        disk.lose_power(chance, lost)
        shutil.rmtree(path)
        os.rename(lost, path)
        disk.durable = {entry.inode(): Path(entry.path).read_bytes() for entry in os.scandir(path)}
        disk.history = {}
        disk.names = disk._names()
        with Journal.open("j", _identity=boot(life)) as journal:  # a private reader before the recovery
            private = read_all(journal)
            assert private[: len(synced)] == synced
            for position, payload in handed_out.items():
                try:
                    reader = journal.reader(JournalStart.at_position(position))
                except Exception:
                    continue
                with reader:
                    message = reader.take()
                    assert message is None or message.position > position or message == payload
            with journal.writer(helper=False) as writer:
                assert writer.recovery is not None
                after = read_all(journal)
                assert after == private
                writer.append(number.to_bytes(8, "little"))
                number += 1
                synced = [*after, (number - 1).to_bytes(8, "little")]
            there = Folder(journal.path)
            positions = {one.position: one.payload for one in there.records() if one.type > 0}
            for position, payload in handed_out.items():
                assert positions.get(position, payload) == payload
                with journal.reader(JournalStart.at_position(position)) as reader:
                    message = reader.take()
                    assert message is not None and (message.position > position or message == payload)
            handed_out = {position: payload for position, payload in handed_out.items() if position in positions}
            assert journal.stats().trimmed == 0 and not journal.stats().needs_recovery
    assert layout.JOURNAL_CUT_POWER_LOSS == 1
