#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a power loss leaves of a table on a disk (spec/table.md 9), opened by each language.

    page_loss.py [--cases 60] [--seed N] [--languages cpp,java,python]

Each case is a life of one table. The steps are those of spec/golden/tables.py, which the golden tests compare with each
binding byte by byte; so the states of the file between two stores are known, too. Puts, removes, synced closes and
syncs follow each other, a writer is killed now and then, and at any store the power is lost. Of each page of 4096 bytes
the disk then has any state that it had since it was last written by a sync, and one page is torn at 512 bytes. In
another boot each language takes the slot, and so recovers the file. Checked: each value is one that was put under this
key in this version; a key that was not changed since the last sync has its value; the next version is above all that
there were; all languages find the same. The life goes on with the recovered file, up to three power losses.

The self-test breaks rules of the recovery one at a time, and must find each. The last line is `N passed, N failed`."""

import argparse
import pathlib
import random
import shutil
import sys
import tempfile
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "spec" / "golden"))

import driver  # noqa: E402
import tables  # noqa: E402

PAGE, SECTOR = 4096, 512
LOSSES = 3  # of power, in one life at most
KEYS = 4
SHAPES = ({"value_bytes": 40}, {"value_bytes": 40, "key_bytes": 1000}, {"value_bytes": 5000}, {"value_bytes": 9000})


class PowerLost(Exception):
    """No power from now on."""


class Killed(Exception):
    """The writer is killed."""


class Disk(tables.Table):
    """A table whose pages have a history since they were last written."""

    def begin(self, dice):
        self.dice, self.history, self.left = dice, {}, None
        self.sync()

    def sync(self, at=0, length=None):
        for page in range(at // PAGE, (at + (length or len(self.b))) // PAGE):
            self.history[page] = [bytes(self.b[page * PAGE : (page + 1) * PAGE])]

    def stored(self, at, length):
        for page in range(at // PAGE, (at + max(1, length) - 1) // PAGE + 1):
            now = bytes(self.b[page * PAGE : (page + 1) * PAGE])
            if now not in self.history[page]:
                self.history[page].append(now)
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise self.ends

    def store(self, at, kind, value):
        super().store(at, kind, value)
        self.stored(at, 8)

    def store_bytes(self, at, data):
        super().store_bytes(at, data)
        self.stored(at, len(data))

    def lose(self):
        """Returns the file as it is when the power is back."""
        many = [page for page, states in self.history.items() if len(states) > 1]
        chosen = {page: states[-1] for page, states in self.history.items()}
        oldest = self.dice.random()  # of some losses most pages are old, of some most are new
        for page in many:
            if self.dice.random() < oldest:
                states = self.history[page]
                chosen[page] = states[0] if self.dice.random() < 0.5 else self.dice.choice(states)
        if many and self.dice.random() < 0.8:
            page = self.dice.choice(many)
            sources = self.dice.choices(self.history[page], k=PAGE // SECTOR)
            chosen[page] = b"".join(s[i * SECTOR : (i + 1) * SECTOR] for i, s in enumerate(sources))
        return b"".join(chosen[page] for page in sorted(chosen))


def boot(number):
    return str(uuid.UUID(int=0x22 << 120 | number))


def inject(number):
    return {
        "channel_id": "33000000-0000-0000-0000-000000000000",
        "boot_id": boot(number),
        "created_at": 1_000_000_000,
        "now": 2_000_000_000 + number,
        "monotonic": 3_000_000_000,
        "pid": 1001,
    }


class Life:
    """One table, from its creation to the last loss of power."""

    def __init__(self, seed, kind=None):
        self.kind = kind or Disk
        self.dice = random.Random(seed)
        shape = self.dice.choice(SHAPES)
        options = {"key": "bytes", "capacity": self.dice.choice((1, 1, 2, 3, 40)), "checked": True} | shape
        self.t = self.kind(options, inject(0))
        self.t.begin(self.dice)
        self.boots, self.longest, self.keys = 0, shape["value_bytes"], self.dice.choice((2, 2, KEYS))
        self.several = self.dice.random() < 0.3  # keys of two lengths
        self.by_version = {}  # version: (key, value; None: removed)
        self.highest = 0  # the largest stamp that was used
        self.synced = {}  # key: value (None: absent) of the keys that were not changed since the last sync
        self.held = False

    def reuse(self):
        """A removal is synced, then another key gets the cell, twice; then the power may be lost."""
        first, second = self.dice.sample(range(KEYS), 2)
        for number in range(KEYS):
            self.change(number, True)
        self.change(first, False)
        self.change(first, True)
        self.sync_whole()
        self.change(second, False)
        self.change(second, False)
        if self.dice.random() < 0.5:
            raise PowerLost

    def change(self, number, remove):
        """One change."""
        t, dice = self.t, self.dice
        key = f"{number:02x}" * dice.choice((1, 1, 1, 5)) if self.several else f"{number:02x}"
        value = None if remove else bytes([dice.randrange(256)]) * dice.choice((0, 1, 30, self.longest, self.longest))
        before, old = t.word("stamp"), {k: self.synced.pop(k) for k in (key,) if k in self.synced}
        try:
            if not self.held or dice.random() < 0.2:
                t.take("feed")
                self.held = True
            if not (t.remove(key) if remove else t.put(key, value)):
                self.synced |= old
        except tables.Full:
            self.synced |= old
        finally:
            self.note(before, key, value)

    def note(self, before, key, value):
        """Notes the version that a change has, or would have had."""
        stamp = self.t.word("stamp")
        self.highest = max(self.highest, stamp)
        if stamp != before:
            for body in (0, 1):
                self.by_version[stamp << 1 | body] = (key, value)

    def sync(self):
        self.t.sync()
        self.synced = {k["key"]: bytes.fromhex(k["value"]) for k in self.t.keys()}
        for number in range(KEYS):
            for times in (1, 5):
                self.synced.setdefault(f"{number:02x}" * times, None)

    def live(self):
        """Lives until the power is lost. Returns the file's bytes."""
        t, dice = self.t, self.dice
        lost = dice.randrange(20, 600)
        try:
            while True:
                t.ends, t.left = PowerLost(), lost
                killed = dice.random() < 0.1
                if killed:
                    t.ends, t.left = Killed(), dice.randrange(30)
                    lost -= 30
                try:
                    what = dice.random()
                    if what < 0.1:
                        if dice.random() < 0.5:
                            t.close_synced()
                            self.held = False
                        self.sync_whole()
                    elif what < 0.15:
                        self.reuse()
                    else:
                        self.change(dice.randrange(self.keys), dice.random() < 0.4)
                except (Killed, tables.Full):
                    self.held = False
                if not killed:
                    lost = t.left
                if lost <= 0:
                    raise PowerLost
        except PowerLost:
            return t.lose()

    def sync_whole(self):
        if not self.t.word("intent"):
            self.sync()

    def check(self, found, next_version):
        """What is wrong with the keys that a process finds: {key: (value, version)}."""
        for key, (value, version) in found.items():
            put = self.by_version.get(version)
            if put is None or put[1] is None:
                yield f"key {key}: version {version} was never put"
            elif put != (key, value):
                yield f"key {key}: version {version} was put with other bytes, or under another key ({put[0]})"
        for key, value in self.synced.items():
            if found.get(key, (None,))[0] != value:
                yield f"key {key} was not changed since the last sync, and is another one: {found.get(key)}"
        if next_version >> 1 <= self.highest:
            yield f"the next version is of change {next_version >> 1}; {self.highest} had been used"

    def go_on(self, data):
        """Goes on in another boot with what the disk had, recovered by the simulation."""
        self.boots += 1
        before = self.dice.getstate()
        self.t = self.kind.of_file(data, inject(self.boots))
        self.t.begin(self.dice)
        self.dice.setstate(before)
        self.t.left = None
        self.t.take("next")
        self.held = True
        self.highest = max(self.highest, self.t.word("stamp"))


