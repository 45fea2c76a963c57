# SPDX-License-Identifier: Apache-2.0
"""Tests of journals (spec/journal.md) beyond appending and reading: writers and consumers that are killed, journals of
another boot, unlinked, made by two at once, or hostile. Run by pairs.py."""

import itertools
import os
import shutil
import struct
import time
import tomllib

from cases_journal import (
    CHECK,
    HEADER,
    LONG,
    MANY,
    SEGMENT,
    SMALL,
    attach,
    checks,
    flip,
    folder_of,
    plain,
    read_from,
    rest,
    segments,
    stats_alike,
    told,
)
from cases_table_life import crc32c
from driver import ROOT, Refused
from harness import above, after, equal, refused, true, Wrong
from stream import message

FOREIGN = "00112233-4455-4677-8899-aabbccddeeff"  # the id of another boot
CONTROL, SLOT = 4096, 4096 + 768
WORDS = {"published": 256, "claimed": 192, "checked": 272, "ready": 320, "synced": 384, "trimmed": 448}


def sent(first, count):
    return [message(7, i, 8, 300, numbered=True)[1].hex() for i in range(first, first + count)]


def data_of(messages):
    return [m["data"] for m in messages]


def killed(run, victim, heir, reader):
    """A writer is killed within a claim, with and without a helper, and at full speed. What its appends returned is
    there; the next writer, of another language, goes on with the next number, and a reader that followed misses
    nothing."""
    b, c = run.peer(heir, 1), run.peer(reader, 2)
    for how, helper in (("append", True), ("mix", False), ("many", None)):
        a, name = run.fresh(victim), attach(run, b, c)
        a.call("open", journal=name, name=name)
        c.call("reader", journal=name, reader=name)
        a.call("writer", journal=name, writer=name, name="feed", helper=bool(helper))
        if helper is None:
            a.send("append_stream", writer=name, count=10**9, how=how, **MANY)
            c.send("read_stream", reader=name, count=200, how="mix", **MANY)
            c.receive(LONG)
            a.kill()
            found, at = c.call("positions", reader=name)["number"], 200
        else:
            a.send("append_stream", writer=name, count=10**9, how=how, die_at=777, **MANY)
            a.dies()
            found, at = 777, 0
        stats = stats_alike(name, b, c, writing=False, writer="feed", pid=a.pid, helping=False)
        taken = told(b, "writer", journal=name, writer=name, name="heir", timeout=LONG, helper=False)
        equal("the next owner", (taken["epoch"], taken["recovery"]), (2, None))
        true("as many as were published", taken["number"] - stats["messages"] in range(9), (taken, stats["messages"]))
        if helper is None:
            true("all that was read", taken["number"] >= found, (taken, found))
        else:
            equal("number", taken["number"], found)
            equal("position", taken["position"], stats["published"])
        count = taken["number"]
        b.call("append_stream", writer=name, first=count, count=150, how="mix", **MANY)
        c.call("read_stream", reader=name, first=at, count=count + 150 - at, how="mix", within=LONG, **MANY)
        equal("the end", c.call("take", reader=name)["message"], None)
        for peer in (b, c):
            equal("all of it, again", data_of(read_from(peer, name)), sent(0, count + 150))
        b.call("close", writer=name)
        after_it = c.call("push", journal=name, data="aa", timeout=LONG)["position"]
        above("a push", after_it, taken["position"])
        equal("read", b.call("stats", journal=name)["stats"]["messages"], count + 151)


