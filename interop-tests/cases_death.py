# SPDX-License-Identifier: Apache-2.0
"""Tests of death, stopping and eviction with several processes. Run by pairs.py."""

import itertools
import os
import random
import signal
import time

import cases_environment
from cases_environment import SMALL, attach, within
from driver import Refused
from harness import above, data_of, drain, equal, fill, offer_within, refused, true, Wrong


def zombie(run, writer, reader):
    """The slots of a process that was killed, but not reaped by its parent, are free."""
    a, b = run.peer(writer), run.fresh(reader)
    name = attach(run, a, b, subscribers=1)
    a.call("publisher", channel=name, publisher=name)
    b.call("subscriber", channel=name, subscriber=name)
    b.call("publisher", channel=name, publisher=name, name="feed")
    fill(a, name)
    os.kill(b.pid, signal.SIGKILL)

    def state():
        with open(f"/proc/{b.pid}/stat") as file:
            return file.read().rpartition(") ")[2][0]

    late = time.monotonic() + 5
    while state() != "Z" and time.monotonic() < late:
        time.sleep(0.001)
    above("position of an offer within 5 s of the subscriber's death", offer_within(5, a, name, "01"), 0)
    a.call("subscriber", channel=name, subscriber=name)
    within(5, "a zombie's name", lambda: a.call("publisher", channel=name, publisher=name + "f", name="feed"))
    equal("the state of the dead", state(), "Z")
    b.kill()  # reaps it


def two_creators(run, first, second):
    """Both create the same channel at once: one gets it, the other gets *exists*. Each wins sometimes."""
    a, b = run.peer(first, 1), run.peer(second, 2)
    dice, wins = random.Random(1), {a: 0, b: 0}
    for _ in range(400):
        name, creators = run.name(), [a, b]
        dice.shuffle(creators)
        creators[0].send("create", channel=name, name=name, **SMALL)
        time.sleep(dice.random() * 0.0005)
        creators[1].send("create", channel=name, name=name, **SMALL)
        winners = []
        for peer in creators:
            try:
                peer.receive()
                winners.append(peer)
            except Refused as e:
                equal("error", e.code, "exists")
        equal("winners", len(winners), 1)
        wins[winners[0]] += 1
        winners[0].call("close", channel=name)
        winners[0].call("unlink", name=name)
        if min(wins.values()) >= 3:
            return
    raise Wrong(f"one of them always won: {list(wins.values())}")


def stopped(run, victim, rival, reader):
    """A stopped publisher with an open claim, and a stopped subscriber, are not treated as dead, and go on
    afterwards."""
    a, b, c = run.fresh(victim), run.peer(rival, 1), run.peer(reader, 2)
    name = attach(run, b, a, c)
    c.call("subscriber", channel=name, subscriber=name)
    a.call("publisher", channel=name, publisher=name, name="feed")
    a.call("subscriber", channel=name, subscriber=name, rings=[1])
    b.call("publisher", channel=name, publisher=name)
    equal("claimed", a.call("claim", publisher=name, length=3, type=5)["claimed"], True)
    sent = []
    while len(more := fill(b, name)):
        sent += more
        drain(c, name)
        if len(sent) > 200:
            raise Wrong(f"expected the subscriber to hold the publisher back, found {len(sent)} messages taken")
    os.kill(a.pid, signal.SIGSTOP)
    try:
        late = time.monotonic() + 0.2
        while time.monotonic() < late:
            refused("no-free-slot", b, "publisher", channel=name, publisher=name + "b", name="feed")
            equal("offered", b.call("offer", publisher=name, data="00", type=1)["position"], -1)
            equal("nothing", c.call("take", subscriber=name)["message"], None)
        equal("live", b.call("held_by", publisher=name)["holder"]["live"], True)
    finally:
        os.kill(a.pid, signal.SIGCONT)
    a.call("commit", publisher=name, data="010203")
    equal("committed", data_of(drain(c, name)), ["010203"])
    equal("all of it", data_of(drain(a, name)), sent)


