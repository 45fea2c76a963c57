# SPDX-License-Identifier: Apache-2.0
"""The files of the dead. For each operation, and each store in it that changes something, a file as a process leaves it
that is killed after that store; and what the next owner makes of the file. The scenarios are those of
interop-tests/steps, which kills real processes with the same names, messages, lengths and injected values."""

import struct

from simulation import Channel

OPTIONS = {"kind": "broadcast", "capacity": 4096, "publishers": 2, "subscribers": 5, "counters": 0}
BASE = {
    "channel_id": "11000000-0000-0000-0000-000000000000",
    "boot_id": "22000000-0000-0000-0000-000000000000",
    "created_at": 1_000_000_000,
    "now": 2_000_000_000,
    "monotonic": 3_000_000_000,
    "pid": 1001,
}
DEAD, HEIR = BASE | {"pid": 1002}, BASE | {"pid": 1003, "now": 3_000_000_000}


def length_of(sequence):
    return 8 + 5 * sequence % 41


def payload(ring, sequence, length):
    return bytes((7 * ring + 31 * sequence + 3 * i) % 251 for i in range(length))


class Scene:
    """A channel, and the number of messages that each ring has had."""

    make, options = Channel, OPTIONS

    def __init__(self, alignment=64):
        self.options = self.options | {"alignment": alignment}
        self.channel, self.sent = self.make(self.options, BASE), [0, 0]
        self.prepare()

    def prepare(self):
        """Prepares two publishers, the first in its second lap. The kept subscribers keeper and reader are away; keeper
        is behind."""
        readers = [self.channel.take_subscriber(name, True, None) for name in ("keeper", "live", "reader")]
        publisher, other = self.channel.take_publisher("pub"), self.channel.take_publisher("other")
        for _ in range(3):
            self.send(other)
        while publisher.t < 4096 + 5 * 4096 // 8:
            self.send(publisher)
            for reader in readers:
                self.channel.poll(reader, 256)
        for _ in range(5):
            self.send(publisher)
        for _ in range(2):
            self.send(other)
        self.channel.poll(readers[1], 256)
        for p in (other, publisher):
            self.channel.close_publisher(p)
        for reader in readers[::-1]:
            self.channel.close_subscriber(reader)
        self.stage()

    def stage(self):
        """Starts the processes that stay alive while the other one dies."""
        self.channel.locked.clear()
        self.channel.inject = BASE
        self.channel.take_subscriber("live", True, None)
        self.channel.inject = DEAD

    def next(self, ring=0, length=None):
        """Returns type and payload of the next message of a ring."""
        s = self.sent[ring]
        return 1 + s, payload(ring, s, length_of(s) if length is None else length)

    def send(self, p, length=None):
        kind, data = self.next(p.ring, length)
        assert self.channel.offer(p, kind, data) > 0
        self.sent[p.ring] += 1

    def pub(self):
        return self.channel.take_publisher("pub")

    def fill_to(self, p, there):
        while True:
            self.send(p)
            if there(p.t):
                return p

    def crosses(self, at, length):
        n = self.channel.align(8 + length)
        return n < 512 and at // 512 != (at + n) // 512


# The operations. Each prepares the channel, and returns the operation during which the process is killed.


def offer(s, length=30):
    p = s.fill_to(s.pub(), lambda at: not s.crosses(at, length))
    return lambda: s.send(p, length)


def wake(s):
    """Processes wait for a message and for room."""
    p = s.fill_to(s.pub(), lambda at: not s.crosses(at, 30))
    for pair in ("data", "room"):
        s.channel.fall_asleep(pair, [0])
    return lambda: s.send(p, 30)


def offer_long(s):
    return offer(s, 500)


def first_offer(s):
    p = s.pub()
    return lambda: s.send(p, 30)


def offer_boundary(s):
    n = s.channel.align(8 + 30)
    p = s.fill_to(s.pub(), lambda at: s.crosses(at, 30) and at % 4096 + n < 4096)
    return lambda: s.send(p, 30)


def offer_to_end(s):
    p = s.fill_to(s.pub(), lambda at: at % 4096 + s.channel.align(8 + 30) == 4096)
    return lambda: s.send(p, 30)


def offer_padding(s):
    p = s.fill_to(s.pub(), lambda at: at % 4096 + s.channel.align(8 + 200) > 4096)
    return lambda: s.send(p, 200)


def claim(s, length=30):
    p = s.pub()
    s.send(p)
    return lambda: s.channel.claim(p, length, 7)


def claim_long(s):
    return claim(s, 500)


def claimed(s, length):
    p = s.pub()
    s.send(p)
    kind, data = s.next(0, length)
    assert s.channel.claim(p, length, kind)
    at = s.channel.record(0, p.t) + 8
    s.channel.b[at : at + length] = data
    return p, data


