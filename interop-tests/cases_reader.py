# SPDX-License-Identifier: Apache-2.0
"""The plain-Python reader of spec/golden follows live channels of every language, and reads the golden files."""

import json
import platform
import sys
import time

from driver import ROOT
from harness import above, equal, true, Wrong
from stream import message

sys.path.insert(0, str(ROOT / "spec" / "golden"))
import reader  # noqa: E402

POSSIBLE = platform.machine() == "x86_64"


def create(run, peer, **options):
    name = run.name()
    info = peer.call("create", channel=name, name=name, **options)
    equal(f"{peer.label}: foreign", info.get("foreign"), options.get("foreign"))
    return name, run.folder / f"{name}.ring"


class Follower:
    """The plain-Python reader on a live ring, whose publisher sends a stream from message 0 on."""

    def __init__(self, path, stream):
        self.ring, self.stream, self.seen = reader.Ring(reader.Channel(path)), stream, 0

    def take(self):
        """Verifies the next message. Returns false if there is none."""
        found = self.ring.take()
        if found is not None:
            kind, payload = message(self.stream["seed"], found.number, self.stream["min"], self.stream["max"])
            equal(f"message {found.number}", (found.type, found.payload.hex()), (kind, payload.hex()))
            self.seen += 1
        return found is not None

    def until(self, count, seconds, pause=0.0):
        """Reads until `count` messages are seen or lost; pause: after each 50 messages."""
        end = time.monotonic() + seconds
        while self.ring.before is None or self.ring.before < count:
            if self.take():
                time.sleep(pause if self.seen % 50 == 0 else 0)
            elif time.monotonic() > end:
                raise Wrong(f"late: at message {self.ring.before} of {count}, {self.ring.lost_messages} of them lost")


def keeps_up(run, language, rounds):
    """If the publisher waits for it, the plain reader sees every message."""
    peer, stream = run.peer(language), {"seed": 11, "min": 0, "max": 256}
    for alignment in (8, 64):
        name, path = create(run, peer, kind="broadcast", alignment=alignment, capacity=1 << 17, counters=0)
        peer.call("publisher", channel=name, publisher=name, name="feed")
        follower = Follower(path, stream)
        equal("nothing yet", follower.take(), False)
        for n in range(rounds):
            peer.send("publish_stream", publisher=name, how="mix", first=200 * n, count=200, **stream)
            follower.until(200 * (n + 1), 20)
            peer.receive()
        ring = follower.ring
        equal("seen, lost", (follower.seen, ring.lost_messages, ring.lost_bytes), (200 * rounds, 0, 0))
        equal("position", ring.position, peer.call("positions", publisher=name)["position"])
        equal("nothing more", follower.take(), False)


def is_lapped(run, language, count):
    """In a small ring whose publisher is not held back, every message is seen or counted as lost. First fewer messages
    than the ring holds: all are seen. Then `count` messages, several laps, before the reader looks again: it is lapped.
    Then `count` messages while it reads."""
    peer, stream, few = run.peer(language), {"seed": 12, "min": 0, "max": 200}, 50
    for alignment in (8, 64):
        name, path = create(run, peer, kind="broadcast", alignment=alignment, capacity=1 << 16, counters=0)
        peer.call("publisher", channel=name, publisher=name, name="feed")
        follower, sent = Follower(path, stream), 0
        ring = follower.ring
        follower.take()
        for many, beside in ((few, False), (count, False), (count, True)):
            peer.send("publish_stream", publisher=name, how="mix", first=sent, count=many, seconds=60, **stream)
            sent += many
            position = None if beside else peer.receive(60)["position"]
            follower.until(sent, 60, 0.002 if beside else 0)
            equal("position", ring.position, position or peer.receive(60)["position"])
            equal("seen + lost", follower.seen + ring.lost_messages, sent)
            if many == few:
                equal("seen, lost of the first few", (follower.seen, ring.lost_messages, ring.jumps), (few, 0, 0))
            else:
                found = f"{ring.jumps} jumps, {ring.lost_messages} messages, {ring.lost_bytes} bytes"
                lapped = ring.jumps > 0 and ring.lost_messages > 0 and ring.lost_bytes > 1 << 15
                true("it is lapped: it jumps and loses messages, more than 32 KiB", lapped, found)
        equal("nothing more", follower.take(), False)


def reads_golden_files(run):
    """Reads the golden files of every version: the messages still there, or the error."""
    read = 0
    for path in sorted((ROOT / "spec" / "golden").glob("*/*.ring")):
        content = json.loads(path.with_suffix(".json").read_text())
        expected = content.get("expected")
        try:
            channel = reader.Channel(path)
        except reader.NotReadable:
            required = expected and expected["header"]["required_features"]
            true(f"{path} is read", expected is None or required == 2, f"refused; required_features {required}")
            continue
        true(f"{path} is refused, as it has nothing expected", expected is not None, "it was read")
        for ring in expected["still_there"]:
            one, found = reader.Ring(channel, ring["ring"], oldest=True), []
            while (m := one.take()) is not None:
                found.append({"type": m.type, "position": m.position, "data": m.payload.hex()})
            equal(
                f"{path}: {ring['ring']}",
                found,
                [{k: m[k] for k in found[0]} for m in ring["messages"]] if found else ring["messages"],
            )
            equal(f"{path}: count", one.before, expected["publishers"][ring["ring"]]["messages"])
            read += len(found)
    above("messages read", read, 400)
