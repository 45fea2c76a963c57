# SPDX-License-Identifier: Apache-2.0
"""Tests of tables (spec/table.md): one language puts, others read, wait, change, grow, copy and mend. Run by
pairs.py."""

import itertools
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import time

from cases_typed import TYPED, flyring
from driver import Refused, both
from harness import above, after, equal, refused, shorten, true, Wrong
from stream import message

SMALL = {"key": "text", "capacity": 16, "value_bytes": 64}
MANY = {"seed": 7, "keys": 20, "min": 8, "max": 48}  # of put_many and get_many
KEYS = {
    "text": ["", "a", "grün", "日本語", "🐌 slow", "k" * 32],
    "integer": [0, 1, -1, 2**63 - 1, -(2**63), 42],
    "bytes": ["", "00", "0000", "ff" * 32, "61", "00ff"],
}
LONG = 10  # seconds: a time-out that is not reached
SOON = 0.05  # seconds: far below the 100 ms after which a sleeper looks without a wake-up


def attach(run, first, *others, **options):
    """A table that the first peer makes and the others open; its name, and handle."""
    name = run.name("table")
    first.call("create", table=name, name=name, **SMALL | options)
    for peer in {id(peer): peer for peer in others if peer is not first}.values():
        peer.call("open", table=name, name=name)
    return name


def path_of(run, name):
    return run.folder / f"{name}.table"


def get(peer, name, key):
    answer = peer.call("get", table=name, key=key)
    return answer["value"], answer["version"]


def told(peer, op, **fields):
    """Returns an answer without what every answer has."""
    return {key: value for key, value in peer.call(op, **fields).items() if key not in ("ok", "id")}


def items(peer, name):
    """Returns {key: (value, version)} by an iteration."""
    found = peer.call("each", table=name)["items"]
    met = {item["key"]: (item["value"], item["version"]) for item in found}
    equal("keys that an iteration meets", len(found), len(met))
    return met


def seen_alike(name, *peers, killed=False):
    """Each peer finds the same keys, values and versions, by each verb. Returns {key: (value, version)}. killed: the
    last writer may have died within a change, so the size may be one off."""
    first = items(peers[0], name)
    for peer in peers:
        equal(f"{peer.label}: items", items(peer, name), first)
        size = peer.call("size", table=name)["size"]
        true(f"{peer.label}: size", abs(size - len(first)) <= killed, (size, len(first)))
        for key, (value, version) in first.items():
            equal(f"{peer.label}: get {key!r}", get(peer, name, key), (value, version))
            equal("in place", peer.call("get", table=name, key=key, in_place=True)["value"], value)
            equal("entry", peer.call("entry", table=name, entry=name, key=key)["found"], True)
            answer = peer.call("get", entry=name)
            equal("by an entry", (answer["value"], answer["version"]), (value, version))
            equal("by an entry, in place", peer.call("get", entry=name, in_place=True)["value"], value)
    return first


def same_stats(name, *peers, **expected):
    """Compares the stats that the peers find, and some of their fields with what is expected."""
    stats = [peer.call("stats", table=name)["stats"] for peer in peers]
    for peer, other in zip(peers, stats):
        equal(f"{peer.label}: stats", other, stats[0])
    equal("stats", {field: stats[0][field] for field in expected}, expected)


