# SPDX-License-Identifier: Apache-2.0
"""`stats()` of the same idle file is equal in every language, field by field (spec/api.md, Stats): in a used channel,
with words that no owner writes (spec/channel.md 9), and with foreign ends."""

import json
import struct
import time
import tomllib

from cases_typed import flyring
from driver import ROOT
from harness import equal, fill, true, Wrong

LAYOUT = tomllib.loads((ROOT / "spec" / "layout.toml").read_text())
CLOCKED = "blocked_for"  # the only field that depends on the clock
NEVER = 2**62  # ns: a time in the future


def differences(found, expected, path=""):
    """Yields (path, found, expected) of each difference between two JSON values."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in sorted(found.keys() | expected.keys()):
            yield from differences(found.get(key, "nothing"), expected.get(key, "nothing"), f"{path}.{key}")
    elif isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        for i, (one, other) in enumerate(zip(found, expected, strict=True)):
            yield from differences(one, other, f"{path}[{i}]")
    elif (type(found), found) != (type(expected), expected):  # True is not 1
        yield path, found, expected


def same(what, found, expected):
    if wrong := list(differences(found, expected)):
        texts = [f"{path.lstrip('.')} is {one!r}, not {other!r}" for path, one, other in wrong]
        raise Wrong(f"{what}: {'; '.join(texts[:12])}{' ...' if len(texts) > 12 else ''}")


def of_the_command(path):
    """Returns the output of `flyring info --json` in the shape of `stats()`."""
    out, status, said = flyring("info", path, "--json")
    equal(f"status of flyring info ({said})", status, 0)
    document = json.loads(out)
    equal("version", document.pop("version"), 1)
    equal("problem", document.pop("file")["problem"], None)
    return document


def alike(peers, handle, path=None):
    """Checks that all peers report equal stats, and returns these. `blocked_for` is at least the first peer's, and
    larger by no more than the time that has passed. `path`: the file for `flyring info`."""
    begin, lowest, expected, first = time.monotonic_ns(), {}, None, None
    sources = [(peer.label, lambda peer=peer: peer.call("stats", channel=handle)["stats"]) for peer in peers]
    for who, ask in sources + ([("flyring info --json", lambda: of_the_command(path))] if path else []):
        found = ask()
        elapsed = time.monotonic_ns() - begin
        for publisher in found["publishers"]:
            slot, clocked = publisher["slot"], publisher.pop(CLOCKED)
            since = publisher["blocked_since"]
            equal(f"{who}: ring {slot}: held back, and for some time", clocked > 0, 0 < since < NEVER)
            least = lowest.setdefault(slot, clocked)
            true(
                f"{who}: ring {slot}: held back for {least} to {least + elapsed} ns",
                0 <= clocked - least <= elapsed,
                clocked,
            )
        if expected is None:
            expected, first = found, who
        same(f"{who} says other than {first}", found, expected)
    return expected


def readers(run, languages, name):
    """Returns a peer of each language with the channel open for reading only, which must be enough."""
    peers = [run.peer(language, 2) for language in languages]
    for peer in peers:
        peer.call("open", channel=name, name=name, read_only=True)
    return peers


def few(publishers, *fields):
    """Returns these fields of each publisher, subscriber, gate or counter."""
    return [tuple(one[field] for field in fields) for one in publishers]


def as_its_users_leave_it(run, creator, other, languages):
    """Publishers: held back, dead, closed, never used. Subscribers: kept with a lag, of one ring, dead and kept, kept
    and evicted, evicted and joined again, never used. A lossy one, which stats do not show. Counters, one of them
    freed."""
    a, b, name = run.peer(creator, 1), run.fresh(other), run.name()
    a.call(
        "create",
        channel=name,
        name=name,
        kind="broadcast",
        publishers=4,
        subscribers=6,
        counters=4,
        capacity=4096,
    )
    b.call("open", channel=name, name=name)
    peers = [a, *readers(run, languages, name)]
    path = str(run.folder / (name + ".ring"))
    empty = alike(peers, name)
    equal(
        "states of an empty channel",
        {s for (s,) in few(empty["publishers"] + empty["subscribers"], "state")},
        {"unused"},
    )

    def subscriber(peer, who, **options):
        return peer.call("subscriber", channel=name, subscriber=f"{name}-{who}", name=who, **options)["slot"]

    for peer, who in ((a, "feed"), (b, "dead"), (a, "closed")):
        peer.call("publisher", channel=name, publisher=f"{name}-{who}", name=who)
    slots = [
        subscriber(a, "ledger", kept=True, rings=[0, 1]),
        subscriber(a, "one", rings=[2]),
        subscriber(b, "gone", kept=True, rings=[1]),
        subscriber(a, "away", kept=True, rings=[0, 2]),
        subscriber(a, "audit", kept=True, rings=[2]),
    ]
    equal("slots", slots, [0, 1, 2, 3, 4])
    a.call("lossy_subscriber", channel=name, subscriber=name + "-lossy")
    for peer, who, count in ((a, "feed", 3), (b, "dead", 5), (a, "closed", 7)):
        for i in range(count):
            peer.call("offer", publisher=f"{name}-{who}", data=bytes(20 + 10 * i).hex(), type=1 + i)
    equal("messages of a poll", len(a.call("poll", subscriber=name + "-ledger", limit=2)["messages"]), 2)
    a.call("poll", subscriber=name + "-one", limit=2)
    equal("messages that the evicted one had not read", a.call("evict", channel=name, slot=3)["messages"], 10)
    a.call("evict", channel=name, slot=4)
    a.call("close", subscriber=name + "-audit")
    subscriber(a, "audit", kept=True, rings=[2])
    a.call("close", subscriber=name + "-audit")
    a.call("close", publisher=name + "-closed")
    b.kill()
    counter = [
        a.call("counter_allocate", channel=name, label=label, type_id=i, key=key)["counter"]
        for i, (label, key) in enumerate((("orders", "01ff00"), ("freed", ""), ("gr\u00f6\u00dfe", "00")))
    ]
    a.call("counter_set", channel=name, counter=counter[0], value=-5, order="release")
    a.call("counter_free", channel=name, counter=counter[1])
    key = "07" + "00" * 7 + "0065cd1d" + "00" * 4 + "01"  # pid 7, 500 ms, ns since 1970
    beat = a.call("counter_allocate", channel=name, label="loop", type_id=1111834964, key=key)["counter"]
    a.call("counter_set", channel=name, counter=beat, value=3, order="release")
    sent = 3 + len(fill(a, name + "-feed", 200))

    stats = alike(peers, name, path)
    equal(
        "publishers",
        few(stats["publishers"], "state", "name", "epoch", "pid", "messages", "blocked_by"),
        [
            ("live", "feed", 1, a.pid, sent, [0]),
            ("away", "dead", 1, b.pid, 5, []),
            ("closed", "closed", 1, a.pid, 7, []),
            ("unused", "", 0, 0, 0, []),
        ],
    )
    equal("readers", few(stats["publishers"], "readers"), [(1,), (1,), (1,), (0,)])
    feed = stats["publishers"][0]
    equal("bytes of the record that found no room", feed["blocked_length"], 256)
    equal("starts", few(stats["publishers"], "start"), [(0,), (64,), (128,), (0,)])
    equal(
        "subscribers",
        few(stats["subscribers"], "state", "name", "kept", "evicting", "discarded"),
        [
            ("live", "ledger", True, False, 0),
            ("live", "one", False, False, 0),
            ("away", "gone", True, False, 0),
            ("live", "away", True, True, 0),
            ("away", "audit", True, False, 7),
            ("unused", "", False, False, 0),
        ],
    )
    equal(
        "gates: slot, ring, lag in messages",
        [(one["slot"], g["ring"], g["lag_messages"]) for one in stats["subscribers"] for g in one["gates"]],
        [(0, 0, sent - 2), (0, 1, 5), (1, 2, 5), (2, 1, 5), (4, 2, 0)],
    )
    for one in stats["subscribers"]:
        for gate in one["gates"]:
            published = stats["publishers"][gate["ring"]]["published"]
            equal(f"lag of slot {one['slot']} in bytes", gate["lag"], published - gate["position"])
    equal(
        "counters",
        few(stats["counters"], "id", "label", "type_id", "key", "value"),
        sorted(
            [
                (counter[0], "orders", 0, "01ff", -5),
                (counter[2], "gr\u00f6\u00dfe", 2, "", 0),
                (beat, "loop", 1111834964, key, 3),
            ]
        ),
    )
    found = few(stats["heartbeats"], "id", "name", "pid", "interval", "started_at", "beats")
    equal("heartbeats", found, [(beat, "loop", 7, 500_000_000, 1, 3)])

    # there is room again, but the publisher has not noticed yet
    a.call("poll", subscriber=name + "-ledger", limit=256)
    feed = alike(peers, name)["publishers"][0]
    equal("held back no more", (feed["blocked_since"], feed["blocked_length"], feed["blocked_by"]), (0, 0, []))
    a.call("replace", channel=name + "-new", name=name, kind="inbox")
    equal("successor of what was replaced", alike(peers, name)["successor"], 1)
    a.call("unlink", name=name)
    equal("successor of what has no name", alike([a], name + "-new")["successor"], 2)


def words_out_of_range(run, creator, languages):
    """A word outside its range means the same in every language (spec/channel.md 9)."""
    a, name = run.peer(creator, 1), run.name()
    options = {"kind": "broadcast", "publishers": 6, "subscribers": 6, "counters": 6, "capacity": 4096}
    a.call("create", channel=name, name=name, **options)
    for i in range(6):
        a.call("publisher", channel=name, publisher=f"{name}-{i}", name=f"p{i}")
        a.call("subscriber", channel=name, subscriber=f"{name}-{i}", name=f"s{i}", kept=True, rings=[i])
        a.call("counter_allocate", channel=name, label=f"counter {i}", type_id=i, key="")
        a.call("offer", publisher=f"{name}-{i}", data="00", type=1)
    sizes = {"i32": "<i", "i64": "<q"}
    path = run.folder / (name + ".ring")
    with open(path, "r+b") as file:
        header = file.read(4096)
        control, counters, _, rings, stride = (
            struct.unpack_from("<q", header, LAYOUT["header"][field]["offset"])[0]
            for field in (
                "control_offset",
                "counter_metadata_offset",
                "counter_values_offset",
                "rings_offset",
                "ring_stride",
            )
        )

        def put(section, field, value, at):
            word = LAYOUT[section][field]
            file.seek(at + word["offset"])
            file.write(struct.pack(sizes[word["type"]], value))

        def publisher(k, field, value):
            put("publisher_slot", field, value, control + 256 + 256 * k)

        def subscriber(k, field, value):
            put("subscriber_slot", field, value, control + 256 + 256 * (6 + k))

        def trailer(k, field, value):
            put("trailer", field, value, rings + stride * k + 4096)

        def gate(k, value, count):
            at = rings + stride * k + 4096 + (384 if k == 0 else 768 + 128 * (k - 1))
            file.seek(at)
            file.write(struct.pack("<qq", value, count))

        def metadata(k, field, value):
            put("counter_metadata", field, value, counters + 512 * k)

        put("control", "successor", 7, control)
        for k, epoch in enumerate((-2, 0, 2**62, 2**62 + 1, 2**63 - 1, -(2**63))):
            publisher(k, "epoch", epoch)
            subscriber(k, "epoch", epoch)
        for k, length in enumerate((-1, -2, 64, 65, -(2**31), 2**31 - 1)):
            publisher(k, "name_length", length)
            subscriber(k, "name_length", length)
        for k, flag in enumerate((2, -1, 256, 1, 0, -(2**31))):
            publisher(k, "closed", flag)
            subscriber(k, "kept", flag)
            subscriber(k, "evicting", flag)
        for k, number in enumerate((-1, -(2**63), 2**63 - 1, 0, 1, -2)):
            subscriber(k, "discarded", number)
            trailer(k, "messages_done", number)
            trailer(k, "claimed", number)
        for k, (since, length) in enumerate(((-1, 4096), (1, -1), (2**63 - 1, 4096), (0, 4096), (1, 2**62), (1, 0))):
            publisher(k, "blocked_since", since)
            publisher(k, "blocked_length", length)
        for k, (place, count) in enumerate(
            ((-2, 0), (-(2**63), 0), (0, -2), (2**62, 2**62), (2**62 - 64, 3), (192, -(2**63)))
        ):
            gate(k, place, count)
        for k, length in enumerate((-1, 381, 380, 0, 2**31 - 1, -(2**31))):
            metadata(k, "label_length", length)
        metadata(3, "state", -1)
        metadata(4, "state", 2)
        metadata(5, "state", -2)
    peers = readers(run, languages, name)
    stats = alike([a, *peers], name, str(path))
    equal("successor", stats["successor"], 7)
    equal(
        "publishers while they are owned",
        few(stats["publishers"], "state", "epoch", "name"),
        [
            ("live", -1, ""),
            ("live", 0, ""),
            ("live", 2**62, "p2" + "\0" * 62),
            ("live", 0, ""),
            ("live", 0, ""),
            ("live", 0, ""),
        ],
    )
    kept = [(True, True)] * 4 + [(False, False), (True, True)]
    equal("kept and evicting", few(stats["subscribers"], "kept", "evicting"), kept)
    equal("discarded", few(stats["subscribers"], "discarded"), [(0,), (0,), (2**63 - 1,), (0,), (1,), (0,)])
    equal("counters", few(stats["counters"], "id", "label"), [(0, ""), (1, ""), (2, "counter 2" + "\0" * 371)])
    a.call("close", channel=name)  # its slots look lost now, which must not matter
    stats = alike(peers, name)
    true("nobody is live", "live" not in str(stats), few(stats["publishers"] + stats["subscribers"], "state"))


def foreign_ends(run, creator, languages):
    """The end of a stock Agrona process is `foreign`; facts that only a Flyring slot has are not known."""
    for end in ("publisher", "subscriber"):
        a, name = run.peer(creator, 1), run.name()
        options = {"kind": "inbox", "publishers": 1, "subscribers": 1, "alignment": 8, "counters": 0, "capacity": 4096}
        a.call("create", channel=name, name=name, foreign=end, **options)
        peers = [a, *readers(run, languages, name)]
        if end == "publisher":
            a.call("subscriber", channel=name, subscriber=name, name="reader")
        else:
            a.call("publisher", channel=name, publisher=name, name="writer")
            fill(a, name)
        stats = alike(peers, name, str(run.folder / (name + ".ring")))
        equal("foreign", stats["foreign"], end)
        (publisher,), (subscriber,) = stats["publishers"], stats["subscribers"]
        equal(
            "states", [publisher["state"], subscriber["state"]].index("foreign"), ["publisher", "subscriber"].index(end)
        )
        equal("messages", publisher["messages"], -1 if end == "publisher" else publisher["published"] // 112)
        equal("lag in messages", subscriber["gates"][0]["lag_messages"], -1)
        equal("held back by", publisher["blocked_by"], [] if end == "publisher" else [0])


def tests(languages):
    """Yields (title, function, arguments) of every test."""
    for i, language in enumerate(languages):
        other = languages[(i + 1) % len(languages)]
        yield (
            f"{language} makes a channel, stats() is alike everywhere",
            as_its_users_leave_it,
            language,
            other,
            languages,
        )
        yield f"{language}: words that nobody wrote in stats()", words_out_of_range, language, languages
        yield f"{language}: foreign ends in stats()", foreign_ends, language, languages
