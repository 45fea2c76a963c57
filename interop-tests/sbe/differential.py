# SPDX-License-Identifier: Apache-2.0
"""Python's SBE against sbe-tool: python differential.py [SCHEMA...] [--random N] [--seed S] [--long].

Tests every schema file of schemas/, or the named ones, and N random ones. README.md describes the comparison.
The last line is "N passed, N failed": one for each schema and direction.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import compare
import flyweights
import model
import versions
from server import JAR, SbeToolError, Server
from values import Described, Maker, Values

from flyring.sbe import Schema, SchemaError, SchemaWarning, from_dict, to_dict

HERE = Path(__file__).resolve().parent
SCHEMAS = HERE / "schemas"
REFUSED = "refused"


class Run:
    def __init__(self, server: Server, folder: Path, seed: str, messages: int) -> None:
        self.server, self.folder, self.seed, self.messages = server, folder, seed, messages
        self.passed = self.failed = 0

    def check(self, what: str, work: Callable[[], object]) -> None:
        try:
            result = work()
        except Exception as error:
            self.failed += 1
            print(f"FAIL {what} (--seed {self.seed})\n     {type(error).__name__}: {error}", flush=True)
            if not isinstance(error, (compare.Different, SbeToolError, Inside)):
                traceback.print_exc(file=sys.stdout)
        else:
            self.passed += 1
            print(f"ok   {what}{'' if result is None else f' ({result})'}", flush=True)


class Inside(Exception):
    """A failure, with its message and values."""


class Side:
    """One version of a schema, on both sides."""

    def __init__(self, run: Run, python: Schema, java: dict[str, Any]) -> None:
        self.run, self.schema = run, python
        self.handle: int = java["handle"]
        self.described: Described = java["schema"]
        for message in self.described["messages"]:
            message["header_length"] = self.described["header"]["length"]
        self.messages = {message["name"]: message for message in self.described["messages"]}
        self.generated: str | None = java.get("not_generated")
        self.buffer = bytearray(flyweights.ROOM)

    def python_encodes(self, name: str, values: Values) -> bytes:
        self.buffer[:] = bytes(len(self.buffer))  # because offsets and block lengths leave gaps
        return flyweights.encode(self.schema.messages[name], self.messages[name], values, self.buffer)

    def python_decodes(self, data: bytes, name: str, whole: bool = True) -> Values:
        """Decodes with Python. ``whole``: this version knows the complete message, not only its first part."""
        with self.schema.messages[name].decode(data) as message:
            values = flyweights.decode(message, self.messages[name])
            if whole:
                compare.expect("encoded_length", message.encoded_length, len(data))
            return values

    def java_encodes(self, name: str, values: Values) -> bytes:
        answer = self.run.server.ask("encode", handle=self.handle, message=name, values=values)
        return bytes.fromhex(answer["bytes"])

    def java_decodes(self, data: bytes, name: str, version: int, whole: bool = True) -> Values:
        answer = self.run.server.ask("decode", handle=self.handle, bytes=data.hex())
        compare.expect("message that Java sees", answer["message"], name)
        if whole:
            compare.expect("length that Java reads", answer["length"], len(data))
        return compare.from_java(answer["values"], self.messages[name], version)

    def printed(self, data: bytes) -> str:
        text: str = self.run.server.ask("print", handle=self.handle, bytes=data.hex())["json"]
        return text

    def cases(self, label: str) -> Iterator[tuple[str, Values]]:
        maker = Maker(f"{self.run.seed} {label}")
        for message in self.described["messages"]:
            for _ in range(self.run.messages):
                yield message["name"], maker.message(message)


def each(cases: Iterator[tuple[str, Values]], work: Callable[[str, Values], None]) -> str:
    count = 0
    for name, values in cases:
        try:
            work(name, values)
        except Exception as error:
            text = f"{name}: {type(error).__name__}: {error}\n     of the values {compare.shortened(values)}"
            if not isinstance(error, (compare.Different, SbeToolError)):
                text += "\n" + traceback.format_exc()
            raise Inside(text) from error
        count += 1
    return f"{count} messages"


def load(run: Run, path: Path, version: int | None = None) -> dict[str, Any]:
    return run.server.ask("load", path=str(path), **({} if version is None else {"version": str(version)}))


def test(run: Run, path: Path, label: str) -> None:
    if path.parent.name == REFUSED:
        run.check(f"{label}: refused by both", lambda: refused_by_both(run, path))
        return
    sides: list[Side] = []

    def loaded() -> str:
        java = load(run, path)
        python = Schema.load(path)
        model.compare(python.model, java["schema"])
        sides.append(Side(run, python, java))
        return f"{len(python.model.messages)} kinds of messages"

    run.check(f"{label}: the same offsets, lengths, limits and null values", loaded)
    if not sides:
        return
    side = sides[0]
    if side.generated is not None:
        run.check(f"{label}: sbe-tool's codecs", lambda: (_ for _ in ()).throw(SbeToolError(str(side.generated))))
        return
    both_ways(run, side, label)
    text = side.schema.text
    for version in versions.versions(text):
        if not versions.appended(text, version):
            print(f"     {label}: no version {version}, as newer fields stand before older ones")
            continue
        evolution(run, side, path, text, version, label)


def refused_by_both(run: Run, path: Path) -> None:
    try:
        load(run, path)
    except SbeToolError:
        pass
    else:
        raise compare.Different("expected that both refuse it, found that sbe-tool takes it")
    try:
        Schema.load(path)
    except SchemaError:
        return
    raise compare.Different("expected that both refuse it, found that Python takes it")


def both_ways(run: Run, side: Side, label: str) -> None:
    version = side.schema.version

    def to_java(name: str, values: Values) -> None:
        data = side.python_encodes(name, values)
        compare.first_difference(side.java_decodes(data, name, version), values)

    def to_python(name: str, values: Values) -> None:
        data = side.java_encodes(name, values)
        compare.first_difference(side.python_decodes(data, name), values)

    def same_bytes(name: str, values: Values) -> None:
        ours, theirs = side.python_encodes(name, values), side.java_encodes(name, values)
        compare.expect("bytes", ours.hex(), theirs.hex())

    def json(name: str, values: Values) -> None:
        data = side.java_encodes(name, values)
        cls = side.schema.messages[name]
        with cls.decode(data) as message:
            form = to_dict(message)
        if compare.printer_reads(side.messages[name]):
            compare.printed(side.printed(data), form, side.messages[name], version)
        compare.expect("bytes of from_dict(to_dict())", from_dict(cls, form).hex(), data.hex())

    run.check(f"{label}: Python encodes, Java decodes", lambda: each(side.cases(label), to_java))
    run.check(f"{label}: Java encodes, Python decodes", lambda: each(side.cases(label + " back"), to_python))
    run.check(f"{label}: both encode the same bytes", lambda: each(side.cases(label + " bytes"), same_bytes))
    run.check(f"{label}: to_dict is what the JSON printer prints", lambda: each(side.cases(label + " json"), json))


def evolution(run: Run, new: Side, path: Path, text: str, version: int, label: str) -> None:
    """Messages of an older version and this one: one language writes, and the other reads with the other version."""
    old: list[Side] = []

    def loaded() -> None:
        older = run.folder / f"{path.stem}-{version}.xml"
        older.write_text(versions.older(text, version), "utf-8")
        java, python = load(run, older), Schema.load(older)
        model.compare(python.model, java["schema"])
        transformed = load(run, path, version)["schema"]
        compare.first_difference(versions.comparable(java["schema"]), versions.comparable(transformed))
        old.append(Side(run, python, java))

    run.check(f"{label}: as of version {version}", loaded)
    if not old:
        return
    then = old[0]

    def widened(name: str, values: Values) -> Values:
        return versions.widened(values, then.messages[name], new.messages[name], version)

    def narrowed(name: str, values: Values) -> Values:
        return versions.narrowed(values, then.messages[name])

    def readable(cases: Iterator[tuple[str, Values]]) -> Iterator[tuple[str, Values]]:
        names = {name for name, old in then.messages.items() if versions.readable(old, new.messages[name])}
        return ((name, values) for name, values in cases if name in names)

    def old_python_to_new_java(name: str, values: Values) -> None:
        data = then.python_encodes(name, values)
        compare.first_difference(new.java_decodes(data, name, version), widened(name, values))

    def old_java_to_new_python(name: str, values: Values) -> None:
        data = then.java_encodes(name, values)
        compare.first_difference(new.python_decodes(data, name), widened(name, values))
        if not compare.printer_reads(new.messages[name]):
            return
        with new.schema.messages[name].decode(data) as message:
            compare.printed(new.printed(data), to_dict(message), new.messages[name], version)

    def new_python_to_old_java(name: str, values: Values) -> None:
        data = new.python_encodes(name, values)
        compare.first_difference(then.java_decodes(data, name, version, whole=False), narrowed(name, values))

    def new_java_to_old_python(name: str, values: Values) -> None:
        data = new.java_encodes(name, values)
        compare.first_difference(then.python_decodes(data, name, whole=False), narrowed(name, values))

    def both(work: Callable[[str, Values], None], cases: Iterator[tuple[str, Values]]) -> Callable[[], str]:
        return lambda: each(cases, work)

    now, before = f"{label} new {version}", f"{label} old {version}"
    run.check(f"{label}: Python of version {version}, Java now", both(old_python_to_new_java, then.cases(before)))
    run.check(f"{label}: Java of version {version}, Python now", both(old_java_to_new_python, then.cases(before)))
    run.check(f"{label}: Python now, Java of version {version}", both(new_python_to_old_java, readable(new.cases(now))))
    run.check(f"{label}: Java now, Python of version {version}", both(new_java_to_old_python, readable(new.cases(now))))


def at_random(run: Run, count: int) -> None:
    """Tests ``count`` random schemas. Skips those for which sbe-tool generates code that javac refuses."""
    from random_schemas import random_schema  # imported here, because it needs hypothesis

    tested = 0
    for i in range(10 * count):
        if tested == count:
            return
        path = run.folder / f"random-{i}.xml"
        path.write_text(random_schema(f"{run.seed} {i}"), "utf-8")
        if "not_generated" in load(run, path):
            print(f"     {path.name}: another is drawn, as the codecs that sbe-tool generates of it cannot be compiled")
            continue
        tested += 1
        before = run.failed
        test(run, path, path.name)
        if run.failed > before:
            print(path.read_text("utf-8"))
    run.check("random schemas", lambda: compare.expect("how many could be drawn", tested, count))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schemas", nargs="*", type=Path, metavar="SCHEMA", help="default: all of schemas/")
    parser.add_argument("--random", type=int, metavar="N", help="random schemas (default: 3; --long: 60)")
    parser.add_argument("--seed", help="of the random values and schemas (default: 1; --long: another each time)")
    parser.add_argument("--messages", type=int, help="of each kind and direction (default: 6; --long: 100)")
    parser.add_argument("--long", action="store_true", help="some minutes")
    parser.add_argument("--jar", type=Path, default=HERE / "target" / JAR)
    options = parser.parse_args()
    seed = options.seed or (str(random.SystemRandom().randrange(10**9)) if options.long else "1")
    count = options.random if options.random is not None else 0 if options.schemas else 60 if options.long else 3
    warnings.simplefilter("ignore", SchemaWarning)
    started = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="flyring-sbe-"))
    server = Server(options.jar, folder)
    try:
        run = Run(server, folder, seed, options.messages or (100 if options.long else 6))
        for path in options.schemas or sorted([*SCHEMAS.glob("*.xml"), *SCHEMAS.glob(f"{REFUSED}/*.xml")]):
            test(run, path.resolve(), f"{path.parent.name}/{path.name}")
        if count:
            at_random(run, count)
    finally:
        server.close()
        shutil.rmtree(folder)
    print(f"seed {seed}, {time.monotonic() - started:.0f} s")
    print(f"{run.passed} passed, {run.failed} failed")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
