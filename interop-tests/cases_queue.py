# SPDX-License-Identifier: Apache-2.0
"""Tests of queues (spec/queue.md). Producers of one language publish jobs; workers of others take, finish, release,
leave and adopt them. Run by pairs.py."""

import itertools
import os
import signal
import time

from harness import above, after, equal, fill, offer_within, refused, shared, true
from sleepers import File, serving, until_asleep

SMALL = {"kind": "queue", "capacity": 4096, "producers": 2, "workers": 3, "counters": 0}
LONG = 10  # seconds: a time-out that should not be reached


def attach(run, first, *others, **options):
    """A queue that the first peer makes; its name, and handle."""
    return shared(run, "queue", SMALL | options, first, *others)


def publish(peer, name, *payloads):
    for payload in payloads:
        above("position", peer.call("offer", publisher=name, data=payload, type=7)["position"], 0)


def take(peer, name, **more):
    return peer.call("take_job", worker=name, **more)["job"]


def finish(peer, name):
    """Takes and finishes jobs until there are no more. Returns them."""
    jobs = []
    while job := take(peer, name):
        jobs.append(job)
        peer.call("done", worker=name)
    return jobs


def soon(peer, name, seconds=5):
    """Takes a job of another worker; such jobs are looked for every millisecond."""
    late = time.monotonic() + seconds
    while (job := take(peer, name)) is None:
        true(f"a job within {seconds} s", time.monotonic() < late, None)
        time.sleep(0.001)
    return job


def data(jobs):
    return [job["data"] for job in jobs]


def numbers(count, first=0):
    return [f"{i:04x}" for i in range(first, first + count)]


def each_to_one(run, producer, worker, other):
    """Two producers, two workers: every job is handed out once, and each producer's jobs in order."""
    a, b, c = run.peer(producer, 1), run.peer(worker, 2), run.peer(other, 3)
    for alignment in (64, 8):
        name = attach(run, a, b, c, alignment=alignment)
        sent, got = {0: [], 1: []}, {0: [], 1: []}
        for peer, ring in ((a, 0), (c, 1)):
            equal("ring", peer.call("publisher", channel=name, publisher=name)["ring"], ring)
        equal("slots", [p.call("worker", channel=name, worker=name)["slot"] for p in (b, c)], [1, 2])
        for lap in range(6):
            for peer, ring in ((a, 0), (c, 1)):
                more = numbers(12, 100 * lap)
                for i, payload in enumerate(more):
                    publish(peer, name, payload + "ee" * (37 * i % 90))
                sent[ring] += more
            jobs = b.call("poll_jobs", worker=name, limit=10)["jobs"]
            equal("a batch", len(jobs), 10)
            while True:
                found = [job for job in (take(b, name), take(c, name)) if job]
                jobs += found
                for peer, job in zip((b, c), found):
                    peer.call("done", worker=name)
                if len(found) < 2:
                    break
            jobs += finish(b, name) + finish(c, name)
            for job in jobs:
                equal("attempts", (job["attempts"], job["repeat"], job["type"]), (0, False, 7))
                got[job["ring"]].append(job["data"][:4])
        equal("jobs of ring 0", got[0], sent[0])
        equal("jobs of ring 1", got[1], sent[1])
        for peer in (a, b, c):
            peer.call("close", channel=name)


def left_behind(run, producer, dead, heir):
    """A worker is killed with jobs in hand. Another one gets them, marked as repeats, with the rest of the batch. Then
    the same with a worker that takes the dead one's slot."""
    a, c = run.peer(producer, 1), run.peer(heir, 2)
    for slot in ("another", "its own"):
        b = run.fresh(dead)
        name = attach(run, a, b, c)
        a.call("publisher", channel=name, publisher=name, name="orders")
        if slot == "another":
            c.call("worker", channel=name, worker=name)
        b.call("worker", channel=name, worker=name, name="packer")
        jobs = numbers(6)
        publish(a, name, *jobs)
        equal("first", b.call("poll_jobs", worker=name, limit=3, action="BREAK")["jobs"][0]["data"], jobs[0])
        held = a.call("held_by", publisher=name)["holder"]
        if slot == "another":
            equal("nothing of a live one", data(finish(c, name)), jobs[3:])
        b.kill()
        if slot == "its own":
            equal("slot", c.call("worker", channel=name, worker=name, name="heir")["slot"], 1)
        job = soon(c, name)
        equal("left behind", (job["data"], job["attempts"], job["repeat"], job["ring"]), (jobs[1], 1, True, 0))
        c.call("done", worker=name)
        job = soon(c, name)
        equal("of the same batch", (job["data"], job["attempts"]), (jobs[2], 1))
        c.call("done", worker=name)
        equal("the rest", data(finish(c, name)), [] if slot == "another" else jobs[3:])
        if held:
            true("the worker or the queue", held["slot"] in (0, 1, 2), held)
        for peer in (a, c):
            peer.call("close", channel=name)


