# SPDX-License-Identifier: Apache-2.0
"""What the cross-language tests have in common: peers kept running between tests, channels that are closed after each
test, checks, and the list of tests with their outcome."""

import contextlib
import pathlib
import shutil
import tempfile
import time

from driver import Peer, PeerFailed, Refused


class Wrong(Exception):
    """Something is not as the specification says."""


def equal(what, found, expected):
    if found != expected:
        raise Wrong(f"{what}: {shorten(found)}, expected {shorten(expected)}")


def true(what, condition):
    if not condition:
        raise Wrong(what)


def shorten(value):
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + "..."


def hexed(*payloads):
    return [p.hex() for p in payloads]


class Run:
    """One run of the tests: `peer` and `fresh` give peers, `name` gives channel names and handles."""

    def __init__(self, commands, logs):
        self.commands, self.logs = commands, logs
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="flyring-pairs-", dir="/dev/shm"))
        self.pool, self.temporary, self.names, self.starts = {}, [], 0, 0
        self.passed, self.failed = 0, []

    def peer(self, language, n=1):
        """The n-th long-lived peer of a language."""
        peer = self.pool.get((language, n))
        if peer is None:
            peer = self.pool[language, n] = self._start(language)
        return peer

    def fresh(self, language):
        """A peer for this test only, to be killed perhaps."""
        peer = self._start(language)
        self.temporary.append(peer)
        return peer

    def _start(self, language):
        self.starts += 1
        return Peer(language, self.commands[language], self.logs, self.folder, f"{language}-{self.starts}")

    def name(self, stem="c"):
        self.names += 1
        return f"{stem}-{self.names}"

    def test(self, title, function, *arguments):
        """Runs one test and counts its outcome; its result, or None if it failed."""
        begin, result = time.monotonic(), None
        try:
            result = function(self, *arguments)
            self._tidy()
        except Exception as e:  # an answer may lack anything; whatever happens, the next test is run
            known = isinstance(e, (Wrong, Refused, PeerFailed))
            self.failed.append(f"{title}: " + (str(e) if known else repr(e)))
            self._throw_away()
            print(f"FAIL  {self.failed[-1]}", flush=True)
        else:
            self.passed += 1
            print(f"ok    {title}  ({time.monotonic() - begin:.1f} s)", flush=True)
        self._unlink_all()
        return result

    def _peers(self):
        return list(self.pool.values()) + self.temporary

    def _tidy(self):
        """Everything that the test opened is closed, by the peers that live on; the others end."""
        for peer in self.pool.values():
            for handle in list(peer.open_channels):
                peer.call("close", channel=handle)
            equal(f"{peer.label}: answers that nobody waited for", len(peer.pending), 0)
        temporary, self.temporary = self.temporary, []
        for peer in temporary:
            if peer.alive():
                peer.quit()

    def _throw_away(self):
        """After a failure nobody knows what state the peers are in: new ones."""
        for peer in self._peers():
            if peer.alive():
                peer.kill()
        self.pool, self.temporary = {}, []

    def _unlink_all(self):
        for path in self.folder.iterdir():
            path.unlink() if not path.is_dir() else path.rmdir()

    def end(self):
        for peer in self._peers():
            with contextlib.suppress(PeerFailed):
                peer.quit()
        shutil.rmtree(self.folder)


def refused(code, peer, op, **fields):
    """The request must be refused with this code; the answer."""
    try:
        answer = peer.call(op, **fields)
    except Refused as e:
        equal(f"{peer.label}: {op} {shorten(fields)}: error ({e.answer.get('message')})", e.code, code)
        true(f"{peer.label}: {op}: an error without a text", e.answer.get("message"))
        return e.answer
    raise Wrong(f"{peer.label}: {op} {shorten(fields)} answered {shorten(answer)}, expected {code}")


def data_of(messages):
    return [m["data"] for m in messages]


def drain(peer, subscriber):
    """All messages that are there, by polls that end with an empty one."""
    messages = []
    while some := peer.call("poll", subscriber=subscriber, limit=256)["messages"]:
        messages += some
    return messages


def fill(peer, publisher, length=100, at_most=10_000):
    """Offers messages until back-pressured; their data."""
    sent = []
    while len(sent) < at_most:
        data = bytes((len(sent) + 3 * i) & 0xFF for i in range(length)).hex()
        if peer.call("offer", publisher=publisher, data=data, type=1)["position"] < 0:
            return sent
        sent.append(data)
    raise Wrong(f"{peer.label}: {at_most} messages offered and never back-pressured")


def offer_within(seconds, peer, publisher, data):
    """Offers again and again until it is taken; its position, or -1 when it was not in time."""
    end = time.monotonic() + seconds
    while True:
        position = peer.call("offer", publisher=publisher, data=data, type=1)["position"]
        if position >= 0 or time.monotonic() > end:
            return position
        time.sleep(0.002)
