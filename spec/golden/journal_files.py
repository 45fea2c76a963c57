# SPDX-License-Identifier: Apache-2.0
"""The golden files of journals: journal/1.0/NAME with NAME.json, and journal/dead/OPERATION.json. README.md,
"Journals", says what they hold."""

import uuid

from golden import BOOT_ID, CREATED_AT, MONOTONIC, NOW, PID, dump, lines, pattern, to_bytes
from journals import CONSUMER_SIZE, CONSUMERS_AT, CONTROL, PAGE, SLOT, UNIT, WRITER_AT, Journal, TooLarge

OTHER_BOOT = "ffeeddcc-bbaa-4988-b766-554433221100"
THIRD_BOOT = "01234567-89ab-4cde-8f01-23456789abcd"
LARGEST = 65536 // 4 - 16


class Golden:
    """Does operations in the simulation, and records each with its result."""

    def __init__(self, golden, **options):
        self.golden, self.options, self.operations, self.slots = golden, options, [], {}
        self.inject = {
            "channel_id": str(uuid.uuid5(uuid.NAMESPACE_URL, "flyring-golden:" + golden)),
            "created_at": CREATED_AT,
            "boot_id": BOOT_ID,
            "pid": PID,
            "now": NOW,
            "monotonic": MONOTONIC,
        }
        self.journal = Journal(options, self.inject)

    def did(self, op, fields, **result):
        self.operations.append({"op": op} | fields | result)
        if op not in ("claim", "foreign_store", "reboot"):
            self.journal.check_all()
        return next(iter(result.values()), None)

    def writer(self, name=""):
        epoch, recovery = self.journal.take(name)
        self.did("writer", {"name": name}, epoch=epoch, recovery=recovery)

    def close_writer(self):
        self.journal.close_writer()
        self.did("close_writer", {})

    def append(self, data, kind=1, time=None):
        fields = {"type": kind, "data": data} | ({} if time is None else {"time": time})
        try:
            return self.did("append", fields, position=self.journal.append(to_bytes(data), kind, time))
        except TooLarge as refused:
            return self.did("append", fields, error=refused.code)

    def append_many(self, messages, kind=1):
        count = self.journal.batch([to_bytes(m) for m in messages], kind)
        return self.did("append_many", {"type": kind, "data": messages}, count=count)

    def claim(self, length, kind=1):
        self.journal.claim(length, kind)
        self.did("claim", {"length": length, "type": kind})

    def commit(self, data):
        return self.did("commit", {"data": data}, position=self.journal.commit(to_bytes(data)))

    def abort(self):
        self.journal.abort()
        self.did("abort", {})

    def push(self, data, kind=1):
        return self.did("push", {"type": kind, "data": data}, position=self.journal.push(to_bytes(data), kind))

    def sync(self):
        self.journal.sync_records()
        self.did("sync", {})

    def consumer(self, handle, start="oldest"):
        """The handle is the consumer's name."""
        slot, position, number, lost = self.journal.join(handle, start)
        self.slots[handle] = slot
        self.did("consumer", {"name": handle, "start": start}, slot=slot, position=position, number=number, lost=lost)

    def poll(self, handle, limit):
        """All of `limit` are there, so no check behind the last message is passed."""
        found = self.journal.consume(self.slots[handle], limit)
        assert len(found) == limit
        return self.did("poll", {"consumer": handle, "limit": limit}, numbers=[m["number"] for m in found])

    def close_consumer(self, handle):
        self.did("close_consumer", {"consumer": handle})

    def forget(self, handle):
        self.journal.forget(self.slots.pop(handle))
        self.did("forget", {"consumer": handle})

    def trim(self, limit=None):
        """None: what all consumers have consumed."""
        return self.did("trim", {"position": limit}, segments=self.journal.trim(limit))

    def reboot(self, boot_id):
        """Opens the journal again, in another boot, without a close of the writer: its process was killed."""
        self.journal.inject = self.journal.inject | {"boot_id": boot_id}
        self.did("reboot", {"boot_id": boot_id})

    def foreign(self, file, at, data):
        self.journal.files[file][at : at + len(data)] = data
        self.did("foreign_store", {"file": file, "offset": at, "data": data.hex()})

    def damage(self, position):
        name, at = self.journal.place(position)
        self.foreign(name, at, bytes([self.journal.files[name][at] ^ 0xFF]))

    def fill(self, until, length=LARGEST):
        """Appends large messages up to a segment's place."""
        t = self.journal
        while t.t % t.Z < until:
            self.append(pattern(t.count, length))

    def files(self):
        content = {
            "inject": self.inject,
            "create": self.options,
            "operations": self.operations,
            "expected": self.journal.expected(),
        }
        made = {f"{self.golden}/{name}": bytes(b) for name, b in self.journal.files.items()}
        return made | {self.golden + ".json": dump(content).encode()}


