# SPDX-License-Identifier: Apache-2.0
"""Common parts of the cross-language tests: peers that run from test to test, channels that are closed after each test,
checks, and the list of tests with their outcomes."""

import itertools
import math
import os
import pathlib
import shutil
import tempfile
import time
import traceback

from driver import Peer, PeerFailed, Refused


DISK = "FLYRING_JOURNALS"  # the environment variable that names `Run.disk`


class Wrong(Exception):
    """A result differs from the specification."""


class Skip(Exception):
    """The test cannot be run here; the text says why."""


def equal(what, found, expected):
    if found != expected:
        raise Wrong(f"{what}: expected {shorten(expected)}, found {shorten(found)}{first_difference(found, expected)}")


def above(what, found, least):
    if not found > least:
        raise Wrong(f"{what}: expected more than {shorten(least)}, found {shorten(found)}")


def true(expected, condition, found):
    """Checks a condition. `expected`: the condition in words; `found`: the value that it is about."""
    if not condition:
        raise Wrong(f"expected: {expected}; found: {shorten(found)}")


def shorten(value):
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + "..."


def first_difference(found, expected):
    """Describes the first difference of two lists, whose shortened forms in `equal` may look the same."""
    if not isinstance(found, list) or not isinstance(expected, list):
        return ""
    pairs = itertools.zip_longest(found, expected, fillvalue="nothing")
    n, (one, other) = next((n, pair) for n, pair in enumerate(pairs) if pair[0] != pair[1])
    counts = f"{len(expected)} and {len(found)} elements" if len(found) != len(expected) else f"{len(found)} elements"
    return f" ({counts}; element {n}: expected {shorten(other)}, found {shorten(one)})"


def after(languages, language, n=1):
    """The n-th one behind it, in a round."""
    return languages[(languages.index(language) + n) % len(languages)]


def shared(run, base, options, first, *others):
    """A channel that the first peer makes and the others open, each once; its name, which is the handle of all."""
    name = run.name(base)
    first.call("create", channel=name, name=name, **options)
    for peer in {id(peer): peer for peer in others if peer is not first}.values():
        peer.call("open", channel=name, name=name)
    return name


def part(text):
    """Parses K/N, the value of --part. Returns the slice: every N-th test from number K on, counted from 0."""
    k, _, n = text.partition("/")
    return slice(int(k), None, int(n))


def hexed(*payloads):
    return [p.hex() for p in payloads]


