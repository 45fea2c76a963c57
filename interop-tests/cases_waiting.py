# SPDX-License-Identifier: Apache-2.0
"""Verbs that wait (spec/api.md, Waiting). One language sleeps, and another one wakes it or ends its wait. Each is a
function of the run, the waiting language, and the other one."""

import os
import signal
import time

from driver import Refused
from harness import above, drain, equal, fill, refused, true, Wrong
from sleepers import File, serving, until_asleep

OPTIONS = {"kind": "broadcast", "capacity": 4096, "alignment": 64, "publishers": 2, "subscribers": 2, "counters": 0}
LONG, SHORT = 10, 0.03  # seconds: a time-out that should not be reached, and one that should
PROMPT = 0.05  # seconds: half of the longest sleep of a reader that is not woken
TRIES = 3  # because on a busy machine one may take longer
LATEST = 1  # seconds: the limit for the end of a wait


class Pair:
    """A channel with two peers; a context manager."""

    def __init__(self, run, waiter, other, fresh=False, wake=(True, True), **options):
        self.run, self.name = run, run.name("waiting")
        self.a, self.b = run.peer(waiter, 1), run.fresh(other) if fresh else run.peer(other, 2)
        self.a.call("create", channel=self.name, name=self.name, **OPTIONS | options, wake=wake[0])
        self.b.call("open", channel=self.name, name=self.name, wake=wake[1])
        self.file, self.thread = File(run.folder / f"{self.name}.ring"), serving(self.a)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.bytes.close()

    def publisher(self, peer, handle=None):
        return peer.call("publisher", channel=self.name, publisher=handle or self.name)["ring"]

    def subscriber(self, peer, **more):
        return peer.call("subscriber", channel=self.name, subscriber=self.name, **more)["slot"]

    def sleeps(self, pair, op, **fields):
        """Sends the first peer a request in which it falls asleep, and waits until it sleeps."""
        self.file.forget_sleepers(pair)  # clear leftover bits
        self.a.send(op, timeout=fields.pop("timeout", LONG), **fields)
        until_asleep(self.thread, self.file, pair)

    def answer(self):
        """Returns the answer, or that of its error, and how long it took, in seconds."""
        begin = time.monotonic()
        try:
            answer = self.a.receive(LONG + 5)
        except Refused as e:
            answer = e.answer
        return answer, time.monotonic() - begin

    def ended_by(self, code):
        answer, took = self.answer()
        equal("the wait ends with", answer.get("error", answer), code)
        true(f"an end within {LATEST} s", took < LATEST, took)
        return answer

    def offer(self, peer, data="01", **more):
        above("position", peer.call("offer", publisher=self.name, data=data, type=1, **more)["position"], 0)


def in_time(what, attempt):
    """Checks that one of a few attempts is prompt. Each returns how long it took."""
    times = []
    while not times or min(times) >= PROMPT:
        if len(times) == TRIES:
            raise Wrong(f"{what}: expected {PROMPT} s at most in one of {TRIES} tries, found {times}")
        times.append(attempt())


def timed_out(pair, code, op, **fields):
    """Checks that the request fails with this code at its time-out, not before."""
    begin = time.monotonic()
    answer = refused(code, pair.a, op, timeout=SHORT, **fields)
    true(f"a time-out after {SHORT} s", time.monotonic() - begin >= SHORT, time.monotonic() - begin)
    return answer


def a_message(run, waiter, other):
    """take and poll, also of lossy readers, return messages of another language, and of a ring's new owner."""
    with Pair(run, waiter, other) as p:
        p.subscriber(p.a)
        p.a.call("lossy_subscriber", channel=p.name, subscriber="lossy")
        p.sleeps("data", "take", subscriber=p.name)
        before = p.file.sequence("data")
        p.publisher(p.b)
        above("how often a new owner wakes", p.file.sequence("data"), before)
        p.offer(p.b, "aa")
        equal("the message of a new owner", p.answer()[0]["message"]["data"], "aa")
        p.a.call("take", subscriber="lossy")
        for op, handle, rest in (("take", p.name, {}), ("poll", p.name, {"limit": 9}), ("take", "lossy", {})):

            def attempt():
                p.sleeps("data", op, subscriber=handle, **rest)
                p.offer(p.b, "bb")
                answer, took = p.answer()
                messages = answer["messages"] if op == "poll" else [answer["message"]]
                equal("messages", [m and m["data"] for m in messages], ["bb"])
                return took

            in_time(f"{op} of {handle}", attempt)
            drain(p.a, p.name), drain(p.a, "lossy")
        begin = time.monotonic()
        equal("nothing", p.a.call("take", subscriber=p.name, timeout=SHORT)["message"], None)
        equal("nothing", p.a.call("poll", subscriber=p.name, limit=9, timeout=SHORT)["messages"], [])
        true("both waited", time.monotonic() - begin >= 2 * SHORT, time.monotonic() - begin)
        p.sleeps("data", "take", subscriber=p.name, timeout=None)
        p.offer(p.b, "cc")
        equal("what ended a wait without a time-out", p.answer()[0]["message"]["data"], "cc")


