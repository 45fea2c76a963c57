# SPDX-License-Identifier: Apache-2.0
"""The golden files of tables: table/1.0/NAME.table with NAME.json, and table/dead/OPERATION.json. README.md, "Tables",
says what they hold."""

import uuid

from golden import BOOT_ID, CREATED_AT, MONOTONIC, NOW, PID, dump, lines, pattern, to_bytes
from tables import CELL, CONTROL, PIECE, SLOT, SLOT_AT, Full, Table

OTHER_BOOT = "ffeeddcc-bbaa-4988-b766-554433221100"


class Golden:
    """Does operations in the simulation, and records each with its result."""

    def __init__(self, golden, **options):
        self.golden, self.options, self.operations = golden, options, []
        self.inject = {
            "channel_id": str(uuid.uuid5(uuid.NAMESPACE_URL, "flyring-golden:" + golden)),
            "created_at": CREATED_AT,
            "boot_id": BOOT_ID,
            "pid": PID,
            "now": NOW,
            "monotonic": MONOTONIC,
        }
        self.table = Table(options, self.inject)
        self.held = False

    def did(self, op, fields, **result):
        self.operations.append({"op": op} | fields | result)
        if not self.held:
            self.table.check()
        return next(iter(result.values()), None)

    def change(self, op, fields, name, what):
        """Does one change, under the writer's slot or under the slot that it takes for itself."""
        if not self.held:
            self.table.take()
        try:
            return self.did(op, {"held": self.held} | fields, **{name: what()})
        except Full:
            return self.did(op, {"held": self.held} | fields, error="no-space")

    def writer(self, name=""):
        self.held = True
        self.did("writer", {"name": name}, epoch=self.table.take(name))

    def close_writer(self):
        self.table.close()
        self.held = False
        self.did("close_writer", {})

    def put(self, key, value):
        data = to_bytes(value)
        return self.change("put", {"key": key, "value": value}, "version", lambda: self.table.put(key, data))

    def compare_and_put(self, key, version, value):
        data = to_bytes(value)
        fields = {"key": key, "expected": version, "value": value}
        return self.change("compare_and_put", fields, "version", lambda: self.table.put(key, data, version))

    def remove(self, key):
        return self.change("remove", {"key": key}, "removed", lambda: self.table.remove(key))

    def clear(self):
        return self.change("clear", {}, "count", self.table.clear)

    def close_synced(self):
        """Closes the table, synced, and opens it again."""
        self.table.close_synced()
        self.did("close_synced", {})

    def reboot(self, boot_id):
        """Opens the table again, in another boot."""
        self.table.inject = self.table.inject | {"boot_id": boot_id}
        self.operations.append({"op": "reboot", "boot_id": boot_id})

    def foreign(self, at, data):
        self.table.b[at : at + len(data)] = data
        self.operations.append({"op": "foreign_store", "offset": at, "data": data.hex()})

    def asleep(self, key=None):
        """A reader that sleeps until a key, or any, has changed, and is then killed."""
        at = 4096 + 68
        if key is not None:
            at = self.table.cell(self.table.find(self.table.to_bytes(key))) + 12
        self.foreign(at, b"\1\0\0\0")

    def files(self):
        content = {
            "inject": self.inject,
            "create": self.options,
            "operations": self.operations,
            "expected": self.table.expected(),
        }
        return {self.golden + ".table": bytes(self.table.b), self.golden + ".json": dump(content).encode()}


def empty_text():
    return Golden("empty-text", key="text", capacity=10, value_bytes=48)


def empty_integer():
    """The most entries in one page."""
    return Golden("empty-integer", key="integer", capacity=341, value_bytes=0, checked=True)


def empty_schema():
    return Golden(
        "empty-schema",
        key="bytes",
        capacity=1,
        key_bytes=1024,
        value_bytes=1000,
        schema="<messageSchema/>",
        schema_id=91,
        schema_version=2,
        value_template=3,
    )


def keys():
    """Keys and values of many lengths, put by single changes."""
    g = Golden("keys", key="bytes", capacity=40, key_bytes=33, value_bytes=61)
    for i in range(34):
        g.put(bytes((i + k) & 255 for k in range(i)).hex(), pattern(i, 9 * i % 62))
    g.put("", "00")
    g.put("0102", "")
    g.compare_and_put("ff", 0, "01")
    g.compare_and_put("ff", 0, "02")
    g.compare_and_put("ff", 999, "03")
    return g


