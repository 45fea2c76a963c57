# SPDX-License-Identifier: Apache-2.0
"""Tests of journals (spec/journal.md): one language appends, others read from each place, consume, trim, and are woken.
Run by pairs.py."""

import itertools
import json
import os
import pathlib
import struct
import subprocess
import sys
import time

from cases_typed import TYPED
from driver import Refused, both
from harness import Wrong, above, after, equal, refused, true
from stream import message

SEGMENT = 65536
SMALL = {"segment_size": SEGMENT, "consumers": 3}
HEADER, UNIT, CHECK = 4096, 64, 64
LONG = 10  # seconds: a time-out that is not reached
SOON = 0.05  # seconds: far below the 100 ms after which a sleeper looks without a wake-up
MANY = {"seed": 7, "min": 8, "max": 300, "numbered": True}  # of append_stream and read_stream
CARRIED = ("position", "number", "time", "type", "data")


def attach(run, first, *others, **options):
    """A journal that the first peer makes and the others open; its name, and handle."""
    name = run.name("journal")
    first.call("create", journal=name, name=name, **SMALL | options)
    for peer in {id(peer): peer for peer in others if peer is not first}.values():
        peer.call("open", journal=name, name=name)
    return name


def folder_of(run, name):
    return run.folder / f"{name}.journal"


def segments(run, name):
    """Returns the positions of the segments that are there."""
    return sorted(int(path.stem) for path in folder_of(run, name).glob("*.seg"))


def size_of(length):
    """The bytes that a message of this length takes."""
    return (16 + length + UNIT - 1) // UNIT * UNIT


def told(peer, op, **fields):
    """Returns an answer without what every answer has."""
    return {key: value for key, value in peer.call(op, **fields).items() if key not in ("ok", "id")}


def plain(messages):
    return [{key: m[key] for key in CARRIED} for m in messages]


def rest(peer, name, limit=256, **reading):
    """Polls a reader or consumer until there is nothing more. Returns all messages."""
    reading, found = reading or {"reader": name}, []
    while some := peer.call("poll", limit=limit, **reading)["messages"]:
        found += some
    return plain(found)


def read_from(peer, name, start="oldest", **options):
    """What a new reader finds from a place on."""
    peer.call("reader", journal=name, reader=name + "-from", start=start, **options)
    found = rest(peer, name + "-from")
    peer.call("close", reader=name + "-from")
    return found


def stats_alike(name, *peers, **expected):
    """Compares the stats that the peers find, and some of their fields with what is expected. Returns them."""
    stats = [peer.call("stats", journal=name)["stats"] for peer in peers]
    for peer, other in zip(peers, stats):
        differ = {f: (other.get(f), stats[0].get(f)) for f in {**stats[0], **other} if other.get(f) != stats[0].get(f)}
        equal(f"{peer.label} and {peers[0].label}: stats", differ, {})
    equal("stats", {field: stats[0][field] for field in expected}, expected)
    return stats[0]