def killed_again(run, producer, dead, heir):
    """Each worker that takes a job dies. The count of attempts goes on from language to language."""
    a, c = run.peer(producer, 1), run.peer(heir, 2)
    name = attach(run, a, c)
    a.call("publisher", channel=name, publisher=name)
    c.call("worker", channel=name, worker=name)
    publish(a, name, "aa")
    for attempts in range(3):
        b = run.fresh(dead if attempts % 2 == 0 else heir)
        b.call("open", channel=name, name=name)
        b.call("worker", channel=name, worker=name)
        equal("attempts", soon(b, name)["attempts"], attempts)
        b.kill()
    equal("attempts", soon(c, name)["attempts"], 3)
    c.call("done", worker=name)
    equal("nothing more", take(c, name), None)


def released(run, producer, first, second):
    """A released job comes to another worker with its identity, and its count of attempts goes on."""
    a, b, c = run.peer(producer, 1), run.peer(first, 2), run.peer(second, 3)
    name = attach(run, a, b, c)
    a.call("publisher", channel=name, publisher=name, name="orders")
    b.call("worker", channel=name, worker=name)
    c.call("worker", channel=name, worker=name)
    publish(a, name, "aa", "bb")
    job = take(b, name)
    equal("sender", job["sender"]["name"], "orders")
    identity = (job["ring"], job["position"])
    for attempts, peer in ((1, c), (2, b), (3, c)):
        giver = b if peer is c else c
        equal("released", giver.call("release", worker=name)["released"], True)
        refused("closed", giver, "release", worker=name)
        if attempts == 1:
            equal("before what was given back", take(c, name)["data"], "bb")
            c.call("done", worker=name)
        job = take(peer, name)
        equal("job", (job["data"], job["attempts"], job["repeat"], job["type"]), ("aa", attempts, True, 7))
        equal("identity", (job["ring"], job["position"]), identity)
    c.call("done", worker=name)
    equal("nothing more", (take(b, name), take(c, name)), (None, None))
    publish(a, name, "01", "02", "03")
    equal("one", b.call("poll_jobs", worker=name, limit=3, action="BREAK")["jobs"][0]["data"], "01")
    b.call("close", worker=name)
    equal("what it had in hand", [(j["data"], j["attempts"]) for j in finish(c, name)], [("02", 1), ("03", 1)])
    publish(a, name, "04", "05")
    answer = c.call("poll_jobs", worker=name, limit=2, action="throw")
    equal("a handler that throws", answer.get("threw"), True)
    equal("then", [(j["data"], j["attempts"]) for j in finish(c, name)], [("05", 0), ("04", 1)])


def evicted(run, producer, victim, operator):
    """A worker that works too long is evicted. Another one does its job, and the victim gets *slot lost*."""
    a, b, c = run.peer(producer, 1), run.peer(victim, 2), run.peer(operator, 3)
    name = attach(run, a, b, c)
    a.call("publisher", channel=name, publisher=name)
    slot = b.call("worker", channel=name, worker=name)["slot"]
    c.call("worker", channel=name, worker=name)
    publish(a, name, "aa")
    equal("job", take(b, name)["data"], "aa")
    equal("a job in hand", c.call("evict", channel=name, slot=slot)["messages"], 1)
    job = soon(c, name)
    equal("job", (job["data"], job["attempts"]), ("aa", 1))
    refused("slot-lost", b, "done", worker=name)
    c.call("done", worker=name)
    refused("invalid-argument", c, "evict", channel=name, slot=0)
    equal("its slot", b.call("worker", channel=name, worker=name + "b")["slot"], slot)
    equal("none in hand", c.call("evict", channel=name, slot=slot)["messages"], 0)
    refused("slot-lost", b, "take_job", worker=name + "b")
    equal("nothing more", take(c, name), None)