def text():
    g = Golden("text", key="text", capacity=8, value_bytes=9)
    g.writer("feed")
    for key in ("a", "Müller", "東京", "two words", ""):
        g.put(key, pattern(len(key), len(key)))
    g.put("a", "")
    g.close_writer()
    g.writer("another-feed")
    g.remove("Müller")
    g.close_writer()
    g.put("a", "11")
    return g


def integers():
    g = Golden("integers", key="integer", capacity=6, value_bytes=40)
    g.writer()
    for key in (0, -1, 2**63 - 1, -(2**63), 7, 8):
        g.put(key, pattern(key & 255, 40))
    g.put(9, "00")  # no space
    g.remove(7)
    g.put(9, "00")
    return g


def removed():
    """Cells on the stack, in the order in which they were freed; cells that other keys have got; tombstones."""
    g = Golden("removed", key="text", capacity=12, value_bytes=16)
    for i in range(12):
        g.put(f"key {i}", pattern(i, 16))
    for i in (3, 7, 0, 11):
        g.remove(f"key {i}")
    g.remove("key 3")
    g.put("new", pattern(50, 9))
    g.put("key 7", pattern(51, 3))
    g.remove("new")
    return g


def cleared():
    g = Golden("cleared", key="integer", capacity=20, value_bytes=8)
    for i in range(9):
        g.put(i, pattern(i, 8))
    g.remove(4)
    g.clear()
    g.put(100, "aa")
    return g


def fill(g, until):
    """Puts and removes keys until a condition holds."""
    for i in range(500):
        g.put(i, pattern(i, 8))
        if until():
            return g
        if i >= 7:
            g.remove(i - 7)
            if until():
                return g
    raise AssertionError(g.golden)


def rebuild_clearing():
    g = Golden("rebuild-clearing", key="integer", capacity=40, value_bytes=8)
    g.writer("feed")
    return fill(g, lambda: 0 < g.table.word("rebuild") <= g.table.N)


def rebuild_moving():
    g = Golden("rebuild-moving", key="integer", capacity=40, value_bytes=8)
    g.writer("feed")
    return fill(g, lambda: g.table.N + 16 < g.table.word("rebuild"))


def rebuild_done():
    """Copy 1, then copy 0 again, is the current one; a put and a remove beside entries that are moved."""
    g = Golden("rebuild-done", key="integer", capacity=24, value_bytes=8)
    g.writer("feed")
    return fill(g, lambda: g.table.word("generation") == 3)


def sleepers():
    g = Golden("sleepers", key="text", capacity=10, value_bytes=8)
    g.put("a", "01")
    g.put("b", "01")
    g.asleep("a")
    g.asleep()
    g.put("b", "02")  # wakes those that wait for the table
    g.put("a", "02")  # wakes those that wait for the key
    g.asleep("b")
    g.remove("b")
    g.put("c", "00")  # in the cell of b
    g.asleep("c")
    g.asleep()
    g.writer("feed")  # wakes all of data
    return g


def checked():
    g = Golden("checked", key="text", capacity=10, value_bytes=50, checked=True)
    for i in range(10):
        g.put(f"key {i}", pattern(i, 5 * i))
    for i in range(0, 10, 3):
        g.remove(f"key {i}")
    g.put("key 1", pattern(90, 50))
    return g


def closed():
    g = checked()
    g.golden = "closed"
    g.inject["channel_id"] = str(uuid.uuid5(uuid.NAMESPACE_URL, "flyring-golden:checked"))
    g.close_synced()
    return g


def closed_reopened():
    """A table that was closed is used in another boot, without a recovery."""
    g = closed()
    g.golden = "closed-reopened"
    g.reboot(OTHER_BOOT)
    g.put("key 0", "0a")
    return g


def recovered():
    """A power loss left: a torn value, in a cell with an older one and in a cell without; a cell whose version is older
    than its bodies; a key in two cells; an index of nonsense."""
    g = Golden("recovered", key="text", capacity=12, value_bytes=24, checked=True)
    for i in range(8):
        g.put(f"key {i}", pattern(i, 20))
    for i in range(3):
        g.put(f"key {i}", pattern(20 + i, 24))
    t = g.table
    old = bytes(t.b[t.cell(5) : t.cell(6)])  # key 5
    older = bytes(t.b[t.cell(6) : t.cell(7)])  # key 6
    g.put("key 6", pattern(62, 6))
    g.remove("key 4")
    g.remove("key 5")
    g.put("key 5", pattern(60, 6))  # in cell 5
    g.remove("key 7")
    g.put("key 5", pattern(61, 6))
    g.reboot(OTHER_BOOT)
    g.foreign(t.body(0, t.of_cell(0, "version")) + 16, b"torn")  # key 0: the older value
    g.foreign(t.body(3, t.of_cell(3, "version")) + 16, b"torn")  # key 3: damaged
    g.foreign(t.cell(1), (t.of_cell(1, "version") - 2).to_bytes(8, "little"))  # of no body: the larger one
    g.foreign(t.cell(9), old)  # key 5, an older value, also in cell 9
    newer = bytes(t.b[t.cell(6) : t.cell(7)])
    g.foreign(t.cell(10), newer)  # key 6, in cell 10, and an older value in cell 6
    g.foreign(t.cell(6), older)
    g.foreign(t.entry_at(0, 0), bytes(range(1, 65)))
    g.put("new", pattern(70, 24))
    g.put("key 4", pattern(71, 24))
    return g


