# SPDX-License-Identifier: Apache-2.0
"""Tests in which one language works on channels, slots and rings that another one left. Each is a function of the run
and of the languages of its roles. Errors, deaths and golden files have their own modules; tests that fit the matrix are
in scenarios.py."""

import os
import time

from driver import Refused, both
from harness import above, data_of, drain, equal, fill, offer_within, refused, shorten, true, Wrong
from stream import message

BROADCAST = {"kind": "broadcast", "counters": 0}
SMALL = {"capacity": 4096, "alignment": 64}
INFO = ("path", "channel_id", "kind", "capacity", "publishers", "subscribers", "alignment", "counters", "file_length")


def info(peer, op, **fields):
    """Returns the answer's facts about the channel, which are in an object `info` or at the top."""
    answer = peer.call(op, **fields)
    answer = answer.get("info", answer)
    return {field: answer.get(field) for field in INFO}


def replaced(run, first, second):
    """Replace makes a new channel under the name; attached processes keep the old one."""
    a, b = run.peer(first, 1), run.peer(second, 2)
    name = run.name()
    old = info(a, "create", channel=name, name=name, **BROADCAST | SMALL)
    new = info(b, "replace", channel=name, name=name, kind="inbox", capacity=8192)
    true("another id than that of the old channel", old["channel_id"] != new["channel_id"], new["channel_id"])
    equal("opened", info(a, "open", channel=name + "n", name=name), new)
    a.call("publisher", channel=name, publisher=name)
    answer = refused("replaced", a, "offer", publisher=name, data="00", type=1)
    equal("the id of the new one", answer.get("channel_id"), new["channel_id"])
    above("position of the next offer in the old one", offer_within(1, a, name, "00"), 0)
    equal("nothing is left beside it", sorted(p.name for p in run.folder.iterdir()), [name + ".ring"])


def held_back(run, writer, reader, third):
    """A slow subscriber holds the writer back, and the writer can name it. After its death it is retired, unless
    kept."""
    a, b, c = run.peer(writer, 1), run.fresh(reader), run.peer(third, 2)
    name = run.name()
    a.call("create", channel=name, name=name, **BROADCAST | SMALL)
    a.call("publisher", channel=name, publisher=name)
    b.call("open", channel=name, name=name)
    slow = b.call("subscriber", channel=name, subscriber=name, name="slow")
    sent = fill(a, name)
    expected = {
        "slot": slow["slot"],
        "name": "slow",
        "pid": b.pid,
        "live": True,
        "kept": False,
        "position": slow["positions"]["0"],
    }
    equal("held_by", a.call("held_by", publisher=name)["holder"], expected)
    equal("a part", data_of(b.call("poll", subscriber=name, limit=5)["messages"]), sent[:5])
    true("room for 3 to 5 messages", 3 <= (room := len(fill(a, name))) <= 5, room)
    equal("next", b.call("take", subscriber=name)["message"]["data"], sent[5])
    fill(a, name)
    b.kill()
    above("position of an offer within 5 s of the subscriber's death", offer_within(5, a, name, "01"), 0)
    equal("held_by", a.call("held_by", publisher=name)["holder"], None)

    b = run.fresh(reader)
    b.call("open", channel=name, name=name)
    kept = b.call("subscriber", channel=name, subscriber=name, name="ledger", kept=True)
    equal("the dead one's slot is free", kept["slot"], slow["slot"])
    pid = b.pid
    sent = fill(a, name)
    b.kill()
    equal("a dead kept subscriber was retired", offer_within(0.02, a, name, "02"), -1)
    equal(
        "held_by",
        a.call("held_by", publisher=name)["holder"],
        {
            "slot": kept["slot"],
            "name": "ledger",
            "pid": pid,
            "live": False,
            "kept": True,
            "position": kept["positions"]["0"],
        },
    )
    c.call("open", channel=name, name=name)
    c.call("subscriber", channel=name, subscriber=name, name="ledger", kept=True)
    equal("resumed", data_of(drain(c, name)), sent)
    above("position of an offer", a.call("offer", publisher=name, data="03", type=1)["position"], 0)


