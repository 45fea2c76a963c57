# SPDX-License-Identifier: Apache-2.0
"""Golden files of tables (spec/golden/README.md, "Tables") through the peers: each language writes the same bytes by
the same operations, and reads the stored files. Run by pairs.py."""

import json
import os

from cases_golden import GOLDEN, payload, same
from harness import equal, refused

FILES = GOLDEN / "table" / "1.0"


def contents():
    """Yields (name, content) of the files that can be made without a schema, which peers do not give."""
    for path in sorted(FILES.glob("*.json")):
        content = json.loads(path.read_text())
        if "schema" not in content["create"]:
            yield path.stem, content


def inject(content, **other):
    return {key: value for key, value in (content["inject"] | other).items() if value is not None}


def replay(run, peer, name, operation, content):
    """Does one operation, and compares the result."""
    o = dict(operation)
    op, target = o.pop("op"), {"writer": name} if o.pop("held", False) else {"table": name}
    what = f"{peer.label}: {json.dumps(operation)[:200]}"
    if op == "foreign_store":
        with open(run.folder / f"{name}.table", "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), bytes.fromhex(o["data"]), o["offset"])
    elif op in ("close_synced", "reboot"):
        peer.call("close", table=name, sync=op == "close_synced")
        content["boot"] = o.get("boot_id", content["boot"])
        peer.call("open", table=name, name=name, inject=inject(content, boot_id=content["boot"]))
    elif op == "writer":
        equal(what, peer.call("writer", table=name, writer=name, name=o["name"])["epoch"], o["epoch"])
    elif op == "close_writer":
        peer.call("close", writer=name)
    elif op == "clear":
        equal(what, peer.call("clear", **target)["removed"], o["count"])
    elif op == "remove":
        equal(what, peer.call("remove", key=o["key"], **target)["removed"], o["removed"])
    else:
        fields = target | {"key": o["key"], "value": payload(o["value"])}
        if op == "compare_and_put":
            fields["version"] = o["expected"]
        if "error" in o:
            refused(o["error"], peer, "put", **fields)
        else:
            equal(what, peer.call("put", **fields)["version"], o["version"])


def written(run, language):
    """The same operations write the same bytes."""
    peer = run.peer(language)
    for golden, content in contents():
        name = run.name()
        content["boot"] = content["inject"]["boot_id"]
        create = {"checked": False} | content["create"]
        peer.call("create", table=name, name=name, inject=inject(content), **create)
        for operation in content["operations"]:
            replay(run, peer, name, operation, content)
        found = (run.folder / f"{name}.table").read_bytes()
        same(found, (FILES / f"{golden}.table").read_bytes(), f"{peer.label}: {golden}")
        peer.call("close", table=name)


def read(run, language):
    """A copy of the file opens, also read-only, in its own boot, and has the expected keys."""
    peer = run.peer(language)
    for golden, content in contents():
        name, expected = run.name(), content["expected"]
        (run.folder / f"{name}.table").write_bytes((FILES / f"{golden}.table").read_bytes())
        boots = [o["boot_id"] for o in content["operations"] if o["op"] == "reboot"]
        boot = inject(content, boot_id=[content["inject"]["boot_id"], *boots][-1])
        for read_only in (False, True):
            handle = f"{name}{read_only}"
            info = peer.call("open", table=handle, name=name, read_only=read_only, inject=boot)
            header = expected["header"]
            for field in ("table_id", "key_bytes", "value_bytes", "capacity", "file_length"):
                equal(f"{golden}: {field}", info[field], header[field])
            found = [[i["key"], i["value"], i["version"]] for i in peer.call("each", table=handle)["items"]]
            keys = [[k["key"], payload(k["value"]), k["version"]] for k in expected["keys"]]
            equal(f"{golden}: keys", sorted(found, key=str), sorted(keys, key=str))
            for key, value, version in keys:
                answer = peer.call("get", table=handle, key=key)
                equal(f"{golden}: {key!r}", (answer["value"], answer["version"]), (value, version))
            answer, control = peer.call("size", table=handle), expected["control"]
            equal(f"{golden}: size", (answer["size"], answer["version"]), (control["size"], control["changed"]))
            peer.call("close", table=handle)
