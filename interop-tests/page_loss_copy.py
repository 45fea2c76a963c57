#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a power loss in the middle of a `snapshot` or a `grow` leaves on a disk (spec/table.md 7, 9), for each language.

    page_loss_copy.py [--losses 4] [--seed N] [--languages cpp,java,python]

A peer makes a snapshot in the place of an older one, or the first one, or lets its table grow. ptrace stops it before
each of its system calls; there, and after its answer, the power is lost a few times. Of each page of each file the disk
then has any state that was seen since the file, or the page, was last synced, and one page is torn at 512 bytes. The
name has any file that it had since the last sync of the folder. In another boot each language opens what is left.

Checked: the snapshot is the older one or the new one, whole, and needs no recovery; the table has each key with its
value, after a recovery; once the peer has answered, it is the new one. The self-test leaves out syncs of files, and
then those of the folder: it must find both. The last line is `N passed, N failed`. x86-64 only."""

import argparse
import contextlib
import os
import pathlib
import random
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "spec" / "golden"))
sys.path.insert(0, str(ROOT / "interop-tests" / "survivors"))

import driver  # noqa: E402
from page_loss import PAGE, SECTOR, inject  # noqa: E402
from tracer import Tracer  # noqa: E402

MSYNC, FSYNC, FDATASYNC = 26, 74, 75
OPTIONS = {"key": "text", "key_bytes": 16, "value_bytes": 3000, "capacity": 9, "checked": True}
SHAPES = ("snapshot", "first snapshot", "snapshot of a writer", "grow", "grow of a writer")


class Disk(Tracer):
    """The files in a folder, and what a disk may have of them, while a peer works on a request."""

    def __init__(self, pid, folder, ignored=()):
        super().__init__(pid, folder)
        self.files, self.names, self.syncing, self.ignored = {}, [], None, ignored  # files: inode: [states of a page]
        self.at_stop = lambda: None

    def look(self):
        """Sees what the last system call has done."""
        if self.syncing:
            inode, first, end = self.syncing
            for page in range(first, min(end, len(self.files[inode]))):
                self.files[inode][page] = self.files[inode][page][-1:]  # as it was when the call began
            self.syncing = None
        for inode, path in self.paths().items():
            data = pathlib.Path(path).read_bytes()
            pages = self.files.setdefault(inode, [])
            pages += [[bytes(PAGE)] for _ in range(len(data) // PAGE - len(pages))]
            for page, states in enumerate(pages):
                now = data[page * PAGE : (page + 1) * PAGE]
                if states[-1] != now:
                    states[:] = [state for state in states if state != now] + [now]
        names = {entry.name: entry.inode() for entry in os.scandir(self.folder)}
        if not self.names or self.names[-1] != names:
            self.names.append(names)

    def paths(self):
        """Returns {inode: a path to it} of the folder's files, also of those without a name."""
        found = {entry.inode(): entry.path for entry in os.scandir(self.folder)}
        for link in pathlib.Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # another thread of the JVM has closed it
                if os.readlink(link).startswith(f"{self.folder}/"):
                    found.setdefault(link.stat().st_ino, link)
        return found

    def begin(self):
        """All that is there is on the disk."""
        self.look()
        self.names = self.names[-1:]
        for pages in self.files.values():
            pages[:] = [states[-1:] for states in pages]

    def _point(self, info):
        self.look()
        self.at_stop()
        self.begin_sync(info)
        return super()._point(info)

    def begin_sync(self, info):
        if info.number in (FSYNC, FDATASYNC):
            link = pathlib.Path(f"/proc/{self.pid}/fd/{info.arguments[0]}")
            if os.readlink(link) == self.folder and "folder" not in self.ignored:
                self.names = self.names[-1:]  # a power loss in the call is one before it, or after it
            elif (inode := link.stat().st_ino) in self.files and "files" not in self.ignored:
                self.syncing = (inode, 0, len(self.files[inode]))
        elif info.number == MSYNC and "files" not in self.ignored:
            address, length = info.arguments[:2]
            for line in pathlib.Path(f"/proc/{self.pid}/maps").read_text().splitlines():
                addresses, _, offset, _, inode, *_ = line.split(maxsplit=5)
                first, last = (int(text, 16) for text in addresses.split("-"))
                if first <= address < last and int(inode) in self.files:
                    page = (address - first + int(offset, 16)) // PAGE
                    self.syncing = (int(inode), page, page + (length + PAGE - 1) // PAGE)

    def lose(self, name, dice):
        """Returns the bytes of the file with this name when the power is back; None: there is none."""
        inode = dice.choice([names.get(name) for names in self.names])
        if inode is None:
            return None
        pages, oldest = self.files[inode], dice.random()
        chosen = [dice.choice(states) if dice.random() < oldest else states[-1] for states in pages]
        if many := [page for page, states in enumerate(pages) if len(states) > 1]:
            page = dice.choice(many)
            sources = dice.choices(pages[page], k=PAGE // SECTOR)
            chosen[page] = b"".join(state[i * SECTOR : (i + 1) * SECTOR] for i, state in enumerate(sources))
        return b"".join(chosen)


def value(number):
    return (f"{number:02x}" * (OPTIONS["value_bytes"] - number)).lower()


class Case:
    """A request of a peer, and what may be found after a power loss in it."""

    def __init__(self, peer, folder, shape, dice, ignored=()):
        self.shape, self.dice, self.peer, self.lost = shape, dice, peer, []
        self.path = folder / "t.table"
        peer.call("create", table="t", name=str(self.path), **OPTIONS)
        self.old = self.put(range(5))
        snapshot, by_writer = "snapshot" in shape, "writer" in shape
        self.name = "copy.table" if snapshot else "t.table"
        if shape.startswith("snapshot"):
            peer.call("snapshot", table="t", path=str(folder / self.name))
        if snapshot:
            self.new = self.put(range(3, 9))
            self.allowed = [None if "first" in shape else self.old, self.new]
        else:
            self.new, self.allowed = self.old, [self.old]
            peer.call("sync", table="t")
        if by_writer:
            peer.call("writer", table="t", writer="w", name="feed")
        self.disk = Disk(peer.pid, folder, ignored)
        self.disk.begin()
        self.fields = {"writer": "w"} if by_writer else {"table": "t"}
        self.fields |= {"path": str(folder / self.name)} if snapshot else {"capacity": 20}

    def put(self, numbers):
        for number in numbers:
            self.peer.call("put", table="t", key=f"key {number}", value=value(number + len(numbers)))
        return {item["key"]: item["value"] for item in self.peer.call("each", table="t")["items"]}

    def run(self, losses, after):
        """Returns [(what the disk has, what may be found there, when)]: so many losses before each system call, and
        `after` the answer."""

        def lose():
            for _ in range(losses):
                when = f"before call {len(self.disk.points)}"
                self.lost.append((self.disk.lose(self.name, self.dice), self.allowed, when))

        self.disk.at_stop = lose
        op = "snapshot" if "snapshot" in self.shape else "grow"
        self.disk.follow(lambda: self.peer.send(op, **self.fields))
        self.peer.receive()
        self.disk.look()
        for _ in range(after):
            self.lost.append((self.disk.lose(self.name, self.dice), [self.new], "after the answer"))
        for kind, handle in list(self.peer.open_handles):
            self.peer.call("close", **{kind: handle})
        return self.lost

    def wrong(self, finder, path, lost):
        """Returns what is wrong with what a peer finds, or None."""
        data, allowed, when = lost
        if data is None:
            return None if None in allowed else f"{when}: there is no file"
        path.write_bytes(data)
        try:
            finder.call("open", table="f", name=str(path), inject=inject(1))
        except driver.Refused as refused:
            return f"{when}: {refused}"
        try:
            if "snapshot" not in self.shape:
                finder.call("writer", table="f", writer="m", name="mender")
            found = {item["key"]: item["value"] for item in finder.call("each", table="f")["items"]}
            got = all(finder.call("get", table="f", key=key)["value"] == text for key, text in found.items())
        except driver.Refused as refused:
            return f"{when}: {refused}"
        finally:
            finder.call("close", table="f")
        return None if found in allowed and got else f"{when}: found {sorted(found)}, and values that are wrong"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--losses", type=int, default=4, help="at each system call")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--languages", default="cpp,java,python", type=lambda text: text.split(","))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    base = pathlib.Path(tempfile.mkdtemp(prefix="flyring-page-loss-", dir="/dev/shm"))
    known, dice, peers, passed, failed = driver.commands(), random.Random(options.seed), [], 0, 0

    def case(peer, shape, ignored=()):
        folder = pathlib.Path(tempfile.mkdtemp(dir=base))
        one = Case(peer, folder, shape, dice, ignored)
        return one, one.run(options.losses, 40 if ignored else 2 * options.losses)  # 40: a fault is surely found

    try:
        peers = [driver.Peer(each, known[each], base, base) for each in options.languages]
        for peer in peers:
            for shape in SHAPES:
                one, lost = case(peer, shape)
                for finder in peers:
                    texts = [text for each in lost if (text := one.wrong(finder, base / "lost.table", each))]
                    passed += len(lost) - len(texts)
                    failed += len(texts)
                    if texts:
                        print(f"FAIL  {shape}: {peer.language}, opened by {finder.language}: {texts[0]}", flush=True)
            for ignored in ("files", "folder"):
                one, lost = case(peer, "snapshot", (ignored,))
                found = any(one.wrong(peers[0], base / "lost.table", each) for each in lost)
                passed += found
                failed += not found
                if not found:
                    print(f"FAIL  self-test: {peer.language} without syncs of {ignored}: not found", flush=True)
    finally:
        for peer in peers:
            peer.kill()
        shutil.rmtree(base)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