def verbs(run, first, second, third):
    """Each verb, by turns in two languages, with each type of keys; what the third one reads."""
    a, b, c = run.peer(first, 1), run.peer(second, 2), run.peer(third, 3)
    for kind, keys in KEYS.items():
        name = attach(run, a, b, c, key=kind)
        info = [told(peer, "info", table=name) for peer in (a, b, c)]
        equal("info", info[1:], [info[0]] * 2)
        equal("type and capacity", (info[0]["key_type"], info[0]["capacity"]), (kind, 16))
        expected, stamp = {}, 0
        for peer in (a, b):  # inserts, then other values
            for n, key in enumerate(keys):
                value = f"{n:02x}" * (10 * n)
                stamp += 1
                version = peer.call("put", table=name, key=key, value=value)["version"]
                equal("the number of the change", version >> 1, stamp)
                expected[key] = value, version
            equal("items", seen_alike(name, a, b, c), expected)
        x, y = keys[:2]
        gone = "nothing" if kind == "text" else 77 if kind == "integer" else "7777"
        equal("compare: another version", b.call("put", table=name, key=x, value="aa", version=1)["version"], 0)
        version = b.call("put", table=name, key=x, value="aa", version=expected[x][1])["version"]
        equal("compare: a put", get(a, name, x), ("aa", version))
        equal("put if absent", a.call("put", table=name, key=x, value="bb", if_absent=True)["version"], 0)
        equal("compare: absent", a.call("put", table=name, key=gone, value="bb", version=5)["version"], 0)
        version = a.call("put", table=name, key=gone, value="bb", if_absent=True)["version"]
        equal("if absent: a put", get(b, name, gone), ("bb", version))
        equal("remove", b.call("remove", table=name, key=gone)["removed"], True)
        equal("remove again", a.call("remove", table=name, key=gone)["removed"], False)
        for peer in (a, b, c):
            equal("gone", get(peer, name, gone), (None, 0))
            equal("in place", peer.call("get", table=name, key=gone, in_place=True)["value"], None)
            equal("no entry", peer.call("entry", table=name, entry=name + "x", key=gone)["found"], False)
        again = b.call("put", table=name, key=gone, value="cc", version=0)["version"]
        above("the version of a key that comes again", again, version)
        version = a.call("update", table=name, key=x, xor="0f")["version"]
        equal("update", get(b, name, x), ("a5", version))
        equal("throws", b.call("update", table=name, key=x, xor="ff", throw=True)["threw"], True)
        equal("nothing was put", get(a, name, x), ("a5", version))
        equal("update of an absent key", b.call("update", table=name, key=keys[2], xor="")["version"] > 0, True)
        equal("of a removed one", a.call("remove", table=name, key=y)["removed"], True)
        equal("update", b.call("update", table=name, key=y, xor="ff")["version"], 0)
        size = len(seen_alike(name, a, b, c))
        equal("clear", b.call("clear", table=name)["removed"], size)
        equal("empty", seen_alike(name, a, b, c), {})
        same_stats(name, a, b, c, size=0, writing=False, unfinished=False, damaged=0)


def held(run, owner, other, reader):
    """While a writer of one language holds the slot, a single change of another one is refused, and names it. Readers
    see each of its changes. The verbs of a writer. An entry stays with its key."""
    a, b, c = run.peer(owner, 1), run.peer(other, 2), run.peer(reader, 3)
    name = attach(run, a, b, c)
    equal("epoch", a.call("writer", table=name, writer=name, name="feed")["epoch"], 1)
    owners = [{"slot": 0, "name": "feed", "pid": a.pid}]
    for op, fields in (
        ("put", {"key": "k", "value": "00", "timeout": 0}),
        ("put", {"key": "k", "value": "00", "timeout": 0.02}),
        ("remove", {"key": "k", "timeout": 0}),
        ("update", {"key": "k", "timeout": 0}),
        ("clear", {"timeout": 0}),
        ("grow", {"capacity": 20, "timeout": 0}),
        ("writer", {"writer": name}),
        ("writer", {"writer": name, "timeout": 0.02}),
    ):
        answer = refused("no-free-slot", b, op, table=name, **fields)
        equal(f"{op}: carried", [answer.get(f) for f in ("kind", "slots", "owners")], ["writer", 1, owners])
    same_stats(name, a, b, c, writing=True, writer="feed", pid=a.pid, epoch=1)
    version = a.call("put", writer=name, key="k", value="01")["version"]
    equal("a put", get(b, name, "k"), ("01", version))
    c.call("entry", table=name, entry=name, key="k")
    a.call("entry", table=name, entry=name, key="k")
    version = a.call("put", writer=name, entry=name, value="02")["version"]
    equal("a put by an entry", told(c, "get", entry=name), {"value": "02", "version": version})
    equal("not absent", a.call("put", writer=name, key="k", value="03", if_absent=True)["version"], 0)
    equal("another version", a.call("put", writer=name, key="k", value="03", version=version - 2)["version"], 0)
    version = a.call("put", writer=name, key="k", value="03", version=version)["version"]
    version = a.call("update", writer=name, key="k", xor="f0")["version"]
    equal("an update", get(b, name, "k"), ("f3", version))
    equal("removed", a.call("remove", writer=name, key="k")["removed"], True)
    equal("by an entry", c.call("get", entry=name)["value"], None)
    a.call("put", writer=name, key="another", value="04")  # in the cell of the removed key
    equal("another key is not seen", c.call("get", entry=name)["value"], None)
    version = a.call("put", writer=name, entry=name, value="05")["version"]
    equal("the key is there again", c.call("get", entry=name)["version"], version)
    equal("cleared", a.call("clear", writer=name)["removed"], 2)
    b.send("put", table=name, key="k", value="06", timeout=LONG)
    time.sleep(0.05)
    a.call("close", writer=name)
    above("a put that waited for the slot", b.receive()["version"], version)
    refused("closed", a, "put", writer=name, key="k", value="07")
    equal("the next writer", c.call("writer", table=name, writer=name)["epoch"], 3)
    c.call("close", writer=name)