GOLDENS = (
    empty_text,
    empty_integer,
    empty_schema,
    keys,
    text,
    integers,
    removed,
    cleared,
    rebuild_clearing,
    rebuild_moving,
    rebuild_done,
    sleepers,
    checked,
    closed,
    closed_reopened,
    recovered,
)


# The dead. Each operation prepares a table, and returns what the process does that is killed.

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
    """A table with keys 1 to 6, and cells of removed ones."""
    t = Table({"key": "integer", "capacity": 12, "value_bytes": 24} | options, BASE)
    t.take("feed")
    for i in range(1, 9):
        t.put(i, value(i))
    t.put(2, value(22, 24))
    t.remove(7)
    t.remove(8)
    t.close()
    t.inject = DEAD
    return t


def until(t, done):
    """Changes keys until a condition holds."""
    for i in range(1000, 1500):
        if done():
            return
        t.put(i, value(i))
        if done():
            return
        t.remove(i)
    raise AssertionError


def moving(t):
    until(t, lambda: t.N + 4 < t.word("rebuild") <= 2 * t.N)


def clearing(t):
    until(t, lambda: 0 < t.word("rebuild") <= t.N)


def killed(t, what, changes):
    """Kills a process in `what` after some stores that change something; the rest is not done."""

    class Killed(Exception):
        pass

    before, count = bytes(t.b), 0

    def stored(_at):
        nonlocal before, count
        if bytes(t.b) != before:
            before, count = bytes(t.b), count + 1
            if count == changes:
                raise Killed

    t.on_store = stored
    try:
        what()
    except Killed:
        pass
    finally:
        t.on_store = None


def held(operation):
    """The operation under a slot that is held already."""

    def prepare(t):
        t.take("feed")
        return operation(t)

    return prepare


def put(key, length=20):
    return lambda t: lambda: t.put(key, value(key, length))


def remove(key):
    return lambda t: lambda: t.remove(key)


def fresh(t):
    """The stack is empty, so the insert takes a cell that was never used."""
    t.put(70, value(70))
    t.put(80, value(80))
    return lambda: t.put(90, value(90))


def beside(prepare, operation):
    """The operation while a rebuild is under way."""

    def stage(t):
        prepare(t)
        return operation(t)

    return stage