def kept_killed(run, writer, first, second):
    """A kept subscriber is killed. One in another language continues under its name, and misses nothing."""
    a, b, c = run.peer(writer, 1), run.fresh(first), run.peer(second, 2)
    name = attach(run, a, b, c)
    a.call("publisher", channel=name, publisher=name)
    slot = b.call("subscriber", channel=name, subscriber=name, name="journal", kept=True)["slot"]
    sent = fill(a, name)
    equal("first part", data_of(b.call("poll", subscriber=name, limit=20)["messages"]), sent[:20])
    b.kill()
    sent += fill(a, name)
    equal("a dead kept subscriber was retired", offer_within(0.02, a, name, "00"), -1)
    equal("slot", c.call("subscriber", channel=name, subscriber=name, name="journal", kept=True)["slot"], slot)
    equal("the rest", data_of(drain(c, name)), sent[20:])


def kept_ahead(run, writer, reader):
    """A publisher dies between the commit of a record and the store of `published` (6.1, steps 6 and 7). A kept
    subscriber that has consumed that record leaves, and comes back before the ring has a new owner."""
    a, b = run.fresh(writer), run.peer(reader, 2)
    name = attach(run, a, b)
    a.call("publisher", channel=name, publisher=name, name="feed")
    b.call("subscriber", channel=name, subscriber=name, name="journal", kept=True)
    before = a.call("offer", publisher=name, data="00", type=1)["position"]
    a.call("offer", publisher=name, data="01", type=1)
    a.kill()
    with open(run.folder / f"{name}.ring", "r+b", buffering=0) as file:
        file.seek(136)  # rings_offset; the trailer of ring 0 follows its data, `published` is at 320 in it
        trailer = int.from_bytes(file.read(8), "little") + SMALL["capacity"]
        os.pwrite(file.fileno(), before.to_bytes(8, "little"), trailer + 320)
        os.pwrite(file.fileno(), (1).to_bytes(8, "little"), trailer + 336)  # messages_done
    equal("both", data_of(drain(b, name)), ["00", "01"])
    b.call("close", subscriber=name)
    b.call("subscriber", channel=name, subscriber=name, name="journal", kept=True)
    equal("nothing again", drain(b, name), [])
    b.call("publisher", channel=name, publisher=name, name="feed")
    b.call("offer", publisher=name, data="02", type=1)
    equal("the next owner's", data_of(drain(b, name)), ["02"])


def lapped(run, writer, reader):
    """A lossy subscriber that reads rarely. Its messages and its counted losses add up to all messages."""
    a, b = run.peer(writer, 1), run.peer(reader, 2)
    for alignment in (64, 8):
        name = attach(run, a, alignment=alignment)
        b.call("open", channel=name, name=name, read_only=True)
        answer = b.call("lossy_subscriber", channel=name, subscriber=name, rings=[0])
        begin, got, laps = answer["positions"]["0"], [], 0
        a.call("publisher", channel=name, publisher=name)
        count = 0
        for step in range(30):
            for _ in range((3, 7, 300)[step % 3]):
                a.call("offer", publisher=name, data=count.to_bytes(2 + count % 90, "little").hex(), type=1)
                count += 1
            before = b.call("lost", subscriber=name, ring=0)["messages"]
            messages = drain(b, name)
            numbers = [int.from_bytes(bytes.fromhex(m["data"]), "little") for m in messages]
            got += numbers
            lost = b.call("lost", subscriber=name, ring=0)
            laps += lost["messages"] > before
            true("something is received at each look", numbers, lost)
            equal(f"received and lost at step {step}", len(got) + lost["messages"], count)
            if lost["messages"] == before and numbers:
                equal("in a row", numbers, list(range(count - len(numbers), count)))
        equal("in order", got, sorted(set(got)))
        true("at least 5 laps and 50 messages", laps >= 5 and len(got) >= 50, (laps, len(got)))
        end = a.call("positions", publisher=name)["position"]
        equal("position", b.call("positions", subscriber=name)["positions"]["0"], end)
        true(f"1 to {end - begin - 1} lost bytes", 0 < lost["bytes"] < end - begin, lost["bytes"])
        refused("access-denied", b, "publisher", channel=name, publisher=name)
        oldest = b.call("lossy_subscriber", channel=name, subscriber=name + "o", rings=[0], start="oldest")
        above("position of the oldest", oldest["positions"]["0"], begin)
        numbers = [int.from_bytes(bytes.fromhex(m["data"]), "little") for m in drain(b, name + "o")]
        equal("what is still there", numbers, list(range(count - len(numbers), count)))
        true("at least 10 messages are still there", len(numbers) >= 10, len(numbers))