def room(run, waiter, other):
    """send, claim and send_batch wait until a reader of another language makes room."""
    with Pair(run, waiter, other) as p:
        p.publisher(p.a)
        p.subscriber(p.b)
        waits = (
            ("offer", {"data": "dd" * 100, "type": 1}),
            ("claim", {"length": 100, "type": 1}),
            ("offer_batch", {"data": ["ee" * 400] * 20, "type": 1}),
        )
        for op, fields in waits:
            sent = len(fill(p.a, p.name, 100))
            if op == "offer_batch":
                equal("none of a batch in time", p.a.call(op, publisher=p.name, timeout=SHORT, **fields)["taken"], 0)
            else:
                held = timed_out(p, "back-pressured", op, publisher=p.name, **fields)["holder"]
                equal("what holds it back", held, p.a.call("held_by", publisher=p.name)["holder"])
                equal("its slot", held["slot"], 0)
            before = p.file.sequence("room")
            p.sleeps("room", op, publisher=p.name, **fields)
            expected = sent + {"offer": 1, "claim": 0, "offer_batch": 20}[op]
            late, got = time.monotonic() + LONG, 0
            while got < expected and time.monotonic() < late:
                got += len(p.b.call("poll", subscriber=p.name, limit=256, timeout=SHORT)["messages"])
            answer = p.answer()[0]
            equal(f"{op}: messages", got, expected)
            above("how often its reader woke it", p.file.sequence("room"), before)
            if op == "offer":
                above("position", answer["position"], 0)
            elif op == "claim":
                equal("claimed", answer["claimed"], True)
                p.a.call("abort", publisher=p.name)
            else:
                equal("taken", answer["taken"], 20)


def flushed(run, waiter, other):
    """flush returns when the reader has read everything, or is away. At the time-out it names what it waited for."""
    with Pair(run, waiter, other) as p:
        p.publisher(p.a)
        p.a.call("flush", publisher=p.name, timeout=LONG)
        p.subscriber(p.b, name="kept", kept=True)
        p.offer(p.a)
        answer = timed_out(p, "timed-out", "flush", publisher=p.name)
        true("the answer says what for", answer.get("what_for"), answer)
        p.sleeps("room", "flush", publisher=p.name)
        drain(p.b, p.name)
        equal("flushed", p.answer()[0]["ok"], True)
        p.offer(p.a)
        p.sleeps("room", "flush", publisher=p.name)
        p.b.call("close", subscriber=p.name)
        equal("flushed, as nobody owns the kept slot", p.answer()[0]["ok"], True)


def a_slot(run, waiter, other):
    """A wait for an inbox's slot ends when its owner leaves or dies."""
    for dies in (False, True):
        with Pair(run, waiter, other, fresh=dies, kind="inbox", subscribers=1) as p:
            p.publisher(p.a)
            p.subscriber(p.b)
            p.offer(p.a, "0a")
            request = {"channel": p.name, "subscriber": p.name}
            answer = timed_out(p, "no-free-slot", "subscriber", **request)
            equal("kind and slots", (answer.get("kind"), answer.get("slots")), ("subscriber", 1))
            p.a.send("subscriber", timeout=LONG, **request)
            time.sleep(SHORT)
            if dies:
                p.b.kill()
            else:
                p.b.call("close", subscriber=p.name)
            answer, took = p.answer()
            equal("slot", answer.get("slot", answer), 0)
            true(f"a slot within {LATEST} s", took < LATEST, took)
            equal("what its owner left", [m["data"] for m in drain(p.a, p.name)], ["0a"])


