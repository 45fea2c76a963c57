#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests with foreign software: stock Agrona in its own JVM at one end of a channel (spec/channel.md 6.15) and on its
counters, and the plain-Python reader that was written from the specification.

    foreign.py [--logs FOLDER] [--quick] [--only TEXT] [--part K/N] [--languages cpp,java,python] [--peers FILE] [--jar FILE] [--java JAVA]

--quick: a small part of the messages. --only: the tests whose title contains TEXT. --part: every
N-th test, from number K on. --peers: another peers.toml."""

import argparse
import json
import pathlib
import select
import signal
import struct
import subprocess
import sys
import time

import cases_reader
from cases_reader import create
from driver import ROOT, Refused, commands
from harness import above, equal, part, refused, true, Run, Wrong

sys.path.insert(0, str(ROOT / "spec" / "golden"))
from simulation import crc32c  # noqa: E402

OPENS = "java.base/jdk.internal.misc=ALL-UNNAMED"  # Agrona 2 needs this on every JDK
INBOX = {"kind": "inbox", "publishers": 1, "subscribers": 1, "alignment": 8, "counters": 0}
# 140 000 of these are more than 2 GiB, where 32-bit arithmetic overflows. They end exactly at the ring's end, so a
# stock writer never reads the head again because of a wrap.
LARGE = {"min": 16376, "max": 16376}
LARGE_COUNT = 140_000
# Eight of these fill a ring of 4096 bytes, so each lap ends exactly at the ring's end.
EIGHTHS = {"min": 504, "max": 504}


class Stock:
    """The program of interop-tests/agrona. It attaches, and waits for `go`."""

    java, jar = "java", ""

    def __init__(self, run, *arguments):
        self.what = arguments[0]
        with open(run.logs / "agrona.stderr", "ab") as log:
            self.process = subprocess.Popen(
                [self.java, "-Xmx256m", "--add-opens", OPENS, "-jar", self.jar, *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.log = run.logs / "agrona.stderr"

    def __enter__(self):
        there, _, _ = select.select([self.process.stdout], [], [], 30)
        if not there or self.process.stdout.readline() != b"ready\n":
            self.process.kill()
            raise Wrong(f"agrona {self.what}: did not get ready, see {self.log}")
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def go(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def failed(self):
        """Returns why the program failed, or nothing. Explains errors of the other side."""
        if self.process.poll():
            raise Wrong(f"agrona {self.what}: status {self.process.returncode}: {self.log.read_text()[-300:]}")

    def result(self, timeout=20):
        try:
            out, _ = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise Wrong(f"agrona {self.what}: not done within {timeout} s") from None
        self.failed()
        return json.loads(out)


def word(path, offset):
    """Reads an i64 in the trailer of ring 0."""
    with open(path, "rb") as f:
        header = f.read(4096)
        capacity, rings = struct.unpack_from("<i", header, 72)[0], struct.unpack_from("<q", header, 136)[0]
        f.seek(rings + capacity + offset)
        return struct.unpack("<q", f.read(8))[0]


def agrona_publishes(run, language, stream, seconds, capacity=1 << 16):
    """Agrona writes a stream. Flyring verifies it, closes in between, and resumes at its position."""
    peer = run.peer(language)
    name, path = create(run, peer, **INBOX, foreign="publisher", capacity=capacity)
    peer.call("subscriber", channel=name, subscriber=name)
    with Stock(run, "publish", path, *[stream[k] for k in ("seed", "count", "min", "max")], seconds) as stock:
        peer.send(
            "verify_stream", subscriber=name, how="mix", seconds=seconds, streams=[{"ring": 0, "first": 0} | stream]
        )
        stock.go()
        verified = peer.receive(seconds + 10)
        published = stock.result()
    equal("published", published["count"], stream["count"])
    equal("verified", (verified["verified"], verified["count"]), (True, stream["count"]))
    positions = peer.call("positions", subscriber=name)["positions"]
    equal("the cursor, and the end of what was published", positions["0"], published["position"])
    equal(
        "Agrona's tail and head, and published",
        (word(path, 128), word(path, 384), word(path, 320)),
        (published["position"],) * 2 + (0,),
    )
    peer.call("close", subscriber=name)
    again = peer.call("subscriber", channel=name, subscriber=name + "again")
    equal("resumed", (again["slot"], again["positions"]), (0, positions))
    equal("ended", peer.call("ended", subscriber=name + "again", ring=0)["ended"], False)
    equal("nothing more", peer.call("take", subscriber=name + "again")["message"], None)
    if stream["count"] >= 10_000_000:
        above("position", published["position"], 1 << 31)
    return published["position"]


def agrona_reads(run, language, stream, seconds, capacity=1 << 16, how="read"):
    """Flyring publishes a stream, and Agrona verifies it. Then a stock writer takes the ring over and goes on. `how`:
    by read, or by controlledRead with a COMMIT of each message, which looks for a record at the begin of the
    trailer."""
    peer = run.peer(language)
    name, path = create(run, peer, **INBOX, foreign="subscriber", capacity=capacity)
    peer.call("publisher", channel=name, publisher=name, name="feed")
    with Stock(run, how, path, *[stream[k] for k in ("seed", "count", "min", "max")], seconds) as stock:
        peer.send("publish_stream", publisher=name, how="mix", seconds=seconds, first=0, **stream)
        time.sleep(0.05)  # time until it is held back
        stock.go()
        try:
            published = peer.receive(seconds + 10)
        except Refused:  # it was held back for too long
            stock.failed()
            raise
        read = stock.result()
    equal("published", published["count"], stream["count"])
    equal("read", read, {"count": stream["count"], "seconds": read["seconds"], "position": published["position"]})
    above("how often it was back-pressured", published["back_pressured"], 0)
    equal("the word behind the ring's data", word(path, 0), -1)
    tail, cached = word(path, 128), word(path, 256)
    true(f"0 <= tail - head cache <= {capacity}", 0 <= tail - cached <= capacity, f"{tail} - {cached}")
    holder = peer.call("held_by", publisher=name)["holder"]
    equal("held by", (holder["slot"], holder["live"]), (0, True))
    peer.call("close", channel=name)
    with open(path, "r+b") as f:
        header = bytearray(f.read(4096))
        struct.pack_into("<Q", header, 16, 2)
        struct.pack_into("<I", header, 4092, crc32c(header[:4092]))
        f.seek(0)
        f.write(header)
    peer.call("open", channel=name, name=name)
    peer.call("subscriber", channel=name, subscriber=name)
    following = {
        "seed": 99,
        "count": 20 * capacity // (stream["min"] + stream["max"]),
        "min": stream["min"],
        "max": stream["max"],
    }
    with Stock(run, "publish", path, *[following[k] for k in ("seed", "count", "min", "max")], 20) as stock:
        stock.go()
        time.sleep(0.3)  # a writer with an old head cache would overwrite unread messages now
        peer.call(
            "verify_stream",
            subscriber=name,
            seconds=20,
            within=30,
            how="poll",
            streams=[{"ring": 0, "first": 0} | following],
        )
        above("how often the stock writer was held back", stock.result()["back_pressured"], 0)
    if stream["count"] >= 10_000_000:
        above("position", published["position"], 1 << 31)
    return published["position"]


def across_2_gib(run, language, function):
    stream = {"seed": 7, "count": LARGE_COUNT} | LARGE
    position = function(run, language, stream, 120, 1 << 20)
    above("position", position, 1 << 31)


def not_possible(run, language):
    """Operations that 6.15 forbids are refused, and change nothing."""
    peer = run.peer(language)
    for end in ("publisher", "subscriber"):
        name, path = create(run, peer, **INBOX, foreign=end, capacity=4096)
        before = path.read_bytes()

        def no(op, **fields):
            answer = refused("invalid-argument", peer, op, **fields)
            equal(f"{op}: argument", answer.get("argument"), "foreign")

        no(end, channel=name, **{end: "x"})
        no("evict", channel=name, slot=0)
        if end == "publisher":
            no("lossy_subscriber", channel=name, subscriber="x")
            equal("unchanged", path.read_bytes() == before, True)
            peer.call("subscriber", channel=name, subscriber=name, name="mine")
            no("forget", subscriber=name)
        else:
            no("publisher", channel=name, publisher="x", max_lag=4096)
        above("the gate", word(path, 384), -1)
    for wrong in ({"kind": "broadcast"}, {"publishers": 2}, {"subscribers": 2}, {"alignment": 64}):
        name = run.name()
        refused("invalid-argument", peer, "create", channel=name, name=name, **INBOX | {"foreign": "publisher"} | wrong)


COUNTERS = (
    ("messages sent", 1, "", 0),
    ("größte Lücke in µs", -7, "01ff", -(2**63)),
    ("l" * 380, 2**31 - 1, bytes(range(112)).hex(), 2**63 - 1),
    ("freed", 2, "aa", 5),
    ("shared", 3, "", 0),
)


def counters(run, language, times):
    """Agrona sees the counters that Flyring allocated. Both increment one at the same time, and no increment is
    lost."""
    peer = run.peer(language)
    name, path = create(run, peer, kind="broadcast", publishers=1, subscribers=1, capacity=4096, counters=8)
    expected = []
    for label, type_id, key, value in COUNTERS:
        n = peer.call("counter_allocate", channel=name, label=label, type_id=type_id, key=key)["counter"]
        peer.call("counter_set", channel=name, counter=n, value=value, order="release")
        expected.append({"id": n, "type_id": type_id, "key": key.ljust(224, "0"), "label": label, "value": value})
    freed, shared = expected.pop(3), expected[-1]
    peer.call("counter_free", channel=name, counter=freed["id"])
    for _ in range(2):
        with Stock(run, "counters", path) as stock:
            stock.go()
            equal("what CountersReader sees", stock.result(), {"counters": expected, "max_id": 7})
        with Stock(run, "add", path, shared["id"], times) as stock:
            peer.send("counter_add", channel=name, counter=shared["id"], delta=1, times=times)
            peer.send("counter_cas_loop", channel=name, counter=shared["id"], times=times)
            stock.go()
            for _ in range(2):
                peer.receive(60)
            stock.result()
        shared["value"] += 3 * times
        value = peer.call("counter_get", channel=name, counter=shared["id"], order="volatile")["value"]
        equal("no increment is lost", value, shared["value"])


def all_count(run, languages, times):
    """Agrona and all languages increment one counter at the same time."""
    first = run.peer(languages[0])
    name, path = create(run, first, kind="broadcast", publishers=1, subscribers=1, capacity=4096, counters=1)
    n = first.call("counter_allocate", channel=name, label="all", type_id=1, key="")["counter"]
    peers = [run.peer(language) for language in languages]
    for peer in peers[1:]:
        peer.call("open", channel=name, name=name)
    with Stock(run, "add", path, n, times) as stock:
        stock.go()
        for peer in peers:
            peer.send("counter_add", channel=name, counter=n, delta=1, times=times)
        for peer in peers:
            peer.receive(60)
        stock.result()
    equal(
        "sum", first.call("counter_get", channel=name, counter=n, order="volatile")["value"], times * (len(peers) + 1)
    )


def tests(languages, quick):
    """Yields (title, function, arguments) of every test."""
    count, seconds = (300_000, 60) if quick else (10_000_000, 1500)
    stream = {"seed": 5, "count": count, "min": 0, "max": 100 if quick else 460}
    for language in languages:
        yield f"{language}: a foreign end rules out", not_possible, language
        yield f"Agrona publishes to {language}", agrona_publishes, language, stream, seconds
        yield f"{language} publishes to Agrona", agrona_reads, language, stream, seconds
        eighths = {"seed": 6, "count": count // 10} | EIGHTHS
        yield f"{language} publishes to Agrona, which commits", agrona_reads, language, eighths, seconds, 4096, "commit"
        if language != "python":  # Python's stream would take minutes; the full run crosses 2 GiB with every language
            yield f"Agrona publishes more than 2 GiB to {language}", across_2_gib, language, agrona_publishes
            yield f"{language} publishes more than 2 GiB to Agrona", across_2_gib, language, agrona_reads
        yield f"Agrona and {language} share counters", counters, language, 100_000 if quick else 1_000_000
        if cases_reader.POSSIBLE:
            # Python's publisher is slow. The others need only milliseconds, in which a busy machine may not run this
            # reader.
            lapped = (20_000 if language == "python" else 100_000) * (1 if quick else 10)
            yield f"the plain reader keeps up with {language}", cases_reader.keeps_up, language, 10 if quick else 100
            yield f"the plain reader is lapped by {language}", cases_reader.is_lapped, language, lapped
    yield "Agrona and everybody raise one counter", all_count, languages, 200_000
    if cases_reader.POSSIBLE:
        yield "the plain reader reads the golden files", cases_reader.reads_golden_files
    else:
        print("skipped: the plain reader, which needs x86-64 (spec/golden/reader.py says why)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=pathlib.Path, default=ROOT / "build" / "foreign-logs")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--part", type=part, default=slice(None), metavar="K/N")
    parser.add_argument("--languages")
    parser.add_argument("--peers", type=pathlib.Path, default=ROOT / "interop-tests" / "peers.toml")
    parser.add_argument("--jar", default=ROOT / "interop-tests" / "agrona" / "target" / "stock-agrona.jar")
    parser.add_argument("--java", default="java")
    options = parser.parse_args()
    known = commands(options.peers)
    Stock.java, Stock.jar = options.java, str(options.jar)
    if not pathlib.Path(Stock.jar).exists():
        sys.exit(f"{Stock.jar} is missing; build it: mvn -B -f interop-tests/agrona/pom.xml package")
    options.logs.mkdir(parents=True, exist_ok=True)
    for old in [*options.logs.glob("*-*.*"), *options.logs.glob("agrona.*")]:
        old.unlink()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    begin, run = time.monotonic(), Run(known, options.logs)
    try:
        languages = options.languages.split(",") if options.languages else list(known)
        for title, function, *arguments in list(tests(languages, options.quick))[options.part]:
            if options.only in title:
                run.test(title, function, *arguments)
    finally:
        run.end()
    for failure in run.failed:
        print(f"failed: {failure}")
    print(f"{time.monotonic() - begin:.0f} s; logs of the peers: {options.logs}")
    print(f"{run.passed} passed, {len(run.failed)} failed")
    return 0 if run.passed and not run.failed else 1


if __name__ == "__main__":
    sys.exit(main())