def commit(s):
    p, data = claimed(s, 30)
    return lambda: s.channel.commit(p, data)


def abort(s):
    p, _ = claimed(s, 40)
    return lambda: s.channel.abort(p)


def batch_of(s, p, lengths):
    messages = [payload(0, s.sent[0] + i, length) for i, length in enumerate(lengths)]
    return lambda: s.channel.offer_batch(p, 1 + s.sent[0], messages)


def batch(s):
    p = s.pub()
    s.send(p)
    return batch_of(s, p, (10, 60, 0, 90))


def batch_padding(s):
    p = s.fill_to(s.pub(), lambda at: at % 4096 + s.channel.align(8 + 200) > 4096)
    return batch_of(s, p, (200, 5, 300))


def take_publisher(s):
    return s.pub


def take_publisher_renamed(s):
    return lambda: s.channel.take_publisher("renamed")


def join(s):
    return lambda: s.channel.take_subscriber("", False, None)


def join_kept(s):
    return lambda: s.channel.take_subscriber("new", True, None)


def join_evicted(s):
    s.channel.evict(2)
    return lambda: s.channel.take_subscriber("reader", True, None)


def resume(s):
    return lambda: s.channel.take_subscriber("reader", True, None)


def leave(s):
    r = s.channel.take_subscriber("", False, None)
    return lambda: s.channel.close_subscriber(r)


def forget(s):
    r = s.channel.take_subscriber("reader", True, None)
    return lambda: s.channel.forget(r)


def evict(s):
    return lambda: s.channel.evict(2)


def evict_late_gate(s):
    """The victim stores a gate after its eviction, and is killed before it takes the gate back."""
    r = s.channel.take_subscriber("reader", True, None)
    s.channel.evict(2)
    return lambda: s.channel.store_gate(r, 0)


def recover(operation, first=False, before_commit=False):
    """The process is killed during the recovery of a ring, whose owner was killed after its commit, right before it, or
    after its first store."""

    def prepare(s):
        states = [state for _, state in states_of(s, operation)]
        (published,) = struct.unpack_from("<q", states[0], s.channel.trailer(0) + Channel.TRAILER["published"])
        lengths = [struct.unpack_from("<i", state, s.channel.record(0, published))[0] for state in states]
        committed = next(i for i, length in enumerate(lengths) if i and length > 0)
        s.channel.b[:] = states[1 if first else committed - before_commit]
        s.stage()
        return s.pub

    return prepare


def states_of(s, prepare):
    """Returns [(offset of the store, the file after it)] of an operation, beginning with the file before it. Stores
    that change nothing are left out."""
    act, channel = prepare(s), s.channel
    states = [(None, bytes(channel.b))]

    def stored(at):
        if channel.b != states[-1][1]:
            states.append((at, bytes(channel.b)))

    channel.on_store = stored
    act()
    channel.on_store = None
    return states


PUBLISHER, UNNAMED, NEW, READER = "pub", "", "new", "reader"
# operation, the process that takes over, alignment
DYING = (
    ("offer", offer, PUBLISHER, 64),
    ("offer-compact", offer, PUBLISHER, 8),
    ("offer-long", offer_long, PUBLISHER, 64),
    ("first-offer", first_offer, PUBLISHER, 64),
    ("first-offer-compact", first_offer, PUBLISHER, 8),
    ("offer-boundary", offer_boundary, PUBLISHER, 64),
    ("offer-boundary-compact", offer_boundary, PUBLISHER, 8),
    ("offer-to-end", offer_to_end, PUBLISHER, 64),
    ("offer-padding", offer_padding, PUBLISHER, 64),
    ("offer-padding-compact", offer_padding, PUBLISHER, 8),
    ("claim", claim, PUBLISHER, 64),
    ("claim-long", claim_long, PUBLISHER, 64),
    ("wake", wake, PUBLISHER, 64),
    ("commit", commit, PUBLISHER, 64),
    ("abort", abort, PUBLISHER, 64),
    ("batch", batch, PUBLISHER, 64),
    ("batch-compact", batch, PUBLISHER, 8),
    ("batch-padding", batch_padding, PUBLISHER, 64),
    ("take-publisher", take_publisher, PUBLISHER, 64),
    ("take-publisher-renamed", take_publisher_renamed, PUBLISHER, 64),
    ("recover-claim", recover(first_offer, first=True), PUBLISHER, 64),
    ("recover-uncommitted", recover(batch, before_commit=True), PUBLISHER, 64),
    ("recover-committed", recover(offer), PUBLISHER, 64),
    ("recover-batch", recover(batch), PUBLISHER, 8),
    ("join", join, UNNAMED, 64),
    ("join-kept", join_kept, NEW, 64),
    ("join-evicted", join_evicted, READER, 64),
    ("resume", resume, READER, 64),
    ("leave", leave, UNNAMED, 64),
    ("forget", forget, READER, 64),
    ("evict", evict, READER, 64),
    ("evict-late-gate", evict_late_gate, READER, 64),
)