def stopped(run, producer, victim, other):
    """A worker is evicted while it is stopped. When it continues, it can neither finish nor keep the adopted job."""
    a, c, b = run.peer(producer, 1), run.peer(other, 2), run.fresh(victim)
    name = attach(run, a, b, c)
    a.call("publisher", channel=name, publisher=name)
    slot = b.call("worker", channel=name, worker=name)["slot"]
    c.call("worker", channel=name, worker=name)
    publish(a, name, "aa")
    equal("job", take(b, name)["data"], "aa")
    os.kill(b.pid, signal.SIGSTOP)
    try:
        c.call("evict", channel=name, slot=slot)
        equal("job", soon(c, name)["data"], "aa")
        sent = fill(a, name)
    finally:
        os.kill(b.pid, signal.SIGCONT)
    refused("slot-lost", b, "release", worker=name)
    c.call("done", worker=name)
    equal("the rest", data(finish(c, name)), sent)


def holds_back(run, producer, worker, other):
    """A slow job finally holds its producer back, and the producer names the worker."""
    a, b, c = run.peer(producer, 1), run.peer(worker, 2), run.peer(other, 3)
    name = attach(run, a, b, c)
    a.call("publisher", channel=name, publisher=name)
    sent = fill(a, name)
    holder = a.call("held_by", publisher=name)["holder"]
    equal("nobody has taken it", (holder["slot"], holder["name"]), (0, ""))
    slot = b.call("worker", channel=name, worker=name, name="slow")["slot"]
    c.call("worker", channel=name, worker=name)
    equal("job", take(b, name)["data"], sent[0])
    equal("jobs", data(finish(c, name)), sent[1:])
    more = fill(a, name)
    equal("still nearly full", len(more) <= 1, True)
    holder = a.call("held_by", publisher=name)["holder"]
    equal("held by", (holder["slot"], holder["name"], holder["live"], holder["pid"]), (slot, "slow", True, b.pid))
    b.call("done", worker=name)
    above("position of an offer within 5 s", offer_within(5, a, name, "01"), 0)


def sleeping(run, sleeper, other):
    """Workers sleep: one job wakes one of two; room wakes a producer; the last producer's close, and drain, end
    waits."""
    a, b, c = run.peer(sleeper, 1), run.peer(sleeper, 2), run.peer(other, 3)
    name = attach(run, c, a, b)
    with File(run.folder / f"{name}.ring") as file:
        c.call("publisher", channel=name, publisher=name)
        threads = {a: serving(a), b: serving(b)}
        for peer in (a, b):
            peer.call("worker", channel=name, worker=name)
            file.forget_sleepers("jobs")
            peer.send("take_job", worker=name, timeout=LONG)
            until_asleep(threads[peer], file, "jobs")
        waiting = {a, b}
        for payload in ("aa", "bb"):
            begin = time.monotonic()
            publish(c, name, payload)
            woken = None
            while woken is None:
                woken = next((peer for peer in waiting if not peer.lines.empty()), None)
                true("one of them wakes within 5 s", time.monotonic() < begin + 5, None)
            job = woken.receive()["job"]
            equal("job", job["data"], payload)
            waiting.discard(woken)
            time.sleep(0.05)
            equal("the other one sleeps on", [peer.lines.empty() for peer in waiting], [True] * len(waiting))
            woken.call("done", worker=name)
        # room
        sent = fill(c, name)
        equal("job", take(a, name)["data"], sent[0])
        sleeper_thread = serving(c)
        file.forget_sleepers("room")
        c.send("offer", publisher=name, data="ff" * 600, type=1, timeout=LONG)
        until_asleep(sleeper_thread, file, "room")
        a.call("done", worker=name)
        got = [sent[0]] + data(finish(a, name))
        above("position", c.receive()["position"], 0)
        got += data(finish(a, name))
        equal("all", got, sent + ["ff" * 600])
        # the end
        equal("ended", a.call("jobs_ended", worker=name)["ended"], False)
        c.call("close", publisher=name)
        equal("ended", a.call("jobs_ended", worker=name)["ended"], True)
        b.call("drain", worker=name)
        begin = time.monotonic()
        equal("drained", take(b, name, timeout=LONG), None)
        true("at once", time.monotonic() < begin + 1, time.monotonic() - begin)


