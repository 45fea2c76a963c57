# SPDX-License-Identifier: Apache-2.0
"""The files of the dead of a service (spec/service.md), like those of dead.py. A client, a server or an evicting
process is killed after one of its stores; the next server and the next client then use the file."""

from dead import DEAD, HEIR, Scene, differences, states_of, word
from services import Service

OPTIONS = {"kind": "service", "capacity": 4096, "clients": 3, "counters": 0}
SECOND = 10**9


class ServiceScene(Scene):
    """A service whose server and client have exchanged messages into the second lap of their rings, and have left."""

    make = Service

    def __init__(self, alignment, delivery):
        self.options = OPTIONS | {"delivery": delivery}
        super().__init__(alignment)

    def prepare(self):
        server, client = self.channel.take_server("first"), self.channel.take_client("desk")
        while client.publisher.t < 4096 + 5 * 4096 // 8:
            self.exchange(server, client)
        self.channel.close_client(client)
        self.channel.close_server(server)
        self.channel.inject = DEAD

    def ask(self, client, length=30, timeout=0, credit=0):
        kind, data = self.next(0, length)
        call = self.channel.start(client, f"call{self.sent[0]}", kind, data, timeout, credit)
        self.sent[0] += 1
        return call

    def exchange(self, server, client, length=None):
        self.ask(client, length)
        self.channel.serve(server, 256, self.answer)
        self.channel.poll_client(client)

    def answer(self, request):
        return "reply", 7, b"answer to " + request.data

    def both(self, exchanges=1):
        server, client = self.channel.take_server("second"), self.channel.take_client("desk")
        for _ in range(exchanges):
            self.exchange(server, client, 30)
        return server, client

    def no_boundary(self, server, client):
        """Moves on until the next request and reply store no boundary."""
        ring = self.channel.clients + client.number
        while self.crosses(client.publisher.t, 24 + 30) or self.crosses(
            self.channel.get_trailer(ring, "published"), 16 + 40
        ):
            self.exchange(server, client, 30)

    def dies(self, o):
        """Adds a process that is dead when another process looks."""
        mine = {("subscriber", 0)} | {("publisher", self.channel.clients + k) for k in range(self.channel.clients)}
        if hasattr(o, "calls"):
            mine = {("publisher", o.number), ("subscriber", 1 + o.number)}
        self.channel.locked -= mine


def call(s, exchanges=1):
    server, client = s.both(exchanges)
    if exchanges:
        s.no_boundary(server, client)
    return lambda: s.ask(client)


def serve(s, does=None, exchanges=1, asked=1, **how):
    """The server dies in a poll, before which it has answered `exchanges` requests."""
    server, client = s.both(exchanges)
    if exchanges and asked == 1:
        s.no_boundary(server, client)
    for _ in range(asked):
        s.ask(client, **how)
    s.channel.inject = DEAD | {"monotonic": DEAD["monotonic"] + SECOND}
    return lambda: s.channel.serve(server, 256, (lambda _: does) if does else s.answer)


def not_run(s):
    """The request was for the previous server."""
    server, client = s.both()
    for _ in range(2):
        s.ask(client)
    s.dies(server)
    server = s.channel.take_server("third")
    return lambda: s.channel.serve(server, 256, s.answer)


def later(s, which):
    """The server answers one of three requests that it kept."""
    server, client = s.both()
    kept = []
    for _ in range(3):
        s.ask(client)
    s.channel.serve(server, 256, lambda request: kept.append(request) or ("keep",))
    return lambda: s.channel.reply_later(server, kept[which], ("reply", 7, b"at last"))


def items(s):
    """The server dies in the second poll of a stream, which sends the last items and the end."""
    server, client = s.both()
    s.ask(client, credit=2)
    s.channel.serve(server, 256, lambda _: ("stream", 5, [b"one", b"two", b"three"]))
    s.channel.poll_client(client)
    return lambda: s.channel.serve(server, 256, s.answer)


def drain(s):
    server, client = s.both()
    for _ in range(3):
        s.ask(client)
    s.channel.serve(server, 2, s.answer)
    return lambda: s.channel.poll_client(client)


def expire(s):
    """The client's clock ends one call, and the server's answer ends another."""
    server, client = s.both()
    s.ask(client, timeout=SECOND)
    s.channel.inject = DEAD | {"monotonic": DEAD["monotonic"] + SECOND}
    s.channel.serve(server, 256, s.answer)
    s.ask(client, timeout=SECOND)
    s.channel.inject = DEAD | {"monotonic": DEAD["monotonic"] + 2 * SECOND}
    return lambda: s.channel.poll_client(client)


def gone(s):
    """The client finds another server."""
    server, client = s.both()
    for _ in range(2):
        s.ask(client)
    s.channel.serve(server, 1, lambda _: ("keep",))
    s.dies(server)
    s.channel.take_server("third")
    return lambda: s.channel.poll_client(client)


def cancel(s):
    server, client = s.both()
    call = s.ask(client, credit=2)
    s.channel.serve(server, 256, lambda _: ("stream", 5, [b"one", b"two", b"three"]))
    return lambda: s.channel.cancel(client, call)


