# SPDX-License-Identifier: Apache-2.0
"""The golden files of inboxes and broadcast channels: the operations that make each of them."""

import typed as messages
from golden import Golden, pattern


def empty_inbox():
    return Golden("empty-inbox", kind="inbox", capacity=4096, publishers=2, subscribers=1, counters=1)


def empty_broadcast():
    """So many publishers that some rings start outside of the first eighth."""
    return Golden(
        "empty-broadcast", kind="broadcast", capacity=4096, publishers=9, subscribers=3, alignment=8, counters=0
    )


def empty_many_subscribers():
    """So many subscribers that the control section and each trailer need more than a page."""
    return Golden("empty-many-subscribers", kind="broadcast", capacity=4096, publishers=2, subscribers=40, counters=0)


def empty_no_subscribers():
    return Golden("empty-no-subscribers", kind="broadcast", capacity=8192, publishers=1, subscribers=0, counters=0)


def one_message():
    g = Golden("one-message", kind="inbox", capacity=4096, publishers=1, subscribers=1, counters=0)
    g.publisher("p0")
    g.offer("p0", 7, pattern(1, 32))
    return g


def wrapped():
    """Four laps of uneven sizes. The inbox's slot 0 holds the publisher back, and polls in between; the end is
    unread."""
    g = Golden("wrapped", kind="inbox", capacity=4096, publishers=1, subscribers=1, counters=0)
    g.publisher("p0", "feed")
    g.subscriber("s0", "book")
    i = pressed = 0
    while i < 130:
        if g.offer("p0", 1 + i % 5, pattern(i, 37 * i % 211)) < 0:
            pressed += 1
            g.poll("s0", 17)
        else:
            i += 1
    assert pressed > 4 and g.objects["p0"].t > 4 * 4096
    g.poll("s0", 3)
    g.close("s0")
    return g


def padding_at_end():
    """A message, padding up to the ring's end, and a message at its start, all unread."""
    g = Golden("padding-at-end", kind="inbox", capacity=4096, publishers=1, subscribers=1, counters=0)
    g.publisher("p0")
    g.subscriber("s0")
    for i in range(3):
        g.offer("p0", 1, pattern(i, 1000))
    g.poll("s0")
    g.offer("p0", 2, pattern(3, 700))
    g.offer("p0", 3, pattern(4, 300))
    return g