def empty():
    return Golden("empty")


def empty_recording():
    """A schema of more than a page, no consumers, all options."""
    return Golden(
        "empty-recording",
        segment_size=131072,
        consumers=0,
        content=1,
        schema="<messageSchema/>" + " " * 5000,
        schema_id=91,
        schema_version=2,
        sync_every=-1,
        max_age=3_600_000_000_000,
        max_size=1 << 30,
        trim_consumed=1,
    )


def messages():
    """Lengths, types and times; claims; batches; writers one after another, with and without a name."""
    g = Golden("messages")
    g.writer("feed")
    for length in (0, 1, 47, 48, 49, 112, 113, 1000, LARGEST):
        g.append(pattern(length & 255, length), length + 1)
    g.append(pattern(1, LARGEST + 1))
    g.append("aa", 2**31 - 1, time=NOW + 5)
    g.append("bb", 3, time=17)
    g.claim(100, 4)
    g.commit(pattern(4, 100))
    g.claim(200, 5)
    g.abort()
    g.append_many([pattern(i, 40 * i) for i in range(7)], 6)
    g.close_writer()
    g.writer("feed")
    g.append("cc")
    g.close_writer()
    g.writer()
    g.append("dd")
    g.close_writer()
    g.push("ee", 8)
    g.push("", 9)
    return g


def segments():
    """Three segments: padding before the end, a record that ends 64 bytes before it, padding of 64 bytes."""
    g = Golden("segments")
    g.writer("feed")
    g.fill(49152)
    g.append(pattern(7, 3000))
    g.append(pattern(8, LARGEST))  # padding
    g.fill(65536 - 16384 - 64)
    g.append(pattern(9, 65536 - UNIT - g.journal.t % 65536 - 16))  # to 64 bytes before the end
    g.append("01")  # padding of 64 bytes
    g.append("02")
    return g


def checks():
    """Checks within a segment of 128 KiB, after each 64 KiB, also of aborted claims."""
    g = Golden("checks", segment_size=131072, consumers=1)
    g.writer("feed")
    g.append("01")
    g.claim(4000)
    g.abort()
    g.fill(80000, 10000)
    g.sync()
    g.sync()
    g.append("02")
    for _ in range(6):  # behind 64 KiB of padding
        g.claim(32000)
        g.abort()
    return g


def sync_each():
    g = Golden("sync-each", sync_every=-1)
    g.writer("feed")
    g.append("01")
    g.append_many([pattern(i, 9) for i in range(3)])
    g.claim(100)
    g.abort()
    g.close_writer()
    g.push("02")
    return g


def pushes():
    """Of pushes the first one syncs, and those that enter a segment, which also trim what is consumed."""
    g = Golden("pushes", sync_every=3600 * 10**9, trim_consumed=1, consumers=1)
    g.consumer("orders")
    g.push("01")
    g.push("02")
    for i in range(9):
        g.push(pattern(i, 16000))
        g.poll("orders", 1)
    return g


