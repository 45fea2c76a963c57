# SPDX-License-Identifier: Apache-2.0
"""The scenarios of the matrix with a table (spec/table.md); see scenarios.py."""

from driver import both
from harness import above, equal, true
from scenarios_life import once_free
from stream import message

KEYS = {"integer": lambda k: k, "text": lambda k: f"key-{k}", "bytes": lambda k: k.to_bytes(8, "little").hex()}


def table(cell, peers, **options):
    """One of the peers, by the seed, makes a table, and the others open it. Returns its name, which is also the
    handle."""
    name, (creator, *others) = cell.run.name(), cell.random.sample(peers, len(peers))
    creator.call("create", table=name, name=name, **options)
    for peer in others:
        peer.call("open", table=name, name=name)
    return name


def values(cell, given):
    """Returns the fields of `put_many` and `get_many` that say what the values are."""
    return {"seed": cell.random.randrange(2**63), "keys": given["keys"], "min": 8, "max": given["max"]}


def left(given, put, count, remove=0, first=0):
    """Returns {key: value} after so many puts of `put_many`, and how many keys it has removed."""
    found, removed, keys = {}, 0, put["keys"]
    for i in range(first, first + count):
        found[i % keys] = i
        if remove and i % remove == remove - 1:
            removed += found.pop((i + keys // 2) % keys, None) is not None

    def value(i):
        return message(put["seed"], i, put["min"], put["max"], numbered=True)[1].hex()

    return {KEYS[given["key"]](k): value(i) for k, i in found.items()}, removed


def contents(peer, name):
    """Returns {key: value}, and {key: version}."""
    items = peer.call("each", table=name)["items"]
    return {i["key"]: i["value"] for i in items}, {i["key"]: i["version"] for i in items}


def read_by_all(cell):
    """A writer puts and removes, and readers of every language read all the time. Each value is whole, no version falls
    back, and at the end all see exactly what was put last."""
    (writer,), readers, verified = cell.peers("writer", 1), cell.peers("reader", 2), 0
    for given in cell.p["tables"]:
        options = {"key": given["key"], "capacity": given["keys"], "value_bytes": given["max"]}
        name = table(cell, [writer, *readers], checked=given["checked"], **options)
        put, remove, count = values(cell, given), given["remove"], cell.p["count"]
        expected, removed = left(given, put, count, remove)
        writer.call("writer", table=name, writer=name, name="feed")
        for reader in readers:
            fields = {"how": given["how"], "removes": remove > 0, "until": count + removed, "seconds": cell.patience}
            reader.send("get_many", table=name, **fields, **put)
        writer.send("put_many", writer=name, count=count, remove=remove, seconds=cell.patience, **put)
        done, *answers = both(writer, *readers, timeout=cell.patience + 5)
        equal("puts and removes", (done["count"], done["removed"]), (count, removed))
        versions = []
        for reader, answer in zip(readers, answers):
            equal(f"{reader.label}: the last change", answer["version"], count + removed)
            found, version = contents(reader, name)
            equal(f"{reader.label}: keys and values", found, expected)
            equal(f"{reader.label}: size", reader.call("size", table=name)["size"], len(expected))
            versions.append(version)
            verified += answer["reads"]
        equal("the same versions for all", versions, [versions[0]] * len(versions))
        for peer in (writer, *readers):
            peer.call("close", table=name)
    return verified


def put_by_two(cell):
    """Two occasional writers put by single changes, and readers of every language read. Each change has a number of its
    own, and the last value of each key is the last one of one of the two."""
    writers, readers = [*cell.peers("first", 1), *cell.peers("second", 2)], cell.peers("reader", 3)
    verified = 0
    for given in cell.p["tables"]:
        options = {"key": given["key"], "capacity": given["keys"], "value_bytes": given["max"]}
        name, put, count = table(cell, [*writers, *readers], **options), values(cell, given), cell.p["count"]
        firsts = (0, 10**6 * put["keys"])
        for reader in readers:
            fields = {"how": given["how"], "until": 2 * count, "seconds": cell.patience}
            reader.send("get_many", table=name, **fields, **put)
        for writer, first in zip(writers, firsts):
            fields = {"first": first, "count": count, "seconds": cell.patience, "timeout": cell.patience}
            writer.send("put_many", table=name, **fields, **put)
        one, other, *answers = both(*writers, *readers, timeout=cell.patience + 5)
        equal("puts", (one["count"], other["count"]), (count, count))
        for reader, answer in zip(readers, answers):
            equal(f"{reader.label}: the last change", answer["version"], 2 * count)
            verified += answer["reads"]
        wanted = [left(given, put, count, first=first)[0] for first in firsts]
        for reader in readers:
            found, _ = contents(reader, name)
            equal(f"{reader.label}: keys", sorted(found, key=str), sorted(wanted[0], key=str))
            for key, value in found.items():
                true(f"the last value of a writer under {key!r}", value in (wanted[0][key], wanted[1][key]), value)
        for peer in (*writers, *readers):
            peer.call("close", table=name)
    return verified


def writer_dies(cell):
    """A writer kills itself with the slot in its hand, held or for one change. Readers of every language read on, and
    the next writer goes on with the next number."""
    (victim,), (heir,) = cell.peers("victim", 1), cell.peers("heir", 2)
    reader, verified, count = cell.random.choice(cell.peers("reader", 3)), 0, cell.p["count"]
    for held in (True, False):
        (victim,), given = cell.peers("victim", 1), {"key": "text", "keys": 30, "max": 100}
        options = {"key": "text", "capacity": 30, "value_bytes": 100}
        name, put = table(cell, [heir, victim, reader], **options), values(cell, given)
        if held:
            victim.call("writer", table=name, writer=name, name="feed")
        reader.send("get_many", table=name, how="mix", until=2 * count, seconds=cell.patience, **put)
        fields = {"die_at": count, "seconds": cell.patience}
        victim.send("put_many", **({"writer": name} if held else {"table": name}), **fields, **put)
        victim.dies(cell.patience)
        once_free(heir, "writer", table=name, writer=name, name="heir")
        equal("what the victim has put", contents(heir, name)[0], left(given, put, count)[0])
        done = heir.call("put_many", writer=name, first=count, count=count, within=cell.patience, **put)
        equal("the next numbers", (done["count"], done["version"] >> 1), (count, 2 * count))
        above("reads", reads := reader.receive(cell.patience)["reads"], 0)
        equal("values", contents(reader, name)[0], left(given, put, count, first=count)[0])
        verified += reads
        for peer in (heir, reader):
            peer.call("close", table=name)
    return verified