WORDS = {8: "start, or evicting", 16: "closed, or kept", 20: "name_length", 24: "name", 88: "the other fields"}
WORDS |= {0: "epoch", 128: "busy_since", 136: "discarded"}
BESIDE = {0: "gate", 8: "count", 16: "taken_end", 24: "attempts", 28: "outstanding, expired", 32: "expired"}
CONTROL = {
    48: "handovers",
    56: "serving",
    64: "data_sequence",
    68: "data_asleep",
    128: "room_sequence",
    132: "room_asleep",
}
CONTROL |= {192: "jobs_sequence", 196: "jobs_asleep"}
TRAILER = {128: "claimed", 320: "published", 328: "messages_begun", 336: "messages_done"}


def word(channel, at):
    """Describes the word at an offset, for people."""
    if at is None:
        return "nothing yet"
    if at < 4096 + 256:
        return f"control section: {CONTROL[at - 4096]}"
    if at < channel.rings:
        slot, offset = divmod(at - 4096 - 256, 256)
        who = f"publisher slot {slot}" if slot < channel.P else f"subscriber slot {slot - channel.P}"
        return f"{who}: {WORDS[offset]}"
    ring, offset = divmod(at - channel.rings, channel.stride)
    if offset < channel.C:
        return f"ring {ring}: {'payload and type' if offset % 8 else 'length'} at {offset - offset % 8} of the lap"
    offset -= channel.C
    if offset < 128:
        return f"ring {ring}: {'boundary_count' if offset % 16 else 'boundary'}[{offset // 16}]"
    if offset in TRAILER:
        return f"ring {ring}: {TRAILER[offset]}"
    slot, beside = divmod(offset - 384, 128)
    return f"ring {ring}: {BESIDE[beside]}[{0 if slot == 0 else slot - 2}]"


def differences(old, new):
    """Returns [[offset, hex of the new bytes], ...]; a run ends where 8 bytes are equal."""
    runs, at = [], 0
    while at < len(new):
        if old[at : at + 4096] == new[at : at + 4096]:
            at += 4096
        elif old[at : at + 64] == new[at : at + 64]:
            at += 64
        elif old[at] == new[at]:
            at += 1
        else:
            end = at + 1
            while old[end : end + 8] != new[end : end + 8]:
                end += 1
            runs.append([at, new[at:end].hex()])
            at = end
    return runs


def take_over(golden, name, offers):
    """Does the operations of the next owner, and of a reader that then reads the ring."""
    if name == PUBLISHER:
        golden.publisher("heir", name)
        golden.subscriber("reader", "keeper", True)
    else:
        golden.subscriber("reader", name, name != UNNAMED)
        golden.publisher("heir", PUBLISHER)
    if offers:
        assert golden.offer("heir", 99, b"heir".hex()) > 0


def is_behind(channel, left):
    """Returns whether ring 0 is between two of its stores, or bytes were announced but not published."""
    claimed, published, begun, done = (
        struct.unpack_from("<q", left, channel.trailer(0) + at)[0] for at in (128, 320, 328, 336)
    )
    return claimed != published or begun != done


def files_of(make):
    """Returns {name: content}. make(name, channel) returns the recorder of the operations in a channel."""
    files = {}
    for name, prepare, heir, alignment in DYING:
        scene, points = Scene(alignment), []
        states = states_of(scene, prepare)
        base = states[0][1]
        for at, left in states:
            # Twice if there is something to recover, because an offer overwrites the bytes behind it.
            for offers in (False, True) if is_behind(scene.channel, left) else (True,):
                channel = Channel(scene.options, HEIR)
                channel.b[:] = left
                golden = make(name, channel)
                take_over(golden, heir, offers)
                cursors = golden.objects["reader"].cursors
                points.append(
                    {
                        "last_store": word(channel, at),
                        "left": differences(base, left),
                        "operations": golden.operations,
                        "after": differences(left, bytes(channel.b)),
                        "finds": [
                            {"ring": k, "type": kind, "position": position, "data": data.hex()}
                            for k in cursors
                            for kind, data, position in channel.unread(k, cursors[k])
                        ],
                    }
                )
        head = {"inject": HEIR, "file_length": len(base), "base": differences(bytes(len(base)), base)}
        files[f"dead/{name}"] = head | {"dead": points}
    return files
