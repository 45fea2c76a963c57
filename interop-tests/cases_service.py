# SPDX-License-Identifier: Apache-2.0
"""Tests of services (spec/service.md): clients of one language call a server of another one, which answers, or fails.
Run by pairs.py; cases_service_life.py tests clients and servers that die, are evicted, or are slow."""

import itertools
import time

from driver import Refused, both
from harness import Skip, above, after, equal, refused, shared, true
from sleepers import File, serving, until_asleep

SMALL = {"kind": "service", "capacity": 4096, "clients": 3, "counters": 0}
REQUEST, REPLY = 4096 // 4 - 8 - 24, 4096 // 4 - 8 - 16  # the longest payload of each, in bytes
LONG = 10  # seconds: a time-out that is not to come
SOON = 1  # seconds: for what takes 100 ms on a quiet machine
ECHO = {"echo": True}
TYPE = 7


def attach(run, first, *others, **options):
    """Makes a service with the first peer, and opens it with the others. Returns its name, which is also the handle."""
    for peer in (first, *others):
        if "server" not in peer.hello["ops"]:
            raise Skip(f"{peer.language} has no services")
    return shared(run, "service", SMALL | options, first, *others)


def talkers(run, caller, answerer, **options):
    """Makes a service with a client and a server. Returns the peers and the handle."""
    a, b = run.peer(caller, 1), run.peer(answerer, 2)
    name = attach(run, a, b, **options)
    b.call("server", channel=name, server=name, name="prices")
    a.call("client", channel=name, client=name, name="desk")
    return a, b, name


def serve(peer, name, handler=None, **more):
    """Does one poll of the server. Returns the requests."""
    return peer.call("serve", server=name, handler=handler or ECHO, **more)["requests"]


def start(peer, name, call, data="", **more):
    peer.call("start", client=name, call=call, data=data, type=TYPE, **more)


def poll(peer, name, **more):
    """Does one poll of the client. Returns its events."""
    return peer.call("poll_client", client=name, **more)["found"]


def ends(peer, name, count, seconds=5, serving_peer=None):
    """Polls until `count` events of calls have come. Returns them in order. Meanwhile another peer may serve."""
    happened, late = [], time.monotonic() + seconds
    while len(happened) < count:
        if serving_peer:
            serve(serving_peer, name)
        happened += poll(peer, name, timeout=0.02)
        true(f"{count} ends of calls within {seconds} s", time.monotonic() < late, happened)
    equal("no more than that", len(happened), count)
    return happened


def answer_of(peer, name, data, server, handler=None):
    """Makes a call, which another peer answers meanwhile. Returns the answer."""
    peer.send("call", client=name, data=data, type=TYPE)
    requests = serve(server, name, handler, timeout=LONG)
    equal("the request", [(one["data"], one["type"]) for one in requests], [(data, TYPE)])
    return peer.receive()["answer"]


def ends_as(code, peer, seconds=10):
    """Checks that the request under way ends with this error. Returns what the error carries."""
    try:
        answer = peer.receive(seconds)
    except Refused as e:
        equal(f"{peer.label}: how it ends", e.code, code)
        return e.answer
    return true(f"{peer.label}: it ends as {code}", False, answer)


def calls(peer, name):
    answer = peer.call("calls", client=name)
    return {key: answer[key] for key in ("outstanding", "late", "server")}


def held(peer, name):
    return peer.call("held", server=name)


def in_time(begin, what, limit=SOON):
    took = time.monotonic() - begin
    true(f"{what} within {limit} s", took < limit, took)


# --- calls
# ---------------------------------------------------------------------------------------------------------------