def errors(run, language, other):
    """Each error of a table, with what it carries."""
    a, b = run.peer(language, 1), run.peer(other, 2)
    name = attach(run, b, a, capacity=2, key_bytes=4, value_bytes=8)
    path = os.path.realpath(path_of(run, name))
    answer = refused("exists", a, "create", table=name + "x", name=name, **SMALL)
    equal("path", os.path.realpath(answer["path"]), path)
    for key in (1, 0):
        answer = refused("invalid-argument", a, "put", table=name, key=key, value="00")
        equal("argument", answer.get("argument"), "key")
        refused("invalid-argument", a, "get", table=name, key=key)
    for op, fields, length, limit in (
        ("put", {"key": "12345", "value": ""}, 5, 4),
        ("get", {"key": "12345"}, 5, 4),
        ("remove", {"key": "grün"}, 5, 4),
        ("put", {"key": "1", "value": "00" * 9}, 9, 8),
        ("put", {"key": "1", "value": "00" * 9, "if_absent": True}, 9, 8),
    ):
        answer = refused("too-large", a, op, table=name, **fields)
        equal(f"{op}: length and limit", (answer.get("length"), answer.get("limit")), (length, limit))
    for key in ("1", "2"):
        b.call("put", table=name, key=key, value="00")
    before = items(b, name)
    answer = refused("no-space", a, "put", table=name, key="3", value="00")
    equal("needed and free", (answer.get("needed"), answer.get("free")), (1, 0))
    refused("no-space", a, "put", table=name, key="3", value="00", if_absent=True)
    equal("nothing was changed", seen_alike(name, a, b), before)
    a.call("remove", table=name, key="1")
    above("room again", a.call("put", table=name, key="3", value="00")["version"], 0)
    for capacity in (1, 2**30 + 1):
        answer = refused("invalid-argument", a, "grow", table=name, capacity=capacity)
        equal("argument", answer.get("argument"), "capacity")
    version = a.call("size", table=name)["version"]
    for fields in ({"version": version}, {"key": "2", "version": before["2"][1]}, {"key": "5", "version": 0}):
        answer = refused("timed-out", a, "wait_changed", table=name, timeout=0.01, **fields)
        true("what the verb waited for", answer.get("what_for"), answer)
    refused("no-such-channel", a, "open", table=name, name=name + "no")
    refused("no-such-channel", a, "unlink", table=True, name=name + "no")
    refused("timed-out", a, "open", table=name + "no", name=name + "no", timeout=0.01)
    answer = refused("differs", a, "open_or_create", table=name + "y", name=name, **SMALL)
    equal("field", (answer.get("field"), answer.get("expected"), answer.get("actual")), ("key_bytes", "32", "4"))
    for field, value in (("key", "bytes"), ("value_bytes", 9), ("capacity", 3), ("checked", True)):
        asked = {"key": "text", "capacity": 2, "key_bytes": 4, "value_bytes": 8} | {field: value}
        answer = refused("differs", a, "open_or_create", table=name + "y", name=name, **asked)
        equal("field", answer.get("field"), {"key": "key_type"}.get(field, field))
    a.call("open_or_create", table=name + "y", name=name, key="text", capacity=1, key_bytes=4, value_bytes=8)
    a.call("open", table=name + "r", name=name, read_only=True)
    equal("read-only", get(a, name + "r", "2"), before["2"])
    for op, fields in (
        ("put", {"key": "2", "value": "00"}),
        ("remove", {"key": "2"}),
        ("clear", {}),
        ("grow", {"capacity": 5}),
        ("writer", {"writer": name + "r"}),
        ("sync", {}),
    ):
        answer = refused("access-denied", a, op, table=name + "r", **fields)
        equal(f"{op}: path", os.path.realpath(answer["path"]), path)
    channel = run.name()
    b.call("create", channel=channel, name=channel, kind="broadcast")
    for is_table, is_channel in ((False, True), (True, False)):
        wrong = str(run.folder / f"{channel}.ring") if is_channel else path
        fields = {"channel": name + "z"} if is_table else {"table": name + "z"}
        refused("not-a-channel", a, "open", name=wrong, **fields)
        refused("not-a-channel", a, "unlink", name=wrong, table=not is_table)
    for wrong in (
        {"capacity": 0},
        {"capacity": 2**30 + 1},
        {"key": "float"},
        {"key_bytes": 0},
        {"key_bytes": 1025},
        {"key": "integer", "key_bytes": 4},
        {"value_bytes": -1},
        {"value_bytes": 2**24 + 1},
        {"mode": 0o1777},
    ):
        refused("invalid-argument", a, "create", table=name + "w", name=run.name(), **SMALL | wrong)
    a.call("close", table=name)
    refused("closed", a, "get", table=name, key="2")
    refused("closed", a, "put", table=name, key="2", value="00")