def a_channel(run, waiter, other):
    """Channel.wait_for opens a channel that another language creates later. At the time-out it names the channel."""
    a, b, name = run.peer(waiter, 1), run.peer(other, 2), run.name("waiting")
    begin = time.monotonic()
    answer = refused("timed-out", a, "open", channel=name, name=name, timeout=SHORT)
    true(f"a time-out after {SHORT} s", time.monotonic() - begin >= SHORT, time.monotonic() - begin)
    true("the answer says what for", answer.get("what_for"), answer)
    a.send("open", channel=name, name=name, timeout=LONG)
    time.sleep(SHORT)
    made, begin = b.call("create", channel=name, name=name, **OPTIONS), time.monotonic()
    equal("the channel", a.receive(LONG + 5)["channel_id"], made["channel_id"])
    true(f"opened within {LATEST} s", time.monotonic() - begin < LATEST, time.monotonic() - begin)


def taken_away(run, waiter, other):
    """An eviction, or a new channel of this name, ends a wait for a message or for room."""
    with Pair(run, waiter, other) as p:
        slot = p.subscriber(p.a)
        p.sleeps("data", "take", subscriber=p.name)
        p.b.call("evict", channel=p.name, slot=slot)
        equal("slot", p.ended_by("slot-lost").get("slot"), slot)
    for pair in ("data", "room"):
        with Pair(run, waiter, other) as p:
            if pair == "data":
                p.subscriber(p.a)
                p.sleeps(pair, "poll", subscriber=p.name, limit=9)
            else:
                p.publisher(p.a)
                p.subscriber(p.b)
                fill(p.a, p.name, 100)
                p.sleeps(pair, "offer", publisher=p.name, data="ff" * 100, type=1)
            made = p.b.call("replace", channel=p.name + "new", name=p.name, **OPTIONS)
            answer = p.ended_by("replaced")
            carried = os.path.realpath(answer.get("path", "")), answer.get("channel_id")
            equal("path and id", carried, (os.path.realpath(run.folder / f"{p.name}.ring"), made["channel_id"]))


def dead_or_stopped(run, waiter, other):
    """A publisher goes on when the reader that held it back is killed, but waits for a stopped one. A reader that was
    stopped in its sleep then finds the messages that came meanwhile."""
    with Pair(run, waiter, other, fresh=True) as p:
        p.publisher(p.a)
        p.subscriber(p.b)
        fill(p.a, p.name, 100)
        p.sleeps("room", "offer", publisher=p.name, data="ff" * 100, type=1)
        os.kill(p.b.pid, signal.SIGSTOP)
        time.sleep(SHORT)
        true("no answer, as the reader lives", p.a.lines.empty(), "one")
        p.b.kill()
        answer, took = p.answer()
        above("position", answer.get("position", 0), 0)
        true(f"room within {LATEST} s", took < LATEST, took)
    with Pair(run, waiter, other) as p:
        p.publisher(p.b)
        p.subscriber(p.a)
        p.sleeps("data", "take", subscriber=p.name)
        os.kill(p.a.pid, signal.SIGSTOP)
        try:
            p.offer(p.b, "bb")
            p.offer(p.b, "cc")
        finally:
            os.kill(p.a.pid, signal.SIGCONT)
        equal("the first of two", p.answer()[0]["message"]["data"], "bb")


def sleeps_in(thread, seconds):
    before = thread.switches()
    time.sleep(seconds)
    return thread.switches() - before


def looks_often(thread):
    """Returns whether the thread wakes more often than every 4 ms, in one of a few spans of 50 ms."""
    looks = []
    while not looks or max(looks) <= 13:
        true("more than 13 looks in 50 ms, in one of ten tries", len(looks) < 10, looks)
        looks.append(sleeps_in(thread, 0.05))