def found_by(peer, path, data, number, longest):
    """Returns what a peer finds after its recovery, {key: (value, version)}, and the version of its next put."""
    path.write_bytes(data)
    peer.call("open", table="t", name=str(path), inject=inject(number))
    try:
        peer.call("writer", table="t", writer="w", name="mender")
        items = peer.call("each", table="t")["items"]
        found = {item["key"]: (bytes.fromhex(item["value"]), item["version"]) for item in items}
        key = min(found, default="ff")
        version = peer.call("put", writer="w", key=key, value="00")["version"]
        peer.call("close", writer="w")
    finally:
        peer.call("close", table="t")
    return found, version


def found_by_steps(data, number, broken=None):
    """As found_by, by the simulation, with a mistake."""
    t = (broken or tables.Table).of_file(data, inject(number))
    t.take("mender")
    found = {k["key"]: (bytes.fromhex(k["value"]), k["version"]) for k in t.keys()}
    t.check()
    return found, t.put(min(found, default="ff"), b"\0")


class Unchecked(tables.Table):
    """Does not compare crcs."""

    def good(self, c, b):
        seq, length = self.of_body(c, b, "seq"), self.of_body(c, b, "length")
        return seq if seq > 0 and seq & 1 == b and -1 <= length <= self.value_bytes else 0


