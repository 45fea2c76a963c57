# SPDX-License-Identifier: Apache-2.0
"""The scenarios of the matrix without deaths. Each is a function of its cell (matrix.py), which has the languages of
its axes, its parameters (scenarios.toml) and its random numbers. It returns how many messages were verified."""

from driver import both
from harness import above, drain, equal, hexed, refused, true
from stream import message

OPTIONS = {"kind": "broadcast", "counters": 0}
HOWS = ("offer", "claim", "batch")


class Ring:
    """Computes where the records of a ring lie (channel.md 6.1), if it has no other owners. `t` is its end."""

    def __init__(self, capacity, alignment):
        self.capacity, self.alignment, self.t = capacity, alignment, 0

    def record(self, payload, owner=None):
        """Returns the position of a message's record. `owner`: the publisher's name, if an owner record precedes it."""
        if owner is not None:
            self.record(12 + len(owner))
        size = -(-(8 + payload) // self.alignment) * self.alignment
        rest = self.capacity - self.t % self.capacity
        position = self.t if size <= rest else self.t + rest
        self.t = position + size
        return position


def attach(cell, *peers, **options):
    """One of the peers, by the seed, makes a channel, and the others open it. Returns its name, which is also the
    handle."""
    name, (creator, *others) = cell.run.name(), cell.random.sample(peers, len(peers))
    creator.call("create", channel=name, name=name, **OPTIONS | options)
    for peer in others:
        peer.call("open", channel=name, name=name)
    return name


def put(peer, name, how, kind, *payloads):
    """Publishes by requests, all of which must succeed."""
    if how == "batch":
        equal(
            "taken", peer.call("offer_batch", publisher=name, data=hexed(*payloads), type=kind)["taken"], len(payloads)
        )
        return
    for payload in payloads:
        if how == "offer":
            above(
                "position of an offer", peer.call("offer", publisher=name, data=payload.hex(), type=kind)["position"], 0
            )
        else:
            equal("claimed", peer.call("claim", publisher=name, length=len(payload), type=kind)["claimed"], True)
            peer.call("commit", publisher=name, data=payload.hex())


def flow(cell):
    """Runs streams from all publishers to all subscribers at the same time."""
    publishers, subscribers = cell.peers("publisher", 1), cell.peers("subscriber", 2)
    verified = 0
    for given in cell.p["streams"]:
        ring_options = {"capacity": given["capacity"], "alignment": given["alignment"]}
        slots = {"publishers": len(publishers), "subscribers": len(subscribers)}
        name = attach(cell, *publishers, *subscribers, **ring_options, **slots)
        for s in subscribers:
            s.call("subscriber", channel=name, subscriber=name)
        rings = [p.call("publisher", channel=name, publisher=name)["ring"] for p in publishers]
        streams = [cell.stream(max=given["max"]) | {k: given[k] for k in ("type",) if k in given} for _ in rings]
        waiting = {k: given[k] for k in ("wait", "spin") if k in given}
        how, read = given["how"], given["read"]
        verified += run_streams(cell, name, publishers, subscribers, rings, streams, how, read, waiting)
        for peer in (*publishers, *subscribers):
            peer.call("close", channel=name)
    return verified


def run_streams(cell, name, publishers, subscribers, rings, streams, how, read, waiting=None):
    """Publishes and verifies streams. Then no more messages may come, and all cursors must be at the publishers' ends.
    `waiting`: `wait` and `spin` of PEER.md."""
    expected = [{"ring": ring} | stream for ring, stream in zip(rings, streams)]
    common = {"seconds": cell.patience} | (waiting or {})
    for s in subscribers:
        s.send("verify_stream", subscriber=name, streams=expected, how=read, **common)
    for p, stream in zip(publishers, streams):
        p.send("publish_stream", publisher=name, how=how, **stream, **common)
    answers = both(*subscribers, *publishers, timeout=cell.patience + 5)
    total = sum(stream["count"] for stream in streams)
    for s, answer in zip(subscribers, answers):
        equal(f"{s.label}: verified", (answer["verified"], answer["count"]), (True, total))
        equal(f"{s.label}: nothing more", s.call("take", subscriber=name)["message"], None)
    ends = {str(r): p.call("positions", publisher=name)["position"] for r, p in zip(rings, publishers)}
    for p, stream, answer in zip(publishers, streams, answers[len(subscribers) :]):
        equal(f"{p.label}: published", answer["count"], stream["count"])
    for s in subscribers:
        positions = s.call("positions", subscriber=name)["positions"]
        equal(f"{s.label}: cursors", {ring: positions[ring] for ring in ends}, ends)
    return total * len(subscribers)


def pair(cell, **options):
    """Makes a channel with one publisher and one subscriber. Returns the peers and the handle."""
    (a,), (b,) = cell.peers("publisher", 1), cell.peers("subscriber", 2)
    name = attach(cell, a, b, publishers=1, subscribers=1, **options)
    b.call("subscriber", channel=name, subscriber=name)
    a.call("publisher", channel=name, publisher=name)
    return a, b, name


def taken(cell, peer, name, count):
    """Gets all messages, by polls and takes. There must be `count`."""
    found = []
    while len(found) < count and cell.random.random() < 0.3:
        found += [m for m in (peer.call("take", subscriber=name)["message"],) if m]
    found += drain(peer, name)
    equal("messages", len(found), count)
    return found


def claims(cell):
    verified = 0
    for alignment in (64, 8):
        a, b, name = pair(cell, capacity=4096, alignment=alignment)
        for lap in range(cell.p["laps"]):
            expected = []
            for i, length in enumerate(cell.random.sample((0, 1, 7, 56, 57, 300), 6)):
                payload = bytes((lap + i + j) & 0xFF for j in range(length)).hex()
                equal("claimed", a.call("claim", publisher=name, length=length, type=i + 1)["claimed"], True)
                if cell.random.random() < 0.4:
                    a.call("abort", publisher=name)
                else:
                    a.call("commit", publisher=name, data=payload)
                    expected.append((i + 1, payload))
            payload = cell.random.randbytes(100)
            put(a, name, cell.random.choice(HOWS), 77, payload)
            expected.append((77, payload.hex()))
            found = taken(cell, b, name, len(expected))
            equal(f"lap {lap}", [(m["type"], m["data"]) for m in found], expected)
            positions = [m["position"] for m in found]
            equal("positions, in order and all different", positions, sorted(set(positions)))
            verified += len(found)
        end = a.call("positions", publisher=name)["position"]
        equal("the cursor", b.call("positions", subscriber=name)["positions"]["0"], end)
        refused("too-large", a, "claim", publisher=name, length=1024 - 7, type=1)
        a.call("claim", publisher=name, length=10, type=1)
        refused("view-alive", a, "offer", publisher=name, data="00", type=1)
        a.call("abort", publisher=name)
        equal("nothing of it", taken(cell, b, name, 0), [])
    return verified + flow(cell)


def batches(cell):
    verified = 0
    for alignment in (64, 8):
        a, b, name = pair(cell, capacity=4096, alignment=alignment)
        for n in range(cell.p["rounds"]):
            batch = hexed(
                *(cell.random.randbytes(cell.random.randrange(90)) for _ in range(cell.random.randrange(1, 20)))
            )
            equal("taken", a.call("offer_batch", publisher=name, data=batch, type=n + 1)["taken"], len(batch))
            found = taken(cell, b, name, len(batch))
            equal(f"round {n}", [(m["type"], m["data"]) for m in found], [(n + 1, data) for data in batch])
            verified += len(found)
        batch = hexed(*(bytes([i] * 500) for i in range(30)))  # more than fits
        part = a.call("offer_batch", publisher=name, data=batch, type=5)["taken"]
        true("4 to 7 messages of the batch are taken", 4 <= part < 8, part)
        equal("no room", a.call("offer_batch", publisher=name, data=batch[part:], type=5)["taken"], 0)
        equal("the part", [m["data"] for m in taken(cell, b, name, part)], batch[:part])
        refused("too-large", a, "offer_batch", publisher=name, data=["00", "00" * (1024 - 7)], type=5)
        equal("none of it", taken(cell, b, name, 0), [])
        equal("an empty batch", a.call("offer_batch", publisher=name, data=[], type=5)["taken"], 0)
        verified += part
    return verified + flow(cell)


def sizes(cell):
    """Payloads of 2^k - 8 bytes (a record of 2^k), one less and one more, and sizes that the alignment rounds."""
    verified = 0
    for capacity in cell.p["capacities"]:
        limit = capacity // 4 - 8
        for alignment in (64, 8):
            a, b, name = pair(cell, capacity=capacity, alignment=alignment)
            edges = {0, 1, alignment - 9, alignment - 8, alignment - 7, alignment, alignment + 1, limit - 1, limit}
            for k in range(4, capacity.bit_length()):
                edges |= {(1 << k) - 9, (1 << k) - 8, (1 << k) - 7}
            cases = [(size, how) for size in edges if 0 <= size <= limit for how in HOWS]
            for i, (size, how) in enumerate(cell.random.sample(cases, len(cases))):
                kind, payload = message(cell.seed, i, size, size)
                put(a, name, how, kind, payload)
                (found,) = taken(cell, b, name, 1)
                equal(f"type of {size} bytes", found["type"], kind)
                equal(f"{size} bytes by {how}", found["data"], payload.hex())
                verified += 1
            for op, fields in (
                ("offer", {"data": "00" * (limit + 1)}),
                ("claim", {"length": limit + 1}),
                ("offer_batch", {"data": ["", "00" * (limit + 1)]}),
            ):
                answer = refused("too-large", a, op, publisher=name, type=1, **fields)
                equal(f"{op}: length and limit", (answer.get("length"), answer.get("limit")), (limit + 1, limit))
            taken(cell, b, name, 0)
            stream = cell.stream(min=limit, max=limit, count=20)
            verified += run_streams(cell, name, [a], [b], [0], [stream], "mix", "mix")
            a.call("close", channel=name)
            b.call("close", channel=name)
    return verified


def alignments(cell):
    verified = 0
    for alignment in (64, 8):
        a, b, name = pair(cell, capacity=4096, alignment=alignment)
        ring, owner = Ring(4096, alignment), ""
        for i in range(cell.p["count"]):
            kind, payload = message(cell.seed, i, 0, 1024 - 8)
            put(a, name, HOWS[i % 3], kind, payload)
            (found,) = taken(cell, b, name, 1)
            expected = {"position": ring.record(len(payload), owner), "type": kind, "data": payload.hex()}
            equal(f"message {i}", {field: found[field] for field in expected}, expected)
            equal("end", a.call("positions", publisher=name)["position"], ring.t)
            owner, verified = None, verified + 1
    return verified


def wrap(cell):
    """For each number of bytes `rest` that may be left at the ring's end: a longer record begins in the next lap, and a
    record of `rest` bytes ends at the ring's end."""
    capacity, verified = 4096, 0
    for alignment in (64, 8):
        a, b, name = pair(cell, capacity=capacity, alignment=alignment)
        ring, owner = Ring(capacity, alignment), ""

        def publish(how, sizes):
            """Publishes records of these sizes, and verifies their positions. Returns the last one's."""
            nonlocal owner, verified
            payloads = [message(cell.seed, verified + i, size - 8, size - 8)[1] for i, size in enumerate(sizes)]
            if how == "abort":
                a.call("claim", publisher=name, length=sizes[0] - 8, type=3)
                a.call("abort", publisher=name)
                return ring.record(sizes[0] - 8, owner)
            put(a, name, how, 3, *payloads)
            expected = []
            for payload in payloads:
                expected.append((ring.record(len(payload), owner), payload.hex()))
                owner = None
            found = taken(cell, b, name, len(payloads))
            equal(f"{how} of {sizes}", [(m["position"], m["data"]) for m in found], expected)
            verified += len(found)
            return expected[-1][0]

        publish("offer", [alignment])
        rests = range(alignment, capacity // 4 + 1, alignment)
        cases = [(rest, how) for rest in rests for how in cell.random.sample((*HOWS, "abort"), cell.p["hows"])]
        cases += [(rest, "fits") for rest in rests]
        for rest, how in cell.random.sample(cases, len(cases)):
            gap, fill = capacity - rest - ring.t % capacity, []
            while gap > 0:
                fill.append(min(gap, capacity // 4))
                gap -= fill[-1]
            for at in range(0, len(fill), 2):  # more at once might not fit
                publish("offer", fill[at : at + 2])
            equal("left at the end", capacity - ring.t % capacity, rest)
            if how == "fits" or rest == capacity // 4:  # there are no longer records
                equal("begins before the end", publish(cell.random.choice(HOWS), [rest]) % capacity, capacity - rest)
            else:
                size = cell.random.choice((rest + alignment, cell.random.randrange(rest + alignment, 1025, alignment)))
                equal(f"wraps at {rest} from the end", publish(how, [size]) % capacity, 0)
            equal("end", a.call("positions", publisher=name)["position"], ring.t)
    return verified


def lossy(cell):
    """A lossy reader sleeps for some laps, then reads. Its messages and its counted losses add up to all messages."""
    (a,), (b,) = cell.peers("publisher", 1), cell.peers("lossy subscriber", 2)
    reliable, count = [cell.run.peer(language, 3) for language in cell.languages], cell.p["count"]
    name = attach(cell, a, b, *reliable, capacity=16384, publishers=1, subscribers=len(reliable))
    for s in reliable:
        s.call("subscriber", channel=name, subscriber=name)
    b.call("lossy_subscriber", channel=name, subscriber=name, rings=[0])
    a.call("publisher", channel=name, publisher=name)
    asleep = cell.stream(min=8, max=100, first=0, count=count // 3) | {"numbered": True}
    awake = asleep | {"first": count // 3, "count": count - count // 3}
    verified = run_streams(cell, name, [a], reliable, [0], [asleep], "offer", "poll")
    b.send(
        "verify_stream",
        subscriber=name,
        streams=[{"ring": 0} | asleep | {"count": count}],
        how=cell.random.choice(("poll", "take", "mix")),
        seconds=cell.patience,
    )
    verified += run_streams(cell, name, [a], reliable, [0], [awake], "mix", "mix")
    answer = b.receive(cell.patience + 5)
    ring = answer["rings"]["0"]
    lost = b.call("lost", subscriber=name, ring=0)
    equal("verified", (answer["verified"], answer["count"], ring["next"]), (True, ring["seen"], count))
    equal("seen and lost", (ring["seen"] + ring["lost"], ring["lost"]), (count, lost["messages"]))
    true("it is lapped while it sleeps", lost["messages"] > 0 and lost["bytes"] > 0, lost)
    equal("nothing more", b.call("take", subscriber=name)["message"], None)
    end = a.call("positions", publisher=name)["position"]
    equal("the cursor", b.call("positions", subscriber=name)["positions"]["0"], end)
    return verified + ring["seen"]


def reversed_order(cell):
    (a,), (b,) = cell.peers("publisher", 1), cell.peers("subscriber", 2)
    name = cell.run.name()
    b.call("create", channel=name, name=name, **OPTIONS | {"publishers": 1, "subscribers": 1, "capacity": 16384})
    b.call("subscriber", channel=name, subscriber=name)
    stream = cell.stream(max=200)
    b.send("verify_stream", subscriber=name, streams=[{"ring": 0} | stream], how="mix", seconds=cell.patience)
    a.call("open", channel=name, name=name)
    a.call("publisher", channel=name, publisher=name)
    a.send("publish_stream", publisher=name, how="mix", seconds=cell.patience, **stream)
    answer, _ = both(b, a, timeout=cell.patience + 5)
    equal("verified", (answer["verified"], answer["count"]), (True, stream["count"]))
    return stream["count"] + inbox_first(cell, a, b)


def inbox_first(cell, a, b):
    """Two publishers fill their rings of an inbox and leave before its first subscriber comes."""
    name, verified = cell.run.name(), 0
    a.call("create", channel=name, name=name, kind="inbox", capacity=4096, counters=0)
    sent = []
    for n in range(2):
        publisher = cell.run.name("p")
        a.call("publisher", channel=name, publisher=publisher)
        sent.append([])
        for i in range(10_000):
            data = message(cell.seed, i + n, 0, 200)[1].hex()
            if a.call("offer", publisher=publisher, data=data, type=1 + n)["position"] < 0:
                break
            sent[n].append(data)
        true("the ring is full after 11 to 99 messages", 10 < len(sent[n]) < 100, len(sent[n]))
    a.call("close", channel=name)
    b.call("open", channel=name, name=name)
    equal("slot", b.call("subscriber", channel=name, subscriber=name)["slot"], 0)
    messages = drain(b, name)
    for ring in range(2):
        found = [(m["data"], m["type"]) for m in messages if m["ring"] == ring]
        equal(f"ring {ring}", found, [(data, 1 + ring) for data in sent[ring]])
        verified += len(found)
    return verified
