# SPDX-License-Identifier: Apache-2.0
"""The scenarios of the matrix with a journal (spec/journal.md); see scenarios.py."""

from driver import both
from harness import above, equal, true
from scenarios_life import once_free

SEGMENT = 65536


def journal(cell, peers, **options):
    """One of the peers, by the seed, makes a journal, and the others open it. Returns its name, which is also the
    handle. In containers it lies on a disk, not with the channels on tmpfs."""
    name, (creator, *others) = cell.run.name(), cell.random.sample(peers, len(peers))
    path = str(cell.run.disk / f"{name}.journal") if cell.run.disk else name
    creator.call("create", journal=name, name=path, segment_size=SEGMENT, **options)
    for peer in others:
        peer.call("open", journal=name, name=path)
    return name


def stream(cell, given):
    return {"seed": cell.random.randrange(2**63), "min": given.get("min", 0), "max": given["max"]}


def appended(cell):
    """A writer appends, readers of every language follow, or read what is durable, and each reads all of it again."""
    (writer,), readers, verified = cell.peers("writer", 1), cell.peers("reader", 2), 0
    for given in cell.p["journals"]:
        name, count, fields = (
            journal(cell, [writer, *readers], sync=given["sync"]),
            cell.p["count"],
            stream(cell, given),
        )
        writer.call("writer", journal=name, writer=name, name="feed", helper=given["helper"])
        reading = {"count": count, "how": given["read"], "wait": given["wait"], "seconds": cell.patience} | fields
        for reader in readers:
            reader.call("reader", journal=name, reader=name, durable=given["durable"])
            reader.send("read_stream", reader=name, **reading)
        done = writer.call(
            "append_stream", writer=name, count=count, how=given["how"], seconds=cell.patience,
            within=cell.patience, **fields
        )  # fmt: skip
        equal("appended", (done["count"], done["number"]), (count, count))
        writer.call("sync", writer=name)
        for reader, answer in zip(readers, both(*readers, timeout=cell.patience + 5)):
            equal(f"{reader.label}: numbers", (answer["number"], answer["lost"]), (count, 0))
            verified += answer["count"]
        for reader in readers:
            reader.call("reader", journal=name, reader=name + "2")
            again = reader.call("read_stream", reader=name + "2", within=cell.patience, **reading)
            equal(f"{reader.label}: again", again["number"], count)
            verified += again["count"]
        stats = [peer.call("stats", journal=name)["stats"] for peer in (writer, *readers)]
        equal("messages", [one["messages"] for one in stats], [count] * len(stats))
        for peer in (writer, *readers):
            peer.call("close", journal=name)
    return verified


def handed_over(cell):
    """A consumer is resumed by every language in turn while a writer appends and trims: nothing twice, nothing
    missing."""
    (writer,), (first,), verified = cell.peers("writer", 1), cell.peers("first consumer", 2), 0
    others, count = cell.peers("every", 3), cell.p["count"]
    name, fields = journal(cell, [writer, first, *others]), stream(cell, {"max": 300})
    first.call("consumer", journal=name, consumer=name, name="ledger")
    writer.call("writer", journal=name, writer=name)
    for turn, peer in enumerate((first, *others)):
        if turn:
            place = peer.call("consumer", journal=name, consumer=name, name="ledger", start="newest")
            equal("it goes on", (place["number"], place["lost"], place["epoch"]), (turn * count, 0, turn + 1))
        writer.send("append_stream", writer=name, first=turn * count, count=count, how="mix", **fields)
        peer.send(
            "read_stream", consumer=name, first=turn * count, count=count, how="mix", wait="block",
            seconds=cell.patience, **fields
        )  # fmt: skip
        done, read = both(writer, peer, timeout=cell.patience + 5)
        equal("numbers", (done["number"], read["number"]), ((turn + 1) * count,) * 2)
        verified += read["count"]
        writer.call("sync", writer=name)
        peer.call("close", consumer=name)
        writer.call("trim", journal=name, consumed=True)
        stats = writer.call("stats", journal=name)["stats"]
        true("what is not consumed is there", stats["trimmed"] <= read["position"], (stats, read))
        true("all else is gone", stats["published"] - stats["trimmed"] <= 2 * SEGMENT, stats)
    return verified


def journal_writer_dies(cell):
    """A writer kills itself within a message. The next one goes on with the next number, and readers of every language
    miss nothing and see nothing of it."""
    (heir,), readers, count, verified = cell.peers("heir", 2), cell.peers("reader", 3), cell.p["count"], 0
    for helper in (True, False):
        (victim,), fields = cell.peers("victim", 1), stream(cell, {"max": 300})
        name = journal(cell, [heir, victim, *readers])
        victim.call("writer", journal=name, writer=name, name="feed", helper=helper)
        for reader in readers:
            reader.call("reader", journal=name, reader=name)
            reader.send("read_stream", reader=name, count=2 * count, how="mix", seconds=cell.patience, **fields)
        victim.send("append_stream", writer=name, count=10**9, how="mix", die_at=count, seconds=cell.patience, **fields)
        victim.dies(cell.patience)
        once_free(heir, "writer", journal=name, writer=name, name="heir")
        equal("the victim's messages", heir.call("positions", writer=name)["number"], count)
        heir.call("append_stream", writer=name, first=count, count=count, how="mix", within=cell.patience, **fields)
        for reader in readers:
            answer = reader.receive(cell.patience)
            above("read", answer["count"], 0)
            equal(f"{reader.label}: numbers", answer["number"], 2 * count)
            verified += answer["count"]
        for peer in (heir, *readers):
            peer.call("close", journal=name)
    return verified
