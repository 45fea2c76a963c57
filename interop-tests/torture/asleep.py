#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random SIGKILL and SIGSTOP of peers (PEER.md) that sleep whenever they can: three publishers and two kept readers of
one channel, in all languages. The rings are small, so publishers sleep for room as often as readers sleep for messages.

    asleep.py [--seconds 10] [--seed N] [--languages cpp,java,python] [--logs FOLDER]

The streams are numbered. The next owner of a ring continues with the next number in the file, and the next owner of a
slot expects the number at its gate. So a message that is lost, doubled or torn by a death causes a mismatch in a
reader. The successor of a reader that ended by itself must begin where that one stopped.

No peer may sleep while it has something to do, except for the delay that a death may cause (channel.md 6.16, Cap). This
program looks at all peers every few milliseconds. It finds readers below the end of a ring, and publishers with an
empty ring, that are asleep at each look and do not move. A thread that waits for a processor is not asleep.

At the end the check itself is tested: the program plants lost wake-ups by clearing `data_asleep` while readers sleep.
It must see a reader of each language that sleeps on although there are messages.

The last line is `N passed, N failed`, of the rules."""

import argparse
import collections
import pathlib
import queue
import random
import signal
import struct
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from driver import ROOT, Peer, PeerFailed, Refused, commands
from harness import Run, Wrong, true
from sleepers import File, serving

OPTIONS = {"kind": "broadcast", "capacity": 4096, "alignment": 64, "publishers": 3, "subscribers": 2, "counters": 0}
PUBLISHERS, READERS = ("left", "right", "middle"), ("journal", "ledger")
STREAM = {"min": 8, "max": 600, "numbered": True}
HOWS, READINGS = ("offer", "claim", "batch", "mix"), ("poll", "take", "mix")
LOOK = 0.003  # seconds
CAPS = {"publisher": 0.02, "reader": 0.1}  # seconds: the longest time between two looks of a sleeper
SLACK = 0.05  # seconds, for the look itself and for the work before the gate is stored
STOPPED = 0.06  # seconds: the longest SIGSTOP
LONGEST = 30  # seconds that a request may take
LEAST = 20  # messages per second that each language's readers and publishers must have
PATIENCE = 60  # seconds to wait for them at most
LOST = 0.08  # seconds asleep that count as a planted lost wake-up: less than the cap, more than a busy machine
PLANTED = 15  # seconds within which a planted lost wake-up must be seen in each language
RULES = ("streams", "resumed", "sleeps", "errors", "work", "planted")
BEGUN, DONE = 328, 336  # of a ring's trailer: messages_begun, messages_done (4.7)


class Ends:
    """The numbers in the file: behind the last message of a ring, and at a gate."""

    def __init__(self, file):
        self.file = file

    def done(self, ring):
        return self.file._trailer(ring, DONE)

    def next_at(self, ring, slot):
        """Returns the number of the first message from a slot's gate on, which must not move."""
        file, position, late = self.file, self.file.gate(slot, ring), time.monotonic() + 5
        base = file.rings + ring * file.stride
        while time.monotonic() < late:
            at = base + position % file.capacity
            length, kind = struct.unpack_from("<ii", file.bytes, at)
            if length > 0 and kind > 0:
                return struct.unpack_from("<Q", file.bytes, at + 8)[0]
            if length > 0:
                position += -(-length // OPTIONS["alignment"]) * OPTIONS["alignment"]
                continue
            done, begun = self.done(ring), file._trailer(ring, BEGUN)
            if file.published(ring) == position and done == begun == self.done(ring):
                return done
            time.sleep(0.0002)
        raise Wrong(f"ring {ring}: nothing is at the gate of slot {slot}, and its end is elsewhere, for 5 s")


class Nursery:
    """A stock of started peers of all languages."""

    def __init__(self, run):
        self.run, self.ended, self.lock, self.number = run, False, threading.Lock(), 0
        self.ready = {language: queue.Queue(1) for language in run.commands}
        self.threads = [threading.Thread(target=self._raise, args=(each,), daemon=True) for each in self.ready]
        for thread in self.threads:
            thread.start()

    def _raise(self, language):
        while not self.ended:
            with self.lock:
                self.number += 1
                label = f"{language}-{self.number}"
            peer = Peer(language, self.run.commands[language], self.run.logs, self.run.folder, label)
            while not self.ended:
                try:
                    self.ready[language].put(peer, timeout=0.1)
                    break
                except queue.Full:
                    pass
            else:
                peer.kill()

    def take(self, language):
        return self.ready[language].get(timeout=30)

    def end(self):
        self.ended = True
        for thread in self.threads:
            thread.join(30)
        for waiting in self.ready.values():
            while not waiting.empty():
                waiting.get().kill()


class Actor:
    """A role: a publisher or a reader, played by peers of one language after another."""

    def __init__(self, play, kind, name):
        self.play, self.kind, self.name = play, kind, name
        self.peer = self.thread = None
        self.struck, self.stopped = None, False  # struck: the peer that was killed
        self.random = random.Random(f"{play.seed} {name}")
        self.next = {ring: 0 for ring in range(len(PUBLISHERS))}  # of a reader: after the received ones
        self.moved, self.place = time.monotonic(), None  # when it was last seen awake or at another position
        self.runner = threading.Thread(target=self.run, daemon=True)

    @property
    def killed(self):
        return self.struck is self.peer

    @property
    def over(self):
        return self.kind in self.play.over

    def run(self):
        while not self.over:
            language = min(self.play.turns[self.kind], key=lambda each: (self.play.turns[self.kind][each], each))
            self.play.turns[self.kind][language] += 1
            try:
                self.peer = self.play.nursery.take(language)
                self.turn(language)
                self.peer.quit()
            except PeerFailed as e:
                if not self.killed:
                    self.play.fail("errors", f"{self.name}: {e}")
            except Refused as e:
                self.play.fail("streams" if e.code == "mismatch" else "errors", f"{self.name}: {e}")
            except Exception as e:  # noted for the verdict, and another peer goes on
                self.play.fail("errors", f"{self.name}: {e!r}")
            finally:
                self.thread = None
                if self.peer and self.peer.alive():
                    self.peer.kill()

    def turn(self, language):
        """Runs one owner of the role: a few requests, then it leaves."""
        peer, handle, thread = self.peer, self.play.name, serving(self.peer)
        peer.call("open", channel=handle, name=handle)
        if self.kind == "publisher":
            self.ring = peer.call("publisher", channel=handle, publisher=handle, name=self.name)["ring"]
        else:
            answer = peer.call("subscriber", channel=handle, subscriber=handle, name=self.name, kept=True)
            self.resume(answer["slot"])
        self.moved, self.thread = time.monotonic(), thread
        for _ in range(1 if self.play.plants else self.random.randrange(1, 8)):
            if self.over:
                break
            if self.kind == "publisher":
                self.publish(language)
            else:
                self.read(language)
        self.thread = None
        peer.call("close", channel=handle)

    def publish(self, language):
        ring = self.ring
        first, count = self.play.ends.done(ring), self.random.randrange(1, 3000)
        request = STREAM | {"seed": ring, "first": first, "count": count, "how": self.random.choice(HOWS)}
        answer = self.peer.call(
            "publish_stream",
            publisher=self.play.name,
            within=LONGEST + 5,
            seconds=LONGEST,
            wait="block",
            spin=self.spin(),
            **request,
        )
        self.play.work["publisher", language] += answer["count"]

    def spin(self):
        return self.random.choice((0, 0, 5000, 30_000))

    def resume(self, slot):
        for ring in self.next:
            found = self.play.ends.next_at(ring, slot)
            if found < self.next[ring]:
                text = (
                    f"{self.name}: resumes ring {ring} at {found}, its predecessor had seen all below {self.next[ring]}"
                )
                self.play.fail("resumed", text)
            self.next[ring] = found
        self.slot = slot

    def read(self, language, count=10**9, seconds=None):
        """Reads until its time is over, as the streams have no end, or until `count` messages of each ring have
        come."""
        counts = count if isinstance(count, dict) else dict.fromkeys(self.next, count)
        streams = [
            STREAM | {"ring": ring, "seed": ring, "first": first, "count": counts[ring]}
            for ring, first in self.next.items()
        ]
        try:
            answer = self.peer.call(
                "verify_stream",
                subscriber=self.play.name,
                within=LONGEST + 5,
                streams=streams,
                how=self.random.choice(READINGS),
                seconds=seconds or 0.1 + self.random.random(),
                wait="block",
                spin=self.spin(),
            )
            seen = {ring: entry["seen"] for ring, entry in answer["rings"].items()}
        except Refused as e:
            if e.code != "timeout" or seconds:
                raise
            seen = e.answer["counts"]
        for ring, number in seen.items():
            self.next[int(ring)] += number
            self.play.work["reader", language] += number

    def look(self, now):
        """Checks that the peer is not asleep while it has something to do."""
        thread = self.thread
        if thread is None or self.stopped or self.killed:
            self.moved = now
            return
        try:
            # A JVM whose other threads run may have halted this one, in a futex of its own.
            asleep = thread.state()[0] == "S" and thread.in_futex() and not thread.others_run()
        except OSError:
            asleep = False
        file, rings = self.play.file, range(len(PUBLISHERS))
        if self.kind == "reader":
            place = tuple(file.gate(self.slot, ring) for ring in rings)
            waits = any(file.published(ring) > place[ring] >= 0 for ring in rings)
        else:
            place = file.published(self.ring)
            waits = all(file.gate(slot, self.ring) in (-1, place) for slot in range(len(READERS)))
        if not asleep or not waits or place != self.place:
            self.moved, self.place = now, place
        self.play.longest[self.kind] = max(self.play.longest[self.kind], now - self.moved)
        if now - self.moved > (LOST if self.play.plants else CAPS[self.kind] + SLACK):
            self.play.sleepers.add((self.kind, self.peer.language))
            self.play.fail("sleeps", f"{self.name} ({self.peer.label}): asleep for {now - self.moved:.3f} s at {place}")
            self.moved = now


class Play:
    def __init__(self, run, seed, plants=False):
        self.plants, self.sleepers = plants, set()  # sleepers: who slept too long: (kind, language)
        self.seed, self.random, self.name = seed, random.Random(seed), run.name("asleep")
        creator = run.peer(next(iter(run.commands)))
        creator.call("create", channel=self.name, name=self.name, **OPTIONS)
        self.file = File(run.folder / f"{self.name}.ring")
        self.ends, self.nursery = Ends(self.file), Nursery(run)
        self.over = set()  # kinds of actors that must leave
        self.failures, self.work = collections.defaultdict(list), collections.Counter()
        self.strikes, self.longest = collections.Counter(), collections.Counter()
        self.turns = {kind: dict.fromkeys(run.commands, 0) for kind in CAPS}
        self.actors = [Actor(self, "publisher", name) for name in PUBLISHERS]
        self.actors += [Actor(self, "reader", name) for name in READERS]

    def fail(self, rule, text):
        self.failures[rule].append(text)

    def strike(self, due):
        """Stops or kills a random peer at a random point. Stopped peers continue later; `due` has (when, actor,
        process)."""
        actor = self.random.choice(self.actors)
        peer, thread = actor.peer, actor.thread
        if thread is None or actor.stopped:
            return
        try:
            asleep = thread.state()[0] == "S" and thread.in_futex()
        except OSError:
            return
        what = "killed" if self.random.random() < 0.3 else "stopped"
        if what == "killed":
            actor.struck = peer
            peer.process.send_signal(signal.SIGKILL)
        else:
            actor.stopped = True
            peer.process.send_signal(signal.SIGSTOP)
            due.append((time.monotonic() + self.random.random() * STOPPED, actor, peer.process))
        self.strikes[what, "asleep" if asleep else "awake", peer.language] += 1

    def run(self, seconds, languages):
        """Plays for so many seconds, and then until each language has worked enough, as some may get few turns by
        chance."""
        for actor in self.actors:
            actor.runner.start()
        start, due, next_strike = time.monotonic(), [], 0.0
        while (now := time.monotonic()) < start + seconds or (
            idle(self, languages, seconds) and now < start + PATIENCE
        ):
            for actor in self.actors:
                actor.look(now)
            for entry in [entry for entry in due if entry[0] <= now]:
                self.go_on(*entry[1:])
                due.remove(entry)
            if now >= next_strike:
                self.strike(due)
                next_strike = now + self.random.random() * 0.1
            time.sleep(LOOK)
        for _, actor, process in due:
            self.go_on(actor, process)
        self.leave()

    def run_planted(self, languages):
        """Plays without strikes, and makes wakers forget the sleepers, until a reader of each language was seen that
        sleeps longer than a wake-up takes. Ends after PLANTED seconds at the latest."""
        for actor in self.actors:
            actor.runner.start()
        late, missing = time.monotonic() + PLANTED, {("reader", language) for language in languages}
        while not missing <= self.sleepers and (now := time.monotonic()) < late:
            for _ in range(50):
                self.file.forget_sleepers("data")
            for actor in self.actors:
                actor.look(now)
            time.sleep(0.0005)
        self.leave()
        return sorted(language for _, language in missing - self.sleepers)

    def leave(self):
        """Lets all actors leave. Publishers go first, because they may wait for readers."""
        for kind in CAPS:
            self.over.add(kind)
            for actor in (actor for actor in self.actors if actor.kind == kind):
                actor.runner.join(2 * LONGEST)
                true(f"{actor.name} ends", not actor.runner.is_alive(), "it does not")

    def go_on(self, actor, process):
        process.send_signal(signal.SIGCONT)
        actor.moved, actor.stopped = time.monotonic(), False

    def read_the_rest(self):
        """Lets each reader read the rest of the rings, after which nothing may be missing. Recovers dead publishers'
        rings."""
        heir = self.nursery.take(next(iter(self.turns["publisher"])))
        heir.call("open", channel=self.name, name=self.name)
        for name in PUBLISHERS:
            heir.call("publisher", channel=self.name, publisher=name, name=name)
        heir.kill()
        for actor in (actor for actor in self.actors if actor.kind == "reader"):
            actor.peer = self.nursery.take(next(iter(self.turns["reader"])))
            actor.peer.call("open", channel=self.name, name=self.name)
            answer = actor.peer.call("subscriber", channel=self.name, subscriber=self.name, name=actor.name, kept=True)
            actor.resume(answer["slot"])
            rest = {ring: self.ends.done(ring) - first for ring, first in actor.next.items()}
            try:
                actor.read("the rest", count=rest, seconds=LONGEST / 2)
            except Refused as e:
                self.fail("streams", f"{actor.name}, the rest: {e}")
            actor.peer.kill()

    def end(self):
        self.over = set(CAPS)
        self.nursery.end()
        for actor in self.actors:
            if actor.peer and actor.peer.alive():
                actor.peer.kill()
        self.file.bytes.close()


def idle(play, languages, seconds):
    """Returns the kinds that have not worked enough: {(kind, language): messages}."""
    work = {(kind, language): play.work[kind, language] for kind in CAPS for language in languages}
    return {key: count for key, count in work.items() if count < LEAST * seconds}


def judge(play, languages, seconds):
    for (kind, language), count in idle(play, languages, seconds).items():
        play.fail("work", f"{count} messages of {kind}s in {language}, at least {LEAST * seconds:.0f}")
    for what in ("killed", "stopped") if seconds >= 10 else ():
        if not any(play.strikes[what, "asleep", language] for language in languages):
            play.fail("work", f"nobody was {what} asleep")
    print(f"{'':20}" + "".join(f"{language:>10}" for language in languages))
    for kind in CAPS:
        print(f"{kind + ' messages':20}" + "".join(f"{play.work[kind, each]:10}" for each in languages))
    for what in ("killed", "stopped"):
        for how in ("asleep", "awake"):
            print(f"{what + ' ' + how:20}" + "".join(f"{play.strikes[what, how, each]:10}" for each in languages))
    longest = ", ".join(f"{kind} {play.longest[kind] * 1000:.0f} ms" for kind in CAPS)
    print(f"longest sleep with something to do: {longest}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--languages", type=lambda text: text.split(","))
    parser.add_argument("--logs", type=pathlib.Path, default=ROOT / "build" / "log" / "asleep")
    options = parser.parse_args()
    known = commands()
    languages = options.languages or list(known)
    options.logs.mkdir(parents=True, exist_ok=True)
    for old in options.logs.glob("*-*.*"):
        old.unlink()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    print(f"seed {options.seed}", flush=True)
    run = Run({language: known[language] for language in languages}, options.logs)
    try:
        play = Play(run, options.seed)
        try:
            play.run(options.seconds, languages)
            play.read_the_rest()
        finally:
            play.end()
        judge(play, languages, options.seconds)
        planted = Play(run, options.seed, plants=True)
        begun = time.monotonic()
        try:
            unseen = planted.run_planted(languages)
        finally:
            planted.end()
        print(f"lost wake-ups were planted for {time.monotonic() - begun:.1f} s")
        if unseen:
            play.fail("planted", f"no reader in {', '.join(unseen)} was seen asleep, although wake-ups were lost")
    finally:
        run.end()
    for rule in RULES:
        for text in play.failures[rule][:5]:
            print(f"FAIL  {rule}: {text}")
    failed = sum(bool(play.failures[rule]) for rule in RULES)
    print(f"{len(RULES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
