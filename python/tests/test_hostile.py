# SPDX-License-Identifier: Apache-2.0
"""Files with arbitrary bytes from another process give a clear error, never a crash, a hang or a read outside.

See spec/channel.md 9.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import GOLDEN
from flyring import Channel, CorruptRingError, FlyringError, Job, Message, layout


def put(channel: Channel, ring: int, position: int, *words: int) -> None:
    at = channel.header.ring(ring) + position % channel.capacity
    for i, word in enumerate(words):
        channel._attached.memory.store32(at + 4 * i, word)


@pytest.mark.parametrize(
    ("position", "length", "kind"),
    [
        (0, 1, 1),
        (0, 7, 1),
        (0, 4097, 1),
        (0, 2**31 - 1, 1),
        (0, 2**31 - 1, -1),
        (4032, 65, 1),
        (0, 64, 0),
        (0, 64, -3),
        (0, 64, -(2**31)),
    ],
)
@pytest.mark.parametrize("kept", [False, True])
def test_a_ring_that_breaks_the_rules_is_reported_once_and_the_others_go_on(
    position: int, length: int, kind: int, kept: bool
) -> None:
    with Channel.create("corrupt", "broadcast", capacity=4096, publishers=2) as channel:
        bad, good = channel.publisher(), channel.publisher()
        subscriber = channel.subscriber("s", kept=kept)
        while bad.position < position:
            bad.offer(b"")
            assert subscriber.take() is not None
        put(channel, 0, position, length, kind)
        good.offer(b"good")
        with pytest.raises(CorruptRingError) as caught:
            while subscriber.poll(lambda message: None):
                pass
        assert (caught.value.ring, caught.value.position) == (0, position)
        assert str(length if kind in (1, -1) else kind) in caught.value.reason
        gate = channel._attached.memory.load64(channel.header.gate(0, subscriber.slot))
        assert gate == (position if kept else -1)
        good.offer(b"more")
        assert bytes(subscriber.take() or b"") in (b"good", b"more")
        while message := subscriber.take():
            assert message.ring == 1
        subscriber.close()


def test_a_ring_full_of_padding_does_not_hang_a_poll() -> None:
    with Channel.create("padding", "broadcast", capacity=4096, publishers=1) as channel:
        subscriber = channel.subscriber()
        put(channel, 0, 0, 4096, layout.TYPE_PADDING)
        for _ in range(3):
            assert subscriber.take() is None
            assert subscriber.poll(print) == 0
        assert subscriber.take(timeout=0.01) is None
        for position in range(0, 4096, 64):
            put(channel, 0, position, 8, layout.TYPE_OWNER)
        assert subscriber.take(timeout=0.01) is None


@pytest.mark.parametrize("gate", [2**63 - 1, -(2**63), -2, 1, 2**62])
def test_a_hostile_gate_neither_stops_nor_misleads_the_publisher(gate: int) -> None:
    with Channel.create("gate", "broadcast", capacity=4096, publishers=2) as channel:
        publisher, subscriber = channel.publisher(), channel.subscriber(rings=[0])
        channel._attached.memory.store64(channel.header.gate(0, 1), gate)
        neighbour = channel._attached.memory.read(channel.header.ring(1), 4096)
        sent = 0
        for _ in range(500):
            if publisher.offer(bytes(100)):
                sent += 1
            subscriber.poll(lambda message: None)
        assert sent == 500 if gate != 1 else 0 < sent < 500
        assert channel._attached.memory.read(channel.header.ring(1), 4096) == neighbour


@pytest.mark.parametrize("gate", [1, 64 * 100, 2**62, 2**63 - 64])
def test_a_kept_slot_with_an_impossible_gate_is_refused(gate: int) -> None:
    with Channel.create("keptgate", "inbox", capacity=4096, publishers=1) as channel:
        channel._attached.memory.store64(channel.header.gate(0, 0), gate)
        with pytest.raises(CorruptRingError) as caught:
            channel.subscriber()
        assert (caught.value.ring, caught.value.position) == (0, gate)


# Readers without a slot


@pytest.mark.parametrize(
    ("position", "length", "kind"),
    [(0, 1, 1), (0, 7, 1), (0, 4097, 1), (0, 2**31 - 1, 1), (4032, 65, 1), (0, 64, 0), (0, 64, -3), (0, 4097, -1)]
    + [(0, 1025, 1), (0, 4096, 2**31 - 1), (2048, 2048, 1)],
)
@pytest.mark.parametrize("call", ["take", "poll", "peek"])
def test_a_lossy_reader_reports_a_corrupt_ring_once_and_reads_on(
    position: int, length: int, kind: int, call: str
) -> None:
    with Channel.create("lossy", "broadcast", capacity=4096, publishers=2) as channel:
        bad, good = channel.publisher(), channel.publisher()
        while bad.position < position:
            bad.offer(b"")
        reader = channel.lossy_subscriber()
        put(channel, 0, position, length, kind)
        good.offer(b"good")
        calls: dict[str, Any] = {"take": reader.take, "peek": reader.peek, "poll": lambda: reader.poll(print)}
        with pytest.raises(CorruptRingError) as caught:
            for _ in range(3):
                calls[call]()
                if call == "peek":
                    reader.valid()
        assert (caught.value.ring, caught.value.position) == (0, position)
        good.offer(b"more")
        got: list[bytes] = []
        while reader.poll(lambda message: got.append(bytes(message))):
            pass
        assert got[-1] == b"more"


@pytest.mark.parametrize("call", ["take", "poll", "peek"])
@pytest.mark.parametrize(("length", "kind"), [(1024, 1), (4096, -1), (4096, -2)])
def test_a_lossy_reader_takes_a_quarter_of_the_ring_and_passes_more_that_is_no_message(
    length: int, kind: int, call: str
) -> None:
    with Channel.create("quarter", "broadcast", capacity=4096, publishers=1) as channel:
        reader = channel.lossy_subscriber()
        put(channel, 0, 0, length, kind)
        got: list[int] = []
        if call == "poll":
            reader.poll(lambda message: got.append(len(message)), 1)
        elif (message := reader.take() if call == "take" else reader.peek()) is not None:
            got.append(len(message))
            assert call == "take" or reader.valid()
        assert (got, reader.position(0)) == ([1016], 1024) if kind > 0 else ([], 4096)


@pytest.mark.parametrize("call", ["take", "poll"])
def test_a_lapped_lossy_reader_does_not_take_a_stale_length_for_a_broken_rule(call: str) -> None:
    """The length at the cursor belongs to a later lap and may have any value, so the lap test comes first."""
    with (
        Channel.create("stale", "broadcast", capacity=4096, publishers=1) as channel,
        channel.publisher() as publisher,
        channel.lossy_subscriber(when_lapped="newest") as reader,
    ):
        while publisher.position < 4096 + 1024:
            publisher.offer(bytes(56))
        put(channel, 0, 0, 2048, 1)
        assert (reader.take() if call == "take" else reader.poll(print)) in (None, 0)
        assert reader.position(0) == publisher.position
        assert reader.lost_bytes(0) == publisher.position


def words(channel: Channel, ring: int, **values: int) -> None:
    for name, value in values.items():
        at = channel.header.trailer(ring) + getattr(layout, f"TRAILER_{name.upper()}")
        channel._attached.memory.store64(at, value)


@pytest.mark.parametrize("published", [-64, -1, 0, 63, 64, 65, 2**62, 2**63 - 64, 2**63 - 1])
@pytest.mark.parametrize("claimed", [2**62, 2**63 - 1])
def test_a_lossy_reader_never_jumps_back_or_out_of_the_world(published: int, claimed: int) -> None:
    with Channel.create("jump", "broadcast", capacity=4096, publishers=2) as channel:
        publisher, good = channel.publisher(), channel.publisher()
        publisher.offer(b"")
        reader = channel.lossy_subscriber(when_lapped="newest")
        good.offer(b"good")
        assert reader.position(0) == 128
        words(channel, 0, claimed=claimed, published=published)
        with pytest.raises(CorruptRingError) as caught:
            for _ in range(3):
                reader.take()
        assert (caught.value.ring, caught.value.position, reader.lost_bytes(0)) == (0, 128, 0)
        good.offer(b"more")
        assert reader.take() in (b"good", b"more")


@pytest.mark.parametrize("published", [-64, -1, 63, 65, 2**62, 2**63 - 1])
@pytest.mark.parametrize("start", ["now", "oldest"])
def test_a_lossy_reader_does_not_begin_at_what_is_no_position(published: int, start: Any) -> None:
    with Channel.create("begin", "broadcast", capacity=4096, publishers=1) as channel:
        words(channel, 0, published=published, claimed=2**63 - 1 if start == "oldest" else 0)
        with channel.lossy_subscriber(start=start) as reader:
            with pytest.raises(CorruptRingError) as caught:
                reader.take()
            assert caught.value.ring == 0
            assert reader.take() is None


@pytest.mark.parametrize("boundary", [1, 64, 4096, 2**62, 2**63 - 1])
def test_a_boundary_that_cannot_be_is_reported(boundary: int) -> None:
    with Channel.create("boundary", "broadcast", capacity=4096, publishers=1) as channel:
        words(channel, 0, boundary=boundary)
        with channel.lossy_subscriber(start="oldest") as reader, pytest.raises(CorruptRingError) as caught:
            reader.take()
        assert (caught.value.ring, caught.value.position) == (0, boundary)
        words(channel, 0, boundary=-5)
        with channel.lossy_subscriber(start="oldest") as reader:
            assert reader.position(0) == 0


def test_counts_that_never_agree_are_given_up_and_tried_again() -> None:
    with (
        Channel.create("counts", "broadcast", capacity=4096, publishers=1) as channel,
        channel.publisher() as publisher,
    ):
        reader = channel.lossy_subscriber(when_lapped="newest")
        words(channel, 0, messages_done=-1)  # as if the publisher stopped or died within step 7
        late = channel.lossy_subscriber(when_lapped="newest")
        assert late.take(timeout=0.01) is None
        for _ in range(100):
            publisher.offer(b"x")
        done = channel._attached.memory.load64(channel.header.trailer(0) + layout.TRAILER_MESSAGES_DONE)
        words(channel, 0, messages_done=-1)
        for attempt in (reader.take, lambda: reader.poll(print), lambda: reader.take(timeout=0.01)):
            assert not attempt()
        assert reader.peek() is not None
        assert not reader.valid()
        assert (reader.position(0), reader.lost_messages(0), reader.lost_bytes(0)) == (0, 0, 0)
        assert late.take() is None
        words(channel, 0, messages_done=done)
        assert (reader.take(), reader.lost_messages(0)) == (None, 100)
        assert (late.take(), late.lost_messages(0)) == (None, 0)  # it began at the first consistent read
        publisher.offer(b"next")
        assert reader.take() == b"next"
        assert late.take() == b"next"


def test_a_ring_of_padding_or_of_lies_about_laps_does_not_hang_a_lossy_reader() -> None:
    with Channel.create("hang", "broadcast", capacity=4096, publishers=2) as channel:
        reader = channel.lossy_subscriber([0])
        put(channel, 0, 0, 4096, layout.TYPE_PADDING)
        for turn in range(3):
            assert reader.take() is None
            assert reader.position(0) == 4096 * (turn + 1)
        assert reader.take(timeout=0.01) is None
        for position in range(0, 4096, 64):
            put(channel, 0, position, 8, layout.TYPE_OWNER)
        assert reader.peek() is None

        liar, stop = channel.lossy_subscriber([1]), threading.Event()

        def lie() -> None:  # the reader is always lapped, and can always jump further
            at = 64
            while not stop.is_set():
                at += 64
                words(channel, 1, claimed=2**62, published=at)

        thread = threading.Thread(target=lie)
        thread.start()
        try:
            start, jumps = time.monotonic(), 0
            for _ in range(200):
                try:
                    liar.poll(lambda message: None)
                except CorruptRingError:  # it looked twice between two changes
                    jumps += liar.lost_bytes(1) > 0
                    liar.close()
                    liar = channel.lossy_subscriber([1])
            assert time.monotonic() - start < 10
            assert jumps > 0
        finally:
            stop.set()
            thread.join()


def use_as_worker(channel: Channel) -> None:
    def handler(job: Job) -> None:
        assert len(bytes(job)) == len(job) <= channel.capacity
        assert job.attempts >= 0 and job.repeat == (job.attempts > 0)

    for _ in range(2):
        try:
            with channel.worker() as worker:
                for limit in (1, 100):
                    try:
                        worker.poll(handler, limit)
                        if job := worker.take():
                            handler(job)
                            job.release()
                        if job := worker.take():
                            job.done()
                        assert worker.ended in (False, True)
                    except CorruptRingError:
                        pass
        except FlyringError:
            pass


def use_everything(channel: Channel) -> None:
    """Uses all operations, and lets only this package's errors pass."""

    def handler(message: Message) -> None:
        assert len(bytes(message)) == len(message) <= channel.capacity
        assert message.sender.epoch >= 0

    for _ in range(2):
        try:
            with channel.publisher() as publisher:
                publisher.held_by()
                for length in (0, 100, publisher.max_message_length):
                    publisher.offer(bytes(length))
                publisher.offer_batch([b"x", b"y" * 50])
                if claim := publisher.try_claim(10):
                    claim.abort()
        except FlyringError:
            pass
        try:
            with channel.subscriber() as subscriber:
                for _ in range(4):
                    try:
                        subscriber.poll(handler)
                        subscriber.take()
                    except CorruptRingError:
                        pass
        except FlyringError:
            pass
    for start in ("now", "oldest") if channel.foreign != "publisher" else ():
        try:
            with channel.lossy_subscriber(start=start) as reader:
                for _ in range(4):
                    try:
                        reader.poll(handler)
                        reader.take()
                        if message := reader.peek():
                            handler(message)
                            assert isinstance(message.sender.name, str)
                            reader.valid()
                        reader.ended(0)
                    except CorruptRingError:
                        pass
        except FlyringError:
            pass
    queue = channel.kind == "queue"
    if queue:
        use_as_worker(channel)
    for slot in range(int(queue), channel.subscribers if channel.foreign is None else 0):  # not a queue's slot 0
        channel.evict(slot)
    for counter in channel.counters():
        assert len(counter.label) <= 380
        counter.get()


