# SPDX-License-Identifier: Apache-2.0
"""The scenarios of the matrix with peers that come, leave, die or share counters; see scenarios.py. Peers die only by
the ops `die` and `die_at`, because a driver in another container cannot kill them."""

import os
import time

from driver import Refused, both
from harness import above, equal, refused, true
from scenarios import attach, run_streams, taken
from stream import message

KINDS = {"inbox": "broadcast", "broadcast": "inbox"}  # the other one
INFO = ("path", "channel_id", "kind", "capacity", "publishers", "subscribers", "alignment", "counters", "file_length")


def once_free(peer, op, **fields):
    """Repeats an op until the slot is free, because a connection may end before the kernel releases a dead peer's
    locks."""
    late = time.monotonic() + 5
    while True:
        try:
            return peer.call(op, **fields)
        except Refused as e:
            if e.code != "no-free-slot" or time.monotonic() > late:
                raise
            time.sleep(0.002)


def others(cell, language):
    """Returns all languages in turn, beginning after this one and ending with it."""
    at = cell.languages.index(language) + 1
    return cell.languages[at:] + cell.languages[:at]


def kept(cell):
    """A kept slot goes from the first reader to every language in turn, and back to the first in between."""
    (a,), first = cell.peers("publisher", 1), cell.at["first subscriber"]
    readers = []
    for n, language in enumerate(others(cell, first)):
        readers += [cell.run.peer(first, 2), cell.run.peer(language, 3)]
    name = attach(cell, a, *dict.fromkeys(readers), capacity=4096, alignment=8)
    for handle in ("x", "y"):
        a.call("publisher", channel=name, publisher=name + handle, name=handle)
    opened = readers[0].call("subscriber", channel=name, subscriber=name, name="journal", kept=True, rings=[1])
    epoch, verified = opened["epoch"], 0
    for n, (reader, heir) in enumerate(zip(readers, readers[1:])):
        sent = [message(cell.seed, n * 1000 + i, 0, 60) for i in range(cell.p["count"])]
        split = cell.random.randrange(1, len(sent))
        for at, part in ((0, sent[:split]), (split, sent[split:])):
            for i in range(0, len(part), 10):
                some = part[i : i + 10]
                a.call("offer", publisher=name + "x", data="ff", type=1)
                for kind, payload in some:
                    above(
                        "position of an offer",
                        a.call("offer", publisher=name + "y", data=payload.hex(), type=kind)["position"],
                        0,
                    )
                if at == split and i + 10 >= len(part):
                    break  # the rest is for the next reader
                found = taken(cell, reader, name, len(some))
                equal("part", [(m["type"], m["data"]) for m in found], [(k, p.hex()) for k, p in some])
                verified += len(some)
        position = reader.call("positions", subscriber=name)["positions"]
        reader.call("close", subscriber=name)
        asked = {"channel": name, "subscriber": name, "name": "journal", "kept": True}
        equal("differs", refused("differs", heir, "subscriber", **asked, rings=[0, 1]).get("field"), "rings")
        resumed = heir.call("subscriber", **asked)
        equal("slot, rings", (resumed["slot"], resumed["rings"]), (opened["slot"], [1]))
        above("the epoch of who resumes", resumed["epoch"], epoch)
        epoch = resumed["epoch"]
        equal("positions", resumed["positions"], position)
        found = taken(cell, heir, name, len(some))
        equal("rest", [(m["type"], m["data"]) for m in found], [(k, p.hex()) for k, p in some])
        verified += len(some)
    readers[-1].call("forget", subscriber=name)
    again = readers[0].call("subscriber", channel=name, subscriber=name, name="journal", kept=True)
    equal("rings after forget", again["rings"], [0, 1, 2, 3])
    taken(cell, readers[0], name, 0)
    return verified


