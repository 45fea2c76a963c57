# SPDX-License-Identifier: Apache-2.0
"""Tests of tables (spec/table.md) beyond reading and writing: writers that are killed, tables that grow, are replaced,
copied, of another boot, damaged or hostile. Run by pairs.py."""

import itertools
import os
import struct
import time
import tomllib

from cases_table import LONG, MANY, SMALL, attach, get, items, path_of, seen_alike, simulated, told
from driver import ROOT, Refused
from harness import above, after, equal, refused, true, Wrong
from stream import message

FOREIGN = "00112233-4455-4677-8899-aabbccddeeff"  # the id of another boot


def killed(run, victim, heir, reader):
    """A writer is killed: with the slot in its hand, by a single change, and while it puts and removes at full speed.
    The next one of another language goes on; a reader sees whole values and misses nothing."""
    b, c = run.peer(heir, 1), run.peer(reader, 2)
    for turn, fields in enumerate(({"die_at": 33}, {"die_at": 33}, {}, {})):
        a = run.fresh(victim)
        name = attach(run, b, c, key=("integer", "text", "bytes", "integer")[turn], capacity=20)
        a.call("open", table=name, name=name)
        if turn % 2 == 0:
            a.call("writer", table=name, writer=name, name="feed")
        target = {"writer": name} if turn % 2 == 0 else {"table": name}
        remove = {"remove": 3}
        a.send("put_many", **target, **MANY, **remove, **fields)
        if fields:
            a.dies()
        else:
            c.send("get_many", table=name, how="mix", removes=True, seconds=0.2, **MANY)
            above("changes that a reader saw", c.receive()["changes"], 0)
            a.kill()
        left = seen_alike(name, b, c, killed=True)
        version = b.call("size", table=name)["version"]
        taken = b.call("writer", table=name, writer=name, name="heir", timeout=LONG)
        above("epoch", taken["epoch"], 0 if turn % 2 else 1)
        equal("what was left", seen_alike(name, b, c), left)
        if fields:  # put 33 is an insert, and then an update that was not begun
            expected, removed = simulated(33, 3, MANY)
            expected[13] = message(7, 33, 8, 48, numbered=True)[1].hex()
            equal("changes", version, 33 + removed + 1)
            equal("values", sorted(value for value, _ in left.values()), sorted(expected.values()))
        done = b.call("put_many", writer=name, first=1000, count=200, remove=7, **MANY)
        equal("puts", done["count"], 200)
        equal("the reader", c.call("get_many", table=name, removes=True, seconds=0, **MANY)["busy"], 0)
        for key, (value, _) in seen_alike(name, b, c).items():
            number = int.from_bytes(bytes.fromhex(value)[:8], "little")
            equal(f"the value of {key!r}", value, message(7, number, 8, 48, numbered=True)[1].hex())
        b.call("close", writer=name)
        size = len(items(c, name))
        equal("clear", c.call("clear", table=name)["removed"], size)
        equal("all cells are free", c.call("put_many", table=name, count=20, **MANY)["count"], 20)


def grown(run, first, second, third):
    """A table grows while processes of other languages read and wait: they follow it. Versions stay."""
    a, b, c = run.peer(first, 1), run.peer(second, 2), run.peer(third, 3)
    for by in ("table", "writer"):
        name = attach(run, a, b, c, key="integer", capacity=20)
        if by == "writer":
            a.call("writer", table=name, writer=name, name="feed")
        target = {by: name}
        a.call("put_many", count=50, **target, **MANY)
        before, info = seen_alike(name, a, b, c), a.call("info", table=name)
        b.send("wait_changed", table=name, key=99, version=0, timeout=LONG)
        c.call("entry", table=name, entry=name + "e", key=3)
        a.call("grow", capacity=200, **target)
        for peer in (a, c):
            equal("items", items(peer, name), before)
        equal("an entry", c.call("get", entry=name + "e")["value"], before[3][0])
        version = a.call("put", key=99, value="aa", **target)["version"]
        equal("b follows, and is woken", b.receive(LONG)["version"], version)
        for k in range(100, 200):
            a.call("put", key=k, value="bb", **target)
        after_it = seen_alike(name, a, b, c)
        equal("keys", len(after_it), 20 + 1 + 100)
        for peer in (a, b, c):
            now = peer.call("info", table=name)
            equal("the same table", now["table_id"], info["table_id"])
            equal("capacity", now["capacity"], 200)
        if by == "writer":
            equal(
                "still held",
                refused("no-free-slot", b, "put", table=name, key=1, value="", timeout=0)["owners"][0]["name"],
                "feed",
            )
            a.call("close", writer=name)
        above("a change by a process that followed", b.call("put", table=name, key=99, value="cc")["version"], version)
        equal(
            "open_or_create of the old capacity",
            c.call("open_or_create", table=name + "o", name=name, **SMALL | {"key": "integer", "capacity": 20})[
                "capacity"
            ],
            200,
        )
        equal("nothing is left beside it", sorted(p.name for p in run.folder.iterdir()), [name + ".table"])
        os.unlink(path_of(run, name))