WORDS = st.sampled_from([0, 1, 7, 8, 9, 64, 4096, 4097, -1, -2, 2**31 - 1, -(2**31), 1 << 30])
EDIT = st.tuples(st.integers(0, 2**16), st.one_of(WORDS, st.integers(-(2**31), 2**31 - 1)))


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(golden=st.sampled_from(GOLDEN), edits=st.lists(EDIT, min_size=1, max_size=40))
@pytest.mark.long
def test_a_file_with_anything_behind_its_header_is_safe_to_use(
    golden: Path, edits: list[tuple[int, int]], folder: Path
) -> None:
    content = bytearray(golden.with_suffix(".ring").read_bytes())
    words = (len(content) - layout.HEADER_LENGTH) // 4
    for at, value in edits:
        struct.pack_into("<i", content, layout.HEADER_LENGTH + at % words * 4, value)
    (folder / "fuzz.ring").write_bytes(content)
    with Channel.open("fuzz") as channel:
        use_everything(channel)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_bytes_at_all_are_attached_or_refused(data: Any, folder: Path) -> None:
    whole = data.draw(st.sampled_from(GOLDEN)).with_suffix(".ring").read_bytes()
    content = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=5)):
        if at < len(content):
            content[at] = value
    (folder / "any.ring").write_bytes(content)
    try:
        Channel.open("any").close()
    except FlyringError as error:
        assert error.code in ("not-a-channel", "truncated", "version-too-new", "corrupt-header")
    assert len(os.listdir(folder)) == 1


