# SPDX-License-Identifier: Apache-2.0
"""The golden files of channels with a foreign end (channel.md 6.15): the operations that make each of them."""

from golden import Golden, pattern


def empty_foreign_publisher():
    return Golden(
        "empty-foreign-publisher",
        kind="inbox",
        capacity=4096,
        publishers=1,
        subscribers=1,
        alignment=8,
        foreign="publisher",
        counters=1,
    )


def empty_foreign_subscriber():
    return Golden(
        "empty-foreign-subscriber",
        kind="inbox",
        capacity=4096,
        publishers=1,
        subscribers=1,
        alignment=8,
        foreign="subscriber",
        counters=0,
    )


def foreign_publisher():
    """Agrona writes three laps and is held back. Flyring polls, and leaves the last messages unread."""
    g = Golden(
        "foreign-publisher",
        kind="inbox",
        capacity=4096,
        publishers=1,
        subscribers=1,
        alignment=8,
        foreign="publisher",
        counters=0,
    )
    assert g.foreign_write(9, "aa")  # before the first reader
    g.subscriber("s0", "reader")
    i = pressed = 0
    while i < 60:
        if g.foreign_write(1 + i % 5, pattern(i, 37 * i % 413)):
            i += 1
        else:
            pressed += 1
            g.poll("s0", 13)
    claimed, at = g.channel.get_trailer(0, "claimed"), g.channel.gate(0, 0)
    assert pressed > 3 and claimed > 3 * 4096 and at < claimed and g.channel.get_trailer(0, "published") == 0
    g.close("s0")
    return g


def foreign_subscriber():
    """Flyring publishes three laps as two owners, by offers, claims and batches. Agrona reads, and leaves some."""
    g = Golden(
        "foreign-subscriber",
        kind="inbox",
        capacity=4096,
        publishers=1,
        subscribers=1,
        alignment=8,
        foreign="subscriber",
        counters=0,
    )
    g.publisher("p0", "feed")
    i = pressed = 0
    while i < 110:
        if i == 40 and "p0" in g.objects:
            g.close("p0")
            g.publisher("p1", "feed")
        p, length = "p1" if i >= 40 else "p0", 41 * i % 457
        if i % 7 == 3 and g.claim(p, length, 2):
            g.abort(p)
        if i % 7 == 5:
            taken = g.offer_batch(p, 3, [pattern(i + k, 20 * k) for k in range(5)])
            i += taken
        elif g.offer(p, 1 + i % 5, pattern(i, length)) > 0:
            i, taken = i + 1, 1
        else:
            taken = 0
        if not taken:
            pressed += 1
            assert g.foreign_read(11) > 0 or g.foreign_read(11) > 0
    assert pressed > 3 and g.objects["p1"].t > 3 * 4096
    g.foreign_read(2)
    assert 0 < g.channel.get64(g.channel.trailer(0) + 256) < g.channel.gate(0, 0) < g.objects["p1"].t
    return g


GOLDENS = (
    empty_foreign_publisher,
    empty_foreign_subscriber,
    foreign_publisher,
    foreign_subscriber,
)
