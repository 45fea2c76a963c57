# SPDX-License-Identifier: Apache-2.0
"""Tests of the errors of journals (spec/api.md, "Journal"): the code, the text, and what each carries. Run by
pairs.py."""

import itertools
import os

from cases_journal import (
    LONG,
    SEGMENT,
    SMALL,
    attach,
    folder_of,
    read_from,
    told,
)
from driver import Refused
from harness import equal, refused, true, Wrong


def errors(run, language, other):
    """Each error of a journal, with what it carries."""
    a, b = run.peer(language, 1), run.peer(other, 2)
    name = attach(run, b, a, schema="<s/>", schema_id=4, schema_version=2)
    path = os.path.realpath(folder_of(run, name))

    def at_path(answer):
        found = os.path.realpath(answer["path"])
        true("the path", found in (path, path + "/control"), found)
        true("the text names it", name in answer["message"], answer["message"])

    at_path(refused("exists", a, "create", journal=name + "x", name=name, **SMALL))
    options = SMALL | {"sync": "never", "max_age": 0, "max_size": 0, "trim_consumed": False, "content": 0}
    options |= {"schema": "<s/>", "schema_id": 4, "schema_version": 2}
    a.call("open_or_create", journal=name + "y", name=name, **options)
    for field, value, named in (
        ("segment_size", 2 * SEGMENT, ("131072", "65536")),
        ("consumers", 4, ("4", "3")),
        ("content", 1, ("recording", "messages")),
        ("sync", "each", ("each", "never")),
        ("sync", 5_000_000, ("5000000 ns", "never")),
        ("max_age", 7_000_000_000, ("7000000000", "0")),
        ("max_size", 1 << 20, ("1048576", "0")),
        ("trim_consumed", True, ("true", "false")),
        ("schema_id", 5, ("5", "4")),
        ("schema_version", 3, ("3", "2")),
    ):
        for peer in (a, b):
            answer = refused(
                "differs", peer, "open_or_create", journal=name + "z", name=name, **options | {field: value}
            )
            equal("field", answer["field"], field)
            equal(f"{field}: expected and actual", (answer["expected"], answer["actual"]), named)
    a.call("open_or_create", journal=name + "z", name=name, schema="<s/>", schema_id=4, schema_version=1)
    refused("differs", a, "open", journal=name + "z", name=name, min_schema_version=3)
    for wrong, argument in (
        ({"segment_size": 32768}, "segment_size"),
        ({"segment_size": 100_000}, "segment_size"),
        ({"segment_size": 2**31}, "segment_size"),
        ({"consumers": -1}, "consumers"),
        ({"consumers": 1025}, "consumers"),
        ({"sync": 999_999}, "sync"),
        ({"sync": 3_600_000_000_001}, "sync"),
        ({"max_age": -1}, "max_age"),
        ({"max_size": -1}, "max_size"),
        ({"mode": 0o1777}, "mode"),
        ({"schema": "", "schema_id": 3}, "schema_id"),
        ({"schema": "<s/>", "schema_id": 65536}, "schema_id"),
    ):
        answer = refused("invalid-argument", a, "create", journal=name + "w", name=run.name(), **SMALL | wrong)
        if "argument" in answer:
            equal(f"{wrong}: argument", answer["argument"], argument)
    a.call("writer", journal=name, writer=name, name="feed", helper=False)
    owners = [{"slot": 0, "name": "feed", "pid": a.pid}]
    for peer, op, fields in (
        (b, "writer", {"writer": name + "2"}),
        (b, "writer", {"writer": name + "2", "timeout": 0.02}),
        (b, "push", {"data": "00", "timeout": 0}),
        (b, "push", {"data": "00", "timeout": 0.02}),
    ):
        answer = refused("no-free-slot", peer, op, journal=name, **fields)
        equal(f"{op}: carried", [answer[f] for f in ("kind", "slots", "owners")], ["writer", 1, owners])
        true("the text names the owner", "feed" in answer["message"] and str(a.pid) in answer["message"], answer)
    answer = refused("no-free-slot", b, "unlink", journal=True, name=name)
    equal("carried", [answer[f] for f in ("kind", "slots", "owners")], ["writer", 1, owners])
    answer = refused("busy", a, "push", journal=name, data="00", timeout=LONG)
    true("no holder", answer.get("holder") is None, answer)
    most = SEGMENT // 4 - 16
    for op, fields in (
        ("append", {"data": "00" * (most + 1)}),
        ("append_many", {"data": ["00", "00" * (most + 1)]}),
        ("claim", {"length": most + 1}),
    ):
        answer = refused("too-large", a, op, writer=name, **fields)
        equal(f"{op}: length and limit", (answer["length"], answer["limit"]), (most + 1, most))
    for op, fields in (("append", {"data": "00"}), ("append_many", {"data": ["00"]}), ("claim", {"length": 1})):
        answer = refused("invalid-argument", a, op, writer=name, type=0, **fields)
        equal(f"{op}: argument", answer["argument"], "type")
    equal("nothing was appended", told(a, "positions", writer=name)["number"], 0)
    a.call("append", writer=name, data="00" * most)
    a.call("append", writer=name, data="00" * most, type=3)
    equal("types", [m["type"] for m in read_from(b, name)], [65536, 3])
    a.call("close", writer=name)
    answer = refused("too-large", a, "push", journal=name, data="00" * (most + 1))
    equal("length and limit", (answer["length"], answer["limit"]), (most + 1, most))
    equal("argument", refused("invalid-argument", a, "push", journal=name, data="00", type=0)["argument"], "type")
    for start in ({"position": 8}, {"position": 2**40}, {"number": 3}, {"position": -64}, {"number": -1}):
        for peer in (a, b):
            answer = refused("invalid-argument", peer, "reader", journal=name, reader=name, start=start)
            equal(f"{start}: argument", answer["argument"], "start")
    a.call("reader", journal=name, reader=name, start={"number": 2})
    equal("argument", refused("invalid-argument", a, "seek", reader=name, start={"number": 3})["argument"], "start")
    for ahead in (-1, 2000):
        answer = refused("invalid-argument", a, "writer", journal=name, writer=name + "2", ahead=ahead)
        equal("argument", answer["argument"], "ahead")
    for wrong in ("a b", "n" * 65):
        answer = refused("invalid-argument", a, "writer", journal=name, writer=name + "2", name=wrong)
        equal("argument", answer["argument"], "name")
    a.call("open", journal=name + "r", name=name, read_only=True)
    equal("read-only", len(read_from(a, name + "r")), 2)
    for op, fields in (
        ("writer", {"writer": name + "2"}),
        ("consumer", {"consumer": name + "2", "name": "c"}),
        ("push", {"data": "00"}),
        ("forget", {"name": "c"}),
        ("trim", {"consumed": True}),
        ("change", {"max_size": 0}),
    ):
        at_path(refused("access-denied", a, op, journal=name + "r", **fields))
    refused("no-such-channel", a, "open", journal=name + "no", name=name + "no")
    refused("no-such-channel", a, "unlink", journal=True, name=name + "no")
    answer = refused("timed-out", a, "open", journal=name + "no", name=name + "no", timeout=0.01)
    true("what the verb waited for", answer.get("what_for"), answer)
    foreign = run.folder / f"{run.name('folder')}.journal"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("mine")
    refused("not-a-channel", a, "create", journal=name + "f", name=str(foreign), **SMALL)
    (foreign / "notes.txt").rename(foreign / "control")
    refused("not-a-channel", a, "open", journal=name + "f", name=str(foreign))
    refused("not-a-channel", a, "unlink", journal=True, name=str(foreign))
    true("nothing was removed", (foreign / "control").exists(), foreign)
    a.call("close", journal=name)
    refused("closed", a, "take", reader=name)
    for op, fields in (("writer", {"writer": name + "2"}), ("reader", {"reader": name + "2"}), ("stats", {})):
        try:
            answer = a.call(op, journal=name, **fields)
            raise Wrong(f"{op} of a closed journal answered {answer}")
        except Refused as e:
            true(f"{op}: {e}", e.code in ("closed", "bad-request"), e.code)


def tests(languages):
    """Yields (title, function, arguments) of every test."""
    for a, b in itertools.product(languages, repeat=2):
        yield f"journal: errors of {a}, in a journal of {b}", errors, a, b