class Run:
    """One run of the tests. `peer` and `fresh` return peers; `name` returns channel names and handles. With doors
    (driver.Doors), peers connect instead of being started, and already use `folder`. `disk`: the folder of the matrix'
    journals, if that is another one."""

    def __init__(self, commands, logs, doors=None, folder=None):
        self.commands, self.logs, self.doors = commands, logs, doors
        self.folder = folder or pathlib.Path(tempfile.mkdtemp(prefix="flyring-pairs-", dir="/dev/shm"))
        self.disk = pathlib.Path(os.environ[DISK]) if DISK in os.environ else None
        self.pool, self.used, self.temporary, self.names, self.starts = {}, {}, [], 0, 0
        self.broken, self.logs_begin, self.deadline = {}, {}, math.inf
        self.passed, self.failed = 0, []

    def peer(self, language, n=1):
        """Returns the n-th long-lived peer of a language; starts another one if it has died."""
        key = language, n
        if key in self.broken:
            raise PeerFailed(self.broken[key])
        if key not in self.pool or not self.pool[key].alive():
            begin = time.monotonic()
            try:
                self.pool[key] = self.doors.accept(*key, self.logs) if self.doors else self._start(language)
            except PeerFailed as e:  # noted, so that not each test waits for it
                self.broken[key] = f"{e} (since an earlier test)"
                raise
            self.deadline += time.monotonic() - begin  # the start of peers does not count as the test's time
            for peer in self.used.values():
                peer.deadline = self.deadline
        self.used[key] = self.pool[key]
        self.used[key].deadline = self.deadline
        self.logs_begin.setdefault(self.used[key].label, self.used[key].log_sizes())
        return self.used[key]

    def fresh(self, language):
        """Starts a peer for this test only, which may be killed."""
        peer = self._start(language)
        self.temporary.append(peer)
        return peer

    def forget(self, peer):
        """Drops a fresh peer that another program has killed."""
        peer.process.wait(10)
        peer.pending.clear()
        self.temporary.remove(peer)
        peer._tidy()

    def _start(self, language):
        self.starts += 1
        return Peer(language, self.commands[language], self.logs, self.folder, f"{language}-{self.starts}")

    def name(self, stem="c"):
        self.names += 1
        return f"{stem}-{self.names}"

    def test(self, title, function, *arguments):
        """Runs one test and counts its outcome. Returns its result, or None if it failed."""
        begin = time.monotonic()
        result, wrong = self.attempt(function, self, *arguments)
        if isinstance(wrong, Skip):
            print(f"skip  {title}: {wrong}", flush=True)
        elif wrong:
            self.failed.append(f"{title}: {wrong}")
            print(f"FAIL  {self.failed[-1]}", flush=True)
        else:
            self.passed += 1
            print(f"ok    {title}  ({time.monotonic() - begin:.1f} s)", flush=True)
        return result

    def attempt(self, function, *arguments, seconds=math.inf):
        """Calls the function. Returns its result and None; or None and the error, which may be that it took too long,
        or a Skip."""
        self.used, self.logs_begin, self.deadline = {}, {}, time.monotonic() + seconds
        result = wrong = None
        try:
            result = function(*arguments)
            self._tidy()
        except Skip as e:
            wrong = e
            self._throw_away()
        except Exception as e:  # any error, as an answer may lack any field; the next test still runs
            known = isinstance(e, (Wrong, Refused, PeerFailed))
            wrong = str(e) if known else f"{e!r} in {traceback.extract_tb(e.__traceback__)[-1]}"
            self._throw_away()
        self._unlink_all()
        return result, wrong

    def _tidy(self):
        """Closes everything that the test opened in long-lived peers, and ends the other peers."""
        for peer in (p for p in self.used.values() if not p.died):
            true(f"{peer.label} lives until it is told to quit", peer.alive(), "it has ended")
            for kind, handle in list(peer.open_handles):
                peer.call("close", **{kind: handle})
            equal(f"{peer.label}: answers that nobody waited for", len(peer.pending), 0)
        temporary, self.temporary = self.temporary, []
        for peer in temporary:
            if peer.alive():
                peer.quit()

    def _throw_away(self):
        """Ends all peers after a failure, because their state is unknown."""
        for peer in [*self.used.values(), *self.temporary]:
            if peer.alive():
                peer.kill()
        self.pool = {key: peer for key, peer in self.pool.items() if key not in self.used}
        self.temporary = []

    def start_over(self):
        """Ends all peers, and removes what they have made, before another try of the same test."""
        self._throw_away()
        self._unlink_all()

    def _unlink_all(self):
        for folder in (self.folder, self.disk):
            for path in folder.iterdir() if folder and folder.exists() else ():
                path.unlink() if not path.is_dir() else shutil.rmtree(path)

    def end(self):
        """Ends all peers. One that ends with an error, such as a sanitizer's, is a failure."""
        for peer in [*self.pool.values(), *self.temporary]:
            try:
                if peer.alive():
                    peer.quit()
            except PeerFailed as e:
                self.failed.append(f"at the end: {e}")
                print(f"FAIL  {self.failed[-1]}", flush=True)
        if self.doors:
            self.doors.close()
        else:
            shutil.rmtree(self.folder)


def refused(code, peer, op, **fields):
    """Checks that the request fails with this code. Returns the answer."""
    try:
        answer = peer.call(op, **fields)
    except Refused as e:
        equal(f"{peer.label}: {op} {shorten(fields)}: error ({e.answer.get('message')})", e.code, code)
        true(f"{peer.label}: {op}: a text in the error", e.answer.get("message"), e.answer)
        return e.answer
    raise Wrong(f"{peer.label}: {op} {shorten(fields)} answered {shorten(answer)}, expected {code}")


def data_of(messages):
    return [m["data"] for m in messages]


def drain(peer, subscriber):
    """Polls until there are no more messages. Returns all."""
    messages = []
    while some := peer.call("poll", subscriber=subscriber, limit=256)["messages"]:
        messages += some
    return messages


def fill(peer, publisher, length=100, at_most=10_000):
    """Offers messages until back-pressured. Returns their data."""
    sent = []
    while len(sent) < at_most:
        data = bytes((len(sent) + 3 * i) & 0xFF for i in range(length)).hex()
        if peer.call("offer", publisher=publisher, data=data, type=1)["position"] < 0:
            return sent
        sent.append(data)
    raise Wrong(f"{peer.label}: {at_most} messages offered and never back-pressured")


def offer_within(seconds, peer, publisher, data):
    """Repeats an offer until it succeeds. Returns the position, or -1 if the time is up."""
    end = time.monotonic() + seconds
    while True:
        position = peer.call("offer", publisher=publisher, data=data, type=1)["position"]
        if position >= 0 or time.monotonic() > end:
            return position
        time.sleep(0.002)