def replaced(run, first, second):
    """A replaced or unlinked table: reads go on in the old one, changes and waits are *replaced*, once of a held
    writer."""
    a, b = run.peer(first, 1), run.peer(second, 2)
    name = attach(run, a, b)
    a.call("put", table=name, key="k", value="00")
    version = get(b, name, "k")[1]
    b.send("wait_changed", table=name, key="k", version=version, timeout=LONG)
    time.sleep(0.02)
    new = a.call("replace", table=name + "n", name=name, **SMALL)
    try:
        raise Wrong(f"expected the wait to end as replaced, found {b.receive(LONG)}")
    except Refused as e:
        equal("the wait", (e.code, e.answer.get("channel_id")), ("replaced", new["table_id"]))
    equal("the old one", get(b, name, "k"), ("00", version))
    for op, fields in (
        ("put", {"key": "k", "value": "01"}),
        ("writer", {"writer": name}),
        ("wait_changed", {"version": 1, "timeout": LONG}),
    ):
        answer = refused("replaced", b, op, table=name, **fields)
        equal(f"{op}: the id of the new one", answer.get("channel_id"), new["table_id"])
    equal("the new one is empty", a.call("size", table=name + "n")["size"], 0)
    b.call("open", table=name + "n", name=name)
    b.call("writer", table=name + "n", writer=name)
    b.call("put", writer=name, key="k", value="02")
    a.call("unlink", name=name, table=True)
    true("no file", not path_of(run, name).exists(), name)
    equal("attached", get(a, name + "n", "k")[0], "02")
    above("a put after the unlink", b.call("put", writer=name, key="k", value="03")["version"], 0)
    b.call("close", writer=name)


def copied(run, first, second, third):
    """A snapshot by one language opens in another one, whole, while a third one puts; that of a writer is of one
    instant."""
    a, b, c = run.peer(first, 1), run.peer(second, 2), run.peer(third, 3)
    name = attach(run, a, b, key="integer", capacity=20)
    a.call("put_many", table=name, count=30, remove=5, **MANY)
    a.call("writer", table=name, writer=name)
    whole, copy = items(a, name), run.name("copy")
    equal("keys", a.call("snapshot", writer=name, path=copy)["keys"], len(whole))
    opened = c.call("open", table=copy, name=copy)
    true("a table of its own", opened["table_id"] != a.call("info", table=name)["table_id"], opened)
    equal("the same keys, values, versions", seen_alike(copy, c), whole)
    equal("the same change", told(c, "size", table=copy), told(a, "size", table=name))
    for who, what in ((a, {"writer": name}), (b, {"table": name})):
        answer = refused("invalid-argument", who, "snapshot", **what, path=name)
        equal("argument", answer["argument"], "path")
    a.send("put_many", writer=name, first=30, seconds=1, count=2000, **MANY)
    b.call("snapshot", table=name, path=copy + "b")
    a.receive(20)
    c.call("open", table=copy + "b", name=copy + "b", read_only=True)
    reads = c.call("get_many", table=copy + "b", how="mix", seconds=0, removes=True, **MANY)
    above("whole values", reads["reads"], 0)
    above("a put into the copy", c.call("put", table=copy, key=1, value="00")["version"] >> 1, 30)
    answer = b.call("get", table=name, key=1)
    true("not in the table", answer["value"] != "00", answer)
    a.call("close", writer=name)


