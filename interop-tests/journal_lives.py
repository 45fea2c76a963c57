# SPDX-License-Identifier: Apache-2.0
"""The lives of journals on a disk that loses its power, for page_loss_journal.py: files whose pages have a history,
what a journal goes through, what must hold of what is found, and mistakes that must show."""

import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "spec" / "golden"))

import journal_files  # noqa: E402
import journals  # noqa: E402
from page_loss import PAGE, SECTOR, Killed, PowerLost, inject  # noqa: E402

Z = 65536
LARGEST = Z // 4 - 16
POLICIES = {"never": 0, "every": 10_000_000, "each": -1}
CONSUMERS = ("orders", "audit")


class File:
    """A file's pages, each with its states since the file was last synced."""

    def __init__(self, data):
        self.data = data
        self.sync()

    def page(self, number):
        return bytes(self.data[number * PAGE : (number + 1) * PAGE])

    def sync(self):
        self.pages = [[self.page(number)] for number in range(len(self.data) // PAGE)]

    def stored(self, at, length):
        for number in range(at // PAGE, (at + max(1, length) - 1) // PAGE + 1):
            now = self.page(number)
            if now not in self.pages[number]:
                self.pages[number].append(now)


class Disk(journals.Journal):
    """A journal whose pages and names have a history since they were last synced."""

    def begin(self, dice):
        self.dice, self.left, self.ends = dice, None, None
        self.disk = {name: File(data) for name, data in self.files.items()}  # as this process sees them
        self.names = {name: [file] for name, file in self.disk.items()}  # None: not there
        self.on_store, self.on_sync = self.named, self.synced

    @classmethod
    def of_files(cls, files, inject):
        t = cls.__new__(cls)
        t.files = {name: bytearray(data) for name, data in files.items()}
        t.inject, t.on_store, t.on_sync, t.Z, t.S = inject, None, None, Z, len(CONSUMERS)
        return t

    def counted(self):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise self.ends

    def store_bytes(self, name, at, data):
        super().store_bytes(name, at, data)
        if self.on_store or self.on_sync:
            self.disk[name].stored(at, len(data))
            self.counted()

    def named(self, name, _at):
        """A name may have come or gone."""
        data, known = self.files.get(name), self.disk.get(name)
        if data is None and known:
            del self.disk[name]
        elif data is not None and (known is None or known.data is not data):
            self.disk[name] = File(data)  # its bytes were synced before it got the name
        else:
            return
        self.names.setdefault(name, [None]).append(self.disk.get(name))
        self.counted()

    def synced(self, names):
        self.counted()
        for name in names:
            if name == "":
                self.names = {each: [file] for each, file in self.disk.items()}
            elif name in self.disk:
                self.disk[name].sync()

    def lose(self):
        """Returns the files as they are when the power is back."""
        dice, found = self.dice, {}
        oldest = dice.random()  # of some losses most pages are old, of some most are new
        for name, files in self.names.items():
            file = dice.choice(files)
            if file is not None:
                found[name] = file
        many = [(name, at) for name, file in found.items() for at, states in enumerate(file.pages) if len(states) > 1]
        chosen = {name: [states[-1] for states in file.pages] for name, file in found.items()}
        for name, at in many:
            if dice.random() < oldest:
                states = found[name].pages[at]
                chosen[name][at] = states[0] if dice.random() < 0.5 else dice.choice(states)
        if many and dice.random() < 0.8:
            name, at = dice.choice(many)
            sources = dice.choices(found[name].pages[at], k=PAGE // SECTOR)
            chosen[name][at] = b"".join(s[i * SECTOR : (i + 1) * SECTOR] for i, s in enumerate(sources))
        return {name: b"".join(pages) for name, pages in chosen.items()}


class Life:
    """One journal, from its creation to the last loss of power."""

    def __init__(self, seed, kind=None, policy=None):
        self.kind, self.dice = kind or Disk, random.Random(seed)
        self.policy = policy or self.dice.choice(tuple(POLICIES))
        self.t = self.kind({"segment_size": Z, "consumers": 2, "sync_every": POLICIES[self.policy]}, inject(0))
        self.t.begin(self.dice)
        self.boots, self.held = 0, False
        self.messages = []  # what was appended, by number: (position, type, time, data)
        self.by_position = {}  # of all boots: position: the same
        self.acknowledged = 0  # so many messages are durable
        self.consumed, self.confirmed = {}, {}  # consumer: the number it goes on at, and that of its last sync
        self.firsts = {0}  # the numbers of the first message that a trim left
        self.reused = []

    # --- what the life does

    def note(self):
        """Notes what was published and what is durable; also after a kill, or a loss of power."""
        t = self.t
        for m in t.messages(*self.place()):
            if m["number"] == len(self.messages):
                one = (m["position"], m["type"], m["time"], t.bytes_at(m["position"] + 16, m["length"]))
                self.messages.append(one)
                if self.by_position.setdefault(m["position"], one) != one:
                    self.reused.append(m["position"])
        self.firsts.add(self.first())
        landmark = t.landmark(t.word("synced"))
        if landmark:
            self.acknowledged = max(self.acknowledged, landmark[0])

    def place(self):
        """Where the messages begin that are not noted yet, about."""
        base = self.t.base(self.messages[-1][0]) if self.messages else 0
        landmark = self.t.landmark(max(base, self.t.word("trimmed")))
        return (max(base, self.t.word("trimmed")), landmark[0]) if landmark else (None, None)

    def value(self):
        dice = self.dice
        length = dice.choice((0, 8, 40, 200, 3000, LARGEST, LARGEST))
        return bytes([dice.randrange(256)]) * length

    def append(self):
        t, dice = self.t, self.dice
        what = dice.random()
        if what < 0.1:
            t.claim(dice.choice((10, 5000)), 1)
            t.abort()
        elif what < 0.2 and t.t % Z and t.t + 192 <= t.word("claimed"):
            t.batch([bytes([dice.randrange(256)]) * 20 for _ in range(3)], 7)
        else:
            t.append(self.value(), dice.randrange(1, 9))
        if self.policy == "each":
            self.note()
            self.acknowledged = len(self.messages)

    def helper(self):
        """What a helper does at any time, and what an interval does."""
        t = self.t
        if self.policy == "every" and t.t % Z and t.since != t.t:
            t.check()
        t.make_durable()
        if self.dice.random() < 0.5 and t.word("ready") <= t.word("published"):
            t.prepare(t.base(t.word("published")) + Z)

    def consumer(self):
        t, dice = self.t, self.dice
        name = dice.choice(CONSUMERS)
        what = dice.random()
        if name not in self.consumed:
            _, _, number, _ = t.join(name)
            self.consumed[name] = self.confirmed[name] = number
            return
        slot, _ = t.find_consumer(name)
        at = journals.CONSUMERS_AT + journals.CONSUMER_SIZE * slot
        if what < 0.2:
            t.sync("control")
            self.confirmed = dict(self.consumed)
            return
        number = t.proof(at)[0]
        try:
            number += len(t.consume(slot, dice.choice((1, 3, 20))))
        finally:
            self.consumed[name] = max(number, (t.proof(at) or (number,))[0])

    def trim(self):
        t = self.t
        limit = None if self.dice.random() < 0.5 else self.dice.randrange(t.word("published") + 1)
        before = dict(self.consumed)
        if t.trim(limit):
            self.confirmed = before

    def step(self):
        what = self.dice.random()
        if what < 0.68:
            self.append()
        elif what < 0.74:
            self.t.sync_records()
            self.note()
            self.acknowledged = len(self.messages)
        elif what < 0.82:
            self.helper()
        elif what < 0.95:
            self.consumer()
        elif what < 0.98:
            self.trim()
        else:
            self.t.close_writer(self.dice.random() < 0.5)
            self.held = False

    def hold(self):
        if not self.held:
            self.t.take("feed")
            self.held = True

    def live(self):
        """Lives until the power is lost. Returns the files."""
        t, dice = self.t, self.dice
        lost = dice.randrange(20, 400)
        try:
            while True:
                t.ends, t.left = PowerLost(), lost
                killed = dice.random() < 0.1
                if killed:
                    t.ends, t.left = Killed(), dice.randrange(20)
                    lost -= 20
                try:
                    self.hold()
                    self.step()
                except Killed:
                    self.held = False
                self.note()
                if not killed:
                    lost = t.left
                if lost <= 0:
                    raise PowerLost
        except PowerLost:
            t.left = None
            self.note()
            return t.lose()

    def go_on(self, files):
        """Goes on in another boot with what the disk had, recovered by the simulation. Returns the files if the power
        is lost within the recovery, too."""
        self.boots += 1
        self.t = self.kind.of_files(files, inject(self.boots))
        k = len(journal_files.proven(self.t)) + self.first()
        self.t.begin(self.dice)
        self.acknowledged = max(self.acknowledged, k)  # a reader may have read it
        if self.dice.random() < 0.5:
            self.t.ends, self.t.left = PowerLost(), self.dice.randrange(60)
        try:
            recovery = self.t.take("next")[1]
        except PowerLost:
            self.t.left = None
            return self.t.lose()
        self.t.left = None
        self.held = True
        k = recovery["messages"]
        del self.messages[k:]
        for name in self.consumed:
            self.consumed[name] = self.confirmed[name] = self.found_consumers(self.t)[name]
        return None

    def first(self):
        """The number of the first message that is left."""
        landmark = self.t.landmark(self.t.word("trimmed"))
        return landmark[0] if landmark else 0

    @staticmethod
    def found_consumers(t):
        found = {}
        for name in CONSUMERS:
            slot, known = t.find_consumer(name)
            if known:
                proof = t.proof(journals.CONSUMERS_AT + journals.CONSUMER_SIZE * slot)
                found[name] = proof[0] if proof else -1
        return found

    # --- what is checked

    def check(self, found, recovery, consumers):
        """Yields what is wrong: with the messages that a process finds, (number, position, type, time, data), with the
        report of its recovery, and with the numbers at which consumers go on."""
        if not {found[0][0] if found else 0} <= self.firsts:
            yield f"message {found[0][0]} is the first, which no trim has left"
        if self.reused:
            yield f"position {self.reused[0]} was handed out, and got another record"
        first = found[0][0] if found else recovery["messages"]
        for i, (number, *one) in enumerate(found):
            if number != first + i:
                yield f"number {number} comes where {first + i} should"
                return
            if number >= len(self.messages):
                yield f"message {number} was never appended"
            elif self.messages[number] != tuple(one):
                yield f"message {number} is not the one that was appended: {one[:3]}, {self.messages[number][:3]}"
            if self.by_position.get(one[0]) != tuple(one):
                yield f"position {one[0]} had another record"
        end = first + len(found)
        if end < self.acknowledged:
            yield f"{self.acknowledged} messages were durable, {end} are there"
        if recovery["messages"] != end:
            yield f"the recovery reports {recovery['messages']} messages, {end} are there"
        if found and recovery["position"] < found[-1][1]:
            yield f"the recovery reports its cut at {recovery['position']}, in front of a message that is there"
        if recovery["reached"] < recovery["position"]:
            yield f"reached {recovery['reached']} lies in front of the cut"
        for name, before in self.consumed.items():
            number = consumers.get(name)
            if number is None:
                yield f"consumer {name} is gone"
            elif number < min(self.confirmed[name], end) or number > min(before, end):
                yield (
                    f"consumer {name} goes on at {number} of {end}; "
                    f"{before} were consumed, {self.confirmed[name]} durably"
                )
            elif first > number:
                yield f"consumer {name} goes on at {number}, but messages below {first} are trimmed"


class PushingLife(Life):
    """The same without a writer that stays: each message is pushed. The wall clock goes on, and is set now and then."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.t.set("trim_consumed", 1)
        self.unset = 0  # from this time on the clock was not set

    def hold(self):
        pass

    def step(self):
        what = self.dice.random()
        if what < 0.8:
            self.push()
        elif what < 0.85:  # a writer without a helper
            self.t.take("feed")
            self.append()
            self.t.close_writer(self.dice.random() < 0.3)
        elif what < 0.98:
            self.consumer()
        else:
            self.trim()

    def push(self):
        t, dice, every = self.t, self.dice, POLICIES[self.policy]
        now = t.inject["now"] + dice.choice((0, 1_000_000, 3_000_000, 20_000_000))
        if dice.random() < 0.02:
            now = self.unset = max(1, now + dice.choice((-1, 1)) * dice.randrange(10**9))
        t.inject = t.inject | {"now": now}
        trimmed = t.word("trimmed")
        at = t.push(self.value(), dice.randrange(1, 9))
        self.note()
        if t.word("trimmed") != trimmed:
            self.confirmed = dict(self.consumed)
        if self.policy == "each":
            durable = len(self.messages)
        elif self.policy == "every" and now - self.unset >= every:
            durable = 1 + max((i for i, (_, _, time, _) in enumerate(self.messages) if time < now - every), default=-1)
        else:
            durable = sum(1 for position, *_ in self.messages if position < t.base(at))
        self.acknowledged = max(self.acknowledged, durable)


# --- mistakes


class NothingDue(Disk):
    """A push does not sync."""

    def sync_is_due(self):
        return False


class TimeInFuture(Disk):
    """A push takes a time in the future for one that is just gone."""

    def sync_is_due(self):
        return super().sync_is_due() and not (
            self.word("synced_at") > self.inject["now"]
            and self.base(self.word("checked")) == self.base(self.word("synced"))
        )


class Partial(Disk):
    """Leaves something out while it does one thing."""

    within = ""  # the method in which it does

    def during(self, method, *arguments):
        before, self.within = self.within, method
        try:
            return getattr(super(), method)(*arguments)
        finally:
            self.within = before

    def recover(self):
        return self.during("recover")

    def trim(self, limit):
        return self.during("trim", limit)

    def join(self, *arguments):
        return self.during("join", *arguments)

    def prepare(self, *arguments):
        return self.during("prepare", *arguments)


class Unproven(Disk):
    """A recovery believes a check without the CRC of its span."""

    def span(self, at):
        what, end = super().span(at)
        found = self.landmark(end) if what == "wrong" else None
        return ("cut" if found[2] else "right", end) if found else (what, end)


class BeginsAtChecked(Partial):
    """A recovery begins at the last check, durable or not."""

    def word(self, name):
        return super().word("checked" if (name, self.within) == ("synced", "recover") else name)


class NextSegment(Disk):
    """A recovery goes on in the next segment, though later ones are there."""

    def goes_on(self, c):
        return self.base(c) + self.Z


class CutNotDurable(Partial):
    """A recovery does not sync the segments that it has walked."""

    def sync(self, *names):
        super().sync(*(n for n in names if self.within != "recover" or not n.endswith(".seg")))


class StraysStay(Disk):
    """A recovery leaves the segments behind its cut."""

    def strays(self, begin, c, h, passed):
        return []


class GatesStay(Partial):
    """A recovery leaves the gates as they are."""

    def store_gate(self, *arguments):
        if self.within != "recover":
            super().store_gate(*arguments)


class LastSegment(Disk):
    """A sync reaches the last segment only."""

    def make_durable(self):
        segments, self.segments = self.segments, lambda: [self.base(self.word("checked"))]
        try:
            super().make_durable()
        finally:
            self.segments = segments


class SyncedFirst(Disk):
    """A sync stores `synced` before the disk has it."""

    def make_durable(self):
        before, x = self.word("synced"), self.word("checked")
        if x > before:
            self.set("synced", x)
            for base in self.segments():
                if self.base(before) <= base <= x:
                    self.sync(self.name(base))


class NameNotDurable(Partial):
    """A segment is used before its name is durable."""

    def sync(self, *names):
        super().sync(*(n for n in names if self.within != "prepare" or n))


class TrimNotDurable(Partial):
    """A trim unlinks before `trimmed` and the gates are durable."""

    def sync(self, *names):
        super().sync(*(n for n in names if self.within != "trim"))


class JoinNotDurable(Partial):
    """A name is registered, and not synced."""

    def sync(self, *names):
        super().sync(*(n for n in names if self.within != "join"))
