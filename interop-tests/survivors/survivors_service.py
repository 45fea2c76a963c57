# SPDX-License-Identifier: Apache-2.0
"""The requests of survivors.py in a service (spec/service.md). Each call ends once, with its own answer; no request
runs twice; the next server and the next client work."""

import time

from driver import Refused
from harness import equal, true
from worlds import SMALL, Scenario, World, new, nothing

OPTIONS = {"kind": "service", "capacity": 4096, "clients": 3, "counters": 4}
CLIENT = 1  # the victim's number as a client; the observer is client 0
ECHO = {"echo": True}


def number(data):
    return SMALL.unpack_from(bytes.fromhex(data))[0]


class ServiceWorld(World):
    """The common parts of both worlds. `other` is a third process: a server that answers, or a client."""

    OBSERVER = "its own"

    def make(self):
        self.other = self.run.peer(self.victim.language, 3)
        self.observer.call("create", channel="o", name=self.name, **OPTIONS)
        self.other.call("open", channel="x", name=self.name)
        self.calls = 0

    def __exit__(self, *_):
        for peer, channel in ((self.other, "x"), (self.observer, "o")):
            peer.call("close", channel=channel)

    def many(self, client, server, count=130):
        """Makes calls for two laps of one client's rings."""
        peer, handle = client
        fields = {"seed": 7, "count": count, "min": 8, "max": 90, "timeout": 5}
        other, name = server
        other.send("serve_many", server=name, count=count, seconds=10)
        peer.send("call_many", client=handle, **fields)
        equal("answers", peer.receive(20)["ends"], {"answer": count})
        equal("requests", other.receive(20)["count"], count)

    def take(self, peer, op, handle, channel):
        """Takes a place, which must be free now or in a moment."""
        return peer.call(op, channel=channel, timeout=1, **{op: handle})


class ServerWorld(ServiceWorld):
    """The victim is the server. The observer has client 0, and counts its calls."""

    EVICTED, EXPECTED = 0, {"publisher 0", "subscriber 1"}

    def make(self):
        super().make()
        self.observer.call("client", channel="o", client="c")
        self.ended, self.started, self.handed = {}, [], []

    def server(self):
        self.open()
        self.victim.call("server", channel="v", server="s", name="reader")

    def ask(self, count=3, **more):
        self.server()
        for _ in range(count):
            data = self.data()
            self.observer.call("start", client="c", call=f"k{self.sequence}", data=data, type=5, **more)
            self.started.append(f"k{self.sequence}")

    def kept(self):
        self.ask()
        self.handed += self.victim.call("serve", server="s", handler={"keep": "r"})["requests"]

    def streaming(self):
        self.ask(1, credit=1)
        self.handed += self.victim.call("serve", server="s", handler={"stream": ["aa"] * 9, "type": 5})["requests"]

    def waiting(self):
        """Lets answers wait for room."""
        self.ask(8)
        self.handed += self.victim.call("serve", server="s", handler={"reply": "bb" * 900, "type": 5})["requests"]
        time.sleep(0.002)  # long enough for a test whether its reader is dead

    def note(self, scenario, sequence, code, answer):
        if scenario.op == "serve" and code is None:
            self.handed += answer["requests"]

    def poll(self):
        for one in self.observer.call("poll_client", client="c")["found"]:
            if one["is"] != "item":
                true("a call that ends once", one["call"] not in self.ended, one)
                self.ended[one["call"]] = one

    def check(self, scenario):
        """Checks after the victim's end: every call ends, at most one handler got it, and the next server works."""
        deadline = time.monotonic() + 2
        while set(self.ended) < set(self.started):
            self.poll()
            true("every call ends within 2 s", time.monotonic() < deadline, set(self.started) - set(self.ended))
            time.sleep(0.005)
        numbers = [number(one["data"]) for one in self.handed]
        equal("handed out", len(numbers), len(set(numbers)))
        for name, one in self.ended.items():
            if one["is"] in ("expired", "server-gone") and not one["may_have_run"]:
                true(f"{name} was not run", int(name[1:]) not in numbers, numbers)
            if one["is"] == "answer" and len(one["data"]) == 64:
                equal(f"the answer of {name}", number(one["data"]), int(name[1:]))
        equal("outstanding", self.observer.call("calls", client="c")["outstanding"], 0)
        self.take(self.other, "server", "t", "x")
        self.many((self.observer, "c"), (self.other, "t"))
        for n in range(2):
            self.take(self.observer, "client", f"n{n}", "o")
            self.many((self.observer, f"n{n}"), (self.other, "t"), 20)
        held = self.other.call("held", server="t")
        equal("held", (held["in_hand"], held["waiting"]), (0, 0))