def woken(run, sleeper, waker):
    """wait_changed of a key, an absent key, a removed key, an entry and the table ends within ms of a change of another
    language, by a writer and by a single change."""
    a, b = run.peer(sleeper, 1), run.peer(waker, 2)
    for by in ("table", "writer"):
        name = attach(run, a, b)
        if by == "writer":
            b.call("writer", table=name, writer=name)
        target = {by: name}
        version = b.call("put", key="k", value="00", **target)["version"]
        a.call("entry", table=name, entry=name, key="k")

        def wait(what, change, changed, removes=False, **fields):
            for attempt in range(5):
                a.send("wait_changed", timeout=LONG, **fields)
                time.sleep(0.03)
                if not a.lines.empty():
                    raise Wrong(f"{what}: expected it to wait, found {a.receive()}")
                begin = time.monotonic()
                answer = b.call("remove" if removes else "put", **change, **target)
                found = a.receive(LONG)["version"]
                took = time.monotonic() - begin
                equal(f"{what}: the version", found, changed(answer))
                if took < SOON:
                    return answer.get("version", 0)
                # The machine was busy, or a wake-up was lost: the latter comes each time.
                fields["version"] = (
                    found if "key" in fields or "entry" in fields else b.call("size", table=name)["version"]
                )
                if removes or fields["version"] == 0 or (fields.get("key") == "new"):
                    return answer.get("version", 0)
            raise Wrong(f"{what}: expected to be woken within {SOON} s, it took {took:.3f} s five times")

        version = wait(
            "a key", {"key": "k", "value": "01"}, lambda d: d["version"], table=name, key="k", version=version
        )
        version = wait("an entry", {"key": "k", "value": "02"}, lambda d: d["version"], entry=name, version=version)
        wait("a new key", {"key": "new", "value": "02"}, lambda d: d["version"], table=name, key="new", version=0)
        changes = b.call("size", table=name)["version"]
        wait("the table", {"key": "k", "value": "04"}, lambda d: d["version"] >> 1, table=name, version=changes)
        version = get(a, name, "k")[1]
        wait("a key removed", {"key": "k"}, lambda _: 0, removes=True, table=name, key="k", version=version)
        equal("at once", a.call("wait_changed", table=name, key="k", version=version)["version"], 0)
        equal("at once", a.call("wait_changed", table=name, version=changes)["version"] > changes, True)
        b.call("close", table=name)


