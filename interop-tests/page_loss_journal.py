#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a power loss leaves of a journal on a disk (spec/journal.md 7), opened by each language.

    page_loss_journal.py [--cases 12] [--seed N] [--languages cpp,java,python]

As page_loss.py, with the steps of spec/golden/journals.py. Each case is a life of one journal, with one of the three
sync policies: appends, batches, aborted claims, syncs, segments made ahead, consumers, trims. Writers are killed now
and then, and at any store, also within a recovery, the power is lost. Of each page of each file the disk then has any
state that it had since the file was last synced, one page is torn at 512 bytes, and of each name it has any state since
the last sync of the folder. In another boot each language first reads, then takes the slot, and so recovers the files.
Checked: all up to the last sync is there; each message is the one that was appended, with its number, position, type
and time; no position that was handed out holds another record; no consumer misses a message, or gets one twice that
was confirmed durably; what is cut off is reported with its size; all languages find, report and write the same.

So lives a journal without a writer that stays, to which all is pushed: then all that was pushed longer ago than the
interval is there.

Then a journal that each language itself has written, with each policy, held and by pushes, of which pages behind the
last sync are lost, is recovered by each language.

The self-test breaks rules of the page one at a time, and must find each. The last line is `N passed, N failed`."""

import argparse
import itertools
import pathlib
import random
import shutil
import struct
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "spec" / "golden"))

import driver  # noqa: E402
import journal_files  # noqa: E402
from journals import CONTROL  # noqa: E402
from journal_lives import (  # noqa: E402
    BeginsAtChecked,
    CutNotDurable,
    Disk,
    GatesStay,
    JoinNotDurable,
    LastSegment,
    Life,
    NameNotDurable,
    NextSegment,
    NothingDue,
    POLICIES,
    PushingLife,
    StraysStay,
    SyncedFirst,
    TimeInFuture,
    TrimNotDurable,
    Unproven,
    Z,
)
from page_loss import PAGE, boot, inject  # noqa: E402
from stream import message  # noqa: E402

LOSSES = 4  # of power, in one life at most


def lives(seed, cases, kind=None, of=Life, policies=tuple(POLICIES)):
    """Yields (life, files, seed) at each loss of power."""
    for case in range(cases):
        life = of(seed + case, kind, policies[case % len(policies)])
        files = life.live()
        for _ in range(LOSSES):
            yield life, files, seed + case
            files = life.go_on(files) or life.live()


class Found:
    """What a process finds."""

    def __init__(self, before, recovery, messages, files, consumers, position):
        self.before, self.recovery, self.messages = before, recovery, messages  # before: the recovery
        self.files, self.consumers, self.position = files, consumers, position  # position: of its next append

    def different(self, other):
        """Yields how it differs from what another process finds."""
        for what in ("recovery", "consumers", "position"):
            if getattr(self, what) != getattr(other, what):
                yield f"{what}: {getattr(self, what)}, by the page {getattr(other, what)}"
        for what in ("before", "messages"):
            mine, others = getattr(self, what), getattr(other, what)
            if mine != others:
                yield f"{what}: {len(mine)} messages, by the page {len(others)}, or not the same"
        if sorted(self.files) != sorted(other.files):
            yield f"files {sorted(self.files)}, by the page {sorted(other.files)}"
            return
        for name, data in self.files.items():
            if data != other.files[name]:
                at = next(i for i, (a, b) in enumerate(zip(data, other.files[name])) if a != b)
                yield f"{name} differs from {at} on: {data[at : at + 8].hex()}, {other.files[name][at : at + 8].hex()}"


def wrong(life, found):
    """Returns what is wrong with what a process finds."""
    texts = list(life.check(found.messages, found.recovery, found.consumers))
    if found.before != found.messages[: len(found.before)]:
        texts.append("a reader that came before the recovery read something else")
    if found.position in life.by_position:
        texts.append(f"the next append is at {found.position}, a position that was handed out")
    return texts


def listed(t, messages):
    return [
        (m["number"], m["position"], m["type"], m["time"], t.bytes_at(m["position"] + 16, m["length"]))
        for m in messages
    ]


def found_by_steps(files, number, kind=Disk):
    """What the simulation finds, by the page or with a mistake."""
    t = kind.of_files(files, inject(number))
    before = listed(t, journal_files.proven(t))
    recovery = t.take("mender")[1]
    messages = listed(t, t.messages())
    after = {name: bytes(data) for name, data in t.files.items()}
    consumers = {name: t.join(name)[2] for name in Life.found_consumers(t)}
    return Found(before, recovery, messages, after, consumers, t.append(b"\1"))


def read_all(peer, journal):
    peer.call("reader", journal=journal, reader=journal)
    found = []
    while some := peer.call("poll", reader=journal, limit=256)["messages"]:
        found += [(m["number"], m["position"], m["type"], m["time"], bytes.fromhex(m["data"])) for m in some]
    peer.call("close", reader=journal)
    return found


def write_files(folder, files):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)


def read_files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def found_by(peer, folder, files, inject):
    """What a peer finds."""
    write_files(folder, files)
    peer.call("open", journal="j", name=str(folder), inject=inject)
    try:
        before = read_all(peer, "j")
        recovery = peer.call("writer", journal="j", writer="w", name="mender", helper=False)["recovery"]
        after, messages = read_files(folder), read_all(peer, "j")
        names = sorted(one["name"] for one in peer.call("stats", journal="j")["stats"]["consumers"])
        consumers = {}
        for name in names:
            consumers[name] = peer.call("consumer", journal="j", consumer=name, name=name)["number"]
            peer.call("close", consumer=name)
        position = peer.call("append", writer="w", data="01", type=1)["position"]
        peer.call("close", writer="w")
    finally:
        peer.call("close", journal="j")
    return Found(before, recovery, messages, after, consumers, position)


class Written:
    """A journal that a language itself has written, and what may be lost of it. Two sets of files: as they were at the
    last sync of each (of the control file: at the creation), and as they are at the end."""

    STREAM = {"seed": 11, "min": 8, "max": 900, "numbered": True}
    FIRST, SECOND = 250, 120

    def __init__(self, peer, folder, policy):
        sync = {"every": POLICIES["every"]}.get(policy, policy)
        shutil.rmtree(folder, ignore_errors=True)
        options = {"segment_size": Z, "consumers": 2, "sync": sync, "inject": {"boot_id": boot(0)}}
        peer.call("create", journal="j", name=str(folder), **options)
        peer.call("writer", journal="j", writer="w", helper=False)
        old = {"control": (folder / "control").read_bytes()}
        peer.call("append_stream", writer="w", count=self.FIRST, how="mix", **self.STREAM)
        peer.call("sync", writer="w")
        old |= {name: data for name, data in read_files(folder).items() if name != "control"}
        peer.call("append_stream", writer="w", first=self.FIRST, count=self.SECOND, how="mix", **self.STREAM)
        self.new = read_files(folder)
        if policy == "each":  # nothing of it may be lost but pages of the control file
            old |= {name: data for name, data in self.new.items() if name != "control"}
        peer.call("close", writer="w", sync=False)
        peer.call("close", journal="j")
        self.old, self.policy = old, policy
        self.durable = self.FIRST + (self.SECOND if policy == "each" else 0)

    def lose(self, dice):
        """Returns the files with some pages as they were before."""
        found, share = {}, dice.random()
        for name, new in self.new.items():
            old = self.old.get(name)
            old = bytes(new[:PAGE]).ljust(len(new), b"\0") if old is None else old  # a segment is born durable
            pages = range(0, len(new), PAGE)
            found[name] = b"".join((old if dice.random() < share else new)[at : at + PAGE] for at in pages)
        return found

    def check(self, found):
        """Yields what is wrong."""
        end = len(found.messages)
        if end < self.durable:
            yield f"{self.durable} messages were durable, {end} are there"
        for i, (number, _, kind, _, data) in enumerate(found.messages):
            if number != i or (kind, data) != message(
                self.STREAM["seed"], i, self.STREAM["min"], self.STREAM["max"], numbered=True
            ):
                yield f"message {i} is not that of the stream"
                return
        if found.before != found.messages[: len(found.before)]:
            yield "a reader that came before the recovery read something else"
        if (
            found.recovery is None
            or found.recovery["messages"] != end
            or found.recovery["reached"] < found.recovery["position"]
        ):
            yield f"the recovery reports {found.recovery}, {end} messages are there"


class Pushed(Written):
    """The same of pushes. The last push that has synced tells what is durable."""

    COUNT = 200

    def __init__(self, peer, folder, policy):
        shutil.rmtree(folder, ignore_errors=True)
        options = {"segment_size": Z, "consumers": 2, "sync": {"every": POLICIES["every"]}.get(policy, policy)}
        peer.call("create", journal="j", name=str(folder), **options, inject={"boot_id": boot(0)})
        first = read_files(folder)
        self.old, self.durable, self.policy, last = first, 0, policy, 0
        for i in range(self.COUNT):
            kind, data = message(self.STREAM["seed"], i, self.STREAM["min"], self.STREAM["max"], numbered=True)
            peer.call("push", journal="j", data=data.hex(), type=kind)
            synced = struct.unpack_from("<q", (folder / "control").read_bytes(), PAGE + CONTROL["synced"][0])[0]
            if synced != last:
                last, self.durable = synced, i + 1
                self.old = read_files(folder) | {"control": first["control"]}
        self.new = read_files(folder)
        peer.call("close", journal="j")

    def check(self, found):
        if self.durable == 0 or (self.policy == "each" and self.durable != self.COUNT):
            yield f"of {self.COUNT} pushes only {self.durable} were synced"
        yield from super().check(found)


BROKEN = (  # what lived and recovered with a mistake, lives in which that shows
    (Unproven, (9, 13)),
    (BeginsAtChecked, (14,)),
    (NextSegment, (0, 5)),
    (CutNotDurable, (0, 1)),
    (StraysStay, (131,)),
    (GatesStay, (13, 14)),
    (LastSegment, (0, 1)),
    (SyncedFirst, (22, 24)),
    (NameNotDurable, (2, 5)),
    (TrimNotDurable, (42, 83)),
    (JoinNotDurable, (1, 2)),
)
BROKEN_PUSHES = (  # the same of pushes
    (NothingDue, (0, 1)),
    (TimeInFuture, (0, 1)),
)


def faults(seed, kind, of):
    """What is wrong in one life, if all is done with a mistake. Of pushes: with an interval."""
    try:
        for life, files, _ in lives(seed, 1, kind, of, ("every",) if of is PushingLife else tuple(POLICIES)):
            if texts := wrong(life, found_by_steps(files, life.boots + 1, kind)):
                return texts
    except (
        AssertionError,
        KeyError,
        TypeError,
        IndexError,
        struct.error,
    ) as error:  # such as a check that is not there
        return [repr(error)]
    return []


def self_test(seed, cases):
    """Checks the steps of the page, and that each mistake is found. Returns (passed, failed)."""
    failed = []
    for of, broken in ((Life, BROKEN), (PushingLife, BROKEN_PUSHES)):
        for life, files, at in lives(seed, cases, of=of):
            if texts := wrong(life, found_by_steps(files, life.boots + 1)):
                failed.append(f"{of.__name__}, seed {at}: {texts[0]}")
                break
        for kind, seeds in broken:
            if not any(faults(at, kind, of) for at in seeds):
                failed.append(f"not found: {kind.__doc__}")
    for text in failed:
        print(f"FAIL  {text}")
    return 2 + len(BROKEN) + len(BROKEN_PUSHES) - len(failed), len(failed)


def of_lives(peers, folder, seed, cases, of):
    """Yields (title, what is wrong) of each language and loss of the lives."""
    for life, files, at in lives(seed, cases, of=of):
        wanted = found_by_steps(files, life.boots + 1)
        for peer in peers:
            found = found_by(peer, folder / f"{peer.language}.journal", files, inject(life.boots + 1))
            title = f"{peer.language}, {of.__name__}, seed {at}, {life.policy}, boot {life.boots + 1}"
            yield title, wrong(life, found) + list(found.different(wanted))


def of_languages(peers, folder, seed, losses):
    """Yields the same of journals that the languages themselves have written."""
    dice = random.Random(seed)
    for kind, writer, policy in itertools.product((Written, Pushed), peers, POLICIES):
        written = kind(writer, folder / "written.journal", policy)
        for _ in range(losses):
            files, first = written.lose(dice), None
            for peer in peers:
                found = found_by(peer, folder / f"{peer.language}.journal", files, inject(1))
                texts = list(written.check(found))
                texts += list(found.different(first)) if first else []
                first = first or found
                yield f"{peer.language}, {kind.__name__.lower()} by {writer.language}, {policy}", texts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=12)
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
        results = (
            of_lives(peers, folder, options.seed, options.cases, Life),
            of_lives(peers, folder, options.seed, max(3, options.cases // 3), PushingLife),
            of_languages(peers, folder, options.seed, max(1, options.cases // 12)),
        )
        for title, texts in itertools.chain(*results):
            passed += not texts
            failed += bool(texts)
            if texts:
                print(f"FAIL  {title}: {texts[0]}", flush=True)
    finally:
        for peer in peers:
            peer.kill()
        shutil.rmtree(folder)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