@pytest.mark.parametrize("claimed", [1 << 23, 1 << 25])
def test_a_ring_full_of_small_records_is_walked_quickly(claimed: int) -> None:
    """The next publisher walks the ring under the control lock: a quarter of it at most, and refuses more at once."""
    with Channel.create("walk", "broadcast", capacity=1 << 25, publishers=1, alignment=8, counters=0) as channel:
        with open(channel.path, "r+b", buffering=0) as file:
            file.seek(channel.header.ring(0))
            file.write(struct.pack("<ii", 8, 1) * (claimed // 8))
        words(channel, 0, claimed=claimed)
        start = time.process_time()
        if claimed > channel.capacity // 4:
            with pytest.raises(CorruptRingError, match="too far ahead of published"):
                channel.publisher()
        else:
            with channel.publisher() as publisher:
                assert publisher.position == claimed
        assert time.process_time() - start < 1


NEAR = 2**62 - 256


@pytest.mark.parametrize("way", ["offer", "claim", "try_claim", "offer_batch"])
def test_nothing_is_published_beyond_the_last_position(way: str) -> None:
    with Channel.create("end", "broadcast", capacity=4096, publishers=1) as channel:
        words(channel, 0, published=NEAR, claimed=NEAR)
        publisher, subscriber = channel.publisher(), channel.subscriber()
        ways: dict[str, Any] = {
            "offer": lambda: publisher.offer(b"last"),
            "claim": lambda: publisher.claim(4).commit(),
            "try_claim": lambda: publisher.try_claim(4).commit(),  # type: ignore[union-attr]
            "offer_batch": lambda: publisher.offer_batch([b"last"] * 2),
        }
        with pytest.raises(CorruptRingError, match="nears 2\\^62") as caught:
            for _ in range(4):
                assert ways[way]()
        assert (caught.value.ring, caught.value.position) == (0, publisher.position)
        trailer, memory = channel.header.trailer(0), channel._attached.memory
        assert publisher.position == 2**62 - 64
        assert memory.load64(trailer + layout.TRAILER_PUBLISHED) == 2**62 - 64
        assert memory.load64(trailer + layout.TRAILER_CLAIMED) <= 2**62 - 64
        assert subscriber.poll(lambda message: None) == 2
        with pytest.raises(CorruptRingError):
            ways[way]()
