# SPDX-License-Identifier: Apache-2.0
"""Tests of what one language does with what another one left: channels, slots, recovery, counters. Each is a function
of the run and of the languages that play its parts; errors and golden files have modules of their own."""

import os
import time

from driver import Refused, both
from harness import Wrong, data_of, drain, equal, fill, hexed, offer_within, refused, shorten, true
from stream import message

BROADCAST = {"kind": "broadcast", "counters": 0}
SMALL = {"capacity": 4096, "alignment": 64}
OPTIONS = (
    {"kind": "inbox"},
    {"kind": "broadcast", "capacity": 4096, "publishers": 1, "subscribers": 0, "alignment": 8, "counters": 0},
    {
        "kind": "broadcast",
        "capacity": 65536,
        "publishers": 70,
        "subscribers": 33,
        "alignment": 8,
        "counters": 7,
        "schema": "größer\n" * 1000,
        "schema_id": 65535,
        "schema_version": 2,
    },
)
INFO = ("path", "channel_id", "kind", "capacity", "publishers", "subscribers", "alignment", "counters", "file_length")


def info(peer, op, **fields):
    """What the answer says about the channel, in an object `info` or at the top."""
    answer = peer.call(op, **fields)
    answer = answer.get("info", answer)
    return {field: answer.get(field) for field in INFO}


def open_and_create(run, creator, opener):
    """What one creates the other opens, and both say the same about it; open-or-create names what differs."""
    a, b = run.peer(creator, 1), run.peer(opener, 2)
    for options in OPTIONS:
        name = run.name()
        first = info(a, "create", channel=name, name=name, **options)
        expected = {"capacity": 1 << 20, "publishers": 4, "subscribers": 4, "alignment": 64, "counters": 64} | options
        for field in ("kind", "capacity", "publishers", "subscribers", "alignment", "counters"):
            equal(f"{a.label}: info {field}", first[field], expected[field])
        path = run.folder / (name + ".ring")
        equal("path", os.path.realpath(first["path"]), os.path.realpath(path))
        equal("file_length", first["file_length"], path.stat().st_size)
        equal("mode", oct(path.stat().st_mode & 0o777), "0o600")
        equal(f"{b.label}: info", info(b, "open", channel=name, name=name), first)
        equal(f"{b.label}: info, opened by path", info(b, "open", channel=name + "p", name=str(path)), first)
        equal("open_or_create", info(b, "open_or_create", channel=name + "o", name=name, **options), first)
        other_kind = "inbox" if options["kind"] == "broadcast" else "broadcast"
        answer = refused(
            "differs",
            b,
            "open_or_create",
            channel=name + "d",
            name=name,
            **options | {"kind": other_kind, "capacity": 1 << 14, "subscribers": 9},
        )
        equal(f"{b.label}: differs", answer.get("field"), "kind")
        with_schema = (("schema_id", 3), ("schema_version", 4)) if "schema" in options else ()
        for field, value in (
            ("capacity", 8192),
            ("publishers", 2),
            ("subscribers", 3),
            ("alignment", 72 - expected["alignment"]),
            ("counters", 8),
            ("schema", "other"),
            *with_schema,
        ):
            answer = refused("differs", b, "open_or_create", channel=name + "d", name=name, **options | {field: value})
            equal(f"{b.label}: differs", answer.get("field"), field)
        b.call("unlink", name=name)
        refused("no-such-channel", a, "open", channel=name + "x", name=name)
        equal("info after unlink", info(a, "info", channel=name), first)


def replaced(run, first, second):
    """Replace makes a new channel under the name; who has the old one keeps it."""
    a, b = run.peer(first, 1), run.peer(second, 2)
    name = run.name()
    old = info(a, "create", channel=name, name=name, **BROADCAST | SMALL)
    new = info(b, "replace", channel=name, name=name, kind="inbox", capacity=8192)
    true("a new id", old["channel_id"] != new["channel_id"])
    equal("opened", info(a, "open", channel=name + "n", name=name), new)
    a.call("publisher", channel=name, publisher=name)
    true("the old one works", a.call("offer", publisher=name, data="00", type=1)["position"] > 0)
    equal("nothing is left beside it", sorted(p.name for p in run.folder.iterdir()), [name + ".ring"])