def consumers():
    """A consumer closes, goes on, is forgotten; another name gets its slot; one begins at the newest message."""
    g = Golden("consumers", consumers=3)
    g.writer("feed")
    g.consumer("early")
    for i in range(12):
        g.append(pattern(i, 10 * i))
    g.consumer("orders")
    g.poll("orders", 5)
    g.poll("orders", 2)
    g.poll("early", 1)
    g.consumer("late", "newest")
    g.append("aa")
    g.poll("late", 1)
    g.close_consumer("orders")
    g.consumer("orders")
    g.poll("orders", 3)
    g.forget("early")
    g.consumer("another")
    g.poll("another", 4)
    return g


def trimmed():
    """Consumers hold segments back until they have consumed them; a limit; what no process needs."""
    g = Golden("trimmed", consumers=2)
    g.writer("feed")
    g.fill(49152)
    g.consumer("orders")
    for _ in range(10):
        g.append(pattern(g.journal.count, LARGEST))
    g.sync()
    g.trim()
    for _ in range(4):  # a poll of more than 64 KiB stores the gate more than once
        g.poll("orders", 1)
    g.trim()
    for _ in range(4):
        g.poll("orders", 1)
    g.trim(65536)
    g.forget("orders")
    g.trim()
    g.trim(3 * 65536)
    return g


def sleepers():
    """Bits of readers and of a helper that fell asleep and died, and which step clears them."""
    g = Golden("sleepers")

    def asleep(*pairs):
        for pair in pairs:
            g.foreign("control", PAGE + CONTROL[pair + "_asleep"][0], b"\1\0\0\0")

    asleep("data", "work")
    g.writer("feed")
    asleep("data", "work")
    g.append("01")
    asleep("data")
    g.append_many(["02", "03"])
    g.append("04")
    asleep("data")
    g.claim(100)
    g.abort()
    g.sync()
    g.append("05")
    g.fill(49153)  # enters the next segment
    g.sync()
    g.close_writer()
    asleep("data")
    g.push("06")
    return g


def reopened():
    """In another boot, with everything durable: a recovery cuts nothing off, and goes on in a new segment."""
    g = Golden("reopened", consumers=2)
    g.writer("feed")
    g.consumer("orders")
    for i in range(5):
        g.append(pattern(i, 100))
    g.poll("orders", 2)
    g.close_writer()
    g.reboot(OTHER_BOOT)
    g.writer("mender")
    g.append("aa")
    g.consumer("orders")
    g.poll("orders", 4)
    return g


def recovered(golden="recovered"):
    """A power loss took a page of the third span: what is proven stays, the rest is cut. One consumer was behind the
    cut, one before it."""
    g = Golden(golden, consumers=3)
    g.writer("feed")
    g.consumer("before")
    g.consumer("behind")
    for i in range(4):
        g.append(pattern(i, 100))
    g.sync()
    for i in range(4):
        g.append(pattern(10 + i, 2000), time=NOW + 1000 * i)
    g.sync()
    for i in range(4):
        at = g.append(pattern(20 + i, 300))
    g.poll("before", 3)
    g.poll("behind", 11)
    g.foreign("control", PAGE + CONTROL["synced"][0], (0).to_bytes(8, "little"))
    g.damage(at - 200)
    for name in ("claimed", "published", "messages", "checked", "ready"):  # of another age
        g.foreign("control", PAGE + CONTROL[name][0], (3 * UNIT).to_bytes(8, "little"))
    g.foreign("control", PAGE + CONSUMERS_AT + 144, bytes(24))  # a pair of the consumer before the cut
    g.reboot(OTHER_BOOT)
    g.writer("mender")
    g.append("aa")
    g.consumer("behind")
    g.consumer("before")
    g.poll("before", 6)
    return g


def recovered_again():
    """Two cuts, one behind the other; then a trim to the segment that a gap precedes."""
    g = recovered("recovered-again")
    g.append("bb")
    at = g.journal.t - 64
    g.damage(at)
    g.reboot(THIRD_BOOT)
    g.writer("mender")
    g.append("cc")
    g.consumer("before")
    g.sync()
    g.trim(100032)
    return g