def join_and_leave(cell):
    """Repeats the scenario on another channel if the machine was too busy for three visits."""
    verified = visits = 0
    for _ in range(20):
        if visits < 3:
            messages, more = visited(cell)
            verified, visits = verified + messages, visits + more
    true("at least 3 visits see messages while everybody publishes", visits >= 3, visits)
    return verified


def visited(cell):
    """Every language publishes to one reliable subscriber per language, while another subscriber comes and leaves. Its
    last visit begins before the last part is published, and ends with the last message. Returns how many messages were
    verified, and how many visits there were while all were publishing."""
    publishers, steady = cell.peers("", 1), cell.peers("", 2)
    visitor, total = cell.run.peer(cell.at["subscriber"], 3), cell.p["count"]
    part = total // 10
    slots = {"publishers": len(publishers), "subscribers": len(steady) + 1}
    name = attach(cell, *publishers, *steady, visitor, capacity=16384, **slots)
    for s in steady:
        s.call("subscriber", channel=name, subscriber=name)
    rings = [p.call("publisher", channel=name, publisher=name)["ring"] for p in publishers]
    streams = [cell.stream(min=8, max=100, first=0, count=total) | {"numbered": True} for _ in rings]
    whole = [{"ring": ring} | stream for ring, stream in zip(rings, streams)]
    reading = {"subscriber": name, "how": "mix", "seconds": cell.patience}
    visit = reading | {"streams": [stream | {"first": None} for stream in whole]}
    for s in steady:
        s.send("verify_stream", streams=whole, **reading)

    def publish(**fields):
        for p, stream in zip(publishers, streams):
            p.send("publish_stream", publisher=name, how="mix", seconds=cell.patience, **stream | fields)

    visits = verified = 0
    publish(count=total - part)
    while all(p.lines.empty() for p in (*publishers, *steady)):
        visitor.call("subscriber", channel=name, subscriber=name)
        answer = refused("timeout", visitor, "verify_stream", **visit | {"seconds": cell.p["stay"]})
        visitor.call("close", subscriber=name)
        verified += sum(answer["counts"].values())
        visits += any(answer["counts"].values())
    for s in steady:
        if not s.lines.empty():
            s.receive()  # raises its error, because it cannot be complete
    both(*publishers, timeout=cell.patience)
    visitor.call("subscriber", channel=name, subscriber=name)
    visitor.send("verify_stream", **visit)
    publish(first=total - part, count=part)
    last, *all_of_it = both(visitor, *steady, *publishers, timeout=cell.patience + 5)
    for s, answer in zip(steady, all_of_it):
        equal(f"{s.label}: verified", (answer["verified"], answer["count"]), (True, total * len(rings)))
    equal("verified", last["verified"], True)
    for ring in rings:
        seen = last["rings"][str(ring)]
        equal(f"ring {ring}: next, lost", (seen["next"], seen["lost"]), (total, 0))
        equal(f"ring {ring}: no gap", seen["seen"], seen["next"] - seen["first"])
    equal("nothing more", visitor.call("take", subscriber=name)["message"], None)
    for peer in {*publishers, *steady, visitor}:
        peer.call("close", channel=name)
    return verified + last["count"] + total * len(rings) * len(steady), visits


