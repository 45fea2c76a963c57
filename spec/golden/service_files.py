# SPDX-License-Identifier: Apache-2.0
"""The golden files of services (spec/service.md): the operations that make them, as those of generate.py."""

from golden import MONOTONIC, Golden, pattern

SECOND = 10**9


def reply(seed, length, kind=2):
    return {"reply": pattern(seed, length), "type": kind}


def empty_service():
    return Golden("empty-service", kind="service", capacity=4096, clients=3, counters=0)


def empty_service_many_clients():
    """At-least-once delivery, and so many clients that a broadcast channel's gates would need more than a page per
    ring."""
    return Golden(
        "empty-service-many-clients",
        kind="service",
        capacity=4096,
        clients=30,
        counters=1,
        delivery="at-least-once",
        max_outstanding=7,
    )


def service():
    """Two clients: answers, errors, replies in another order than the requests, one call too many, a client that leaves
    with a call under way, and the next client in its place."""
    g = Golden("service", kind="service", capacity=4096, clients=2, max_outstanding=3, counters=0)
    g.server("s", "pricing")
    g.client("a", "desk")
    g.client("b")
    g.start("a", "a1", 1, pattern(1, 32))
    g.serve("s", reply(2, 32))
    g.poll_client("a")
    for i in range(2, 5):
        assert g.start("a", f"a{i}", 1, pattern(i, 40 * i))
    assert not g.start("a", "a5", 1, "05")  # busy
    g.start("b", "b1", 3, "")
    g.serve("s", {"keep": "keep"})
    g.later("s", "keep2", reply(7, 100))
    g.later("s", "keep0", {"fail": "no price for that: Zürich"})
    g.later("s", "keep3", reply(8, 0))
    assert len(g.poll_client("a")) == 2
    g.poll_client("b")
    for i in range(6, 16):
        g.start("a", f"a{i}", 4, pattern(i, 100 + i))
        g.serve("s", reply(i, 300))
        g.poll_client("a")
    g.start("b", "b2", 3, "02")
    g.serve("s", {"keep": "late"})
    g.close("b")
    g.later("s", "late0", reply(9, 10))  # the client has left
    g.start("a", "a99", 1, "99")
    g.client("c", "late")
    g.start("c", "c1", 1, pattern(1, 64))
    return g


def service_compact():
    """Alignment 8, laps of both rings, and replies that wait for room and are sent later."""
    g = Golden("service-compact", kind="service", capacity=4096, clients=1, alignment=8, counters=0)
    g.client("a", "desk")
    g.server("s")
    calls = 0
    for i in range(24):
        for _ in range(1 + i % 7):
            g.start("a", f"a{calls}", 1 + i % 5, pattern(calls, 31 * calls % 150))
            calls += 1
        g.serve("s", reply(i, 700))
        if i % 3:
            g.poll_client("a")
            g.serve("s", reply(i, 1))
    assert g.channel.get_trailer(0, "published") > 2 * 4096 and g.objects["s"].waiting[0]
    g.poll_client("a")
    return g


def service_streams():
    """Streams with more and with less credit than items, one that is cancelled, and one whose client leaves."""
    g = Golden("service-streams", kind="service", capacity=4096, clients=2, counters=0)
    g.server("s", "history")
    g.client("a")
    g.client("b")
    g.start("a", "a1", 1, "01", credit=4)
    g.start("b", "b1", 1, "02", credit=100)
    g.serve("s", {"stream": [pattern(i, 50) for i in range(9)], "type": 5})
    for _ in range(3):
        g.poll_client("a")
        g.serve("s", reply(1, 1))
    assert g.poll_client("b")[-1]["is"] == "end-of-stream"
    g.start("a", "a2", 1, "03", credit=2)
    g.start("b", "b2", 1, "04", credit=1)
    g.serve("s", {"stream": [pattern(i, 20) for i in range(5)], "type": 6})
    g.poll_client("a")
    g.cancel("a", "a2")
    g.close("b")
    g.serve("s", reply(1, 1))
    g.poll_client("a")
    g.start("a", "a3", 1, "05", credit=3)
    g.serve("s", {"stream": [pattern(i, 20) for i in range(5)], "type": 7})
    return g


def service_expired():
    """Requests that arrive too late, one that is answered too late, and a stream that reaches its deadline."""
    g = Golden("service-expired", kind="service", capacity=4096, clients=1, counters=0)
    g.server("s")
    g.client("a", "desk")
    for i, seconds in enumerate((1, 3, 9, 0)):
        g.start("a", f"a{i}", 1, pattern(i, 30), timeout=seconds * SECOND)
    g.clock(MONOTONIC + SECOND)
    g.serve("s", {"keep": "keep"})
    g.clock(MONOTONIC + 4 * SECOND)
    g.poll_client("a")
    g.later("s", "keep0", reply(1, 20))
    g.later("s", "keep1", reply(2, 20))
    g.later("s", "keep2", reply(3, 20))
    g.poll_client("a")
    g.start("a", "a5", 1, "05", timeout=SECOND, credit=1)
    g.serve("s", {"stream": ["aa", "bb", "cc"], "type": 4})
    g.clock(MONOTONIC + 6 * SECOND)
    g.serve("s", reply(1, 1))
    g.poll_client("a")
    return g


def service_handed_on():
    """Servers that are evicted and that close; calls that may have run and that have not run; a client that is evicted,
    and the next one in its place."""
    g = Golden("service-handed-on", kind="service", capacity=4096, clients=2, counters=0)
    g.server("s0", "monday")
    g.client("a", "desk")
    g.client("b")
    for i in range(3):
        g.start("a", f"a{i}", 1, pattern(i, 30))
    g.serve("s0", {"keep": "keep"}, limit=2)
    g.evict(0)
    g.close("s0")
    g.server("s1", "tuesday")
    g.serve("s1", reply(1, 1))  # not-run
    g.poll_client("a")
    g.start("a", "a4", 1, "04")
    g.start("b", "b1", 1, "11")
    g.serve("s1", reply(2, 40))
    g.poll_client("a")
    g.evict(2)
    g.close("b")
    g.client("c", "third")
    g.start("a", "a5", 1, "05")
    g.close("s1")
    g.start("a", "a6", 1, "06")  # there is no server, but the caller does not know that yet
    return g


def service_at_least_once():
    """Requests without an answer are handed out again by the next server. Answers come in any order."""
    g = Golden("service-at-least-once", kind="service", capacity=4096, clients=2, delivery="at-least-once", counters=0)
    g.server("s0")
    g.client("a", "desk")
    for i in range(5):
        g.start("a", f"a{i}", 1, pattern(i, 30))
    g.serve("s0", {"keep": "first"}, limit=3)
    g.later("s0", "first1", reply(1, 10))
    g.later("s0", "first0", reply(2, 10))
    g.close("s0")
    g.client("b")
    g.server("s1", "next")
    g.start("b", "b0", 1, "ff", timeout=SECOND)
    g.clock(MONOTONIC + SECOND)
    g.serve("s1", {"keep": "second"})
    g.later("s1", "second1", {"fail": "not again"})
    g.poll_client("a")
    g.poll_client("b")
    g.start("a", "a5", 1, "05")
    g.evict(0)
    return g


GOLDENS = (
    empty_service,
    empty_service_many_clients,
    service,
    service_compact,
    service_streams,
    service_expired,
    service_handed_on,
    service_at_least_once,
)