def recovered(run, first, second, third):
    """A table of another boot is *needs recovery* for readers until a writer of another language has mended it. One that
    was closed synced is read at once, and one without crcs is never mended."""
    a, b, c = run.peer(first, 1), run.peer(second, 2), run.peer(third, 3)
    name = run.name("table")
    a.call("create", table=name, name=name, checked=True, inject={"boot_id": FOREIGN}, **SMALL)
    for k in range(6):
        a.call("put", table=name, key=f"k{k}", value=f"{k:02x}" * 20)
    for k in range(3):
        a.call("put", table=name, key=f"k{k}", value=f"a{k:x}" * 30)
    before, path = items(a, name), path_of(run, name)
    a.call("close", table=name)
    with open(path, "r+b") as file:  # k2 loses its last value, k5 its only one
        header = file.read(4096)
        stride, cells = struct.unpack_from("<q", header, 96)[0], struct.unpack_from("<q", header, 136)[0]
        for k in (2, 5):
            version = before[f"k{k}"][1]
            at = cells + k * stride + 64 + (version & 1) * 128 + 16
            os.pwrite(file.fileno(), b"\xee", at + 3)
    for peer in (a, b, c):
        peer.call("open", table=name, name=name)
        answer = refused("needs-recovery", peer, "get", table=name, key="k0")
        equal("path", os.path.realpath(answer["path"]), os.path.realpath(path))
        refused("needs-recovery", peer, "each", table=name)
        refused("needs-recovery", peer, "wait_changed", table=name, version=0, timeout=0)
    version = b.call("put", table=name, key="new", value="ff")["version"]
    above("versions jump", version >> 1, 2**44)
    found = seen_alike(name, a, b, c)
    equal("one that lost its last value", found.pop("k2"), ("02" * 20, 7))
    equal("others", {k: v for k, v in found.items() if k != "new"}, {f"k{k}": before[f"k{k}"] for k in (0, 1, 3, 4)})
    for peer in (a, b, c):
        equal("damaged", peer.call("stats", table=name)["stats"]["damaged"], 1)
    for synced, checked, code in ((True, False, None), (False, False, "needs-recovery")):
        name = run.name("table")
        a.call("create", table=name, name=name, checked=checked, inject={"boot_id": FOREIGN}, **SMALL)
        a.call("put", table=name, key="k", value="01")
        a.call("close", table=name, sync=synced)
        b.call("open", table=name, name=name, read_only=True)
        c.call("open", table=name, name=name)
        if code:
            refused(code, b, "get", table=name, key="k")
            refused(code, c, "put", table=name, key="k", value="02")
            c.call("replace", table=name + "n", name=name, **SMALL)
            above("a new one", c.call("put", table=name + "n", key="k", value="02")["version"], 0)
        else:
            equal("read", get(b, name, "k")[0], "01")
            version = c.call("put", table=name, key="k", value="02")["version"]
            equal("no jump", version >> 1, 2)
            equal("read", get(b, name, "k"), ("02", version))


def hostile(run, language):
    """Headers with one field changed, and words of the control section and of cells that no writer stores."""
    a = run.peer(language)
    golden = (ROOT / "spec" / "golden" / "table" / "1.0" / "empty-text.table").read_bytes()
    with open(ROOT / "spec" / "layout.toml", "rb") as file:
        layout = tomllib.load(file)
    offsets = {name: field["offset"] for name, field in layout["table_header"].items()}
    for bad in layout["table_bad_field"]:
        content = bytearray(golden)
        at = offsets[bad["field"]]
        content[at : at + bad["size"]] = (bad["value"] % 256 ** bad["size"]).to_bytes(bad["size"], "little")
        content[4092:4096] = crc32c(content[:4092]).to_bytes(4, "little")
        name = run.name("table")
        path_of(run, name).write_bytes(content)
        answer = refused(bad["error"], a, "open", table=name, name=name)
        equal(f"{bad}: field", answer.get("field"), bad["names"])
    for content, code in ((golden[:9], "truncated"), (golden[:-1], "truncated"), (b"FLYTABL", "not-a-channel")):
        name = run.name("table")
        path_of(run, name).write_bytes(content)
        refused(code, a, "open", table=name, name=name)
    control, slots = 4096, 16384
    for at, value, cell in (
        (control + 272, struct.pack("<I", 9), None),  # top: no cell that was used
        (control + 272, struct.pack("<I", 1), None),  # top: a cell that is live
        (control + 276, struct.pack("<I", 999), None),  # fresh
        (control + 128, struct.pack("<q", -1), None),  # stamp
        (slots + 20, struct.pack("<i", 33), 0),  # key_length
    ):
        name = attach(run, a)
        a.call("put", table=name, key="k", value="00")
        with open(path_of(run, name), "r+b") as file:
            os.pwrite(file.fileno(), value, at)
        if cell is None:
            answer = refused("corrupt-table", a, "put", table=name, key="new", value="00")
        else:
            answer = refused("corrupt-table", a, "each", table=name)
            equal("cell", answer.get("cell"), cell)
        true("a reason", answer.get("reason"), answer)
    name = attach(run, a)
    version = a.call("put", table=name, key="k", value="00")["version"]
    with open(path_of(run, name), "r+b") as file:  # seq of the body, which never fits version
        os.pwrite(file.fileno(), struct.pack("<q", version + 2), slots + 64 + 128 * (version & 1))
    begin = time.monotonic()
    refused("busy", a, "get", table=name, key="k")
    true("a bounded read", time.monotonic() - begin < 2, time.monotonic() - begin)
    equal("counted", a.call("stats", table=name)["stats"]["busy"], 1)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def tests(languages):
    """Yields (title, function, arguments) of every test."""
    for language in languages:
        yield f"{language}: tables that are damaged or hostile", hostile, language
    for a, b in itertools.product(languages, repeat=2):
        c = after(languages, b, 1 if a != b else 2)
        yield f"table: a writer of {a} is killed, {b} goes on, {c} reads", killed, a, b, c
        yield f"table: {a} grows it, {b} waits, {c} reads", grown, a, b, c
        yield f"table: {a} replaces and unlinks what {b} uses", replaced, a, b
        yield f"table: {a} and {b} take snapshots, {c} opens them", copied, a, b, c
        yield f"table: of another boot, by {a}; {b} mends it, {c} reads", recovered, a, b, c