def name_handed_over(run, first, second, reader):
    """A publisher's name gets the same ring in another language, which continues at its end."""
    a, b, c = run.peer(first, 1), run.peer(second, 2), run.peer(reader, 1)
    name = run.name()
    a.call("create", channel=name, name=name, **BROADCAST | SMALL)
    b.call("open", channel=name, name=name)
    if c is not a:
        c.call("open", channel=name, name=name)
    c.call("subscriber", channel=name, subscriber=name)
    a.call("publisher", channel=name, publisher=name + "other", name="other")
    start = None
    for epoch, peer in enumerate((a, b, a), 1):
        taken = peer.call("publisher", channel=name, publisher=f"{name}-{epoch}", name="orders")
        equal("ring", taken["ring"], 1)
        equal("epoch", taken["epoch"], epoch)
        if (
            start is not None
        ):  # behind the owner record and the 512 bytes that the previous owner had cleared ahead (6.1, 6.8)
            equal("position", taken["position"], start + 64 + 512)
        start = taken["position"]
        refused("no-free-slot", b, "publisher", channel=name, publisher=name + "busy", name="orders")
        peer.call("offer", publisher=f"{name}-{epoch}", data=bytes([epoch]).hex(), type=epoch)
        peer.call("close", publisher=f"{name}-{epoch}")
    found = c.call("poll", subscriber=name, limit=256)["messages"]
    equal("messages", [(m["ring"], m["type"], m["data"]) for m in found], [(1, i, f"0{i}") for i in (1, 2, 3)])


def killed_in_a_claim(run, victim, heir, reader):
    """A publisher is killed with an open claim. The next owner repairs the ring, and the reader misses nothing."""
    a, b, c = run.fresh(victim), run.peer(heir, 1), run.peer(reader, 2)
    name = run.name()
    b.call("create", channel=name, name=name, **BROADCAST | SMALL)
    c.call("open", channel=name, name=name)
    c.call("subscriber", channel=name, subscriber=name)
    a.call("open", channel=name, name=name)
    a.call("publisher", channel=name, publisher=name, name="feed")
    for i in range(3):
        a.call("offer", publisher=name, data=f"0{i}", type=1)
    equal("claimed", a.call("claim", publisher=name, length=200, type=1)["claimed"], True)
    refused("no-free-slot", b, "publisher", channel=name, publisher=name, name="feed")
    a.kill()
    taken = b.call("publisher", channel=name, publisher=name, name="feed")
    equal("ring", taken["ring"], 0)
    equal("epoch", taken["epoch"], 2)
    equal("position", taken["position"], 64 + 512)  # the owner record, and the bytes cleared ahead behind it
    equal("before", data_of(c.call("poll", subscriber=name, limit=256)["messages"]), ["00", "01", "02"])
    b.call("offer", publisher=name, data="aa", type=1)
    equal("after", data_of(c.call("poll", subscriber=name, limit=256)["messages"]), ["aa"])


def killed_while_publishing(run, victim, heir, reader):
    """A publisher is killed at full speed. Its committed messages are intact, and the next owner's stream follows."""
    a, b, c = run.fresh(victim), run.peer(heir, 1), run.peer(reader, 2)
    name = run.name()
    b.call("create", channel=name, name=name, **BROADCAST | {"capacity": 16384, "alignment": 8})
    c.call("open", channel=name, name=name)
    c.call("subscriber", channel=name, subscriber=name)
    a.call("open", channel=name, name=name)
    a.call("publisher", channel=name, publisher=name, name="feed")
    stream = {"seed": 11, "count": 10**9, "min": 0, "max": 100, "first": 0}
    a.send("publish_stream", publisher=name, how="mix", seconds=20, **stream)
    c.send("verify_stream", subscriber=name, how="mix", seconds=0.6, streams=[{"ring": 0} | stream])
    time.sleep(0.3)
    a.kill()
    try:
        c.receive(15)
    except Refused as e:
        equal(f"{c.label}: verify_stream ({e})", e.code, "timeout")
        counts = e.answer["counts"]
        verified = sum(counts.values() if isinstance(counts, dict) else counts)
    else:
        raise Wrong("expected a time-out after 0.6 s, found a thousand million messages verified")
    above("messages", verified, 0)
    b.call("publisher", channel=name, publisher=name, name="feed")
    equal("everything was read", c.call("poll", subscriber=name, limit=256)["messages"], [])
    after = {"seed": 12, "count": 2000, "min": 0, "max": 100, "first": 5}
    b.send("publish_stream", publisher=name, how="mix", **after)
    c.send("verify_stream", subscriber=name, how="mix", streams=[{"ring": 0} | after])
    both(b, c, timeout=30)