def consumer_killed(run, victim, heir, writer):
    """A consumer is killed while it looks at a message. The next owner of its name, of another language, gets that one
    and all behind it, and nothing is lost; no trim removes what it needs meanwhile."""
    b, c = run.peer(heir, 1), run.peer(writer, 2)
    for how in ("poll", "take"):
        a, name = run.fresh(victim), attach(run, b, c)
        a.call("open", journal=name, name=name)
        a.call("consumer", journal=name, consumer=name, name="ledger")
        c.call("writer", journal=name, writer=name)
        c.call("append_stream", writer=name, count=1200, how="mix", **MANY)
        c.call("sync", writer=name)
        refused("no-free-slot", b, "consumer", journal=name, consumer=name, name="ledger")
        a.send("read_stream", consumer=name, count=1200, how=how, die_at=600, **MANY)
        a.dies()
        one = stats_alike(name, b, c)["consumers"][0]
        equal("its name stays", (one["name"], one["live"], one["pid"]), ("ledger", False, a.pid))
        c.call("trim", journal=name, consumed=True)
        true("what it needs is there", segments(run, name)[0] <= one["position"], segments(run, name))
        place = told(b, "consumer", journal=name, consumer=name, name="ledger")
        equal("epoch and loss", (place["epoch"], place["lost"]), (2, 0))
        true("at most what one poll had", 600 - 256 <= place["number"] <= 600, place)
        if how == "take":
            equal("all taken ones", place["number"], 600)
        equal("goes on there", data_of(rest(b, name, consumer=name)), sent(place["number"], 1200 - place["number"]))
        equal("size", b.call("size", consumer=name)["size"], 0)


def copied(run, name, label):
    """A copy of a journal's folder. Returns its name."""
    copy = f"{name}-{label}"
    shutil.copytree(folder_of(run, name), folder_of(run, copy))
    return copy