class NotJumping(tables.Table):
    """The stamp is not above that of a body, if the control section is older."""

    def recover(self):
        before = self.word("stamp")
        super().recover()
        self.set("stamp", before)
        self.set("changed", before)


class Largest(tables.Table):
    """Takes the larger seq, whatever version says."""

    def recover(self):
        for c in range(self.C):
            good = max(self.good(c, 0), self.good(c, 1))
            if self.of_cell(c, "version") and good:
                self.set_cell(c, "version", good)
        super().recover()


class KeepsOldBody(tables.Table):
    """A cell that is freed keeps its old body."""

    def push(self, c):
        self.set_cell(c, "next", self.word("top"))
        self.set("top", c + 1)


class KeepingDisk(KeepsOldBody, Disk):
    """The same, while the table lives."""


BROKEN = (  # what recovers with a mistake, what lived with it, cases in which that shows
    (Unchecked, Disk, (8, 9, 11)),
    (NotJumping, Disk, (1, 2, 3)),
    (Largest, Disk, (76, 518, 715)),
    (KeepsOldBody, KeepingDisk, (50, 115, 152)),
)


def lives(seed, cases, kind=None):
    """Yields (life, file's bytes, seed) at each loss of power."""
    for case in range(cases):
        life = Life(seed + case, kind)
        for _ in range(LOSSES):
            data = life.live()
            yield life, data, seed + case
            life.go_on(data)


def wrong(life, data, broken=None):
    """What is wrong if the simulation recovers, with a mistake or without."""
    try:
        return list(life.check(*found_by_steps(data, life.boots + 1, broken)))
    except AssertionError as error:  # such as a key that is in two cells
        return [repr(error)]


def self_test(seed, cases):
    """Checks the steps of the page, and that each mistake is found. Returns (passed, failed)."""
    failed = [f"seed {at}: {texts[0]}" for life, data, at in lives(seed, cases) if (texts := wrong(life, data))][:3]
    for broken, kind, seeds in BROKEN:
        if not any(wrong(life, data, broken) for at in seeds for life, data, _ in lives(at, 1, kind)):
            failed.append(f"not found: {broken.__doc__}")
    for text in failed:
        print(f"FAIL  {text}")
    return 1 + len(BROKEN) - len(failed), len(failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--languages", default="cpp,java,python", type=lambda text: text.split(","))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    passed, failed = self_test(options.seed, options.cases)
    print(f"self-test: {passed} passed, {failed} failed", flush=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="flyring-page-loss-", dir="/dev/shm"))
    known = driver.commands()
    peers = []
    try:
        peers = [driver.Peer(each, known[each], folder, folder) for each in options.languages]
        for life, data, seed in lives(options.seed, options.cases):
            wanted, _ = found_by_steps(data, life.boots + 1)
            for peer in peers:
                path = folder / f"{peer.language}.table"
                found, version = found_by(peer, path, data, life.boots + 1, life.longest)
                texts = list(life.check(found, version))
                if found != wanted:
                    texts.append(f"found {sorted(found)}, by the page {sorted(wanted)}")
                passed += not texts
                failed += bool(texts)
                if texts:
                    print(f"FAIL  {peer.language}, seed {seed}, boot {life.boots + 1}: {texts[0]}", flush=True)
    finally:
        for peer in peers:
            peer.kill()
        shutil.rmtree(folder)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
