# SPDX-License-Identifier: Apache-2.0
"""Tests of services (spec/service.md) whose server or client dies, is evicted, is slow, or writes what is not to be
believed; the next one is of a third language. Run by pairs.py."""

import itertools
import os
import signal
import struct
import time

from cases_service import (
    ECHO,
    LONG,
    TYPE,
    answer_of,
    attach,
    calls,
    ends,
    held,
    in_time,
    poll,
    serve,
    start,
    talkers,
)
from harness import after, equal, refused, true
from sleepers import File


def server_dies(run, caller, answerer, heir):
    """A server is killed with one request in hand and one that no server has taken; another server goes on."""
    a, c = run.peer(caller, 1), run.peer(heir, 3)
    for how in ("kill", "close", "kill, and the next one is there"):
        b = run.fresh(answerer)
        name = attach(run, a, b, c)
        b.call("server", channel=name, server=name, name="first")
        a.call("client", channel=name, client=name)
        start(a, name, "begun")
        start(a, name, "waiting")
        equal("one of them", len(serve(b, name, {"keep": "k"}, limit=1)), 1)
        b.call("close", server=name) if how == "close" else b.kill()
        begin = time.monotonic()
        if how not in ("kill", "close"):
            c.call("server", channel=name, server=name, name="second", timeout=LONG)
            equal("not its request", serve(c, name), [])
            equal("not run", held(c, name)["not_run"], 1)
        happened = {one["call"]: one for one in ends(a, name, 2)}
        in_time(begin, "server gone")
        for call, ran in (("begun", True), ("waiting", False)):
            equal(call, (happened[call]["is"], happened[call]["may_have_run"]), ("server-gone", ran))
        equal("none is left", calls(a, name)["outstanding"], 0)
        if how in ("kill", "close"):
            equal("the first server", (happened["begun"]["name"], happened["begun"]["pid"]), ("first", b.pid))
            equal("no server", calls(a, name)["server"], None)
            c.call("server", channel=name, server=name, name="second", timeout=LONG)
        equal("the next one", answer_of(a, name, "aa", c)["data"], "aa")
        equal("the second server", calls(a, name)["server"]["name"], "second")
        for peer in (a, c):
            peer.call("close", channel=name)


def server_evicted(run, caller, victim, operator):
    """A server that is stopped is evicted: its calls end, the next one comes, and it learns of it."""
    a, b, c = run.peer(caller, 1), run.fresh(victim), run.peer(operator, 3)
    name = attach(run, a, b, c)
    b.call("server", channel=name, server=name, name="slow")
    a.call("client", channel=name, client=name)
    text = refused("no-free-slot", c, "server", channel=name, server=name)["message"]
    true("it names the server that is in the way", "slow" in text and str(b.pid) in text, text)
    start(a, name, "begun")
    start(a, name, "waiting")
    equal("one of them", len(serve(b, name, {"keep": "k"}, limit=1)), 1)
    os.kill(b.pid, signal.SIGSTOP)
    try:
        equal("requests that no handler was given", c.call("evict", channel=name, slot=0)["messages"], 1)
        begin = time.monotonic()
        happened = ends(a, name, 2)
        in_time(begin, "server gone")
        equal("may have run", [(one["is"], one["may_have_run"]) for one in happened], [("server-gone", True)] * 2)
        a.send("call", client=name, data="aa", type=TYPE, timeout=LONG)
        time.sleep(0.05)
        true("a call waits for a server", a.lines.empty(), "it has ended")
        c.send("server", channel=name, server=name, name="heir", timeout=LONG)
        time.sleep(0.05)
        true("which cannot come before the old one has gone", c.lines.empty(), "it came")
    finally:
        os.kill(b.pid, signal.SIGCONT)
    refused("slot-lost", b, "serve", server=name, handler=ECHO)
    c.receive()
    equal("the request", len(serve(c, name, timeout=LONG)), 1)
    equal("the answer", a.receive()["answer"]["data"], "aa")


def client_dies(run, victim, answerer, heir):
    """A client is killed: what it asked is run, and no answer of it reaches the next owner of its place."""
    a, b, c = run.fresh(victim), run.peer(answerer, 2), run.peer(heir, 3)
    name = attach(run, b, a, c)
    b.call("server", channel=name, server=name)
    equal("number", a.call("client", channel=name, client=name, name="desk")["number"], 0)
    for call in ("one", "two"):
        start(a, name, call, call.encode().hex())
    equal("one of them", len(serve(b, name, {"keep": "k"}, limit=1)), 1)
    a.kill()
    equal("the same place", c.call("client", channel=name, client=name)["number"], 0)
    equal("what was asked is run", [one["data"] for one in serve(b, name, {"keep": "l"})], [b"two".hex()])
    start(c, name, "own", "aa")
    for request in ("k0", "l0"):
        b.call("later", server=name, request=request, handler=ECHO)
    equal("client gone", held(b, name)["client_gone"], 2)
    equal("the own one", [(one["sender"]["name"], one["data"]) for one in serve(b, name)], [("", "aa")])
    (one,) = ends(c, name, 1)
    equal("the own answer, and no other", (one["call"], one["data"], calls(c, name)["late"]), ("own", "aa", 0))
    equal("nothing is held", (held(b, name)["in_hand"], held(b, name)["waiting"]), (0, 0))


