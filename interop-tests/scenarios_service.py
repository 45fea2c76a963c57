# SPDX-License-Identifier: Apache-2.0
"""The scenarios of the matrix with a service (spec/service.md); see scenarios.py."""

from driver import both
from harness import equal
from scenarios_life import once_free


def service(cell, peers, clients, **options):
    """One of the peers, by the seed, makes a service, and the others open it. Returns its name, which is also the
    handle."""
    name, (creator, *others) = cell.run.name(), cell.random.sample(peers, len(peers))
    creator.call("create", channel=name, name=name, kind="service", clients=clients, counters=0, **options)
    for peer in others:
        peer.call("open", channel=name, name=name)
    return name


def many(cell, given):
    """Returns the fields of `call_many`."""
    stream = cell.stream(min=8, max=given["max"])
    return {"window": given["window"], "timeout": None, "seconds": cell.patience} | stream


def asked(cell):
    """Clients of one language, or of all, call one server: one call after the other, then many at once."""
    callers, servers = cell.peers("client", 1), cell.peers("server", 2)
    server = cell.random.choice(servers)
    verified = 0
    for given in cell.p["streams"]:
        options = {key: given[key] for key in ("capacity", "alignment", "delivery") if key in given}
        name = service(cell, [*callers, server], len(callers), **options)
        server.call("server", channel=name, server=name)
        for caller in callers:
            caller.call("client", channel=name, client=name)
        total = cell.p["count"] * len(callers)
        server.send("serve_many", server=name, count=total, seconds=cell.patience)
        for caller in callers:
            caller.send("call_many", client=name, **many(cell, given))
        answer, *answers = both(server, *callers, timeout=cell.patience + 5)
        equal("requests", answer["count"], total)
        for caller, answer in zip(callers, answers):
            expected = ({"answer": cell.p["count"]}, 0, 0)
            equal(f"{caller.label}: ends", (answer["ends"], answer["wrong"], answer["may_have_run"]), expected)
        for caller in callers:
            left = caller.call("calls", client=name)
            equal("nothing is left", (left["outstanding"], left["late"]), (0, 0))
        verified += total
        for peer in (*callers, server):
            peer.call("close", channel=name)
    return verified


def server_killed(cell):
    """A server kills itself in its handler, and the next one goes on. At-most-once delivery loses one call;
    at-least-once delivery loses none, and repeats the last one."""
    caller, verified = cell.random.choice(cell.peers("client", 1)), 0
    for delivery in ("at-most-once", "at-least-once"):
        (victim,), (heir,), count = cell.peers("victim", 2), cell.peers("heir", 3), cell.p["count"]
        name = service(cell, [caller, victim, heir], 1, capacity=8192, delivery=delivery)
        victim.call("server", channel=name, server=name)
        caller.call("client", channel=name, client=name)
        die_at = cell.random.randrange(count // 2)
        victim.send("serve_many", server=name, seconds=cell.patience, die_at=die_at)
        caller.send("call_many", client=name, **many(cell, {"window": 1, "max": 400}))
        victim.dies(cell.patience)
        once_free(heir, "server", channel=name, server=name)
        lost = delivery == "at-most-once"
        heir.send("serve_many", server=name, seconds=cell.patience, count=count - die_at - lost)
        if lost:
            answer, served = both(caller, heir, timeout=cell.patience + 5)
        else:  # requests that the victim answered before it stored their gate are repeated, too
            served = heir.receive(cell.patience + 5)
            while caller.lines.empty():
                heir.call("serve", server=name, handler={"echo": True}, timeout=0.05)
            answer = caller.receive()
        equal("requests of the next one", served["count"], count - die_at - lost)
        expected = {"answer": count - lost} | ({"server-gone": 1} if lost else {})
        equal(f"ends, {delivery}", (answer["ends"], answer["wrong"], answer["may_have_run"]), (expected, 0, int(lost)))
        verified += count
        for peer in (caller, heir):
            peer.call("close", channel=name)
    return verified


def client_killed(cell):
    """A client dies in the middle of many calls. Its requests are run, the next client in its place gets only its own
    answers, and the server keeps nothing of the dead one in hand."""
    server, verified = cell.random.choice(cell.peers("server", 2)), 0
    for window in (1, 16):
        (victim,), (heir,), count = cell.peers("victim", 1), cell.peers("heir", 3), cell.p["count"]
        name = service(cell, [server, victim, heir], 1, capacity=16384)
        server.call("server", channel=name, server=name)
        victim.call("client", channel=name, client=name)
        fields, asked_before = many(cell, {"window": window, "max": 400}), count // 2
        left = window if window > 1 else 0
        server.send("serve_many", server=name, seconds=cell.patience, count=asked_before - left)
        victim.send("call_many", client=name, die_at=fields["first"] + asked_before, **fields)
        victim.dies(cell.patience)
        equal("requests", server.receive(cell.patience)["count"], asked_before - left)
        requests = server.call("serve", server=name, handler={"echo": True})["requests"]
        equal("what it asked is run", len(requests), left)
        equal("its place", once_free(heir, "client", channel=name, client=name)["number"], 0)
        server.send("serve_many", server=name, seconds=cell.patience, count=count)
        heir.send("call_many", client=name, **fields)
        answer, served = both(heir, server, timeout=cell.patience + 5)
        equal("ends", (answer["ends"], answer["wrong"]), ({"answer": count}, 0))
        held = server.call("held", server=name)
        equal("nothing is held", (held["in_hand"], held["waiting"], served["count"]), (0, 0, count))
        verified += asked_before + count
        for peer in (server, heir):
            peer.call("close", channel=name)
    return verified