def wake_is_off(run, waiter, other):
    """With `wake` false, a process wakes no sleepers, and only its counterpart looks every millisecond."""
    with Pair(run, waiter, other, wake=(True, False)) as p:
        ring, slot = p.publisher(p.b), p.subscriber(p.a, rings=[0])
        p.subscriber(p.b, rings=[1])
        equal("wakes", (p.file.wakes("publisher", ring), p.file.wakes("subscriber", 1)), (0, 0))
        above("wakes of the other one", p.file.wakes("subscriber", slot), 0)

        def attempt():
            p.sleeps("data", "take", subscriber=p.name)
            looks_often(p.thread)
            before = p.file.sequence("data")
            p.offer(p.b, "ab")
            answer, took = p.answer()
            equal("message", answer["message"]["data"], "ab")
            equal("woken", p.file.sequence("data"), before)
            return took

        in_time("take", attempt)
        equal("ring", p.publisher(p.a), 1)
        sent = len(fill(p.a, p.name, 100))
        p.sleeps("room", "offer", publisher=p.name, data="ff" * 100, type=1)
        looks_often(p.thread)
        before = p.file.sequence("room")
        got = len(p.b.call("poll", subscriber=p.name, limit=256)["messages"])
        true(f"{sent} messages, and perhaps that of who waited", got - sent in (0, 1), got)
        above("position", p.answer()[0]["position"], 0)
        equal("woken", p.file.sequence("room"), before)
    with Pair(run, waiter, other, wake=(False, True)) as p:  # the side without wake is woken itself, and sleeps long
        p.publisher(p.b)
        p.subscriber(p.a)

        def attempt():
            p.sleeps("data", "take", subscriber=p.name)
            few = sleeps_in(p.thread, 0.05)
            true("at most 5 looks in 50 ms", few <= 5, few)  # including the JVM's own wake-ups
            p.offer(p.b, "ba")
            answer, took = p.answer()
            equal("message", answer["message"]["data"], "ba")
            return took

        in_time("take by one that does not wake", attempt)


def by_its_own_process(run, language):
    """Another thread closes the channel, or interrupts the waiting one (Java), or a signal arrives (Python)."""
    plans = [("close", "closed")] + [("interrupt", "cancelled")] * (language == "java")
    plans += [("signal", "interrupted")] * (language == "python")
    for plan, code in plans:
        for pair, op, fields in (
            ("data", "take", {"subscriber": "waiting"}),
            ("room", "offer", {"publisher": "waiting", "data": "ff" * 100, "type": 1}),
            ("room", "flush", {"publisher": "waiting"}),
        ):
            with Pair(run, language, "python" if language != "python" else "cpp") as p:
                p.publisher(p.b)
                p.a.call("subscriber", channel=p.name, subscriber="waiting", rings=[0])
                p.publisher(p.a, "waiting")
                p.subscriber(p.b, rings=[1])
                fill(p.a, "waiting", 100)
                fifo = run.folder / "beside"
                if plan != "signal":
                    for end in (".go", ".done"):
                        os.mkfifo(f"{fifo}{end}")
                    p.a.call("beside", channel=p.name, do=plan, fifo=str(fifo))
                    done = os.open(f"{fifo}.done", os.O_RDONLY | os.O_NONBLOCK)
                p.sleeps(pair, op, **fields)
                if plan == "signal":
                    os.kill(p.a.pid, signal.SIGINT)
                else:
                    with open(f"{fifo}.go", "wb") as go:
                        go.write(b"!")
                answer = p.ended_by(code)
                if code == "cancelled":
                    true("the answer says what for", answer.get("what_for"), answer)
                p.a.call("hello")  # Java: clears the interrupt
                if plan != "signal":
                    os.close(done)
                    for end in (".go", ".done"):
                        os.unlink(f"{fifo}{end}")


def tests(languages):
    """Yields (title, function, arguments) of every test."""
    for language in languages:
        yield f"{language}: what its own process does ends a wait", by_its_own_process, language
    for a in languages:
        for b in languages:
            yield f"{a} waits for a message of {b}", a_message, a, b
            yield f"{a} waits for room that {b} makes", room, a, b
            yield f"{a} waits until {b} has read", flushed, a, b
            yield f"{a} waits for a slot that {b} has", a_slot, a, b
            yield f"{a} waits for a channel that {b} makes", a_channel, a, b
            yield f"{a} waits, and {b} takes what it waits with away", taken_away, a, b
            yield f"{a} waits, and {b} is killed or {a} stopped", dead_or_stopped, a, b
            yield f"{a} waits, and {b} does not wake, or the reverse", wake_is_off, a, b