def evicted(run, victim, operator, writer):
    """Another process evicts a subscriber. The writer goes on; the victim gets *slot lost*, and can join again."""
    a, b, c = run.peer(victim, 1), run.peer(operator, 2), run.peer(writer, 3)
    for kept in (False, True):
        name = attach(run, c, a, b)
        c.call("publisher", channel=name, publisher=name)
        fields = {"name": "journal", "kept": True} if kept else {}
        slot = a.call("subscriber", channel=name, subscriber=name, **fields)["slot"]
        sent = fill(c, name)
        unread = b.call("evict", channel=name, slot=slot)["messages"]
        equal("messages that it had not read", unread, len(sent))
        above("position of an offer", c.call("offer", publisher=name, data="aa", type=1)["position"], 0)
        answer = refused("slot-lost", a, "poll", subscriber=name, limit=10)
        equal("slot", answer.get("slot"), slot)
        refused("slot-lost", a, "take", subscriber=name)
        equal("nobody holds it back", c.call("held_by", publisher=name)["holder"], None)
        a.call("subscriber", channel=name, subscriber=name + "2", **fields)
        c.call("offer", publisher=name, data="bb", type=1)
        equal("afresh", data_of(drain(a, name + "2")), ["bb"])
        refused("invalid-argument", b, "evict", channel=name, slot=2)


def handed_on(run, writer, first, second):
    """An inbox's reader leaves, and one with another name continues at its position. Messages lost by eviction are
    counted."""
    c, a, b = run.peer(writer, 1), run.peer(first, 2), run.peer(second, 3)
    name = run.name()
    c.call("create", channel=name, name=name, kind="inbox", capacity=4096, counters=0)
    for peer in (a, b):
        peer.call("open", channel=name, name=name)
    c.call("publisher", channel=name, publisher=name)
    sent = fill(c, name)
    a.call("subscriber", channel=name, subscriber=name, name="monday")
    answer = refused("no-free-slot", b, "subscriber", channel=name, subscriber=name, name="tuesday")
    true(
        "the error names the owner", "monday" in answer["message"] and str(a.hello["pid"]) in answer["message"], answer
    )
    got = data_of(a.call("poll", subscriber=name, limit=3)["messages"])
    refused("invalid-argument", a, "forget", subscriber=name)
    a.call("close", subscriber=name)
    b.call("subscriber", channel=name, subscriber=name, name="tuesday")
    got += data_of(b.call("poll", subscriber=name, limit=2)["messages"])
    equal("what both got", got, sent[:5])
    equal("not read", c.call("evict", channel=name, slot=0)["messages"], len(sent) - 5)
    refused("slot-lost", b, "poll", subscriber=name, limit=1)
    b.call("close", subscriber=name)
    c.call("offer", publisher=name, data="aa", type=1)
    a.call("subscriber", channel=name, subscriber=name + "2")
    c.call("offer", publisher=name, data="bb", type=1)
    equal("afresh", data_of(drain(a, name + "2")), ["bb"])


def too_far_behind(run, writer, reader):
    """A publisher with a lag limit evicts subscribers that are further behind, and waits for none."""
    a, b = run.peer(writer, 1), run.peer(reader, 2)
    name = attach(run, a, b)
    refused("invalid-argument", a, "publisher", channel=name, publisher=name, max_lag=2047)
    a.call("publisher", channel=name, publisher=name, max_lag=2048)
    b.call("subscriber", channel=name, subscriber=name)
    for i in range(10):
        a.call("offer", publisher=name, data=f"{i:02x}", type=1)
    equal("within the limit", len(drain(b, name)), 10)
    for i in range(200):
        above(f"position of offer {i}", a.call("offer", publisher=name, data=f"{i:02x}", type=1)["position"], 0)
    refused("slot-lost", b, "take", subscriber=name)