def credit(s):
    server, client = s.both()
    s.ask(client, credit=2)
    s.channel.serve(server, 256, lambda _: ("stream", 5, [b"one", b"two", b"three"]))
    return lambda: s.channel.poll_client(client)


def take_client(s, evicted=False):
    """A client takes a place whose last owner had a call outstanding."""
    server, client = s.both()
    s.ask(client)
    s.channel.serve(server, 256, s.answer)
    if evicted:
        s.channel.evict(1)
    s.dies(client)
    return lambda: s.channel.take_client("heir")


def take_server(s):
    """A server takes the place of one that had taken two requests of three, and replied to the second."""
    server, client = s.both()
    kept = []
    for _ in range(3):
        s.ask(client)
    s.channel.serve(server, 2, lambda request: kept.append(request) or ("keep",))
    s.channel.reply_later(server, kept[1], ("reply", 7, b"in time"))
    s.channel.set_gate(0, 0, kept[0].position)
    s.dies(server)
    return lambda: s.channel.take_server("third")


def close_client(s):
    _, client = s.both()
    s.ask(client)
    return lambda: s.channel.close_client(client)


def close_server(s):
    server, client = s.both()
    s.ask(client)
    s.channel.serve(server, 256, lambda _: ("keep",))
    return lambda: s.channel.close_server(server)


def evict(s, slot):
    server, client = s.both()
    s.ask(client)
    s.channel.serve(server, 256, s.answer)
    s.ask(client)
    return lambda: s.channel.evict(slot)


ONCE, LEAST = "at-most-once", "at-least-once"
DYING = (
    ("service-call", call, 64, ONCE),
    ("service-call-compact", call, 8, ONCE),
    ("service-call-first", lambda s: call(s, 0), 64, ONCE),
    ("service-serve", serve, 64, ONCE),
    ("service-serve-compact", serve, 8, ONCE),
    ("service-serve-first", lambda s: serve(s, exchanges=0), 64, ONCE),
    ("service-serve-three", lambda s: serve(s, asked=3), 64, ONCE),
    ("service-serve-kept", lambda s: serve(s, ("keep",)), 64, ONCE),
    ("service-serve-error", lambda s: serve(s, ("fail", "it broke")), 64, ONCE),
    ("service-serve-expired", lambda s: serve(s, timeout=SECOND), 64, ONCE),
    ("service-serve-stream", lambda s: serve(s, ("stream", 5, [b"one", b"two"]), credit=1), 64, ONCE),
    ("service-serve-not-run", not_run, 64, ONCE),
    ("service-serve-least", serve, 64, LEAST),
    ("service-serve-least-three", lambda s: serve(s, asked=3), 64, LEAST),
    ("service-serve-least-repeat", not_run, 64, LEAST),
    ("service-later", lambda s: later(s, 1), 64, ONCE),
    ("service-later-least", lambda s: later(s, 0), 64, LEAST),
    ("service-later-least-second", lambda s: later(s, 1), 64, LEAST),
    ("service-items", items, 64, ONCE),
    ("service-drain", drain, 64, ONCE),
    ("service-expire", expire, 64, ONCE),
    ("service-gone", gone, 64, ONCE),
    ("service-cancel", cancel, 64, ONCE),
    ("service-credit", credit, 64, ONCE),
    ("service-take-client", take_client, 64, ONCE),
    ("service-take-client-evicted", lambda s: take_client(s, evicted=True), 64, ONCE),
    ("service-take-server", take_server, 64, ONCE),
    ("service-take-server-least", take_server, 64, LEAST),
    ("service-close-client", close_client, 64, ONCE),
    ("service-close-server", close_server, 64, ONCE),
    ("service-evict-server", lambda s: evict(s, 0), 64, ONCE),
    ("service-evict-client", lambda s: evict(s, 1), 64, ONCE),
)


def take_over(golden, goes_on):
    """Does the operations of the next server, which answers, and of the next client, which calls."""
    golden.server("reader", "heir")
    if goes_on:
        golden.serve("reader", {"reply": b"heir".hex(), "type": 7})
        golden.client("caller", "heir")
        assert golden.start("caller", "call", 9, b"question".hex())
        golden.serve("reader", {"reply": b"heir".hex(), "type": 7})
        (found,) = golden.poll_client("caller")
        assert found["is"] == "answer"


def finds(channel, server):
    """Returns the requests that a server hands out until there are no more. It keeps all."""
    return [request.facts() for request in channel.serve(server, 256, lambda _: ("keep",))]


def files_of(make):
    """Like dead.files_of."""
    files = {}
    for name, prepare, alignment, delivery in DYING:
        scene, points = ServiceScene(alignment, delivery), []
        states = states_of(scene, prepare)
        base = states[0][1]
        for at, left in states:
            for goes_on in (False, True):
                channel = Service(scene.options, HEIR)
                channel.b[:] = left
                golden = make(name, channel)
                take_over(golden, goes_on)
                after = differences(left, bytes(channel.b))
                points.append(
                    {
                        "last_store": word(channel, at),
                        "left": differences(base, left),
                        "operations": golden.operations,
                        "after": after,
                        "finds": finds(channel, golden.objects["reader"]),
                    }
                )
        head = {"inject": HEIR, "file_length": len(base), "base": differences(bytes(len(base)), base)}
        files[f"dead/{name}"] = head | {"dead": points}
    return files
