# SPDX-License-Identifier: Apache-2.0
"""``flyring check`` on damaged and hostile files: it names each fault, its rule and its place (spec/api.md)."""

from __future__ import annotations

import contextlib
import io
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import GOLDEN
from flyring import Channel, layout
from flyring.cli import main
from flyring.cli.check import examine
from flyring.cli.image import open_image
from flyring.cli.report import Finding
from flyring.header import Header

CAPACITY = 4096
END = 141 * 64  # an owner record and 140 messages; ring 1 begins, and ends, 64 bytes later


def found() -> list[Finding]:
    with open_image("damaged") as image:
        return examine(image).found


@pytest.fixture
def file() -> Iterator[tuple[Header, Any]]:
    """A closed broadcast channel, and its memory to damage. It has two rings with a lap of messages each, one kept and
    one plain subscriber. Ring 0 ends at END."""
    with Channel.create(
        "damaged", "broadcast", capacity=CAPACITY, publishers=2, subscribers=3, counters=4, schema="é" * 10
    ) as channel:
        kept, plain = channel.subscriber("kept", kept=True), channel.subscriber("plain")
        for name in ("a", "b"):
            with channel.publisher(name) as publisher:
                for i in range(140):
                    if i == 132:
                        kept.close()
                    publisher.offer(b"%050d" % i)
                    if not kept.closed:
                        kept.poll(lambda message: None)
                    plain.poll(lambda message: None)
            if name == "a":
                kept = channel.subscriber("kept", kept=True)
                while kept.poll(lambda message: None):
                    pass
        kept.close()
        plain.close()
        for label in ("one", "two", "three"):
            channel.counters().allocate(label, 1, b"k")
        channel.counters().counter(1).free()
        assert found() == []
        yield channel.header, channel._attached.memory


def damages(header: Header) -> dict[str, tuple[int, bytes, str, str]]:
    """Returns the damages: name -> offset, bytes to write there, kind and section of the first finding."""
    trailer, data = header.trailer(0), header.ring(0)
    publisher, subscriber = header.publisher_slot(0), header.subscriber_slot(0)
    metadata, end = header.counter_metadata_offset, END

    def at(position: int) -> int:
        return data + position % CAPACITY

    def i64(*values: int) -> bytes:
        return struct.pack(f"<{len(values)}q", *values)

    def i32(*values: int) -> bytes:
        return struct.pack(f"<{len(values)}i", *values)

    return {
        "published negative": (trailer + layout.TRAILER_PUBLISHED, i64(-64), "published", "9"),
        "published not aligned": (trailer + layout.TRAILER_PUBLISHED, i64(end - 1), "published", "9"),
        "published too large": (trailer + layout.TRAILER_PUBLISHED, i64(2**62), "published", "9"),
        "published above claimed": (trailer + layout.TRAILER_PUBLISHED, i64(end + 64 * 60), "claimed", "6.8"),
        "claimed below published": (trailer + layout.TRAILER_CLAIMED, i64(end - 64), "claimed", "6.8"),
        "claimed beyond the lap": (trailer + layout.TRAILER_CLAIMED, i64(end + CAPACITY), "claimed", "6.8"),
        "claimed too large": (trailer + layout.TRAILER_CLAIMED, i64(2**63 - 64), "claimed", "9"),
        "boundary not aligned": (trailer, i64(8200), "boundary", "4.7"),
        "boundary of another eighth": (trailer + 16, i64(8192), "boundary", "4.7"),
        "boundary ahead": (trailer, i64(8192 + CAPACITY), "boundary", "4.7"),
        "boundary is -2": (trailer, i64(-2), "boundary", "4.7"),
        "boundary's count": (trailer + 8, i64(10**6), "boundary", "4.7"),
        "boundary's count off by one": (trailer + 8, i64(128), "counts", "4.7"),
        "messages_done above begun": (trailer + layout.TRAILER_MESSAGES_DONE, i64(999), "counts", "4.7"),
        "both counts wrong": (trailer + layout.TRAILER_MESSAGES_BEGUN, i64(141, 141), "counts", "4.7"),
        "kept gate not aligned": (header.gate(0, 0), i64(end - 63), "gate", "9"),
        "kept gate is -2": (header.gate(0, 0), i64(-2), "gate", "9"),
        "kept gate ahead": (header.gate(0, 0), i64(end + CAPACITY), "gate-range", "9"),
        "kept gate a lap behind": (header.gate(0, 0), i64(end - CAPACITY), "gate-range", "9"),
        "a free slot's gate": (header.gate(1, 2), i64(-2), "gate", "9"),
        "record of length 7": (at(end - 64), i32(7), "record", "4.6"),
        "record of length 0": (at(end - 64), i32(0), "record", "4.6"),
        "record of a negative length": (at(end - 128), i32(-58), "record", "4.6"),
        "record beyond published": (at(end - 64), i32(65), "record", "4.6"),
        "record across the end": (at(8192 - 64), i32(65), "record", "4.6"),
        "record over a quarter": (at(end - 1088 - 64), i32(1025), "record", "4.6"),
        "record of type 0": (at(end - 64) + 4, i32(0), "record", "4.6"),
        "record of type -3": (at(end - 64) + 4, i32(-3), "record", "4.6"),
        "message became padding": (at(end - 64) + 4, i32(-1), "counts", "4.7"),
        "record over a boundary": (at(8192 - 64 * 17), i32(1000), "not-a-boundary", "4.7"),
        "owner record without owner": (at(end - 64) + 4, i32(-2), "owner", "4.6"),
        "start ahead": (publisher + layout.PUBLISHER_SLOT_START, i64(end + 64), "start", "4.4"),
        "start not at a record": (publisher + layout.PUBLISHER_SLOT_START, i64(end - 32), "start", "4.4"),
        "start at a message": (publisher + layout.PUBLISHER_SLOT_START, i64(end - 64), "owner", "6.1"),
        "epoch negative": (publisher + layout.PUBLISHER_SLOT_EPOCH, i64(-1), "epoch", "4.4"),
        "closed is 2": (publisher + layout.PUBLISHER_SLOT_CLOSED, i32(2), "closed", "4.4"),
        "name too long": (publisher + layout.PUBLISHER_SLOT_NAME_LENGTH, i32(65), "name", "4.4"),
        "name of other bytes": (publisher + layout.PUBLISHER_SLOT_NAME, b"\n", "name", "3.1"),
        "name not zero-filled": (publisher + layout.PUBLISHER_SLOT_NAME + 40, b"x", "name", "4.4"),
        "name twice": (publisher + layout.PUBLISHER_SLOT_NAME, b"b", "name", "5.2"),
        "kept is 7": (subscriber + layout.SUBSCRIBER_SLOT_KEPT, i32(7), "kept", "4.5"),
        "evicting is 7": (subscriber + layout.SUBSCRIBER_SLOT_EVICTING, i32(7), "evicting", "4.5"),
        "subscriber's epoch": (subscriber + layout.SUBSCRIBER_SLOT_EPOCH, i64(-(2**63)), "epoch", "4.5"),
        "counter's state": (metadata, i32(2), "counter", "4.8"),
        "counter behind a free one": (metadata + 3 * 512, i32(0), "", ""),
        "counter that nobody finds": (metadata, i32(0), "counter", "8"),
        "label too long": (metadata + layout.COUNTER_METADATA_LABEL_LENGTH, i32(381), "label", "4.8"),
        "label not UTF-8": (metadata + layout.COUNTER_METADATA_LABEL, b"\xff", "label", "4.8"),
        "in use but reusable": (metadata + layout.COUNTER_METADATA_FREE_FOR_REUSE, i64(5), "free-for-reuse", "4.8"),
        "key of a freed counter": (metadata + 512 + layout.COUNTER_METADATA_KEY, b"x", "key", "8"),
        "schema not UTF-8": (header.schema_offset, b"\xff", "schema", "4.2"),
        "reserved word": (trailer + layout.TRAILER_HEARTBEAT, i64(1), "not-zero", "4.7"),
        "between slots": (publisher + 200, b"\1", "not-zero", "4.4"),
        "behind the schema": (header.file_length - 1, b"\1", "not-zero", "4.1"),
        "queue word": (header.control_offset + layout.CONTROL_JOBS_SEQUENCE, i32(1), "not-zero", "4.3"),
    }