def inbox_before_subscriber(run, writer, reader):
    """An inbox is filled, its writer goes away, then the first subscriber reads it all."""
    a, b = run.peer(writer, 1), run.peer(reader, 2)
    name = run.name()
    a.call("create", channel=name, name=name, kind="inbox", **SMALL)
    sent = []
    for n in range(2):
        publisher = run.name("p")
        a.call("publisher", channel=name, publisher=publisher)
        sent.append(fill(a, publisher, 100 + n))
    a.call("close", channel=name)
    b.call("open", channel=name, name=name)
    slot = b.call("subscriber", channel=name, subscriber=name)["slot"]
    equal("slot", slot, 0)
    messages = drain(b, name)
    for ring in range(2):
        equal(f"messages of ring {ring}", data_of(m for m in messages if m["ring"] == ring), sent[ring])


def kept_slot(run, writer, first, second):
    """A kept subscriber in one language closes in the middle, and one in another language goes on there."""
    a, b, c = run.peer(writer, 1), run.peer(first, 2), run.fresh(second) if second == first else run.peer(second, 2)
    name = run.name()
    a.call("create", channel=name, name=name, **BROADCAST | SMALL | {"alignment": 8})
    for handle in ("x", "y"):
        a.call("publisher", channel=name, publisher=name + handle, name=handle)
    b.call("open", channel=name, name=name)
    opened = b.call("subscriber", channel=name, subscriber=name, name="journal", kept=True, rings=[1])
    sent = [bytes([i] * i).hex() for i in range(20)]
    for i, data in enumerate(sent):
        a.call("offer", publisher=name + "x", data="ff", type=1)
        a.call("offer", publisher=name + "y", data=data, type=1 + i)
    equal("first part", data_of(b.call("poll", subscriber=name, limit=7)["messages"]), sent[:7])
    equal("taken", b.call("take", subscriber=name)["message"]["data"], sent[7])
    position = b.call("positions", subscriber=name)["positions"]
    b.call("close", subscriber=name)
    c.call("open", channel=name, name=name)
    answer = refused("differs", c, "subscriber", channel=name, subscriber=name, name="journal", kept=True, rings=[0, 1])
    equal("differs", answer.get("field"), "rings")
    resumed = c.call("subscriber", channel=name, subscriber=name, name="journal", kept=True)
    equal("slot", resumed["slot"], opened["slot"])
    true("a new epoch", resumed["epoch"] > opened["epoch"])
    equal("rings", resumed["rings"], [1])
    equal("positions", resumed["positions"], position)
    rest = drain(c, name)
    equal("second part", data_of(rest), sent[8:])
    equal("types", [m["type"] for m in rest], list(range(9, 21)))
    c.call("forget", subscriber=name)
    again = b.call("subscriber", channel=name, subscriber=name, name="journal", kept=True)
    equal("rings after forget", again["rings"], [0, 1, 2, 3])
    equal("nothing before the join", b.call("take", subscriber=name)["message"], None)


def held_back(run, writer, reader, third):
    """A slow subscriber holds the writer back, and the writer can say so; dead it is retired, but not if kept."""
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
    true("room for as many again", 3 <= len(fill(a, name)) <= 5)
    equal("next", b.call("take", subscriber=name)["message"]["data"], sent[5])
    fill(a, name)
    b.kill()
    true("a dead subscriber still holds the writer back after 5 s", offer_within(5, a, name, "01") > 0)
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
    true("room again", a.call("offer", publisher=name, data="03", type=1)["position"] > 0)