def replaced_noticed(run, victim, other):
    """An idle subscriber, an idle lossy one and a back-pressured publisher find out that another channel has the
    name."""
    a, b = run.peer(victim, 1), run.peer(other, 2)
    name = attach(run, a, b)
    a.call("subscriber", channel=name, subscriber=name)
    a.call("lossy_subscriber", channel=name, subscriber=name + "l")
    a.call("publisher", channel=name, publisher=name)
    b.call("subscriber", channel=name, subscriber=name + "b", rings=[0])
    b.call("close", subscriber=name + "b")
    new = b.call("replace", channel=name + "r", name=name, **SMALL)["channel_id"]
    for subscriber in (name, name + "l"):
        wanted = {"ring": 0, "seed": 1, "count": 1, "min": 0, "max": 9, "first": 0}
        answer = refused("replaced", a, "verify_stream", subscriber=subscriber, streams=[wanted], how="poll", seconds=5)
        equal("path", os.path.basename(answer["path"]), name + ".ring")
        equal("the new channel's id", answer["channel_id"], new)
    sent = []
    late = time.monotonic() + 5
    while time.monotonic() < late:
        try:
            if a.call("offer", publisher=name, data="00" * 100, type=1)["position"] > 0:
                sent.append("00" * 100)
        except Refused as e:
            equal("error", e.code, "replaced")
            equal("the new channel's id", e.answer["channel_id"], new)
            break
    else:
        raise Wrong("expected a publisher that is held back to notice, found that it does not")
    equal("not sticky", data_of(drain(a, name)), sent)


def ended(run, writer, reader):
    """A ring has ended when its publisher has closed and all messages are consumed, until it has a new publisher."""
    a, b = run.peer(writer, 1), run.peer(reader, 2)
    name = attach(run, a, b)
    a.call("publisher", channel=name, publisher=name, name="feed")
    b.call("subscriber", channel=name, subscriber=name)
    b.call("lossy_subscriber", channel=name, subscriber=name + "l")
    for i in range(3):
        a.call("offer", publisher=name, data=f"0{i}", type=1)
    both = (name, name + "l")
    equal("open", [b.call("ended", subscriber=s, ring=0)["ended"] for s in both], [False, False])
    a.call("close", publisher=name)
    equal("not drained", [b.call("ended", subscriber=s, ring=0)["ended"] for s in both], [False, False])
    for s in both:
        messages = drain(b, s)
        equal("messages", data_of(messages), ["00", "01", "02"])
        equal("sender", [m["sender"] for m in messages], [{"name": "feed", "epoch": 1}] * 3)
    equal("ended", [b.call("ended", subscriber=s, ring=0)["ended"] for s in both], [True, True])
    equal("never opened", [b.call("ended", subscriber=s, ring=1)["ended"] for s in both], [False, False])
    a.call("publisher", channel=name, publisher=name + "2", name="feed")
    equal("open again", [b.call("ended", subscriber=s, ring=0)["ended"] for s in both], [False, False])
    a.call("offer", publisher=name + "2", data="03", type=1)
    for s in both:
        equal("sender", [m["sender"] for m in drain(b, s)], [{"name": "feed", "epoch": 2}])


def tests(languages):
    """Yields (title, function, arguments) of every test."""

    def after(language, n=1):
        return languages[(languages.index(language) + n) % len(languages)]

    yield from cases_environment.tests(languages)
    for a, b in itertools.product(languages, repeat=2):
        yield f"{a} gets on although {b} is a zombie", zombie, a, b
        yield f"{a} is stopped with a claim open, {b} wants its name", stopped, a, b, after(b)
        yield f"{b} kept, is killed, {a} writes", kept_killed, a, b, after(b)
        yield f"{b} kept, has read more than {a} had published when it died", kept_ahead, a, b
        yield f"{b} is lapped by {a}", lapped, a, b
        yield f"{a} is evicted by {b}", evicted, a, b, after(b)
        yield f"{b} goes on in an inbox where {a} left it", handed_on, after(b), a, b
        yield f"{b} is too far behind {a}", too_far_behind, a, b
        yield f"{a} notices that {b} replaced the channel", replaced_noticed, a, b
        yield f"{b} sees that {a} has ended", ended, a, b
    for a, b in itertools.combinations(languages, 2):
        yield f"{a} and {b} create the same channel at once", two_creators, a, b
