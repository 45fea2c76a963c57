# SPDX-License-Identifier: Apache-2.0
"""Peers as processes: streams with late joins, losses and deaths (interop-tests/PEER.md)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peer"))
import flyring_peer
from flyring_stream import BadStreamError, RingStream, StreamMismatchError, message_at

Answer = dict[str, Any]
STREAM: dict[str, Any] = {"seed": 3, "count": 600, "min": 8, "max": 100, "numbered": True}


class Process:
    def __init__(self) -> None:
        command = [sys.executable, flyring_peer.__file__]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def send(self, op: str, **fields: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"op": op} | fields) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Answer:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the peer ended with {self.process.wait()}"
        answer: Answer = json.loads(line)
        return answer

    def call(self, op: str, **fields: Any) -> Answer:
        self.send(op, **fields)
        answer = self.answer()
        assert answer["ok"], answer
        return answer

    def dies(self) -> None:
        """Waits until the peer has died, without another answer."""
        assert self.process.stdout is not None
        assert self.process.stdout.read() == ""
        assert self.process.wait(10) == -signal.SIGKILL

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def peer() -> Iterator[Callable[[], Process]]:
    peers: list[Process] = []

    def start() -> Process:
        peers.append(Process())
        return peers[-1]

    yield start
    for one in peers:
        one.end()


@pytest.fixture
def channel(peer: Callable[[], Process]) -> tuple[Process, Process]:
    """Two peers that are attached to the channel "c", whose rings have 16 KiB."""
    a, b = peer(), peer()
    a.call("create", channel="c", name="c", kind="broadcast", capacity=16384, publishers=1)
    assert b.call("open", channel="c", name="c")["foreign"] is None
    return a, b


def test_die_is_sigkill(peer: Callable[[], Process]) -> None:
    one = peer()
    assert "die" in one.call("hello")["ops"]
    one.send("die")
    one.dies()


def test_a_foreign_end_is_an_option_and_is_told(peer: Callable[[], Process]) -> None:
    one = peer()
    shape = {"kind": "inbox", "publishers": 1, "subscribers": 1, "alignment": 8}
    assert one.call("create", channel="c", name="c", foreign="publisher", **shape)["foreign"] == "publisher"
    one.send("open_or_create", channel="d", name="c", foreign="subscriber", **shape)
    assert one.answer()["field"] == "foreign"
    one.send("publisher", channel="c", publisher="p")
    assert one.answer()["argument"] == "foreign"


@pytest.mark.parametrize(("how", "last"), [("offer", 0), ("claim", 34), ("batch", 34), ("mix", 35), ("mix", 599)])
def test_a_publisher_dies_in_a_message_and_another_publishes_it(
    how: str, last: int, channel: tuple[Process, Process], peer: Callable[[], Process]
) -> None:
    a, b = channel
    b.call("subscriber", channel="c", subscriber="s")
    a.call("publisher", channel="c", publisher="p", name="feed")
    b.send("verify_stream", subscriber="s", streams=[{"ring": 0} | STREAM], how="mix")
    a.send("publish_stream", publisher="p", how=how, die_at=last, **STREAM)
    a.dies()
    heir = peer()
    heir.call("open", channel="c", name="c")
    # The dead publisher's name and epoch are known, and its claim became padding.
    assert heir.call("publisher", channel="c", publisher="p", name="feed")["epoch"] == 2
    heir.call("publish_stream", publisher="p", how=how, **(STREAM | {"first": last, "count": 600 - last}))
    answer = b.answer()
    assert answer["rings"] == {"0": {"first": 0, "next": 600, "seen": 600, "lost": 0}}
    assert (answer["verified"], answer["count"]) == (True, 600)
    assert b.call("take", subscriber="s")["message"] is None


@pytest.mark.parametrize(("how", "last"), [("poll", 33), ("take", 0), ("take", 33), ("mix", 98)])
def test_a_subscriber_dies_in_a_message_and_its_heir_sees_it(
    how: str, last: int, channel: tuple[Process, Process], peer: Callable[[], Process]
) -> None:
    a, b = channel
    kept = {"channel": "c", "subscriber": "s", "name": "journal", "kept": True}
    b.call("subscriber", **kept)
    a.call("publisher", channel="c", publisher="p")
    a.call("publish_stream", publisher="p", how="offer", **(STREAM | {"count": 100}))
    stream = {"ring": 0} | STREAM | {"count": 100}
    b.send("verify_stream", subscriber="s", streams=[stream], how=how, die_at=last)
    b.dies()
    heir = peer()
    heir.call("open", channel="c", name="c")
    heir.call("subscriber", **kept)
    answer = heir.call("verify_stream", subscriber="s", streams=[stream | {"first": None}], how=how)
    ring = answer["rings"]["0"]
    assert ring["first"] == last if how == "take" else 0 <= ring["first"] <= last
    assert (ring["next"], ring["seen"], ring["lost"]) == (100, 100 - ring["first"], 0)
    assert answer["count"] == ring["seen"]


@pytest.mark.parametrize("how", ["poll", "take", "mix"])
def test_what_a_lossy_subscriber_lost_is_told_exactly(how: str, channel: tuple[Process, Process]) -> None:
    a, b = channel
    a.call("publisher", channel="c", publisher="p")
    b.call("lossy_subscriber", channel="c", subscriber="l")
    a.call("publish_stream", publisher="p", how="mix", **STREAM)  # several laps
    stream = {"ring": 0} | STREAM | {"count": 20_000}
    b.send("verify_stream", subscriber="l", streams=[stream], how=how, seconds=60)
    a.call("publish_stream", publisher="p", how="mix", **(STREAM | {"first": 600, "count": 19_400}))
    answer = b.answer()
    assert answer["ok"], answer
    ring, lost = answer["rings"]["0"], b.call("lost", subscriber="l", ring=0)
    assert (ring["next"], ring["seen"] + ring["lost"], ring["lost"]) == (20_000, 20_000, lost["messages"])
    assert ring["lost"] >= 500
    assert (answer["count"], answer["verified"]) == (ring["seen"], True)


def test_a_reader_that_lost_the_end_of_the_stream_is_done_when_it_knows(channel: tuple[Process, Process]) -> None:
    a, b = channel
    a.call("publisher", channel="c", publisher="p")
    b.call("lossy_subscriber", channel="c", subscriber="l")
    a.call("publish_stream", publisher="p", how="offer", **STREAM)
    answer = b.call("verify_stream", subscriber="l", streams=[{"ring": 0} | STREAM])
    assert answer["rings"] == {"0": {"first": 501, "next": 600, "seen": 99, "lost": 501}}
    assert answer["count"] == 99


def test_a_stream_is_joined_in_the_middle(channel: tuple[Process, Process]) -> None:
    a, b = channel
    a.call("publisher", channel="c", publisher="p")
    a.call("publish_stream", publisher="p", **(STREAM | {"count": 40}))
    b.call("subscriber", channel="c", subscriber="s")
    a.call("publish_stream", publisher="p", **(STREAM | {"first": 40, "count": 60}))
    stream = {"ring": 0} | STREAM | {"first": None}
    answer = b.call("verify_stream", subscriber="s", streams=[stream | {"count": 70}])
    assert answer["rings"]["0"] == {"first": 40, "next": 70, "seen": 30, "lost": 0}
    b.send("verify_stream", subscriber="s", streams=[stream | {"count": 101}], seconds=0.1)
    answer = b.answer()
    assert (answer["error"], answer["counts"]) == ("timeout", {"0": 30})


def test_a_busy_reader_ends_when_its_time_is_over(channel: tuple[Process, Process]) -> None:
    a, b = channel
    a.call("publisher", channel="c", publisher="p")
    b.call("subscriber", channel="c", subscriber="s")
    a.call("publish_stream", publisher="p", **(STREAM | {"count": 40}))
    streams = [{"ring": 0} | STREAM | {"count": 40}]
    b.send("verify_stream", subscriber="s", streams=streams, how="take", wait="block", seconds=0)
    answer = b.answer()
    assert (answer["error"], answer["counts"]) == ("timeout", {"0": 1})  # messages are left: no turn was idle


def test_a_busy_reader_of_a_journal_ends_when_its_time_is_over(peer: Callable[[], Process]) -> None:
    a, stream = peer(), STREAM | {"count": 40}
    a.call("create", journal="j", name="j", segment_size=65536)
    a.call("writer", journal="j", writer="w")
    a.call("append_stream", writer="w", **stream)
    a.call("reader", journal="j", reader="r")
    a.send("read_stream", reader="r", how="take", wait="block", seconds=0, **stream)
    answer = a.answer()
    assert (answer["error"], answer["counts"]) == ("timeout", [1])


class FakeMessage(bytes):
    type: int


def feed(ring: RingStream, sequence: int) -> None:
    kind, data = message_at(3, sequence, 8, 100, None, True)
    message = FakeMessage(data)
    message.type = kind
    ring.check(message)  # type: ignore[arg-type]
    ring.count()


@pytest.mark.parametrize(("lost", "sequence"), [(0, 11), (1, 10), (1, 12), (5, 9), (3, 14)])
def test_a_gap_that_is_not_what_was_lost_is_a_mismatch(lost: int, sequence: int) -> None:
    counted = [7]
    ring = RingStream({"ring": 0} | STREAM | {"first": 9}, lambda _: counted[0])
    feed(ring, 9)
    counted[0] += lost
    with pytest.raises(StreamMismatchError) as caught:
        feed(ring, sequence)
    assert (caught.value.ring, caught.value.sequence) == (0, 10 + lost)
    assert f"it is number {sequence}" in caught.value.what
    ring = RingStream({"ring": 0} | STREAM | {"first": 9}, lambda _: counted[0])
    feed(ring, 9)
    counted[0] += 3
    feed(ring, 13)
    assert (ring.first, ring.next, ring.seen, ring.lost) == (9, 14, 2, 3)
    counted[0] += 596
    with pytest.raises(StreamMismatchError, match="more than there were"):
        ring.skip_lost()


def test_only_numbered_streams_may_have_gaps_or_be_joined() -> None:
    counted = [0]
    plain = {"ring": 0, "seed": 3, "count": 9, "min": 8, "max": 100}
    ring = RingStream(plain, lambda _: counted[0])
    counted[0] = 1
    with pytest.raises(StreamMismatchError, match="without numbers"):
        ring.skip_lost()
    for wrong in (plain | {"first": None}, plain | {"numbered": True, "min": 7}, plain | {"min": 101}):
        with pytest.raises(BadStreamError):
            RingStream(wrong, lambda _: 0)
    peer = flyring_peer.Peer()
    assert peer.answer('{"op": "verify_stream", "subscriber": "none", "streams": []}')["error"] == "bad-request"


def test_a_numbered_message_is_its_number_and_then_what_the_stream_has() -> None:
    assert message_at(3, 258, 8, 8, None, True)[1] == (258).to_bytes(8, "little")
    kind, plain = message_at(3, 258, 30, 30, None)
    assert message_at(3, 258, 30, 30, None, True) == (kind, (258).to_bytes(8, "little") + plain[8:])