def claims_and_batches(run, writer, reader):
    """Claims committed and aborted, batches: what the reader gets, and where."""
    a, b = run.peer(writer, 1), run.peer(reader, 2)
    for alignment in (64, 8):
        name = run.name()
        a.call("create", channel=name, name=name, **BROADCAST | {"capacity": 4096, "alignment": alignment})
        a.call("publisher", channel=name, publisher=name)
        b.call("open", channel=name, name=name)
        b.call("subscriber", channel=name, subscriber=name)
        for lap in range(12):
            expected = []
            for i, length in enumerate((0, 1, 7, 56, 57, 300)):
                payload = bytes((lap + i + j) & 0xFF for j in range(length)).hex()
                equal("claimed", a.call("claim", publisher=name, length=length, type=i + 1)["claimed"], True)
                if (lap + i) % 3 == 0:
                    a.call("abort", publisher=name)
                else:
                    a.call("commit", publisher=name, data=payload)
                    expected.append((i + 1, payload))
            batch = hexed(*(bytes([lap] * (11 * i)) for i in range(8)))
            equal("taken", a.call("offer_batch", publisher=name, data=batch, type=99)["taken"], 8)
            expected += [(99, data) for data in batch]
            if lap % 2:
                found = [b.call("take", subscriber=name)["message"] for _ in expected]
            else:
                found = b.call("poll", subscriber=name, limit=256)["messages"]
            equal(f"lap {lap}", [(m["type"], m["data"]) for m in found], expected)
            true("positions grow", all(m["position"] < n["position"] for m, n in zip(found, found[1:])))
            equal("nothing more", b.call("take", subscriber=name)["message"], None)
        end = a.call("positions", publisher=name)["position"]
        equal("the cursor", b.call("positions", subscriber=name)["positions"]["0"], end)
        batch = hexed(*[bytes(500)] * 30)  # more than fits
        taken = a.call("offer_batch", publisher=name, data=batch, type=5)["taken"]
        true(f"a part of the batch: {taken}", 4 <= taken < 8)
        equal("the part", len(drain(b, name)), taken)


def name_handed_over(run, first, second, reader):
    """A publisher's name gets the same ring again in another language, where the other one stopped."""
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
        ):  # behind the owner record, and the 512 bytes that the one before had cleared ahead (6.1, 6.8)
            equal("position", taken["position"], start + 64 + 512)
        start = taken["position"]
        refused("no-free-slot", b, "publisher", channel=name, publisher=name + "busy", name="orders")
        peer.call("offer", publisher=f"{name}-{epoch}", data=bytes([epoch]).hex(), type=epoch)
        peer.call("close", publisher=f"{name}-{epoch}")
    found = c.call("poll", subscriber=name, limit=256)["messages"]
    equal("messages", [(m["ring"], m["type"], m["data"]) for m in found], [(1, i, f"0{i}") for i in (1, 2, 3)])


def killed_in_a_claim(run, victim, heir, reader):
    """A publisher is killed with a claim open; the next owner of its ring repairs it, and the reader misses nothing."""
    a, b, c = run.fresh(victim), run.peer(heir, 1), run.peer(reader, 2)
    name = run.name()
    b.call("create", channel=name, name=name, **BROADCAST | SMALL)
    c.call("open", channel=name, name=name)
    c.call("subscriber", channel=name, subscriber=name)
    a.call("open", channel=name, name=name)
    a.call("publisher", channel=name, publisher=name, name="feed")
    for i in range(3):
        a.call("offer", publisher=name, data=f"0{i}", type=1)
    true("claimed", a.call("claim", publisher=name, length=200, type=1)["claimed"])
    refused("no-free-slot", b, "publisher", channel=name, publisher=name, name="feed")
    a.kill()
    taken = b.call("publisher", channel=name, publisher=name, name="feed")
    equal("ring", taken["ring"], 0)
    equal("epoch", taken["epoch"], 2)
    equal("position", taken["position"], 64 + 512)  # the owner record, and what was cleared ahead behind it
    equal("before", data_of(c.call("poll", subscriber=name, limit=256)["messages"]), ["00", "01", "02"])
    b.call("offer", publisher=name, data="aa", type=1)
    equal("after", data_of(c.call("poll", subscriber=name, limit=256)["messages"]), ["aa"])


def killed_while_publishing(run, victim, heir, reader):
    """A publisher is killed at full speed; what it committed is whole, and the next owner's stream follows."""
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
        raise Wrong("a thousand million messages in 0.6 s")
    true("some messages", verified > 0)
    b.call("publisher", channel=name, publisher=name, name="feed")
    equal("everything was read", c.call("poll", subscriber=name, limit=256)["messages"], [])
    after = {"seed": 12, "count": 2000, "min": 0, "max": 100, "first": 5}
    b.send("publish_stream", publisher=name, how="mix", **after)
    c.send("verify_stream", subscriber=name, how="mix", streams=[{"ring": 0} | after])
    both(b, c, timeout=30)