def verbs(run, first, second, third):
    """Each verb of a writer, and push; readers of two languages, that follow and that come later, find the same from
    each start."""
    a, b, c = run.peer(first, 1), run.peer(second, 2), run.peer(third, 3)
    name = attach(run, a, b, c)
    info = [told(peer, "info", journal=name) for peer in (a, b, c)]
    equal("info", info[1:], [info[0]] * 2)
    for peer in (b, c):
        peer.call("reader", journal=name, reader=name)
        equal("newest of an empty one", read_from(peer, name, "newest"), [])
    made = told(a, "writer", journal=name, writer=name, name="feed", helper=False)
    equal("a new writer", made, {"epoch": 1, "position": 64, "number": 0, "recovery": None})
    begin = time.time_ns()
    sent = [
        (a.call("append", writer=name, data="aa")["position"], "aa", 1),
        (a.call("append", writer=name, data="bb" * 48, type=7)["position"], "bb" * 48, 7),
        (a.call("append", writer=name, data="", type=2**31 - 1)["position"], "", 2**31 - 1),
    ]
    equal("many", a.call("append_many", writer=name, data=["01", "02" * 100, ""], type=9)["taken"], 3)
    at = sent[-1][0] + 64
    for data in ("01", "02" * 100, ""):
        sent.append((at, data, 9))
        at += size_of(len(data) // 2)
    a.call("claim", writer=name, length=20, type=5)
    refused("view-alive", a, "append", writer=name, data="00")
    sent.append((a.call("commit", writer=name, data="c0" * 20)["position"], "c0" * 20, 5))
    a.call("claim", writer=name, length=200, type=5)
    a.call("abort", writer=name)
    a.call("append_many", writer=name, data=["dd"])
    place = told(a, "positions", writer=name)
    equal("number", place["number"], 8)
    sent.append((place["position"] - 64, "dd", 1))
    a.call("close", writer=name)
    pushed = a.call("push", journal=name, data="ee", type=3)["position"]
    sent.append((pushed, "ee", 3))
    pushed = b.call("push", journal=name, data="ff" * 20)["position"]
    sent.append((pushed, "ff" * 20, 1))
    old, late = 1_000_000_000_000_000_000, 2_000_000_000_000_000_000
    a.call("writer", journal=name, writer=name, name="feed", helper=False)
    for stamp in (old, late):
        sent.append((a.call("append", writer=name, data="0f", type=4, time=stamp)["position"], "0f", 4))
    equal("at a time", a.call("append_many", writer=name, data=["10"], type=4, time=late + 5)["taken"], 1)
    sent.append((told(a, "positions", writer=name)["position"] - 64, "10", 4))
    a.call("close", writer=name)

    whole = rest(b, name)
    equal("what a reader that followed found", [(m["position"], m["data"], m["type"]) for m in whole], sent)
    equal("numbers", [m["number"] for m in whole], list(range(len(sent))))
    equal("times that were given", [m["time"] for m in whole[-3:]], [old, late, late + 5])
    true("times", all(begin <= m["time"] <= time.time_ns() for m in whole[:-3]), [m["time"] for m in whole])
    true("one time for a batch", len({m["time"] for m in whole[3:6]}) == 1, whole[3:6])
    equal("the other one", rest(c, name), whole)
    for peer in (a, b, c):
        equal("from the oldest on", read_from(peer, name), whole)
        equal("from the newest on", read_from(peer, name, "newest"), [])
        for k, one in enumerate(whole):
            equal(f"from position {one['position']}", read_from(peer, name, {"position": one["position"]}), whole[k:])
            equal(f"from number {k}", read_from(peer, name, {"number": k}), whole[k:])
        for stamp, k in ((1, 0), (late, len(whole) - 2), (late + 1, len(whole) - 1), (late + 6, len(whole))):
            equal(f"from time {stamp}", read_from(peer, name, {"time": stamp}), whole[k:])
        # take, seek
        peer.call("reader", journal=name, reader=name + "s", start={"number": 3})
        equal("take", plain([peer.call("take", reader=name + "s")["message"]]), [whole[3]])
        place = told(peer, "seek", reader=name + "s", start={"number": 1})
        equal("seek", (place["number"], place["lost"], place["cuts"]), (1, 0, 0))
        equal("limit", plain(peer.call("poll", reader=name + "s", limit=2)["messages"]), whole[1:3])
        equal("break", plain(peer.call("poll", reader=name + "s", limit=5, action="BREAK")["messages"]), whole[3:4])
        equal("abort", plain(peer.call("poll", reader=name + "s", limit=5, action="ABORT")["messages"]), whole[4:5])
        answer = peer.call("poll", reader=name + "s", limit=5, action="throw")
        equal("throw", (plain(answer["messages"]), answer.get("threw")), (whole[4:5], True))
        equal("behind it", rest(peer, name + "s"), whole[5:])
        equal("nothing", peer.call("take", reader=name + "s")["message"], None)
        equal("ended", peer.call("ended", reader=name + "s")["ended"], True)
    stats_alike(name, a, b, c, messages=len(whole), writing=False, failed=False, segments=1)
    refused("closed", a, "append", writer=name, data="00")


def streamed(run, writer, reader, third):
    """A writer appends through many segments, with each verb, with and without a helper. One reader follows and sleeps,
    one reads what is durable, and one reads all of it again."""
    a, b, c = run.peer(writer, 1), run.peer(reader, 2), run.peer(third, 3)
    for helper, sync in ((True, "never"), (False, 10_000_000)):
        name, count = attach(run, a, b, c, sync=sync), 1500
        b.call("reader", journal=name, reader=name)
        c.call("reader", journal=name, reader=name, durable=True)
        a.call("writer", journal=name, writer=name, helper=helper)
        b.send("read_stream", reader=name, count=count, how="mix", wait="block", spin=0, seconds=20, **MANY)
        c.send("read_stream", reader=name, count=count, how="poll", seconds=20, **MANY)
        done = a.call("append_stream", writer=name, count=count, how="mix", within=20, **MANY)
        a.call("sync", writer=name)
        follows, durable = both(b, c, timeout=20)
        place = told(a, "positions", writer=name)
        for found in (follows, durable):
            equal("all", (found["count"], found["number"], found["lost"]), (count, count, 0))
        equal("appended", (done["count"], done["number"]), (count, count))
        again = c.call("reader", journal=name, reader=name + "2")
        equal("the beginning", (again["position"], again["number"]), (0, 0))
        cold = c.call("read_stream", reader=name + "2", count=count, how="poll", **MANY)
        equal("cold", cold["count"], count)
        a.call("close", writer=name)
        stats = stats_alike(name, a, b, c, messages=count, unsynced_since=0, helping=False, writing=False)
        above("segments", stats["segments"], 3)
        equal("synced", stats["synced"] + CHECK, stats["published"])
        true("the end", 0 <= stats["published"] - place["position"] <= 64, (stats["published"], place))
        for k in (0, 1, 700, count - 1):
            data = message(7, k, 8, 300, numbered=True)[1].hex()
            for peer in (a, b, c):
                peer.call("reader", journal=name, reader=name + "n", start={"number": k})
                one = peer.call("take", reader=name + "n")["message"]
                equal(f"number {k}", (one["number"], one["data"]), (k, data))
                peer.call("reader", journal=name, reader=name + "n", start={"position": one["position"]})
                equal(f"its position {k}", peer.call("take", reader=name + "n")["message"]["data"], data)


def consumed(run, first, second, third):
    """A consumer goes on where it stopped, in another language. It peeks, pops, counts, and gives its name up."""
    a, b, c = run.peer(first, 1), run.peer(second, 2), run.peer(third, 3)
    name = attach(run, a, b, c)
    equal("new", told(a, "consumer", journal=name, consumer=name, name="ledger")["epoch"], 1)
    b.call("writer", journal=name, writer=name)
    b.call("append_stream", writer=name, count=400, how="mix", **MANY)
    whole = read_from(c, name)
    owners = [{"slot": 0, "name": "ledger", "pid": a.pid}]
    answer = refused("no-free-slot", b, "consumer", journal=name, consumer=name, name="ledger")
    equal("carried", (answer["kind"], answer["slots"], answer["owners"]), ("consumer", 3, owners))
    at = 0
    for epoch, peer in enumerate((a, b, c, a), 1):
        if peer is not a or epoch > 1:
            place = told(peer, "consumer", journal=name, consumer=name, name="ledger", start="newest")
            equal("goes on", (place["number"], place["epoch"], place["lost"]), (at, epoch, 0))
        equal("size", peer.call("size", consumer=name)["size"], 400 - at)
        equal("peek", plain([peer.call("peek", consumer=name)["message"]]), [whole[at]])
        equal("pop", plain([peer.call("pop", consumer=name)["message"]]), [whole[at]])
        equal("poll", plain(peer.call("poll", consumer=name, limit=30)["messages"]), whole[at + 1 : at + 31])
        equal("take", plain([peer.call("take", consumer=name)["message"]]), [whole[at + 31]])
        at += 32
        peer.call("poll", consumer=name, limit=5, action="ABORT")
        peer.call("sync", consumer=name)
        stats = stats_alike(name, a, b, c)
        equal("one consumer", [one["name"] for one in stats["consumers"]], ["ledger"])
        one = stats["consumers"][0]
        equal("of it", (one["behind"], one["lost"], one["live"], one["pid"]), (400 - at, 0, True, peer.pid))
        equal("its gate", one["position"], peer.call("positions", consumer=name)["position"])
        if peer is not a or epoch > 1:
            answer = refused("busy", b if peer is not b else c, "forget", journal=name, name="ledger")
            true("the text names it", "ledger" in answer["message"], answer["message"])
        peer.call("close", consumer=name)
        equal("not live", stats_alike(name, a, b, c)["consumers"][0]["live"], False)
    # others begin at each place, and fill the slots
    for peer, start, number in ((b, "newest", 400), (c, {"number": 7}, 7)):
        place = told(peer, "consumer", journal=name, consumer=f"{name}-{number}", name=f"n{number}", start=start)
        equal("begins", (place["number"], place["lost"]), (number, 0))
    for peer in (a, b, c):
        answer = refused("no-free-slot", peer, "consumer", journal=name, consumer=name + "x", name="more")
        equal("carried", (answer["kind"], answer["slots"]), ("consumer", 3))
        true("names", {o["name"] for o in answer["owners"]} <= {"ledger", "n400", "n7"}, answer)
    equal("pop of nothing", b.call("pop", consumer=f"{name}-400")["message"], None)
    equal("peek of nothing", b.call("peek", consumer=f"{name}-400")["message"], None)
    b.call("forget", consumer=f"{name}-400")
    answer = refused("invalid-argument", c, "forget", journal=name, name="n400")
    equal("argument", answer["argument"], "name")
    c.call("forget", journal=name, name="ledger")
    place = told(a, "consumer", journal=name, consumer=name, name="ledger")
    equal("a new one", (place["number"], place["position"]), (0, 0))
    equal("all again", rest(a, name, consumer=name), whole)
    equal("both", sorted(o["name"] for o in stats_alike(name, a, b, c)["consumers"]), ["ledger", "n7"])
    for wrong in ("", "a b", "n" * 65):
        answer = refused("invalid-argument", a, "consumer", journal=name, consumer=name + "x", name=wrong)
        equal("argument", answer["argument"], "name")


def trimmed(run, first, second, third):
    """No form of trim removes what a consumer of another language needs; max_size and max_age do. What was trimmed
    counts as lost, and a reader goes on behind it."""
    a, b, c = run.peer(first, 1), run.peer(second, 2), run.peer(third, 3)
    name, file = attach(run, a, b, c), HEADER + SEGMENT
    a.call("writer", journal=name, writer=name, helper=False)
    b.call("consumer", journal=name, consumer=name, name="slow")
    a.call("append_stream", writer=name, count=2000, how="append", **MANY)
    a.call("sync", writer=name)
    whole, all_of = read_from(c, name), segments(run, name)
    above("segments", len(all_of), 5)
    end = told(a, "positions", writer=name)["position"]
    for fields in ({"consumed": True}, {"position": end}, {"before": 2**62}, {"size": 0}):
        for peer in (a, b, c):
            equal(f"trim {fields} before anything is consumed", peer.call("trim", journal=name, **fields)["freed"], 0)
    equal("all there", segments(run, name), all_of)
    c.call("reader", journal=name, reader=name)
    half = next(m["number"] for m in whole if m["position"] > all_of[3])
    b.call("read_stream", consumer=name, count=half + 1, **MANY)
    equal("freed below the gate", c.call("trim", journal=name, consumed=True)["freed"], 3 * file)
    equal("again", b.call("trim", journal=name, size=0)["freed"], 0)
    equal("left", segments(run, name), all_of[3:])
    stats_alike(name, a, b, c, trimmed=all_of[3], segments=len(all_of) - 3, bytes=(len(all_of) - 3) * file)
    gone = sum(m["position"] < all_of[3] for m in whole)
    found = rest(c, name)
    place = told(c, "positions", reader=name)
    equal("a reader at what is gone", (found[0]["number"], place["lost"]), (gone, gone))
    equal("the rest", found, whole[gone:])
    for peer in (a, b, c):
        equal("oldest", read_from(peer, name), whole[gone:])
        peer.call("reader", journal=name, reader=name + "g", start={"number": 3})
        one = peer.call("take", reader=name + "g")["message"]
        lost = peer.call("positions", reader=name + "g")["lost"]
        equal("a number that is gone", (one["number"], lost), (gone, gone - 3))
        peer.call("reader", journal=name, reader=name + "g", start={"position": whole[5]["position"]})
        one = peer.call("take", reader=name + "g")["message"]
        equal("a position that is gone", one["number"], gone)
        equal("from there", rest(peer, name + "g"), whole[gone + 1 :])
    rest(b, name, consumer=name)
    equal("one, by position", a.call("trim", journal=name, position=all_of[4] + 100)["freed"], file)
    second_last = next(m["time"] for m in whole if m["position"] > all_of[5])
    b.call("trim", journal=name, before=second_last)
    true("by time", segments(run, name)[0] in all_of[4:6], segments(run, name))
    c.call("trim", journal=name, size=2 * SEGMENT)
    equal("down to two", len(segments(run, name)), 2)
    b.call("trim", journal=name, size=0)
    true("never the last", segments(run, name)[-1] <= end < segments(run, name)[-1] + SEGMENT, segments(run, name))
    for fields, argument in (({"position": -1}, "position"), ({"size": -1}, "size")):
        for peer in (a, b, c):
            equal("argument", refused("invalid-argument", peer, "trim", journal=name, **fields)["argument"], argument)
    # a limit that does not look at gates, by the helper of the writer
    a.call("close", writer=name)
    before = b.call("positions", consumer=name)["number"]
    c.call("change", journal=name, max_size=2 * SEGMENT)
    stats_alike(name, a, b, c, max_size=2 * SEGMENT)
    a.call("writer", journal=name, writer=name, helper=True)
    for k in range(8):  # the helper trims when the writer enters a segment
        a.call("append_stream", writer=name, first=2000 + 400 * k, count=400, how="many", **MANY)
        time.sleep(0.01)
    a.call("sync", writer=name)
    deadline = time.monotonic() + 5
    while len(segments(run, name)) > 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    left = segments(run, name)
    true("segments that the helper left", len(left) <= 4, left)
    found = rest(b, name, consumer=name)  # it may still read what it has mapped
    lost = b.call("positions", consumer=name)["lost"]
    equal("each is read or lost", (len(found), lost > 0), (5200 - before - lost, True))
    equal("up to the end", found[-1]["number"], 5199)
    for one in found:
        equal("data", one["data"], message(7, one["number"], 8, 300, numbered=True)[1].hex())
    b.call("close", consumer=name)
    place = told(c, "consumer", journal=name, consumer=name, name="slow")
    equal("kept", (place["lost"], place["number"]), (lost, 5200))
    stats = stats_alike(name, a, b, c)
    equal("of stats", stats["consumers"][0]["lost"], lost)


def flip(run, name, position, bit=1):
    """Flips a bit of the byte at a position."""
    segment = position // SEGMENT * SEGMENT
    with open(folder_of(run, name) / f"{segment:019}.seg", "r+b") as file:
        at = HEADER + position - segment
        byte = os.pread(file.fileno(), 1, at)[0] ^ bit
        os.pwrite(file.fileno(), bytes([byte]), at)


def checks(run, name):
    """Returns the position and the count of each check and cut, by a walk of this test's own."""
    found = []
    for segment in segments(run, name):
        content = (folder_of(run, name) / f"{segment:019}.seg").read_bytes()[HEADER:]
        at = 0
        while at < SEGMENT:
            length, kind = struct.unpack_from("<ii", content, at)
            if length == 0:
                break
            if kind in (-3, -4):
                found.append((segment + at, struct.unpack_from("<q", content, at + 16)[0]))
            at += size_of(length - 16)
    return found


def damaged(run, writer, second, third):
    """A flipped bit, and a segment that is gone: each language names the same positions and the same number of
    messages, hands out nothing of it, and goes on behind it if it is told to skip."""
    a, b, c = run.peer(writer, 1), run.peer(second, 2), run.peer(third, 3)
    for what in ("payload", "length", "check", "segment", "the last segment"):
        name = attach(run, a, b, c)
        a.call("writer", journal=name, writer=name, helper=False)
        a.call("append_stream", writer=name, count=1200, how="mix", **MANY)
        a.call("close", writer=name)
        whole, every = read_from(a, name), checks(run, name)
        places = segments(run, name)
        if what in ("segment", "the last segment"):
            gone = places[1] if what == "segment" else places[-1]
            (folder_of(run, name) / f"{gone:019}.seg").unlink()
            first = gone
        else:
            victim = whole[len(whole) // 2]
            at = {"payload": victim["position"] + 20, "length": victim["position"]}.get(what)
            if what == "check":
                at = next(p for p, _ in every if p > victim["position"]) + 17
            flip(run, name, at)
            first = max(p for p, _ in every if p < victim["position"])
        answers = []
        for peer in (a, b, c):
            peer.call("reader", journal=name, reader=name)
            found, answer = [], None
            try:
                while some := peer.call("poll", reader=name, limit=256)["messages"]:
                    found += plain(some)
            except Refused as e:
                equal(f"{what}: {e}", e.code, "damaged")
                answer = e.answer
            true(f"{what}: {peer.label} says so", answer, found[-1:])
            for field in ("from", "to"):
                true(f"its text names {field}", str(answer[field]) in answer["message"], answer["message"])
            answers.append((found, {f: answer[f] for f in ("from", "to", "messages")}))
            equal("again", refused("damaged", peer, "take", reader=name)["from"], answer["from"])
        for peer, (found, answer) in zip((a, b, c), answers):
            equal(f"{what}: {peer.label} reports what {a.label} does", answer, answers[0][1])
            equal(f"{what}: {peer.label} hands out what {a.label} does", found, answers[0][0])
        found, answer = answers[0]
        equal("what was handed out is right", found, whole[: len(found)])
        true("up to the damage", all(m["position"] < first + CHECK for m in found), (found[-1:], first))
        if answer["messages"] >= 0:
            rest_of = [m for m in whole if m["position"] >= answer["to"]]
            equal("messages", answer["messages"], len(whole) - len(rest_of) - len(found))
        else:
            equal("up to the end", answer["to"], a.call("stats", journal=name)["stats"]["published"])
            rest_of = []
        for peer in (a, b, c):
            peer.call("reader", journal=name, reader=name, skip_damaged=True)
            equal(f"{what}: what a skipping reader finds", rest(peer, name), found + rest_of)
            lost = peer.call("positions", reader=name)["lost"]
            equal("lost", lost, len(whole) - len(found) - len(rest_of) if rest_of else lost)


def woken(run, sleeper, waker):
    """A reader, a durable reader and a consumer that sleep are woken by an append, a batch, a claim, a push and a sync
    of another language."""
    a, b = run.peer(sleeper, 1), run.peer(waker, 2)
    name = attach(run, a, b)
    a.call("reader", journal=name, reader=name)
    a.call("consumer", journal=name, consumer=name, name="c")
    a.call("reader", journal=name, reader=name + "d", durable=True)

    def claimed():
        b.call("claim", writer=name, length=1, type=1)
        b.call("commit", writer=name, data="00")

    ways = {
        "append": lambda: b.call("append", writer=name, data="00"),
        "batch": lambda: b.call("append_many", writer=name, data=["00"]),
        "claim": claimed,
        "push": lambda: b.call("push", journal=name, data="00", timeout=LONG),
        "sync": lambda: (b.call("append", writer=name, data="00"), b.call("sync", writer=name)),
    }
    for way, act in ways.items():
        if way == "push":
            b.call("close", writer=name)
        elif way in ("append", "sync"):
            b.call("writer", journal=name, writer=name, helper=False)
        if way == "sync":
            rest(a, name + "d")
        for reading in ({"reader": name + "d"},) if way == "sync" else ({"reader": name}, {"consumer": name}):
            for attempt in range(5):
                a.send("take", timeout=LONG, **reading)
                time.sleep(0.03)
                if not a.lines.empty():
                    raise Wrong(f"{way}: expected it to wait, found {a.receive()}")
                begin = time.monotonic()
                act()
                equal("the message", a.receive(LONG)["message"]["data"], "00")
                took = time.monotonic() - begin
                if took < SOON:
                    break
            else:
                raise Wrong(f"{way}: expected to be woken within {SOON} s, it took {took:.3f} s five times")
            for other in ({"reader": name}, {"consumer": name}):
                rest(a, name, **other)
    stamp = time.monotonic()
    equal("in vain", a.call("take", reader=name, timeout=0.1)["message"], None)
    above("it waited", time.monotonic() - stamp, 0.09)


SHOW = """
import json, sys
from flyring import Journal
from flyring.sbe import Schema, to_dict
journal = Journal.open(sys.argv[1], read_only=True)
schema = Schema.of(journal)
kinds = {kind.TEMPLATE_ID: kind for kind in schema.messages.values()}
shown = []
for message in iter(journal.reader().take, None):
    kind = kinds.get(message.type)
    shown.append([kind.NAME, to_dict(kind.decode(message))] if kind else [None, bytes(message).decode()])
print(json.dumps(shown))
"""


def typed(run, first, second):
    """Messages of several types of a schema, and raw ones, from two languages: bytes and types are those that were
    appended, and the fields are those of the golden file."""
    a, b = run.peer(first, 1), run.peer(second, 2)
    golden = json.loads(pathlib.Path(f"{TYPED}.json").read_text(encoding="utf-8"))
    sent = [(o["type"], o["data"]) for o in golden["operations"] if o["op"] == "offer"]
    fields = [[t["message"], t["body"]] if t["message"] else [None, "raw"] for t in golden["typed"]]
    name = attach(run, a, b, **{key: golden["create"][key] for key in ("schema", "schema_id", "schema_version")})
    infos = [told(peer, "info", journal=name) for peer in (a, b)]
    equal("info", infos[1], infos[0])
    equal("schema", infos[0]["schema"], golden["create"]["schema"])
    for turn, (kind, data) in enumerate(sent):
        peer = (a, b)[turn % 2]
        peer.call("writer", journal=name, writer=name, timeout=LONG, helper=False)
        if kind > 10:  # none of the schema's
            peer.call("append", writer=name, data=data)
        elif turn % 4 < 2:
            peer.call("append", writer=name, data=data, type=kind)
        else:
            peer.call("claim", writer=name, length=len(data) // 2, type=kind)
            peer.call("commit", writer=name, data=data)
        peer.call("close", writer=name)
    expected = [(kind if kind < 10 else 65536, data) for kind, data in sent]
    for peer in (a, b):
        equal("types and bytes", [(m["type"], m["data"]) for m in read_from(peer, name)], expected)
    words = [sys.executable, "-c", SHOW, str(folder_of(run, name))]
    shown = subprocess.run(words, capture_output=True, text=True)
    equal(f"status ({shown.stderr[-300:]})", shown.returncode, 0)
    equal("fields", json.loads(shown.stdout), fields)


def tests(languages):
    """Yields (title, function, arguments) of every test."""
    for a in languages:  # the other languages do the same beside it
        b, c = after(languages, a), after(languages, a, 2)
        yield f"journal: {a} appends and trims, {b} consumes, {c} reads", trimmed, a, b, c
        yield f"journal: damage in what {a} wrote, {b} and {c} read", damaged, a, b, c
        yield f"journal: typed messages of {a} and {b}", typed, a, b
    for a, b in itertools.product(languages, repeat=2):
        c = after(languages, b, 1 if a != b else 2)
        yield f"journal: {a} appends, {b} and {c} read from each place", verbs, a, b, c
        yield f"journal: {a} appends a stream, {b} and {c} follow", streamed, a, b, c
        yield f"journal: a consumer of {a}, {b} and {c}", consumed, a, b, c
        yield f"journal: {b} wakes {a}", woken, a, b
