# SPDX-License-Identifier: Apache-2.0
"""The requests of survivors.py in a table (spec/table.md). A change that succeeded is there, one that failed is there or
not, and no value is torn; a snapshot is whole, or the older one; a table has grown with all its keys, or has not; the
next writer goes on at once."""

import errno
import fcntl
import os
import pathlib
import struct

from harness import equal, true
from tracer import OFD_GETLK
from worlds import Scenario, World, new, nothing, same

OPTIONS = {"key": "text", "key_bytes": 16, "value_bytes": 40, "capacity": 8}
CONTROL, SLOT = 4096, 4096 + 384
FOREIGN = "00112233-4455-4677-8899-aabbccddeeff"  # the id of another boot


class TableWorld(World):
    """A table into which the observer has put some keys. While the victim has no writer, the observer puts more."""

    KIND, BESIDE, EXPECTED = "table", False, set()
    CLOSES = (None, "io", "closed", "bad-request")

    def make(self):
        self.path = self.run.folder / f"{self.name}.table"
        self.create()
        self.allowed = {f"key {k}": {"0" + str(k)} for k in range(5)}  # key: its values, of which it has one
        for key, (value,) in self.allowed.items():
            self.observer.call("put", table="o", key=key, value=value)
        self.capacities, self.unlinks = {OPTIONS["capacity"]}, True
        self.copies = [None]  # what the snapshot may hold, as `allowed`; None: there may be none

    def create(self, **more):
        self.observer.call("create", table="o", name=self.name, **OPTIONS | more)

    def __exit__(self, *_):
        self.observer.call("close", table="o")

    def locks(self):
        """Returns the names of the locked bytes."""
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return set()
        try:
            asked = struct.pack("hhxxxxqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, SLOT, 1, 0)
            return (
                set()
                if struct.unpack("hhxxxxqqixxxx", fcntl.fcntl(fd, OFD_GETLK, asked))[0] == fcntl.F_UNLCK
                else {"writer"}
            )
        finally:
            os.close(fd)

    def open(self):
        self.victim.call("open", table="v", name=self.name)

    def writer(self):
        self.open()
        self.victim.call("writer", table="v", writer="w", name="feed")

    def entry(self):
        self.open()
        self.victim.call("entry", table="v", entry="e", key="key 1")

    def copied(self):
        """There is an older snapshot, with fewer keys, and the victim has it open, too."""
        self.open()
        self.observer.call("snapshot", table="o", path=str(self.copy()))
        self.copies = [self.now()]
        self.put("key 5", "05")

    def copied_by_writer(self):
        self.copied()
        self.victim.call("writer", table="v", writer="w", name="feed")

    def grown(self):
        """The table has grown, and the victim does not know it yet."""
        self.open()
        self.observer.call("grow", table="o", capacity=16)
        self.capacities = {16}
        self.put("key 5", "05")

    def grown_under_entry(self):
        self.entry()
        self.observer.call("grow", table="o", capacity=16)
        self.capacities = {16}

    def replaced(self):
        """Another table has the name."""
        self.open()
        self.observer.call("close", table="o")
        self.observer.call("replace", table="o", name=self.name, **OPTIONS)
        self.allowed = {}

    def other_boot(self):
        """The table needs a recovery."""
        self.observer.call("close", table="o")
        self.name = self.run.name("survivors")
        self.path = self.run.folder / f"{self.name}.table"
        self.create(checked=True, inject={"boot_id": FOREIGN})
        for key, (value,) in self.allowed.items():
            self.observer.call("put", table="o", key=key, value=value)
        self.observer.call("close", table="o")
        self.observer.call("open", table="o", name=self.name)
        self.open()

    def now(self):
        return {key: set(values) for key, values in self.allowed.items()}

    def put(self, key, value):
        self.observer.call("put", table="o", key=key, value=value)
        self.allowed[key] = {value}

    def copy(self):
        return self.run.folder / f"{self.name}-copy.table"

    def note(self, scenario, sequence, code, answer):
        failing, self.failing = getattr(self, "failing", None), None
        if failing and failing[0] == "unlink":
            self.unlinks = False  # a temporary name may be left
        fields, done = scenario.fields, code is None
        if scenario.prepare is TableWorld.replaced:  # a change is not there: if it did not fail, it is in the old file
            if failing and failing[1] in (errno.EMFILE, errno.ENOMEM) and scenario.op == "put":
                true("a process without descriptors cannot tell that it was replaced", code is not None, code)
            return
        if scenario.op in ("put", "remove", "clear"):
            value = fields.get("value")  # None: removed
            for key in [fields["key"]] if "key" in fields else list(self.allowed):
                before = set() if done else self.allowed.get(key, {None})
                self.allowed[key] = before | {value}
        if scenario.op == "grow":
            self.capacities = {fields["capacity"]} if done else self.capacities | {fields["capacity"]}
        if scenario.op == "snapshot":
            self.copies = [self.now()] if done else [*self.copies, self.now()]
            if done:
                equal("the keys of the snapshot", answer["keys"], len(self.allowed))

    def check(self, scenario):
        """Checks after the victim's end: the table has what it must, and others go on."""
        left = [file.name for file in pathlib.Path(self.run.folder).glob(f".{self.name}*")]
        true("no temporary file is left", not left or not self.unlinks, left)
        if scenario.removes_name:
            return
        observer = self.observer
        self.same("the table", "o", self.allowed)
        observer.call("put", table="o", key="key 1", value="ff", timeout=1)
        self.allowed["key 1"] = {"ff"}
        observer.call("open", table="again", name=self.name)
        try:
            self.same("the table, opened again", "again", self.allowed)
            true("its capacity", observer.call("info", table="again")["capacity"] in self.capacities, self.capacities)
            stats = observer.call("stats", table="again")["stats"]
            equal("stats", (stats["unfinished"], stats["needs_recovery"], stats["damaged"]), (False, False, 0))
        finally:
            observer.call("close", table="again")
        if scenario.op == "snapshot":
            self.check_copy()

    def check_copy(self):
        """The snapshot is whole: of now, or the older one; or there is none."""
        if not self.copy().exists():
            true("the snapshot is there", None in self.copies, self.copies)
            return
        self.observer.call("open", table="copy", name=str(self.copy()), read_only=True)
        try:
            found = self.found("copy")
        finally:
            self.observer.call("close", table="copy")
        true("the snapshot is whole", any(self.fits(found, whole) for whole in self.copies if whole), found)

    def found(self, handle):
        return {item["key"]: item["value"] for item in self.observer.call("each", table=handle)["items"]}

    @staticmethod
    def fits(found, allowed):
        return all(found.get(key) in allowed.get(key, {None}) for key in found.keys() | allowed.keys())

    def same(self, what, handle, allowed):
        found = self.found(handle)
        true(f"{what} has its keys", self.fits(found, allowed), (found, allowed))
        for key, value in found.items():
            equal(f"{what}: a key", self.observer.call("get", table=handle, key=key)["value"], value)
        equal(f"{what}: its size", self.observer.call("size", table=handle)["size"], len(found))


def copy(world):
    return {"path": str(world.copy())}


def scenarios():
    def scenario(name, op, fields, prepare=TableWorld.open, **more):
        return Scenario(f"table, {name}", op, fields, prepare, world=TableWorld, **more)

    def changed(world):
        """A change has waited for none: the object's own description is open."""
        world.open()
        world.victim.call("put", table="v", key="key 0", value="aa")
        world.allowed["key 0"] = {"aa"}

    def everything(world):
        world.writer()
        world.victim.call("entry", table="v", entry="e", key="key 1")

    takes = {"takes": True}
    table, writer, entry = {"table": "v"}, {"writer": "w"}, {"entry": "e"}
    put = {"key": "key 1", "value": "abcd"}
    insert = {"key": "key 7", "value": "abcd"}
    feed = table | {"writer": "w", "name": "feed"}
    return [
        scenario("create", "create", table | OPTIONS | {"more": new}, nothing, **takes),
        scenario("open", "open", table | {"more": same}, nothing, **takes),
        scenario("open, read-only", "open", table | {"read_only": True, "more": same}, nothing, **takes),
        scenario("open-or-create", "open_or_create", table | OPTIONS | {"more": new}, nothing, **takes),
        scenario("open-or-create, there", "open_or_create", table | OPTIONS | {"more": same}, nothing, **takes),
        scenario("replace", "replace", table | OPTIONS | {"more": same}, nothing, removes_name=True, **takes),
        scenario("unlink", "unlink", {"table": True, "more": same}, nothing, removes_name=True),
        scenario("put", "put", table | put),
        scenario("put, again", "put", table | put, changed),
        scenario("insert", "put", table | insert),
        scenario("remove", "remove", table | {"key": "key 1"}),
        scenario("clear", "clear", table),
        scenario("writer", "writer", feed, **takes),
        scenario("writer, after another boot", "writer", feed, TableWorld.other_boot, **takes),
        scenario("put, writer", "put", writer | put, TableWorld.writer),
        scenario("close writer", "close", writer, TableWorld.writer),
        scenario("get", "get", table | {"key": "key 1"}),
        scenario("get, grown", "get", table | {"key": "key 1"}, TableWorld.grown),
        scenario("get, entry, grown", "get", entry, TableWorld.grown_under_entry),
        scenario("get, replaced", "get", table | {"key": "key 1"}, TableWorld.replaced),
        scenario("put, grown", "put", table | put, TableWorld.grown),
        scenario("put, replaced", "put", table | put, TableWorld.replaced, code="replaced"),
        scenario("wait", "wait_changed", table | {"version": 5, "timeout": 0.05}, code="timed-out"),
        scenario("snapshot", "snapshot", table | {"more": copy}),
        scenario("snapshot, replacing one", "snapshot", table | {"more": copy}, TableWorld.copied),
        scenario("snapshot, writer", "snapshot", writer | {"more": copy}, TableWorld.copied_by_writer),
        scenario("grow", "grow", table | {"capacity": 20}, changed),
        scenario("grow, writer", "grow", writer | {"capacity": 20}, TableWorld.writer),
        scenario("sync", "sync", table, changed),
        scenario("stats", "stats", table),
        scenario("close table", "close", table, everything, once=True),
        scenario("close table, synced", "close", table | {"sync": True}, changed, once=True),
    ]
