# SPDX-License-Identifier: Apache-2.0
"""The command ``flyring`` on channels with a stock Agrona process at one end (spec/channel.md 6.15)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agrona import OneToOneRingBuffer
from conftest import Child
from flyring import Channel, layout
from flyring._core import Memory
from flyring.cli.check import examine
from flyring.cli.foreign import WalkOfAgrona
from flyring.cli.image import open_image
from flyring.cli.report import Finding, Findings
from test_cli import Command, flyring  # noqa: F401
from test_foreign import changed, make, word

WRITTEN = 5  # laps


def check() -> Findings:
    with open_image("agrona") as image:
        return examine(image)


def found() -> list[Finding]:
    return check().found


@pytest.fixture
def read_by_agrona() -> Iterator[Channel]:
    """A channel in which Flyring has published some laps and closed, and Agrona has not read the last 20 messages."""
    with make("subscriber") as channel, channel.publisher("feed") as publisher:
        reader = OneToOneRingBuffer(channel)
        while publisher.position < WRITTEN * 4096:
            if publisher.offer(bytes(100), 7) is None:
                reader.read(lambda kind, data: None, 1)
        reader.put(reader.base + channel.capacity + 640, 1234)  # its heartbeat
        publisher.close()
        yield channel


@pytest.fixture
def written_by_agrona() -> Iterator[Channel]:
    """A channel in which Agrona has written some laps, and Flyring has not read the last messages and has closed."""
    with make("publisher") as channel, channel.subscriber("reader") as subscriber:
        writer = OneToOneRingBuffer(channel)
        while word(channel, "claimed") < WRITTEN * 4096:
            if not writer.write(7, bytes(100)):
                subscriber.poll(lambda message: None, 1)
        writer.put(writer.base + channel.capacity + 512, 9)  # its correlation ids
        subscriber.close()
        yield channel


def test_what_agrona_and_we_write_breaks_no_rule(read_by_agrona: Channel, flyring: Command) -> None:  # noqa: F811
    document = flyring.json("check", "agrona")
    assert (document["broken"], document["left"], document["notes"]) == (0, 0, [])
    assert document["records"] > 25


def test_what_agrona_writes_is_walked_from_the_gate(written_by_agrona: Channel, flyring: Command) -> None:  # noqa: F811
    document = flyring.json("check", "agrona")
    assert (document["broken"], document["left"]) == (0, 0)
    assert document["notes"] == ["subscriber 0 (reader) is kept and no process owns it: messages wait in ring 0"]
    unread = word(written_by_agrona, "claimed") - word(written_by_agrona, "gate")
    assert unread > 3500
    assert unread // 112 <= document["records"] <= unread // 112 + 1  # one may be padding


def test_info_of_a_foreign_subscriber(read_by_agrona: Channel, flyring: Command) -> None:  # noqa: F811
    document = flyring.json("info", "agrona")
    gate, published = word(read_by_agrona, "gate"), word(read_by_agrona, "published")
    assert (document["foreign"], document["file"]["problem"]) == ("subscriber", None)
    (subscriber,), (publisher,) = document["subscribers"], document["publishers"]
    assert (subscriber["state"], subscriber["name"], subscriber["pid"]) == ("foreign", "", 0)
    assert subscriber["gates"] == [{"ring": 0, "position": gate, "lag": published - gate, "lag_messages": -1}]
    assert (publisher["state"], publisher["published"]) == ("closed", published)
    assert "foreign subscriber" in flyring.text("info", "agrona")
    assert "foreign" not in (flyring.text("info", other()))


def test_info_of_a_foreign_publisher(written_by_agrona: Channel, flyring: Command) -> None:  # noqa: F811
    document = flyring.json("info", "agrona")
    gate, claimed = word(written_by_agrona, "gate"), word(written_by_agrona, "claimed")
    assert document["foreign"] == "publisher"
    (subscriber,), (publisher,) = document["subscribers"], document["publishers"]
    assert (publisher["state"], publisher["published"], publisher["messages"]) == ("foreign", claimed, -1)
    assert subscriber["gates"] == [{"ring": 0, "position": gate, "lag": claimed - gate, "lag_messages": -1}]
    assert subscriber["state"] == "away"
    assert "foreign publisher" in flyring.text("info", "agrona")


def other() -> str:
    Channel.create("other", "inbox").close()
    return "other"


@pytest.mark.parametrize("end", ["publisher", "subscriber"])
def test_ls_counts_the_foreign_end_as_live(end: str, flyring: Command) -> None:  # noqa: F811
    make(end).close()
    (one,) = flyring.json("ls")["channels"]
    assert (one["foreign"], one["live_publishers"], one["live_subscribers"]) == (
        end,
        end == "publisher",
        end == "subscriber",
    )
    assert f"inbox, foreign {end}" in flyring.text("ls")


@pytest.mark.parametrize("end", ["publisher", "subscriber"])
def test_evict_is_refused_with_the_reason(end: str, flyring: Command, folder: Path) -> None:  # noqa: F811
    make(end).close()
    before = (folder / "agrona.ring").read_bytes()
    assert "foreign: Agrona needs the slot's position" in flyring.text("evict", "agrona", 0, status=2)
    assert (folder / "agrona.ring").read_bytes() == before


def test_recover_leaves_what_agrona_writes_alone(written_by_agrona: Channel, flyring: Command) -> None:  # noqa: F811
    writer = OneToOneRingBuffer(written_by_agrona)
    with written_by_agrona.subscriber("reader") as subscriber:
        while subscriber.poll(lambda message: None):
            pass
    writer.try_claim(3, 50)  # Agrona is killed there
    before = Path(written_by_agrona.path).read_bytes()
    document = flyring.json("recover", "agrona")
    assert (document["done"], document["failed"], document["live"]) == ([], [], ["publisher 0 (foreign)"])
    assert Path(written_by_agrona.path).read_bytes() == before


def test_recover_frees_our_own_end(child: Callable[..., Child], flyring: Command) -> None:  # noqa: F811
    with make("subscriber") as channel:
        dying = child(
            """
            from flyring import Channel
            publisher = Channel.open("agrona").publisher("feed")
            publisher.offer(b"whole")
            claim = publisher.claim(100)
            print("claimed", flush=True)
            input()
            """
        )
        dying.line()
        assert flyring.json("recover", "agrona")["live"] == ["subscriber 0 (foreign)", "publisher 0"]
        dying.kill()
        assert [finding.kind for finding in found()] == ["claim"]
        document = flyring.json("recover", "agrona")
        assert (document["live"], len(document["done"]), document["failed"]) == (["subscriber 0 (foreign)"], 1, [])
        assert found() == []
        got: list[bytes] = []
        assert OneToOneRingBuffer(channel).read(lambda kind, data: got.append(data)) == 1
        assert got == [b"whole"]


@pytest.mark.parametrize("end", ["publisher", "subscriber"])
def test_recover_does_not_touch_the_foreign_slot(end: str, flyring: Command) -> None:  # noqa: F811
    """Even a foreign slot that looks half-taken by a dead owner is left alone."""
    with make(end) as channel:
        slot = channel.header.publisher_slot(0) if end == "publisher" else channel.header.subscriber_slot(0)
        channel._attached.memory.store32(slot + layout.PUBLISHER_SLOT_NAME_LENGTH, -1)
        assert flyring.json("recover", "agrona")["done"] == []
        assert channel._attached.memory.load32(slot + layout.PUBLISHER_SLOT_NAME_LENGTH) == -1


def test_recover_says_that_a_gate_below_0_cannot_be_helped(flyring: Command) -> None:  # noqa: F811
    with make("publisher") as channel:
        channel._attached.memory.store64(channel.header.gate(0, 0), -1)
        (failed,) = flyring.json("recover", "agrona", status=1)["failed"]
        assert failed["what"].endswith("replace the channel")
        assert word(channel, "gate") == -1


@pytest.mark.parametrize("features", [2, 6])
def test_a_combination_that_cannot_be_is_named(features: int, folder: Path, flyring: Command) -> None:  # noqa: F811
    Channel.create("agrona", "broadcast").close()
    changed(folder, features)
    (finding,) = flyring.json("check", "agrona", status=1)["findings"]
    assert (finding["kind"], finding["offset"]) == ("corrupt-header", layout.HEADER_REQUIRED_FEATURES)
    assert flyring.json("info", "agrona", status=1)["file"]["problem"]["field"] == "required_features"


# Damage: where to write which bytes -> kind and section of a finding

TRAILER = {"published", "messages_begun", "messages_done", "claimed", "head_cache", "gate", "boundary"}
BOTH: list[tuple[str, int, str, str]] = [
    ("gate", -1, "gate", "6.15"),
    ("gate", -2, "gate", "9"),
    ("gate", 4, "gate", "9"),
    ("gate", WRITTEN * 4096 + 8192, "gate-range", "9"),
    ("gate", 0, "gate-range", "9"),
    ("head_cache", WRITTEN * 4096 + 8192, "head-cache", "6.15"),
    ("head_cache", -8, "head-cache", "6.15"),
    ("head_cache", 4097, "head-cache", "6.15"),
    ("head_cache", 4096, "head-cache", "6.15"),
    ("claimed", -8, "claimed", "9"),
    ("slot evicting", 1, "evicting", "6.15"),
    ("slot kept", 0, "kept", "4.2"),
]
OF_AGRONA = [
    ("published", 8, "foreign", "6.15"),
    ("messages_begun", 1, "foreign", "6.15"),
    ("messages_done", 1, "foreign", "6.15"),
    ("boundary", 4096, "foreign", "6.15"),
    ("publisher epoch", 1, "foreign", "6.15"),
    ("record length", 7, "record", "4.6"),
    ("record length", 1032, "record", "4.6"),
    ("record length", -7, "record", "4.6"),
    ("record length", -4000, "record", "4.6"),
    ("record type", -3, "record", "4.6"),
    ("record type", -2, "owner", "4.6"),
    ("behind length", 16, "zero-behind", "6.15"),
]
OF_OURS = [
    ("boundary", 4096, "boundary", "6.15"),
    ("subscriber epoch", 1, "foreign", "6.15"),
    ("record type", -2, "owner", "6.15"),
    ("record length", 1032, "record", "4.6"),
    ("record length", -108, "record", "4.6"),
]


def damage(channel: Channel, what: str, value: int) -> None:
    header, memory = channel.header, channel._attached.memory
    if what in TRAILER:
        memory.store64(header.trailer(0) + getattr(layout, f"TRAILER_{what.upper()}"), value)
    elif what in ("publisher epoch", "subscriber epoch"):
        memory.store64((header.publisher_slot if what[0] == "p" else header.subscriber_slot)(0), value)
    elif what.startswith("slot"):
        at = layout.SUBSCRIBER_SLOT_EVICTING if what.endswith("evicting") else layout.SUBSCRIBER_SLOT_KEPT
        memory.store32(header.subscriber_slot(0) + at, value)
    else:  # the record at the gate, or the bytes behind the last record
        position = word(channel, "claimed" if what.startswith("behind") else "gate")
        at = header.ring(0) + position % channel.capacity + (4 if what.endswith("type") else 0)
        memory.store32(at, value)


@pytest.mark.parametrize(("what", "value", "kind", "section"), BOTH + OF_AGRONA)
def test_damage_with_a_foreign_publisher(
    what: str, value: int, kind: str, section: str, written_by_agrona: Channel
) -> None:
    assert found() == []
    damage(written_by_agrona, what, value)
    findings = found()
    assert ("broken", kind, section) in {(one.severity, one.kind, one.section) for one in findings}, findings


@pytest.mark.parametrize(("what", "value", "kind", "section"), BOTH + OF_OURS)
def test_damage_with_a_foreign_subscriber(
    what: str, value: int, kind: str, section: str, read_by_agrona: Channel
) -> None:
    assert found() == []
    damage(read_by_agrona, what, value)
    findings = found()
    assert ("broken", kind, section) in {(one.severity, one.kind, one.section) for one in findings}, findings


def test_an_unfinished_claim_may_stand_in_the_middle(written_by_agrona: Channel) -> None:
    writer = OneToOneRingBuffer(written_by_agrona)
    with written_by_agrona.subscriber("reader") as subscriber:
        while subscriber.poll(lambda message: None):
            pass
    first, position = writer.try_claim(1, 40), word(written_by_agrona, "claimed")
    assert writer.write(2, bytes(50))
    result = check()
    assert (result.found, result.records) == ([], 1)
    assert len(result.notes) == 1 and "unfinished" in result.notes[0]
    writer.put_int(first - 8, 0)  # Agrona moves the tail before it writes the record
    assert (check().found, check().records) == ([], 0)
    writer.put_int(first - 8, -48)
    writer.put_int(position % 4096, 7)
    assert [finding.kind for finding in found()] == ["record"]  # found behind the unfinished record


class Racing:
    """Memory that calls a function just before the second read."""

    def __init__(self, memory: Memory, happens: Callable[[], None]) -> None:
        self.memory, self.happens, self.reads = memory, happens, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.memory, name)

    def read(self, offset: int, length: int) -> bytes:
        self.reads += 1
        if self.reads == 2:
            self.happens()
        return self.memory.read(offset, length)


def test_what_was_overwritten_while_it_was_walked_is_not_believed(written_by_agrona: Channel) -> None:
    def half_a_lap() -> None:
        writer = OneToOneRingBuffer(written_by_agrona)
        with written_by_agrona.subscriber("reader") as subscriber:
            while subscriber.poll(lambda message: None):
                pass
            for i in range(14):  # so that old record starts lie inside new records
                assert writer.write(1, bytes([255 - i]) * 301)
                assert subscriber.take() is not None

    findings, memory = Findings(), written_by_agrona._attached.memory
    racing: Any = Racing(memory, half_a_lap)
    WalkOfAgrona(written_by_agrona.header, racing, 0, findings).run_from_gate(word(written_by_agrona, "claimed"))
    assert (findings.found, findings.records, racing.reads) == ([], 0, 2)
    assert "overwritten while walked" in findings.notes[0]


def test_check_while_agrona_writes_and_we_read() -> None:
    with make("publisher", capacity=1 << 16) as channel:
        stop = threading.Event()

        def traffic() -> None:
            with Channel.open("agrona") as mine, mine.subscriber() as subscriber:
                writer, i = OneToOneRingBuffer(mine), 0
                while not stop.is_set():
                    i += 1
                    if not writer.write(1 + i % 9, bytes(i * 37 % 1000)) or i % 50 == 0:
                        subscriber.poll(lambda message: None, 60)

        thread = threading.Thread(target=traffic)
        thread.start()
        try:
            records, give_up = 0, time.monotonic() + 60
            while word(channel, "claimed") < 20 * channel.capacity or records < 500:
                result = check()
                assert result.found == []
                records += result.records
                assert time.monotonic() < give_up
        finally:
            stop.set()
            thread.join()