def everybody_at_once(run, languages):
    """A publisher and a subscriber in each language, on one channel, at the same time."""
    name, count = run.name(), 30_000
    writers, readers = [run.peer(n, 1) for n in languages], [run.peer(n, 2) for n in languages]
    writers[0].call("create", channel=name, name=name, kind="broadcast", capacity=65536)
    streams = []
    for peer in writers[1:] + readers:
        peer.call("open", channel=name, name=name)
    for peer in readers:
        peer.call("subscriber", channel=name, subscriber=name)
    for i, peer in enumerate(writers):
        ring = peer.call("publisher", channel=name, publisher=name)["ring"]
        streams.append({"ring": ring, "seed": 100 + i, "count": count, "min": 0, "max": 128, "first": i})
    for peer in readers:
        peer.send("verify_stream", subscriber=name, streams=streams, how="mix", seconds=60)
    for peer, s in zip(writers, streams):
        peer.send("publish_stream", publisher=name, how="mix", seconds=60, **{k: s[k] for k in s if k != "ring"})
    answers = both(*readers, *writers, timeout=70)
    for answer in answers[: len(readers)]:
        equal("verified", (answer["verified"], answer["count"]), (True, count * len(languages)))


def shared_counters(run, languages):
    """All languages raise one counter at the same time, by get-and-add and by compare-and-set: no raise is lost."""
    name, adds, swaps = run.name(), 100_000, 30_000
    peers = [run.peer(n, 1) for n in languages] + [run.peer(n, 2) for n in languages]
    peers[0].call("create", channel=name, name=name, kind="broadcast", counters=5)
    for peer in peers[1:]:
        peer.call("open", channel=name, name=name)
    adder = peers[0].call("counter_allocate", channel=name, label="größte Lücke in µs", type_id=7, key="00ff10")[
        "counter"
    ]
    swapper = peers[1].call("counter_allocate", channel=name, label="swaps", type_id=-1, key="")["counter"]
    equal("ids", (adder, swapper), (0, 1))
    peers[0].call("counter_set", channel=name, counter=adder, value=2**63 - 1000, order="release")
    for peer in peers:
        equal("found", peer.call("counter_find", channel=name, label="größte Lücke in µs")["counter"], adder)
        equal("not there", peer.call("counter_find", channel=name, label="swap")["counter"], None)
    for op, counter, times, fields in (
        ("counter_add", adder, adds, {"delta": 3}),
        ("counter_cas_loop", swapper, swaps, {}),
    ):
        for peer in peers:
            peer.send(op, channel=name, counter=counter, times=times, **fields)
        both(*peers, timeout=60)
    for peer in peers:
        peer.send("counter_add", channel=name, counter=swapper, times=1000, delta=1)
        peer.send("counter_cas_loop", channel=name, counter=swapper, times=1000)
    both(*peers, timeout=60)
    both(*peers, timeout=60)
    total = (2**63 - 1000 + 3 * adds * len(peers) + 2**63) % 2**64 - 2**63  # wraps
    for peer in peers:
        for order in ("plain", "volatile"):
            equal("sum", peer.call("counter_get", channel=name, counter=adder, order=order)["value"], total)
        equal(
            "swaps",
            peer.call("counter_get", channel=name, counter=swapper, order="volatile")["value"],
            (swaps + 2000) * len(peers),
        )
        found = [
            (c["id"], c["label"], c["type_id"], c["key"].rstrip("0"), c["value"])
            for c in peer.call("counters", channel=name)["counters"]
        ]
        equal(
            "counters",
            found,
            [(0, "größte Lücke in µs", 7, "00ff1", total), (1, "swaps", -1, "", (swaps + 2000) * len(peers))],
        )
    for i, peer in enumerate(peers[:3]):
        peer.call("counter_free", channel=name, counter=swapper)
        equal("freed", peers[i - 1].call("counter_find", channel=name, label="swaps")["counter"], None)
        time.sleep(0.002)
        again = peers[i - 2].call("counter_allocate", channel=name, label="swaps", type_id=i, key="aa")["counter"]
        equal("used again", again, swapper)
        equal("from 0", peer.call("counter_get", channel=name, counter=swapper, order="plain")["value"], 0)
        peer.call("counter_set", channel=name, counter=swapper, value=-5, order="volatile")


def the_stream_is_the_same(run, language):
    """publish_stream makes the messages of PEER.md, `how` changes nothing, and verify_stream sees a wrong one."""
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
        true("says what is wrong", answer.get("what"))
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
    true("counts", answer.get("counts") is not None)