def refusals(run, language):
    """Operations that queues refuse, and operations that only queues have."""
    a = run.peer(language, 1)
    name = run.name("queue")
    for options in (
        {"kind": "queue", "publishers": 2},
        {"kind": "queue", "subscribers": 2},
        {"kind": "queue", "producers": 0},
        {"kind": "queue", "workers": 1024},
        {"kind": "inbox", "producers": 1},
        {"kind": "broadcast", "workers": 1},
        {"kind": "queue", "foreign": "publisher", "alignment": 8},
    ):
        refused("invalid-argument", a, "create", channel=name, name=name, capacity=4096, counters=0, **options)
    answer = a.call("create", channel=name, name=name, **SMALL)
    answer = answer.get("info", answer)
    equal("slots", (answer["kind"], answer["publishers"], answer["subscribers"]), ("queue", 3, 4))
    equal(
        "argument", refused("invalid-argument", a, "subscriber", channel=name, subscriber="s").get("argument"), "kind"
    )
    refused("invalid-argument", a, "publisher", channel=name, publisher="p", max_lag=4096)
    refused("invalid-argument", a, "lossy_subscriber", channel=name, subscriber="s", rings=[2])
    lossy = a.call("lossy_subscriber", channel=name, subscriber="looker")
    equal("rings", lossy["rings"], [0, 1])
    rings = [a.call("publisher", channel=name, publisher=f"p{i}")["ring"] for i in range(2)]
    equal("rings", rings, [0, 1])
    refused("no-free-slot", a, "publisher", channel=name, publisher="p2")
    a.call("worker", channel=name, worker="w")
    answer = refused("too-large", a, "offer", publisher="p0", data="00" * (4096 // 4 - 23), type=1)
    equal("limit", answer.get("limit"), 4096 // 4 - 24)
    above("position", a.call("offer", publisher="p0", data="00" * (4096 // 4 - 24), type=1)["position"], 0)
    refused("closed", a, "done", worker="w")
    equal("type", take(a, "w")["type"], 1)
    refused("view-alive", a, "take_job", worker="w")
    a.call("done", worker="w")
    equal("seen by who only looks", a.call("take", subscriber="looker")["message"]["ring"], 0)
    inbox = run.name()
    a.call("create", channel=inbox, name=inbox, kind="inbox", capacity=4096, counters=0)
    refused("invalid-argument", a, "worker", channel=inbox, worker="x")
    differs = refused(
        "differs", a, "open_or_create", channel=name + "d", name=name, **SMALL | {"workers": 5, "producers": 2}
    )
    equal("field", differs.get("field"), "workers")


def tests(languages):
    for language in languages:
        yield f"{language}: queues, what is refused", refusals, language
    for a, b in itertools.product(languages, repeat=2):
        c = after(languages, b)
        yield f"jobs of {a} to {b} and {c}", each_to_one, a, b, c
        yield f"{b} dies with jobs of {a} in hand, {c} does them", left_behind, a, b, c
        yield f"{a} gives a job back, {b} takes it", released, c, a, b
        yield f"{a} is evicted with a job in hand, by {b}", evicted, c, a, b
        yield f"{a} is stopped with a job in hand, {b} does it", stopped, c, a, b
        yield f"a job of {b} holds {a} back", holds_back, a, b, c
        yield f"workers of {a} sleep, {b} wakes one", sleeping, a, b
    for a in languages:
        yield f"{a} and {after(languages, a)} die of one job again and again", killed_again, a, a, after(languages, a)