HEADER = Header("broadcast", CAPACITY, 2, 3, 64, 4, schema_length=20)


@pytest.mark.parametrize("name", damages(HEADER))
def test_damage_is_named(name: str, file: tuple[Header, Any]) -> None:
    header, memory = file
    assert (header.ring_stride, header.schema_length) == (HEADER.ring_stride, HEADER.schema_length)
    offset, content, kind, section = damages(header)[name]
    memory.write(offset, content)
    findings = found()
    if not kind:
        assert findings == []
        return
    assert ("broken", kind, section) in {(one.severity, one.kind, one.section) for one in findings}, findings
    assert all(one.what and one.do for one in findings)


def test_a_stale_record_behind_published(file: tuple[Header, Any]) -> None:
    header, memory = file
    for at in (layout.TRAILER_PUBLISHED, layout.TRAILER_CLAIMED):
        memory.store64(header.trailer(0) + at, END)
    memory.store32(header.ring(0) + END % CAPACITY, 64)
    (finding,) = [one for one in found() if one.kind == "zero-behind"]
    assert (finding.section, finding.ring, finding.position) == ("6.1", 0, END)


def test_the_place_is_exact(file: tuple[Header, Any]) -> None:
    header, memory = file
    offset = header.ring(1) + END % CAPACITY
    memory.store32(offset, 7)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert main(["check", "damaged", "--json"]) == 1
    (finding,) = json.loads(output.getvalue())["findings"]
    assert (finding["offset"], finding["ring"], finding["position"]) == (offset, 1, END)


def run_all(path: Path) -> None:
    """Checks that every command ends with one of its statuses and readable output."""
    for command, *rest in (("info",), ("check",), ("recover",), ("check",), ("evict", "0")):
        output, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(error):
            status = main([command, str(path), *rest, "--json"])
            assert main([command, str(path), *rest]) in (0, 1, 2)
        document = output.getvalue()
        if status == 2:
            assert error.getvalue().startswith("flyring: ")
        else:
            assert json.loads(document[: document.rindex("\n}") + 2])["path"] == str(path)


@pytest.mark.parametrize("mended", [False, True])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.long
def test_random_damage_never_breaks_a_command(data: st.DataObject, mended: bool, folder: Path) -> None:
    content = bytearray(data.draw(st.sampled_from(GOLDEN)).with_suffix(".ring").read_bytes())
    begin = layout.HEADER_LENGTH if mended else 0
    for at, new in data.draw(
        st.lists(st.tuples(st.integers(begin, len(content) - 9), st.binary(min_size=1, max_size=8)), max_size=30)
    ):
        content[at : at + len(new)] = new
    path = folder / "random.ring"
    path.write_bytes(content)
    run_all(path)