def answers(run, caller, answerer, other):
    """Answers of every length and type, and errors; then two clients with many calls, over laps of all rings."""
    c = run.peer(other, 3)
    for alignment in (64, 8):
        a, b, name = talkers(run, caller, answerer, alignment=alignment)
        c.call("open", channel=name, name=name)
        equal("number", c.call("client", channel=name, client=name)["number"], 1)
        equal("the server", calls(a, name)["server"]["name"], "prices")
        for length in (0, 1, 31, 32, 33, 200, REQUEST - 1, REQUEST):
            data = bytes((length + 3 * i) & 0xFF for i in range(length)).hex()
            equal("the answer", answer_of(a, name, data, b), {"type": TYPE, "data": data, "repeat": False})
        answer = refused("too-large", a, "call", client=name, data="00" * (REQUEST + 1), type=TYPE)
        equal("length and limit", (answer["length"], answer["limit"]), (REQUEST + 1, REQUEST))
        longest = "aa" * REPLY
        equal("a long answer", answer_of(a, name, "01", b, {"reply": longest, "type": 9})["data"], longest)
        equal("the largest type", answer_of(a, name, "01", b, {"reply": "", "type": 2**31 - 1})["type"], 2**31 - 1)
        for handler, text in (
            ({"fail": "no such price"}, "no such price"),
            ({"throw": "it broke: \u00fc \u20ac"}, "it broke: \u00fc \u20ac"),
            ({"nothing": True}, "no answer"),
            ({"fail": "\u20ac" * 400}, "\u20ac" * (REPLY // 3)),
        ):
            a.send("call", client=name, data="aa", type=TYPE)
            equal("one request", len(serve(b, name, handler, timeout=LONG)), 1)
            equal("the text", ends_as("service-error", a)["text"], text)
        a.send("call", client=name, data="aa", type=TYPE)
        (one,) = serve(b, name, timeout=LONG)
        a.receive()
        equal("who asks", (one["sender"]["name"], one["client"], one["repeat"]), ("desk", 0, False))
        for window in (1, 16):
            for peer, seed in ((a, 5), (c, 6)):
                many = {"seed": seed, "count": 400, "min": 8, "max": 200, "window": window, "timeout": 20}
                peer.send("call_many", client=name, **many)
            b.send("serve_many", server=name, count=800, seconds=30)
            first, second, server = both(a, c, b, timeout=40)
            equal("requests", server["count"], 800)
            for answer in (first, second):
                equal("answers", (answer["ends"], answer["wrong"]), ({"answer": 400}, 0))
        equal("outstanding", [calls(peer, name)["outstanding"] for peer in (a, c)], [0, 0])
        for peer in (a, b, c):
            peer.call("close", channel=name)


def in_any_order(run, caller, answerer):
    """Kept requests, answered in another order; a cancelled one; one call too many."""
    a, b, name = talkers(run, caller, answerer, max_outstanding=3)
    for call in ("one", "two", "three"):
        start(a, name, call, call.encode().hex())
    answer = refused("busy", a, "start", client=name, call="four", data="", type=TYPE)
    equal("outstanding", answer.get("outstanding"), 3)
    equal("requests", len(serve(b, name, {"keep": "k"})), 3)
    equal("in hand", held(b, name)["in_hand"], 3)
    b.call("later", server=name, request="k2", handler={"reply": "03", "type": 3})
    b.call("later", server=name, request="k0", handler={"fail": "not now"})
    first, second = ends(a, name, 2)
    equal("first", (first["call"], first["is"], first["data"], first["type"]), ("three", "answer", "03", 3))
    equal("second", (second["call"], second["is"], second["text"]), ("one", "service-error", "not now"))
    equal("not cancelled", b.call("request", server=name, request="k1")["cancelled"], False)
    a.call("cancel", call="two")
    refused("cancelled", a, "result", call="two")
    equal("outstanding until it is answered", calls(a, name)["outstanding"], 1)
    equal("nothing to hand out", serve(b, name), [])
    equal("cancelled", b.call("request", server=name, request="k1")["cancelled"], True)
    b.call("later", server=name, request="k1", handler=ECHO)
    equal("nobody is told", poll(a, name), [])
    equal("then", (calls(a, name)["outstanding"], calls(a, name)["late"]), (0, 1))
    equal("nothing is held", (held(b, name)["in_hand"], held(b, name)["waiting"]), (0, 0))


def deadlines(run, caller, answerer):
    """A call expires without a server, behind a slow call, and by the server's reply."""
    a, b = run.peer(caller, 1), run.peer(answerer, 2)
    name = attach(run, a, b)
    a.call("client", channel=name, client=name)
    begin = time.monotonic()
    answer = refused("expired", a, "call", client=name, data="aa", type=TYPE, timeout=0.05)
    true("not before its time", time.monotonic() - begin >= 0.05, time.monotonic() - begin)
    equal("nothing was published", answer["may_have_run"], False)
    b.call("server", channel=name, server=name)
    equal(
        "may have run",
        refused("expired", a, "call", client=name, data="aa", type=TYPE, timeout=0.05)["may_have_run"],
        True,
    )
    equal("outstanding", calls(a, name)["outstanding"], 1)
    equal("not handed out", serve(b, name), [])
    equal("expired", held(b, name)["expired"], 1)
    equal("nobody is told twice", poll(a, name), [])
    equal("then", (calls(a, name)["outstanding"], calls(a, name)["late"]), (0, 1))
    start(a, name, "late", timeout=0.05)
    start(a, name, "kept", timeout=0.2)
    start(a, name, "patient", timeout=None)
    time.sleep(0.06)
    equal("handed out", len(serve(b, name, {"keep": "k"})), 2)
    (first,) = ends(a, name, 1)
    equal("what the server says", (first["call"], first["is"], first["may_have_run"]), ("late", "expired", False))
    (second,) = ends(a, name, 1)
    equal("what the own clock says", (second["call"], second["is"], second["may_have_run"]), ("kept", "expired", True))
    for request in ("k0", "k1"):
        b.call("later", server=name, request=request, handler=ECHO)
    equal("the patient one", [one["call"] for one in ends(a, name, 1)], ["patient"])
    stats = b.call("stats", channel=name)["stats"]
    equal("for people", (stats["subscribers"][1]["outstanding"], stats["subscribers"][1]["expired"]), (0, 4))


def streams(run, caller, answerer):
    """Items, credit and the end; a stream that throws; one that is cancelled; one that is waited for."""
    a, b, name = talkers(run, caller, answerer)
    items = [f"{i:02x}" * (10 + i) for i in range(7)]
    start(a, name, "all", credit=2)
    (request,) = serve(b, name, {"stream": items, "type": 5})
    equal("it takes a stream", request["is_stream"], True)
    got = []
    while len(got) < 8:
        more = poll(a, name, timeout=LONG)
        true("at most its credit", 0 < len(more) <= 3, more)
        got += more
        serve(b, name)
    equal("the end", (got[-1]["is"], got[-1]["call"]), ("end-of-stream", "all"))
    equal("items", [(one["is"], one["data"], one["type"]) for one in got[:-1]], [("item", item, 5) for item in items])
    start(a, name, "broken", credit=10)
    serve(b, name, {"stream": items[:2], "type": 5, "throw": "out of items"})
    got = ends(a, name, 3)
    equal("items", [one.get("data") for one in got[:2]], items[:2])
    equal("then", (got[2]["is"], got[2]["text"]), ("service-error", "out of items"))
    start(a, name, "cancelled", credit=1)
    serve(b, name, {"stream": items, "type": 5})
    equal("an item", [one["data"] for one in poll(a, name, timeout=LONG)], items[:1])
    a.call("cancel", call="cancelled")
    serve(b, name)
    equal("nothing in hand", held(b, name)["in_hand"], 0)
    poll(a, name)
    equal("outstanding", calls(a, name)["outstanding"], 0)
    start(a, name, "next", credit=3)
    serve(b, name, {"stream": items, "type": 5})
    for item in items:
        a.send("next", call="next", timeout=LONG)
        while a.lines.empty():
            serve(b, name, timeout=0.01)
        equal("item", a.receive()["item"], {"type": 5, "data": item, "repeat": False})
    a.send("next", call="next", timeout=LONG)
    while a.lines.empty():
        serve(b, name, timeout=0.01)
    equal("the end", a.receive()["item"], None)
    equal("a call that takes no stream", text_of_stream(a, b, name), True)


def text_of_stream(a, b, name):
    """If a handler answers with a stream, but the caller takes one answer, the call fails. Returns the error's text."""
    a.send("call", client=name, data="", type=TYPE)
    serve(b, name, {"stream": ["aa"], "type": 5}, timeout=LONG)
    return len(ends_as("service-error", a)["text"]) > 0


# --- waiting, refusals ---------------------------------------------------------------------------------------------------


def sleeping(run, caller, answerer):
    """A sleeping server is woken by a request; a sleeping caller by an answer, a new server, or room."""
    a, b = run.peer(caller, 1), run.peer(answerer, 2)
    name = attach(run, a, b)
    a.call("client", channel=name, client=name)
    threads = {peer: serving(peer) for peer in (a, b)}
    with File(run.folder / f"{name}.ring") as file:

        def sleeps(peer, pair, op, **fields):
            file.forget_sleepers(pair)
            peer.send(op, **fields)
            until_asleep(threads[peer], file, pair)
            return time.monotonic()

        call = {"client": name, "data": "aa", "type": TYPE, "timeout": LONG}
        sleeps(a, "data", "call", **call)
        b.call("server", channel=name, server=name)
        equal("a caller that waits for a server", len(serve(b, name, timeout=LONG)), 1)
        a.receive()
        begin = sleeps(b, "data", "serve", server=name, handler=ECHO, timeout=LONG)
        a.call("call", **call)
        equal("a server that waits for requests", len(b.receive()["requests"]), 1)
        in_time(begin, "a server wakes")
        begin = sleeps(a, "data", "call", **call)
        serve(b, name, timeout=LONG)
        a.receive()
        in_time(begin, "a caller wakes")
        for i in range(4):
            start(a, name, f"call{i}", "ee" * 900)
        begin = sleeps(a, "room", "start", call="one more", **call | {"data": "ff" * 900})
        equal("requests", len(serve(b, name, limit=4)), 4)
        a.receive()
        in_time(begin, "a caller that waits for room")
        equal("the last one", [one["data"] for one in serve(b, name, timeout=LONG)], ["ff" * 900])
        ends(a, name, 5, serving_peer=b)
        sleeps(b, "data", "serve", server=name, handler=ECHO, timeout=LONG)
        a.call("evict", channel=name, slot=0)
        ends_as("slot-lost", b)


def refusals(run, language):
    """Operations that services refuse, and operations that only services have."""
    a = run.peer(language, 1)
    if "server" not in a.hello["ops"]:
        raise Skip(f"{language} has no services")
    name = run.name("service")
    for options in (
        {"kind": "service", "publishers": 2},
        {"kind": "service", "subscribers": 2},
        {"kind": "service", "clients": 0},
        {"kind": "service", "clients": 513},
        {"kind": "service", "max_outstanding": 0},
        {"kind": "service", "max_outstanding": 65536},
        {"kind": "broadcast", "clients": 1},
        {"kind": "inbox", "max_outstanding": 1},
        {"kind": "service", "foreign": "publisher", "alignment": 8},
    ):
        refused("invalid-argument", a, "create", channel=name, name=name, capacity=4096, counters=0, **options)
    answer = a.call("create", channel=name, name=name, **SMALL)
    equal("slots", (answer["kind"], answer["publishers"], answer["subscribers"]), ("service", 6, 4))
    for op, fields in (
        ("subscriber", {"subscriber": "x"}),
        ("publisher", {"publisher": "x"}),
        ("worker", {"worker": "x"}),
    ):
        equal("argument", refused("invalid-argument", a, op, channel=name, **fields).get("argument"), "kind")
    a.call("server", channel=name, server="s")
    for i in range(3):
        equal("number", a.call("client", channel=name, client=f"c{i}")["number"], i)
    refused("no-free-slot", a, "client", channel=name, client="c3")
    refused("no-free-slot", a, "server", channel=name, server="t")
    a.call("close", client="c1")
    equal("the free one", a.call("client", channel=name, client="c3")["number"], 1)
    refused("invalid-argument", a, "start", client="c0", call="x", data="", type=TYPE, credit=65536)
    refused("invalid-argument", a, "call", client="c0", data="", type=0)
    refused("invalid-argument", a, "call", client="c0", data="", type=TYPE, timeout=-1)
    start(a, "c0", "one")
    equal("one request", len(serve(a, "s", {"keep": "k"})), 1)
    a.call("close", client="c0")
    refused("closed", a, "result", call="one")
    a.call("close", server="s")
    stats = a.call("stats", channel=name)["stats"]
    equal("stats", (stats["clients"], stats["delivery"], stats["max_outstanding"]), (3, "at-most-once", 64))
    inbox = run.name()
    a.call("create", channel=inbox, name=inbox, kind="inbox", capacity=4096, counters=0)
    for op, handle in (("server", "server"), ("client", "client")):
        equal("argument", refused("invalid-argument", a, op, channel=inbox, **{handle: "x"}).get("argument"), "kind")
    wanted = SMALL | {"clients": 3, "delivery": "at-least-once"}
    equal(
        "field",
        refused("differs", a, "open_or_create", channel=name + "d", name=name, **wanted).get("field"),
        "delivery",
    )
    wanted = SMALL | {"max_outstanding": 65}
    differs = refused("differs", a, "open_or_create", channel=name + "d", name=name, **wanted)
    equal("field", differs.get("field"), "max_outstanding")
    above("serving", stats["serving"], 0)


def tests(languages):
    for language in languages:
        yield f"{language}: services, what is refused", refusals, language
    for a, b in itertools.product(languages, repeat=2):
        c = after(languages, b)
        yield f"{a} calls a server of {b}", answers, a, b, c
        yield f"{b} answers {a} in any order", in_any_order, a, b
        yield f"{a} calls {b}, deadlines", deadlines, a, b
        yield f"{b} streams to {a}", streams, a, b
        yield f"{a} and {b} sleep and call", sleeping, a, b