def rebuilt(run, writer, reader, third):
    """Inserts and removes of more keys than fit fill the index with tombstones. It is rebuilt again and again while
    others read."""
    a, b, c = run.peer(writer, 1), run.peer(reader, 2), run.peer(third, 3)
    name, many = attach(run, a, b, c, key="integer", capacity=40), MANY | {"keys": 60}
    expected, removed = simulated(3000, 1, many)
    a.call("writer", table=name, writer=name)
    a.send("put_many", writer=name, count=3000, remove=1, **many)
    for peer in (b, c):
        peer.send("get_many", table=name, how="mix", removes=True, until=3000 + removed, **many)
    done, *readers = both(a, b, c, timeout=60)
    for reads in readers:
        above("reads", reads["reads"], 0)
    equal("puts and removes", (done["count"], done["removed"]), (3000, removed))
    equal("values", {key: value for key, (value, _) in seen_alike(name, a, b, c).items()}, expected)
    equal("changes", b.call("size", table=name)["version"], 3000 + removed)
    with open(path_of(run, name), "rb") as file:
        generation = struct.unpack("<q", os.pread(file.fileno(), 8, 4096 + 192))[0]
    above("rebuilds", generation, 10)
    a.call("close", writer=name)
    b.call("writer", table=name, writer=name)  # goes on with a rebuild that another language began
    b.call("put_many", writer=name, first=3000, count=101, remove=1, **many)
    equal("values", {key: value for key, (value, _) in seen_alike(name, a, b, c).items()}, simulated(3101, 1, many)[0])