class ClientWorld(ServiceWorld):
    """The victim is client 1; `other` is the server, and the observer has client 0."""

    EVICTED = 1 + CLIENT
    EXPECTED = {"publisher 0", "subscriber 1", "subscriber 0", "publisher 3", "publisher 4", "publisher 5"}

    def make(self):
        super().make()
        self.other.call("server", channel="x", server="s")
        self.observer.call("client", channel="o", client="c")
        self.asked, self.uncertain, self.served = [], set(), []

    def client(self):
        self.open()
        self.victim.call("client", channel="v", client="c", name="reader")

    def started(self, count=3):
        self.client()
        for i in range(count):
            data = self.data()
            self.victim.call("start", client="c", call=f"k{i}", data=data, type=5)
            self.asked.append(self.sequence)

    def answered(self, count=3):
        self.started(count)
        self.serve()

    def serve(self):
        while requests := self.other.call("serve", server="s", handler=ECHO)["requests"]:
            self.served += [number(one["data"]) for one in requests if one["client"] == CLIENT]

    def full(self):
        """Fills the ring, so that there is no room for a request."""
        self.client()
        for i in range(4):
            data = self.data() + "00" * 850
            try:
                self.victim.call("start", client="c", call=f"k{i}", data=data, type=5, timeout=0.01)
                self.asked.append(self.sequence)
            except Refused as e:
                equal("no room", e.code, "expired")

    def streaming(self):
        self.client()
        data = self.data()
        self.victim.call("start", client="c", call="k0", data=data, type=5, credit=2)
        self.asked.append(self.sequence)
        requests = self.other.call("serve", server="s", handler={"stream": ["aa"] * 9, "type": 5})["requests"]
        self.served += [number(one["data"]) for one in requests]

    def without(self):
        """Ends the server."""
        self.client()
        self.other.call("close", server="s")

    def note(self, scenario, sequence, code, answer):
        if scenario.op in ("start", "call"):
            (self.uncertain.add if code else self.asked.append)(sequence)

    def check(self, scenario):
        """Checks after the victim's end: its requests ran once, its place is free, and the next owner gets its own
        answers."""
        if scenario.prepare is ClientWorld.without:
            self.take(self.other, "server", "s", "x")
        self.serve()
        equal("run once", len(self.served), len(set(self.served)))
        for sequence in self.asked:
            known = sequence in self.served or scenario.prepare is ClientWorld.full
            true(f"request {sequence} is run", known, self.served)
        true("what nobody asked", set(self.served) <= {*self.asked, *self.uncertain}, self.served)
        for n in range(2):
            equal("its place", self.take(self.observer, "client", f"n{n}", "o")["number"], CLIENT + n)
            self.many((self.observer, f"n{n}"), (self.other, "s"))
            equal("late answers", self.observer.call("calls", client=f"n{n}")["late"], 0)
        self.many((self.observer, "c"), (self.other, "s"))
        held = self.other.call("held", server="s")
        equal("held", (held["in_hand"], held["waiting"]), (0, 0))


def request(world):
    return {"data": world.data()}


def large(world):
    return {"data": world.data() + "00" * 850}


def scenarios():
    def server(name, op, fields, prepare, **more):
        return Scenario(f"service, {name}", op, fields, prepare, world=ServerWorld, **more)

    def client(name, op, fields, prepare, **more):
        return Scenario(f"service, {name}", op, fields, prepare, world=ClientWorld, **more)

    def several(world):
        world.kept()
        world.victim.call("lossy_subscriber", channel="v", subscriber="l")

    serve, echo = {"server": "s"}, {"server": "s", "handler": ECHO}
    call = {"client": "c", "type": 5, "more": request}
    evictable = {"evictable": True}
    no_room = {"call": "a", "timeout": 0.003, "more": large}
    late = {"evictable": True, "code": "expired"}
    return [
        server("create", "create", {"channel": "v", **OPTIONS, "more": new}, nothing, takes=True),
        server("server", "server", {"channel": "v", "server": "s", "name": "reader"}, World.open, takes=True),
        server("wait, serve", "serve", echo | {"timeout": 0.05}, ServerWorld.server, **evictable),
        server("serve", "serve", echo, ServerWorld.ask, **evictable),
        server("serve, throwing", "serve", serve | {"handler": {"throw": "it broke"}}, ServerWorld.ask, **evictable),
        server("serve, keeping", "serve", serve | {"handler": {"keep": "q"}}, ServerWorld.ask, **evictable),
        server("serve, items", "serve", echo, ServerWorld.streaming, **evictable),
        server("serve, answers that wait", "serve", echo, ServerWorld.waiting, **evictable),
        server("later", "later", serve | {"request": "r1", "handler": ECHO}, ServerWorld.kept, once=True, **evictable),
        server("close server", "close", {"server": "s"}, ServerWorld.kept, **evictable),
        server("close server, answers that wait", "close", {"server": "s"}, ServerWorld.waiting, **evictable),
        server("evict", "evict", {"channel": "v", "slot": 0}, ServerWorld.kept),
        server("close channel", "close", {"channel": "v"}, several, once=True),
        client("client", "client", {"channel": "v", "client": "c", "name": "reader"}, World.open, takes=True),
        client("start", "start", call | {"call": "a"}, ClientWorld.client, **evictable),
        client("wait, call", "call", call | {"timeout": 0.05}, ClientWorld.client, **late),
        client("wait, no server", "call", call | {"timeout": 0.05}, ClientWorld.without, **late),
        client("wait, no room", "start", call | no_room, ClientWorld.full, **late),
        client("poll", "poll_client", {"client": "c"}, ClientWorld.answered, **evictable),
        client("wait, poll", "poll_client", {"client": "c", "timeout": 0.05}, ClientWorld.started, **evictable),
        client("result", "result", {"call": "k1"}, ClientWorld.answered, **evictable),
        client("next", "next", {"call": "k0", "timeout": 0.05}, ClientWorld.streaming, **evictable),
        client("cancel", "cancel", {"call": "k1"}, ClientWorld.started, **evictable),
        client("close client", "close", {"client": "c"}, ClientWorld.started, **evictable),
    ]