GOLDENS = (
    empty,
    empty_recording,
    messages,
    segments,
    checks,
    sync_each,
    pushes,
    consumers,
    trimmed,
    sleepers,
    reopened,
    recovered,
    recovered_again,
)


# The dead. Each operation prepares a journal, and returns what the process does that is killed.

BASE = {
    "channel_id": "33000000-0000-0000-0000-000000000000",
    "boot_id": "22000000-0000-0000-0000-000000000000",
    "created_at": 1_000_000_000,
    "now": 2_000_000_000,
    "monotonic": 3_000_000_000,
    "pid": 1001,
}
DEAD, HEIR = BASE | {"pid": 1002}, BASE | {"pid": 1003, "now": 3_000_000_000}


def value(seed, length=20):
    return bytes((seed + 7 * i) & 255 for i in range(length))


def prepared(options):
    """Six messages, the first three synced; two consumers."""
    t = Journal({"consumers": 2} | options, BASE)
    t.take("feed")
    t.join("orders")
    t.join("audit")
    for i in range(3):
        t.append(value(i))
    t.sync_records()
    for i in range(3, 6):
        t.append(value(i, 100))
    t.consume(0, 2)
    t.consume(1, 4)
    t.inject = DEAD
    return t


def fill(t, until):
    """Appends messages of zeros up to a place of the segment."""
    while t.t % t.Z < until:
        t.append(bytes(min(t.Z // 4 - 16, until - t.t % t.Z)))


def near_end(t, left):
    fill(t, t.Z - left - 64)


def held(operation):
    """The operation of a writer that has the slot already."""

    def prepare(t):
        t.take("feed")
        return operation(t)

    return prepare


def append(length=20):
    return held(lambda t: lambda: t.append(value(9, length), 2))


def batch(t):
    return lambda: t.batch([value(9), value(10, 100), value(11, 0)], 2)


def claim(t):
    return lambda: (t.claim(200, 2), t.commit(value(12, 200)))


def aborted(t):
    return lambda: (t.claim(200, 2), t.abort())


def rolls(t):
    """There is no place for the message: padding, the next segment, its check."""
    near_end(t, 128)
    return lambda: t.append(value(9, 300), 2)


def rolls_ready(t):
    """A helper has made the next segment."""
    near_end(t, 128)
    t.prepare(t.Z)
    return lambda: t.append(value(9, 300), 2)


def rolls_found(t):
    """The helper that has made the next segment was killed before `ready`."""
    near_end(t, 128)
    t.prepare(t.Z)
    t.set("ready", t.Z)
    return lambda: t.append(value(9, 300), 2)


def checked(t):
    """The append behind which a check is due."""
    fill(t, 65536)
    return lambda: t.append(value(9, 300), 2)


def sync(t):
    return lambda: t.sync_records()


def woken(t):
    t.store(PAGE + CONTROL["data_asleep"][0], "I", 1)
    return lambda: t.append(value(9), 2)


def killed(t, what, changes):
    """Kills a process in `what` after some stores that change something; the rest is not done."""

    class Killed(Exception):
        pass

    before, count = state(t), 0

    def stored(_name, _at):
        nonlocal before, count
        if state(t) != before:
            before, count = state(t), count + 1
            if count == changes:
                raise Killed

    t.on_store = stored
    try:
        what()
    except Killed:
        pass
    finally:
        t.on_store = None


def heir(operation, changes):
    """The next owner of the slot is killed while it resumes what the dead one has left."""

    def prepare(t):
        killed(t, operation(t), changes)
        return lambda: t.take("heir")

    return prepare


def joins(t):
    t.forget(1)
    return lambda: t.join("new")


def joins_again(t):
    return lambda: t.join("orders")


def consumes(t):
    t.join("orders")
    return lambda: t.consume(0, 3)


def forgets(t):
    return lambda: t.forget(0)


def consumed(t):
    """Three segments, all but the newest message consumed."""
    t.take("feed")
    for _ in range(2):
        near_end(t, 128)
        t.append(bytes(300))
    t.sync_records()
    for name in ("orders", "audit"):
        slot, _, number, _ = t.join(name)
        for _ in range(t.count - number - 1):
            t.consume(slot, 1)
    t.close_writer()


def trims(t):
    consumed(t)
    return lambda: t.trim(None)


def push_rolls(t):
    """A push that enters a segment: it syncs, and trims what is consumed."""
    consumed(t)
    t.take("feed")
    near_end(t, 128)
    t.close_writer(False)
    return lambda: t.push(value(9, 300), 2)


def power_loss(t):
    """Two segments; the check of the second one, and all before it, may be proven; a gate is behind that. Padding fills
    the first one, because a stepped process walks over it faster."""
    t.take("feed")
    while (left := t.Z - 128 - UNIT - t.t % t.Z) > 0:
        t.claim(min(t.Z // 4 - 16, left), 1)
        t.abort()
    for i in range(3):
        t.append(value(i, 300))
    t.join("orders")
    t.join("audit")
    for slot in (0, 1):
        t.consume(slot, 3 - slot)
    for _ in range(t.count - t.proof(CONSUMERS_AT)[0]):
        t.consume(0, 1)
    t.files["control"][PAGE : PAGE + 16] = uuid.UUID(OTHER_BOOT).bytes


def recovery(t):
    power_loss(t)
    return lambda: t.take("mender")


def recovery_again(t):
    """The next recovery after one that was killed behind its cut."""
    power_loss(t)
    killed(t, lambda: t.take("mender"), 11)
    return lambda: t.take("mender")


def recovery_whole(t):
    """All was durable: there is nothing to cut off."""
    t.take("feed")
    t.close_writer()
    t.files["control"][PAGE : PAGE + 16] = uuid.UUID(OTHER_BOOT).bytes
    return lambda: t.take("mender")


DYING = (  # operation, what it does, options
    ("append", append(), {}),
    ("append-long", append(300), {}),
    ("append-empty", append(0), {}),
    ("append-check", held(checked), {"segment_size": 131072}),
    ("append-roll", held(rolls), {}),
    ("append-roll-ready", held(rolls_ready), {}),
    ("append-roll-found", held(rolls_found), {}),
    ("append-sync", append(), {"sync_every": -1}),
    ("append-wake", held(woken), {}),
    ("batch", held(batch), {}),
    ("claim", held(claim), {}),
    ("abort", held(aborted), {}),
    ("sync", held(sync), {}),
    ("push", lambda t: lambda: t.push(value(9), 2), {}),
    ("push-roll", push_rolls, {"trim_consumed": 1}),
    ("close", held(lambda t: t.close_writer), {}),
    ("take", lambda t: lambda: t.take("another"), {}),
    ("resume", heir(append(), 2), {}),
    ("resume-long", heir(append(300), 2), {}),
    ("resume-committed", heir(append(), 3), {}),
    ("resume-batch", heir(held(batch), 4), {}),
    ("resume-roll", heir(held(rolls), 6), {}),
    ("join", joins, {}),
    ("join-again", joins_again, {}),
    ("consume", consumes, {}),
    ("forget", forgets, {}),
    ("trim", trims, {}),
    ("recovery", recovery, {}),
    ("recovery-again", recovery_again, {}),
    ("recovery-whole", recovery_whole, {}),
)


def word_of(t, name, at):
    """Describes the word at an offset, for people."""
    if name is None:
        return "nothing yet"
    if name not in t.files:
        return f"{name}: unlinked"
    if name != "control":
        if at == 0:
            return f"{name}: its name"
        offset, what = (at - PAGE) % UNIT, {0: "length", 4: "type", 8: "time"}
        return f"{name}: {what.get(offset, 'bytes')} at {at - PAGE - offset}"
    if at == PAGE:
        return "control: boot_id"
    for word, (offset, _) in CONTROL.items():
        if at == PAGE + offset:
            return f"control: {word}"
    slot, offset = ("writer", at - PAGE - WRITER_AT)
    if at >= PAGE + CONSUMERS_AT:
        number, offset = divmod(at - PAGE - CONSUMERS_AT, CONSUMER_SIZE)
        slot = f"consumer {number}"
        if offset >= 144:
            return f"{slot}: pair {(offset - 144) // 32}"
    return f"{slot}: " + next((word for word, (o, _) in SLOT.items() if o == offset), "name")


def state(t):
    return {name: bytes(b) for name, b in t.files.items()}


def runs(before, after):
    """Returns the runs [offset, hex] in which `after` differs; runs that are near each other are one."""
    found = []
    for i in range(0, len(after), 4096):
        if before[i : i + 4096] == after[i : i + 4096]:
            continue
        for at in range(i, min(i + 4096, len(after))):
            if before[at] == after[at]:
                continue
            if found and at - found[-1][1] < 12:
                found[-1][1] = at + 1
            else:
                found.append([at, at + 1])
    return [[start, after[start:end].hex()] for start, end in found]


def changes(before, after):
    """Returns what differs, by file: null: it is gone; else its length and the runs that differ from before, or from
    zeros."""
    found = {}
    for name in sorted({*before, *after}):
        new, old = after.get(name), before.get(name)
        if new is None:
            found[name] = None
        elif new != old:
            found[name] = {"length": len(new), "runs": runs(old or bytes(len(new)), new)}
    return found


def proven(t):
    """The messages that a reader of another boot finds."""
    at = c = t.behind(t.word("trimmed"))
    while True:
        what, end = t.span(at)
        if what == "right":
            at = c = end + UNIT
        elif what == "cut":
            at = t.landmark(end)[2]
        else:
            return [m for m in t.messages() if m["position"] < c]


def restore(t, left):
    t.files = {name: bytearray(b) for name, b in left.items()}


def dead_file(prepare, options):
    """Returns the facts of one operation."""
    t = prepared(options)
    act = prepare(t)
    states = [((None, 0), state(t))]

    def stored(name, at):
        if state(t) != states[-1][1]:
            states.append(((name, at), state(t)))

    t.on_store = stored
    act()
    t.on_store = None
    points = []
    for (name, at), left in states:
        restore(t, left)
        here = left["control"][PAGE : PAGE + 16] == t.boot()
        found = list(t.messages()) if here else proven(t)
        point = {"last_store": word_of(t, name, at), "left": changes(states[0][1], left), "finds": found}
        t.inject = HEIR
        epoch, recovery_report = t.take("heir")
        assert list(t.messages()) == found, "what readers saw was undone"
        operations = [{"op": "writer", "name": "heir", "epoch": epoch, "recovery": recovery_report}]
        t.check_all()
        taken = state(t)
        point["after_take"] = changes(left, taken)
        for seed in (1, 2):
            data = {"pattern": seed, "length": 11}
            operations.append({"op": "append", "type": 1, "data": data, "position": t.append(to_bytes(data))})
        for name in ("orders", "new"):
            if t.find_consumer(name)[0] is None:
                continue
            slot, position, number, lost = t.join(name)
            place = {"slot": slot, "position": position, "number": number, "lost": lost}
            operations.append({"op": "consumer", "name": name, "start": "oldest"} | place)
            if t.t - position > 65536:  # within such a poll the gate is stored more than once
                continue
            numbers = [m["number"] for m in t.consume(slot, 2)]
            operations.append({"op": "poll", "consumer": name, "limit": 2, "numbers": numbers})
        operations.append({"op": "sync"})
        t.sync_records()
        t.check_all()
        point["operations"] = operations
        point["after"] = changes(taken, state(t))
        points.append(point)
    return {
        "inject": HEIR,
        "create": {"consumers": 2} | options,
        "base": changes({}, states[0][1]),
        "dead": points,
    }


def files():
    """Returns {path: content}."""
    made = {}
    for golden in GOLDENS:
        made |= {f"journal/1.0/{name}": content for name, content in golden().files().items()}
    for name, prepare, options in DYING:
        made[f"journal/dead/{name}.json"] = lines(dead_file(prepare, options)).encode()
    return made