def client_evicted(run, victim, answerer, operator):
    """A client is evicted with a call under way: it learns of it, and its place is free."""
    a, b, name = talkers(run, victim, answerer)
    c = run.peer(operator, 3)
    c.call("open", channel=name, name=name)
    start(a, name, "one")
    serve(b, name, {"keep": "k"})
    c.call("evict", channel=name, slot=1)
    refused("slot-lost", a, "poll_client", client=name)
    refused("slot-lost", a, "result", call="one")
    b.call("later", server=name, request="k0", handler=ECHO)
    equal("client gone", held(b, name)["client_gone"], 1)
    equal("its place", c.call("client", channel=name, client=name)["number"], 0)
    equal("the next one", answer_of(c, name, "aa", b)["data"], "aa")


def slow_client(run, slow, answerer, other):
    """A client that does not read its answers: they wait, and others are answered; then it gets each of them once."""
    a, b, name = talkers(run, slow, answerer)
    c = run.peer(other, 3)
    c.call("open", channel=name, name=name)
    c.call("client", channel=name, client=name)
    for i in range(12):
        start(a, name, f"call{i}", f"{i:02x}")
    equal("requests", len(serve(b, name, {"reply": "bb" * 900, "type": 3})), 12)
    waiting = held(b, name)["waiting"]
    true("answers that wait for room", waiting >= 8, waiting)
    equal("in hand", held(b, name)["in_hand"], waiting)
    begin = time.monotonic()
    equal("another client", answer_of(c, name, "cc", b)["data"], "cc")
    in_time(begin, "an answer to another client")
    happened = ends(a, name, 12, serving_peer=b)
    equal("each once, in order", [one["call"] for one in happened], [f"call{i}" for i in range(12)])
    equal("bytes", {one["data"] for one in happened}, {"bb" * 900})
    equal("nothing is held", (held(b, name)["in_hand"], held(b, name)["waiting"]), (0, 0))


def at_least_once(run, caller, answerer, heir):
    """A server is killed with requests in hand: the next one answers them, and says that it is not the first."""
    a, b, c = run.peer(caller, 1), run.fresh(answerer), run.peer(heir, 3)
    name = attach(run, a, b, c, delivery="at-least-once")
    b.call("server", channel=name, server=name)
    a.call("client", channel=name, client=name)
    refusal = refused("invalid-argument", a, "start", client=name, call="s", data="", type=TYPE, credit=1)
    equal("no streams", refusal.get("argument"), "credit")
    for i in range(3):
        start(a, name, f"call{i}", f"{i:02x}")
    equal("two of them", [one["repeat"] for one in serve(b, name, {"keep": "k"}, limit=2)], [False, False])
    b.call("later", server=name, request="k1", handler={"reply": "b1", "type": 1})
    equal("the second", [(one["call"], one["repeat"]) for one in ends(a, name, 1)], [("call1", False)])
    b.kill()
    equal("no call ends with its server", poll(a, name, timeout=0.3), [])
    c.call("server", channel=name, server=name, timeout=LONG)
    requests = serve(c, name)
    equal("again", [(one["data"], one["repeat"]) for one in requests], [("00", True), ("01", True), ("02", False)])
    happened = ends(a, name, 2)
    equal(
        "answers",
        [(one["call"], one["data"], one["repeat"]) for one in happened],
        [("call0", "00", True), ("call2", "02", False)],
    )
    equal("the second answer", calls(a, name)["late"], 1)


def hostile_client(run, language, other):
    """What a client wrote is not to be believed: it is evicted, and the others go on."""
    a, b, name = talkers(run, language, language)
    c = run.peer(other, 3)
    c.call("open", channel=name, name=name)
    c.call("client", channel=name, client=name)
    for length in (7, 4096, 12):
        start(a, name, "bad")
        with File(run.folder / f"{name}.ring") as file:
            at = file.rings + file.published(0) % file.capacity - 64  # the request, of one line
            struct.pack_into("<i", file.bytes, at, length)
        damaged = held(b, name)["damaged"]
        equal("nothing of it", serve(b, name), [])
        equal("damaged", held(b, name)["damaged"], damaged + 1)
        refused("slot-lost", a, "poll_client", client=name)
        equal("another client", answer_of(c, name, "cc", b)["data"], "cc")
        equal("its place", a.call("client", channel=name, client=name)["number"], 0)
        equal("its next owner", answer_of(a, name, "aa", b)["data"], "aa")


def tests(languages):
    for language in languages:
        yield f"{language}: a hostile client", hostile_client, language, after(languages, language)
    for a, b in itertools.product(languages, repeat=2):
        c = after(languages, b)
        yield f"{b} dies with calls of {a}, {c} goes on", server_dies, a, b, c
        yield f"{b} is stopped and evicted with calls of {a}", server_evicted, a, b, c
        yield f"{a} dies with calls to {b}, {c} takes its place", client_dies, a, b, c
        yield f"{a} is evicted with a call to {b}", client_evicted, a, b, c
        yield f"{a} does not read what {b} answers", slow_client, a, b, c
        yield f"{b} dies with calls of {a}, {c} answers them at least once", at_least_once, a, b, c