def simulated(count, remove, many, first=0):
    """Returns {key: value} after so many puts of put_many, and how many keys it has removed."""
    left, keys, removed = {}, many["keys"], 0
    for i in range(first, first + count):
        left[i % keys] = message(many["seed"], i, many["min"], many["max"], numbered=True)[1].hex()
        if remove and i % remove == remove - 1:
            removed += left.pop((i + keys // 2) % keys, None) is not None
    return left, removed


def read_only(run, writer, reader):
    """A table that is opened read-only: the process reads, sleeps and wakes by looking, and writes nothing."""
    a, b = run.peer(writer, 1), run.peer(reader, 2)
    name = attach(run, a)
    a.call("put", table=name, key="k", value="00")
    b.call("open", table=name, name=name, read_only=True)
    content = path_of(run, name).read_bytes()
    equal("read", get(b, name, "k")[0], "00")
    version = get(b, name, "k")[1]
    refused("timed-out", b, "wait_changed", table=name, key="k", version=version, timeout=0.01)
    refused("timed-out", b, "wait_changed", table=name, key="new", version=0, timeout=0.01)
    b.call("stats", table=name)
    b.call("each", table=name)
    equal("nothing was written", path_of(run, name).read_bytes() == content, True)
    for key, fields in (("k", {"key": "k", "version": version}), ("new", {"key": "new", "version": 0})):
        b.send("wait_changed", table=name, timeout=LONG, **fields)
        time.sleep(0.01)
        expected = a.call("put", table=name, key=key, value="01")["version"]
        equal("the change", b.receive()["version"], expected)
    copy = run.name("copy")
    equal("a snapshot", b.call("snapshot", table=name, path=copy)["keys"], 2)


def at_once(run, writer, reader, third):
    """One writer, and readers that read all the time by each verb: whole values, versions that never fall back."""
    a, b, c = run.peer(writer, 1), run.peer(reader, 2), run.peer(third, 3)
    for kind, how in (("integer", ("mix", "wait")), ("text", ("each", "read"))):
        name = attach(run, a, b, c, key=kind, capacity=20)
        a.call("writer", table=name, writer=name)
        for peer, way in zip((b, c), how):
            peer.send("get_many", table=name, how=way, until=5000, **MANY)
        a.send("put_many", writer=name, count=5000, **MANY)
        done, *readers = both(a, b, c, timeout=60)
        equal("puts", (done["count"], done["version"] >> 1), (5000, 5000))
        for reads in readers:
            equal("the last change", reads["version"], 5000)
        left = {key: value for key, (value, _) in seen_alike(name, a, b, c).items()}
        expected, _ = simulated(5000, 0, MANY)
        equal("the last values", left, expected if kind == "integer" else {f"key-{k}": v for k, v in expected.items()})


def many_checks(run, language):
    """put_many makes the values of PEER.md, under its keys. get_many finds a value that is not whole, that of another
    key, one that is shorter, and a key that is gone; it ends at its time."""
    a, b = run.peer(language, 1), run.peer(language, 2)
    named = {"integer": lambda k: k, "text": lambda k: f"key-{k}", "bytes": lambda k: k.to_bytes(8, "little").hex()}
    for kind, key in named.items():
        name = attach(run, a, b, key=kind, capacity=20)
        done = told(a, "put_many", table=name, first=5, count=30, remove=4, **MANY)
        expected, removed = simulated(30, 4, MANY, first=5)
        equal("counts", (done["count"], done["removed"]), (30, removed))
        equal(
            "keys and values", {k: v for k, (v, _) in items(b, name).items()}, {key(k): v for k, v in expected.items()}
        )
        for k in range(20):
            a.call("put", table=name, key=key(k), value=message(7, k, 8, 48, numbered=True)[1].hex())
        for how in ("get", "read", "entry", "each", "wait", "mix"):
            reads = told(b, "get_many", table=name, how=how, seconds=0.01, **MANY)
            above(f"{how}: reads", reads["reads"], 19)
            equal(f"{how}: absent, busy", (reads["absent"], reads["busy"]), (0, 0))
            answer = refused("timeout", b, "get_many", table=name, how=how, seconds=0.01, until=10**6, **MANY)
            for k, wrong in (
                (3, message(7, 23, 8, 48, numbered=True)[1][:-1] + b"\x99"),
                (3, message(8, 23, 8, 48, numbered=True)[1]),
                (3, message(7, 4, 8, 48, numbered=True)[1]),
                (3, b"\x03"),
            ):
                right = get(a, name, key(k))[0]
                a.call("put", table=name, key=key(k), value=wrong.hex())
                answer = refused("mismatch", b, "get_many", table=name, how=how, seconds=0.1, **MANY)
                true("the key, and what is wrong", "key" in answer and answer.get("what"), answer)
                a.call("put", table=name, key=key(k), value=right)
            b.send("get_many", table=name, how=how, seconds=5, **MANY)
            time.sleep(0.02)
            a.call("remove", table=name, key=key(3))
            try:
                raise Wrong(f"{how}: a removed key was not found: {b.receive()}")
            except Refused as e:
                equal(f"{how}: {e}", (e.code, e.answer.get("key")), ("mismatch", 3))
            reads = told(b, "get_many", table=name, how=how, seconds=0.01, removes=True, **MANY)
            above(f"{how}: absent", reads["absent"] + (how == "each"), 0)
            a.call("put", table=name, key=key(3), value=message(7, 3, 8, 48, numbered=True)[1].hex())


def versions_back(run, language):
    """get_many finds a version that falls back, and a version with two values (by stores into the file)."""
    a, b = run.peer(language, 1), run.peer(language, 2)
    for what in ("behind", "two puts"):
        name = attach(run, a, b, key="integer", capacity=20)
        a.call("put_many", table=name, count=60, **MANY)  # two values in each cell
        version = get(a, name, 0)[1]
        b.send("get_many", table=name, seconds=5, **MANY)
        time.sleep(0.05)
        os.kill(b.pid, signal.SIGSTOP)
        with open(path_of(run, name), "r+b") as file:  # key 0 lies in cell 0
            stride = struct.unpack("<q", os.pread(file.fileno(), 8, 96))[0]
            cells = struct.unpack("<q", os.pread(file.fileno(), 8, 136))[0]
            body = [cells + 64 + n * (stride - 64) // 2 for n in (0, 1)]
            if what == "behind":
                old = struct.unpack("<q", os.pread(file.fileno(), 8, body[1 - (version & 1)]))[0]
                os.pwrite(file.fileno(), struct.pack("<q", old), cells)
            else:
                value = message(7, 20, 8, 48, numbered=True)[1]
                put = struct.pack("<qiI", version, len(value), 0) + value
                os.pwrite(file.fileno(), put, body[version & 1])
        os.kill(b.pid, signal.SIGCONT)
        try:
            raise Wrong(f"{what}: not found: {b.receive()}")
        except Refused as e:
            equal(f"{what}: {e}", (e.code, e.answer.get("key")), ("mismatch", 0))
            true(what, what in e.answer["what"] or what == "two puts" and "not whole" in e.answer["what"], e.answer)


def two_writers(run, first, second, reader):
    """Two occasional writers of two languages, by single puts, and a reader: each change has its own number."""
    a, b, c = run.peer(first, 1), run.peer(second, 2), run.peer(reader, 3)
    name = attach(run, a, b, c, key="integer", capacity=20)
    c.send("get_many", table=name, how="mix", until=1000, **MANY)
    a.send("put_many", table=name, count=500, timeout=LONG, **MANY)
    b.send("put_many", table=name, count=500, first=10**6, timeout=LONG, **MANY)
    both(a, b, c, timeout=60)
    equal("changes", told(c, "size", table=name), {"size": 20, "version": 1000})
    mine, others = (simulated(500, 0, MANY, first=first)[0] for first in (0, 10**6))
    for key, (value, _) in seen_alike(name, a, b, c).items():
        true(f"the last value of one of them under {key}", value in (mine[key], others[key]), shorten(value))


MAKE = """
import json, sys
from flyring import Table
from flyring.sbe import Schema
golden = json.load(open(sys.argv[1]))
Table.create(
    sys.argv[2], capacity=10, key="text", schema=Schema.parse(golden["create"]["schema"]), message="PriceUpdate"
).close()
"""


def typed(run, first, second):
    """Values that are typed messages: the bytes of one language are the fields that `flyring table` shows, and those
    that it puts come as bytes to the other one."""
    a, b = run.peer(first, 1), run.peer(second, 2)
    golden = json.loads(pathlib.Path(f"{TYPED}.json").read_text(encoding="utf-8"))
    offered = [o["data"] for o in golden["operations"] if o["op"] == "offer"]
    prices = [(t["body"], data) for t, data in zip(golden["typed"], offered) if t["message"] == "PriceUpdate"]
    prices = [(body, data) for body, data in prices if len(data) == 2 * 70]
    true("messages", len(prices) > 1, golden["typed"])
    name = run.name("typed")
    path = str(path_of(run, name))
    made = subprocess.run([sys.executable, "-c", MAKE, f"{TYPED}.json", path], capture_output=True, text=True)
    equal(f"status ({made.stderr[-300:]})", made.returncode, 0)
    for peer in (a, b):
        peer.call("open", table=name, name=name)
    equal("the longest value", b.call("info", table=name)["value_bytes"], 70)
    for n, (body, data) in enumerate(prices):
        a.call("put", table=name, key=f"k{n}", value=data)
        equal("bytes", get(b, name, f"k{n}")[0], data)
        out, status, words = flyring("table", "get", path, f"k{n}")
        equal(f"status: {words}", status, 0)
        line = json.loads(out)
        equal("fields", line["message"], body)
        line["key"] = "copy"
        _, status, words = flyring("table", "load", path, given=json.dumps(line) + "\n")
        equal(f"status: {words}", status, 0)
        equal("bytes of the fields", get(b, name, "copy")[0], data)


def tests(languages):
    """Yields (title, function, arguments) of every test."""
    for language in languages:
        yield f"{language}: what put_many puts and get_many finds in a table", many_checks, language
        yield f"{language}: get_many finds versions of a table that fall back", versions_back, language
    for a, b in itertools.product(languages, repeat=2):
        c = after(languages, b, 1 if a != b else 2)
        yield f"table: {a} and {b} change, {c} reads", verbs, a, b, c
        yield f"table: a writer of {a}, single changes of {b}, {c} reads", held, a, b, c
        yield f"table: errors of {a}, in a table of {b}", errors, a, b
        yield f"table: {b} wakes {a}", woken, a, b
        yield f"table: {a} makes {b} and {c} read during rebuilds", rebuilt, a, b, c
        yield f"table: {b} may only read what {a} writes", read_only, a, b
        yield f"table: {a} writes while {b} and {c} read", at_once, a, b, c
        if b == after(languages, a):
            yield f"table: typed values of {a}, {b} reads", typed, a, b
        yield f"table: single puts of {a} and {b}, {c} reads", two_writers, a, b, c