def the_stream_is_the_same(run, language):
    """publish_stream makes the messages of PEER.md with each `how`, and verify_stream finds a wrong one."""
    a, b = run.peer(language, 1), run.peer(language, 2)
    name = run.name()
    a.call("create", channel=name, name=name, kind="broadcast")
    b.call("open", channel=name, name=name)
    a.call("publisher", channel=name, publisher=name)
    b.call("subscriber", channel=name, subscriber=name)
    for seed, first, low, high in ((1, 0, 0, 100), (2**63 - 1, 2**63 - 100, 0, 33), (5, 10**6, 250, 256), (0, 0, 0, 0)):
        for how in ("offer", "claim", "batch", "mix"):
            for kind in (None, 77):
                fields = {"seed": seed, "count": 64, "min": low, "max": high, "first": first, "how": how}
                if kind:
                    fields["type"] = kind
                equal("count", a.call("publish_stream", publisher=name, **fields)["count"], 64)
                expected = [
                    (kind or t, p.hex()) for t, p in (message(seed, i, low, high) for i in range(first, first + 64))
                ]
                found = [(m["type"], m["data"]) for m in drain(b, name)]
                equal(f"stream {shorten(fields)}", found, expected)
    s = {"seed": 3, "count": 20, "min": 1, "max": 50, "first": 0}
    for wrong in ({"seed": 4}, {"first": 1}, {"max": 49}, {"type": 5}):
        a.call("publish_stream", publisher=name, how="offer", **s)
        answer = refused(
            "mismatch", b, "verify_stream", subscriber=name, how="poll", seconds=5, streams=[{"ring": 0} | s | wrong]
        )
        equal("ring", answer.get("ring"), 0)
        true("the answer says what is wrong", answer.get("what"), answer)
        drain(b, name)
    payload = bytearray(message(3, 4, 1, 50)[1])
    payload[-1] ^= 1
    a.call("publish_stream", publisher=name, how="offer", **s | {"count": 4})
    a.call("offer", publisher=name, data=payload.hex(), type=message(3, 4, 1, 50)[0])
    answer = refused("mismatch", b, "verify_stream", subscriber=name, how="take", seconds=5, streams=[{"ring": 0} | s])
    equal("sequence", answer.get("sequence"), 4)
    a.call("publish_stream", publisher=name, how="mix", **s | {"count": 7})
    drain(b, name)
    answer = refused("timeout", b, "verify_stream", subscriber=name, how="mix", seconds=0.05, streams=[{"ring": 0} | s])
    true("the answer has counts", answer.get("counts") is not None, answer)


def busy(run, language):
    """A reader that finds a message in each turn ends when its time is over, too."""
    a = run.peer(language, 1)
    name = run.name()
    s = {"seed": 5, "count": 200, "min": 8, "max": 60, "numbered": True}
    a.call("create", channel=name, name=name, kind="broadcast", capacity=65536)
    a.call("publisher", channel=name, publisher=name)
    a.call("create", journal=name, name=name, segment_size=65536)
    a.call("writer", journal=name, writer=name)
    a.call("append_stream", writer=name, **s)
    for wait in ("backoff", "block"):
        a.call("subscriber", channel=name, subscriber=name)
        a.call("publish_stream", publisher=name, how="offer", **s)
        a.call("reader", journal=name, reader=name)
        limits = {"how": "take", "wait": wait, "seconds": 0}
        streams = [{"ring": 0} | s]
        found = refused("timeout", a, "verify_stream", subscriber=name, streams=streams, **limits)["counts"]
        true(f"{wait}: some messages, not all", 0 < found["0"] < 200, found)
        found = refused("timeout", a, "read_stream", reader=name, **s, **limits)["counts"]
        true(f"{wait}: some messages of the journal, not all", 0 < found[0] < 200, found)
        a.call("close", subscriber=name)
        a.call("close", reader=name)