def publisher_killed(cell):
    """The subscribers read one stream from changing publishers. The message in which one dies is the next one's
    first."""
    subscribers, count, deaths = cell.peers("", 2), cell.p["count"], cell.p["deaths"]
    name = attach(
        cell,
        *subscribers,
        capacity=16384,
        alignment=cell.random.choice((8, 64)),
        publishers=1,
        subscribers=len(subscribers),
    )
    for s in subscribers:
        s.call("subscriber", channel=name, subscriber=name)
    stream = cell.stream(max=200)
    whole = {"ring": 0} | stream | {"count": count * (deaths + 1)}
    for s in subscribers:
        s.send("verify_stream", subscriber=name, streams=[whole], how="mix", seconds=cell.patience)
    first, end = stream["first"], stream["first"] + whole["count"]
    for n in range(deaths + 1):
        peer = cell.run.peer(cell.at["heir"], 3) if n == deaths else cell.run.peer(cell.at["victim"], 1)
        peer.call("open", channel=name, name=name)
        owner = once_free(peer, "publisher", channel=name, publisher=name, name="feed")
        equal("ring, epoch", (owner["ring"], owner["epoch"]), (0, n + 1))
        how = cell.random.choice(("offer", "claim", "batch", "mix"))
        fields = (
            {"publisher": name, "how": how, "seconds": cell.patience} | stream | {"first": first, "count": end - first}
        )
        if n < deaths:
            first += cell.random.randrange(count // 2, count)
            peer.send("publish_stream", die_at=first, **fields)
            peer.dies(cell.patience + 5)
        else:
            peer.send("publish_stream", **fields)
            *answers, published = both(*subscribers, peer, timeout=cell.patience + 5)
    equal("published", published["count"], end - first)
    for s, answer in zip(subscribers, answers):
        equal(f"{s.label}: verified", (answer["verified"], answer["count"]), (True, whole["count"]))
        equal(f"{s.label}: nothing more", s.call("take", subscriber=name)["message"], None)
    return whole["count"] * len(subscribers)


def kept_killed(cell):
    """A kept slot delivers at least once, in order: the next reader begins at or before the dead reader's message."""
    count, deaths = cell.p["count"], cell.p["deaths"]
    a = cell.run.peer(cell.random.choice(cell.languages), 1)
    name = attach(cell, a, capacity=16384, alignment=cell.random.choice((8, 64)), publishers=1, subscribers=2)
    a.call("publisher", channel=name, publisher=name)
    stream = cell.stream(min=8, max=100, first=0, count=count * (deaths + 1)) | {"numbered": True}
    wanted, slot, reached = {"ring": 0} | stream | {"first": None}, None, 0
    for n in range(deaths + 1):
        peer = cell.run.peer(cell.at["heir"], 3) if n == deaths else cell.run.peer(cell.at["victim"], 2)
        peer.call("open", channel=name, name=name)
        owner = once_free(peer, "subscriber", channel=name, subscriber=name, name="journal", kept=True)
        slot = owner["slot"] if slot is None else slot
        equal("slot", owner["slot"], slot)
        if n == 0:
            a.send("publish_stream", publisher=name, how="mix", seconds=cell.patience, **stream)
        how = cell.random.choice(("poll", "take", "mix"))
        fields = {"subscriber": name, "streams": [wanted], "how": how, "seconds": cell.patience}
        if n < deaths:
            at = cell.random.randrange(count // 2, count)
            peer.send("verify_stream", die_at=at, **fields)
            peer.dies(cell.patience + 5)
            reached += at  # the number without repetitions
        else:
            peer.send("verify_stream", **fields)
            answer, _ = both(peer, a, timeout=cell.patience + 5)
    ring = answer["rings"]["0"]
    again = (16384 // 8) // 16 + 2  # messages in an eighth of the ring, after which the gate is stored (6.9, 4)
    begin = f"a first message from {reached - again * deaths} to {reached}, as {deaths} predecessors died"
    true(begin, reached - again * deaths <= ring["first"] <= reached, ring["first"])
    equal("no gap", (ring["next"], ring["seen"]), (stream["count"], stream["count"] - ring["first"]))
    equal("nothing more", peer.call("take", subscriber=name)["message"], None)
    return reached + ring["seen"]


def subscriber_killed(cell):
    """Victims own one slot in turn. A reader of the next language, in another slot, reads all the time."""
    (a,), victim = cell.peers("publisher", 1), cell.at["victim"]
    reader = cell.run.peer(others(cell, victim)[0], 2)
    count, deaths = cell.p["count"], cell.p["deaths"]
    name = attach(cell, a, reader, capacity=16384, publishers=1, subscribers=2)
    reader.call("subscriber", channel=name, subscriber=name)
    a.call("publisher", channel=name, publisher=name)
    verified = 0
    for n in range(2 * deaths):
        peer = cell.run.peer(victim, 3)
        peer.call("open", channel=name, name=name)
        equal("slot", once_free(peer, "subscriber", channel=name, subscriber=name, name="slow")["slot"], 1)
        stream = cell.stream(max=100)
        if n % 2:
            at = cell.random.randrange(count // 2)
            peer.send(
                "verify_stream",
                subscriber=name,
                streams=[{"ring": 0} | stream],
                how="mix",
                die_at=at,
                seconds=cell.patience,
            )
            verified += run_streams(cell, name, [a], [reader], [0], [stream], "mix", "mix") + at
            peer.dies()
        else:
            reader.send(
                "verify_stream", subscriber=name, streams=[{"ring": 0} | stream], how="mix", seconds=cell.patience
            )
            a.send("publish_stream", publisher=name, how="mix", seconds=cell.patience, **stream)
            time.sleep(0.02)
            true(
                "no answer yet, as one that does not read holds the publisher back",
                a.lines.empty(),
                list(a.lines.queue),
            )
            peer.send("die")
            peer.dies()
            for answer in both(reader, a, timeout=cell.patience + 5):
                equal("count", answer["count"], count)
            verified += count
        holder = a.call("held_by", publisher=name)["holder"]
        true("nobody but slot 0 holds it back", holder is None or holder["slot"] == 0, holder)
    return verified


def create_and_open(cell):
    (a,), (b,) = cell.peers("creator", 1), cell.peers("opener", 2)
    verified = 0
    for options in (
        {"kind": "inbox"},
        {"kind": "broadcast", "capacity": 4096, "publishers": 1, "subscribers": 0, "alignment": 8, "counters": 0},
        {"kind": "broadcast", "capacity": 8192, "publishers": 1, "subscribers": 1, "alignment": 8, "counters": 0},
        {"kind": "broadcast", "capacity": 65536, "publishers": 70, "subscribers": 33, "alignment": 8, "counters": 7}
        | {"schema": "größer\n" * 1000, "schema_id": 65535, "schema_version": 2},
    ):
        name = cell.run.name()
        made = info(a, "create", channel=name, name=name, **options)
        subscribers = 1 if options["kind"] == "inbox" else 4
        defaults = {"capacity": 1 << 20, "publishers": 4, "subscribers": subscribers, "alignment": 64, "counters": 64}
        expected = defaults | options
        for field in ("kind", "capacity", "publishers", "subscribers", "alignment", "counters"):
            equal(f"{a.label}: info {field}", made[field], expected[field])
        path = cell.run.folder / (name + ".ring")
        equal("path", os.path.realpath(made["path"]), os.path.realpath(path))
        equal("file_length", made["file_length"], path.stat().st_size)
        equal("mode", oct(path.stat().st_mode & 0o777), "0o600")
        equal(f"{b.label}: info", info(b, "open", channel=name, name=name), made)
        equal(f"{b.label}: info, opened by path", info(b, "open", channel=name + "p", name=str(path)), made)
        equal("open_or_create", info(b, "open_or_create", channel=name + "o", name=name, **options), made)
        refused("exists", b, "create", channel=name + "x", name=name, **options)
        for field, value in what_differs(expected, "schema" in options):
            answer = refused("differs", b, "open_or_create", channel=name + "d", name=name, **options | {field: value})
            equal(f"{b.label}: differs", answer.get("field"), field)
        everything = dict(what_differs(expected, False)) | {"kind": KINDS[expected["kind"]], "subscribers": 1}
        answer = refused("differs", b, "open_or_create", channel=name + "d", name=name, **options | everything)
        equal(f"{b.label}: what differs first", answer.get("field"), "kind")
        for publisher, subscriber in ((a, b), (b, a)) if expected["subscribers"] else ():
            publisher.call("publisher", channel=name, publisher=name)
            subscriber.call("subscriber", channel=name, subscriber=name)
            verified += run_streams(cell, name, [publisher], [subscriber], [0], [cell.stream(max=200)], "mix", "mix")
            publisher.call("close", publisher=name)
            subscriber.call("close", subscriber=name)
        b.call("unlink", name=name)
        refused("no-such-channel", a, "open", channel=name + "x", name=name)
        equal("info after unlink", info(a, "info", channel=name), made)
    return verified


def info(peer, op, **fields):
    answer = peer.call(op, **fields)
    return {field: answer.get(field) for field in INFO}


def what_differs(options, with_schema):
    """Yields for each option a value that differs from the channel's, in the order of comparison (channel.md 3.2)."""
    if options["subscribers"] == 1:  # like an inbox
        yield "kind", KINDS[options["kind"]]
    yield from (("capacity", 16384), ("publishers", 2), ("alignment", 72 - options["alignment"]), ("counters", 8))
    if options["kind"] != "inbox":
        yield "subscribers", 3
    yield from (("schema_id", 3), ("schema_version", 4)) if with_schema else ()


def counters(cell):
    """A sum that wraps at 2^63, a number raised by compare-and-set, and a counter that is freed and used again."""
    name, adds, swaps = cell.run.name(), cell.p["adds"], cell.p["swaps"]
    peers = cell.peers("", 1) + cell.peers("", 2)
    name = attach(cell, *peers, counters=5)
    label, begin = "größte Lücke in µs", 2**63 - 1000
    adder = peers[0].call("counter_allocate", channel=name, label=label, type_id=7, key="00ff10")["counter"]
    swapper = peers[1].call("counter_allocate", channel=name, label="swaps", type_id=-1, key="")["counter"]
    equal("ids", (adder, swapper), (0, 1))
    peers[0].call("counter_set", channel=name, counter=adder, value=begin, order="release")
    for peer in peers:
        equal("found", peer.call("counter_find", channel=name, label=label)["counter"], adder)
        equal("not there", peer.call("counter_find", channel=name, label="swap")["counter"], None)
    added = swapped = failed = 0
    for _ in range(20):  # until a compare-and-set failed
        for peer in peers:
            peer.send("counter_add", channel=name, counter=adder, times=adds, delta=3)
            peer.send("counter_add", channel=name, counter=swapper, times=1000, delta=1)
            peer.send("counter_cas_loop", channel=name, counter=swapper, times=swaps)
        both(*peers, timeout=cell.patience)
        both(*peers, timeout=cell.patience)
        failed += sum(answer["failed"] for answer in both(*peers, timeout=cell.patience))
        added, swapped = added + adds * len(peers), swapped + (swaps + 1000) * len(peers)
        if failed:
            break
    above("failed compare-and-sets of all languages, which run at the same time", failed, 0)
    total = (begin + 3 * added + 2**63) % 2**64 - 2**63
    for peer in peers:
        for order in ("plain", "volatile"):
            value = peer.call("counter_get", channel=name, counter=adder, order=order)["value"]
            equal(f"{peer.label}: sum", value, total)
        found = peer.call("counters", channel=name)["counters"]
        equal(
            f"{peer.label}: counters",
            [(c["id"], c["label"], c["type_id"], c["key"].rstrip("0"), c["value"]) for c in found],
            [(0, label, 7, "00ff1", total), (1, "swaps", -1, "", swapped)],
        )
    for i, peer in enumerate(peers[: len(cell.languages)]):
        peer.call("counter_free", channel=name, counter=swapper)
        equal("freed", peers[i - 1].call("counter_find", channel=name, label="swaps")["counter"], None)
        time.sleep(0.002)
        again = peers[i - 2].call("counter_allocate", channel=name, label="swaps", type_id=i, key="aa")["counter"]
        equal("used again", again, swapper)
        equal("from 0", peer.call("counter_get", channel=name, counter=swapper, order="plain")["value"], 0)
        peer.call("counter_set", channel=name, counter=swapper, value=-5, order="volatile")
    return added + swapped
