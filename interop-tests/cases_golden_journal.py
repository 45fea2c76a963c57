# SPDX-License-Identifier: Apache-2.0
"""Golden files of journals (spec/golden/README.md, "Journals") through the peers: each language writes the same files
by the same operations, and reads the stored ones. Run by pairs.py."""

import functools
import json
import os
import shutil

from cases_golden import GOLDEN, payload, same
from cases_golden_table import inject
from cases_journal import folder_of, rest, told
from cases_table_life import crc32c as slow_crc32c
from harness import equal, refused

FILES = GOLDEN / "journal" / "1.0"
PLACE = ("position", "number", "lost")
crc32c = functools.lru_cache(maxsize=4096)(slow_crc32c)


def contents():
    """Yields (name, content) of all."""
    for path in sorted(FILES.glob("*.json")):
        yield path.stem, json.loads(path.read_text())


def options_of(create):
    """The options of a golden file as a peer takes them."""
    made = {"segment_size": 65536, "consumers": 16} | create
    if "sync_every" in made:
        made["sync"] = {0: "never", -1: "each"}.get(made["sync_every"], made.pop("sync_every"))
    if "trim_consumed" in made:
        made["trim_consumed"] = made["trim_consumed"] == 1
    made.pop("sync_every", None)
    return made


def files_of(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def same_files(found, expected, what):
    equal(f"{what}: files", sorted(found), sorted(expected))
    for name, content in found.items():
        same(content, expected[name], f"{what}: {name}")


class Replay:
    """One journal of a peer, on which the operations of a golden file are done."""

    def __init__(self, run, peer, content):
        self.run, self.peer, self.content, self.name = run, peer, content, run.name("journal")
        self.folder = folder_of(run, self.name)
        peer.call("create", journal=self.name, name=self.name, inject=inject(content), **options_of(content["create"]))

    def call(self, op, **fields):
        return told(self.peer, op, **fields)

    def reboot(self, boot_id):
        """The files stay as they are now, as at a kill."""
        left = files_of(self.folder)
        self.peer.call("close", journal=self.name)
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        for name, content in left.items():
            (self.folder / name).write_bytes(content)
        self.peer.call("open", journal=self.name, name=self.name, inject=inject(self.content, boot_id=boot_id))

    def append(self, o, what):
        fields = {"writer": self.name, "type": o["type"]} | ({"time": o["time"]} if "time" in o else {})
        if o["op"] == "append_many":
            equal(what, self.call("append_many", data=[payload(d) for d in o["data"]], **fields)["taken"], o["count"])
        elif "error" in o:
            refused(o["error"], self.peer, "append", data=payload(o["data"]), **fields)
        else:
            equal(what, self.call("append", data=payload(o["data"]), **fields)["position"], o["position"])

    def consumers(self, o, what):
        handle = self.name + (o["name"] if o["op"] == "consumer" else o["consumer"])
        if o["op"] == "consumer":
            place = self.call("consumer", journal=self.name, consumer=handle, name=o["name"], start=o["start"])
            equal(what, {field: place[field] for field in PLACE}, {field: o[field] for field in PLACE})
        elif o["op"] == "poll":
            found = self.call("poll", consumer=handle, limit=o["limit"])["messages"]
            equal(what, [m["number"] for m in found], o["numbers"])
        elif o["op"] == "close_consumer":
            self.call("close", consumer=handle)
        else:
            self.call("forget", consumer=handle)

    def operate(self, o):
        """Does one operation, and compares its result."""
        op, name, what = o["op"], self.name, f"{self.peer.label}: {json.dumps(o)[:200]}"
        if op == "foreign_store":
            with open(self.folder / o["file"], "r+b", buffering=0) as file:
                os.pwrite(file.fileno(), bytes.fromhex(o["data"]), o["offset"])
        elif op == "reboot":
            self.reboot(o["boot_id"])
        elif op == "writer":
            made = self.call("writer", journal=name, writer=name, name=o["name"], helper=False)
            equal(what, (made["epoch"], made["recovery"]), (o["epoch"], o["recovery"]))
        elif op == "close_writer":
            self.call("close", writer=name)
        elif op == "claim":
            self.call("claim", writer=name, length=o["length"], type=o["type"])
        elif op == "commit":
            equal(what, self.call("commit", writer=name, data=payload(o["data"]))["position"], o["position"])
        elif op in ("abort", "sync"):
            self.call(op, writer=name)
        elif op == "push":
            answer = self.call("push", journal=name, data=payload(o["data"]), type=o["type"])
            equal(what, answer["position"], o["position"])
        elif op == "trim":
            limit = {"consumed": True} if o["position"] is None else {"position": o["position"]}
            before = len(files_of(self.folder))
            self.call("trim", journal=name, **limit)
            equal(what, before - len(files_of(self.folder)), o["segments"])
        elif op == "consumer" or "consumer" in o:
            self.consumers(o, what)
        else:
            self.append(o, what)


def written(run, language):
    """The same operations write the same files."""
    peer = run.peer(language)
    for golden, content in contents():
        replay = Replay(run, peer, content)
        for operation in content["operations"]:
            replay.operate(operation)
        same_files(files_of(replay.folder), files_of(FILES / golden), f"{peer.label}: {golden}")
        peer.call("close", journal=replay.name)


def facts(message):
    """A message of a peer in the form of the golden files."""
    data = bytes.fromhex(message["data"])
    return {key: message[key] for key in ("position", "number", "type", "time")} | {
        "length": len(data),
        "crc": crc32c(data),
    }


def read(run, language):
    """A copy of the folder opens, also read-only, in its own boot, and has the expected messages and words."""
    peer = run.peer(language)
    for golden, content in contents():
        name, expected = run.name("journal"), content["expected"]
        shutil.copytree(FILES / golden, folder_of(run, name))
        boots = [o["boot_id"] for o in content["operations"] if o["op"] == "reboot"]
        boot = inject(content, boot_id=[content["inject"]["boot_id"], *boots][-1])
        for read_only in (True, False):
            handle = f"{name}{read_only}"
            info = peer.call("open", journal=handle, name=name, read_only=read_only, inject=boot)
            for field in ("journal_id", "segment_size", "consumers", "content", "schema_id", "schema_version"):
                equal(f"{golden}: {field}", info[field], expected["header"][field])
            equal(f"{golden}: schema", info["schema"], content["create"].get("schema", ""))
            peer.call("reader", journal=handle, reader=handle)
            equal(f"{golden}: messages", [facts(m) for m in rest(peer, handle)], expected["messages"])
            stats = peer.call("stats", journal=handle)["stats"]
            for field in ("published", "messages", "synced", "trimmed", "max_age", "max_size"):
                equal(f"{golden}: {field}", stats[field], expected["control"][field])
            equal(f"{golden}: segments", stats["segments"], len(expected["segments"]))
            wanted = [(c["name"], c["gate"], c["lost"]) for c in expected["consumers"]]
            equal(f"{golden}: consumers", [(c["name"], c["position"], c["lost"]) for c in stats["consumers"]], wanted)
            peer.call("close", journal=handle)