def exact_end():
    """A record that ends exactly at the ring's end, with nothing behind it."""
    g = Golden("exact-end", kind="inbox", capacity=4096, publishers=1, subscribers=1, alignment=8, counters=0)
    g.publisher("p0")
    g.subscriber("s0")
    g.offer("p0", 1, pattern(0, 4096 // 4 - 8))
    g.offer("p0", 1, pattern(1, 4096 // 4 - 8))
    g.offer("p0", 1, pattern(2, 4096 // 4 - 8))
    g.poll("s0")
    g.offer("p0", 2, pattern(3, 4096 - g.objects["p0"].t - 8))
    assert g.objects["p0"].t == 4096
    return g


def three_publishers():
    """Publishers with and without names in one process. Twice one closes, and its ring continues under another
    owner."""
    g = Golden("three-publishers", kind="inbox", capacity=4096, publishers=3, subscribers=1, counters=0)
    g.publisher("p0", "orders")
    g.publisher("p1")
    g.publisher("p2", "fills")
    g.subscriber("s0")
    for i in range(5):
        g.offer("p0", 10, pattern(i, 50 + i))
        g.offer("p1", 11, pattern(100 + i, 9 * i))
        g.offer("p2", 12, pattern(200 + i, 100))
    g.poll("s0")
    g.close("p0")
    g.close("p1")
    g.publisher("p3", "orders")  # the ring of p0 again
    g.publisher("p4", "quotes")  # new: the ring of p1, whose name is empty
    g.offer("p3", 20, pattern(50, 120))
    g.offer("p4", 21, pattern(60, 500))
    g.close("p3")
    g.publisher("p5", "quotas")  # new: there is no slot without a name, so it gets the first free one
    g.offer("p5", 22, pattern(70, 200))
    g.poll("s0")
    # The end of p2's ring has no room for the next owner's owner record, nor for its first message
    for length in (1016, 1016, 1016, 120):
        g.offer("p2", 12, pattern(1, length))
    assert g.objects["p2"].t == 4096 - 64
    g.poll("s0")
    g.close("p2")
    g.publisher("p6", "a-name-of-exactly-sixty-four-bytes-so-that-its-record-needs-two.")
    g.offer("p6", 23, pattern(80, 57))
    g.offer("p5", 24, pattern(90, 10))
    return g


def owner_before_padding():
    """A new owner's owner record fits before the ring's end, but its first message does not."""
    g = Golden(
        "owner-before-padding", kind="inbox", capacity=4096, publishers=1, subscribers=1, alignment=8, counters=0
    )
    g.publisher("p0", "feed")
    g.subscriber("s0")
    for length in (1000, 1000, 1000, 900):
        g.offer("p0", 1, pattern(length, length))
    g.poll("s0")
    g.close("p0")
    g.publisher("p1", "feed")
    g.offer("p1", 2, pattern(2, 200))
    g.close("p1")
    g.publisher("p2", "feed")
    g.offer_batch("p2", 3, [pattern(3, 3), pattern(4, 4)])
    return g


def compact():
    """Alignment 8: two publishers, three subscribers, wraps, claims, aborts, a batch, a closed slot, a counter."""
    g = Golden("compact", kind="broadcast", capacity=4096, publishers=2, subscribers=3, alignment=8, counters=2)
    g.publisher("p0", "a")
    g.publisher("p1")
    g.subscriber("s0", "keeper", kept=True)
    g.subscriber("s1", "", rings=[1])
    g.subscriber("s2", "short-lived")
    g.counter_set(g.counter_allocate("messages", 1), 0)
    for i in range(120):
        handle = f"p{i % 2}"
        length = 31 * i % 150
        if i % 5 == 3:
            assert g.claim(handle, length, 3)
            g.commit(handle, pattern(i, length)) if i % 2 else g.abort(handle)
        else:
            assert g.offer(handle, 1 + i, pattern(i, length)) > 0
        if i % 10 == 9:
            g.poll("s0")
            g.poll("s1")
            g.poll("s2")
        if i == 60:
            g.close("s2")
            g.subscriber("s2", "late", rings=[0])
    g.offer_batch("p0", 9, [pattern(i, i) for i in range(10)])
    g.poll("s1", 2)
    g.close("s2")
    g.counter_add(0, 110)
    g.offer("p1", 1000, "")
    return g


def kept_slot():
    """A kept subscriber that closed with unread messages in one ring of two; a second one, resumed and open; a third
    one, forgotten; and a slot that is not kept, whose owner has not polled yet."""
    g = Golden("kept-slot", kind="broadcast", capacity=4096, publishers=2, subscribers=4, counters=0)
    g.publisher("p0", "left")
    g.publisher("p1", "right")
    g.offer("p0", 1, "00")
    g.subscriber("s0", "idle")
    g.subscriber("s1", "journal", kept=True)
    g.subscriber("s2", "audit", kept=True, rings=[1])
    g.subscriber("s3", "gone", kept=True)
    for i in range(6):
        g.offer("p0", 2, pattern(i, 20 * i))
        g.offer("p1", 3, pattern(i, 5))
    g.poll("s1")
    g.poll("s2", 4)
    g.close("s2")
    g.close("s1")
    g.offer("p0", 4, "aabbcc")
    g.subscriber("s4", "audit", kept=True)
    g.poll("s4", 1)
    g.forget("s3")
    g.offer("p1", 5, "ddeeff")
    g.close("p0")
    return g


def evicted():
    """A kept subscriber that was evicted while open, and the slot's next owner; one that a publisher evicted for a lag
    of half a ring; and one that keeps up."""
    g = Golden("evicted", kind="broadcast", capacity=4096, publishers=2, subscribers=3, counters=0)
    g.publisher("p0", "fast", max_lag=2048)
    g.publisher("p1", "slow")
    g.subscriber("s0", "audit", kept=True)
    g.subscriber("s1", "sleeper", rings=[0])
    g.subscriber("s2", "quick")
    for i in range(4):
        g.offer("p1", 1, pattern(i, 10))
    g.evict(0)
    g.close("s0")
    g.offer("p1", 2, pattern(4, 10))
    g.subscriber("s3", "audit", kept=True, rings=[1])
    g.offer("p1", 3, pattern(5, 10))
    for i in range(60):
        assert g.offer("p0", 4, pattern(i, 100)) > 0
        g.poll("s2")
    assert g.channel.gate(1, 0) == -1 and g.channel.gate(2, 0) >= 0
    g.close("s1")
    g.close("p0")
    return g


def untouched_inbox():
    """Filled before slot 0 has an owner."""
    g = Golden("untouched-inbox", kind="inbox", capacity=4096, publishers=2, subscribers=1, alignment=8, counters=0)
    g.publisher("p0")
    g.publisher("p1", "b")
    i = 0
    while g.offer("p0", 1, pattern(i, 100 + i)) > 0:  # until back-pressured
        i += 1
    g.offer("p1", 2, pattern(0, 64))
    return g


def inbox_handed_on():
    """An inbox's reader leaves, and one with another name continues at its position. Then that one is evicted, and the
    next one joins behind the lost messages."""
    g = Golden("inbox-handed-on", kind="inbox", capacity=4096, publishers=2, subscribers=1, counters=0)
    g.publisher("p0", "orders")
    g.publisher("p1", "fills")
    for i in range(8):
        g.offer("p0", 1, pattern(i, 100))
    g.subscriber("s0", "monday")
    g.poll("s0", 5)
    g.close("s0")
    g.subscriber("s1", "tuesday")
    g.poll("s1", 1)
    for i in range(3):
        g.offer("p1", 2, pattern(i, 200))
    g.evict(0)
    g.close("s1")
    g.offer("p0", 4, pattern(2, 60))
    g.subscriber("s2")
    g.offer("p0", 5, pattern(3, 70))
    g.close("s2")
    return g


def aborted_and_batch():
    """Aborted claims, and batches: whole, split by the ring's end, split by capacity / 4, and taken in part."""
    g = Golden("aborted-and-batch", kind="inbox", capacity=4096, publishers=1, subscribers=1, counters=0)
    g.publisher("p0")
    g.subscriber("s0")
    g.claim("p0", 100, 1)
    g.abort("p0")
    g.offer("p0", 2, "01")
    g.offer_batch("p0", 3, [pattern(i, 40) for i in range(14)])
    g.offer_batch("p0", 4, [pattern(i, 150) for i in range(8)])  # more than capacity / 4
    g.poll("s0")
    g.offer_batch("p0", 5, [pattern(i, 10) for i in range(12)])
    g.offer("p0", 6, pattern(9, 30))
    g.poll("s0", 9)
    g.offer("p0", 6, pattern(9, 800))
    g.offer_batch("p0", 7, [pattern(i, 100) for i in range(9)])  # over the ring's end
    g.poll("s0", 5)
    g.claim("p0", 900, 8)
    g.commit("p0", pattern(77, 900))
    g.claim("p0", 5, 8)
    g.abort("p0")
    while g.offer_batch("p0", 9, [pattern(i, 200) for i in range(4)]) == 4:
        pass
    return g


def batch_new_limit():
    """A batch of which only the first message fits below the publisher's old limit, but all fit below the new one: one
    group, and so one boundary."""
    g = Golden("batch-new-limit", kind="inbox", capacity=4096, publishers=1, subscribers=1, counters=0)
    g.publisher("p0")
    g.subscriber("s0")
    for i in range(31):
        g.offer("p0", 1, pattern(i, 120))
    g.poll("s0", 8)
    g.offer("p0", 2, pattern(1, 56))
    for i in range(7):
        g.offer("p0", 3, pattern(i, 120))
    p = g.objects["p0"]
    assert p.t + 128 + 8 <= p.limit < p.t + 256 + 8
    g.poll("s0")
    g.offer_batch("p0", 4, [pattern(i, 120) for i in range(8)])
    return g


def sleepers():
    """Readers and publishers that were killed in their sleep. The next wake of a ring clears its bit; the bits of other
    rings stay."""
    g = Golden("sleepers", kind="broadcast", capacity=4096, publishers=34, subscribers=2, counters=0)
    for k in (0, 1):
        g.publisher(f"p{k}")
    g.subscriber("s0", rings=[0, 1])
    g.asleep("data", [0, 1, 33])  # ring 33 shares its bit with ring 1
    g.asleep("room", [0, 2])
    g.offer("p0", 1, pattern(0, 8))  # wakes
    g.offer("p0", 1, pattern(1, 8))
    g.poll("s0")  # wakes
    for i in range(6):  # padding wakes no reader
        g.offer("p0", 1, pattern(i, 900))
        g.poll("s0")
    assert g.claim("p1", 16, 2)
    g.abort("p1")
    assert g.claim("p1", 16, 2)
    g.commit("p1", pattern(3, 16))  # wakes
    g.asleep("data", [0])
    g.offer_batch("p0", 3, [pattern(i, 40) for i in range(3)])  # wakes, once
    g.asleep("data", [0, 1])
    g.evict(0)
    g.close("s0")
    g.close("p0")
    return g


def counters():
    g = Golden("counters", kind="broadcast", capacity=4096, publishers=1, subscribers=1, counters=6)
    g.counter_allocate("sent", 1)
    g.counter_allocate("temporary", 2, "01020304")
    g.counter_allocate("größte Lücke in µs — 最大", 3, bytes(range(112)).hex())
    g.counter_allocate("l" * 380, -4)
    g.counter_set(0, 12345)
    g.counter_add(0, -12346)
    g.counter_set(1, 99)
    g.counter_set(2, -(2**63))
    g.counter_set(3, 2**63 - 1)
    g.counter_free(1)
    g.counter_allocate("reused with a longer label", 5, "ff")
    g.counter_add(1, 7)
    g.counter_allocate("freed", 6, "aa" * 50)
    g.counter_set(4, 5)
    g.counter_free(4)
    return g


def maximum_message():
    g = Golden("maximum-message", kind="inbox", capacity=8192, publishers=1, subscribers=1, counters=0)
    g.publisher("p0")
    for length in (8192 // 4 - 8, 0, 1, 8192 // 4 - 8):
        g.offer("p0", 2**31 - 1, pattern(length, length))
    return g


def schema():
    text = '<messageSchema package="golden" id="77" version="3" description="größer als nichts"/>\n'
    g = Golden(
        "schema",
        kind="broadcast",
        capacity=4096,
        publishers=1,
        subscribers=1,
        counters=1,
        schema=text * 60,
        schema_id=77,
        schema_version=3,
    )
    g.publisher("p0")
    g.subscriber("s0", "reader", kept=True)
    g.offer("p0", 77, "0001020304050607")
    return g


def typed():
    g = Golden(
        "typed",
        kind="broadcast",
        capacity=4096,
        publishers=1,
        subscribers=1,
        counters=0,
        schema=messages.SCHEMA,
        schema_id=messages.SCHEMA_ID,
        schema_version=messages.SCHEMA_VERSION,
    )
    g.publisher("p0", "prices")
    g.subscriber("s0", "reader", kept=True)
    for name, kind, data, body in messages.messages():
        end = g.offer("p0", kind, data.hex())
        g.typed.append({"position": end - (8 + len(data) + 63) // 64 * 64, "message": name, "body": body})
    return g


GOLDENS = (
    empty_inbox,
    empty_broadcast,
    empty_many_subscribers,
    empty_no_subscribers,
    one_message,
    wrapped,
    padding_at_end,
    exact_end,
    three_publishers,
    owner_before_padding,
    compact,
    kept_slot,
    evicted,
    untouched_inbox,
    inbox_handed_on,
    aborted_and_batch,
    batch_new_limit,
    sleepers,
    counters,
    maximum_message,
    schema,
    typed,
)
