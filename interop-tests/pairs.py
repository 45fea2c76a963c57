#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cross-language tests: all ordered pairs of the languages of peers.toml, with a million messages each, and tests
in which one language continues where another one stopped.

    pairs.py [--logs FOLDER] [--quick] [--only TEXT] [--without TEXT] [--part K/N] [--languages cpp,java,python]
             [--peer LANGUAGE=COMMAND ...]

--quick: a tenth of the messages. --only, --without: the tests whose title contains TEXT, or not. --part: every N-th
test, from number K on. --languages: some of them. --peer: another program than that language's in peers.toml.
The last line is `N passed, N failed`; the exit status is 0 if none failed and some passed."""

import argparse
import itertools
import pathlib
import shlex
import signal
import sys
import time

import cases
import cases_death
import cases_errors
import cases_golden
import cases_golden_journal
import cases_golden_table
import cases_journal
import cases_journal_errors
import cases_journal_life
import cases_queue
import cases_service
import cases_service_life
import cases_stats
import cases_table
import cases_table_life
import cases_typed
import cases_waiting
from driver import ROOT, both, commands
from harness import Run, equal, part

# The parts of a pair's million: alignment, capacity, how it is published and read, count, largest payload
STREAMS = (
    (64, 1 << 20, "mix", "mix", 400_000, 256, {}),
    (8, 1 << 20, "offer", "poll", 300_000, 256, {}),
    (8, 1 << 16, "batch", "poll", 200_000, 256, {"type": 9}),
    (64, 1 << 14, "claim", "take", 99_000, 256, {}),
    (64, 1 << 16, "mix", "mix", 500, (1 << 14) - 8, {}),
    (8, 1 << 16, "mix", "poll", 500, (1 << 14) - 8, {}),
)


def pair(run, writer, reader, share):
    """One writer, one reader, one ring: runs every stream of STREAMS, and verifies every byte. Returns (messages,
    seconds)."""
    a, b = run.peer(writer, 1), run.peer(reader, 2)
    messages = seconds = 0
    for n, (alignment, capacity, how, reading, count, largest, kind) in enumerate(STREAMS):
        count, name = max(count // share, 50), run.name()
        creator, opener = (a, b) if n % 2 else (b, a)
        creator.call(
            "create",
            channel=name,
            name=name,
            kind="broadcast",
            publishers=1,
            subscribers=1,
            counters=0,
            capacity=capacity,
            alignment=alignment,
        )
        opener.call("open", channel=name, name=name)
        a.call("publisher", channel=name, publisher=name)
        b.call("subscriber", channel=name, subscriber=name)
        stream = {"seed": n + 10 * run.names, "count": count, "min": 0, "max": largest, "first": n * 1000} | kind
        begin = time.monotonic()
        b.send("verify_stream", subscriber=name, streams=[{"ring": 0} | stream], how=reading, seconds=100)
        a.send("publish_stream", publisher=name, how=how, seconds=100, **stream)
        verified, published = both(b, a, timeout=110)
        seconds += time.monotonic() - begin
        messages += count
        equal("published", published["count"], count)
        equal("verified", (verified["verified"], verified["count"]), (True, count))
        equal("nothing more", b.call("take", subscriber=name)["message"], None)
        equal(
            "the cursor",
            b.call("positions", subscriber=name)["positions"]["0"],
            a.call("positions", publisher=name)["position"],
        )
        a.call("close", channel=name)
        b.call("close", channel=name)
    return messages, seconds


def tests(languages, share):
    """Yields (title, function, arguments) of every test."""

    def after(language):
        return languages[(languages.index(language) + 1) % len(languages)]

    pairs = list(itertools.product(languages, repeat=2))
    for language in languages:
        yield f"{language}: requests that make no sense", cases_errors.bad_requests, language
        yield f"{language}: socket and quit", cases_errors.socket_and_quit, language
        yield f"{language}: options and names that are refused", cases_errors.bad_options, language
        yield f"{language}: files that are refused", cases_errors.bad_files, language
        yield f"{language}: uses that are refused", cases_errors.bad_uses, language
        yield f"{language}: slots taken away", cases_errors.slots_taken_away, language
        yield f"{language}: corrupt rings", cases_errors.bad_rings, language
        yield f"{language}: a ring of nothing but padding", cases_errors.nothing_but_padding, language
        yield f"{language}: writes the golden files", cases_golden.written, language
        yield f"{language}: reads the golden files", cases_golden.read, language
        yield f"{language}: writes the golden files of tables", cases_golden_table.written, language
        yield f"{language}: reads the golden files of tables", cases_golden_table.read, language
        yield f"{language}: writes the golden files of journals", cases_golden_journal.written, language
        yield f"{language}: reads the golden files of journals", cases_golden_journal.read, language
        yield f"{language}: writes into files of newer versions", cases_golden.newer_written, language
        yield f"{language}: makes and verifies the stream of PEER.md", cases.the_stream_is_the_same, language
        yield f"{language}: numbered streams", cases.numbered_streams, language
        yield f"{language}: a busy reader ends when its time is over", cases.busy, language
        yield f"{language}: dies where it was told to", cases.told_to_die, language
    for a, b in pairs:
        yield f"{b} replaces what {a} made", cases.replaced, a, b
        yield f"{b} holds {a} back, dies, is retired", cases.held_back, a, b, after(b)
        yield f"{a} hands a publisher's name to {b}", cases.name_handed_over, a, b, after(b)
        yield f"{a} is killed in a claim, {b} goes on", cases.killed_in_a_claim, a, b, after(b)
        yield f"{a} is killed while it publishes, {b} goes on", cases.killed_while_publishing, a, b, after(b)
    yield from cases_death.tests(languages)
    yield from cases_stats.tests(languages)
    yield from cases_waiting.tests(languages)
    yield from cases_queue.tests(languages)
    yield from cases_service.tests(languages)
    yield from cases_service_life.tests(languages)
    yield from cases_table.tests(languages)
    yield from cases_table_life.tests(languages)
    yield from cases_journal.tests(languages)
    yield from cases_journal_errors.tests(languages)
    yield from cases_journal_life.tests(languages)
    yield from cases_typed.tests(languages, 50_000 // share)
    for a, b in pairs:
        yield f"stream from {a} to {b}", pair, a, b, share


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=pathlib.Path, default=ROOT / "build" / "interop-logs")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--without")
    parser.add_argument("--part", type=part, default=slice(None), metavar="K/N")
    parser.add_argument("--languages")
    parser.add_argument("--peer", action="append", default=[], metavar="LANGUAGE=COMMAND")
    options = parser.parse_args()
    known = commands()
    known |= {name: shlex.split(command) for name, _, command in (other.partition("=") for other in options.peer)}
    languages = options.languages.split(",") if options.languages else list(known)
    options.logs.mkdir(parents=True, exist_ok=True)
    for old in options.logs.glob("*-*.*"):
        old.unlink()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    begin, rates = time.monotonic(), {}
    run = Run(known, options.logs)
    try:
        for title, function, *arguments in list(tests(languages, 10 if options.quick else 1))[options.part]:
            if options.only in title and (options.without is None or options.without not in title):
                result = run.test(title, function, *arguments)
                if function is pair:
                    rates[arguments[0], arguments[1]] = result
    finally:
        run.end()
    if rates:
        print(f"\n{'from':10}{'to':10}{'messages':>12}{'seconds':>10}{'messages/s':>13}")
        for (a, b), result in rates.items():
            print(
                f"{a:10}{b:10}"
                + (f"{result[0]:12}{result[1]:10.2f}{result[0] / result[1]:13.0f}" if result else f"{'failed':>12}")
            )
    for failure in run.failed:
        print(f"failed: {failure}")
    print(f"{time.monotonic() - begin:.0f} s; logs of the peers: {options.logs}")
    print(f"{run.passed} passed, {len(run.failed)} failed")
    return 0 if run.passed and not run.failed else 1


if __name__ == "__main__":
    sys.exit(main())