def numbered_streams(run, language):
    """Numbered streams are those of PEER.md. A reader that joins in the middle begins there, and finds gaps and
    repetitions."""
    a, b = run.peer(language, 1), run.peer(language, 2)
    name = run.name()
    a.call("create", channel=name, name=name, kind="broadcast")
    b.call("open", channel=name, name=name)
    a.call("publisher", channel=name, publisher=name)
    b.call("subscriber", channel=name, subscriber=name)
    s = {"seed": 5, "count": 40, "min": 8, "max": 60, "first": 1000, "numbered": True}
    for how in ("offer", "claim", "batch", "mix"):
        a.call("publish_stream", publisher=name, how=how, **s)
        expected = [(t, p.hex()) for t, p in (message(5, i, 8, 60, numbered=True) for i in range(1000, 1040))]
        equal(f"stream by {how}", [(m["type"], m["data"]) for m in drain(b, name)], expected)

    def verify(*parts):
        for first, end in parts:
            a.call("publish_stream", publisher=name, how="mix", **s | {"first": first, "count": end - first})
        stream = {"ring": 0} | s | {"first": None, "count": 1040}
        return {"subscriber": name, "how": "mix", "seconds": 0.05, "streams": [stream]}

    answer = b.call("verify_stream", **verify((1010, 1040)))
    equal("from 1010 on", (answer["verified"], answer["count"]), (True, 30))
    equal("rings", answer["rings"], {"0": {"first": 1010, "next": 1040, "seen": 30, "lost": 0}})
    for parts, sequence in ((((1010, 1020), (1021, 1040)), 1020), (((1010, 1020), (1019, 1040)), 1020)):
        answer = refused("mismatch", b, "verify_stream", **verify(*parts))
        equal(f"{parts}: sequence", answer.get("sequence"), sequence)
        drain(b, name)
    equal("nothing", refused("timeout", b, "verify_stream", **verify()).get("counts"), {"0": 0})
    equal("a part", refused("timeout", b, "verify_stream", **verify((1030, 1035))).get("counts"), {"0": 5})
    refused("bad-request", a, "publish_stream", publisher=name, how="mix", **s | {"min": 7})


def told_to_die(run, language):
    """die_at: half of message n is written, but not published; a verifier has not consumed message n."""
    for how in ("offer", "claim", "batch", "mix"):
        a, b, name = run.fresh(language), run.peer(language, 1), run.name()
        b.call("create", channel=name, name=name, **BROADCAST | SMALL | {"alignment": 8})
        a.call("open", channel=name, name=name)
        a.call("publisher", channel=name, publisher=name)
        start = b.call("subscriber", channel=name, subscriber=name)["positions"]["0"]
        s = {"seed": 5, "count": 40, "min": 30, "max": 60, "first": 1000}
        a.send("publish_stream", publisher=name, how=how, die_at=1007, **s)
        a.dies()
        expected = [p.hex() for _, p in (message(5, i, 30, 60) for i in range(1000, 1007))]
        equal(f"{how}: what came", data_of(drain(b, name)), expected)
        end, payload = b.call("positions", subscriber=name)["positions"]["0"], message(5, 1007, 30, 60)[1]
        above(f"{how}: position", end, start)
        with open(run.folder / f"{name}.ring", "rb") as file:
            rings = int.from_bytes(os.pread(file.fileno(), 8, 136), "little")  # channel.md 4.2
            record = os.pread(file.fileno(), 8 + len(payload), rings + end)
        length = int.from_bytes(record[:4], "little", signed=True)
        true(f"{how}: a length of 0 or less, as it is not committed", length <= 0, length)
        half = len(payload) // 2
        equal(f"{how}: the first half", record[8 : 8 + half], payload[:half])
        equal(f"{how}: the rest", record[8 + half + 1 :], bytes(len(record) - 8 - half - 1))
    for how in ("poll", "take", "mix"):
        a, b, name = run.peer(language, 1), run.fresh(language), run.name()
        a.call("create", channel=name, name=name, **BROADCAST | SMALL)
        b.call("open", channel=name, name=name)
        b.call("subscriber", channel=name, subscriber=name, name="journal", kept=True)
        a.call("publisher", channel=name, publisher=name)
        s = {"seed": 5, "count": 20, "min": 8, "max": 60, "first": 0}
        a.call("publish_stream", publisher=name, how="mix", **s)
        b.send("verify_stream", subscriber=name, how=how, die_at=7, streams=[{"ring": 0} | s])
        b.dies()
        a.call("subscriber", channel=name, subscriber=name, name="journal", kept=True)
        found, sent = data_of(drain(a, name)), [message(5, i, 8, 60)[1].hex() for i in range(20)]
        equal(f"{how}: seen again", found, sent[20 - len(found) :])
        true(f"{how}: at least 13 are left, as message 7 was not consumed", len(found) >= 13, len(found))
        true(f"{how}: 13 are left, as 7 were consumed", how != "take" or len(found) == 13, len(found))