def begins(t):
    """The change that begins a rebuild."""
    until(t, lambda: t.word(t.filled(t.word("generation"))) == 3 * t.N // 4)
    key = next(
        k
        for k in range(2000, 4000)
        if next(
            t.entry(t.word("generation"), i)
            for i in t.search(t.new_entry(t.to_bytes(k), 0))
            if t.entry(t.word("generation"), i) in (0, (1 << 32) - 1)
        )
        == 0
    )
    return lambda: t.put(key, value(3))


def flips(t):
    """The change that ends a rebuild."""
    until(t, lambda: 2 * t.N + 1 - t.word("rebuild") < 12 and t.word("rebuild") > t.N)
    return lambda: t.put(1, value(99))


def wakes(operation):
    """The operation while one process sleeps for key 1 and another one for any change."""

    def prepare(t):
        for at in (t.cell(t.find(t.to_bytes(1))) + 12, 4096 + 68):
            t.b[at] = 1
        return operation(t)

    return prepare


def heir(operation, changes):
    """The next owner of the slot is killed while it finishes what the dead one had begun."""

    def prepare(t):
        killed(t, operation(t), changes)
        return lambda: t.take("heir")

    return prepare


def recovery(t):
    """The first writer after another boot is killed."""
    t.b[t.body(2, t.of_cell(2, "version")) + 16] ^= 1
    t.b[4096:4112] = uuid.UUID(OTHER_BOOT).bytes
    return lambda: t.take("mender")


def closed_before(t):
    """The first writer after a synced close."""
    t.close_synced()
    return lambda: t.take("another")


def single(t):
    return lambda: (t.take(), t.put(1, value(98)))


DYING = (  # operation, what it does, options
    ("update", held(put(1)), {}),
    ("update-checked", held(put(1, 24)), {"checked": True}),
    ("insert", held(put(99)), {}),
    ("insert-fresh", held(fresh), {}),
    ("insert-checked", held(put(99)), {"checked": True}),
    ("remove", held(remove(3)), {}),
    ("remove-checked", held(remove(3)), {"checked": True}),
    ("insert-moving", held(beside(moving, put(99))), {}),
    ("remove-moving", held(beside(moving, remove(3))), {}),
    ("insert-clearing", held(beside(clearing, put(99))), {}),
    ("rebuild-begins", held(begins), {}),
    ("rebuild-flips", held(flips), {}),
    ("wake", held(wakes(lambda t: lambda: t.put(1, value(99)))), {}),
    ("wake-remove", held(wakes(remove(1))), {}),
    ("single", single, {}),
    ("clear", held(lambda t: t.clear), {}),
    ("take-clean", closed_before, {}),
    ("take", lambda t: lambda: t.take("another"), {}),
    ("finish-insert", heir(held(put(99)), 9), {}),
    ("finish-insert-moving", heir(held(beside(moving, put(99))), 8), {}),
    ("finish-remove", heir(held(remove(3)), 8), {}),
    ("recovery", recovery, {"checked": True}),
)


def word_of(t, at):
    """Describes the word at an offset, for people."""
    if at is None:
        return "nothing yet"
    if at == 4096:
        return "control section: boot_id"
    for names, base, what in ((CONTROL, 4096, "control section"), (SLOT, 4096 + SLOT_AT, "slot")):
        for name, (offset, _) in names.items():
            if at == base + offset:
                return f"{what}: {name}"
    if at < t.cells:
        copy, i = divmod(at - 8192, t.index_stride)
        return f"index: entry {i // 8} of copy {copy}"
    c, offset = divmod(at - t.cells, t.stride)
    if offset < t.B:
        return f"cell {c}: {next((name for name, (o, _) in CELL.items() if o == offset), 'key')}"
    body, offset = divmod(offset - t.B, t.V)
    return f"cell {c}: body {body}, {({0: 'seq', 8: 'length', 12: 'crc'}).get(offset, 'value')}"


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


def dead_file(prepare, options):
    """Returns the facts of one operation."""
    t = prepared(options)
    act = prepare(t)
    states, before = [(None, bytes(t.b))], t.keys() if t.b[4096:4112] == t.boot() else None

    def stored(at):
        if t.b != states[-1][1]:
            states.append((at, bytes(t.b)))

    t.on_store = stored
    act()
    t.on_store = None
    after = t.keys()
    points = []
    for at, left in states:
        whole = left[4096:4112] == t.boot()
        point = {"last_store": word_of(t, at), "left": runs(states[0][1], left)}
        t.b[:] = left
        if whole:
            point["finds"] = t.keys()
            assert point["finds"] in (before, after) or act.__name__ != "<lambda>", word_of(t, at)
        t.inject = HEIR
        operations = [{"op": "writer", "name": "heir", "epoch": t.take("heir")}]
        t.check()
        point["after_take"] = runs(left, bytes(t.b))
        assert not whole or t.keys() == point["finds"], "what readers saw was undone"
        point["keys"] = t.keys()
        taken = bytes(t.b)
        for key in (1, 99):
            data = {"pattern": key, "length": 11}
            operations.append(
                {"op": "put", "held": True, "key": key, "value": data, "version": t.put(key, to_bytes(data))}
            )
        operations.append({"op": "remove", "held": True, "key": 4, "removed": t.remove(4)})
        t.check()
        point["operations"] = operations
        point["after"] = runs(taken, bytes(t.b))
        points.append(point)
    return {
        "inject": HEIR,
        "create": {"key": "integer", "capacity": 12, "value_bytes": 24} | options,
        "file_length": len(states[0][1]),
        "base": runs(bytes(len(states[0][1])), states[0][1]),
        "dead": points,
    }


def files():
    """Returns {path: content}."""
    assert xor_of_pieces()
    made = {}
    for golden in GOLDENS:
        made |= {f"table/1.0/{name}": content for name, content in golden().files().items()}
    for name, prepare, options in DYING:
        made[f"table/dead/{name}.json"] = lines(dead_file(prepare, options)).encode()
    return made


def xor_of_pieces():
    """Whether a table of more than 1 GiB has cells that are never used, where 2 says."""
    t = Table.__new__(Table)
    t.stride = 64 * 1000 + 64
    return not t.usable(PIECE // t.stride) and t.usable(PIECE // t.stride - 1)
