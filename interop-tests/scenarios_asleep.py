# SPDX-License-Identifier: Apache-2.0
"""The scenarios of the matrix in which both sides sleep (channel.md 6.16); see scenarios.py."""

import time

from driver import both
from harness import above, equal, true
from scenarios import attach
from sleepers import File, serving, until_asleep

BLOCK = {"wait": "block", "spin": 0}
SLEEPS = 4  # more than these, see until_often


def asleep_in_turn(cell):
    """A reader sleeps until there is a message, and a publisher until there is room, in streams through a small ring.
    Then one message goes to and fro."""
    (a,), (b,) = cell.peers("publisher", 1), cell.peers("subscriber", 2)
    verified = 0
    for given in cell.p["streams"]:
        name = attach(cell, a, b, capacity=4096, alignment=given["alignment"], publishers=2, subscribers=2)
        for peer, ring in ((a, 0), (b, 1)):
            equal("ring", peer.call("publisher", channel=name, publisher=name)["ring"], ring)
        b.call("subscriber", channel=name, subscriber=name, rings=[0])
        with File(cell.run.folder / f"{name}.ring") as file:
            verified += until_often(cell, lambda: stream(cell, name, a, b, file, given, "data"))
            verified += until_often(cell, lambda: stream(cell, name, a, b, file, given, "room"))
            a.call("subscriber", channel=name, subscriber=name, rings=[1])
            verified += until_often(cell, lambda: to_and_fro(cell, name, a, b, file))
        for peer in (a, b):
            peer.call("close", channel=name)
    return verified


def until_often(cell, run):
    """Repeats the run until all its counts are above SLEEPS. On a busy machine one run may be below, because the next
    message often comes before its reader sleeps. A side that never sleeps never reaches SLEEPS."""
    late, messages, counted = time.monotonic() + cell.patience / 4, 0, {}
    while True:
        more, counts = run()
        messages += more
        for what, count in counts.items():
            counted[what] = counted.get(what, 0) + count
        if min(counted.values()) > SLEEPS or time.monotonic() > late:
            break
    for what, count in counted.items():
        above(what, count, SLEEPS)
    return messages


def stream(cell, name, a, b, file, given, first):
    """Runs one stream from a to b. The side that waits for `first` begins; the other one begins when that side
    sleeps."""
    stream = cell.stream(max=given["max"])
    reading = {"streams": [{"ring": 0} | stream], "how": given["read"], "seconds": cell.patience}
    publishing = stream | {"how": given["how"], "seconds": cell.patience}
    begin = [
        ("data", b, lambda: b.send("verify_stream", subscriber=name, **reading, **BLOCK)),
        ("room", a, lambda: a.send("publish_stream", publisher=name, **publishing, **BLOCK)),
    ]
    begin = begin if first == "data" else begin[::-1]
    file.forget_sleepers(first)  # clear leftover bits; no process sleeps now
    before, thread = woken(file), serving(begin[0][1])
    begin[0][2]()
    until_asleep(thread, file, first)
    begin[1][2]()
    verified, published = both(b, a, timeout=cell.patience + 5)
    equal("verified", (verified["verified"], verified["count"]), (True, stream["count"]))
    equal("published", published["count"], stream["count"])
    equal("nothing more", b.call("take", subscriber=name)["message"], None)
    # The faster side sleeps again and again.
    return stream["count"], {"how often they were woken": woken(file) - before}


def to_and_fro(cell, name, a, b, file):
    count, threads, before = cell.p["count"], [serving(peer) for peer in (a, b)], woken(file)
    slept = [thread and thread.switches() for thread in threads]
    for peer in cell.random.sample((a, b), 2):
        peer.send("ping_pong", publisher=name, subscriber=name, count=count, first=peer is a, seconds=cell.patience)
    answers = both(a, b, timeout=cell.patience + 5)
    equal("messages", [answer["count"] for answer in answers], [count, count])
    true("a time for the longest", all(answer["longest"] > 0 for answer in answers), answers)
    counts = {"how often they were woken": woken(file) - before}
    for peer, thread, already in zip((a, b), threads, slept):
        if thread:  # not in another container
            counts[f"{peer.label}: how often it slept"] = thread.switches() - already
    return 2 * count, counts


def woken(file):
    return file.sequence("data") + file.sequence("room")