def recovered(run, first, second, third):
    """A journal of another boot, whole, with an end that was not synced, torn, and with files that are gone: readers
    hand out what is proven, and consumers wait for the writer. Each language recovers a copy of it, and all report and
    keep the same; then another language goes on."""
    a, b, c = run.peer(first, 1), run.peer(second, 2), run.peer(third, 3)
    for what in ("whole", "not synced", "torn", "torn early", "the last segment is gone"):
        name = run.name("journal")
        a.call("create", journal=name, name=name, inject={"boot_id": FOREIGN}, **SMALL)
        a.call("consumer", journal=name, consumer=name, name="early")
        a.call("consumer", journal=name, consumer=name + "l", name="late")
        a.call("writer", journal=name, writer=name, helper=False)
        a.call("append_stream", writer=name, count=500, how="mix", **MANY)
        a.call("sync", writer=name)
        synced = told(a, "positions", writer=name)
        if what != "whole":
            a.call("append_stream", writer=name, first=500, count=700, how="mix", **MANY)
        whole = read_from(a, name)
        a.call("read_stream", consumer=name, count=100, how="take", **MANY)
        a.call("read_stream", consumer=name + "l", count=len(whole) - 3, how="poll", **MANY)
        for handle in (name, name + "l"):
            a.call("close", consumer=handle)
        a.call("close", writer=name, sync=False)
        a.call("close", journal=name)
        behind = [m for m in whole if m["number"] > synced["number"]]
        if what == "torn":
            flip(run, name, behind[len(behind) // 2]["position"] + 24, 0x80)
        elif what == "torn early":
            flip(run, name, behind[1]["position"], 1)
        elif what.startswith("the last"):
            (folder_of(run, name) / f"{segments(run, name)[-1]:019}.seg").unlink()
        copies, outcomes, readers = {}, {}, []
        for peer in (a, b, c):
            copy = copies[peer.label] = copied(run, name, peer.label)
            peer.call("open", journal=copy, name=copy)
            equal("of another boot", peer.call("stats", journal=copy)["stats"]["needs_recovery"], True)
            peer.call("reader", journal=copy, reader=copy)
            readers.append(rest(peer, copy))
            for op, fields in (
                ("consumer", {"consumer": copy, "name": "early"}),
                ("forget", {"name": "early"}),
                ("trim", {"consumed": True}),
            ):
                answer = refused("needs-recovery", peer, op, journal=copy, **fields)
                equal("path", os.path.realpath(answer["path"]).removesuffix("/control"), str(folder_of(run, copy)))
            outcomes[peer.label] = told(peer, "writer", journal=copy, writer=copy, name="heir", helper=False)
        report = outcomes[a.label]
        for peer, found in zip((a, b, c), readers):
            equal(f"{what}: what {peer.label} read before", found, readers[0])
            equal(f"{what}: the recovery of {peer.label}", outcomes[peer.label], report)
        proven, done = readers[0], report["recovery"]
        equal("what is proven", proven, whole[: len(proven)])
        equal("messages", (done["messages"], report["number"]), (len(proven), len(proven)))
        true("at least what was synced", len(proven) >= synced["number"], (len(proven), synced))
        if what == "whole":
            equal("nothing is lost", len(proven), len(whole))
        ends = [p + CHECK for p, _ in checks(run, name)]
        true("it goes up to the end of a check", done["position"] in ends, (done, ends))
        equal("reason, next", (done["reason"], report["position"]), (1, done["next"] + CHECK))
        names = [[p.name for p in sorted(folder_of(run, copy).iterdir())] for copy in copies.values()]
        equal("the same files", names[1:], names[:1] * 2)
        contents = [
            [(folder_of(run, copy) / n).read_bytes()[HEADER:] for n in names[0] if n != "control"]
            for copy in copies.values()
        ]
        equal("the same bytes", [one == contents[0] for one in contents], [True] * 3)
        heirs = [(a, b), (b, c), (c, a)]
        for peer, other in heirs:
            copy = copies[peer.label]
            equal("goes on", data_of(rest(peer, copy)), [])
            peer.call("append", writer=copy, data="aa")
            peer.call("close", writer=copy)
            other.call("open", journal=copy + "o", name=copy)
            following = plain([peer.call("take", reader=copy)["message"]])
            equal("the next one", (following[0]["number"], following[0]["data"]), (len(proven), "aa"))
            place = told(peer, "positions", reader=copy)
            equal("cuts and loss", (place["cuts"], place["lost"]), (1, 0))
            equal("the other one", read_from(other, copy + "o"), proven + following)
            place = told(other, "consumer", journal=copy + "o", consumer=copy, name="early")
            equal("early", (place["number"], place["lost"]), (100, 0))
            equal("its rest", rest(other, copy, consumer=copy), (proven + following)[100:])
            place = told(other, "consumer", journal=copy + "o", consumer=copy + "l", name="late")
            number = min(len(whole) - 3, len(proven))
            equal("late", (place["number"], place["lost"]), (number, 0))
            for gone in whole[len(proven) :][:5]:
                found = read_from(other, copy + "o", {"position": gone["position"]})
                equal("a position that was cut off", found, following)
            equal("no second one", told(other, "writer", journal=copy + "o", writer=copy)["recovery"], None)
            other.call("close", writer=copy)
            stats_alike(copy, peer, needs_recovery=False, failed=False, messages=len(proven) + 1)


def unlinked(run, first, second):
    """An unlinked journal: readers read what they have, and a new use is *no such channel*. A new journal of that name
    is another one. Two that create at once: one makes it, the other opens it."""
    a, b = run.peer(first, 1), run.peer(second, 2)
    name = attach(run, a, b)
    a.call("writer", journal=name, writer=name)
    a.call("append_stream", writer=name, count=20, **MANY)
    b.call("reader", journal=name, reader=name)
    equal("some", len(plain(b.call("poll", reader=name, limit=5)["messages"])), 5)
    refused("no-free-slot", b, "unlink", journal=True, name=name)
    a.call("close", writer=name)
    b.call("unlink", journal=True, name=name)
    true("no folder", not folder_of(run, name).exists(), name)
    for peer in (a, b):
        equal("successor", peer.call("stats", journal=name)["stats"]["successor"], 2)
        for op, fields in (
            ("writer", {"writer": name + "2"}),
            ("reader", {"reader": name + "2"}),
            ("consumer", {"consumer": name + "2", "name": "c"}),
            ("push", {"data": "00"}),
        ):
            refused("no-such-channel", peer, op, journal=name, **fields)
    for k in range(6):
        name = run.name("journal")
        for peer in (a, b):
            peer.send("open_or_create", journal=name, name=name, **SMALL)
        infos = [peer.receive() for peer in (a, b)]
        equal("the same one", infos[0]["journal_id"], infos[1]["journal_id"])
        for peer in (a, b):
            peer.send("push", journal=name, data=f"{k:02x}", timeout=LONG)
        positions = sorted(peer.receive()["position"] for peer in (a, b))
        found = read_from(b, name)
        equal("two messages", ([m["position"] for m in found], [m["number"] for m in found]), (positions, [0, 1]))
        for peer in (a, b):
            peer.send("unlink", journal=True, name=name)
        done = []
        for peer in (a, b):
            try:
                peer.receive()
                done.append("done")
            except Refused as e:
                done.append(e.code)
        equal("one unlinks it", sorted(done)[0], "done")
        true("the other finds none", set(done) <= {"done", "no-such-channel", "no-free-slot"}, done)
        if "no-free-slot" not in done:
            true("no folder", not folder_of(run, name).exists(), name)


def pushed(run, first, second, reader):
    """Two processes push at once, and a writer takes turns with them. Each message is there once, and numbers have no
    gap."""
    a, b, c = run.peer(first, 1), run.peer(second, 2), run.peer(reader, 3)
    name = attach(run, a, b, c)
    c.call("reader", journal=name, reader=name)
    mine = {peer: [] for peer in (a, b)}
    for k in range(60):
        for n, peer in enumerate((a, b)):
            data = struct.pack("<BI", n, k).hex()
            mine[peer].append(data)
            peer.send("push", journal=name, data=data, timeout=LONG)
        for peer in (a, b):
            peer.receive(LONG)
        if k % 20 == 10:
            c.call("writer", journal=name, writer=name, timeout=LONG)
            c.call("append", writer=name, data="ff")
            c.call("close", writer=name)
    found = rest(c, name)
    equal("numbers", [m["number"] for m in found], list(range(123)))
    for peer in (a, b):
        others = {d for other in mine if other is not peer for d in mine[other]} | {"ff"}
        equal("in order", [m["data"] for m in found if m["data"] not in others], mine[peer])
    stats_alike(name, a, b, c, messages=123, writing=False)


def patched(run, name, at, content, file="control"):
    with open(folder_of(run, name) / file, "r+b") as target:
        os.pwrite(target.fileno(), content, at)


def words(run, name):
    """The words of the control section that a writer goes by."""
    content = (folder_of(run, name) / "control").read_bytes()
    return {word: struct.unpack_from("<q", content, CONTROL + at)[0] for word, at in WORDS.items()}


def hostile(run, language):
    """Headers with one field changed, and words of the control section that no writer stores: a clear error, always the
    same."""
    a = run.peer(language)
    with open(ROOT / "spec" / "layout.toml", "rb") as file:
        layout = tomllib.load(file)
    fields = {
        name: (field["offset"], {"u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8}.get(field["type"]))
        for name, field in layout["journal_header"].items()
        if isinstance(field, dict)
    }
    for field, value, code in (
        ("major", 2, "version-too-new"),
        ("required_features", 1, "version-too-new"),
        ("header_length", 8192, "corrupt-header"),
        ("content", 2, "corrupt-header"),
        ("consumers", 1025, "corrupt-header"),
        ("segment_size", 100_000, "corrupt-header"),
        ("control_length", 4096 * 9, "corrupt-header"),
        ("schema_length", 2**24 + 1, "corrupt-header"),
        ("schema_id", 65536, "corrupt-header"),
    ):
        name = attach(run, a)
        header = bytearray((folder_of(run, name) / "control").read_bytes()[:HEADER])
        at, size = fields[field]
        header[at : at + size] = (value % 256**size).to_bytes(size, "little")
        header[4092:4096] = crc32c(header[:4092]).to_bytes(4, "little")
        patched(run, name, 0, bytes(header))
        answer = refused(code, a, "open", journal=name + "h", name=name)
        equal(f"{field}: named", answer.get("field"), field)
    name = attach(run, a)
    patched(run, name, 100, b"\x01")
    equal("crc", refused("corrupt-header", a, "open", journal=name + "h", name=name)["field"], "crc")
    name = attach(run, a)
    os.truncate(folder_of(run, name) / "control", 5000)
    refused("truncated", a, "open", journal=name + "h", name=name)
    for word, change in (
        ("published", lambda w: -64),
        ("published", lambda w: w["published"] + 8),
        ("published", lambda w: w["claimed"] + 64),
        ("claimed", lambda w: w["published"] + SEGMENT),
        ("checked", lambda w: w["published"] + 64),
        ("checked", lambda w: w["published"] - 64),  # a message
        ("checked", lambda w: -1),
    ):
        name = attach(run, a)
        a.call("writer", journal=name, writer=name, helper=False)
        a.call("append_stream", writer=name, count=30, **MANY)
        a.call("close", writer=name, sync=False)
        patched(run, name, CONTROL + WORDS[word], struct.pack("<q", change(words(run, name))))
        answer = refused("corrupt-journal", a, "writer", journal=name, writer=name)
        true("position and reason", isinstance(answer["position"], int) and answer["reason"], answer)
        true("the text has the reason", answer["reason"] in answer["message"], answer)
        refused("corrupt-journal", a, "push", journal=name, data="00")
    name = attach(run, a)
    a.call("writer", journal=name, writer=name, helper=False)
    a.call("append_stream", writer=name, count=600, **MANY)
    a.call("consumer", journal=name, consumer=name, name="c")
    a.call("close", consumer=name)
    gate = CONTROL + 1024 + 128
    for value in (-64, 7, 2**40, 128 + 8):
        patched(run, name, gate, struct.pack("<q", value))
        answer = refused("corrupt-journal", a, "consumer", journal=name, consumer=name, name="c")
        equal("position", answer["position"], value)
        a.call("sync", writer=name)
        equal("trim", a.call("trim", journal=name, consumed=True)["freed"], 0)
        stats = a.call("stats", journal=name)["stats"]["consumers"][0]
        equal("stats shows it", stats["position"], value)
    a.call("reader", journal=name, reader=name)
    begin = time.monotonic()
    patched(run, name, CONTROL + WORDS["published"], struct.pack("<q", 2**50))
    try:
        rest(a, name)
    except Refused as e:
        true(f"a clear error: {e}", e.code in ("corrupt-journal", "damaged"), e.code)
    true("a bounded read", time.monotonic() - begin < 2, time.monotonic() - begin)
    if a.call("positions", writer=name)["number"] != 600:
        raise Wrong("the writer's own count has changed")


def tests(languages):
    """Yields (title, function, arguments) of every test."""
    for a in languages:
        b, c = after(languages, a), after(languages, a, 2)
        yield f"{a}: journals that are hostile", hostile, a
        yield f"journal: {a} wrote it in another boot, {b} and {c} recover it", recovered, a, b, c
        yield f"journal: {a} and {b} make and unlink it", unlinked, a, b
        yield f"journal: {a} and {b} push, {c} reads", pushed, a, b, c
    for a, b in itertools.product(languages, repeat=2):
        c = after(languages, b, 1 if a != b else 2)
        yield f"journal: a writer of {a} is killed, {b} goes on, {c} reads", killed, a, b, c
        yield f"journal: a consumer of {a} is killed, {b} goes on, {c} appends", consumer_killed, a, b, c
