# SPDX-License-Identifier: Apache-2.0
"""Golden files (spec/golden/README.md) through the peers. Each language writes the same bytes by the same operations,
reads the stored files of every layout version, and writes into files of newer minor versions. Services whose clock
moves are only written by each language's own tests, because peers have no operation for that."""

import json
import os

from driver import ROOT
from harness import data_of, drain, equal, offer_within, refused, Wrong

GOLDEN = ROOT / "spec" / "golden"
KINDS = {1: "inbox", 2: "broadcast", 3: "queue", 4: "service"}
FOREIGN = {0: None, 2: "publisher", 4: "subscriber"}


def names(folder="*"):
    """Returns FOLDER/NAME of the readable files, or of those in one folder."""
    found = sorted(f"{p.parent.name}/{p.stem}" for p in GOLDEN.glob(f"{folder}/*.ring"))
    found = [name for name in found if folder == "refused" or not name.startswith("refused/")]
    if not found:
        raise Wrong(f"no golden files in {GOLDEN / folder}")
    return found


def payload(data):
    """Returns an operation's data as hexadecimal digits."""
    return (
        data if isinstance(data, str) else bytes((data["pattern"] + 7 * i) & 0xFF for i in range(data["length"])).hex()
    )


def job_of(job):
    """Returns a job in the form of the golden files."""
    if job is None:
        return None
    return {key: job[key] for key in ("ring", "position", "attempts", "repeat", "type")} | {
        "data": payload(job["data"])
    }


def same_events(what, found, expected):
    """Compares requests or ends of calls with the expected ones (a peer does not report the sequence)."""
    wanted = [{key: value for key, value in one.items() if key != "sequence"} for one in expected]
    equal(f"{what}: how many", len(found), len(wanted))
    equal(what, [{key: one.get(key) for key in want} for one, want in zip(found, wanted)], wanted)


def replay_service(peer, channel, operation):
    """Does one operation of a golden file on a service, and compares the result."""
    o = dict(operation)
    op, handle = o.pop("op"), o.pop("as", None)
    if op in ("server", "client"):
        o |= {"channel": channel, op: handle}
    elif op == "evict":
        o["channel"] = channel
    elif op == "start":
        o |= {"call": channel + handle, "data": payload(o["data"])}
        o = {key: value for key, value in o.items() if (key, value) not in (("timeout", 0), ("credit", 0))}
    elif op == "cancel":
        o["call"] = channel + o["call"]
    if "handler" in o:
        handler = dict(o["handler"])
        if "reply" in handler:
            handler["reply"] = payload(handler["reply"])
        if "stream" in handler:
            handler["stream"] = [payload(item) for item in handler["stream"]]
        o["handler"] = handler
    for key in ("server", "client"):
        if key in o:
            o[key] = channel + o[key]
    results = {key: o.pop(key) for key in ("epoch", "number", "requests", "found", "messages", "started") if key in o}
    what = f"{peer.label}: {json.dumps(operation)[:200]}"
    if results.pop("started", True) is not True:
        refused(results.get("error", "busy"), peer, op, **o)
        return
    answer = peer.call(op, **o)
    for key in ("requests", "found"):
        if key in results:
            expected = [dict(one) | ({"call": channel + one["call"]} if "call" in one else {}) for one in results[key]]
            same_events(f"{what}: {key}", answer[key], expected)
    for key in ("epoch", "number", "messages"):
        if key in results:
            equal(f"{what}: {key}", answer[key], results[key])


def replay(peer, channel, operation):
    """Does one operation of a golden file, and compares the result."""
    o = dict(operation)
    if o["op"] == "foreign_store":  # a store by a process with other software
        with open(peer.call("info", channel=channel)["path"], "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), bytes.fromhex(o["data"]), o["offset"])
        return
    op, handle = o.pop("op"), o.pop("as", None)
    if op in ("publisher", "subscriber", "worker"):
        o |= {"channel": channel, op: handle}
    elif op == "evict" or op.startswith("counter"):
        o["channel"] = channel
    if "data" in o:
        o["data"] = [payload(d) for d in o["data"]] if op == "offer_batch" else payload(o["data"])
    results = {}
    for result in {
        "publisher": ("ring", "epoch", "position"),
        "subscriber": ("slot", "epoch", "positions"),
        "offer": ("position",),
        "commit": ("position",),
        "abort": ("position",),
        "claim": ("claimed",),
        "offer_batch": ("taken",),
        "poll": ("expect",),
        "worker": ("slot", "epoch"),
        "take_job": ("job",),
        "release": ("released",),
        "poll_jobs": ("jobs",),
        "counter_allocate": ("counter",),
        "counter_add": ("previous",),
    }.get(op, ()):
        results[result] = o.pop(result)
    for key in ("publisher", "subscriber", "worker"):
        if key in o:
            o[key] = channel + o[key]
    if op == "counter_add":
        results = {"value": (results["previous"] + o["delta"] + 2**63) % 2**64 - 2**63}
        o["times"] = 1
    if op == "counter_set":
        o["order"] = "plain"
    answer = peer.call(op, **{k: v for k, v in o.items() if v is not None})
    if op == "poll":
        answer["expect"] = len(answer["messages"])
    if op == "take_job":
        answer["job"] = job_of(answer["job"])
        results["job"] = job_of(results["job"])
    if op == "poll_jobs":
        answer["jobs"] = [job_of(job) for job in answer["jobs"]]
        results["jobs"] = [job_of(job) for job in results["jobs"]]
    for result, value in results.items():
        equal(f"{peer.label}: {json.dumps(operation)[:200]}: {result}", answer.get(result), value)


def written(run, language):
    """The same operations write the same bytes."""
    peer = run.peer(language)
    for golden in names(peer.hello["layout"]):
        content = json.loads((GOLDEN / f"{golden}.json").read_text())
        if any(operation["op"] == "clock" for operation in content["operations"]):
            continue
        name = run.name()
        peer.call("create", channel=name, name=name, inject=content["inject"], **content["create"])
        for operation in content["operations"]:
            (replay_service if content["create"]["kind"] == "service" else replay)(peer, name, operation)
        same(
            (run.folder / (name + ".ring")).read_bytes(),
            (GOLDEN / f"{golden}.ring").read_bytes(),
            f"{peer.label}: {golden}",
        )
        peer.call("close", channel=name)


def same(found, expected, what):
    equal(f"{what}: length", len(found), len(expected))
    wrong = [i for i in range(len(expected)) if found[i] != expected[i]]
    if wrong:
        at = wrong[0] & ~7
        raise Wrong(
            f"{what}: {len(wrong)} bytes differ, the first at {wrong[0]}: {found[at : at + 16].hex()} from {at}, "
            f"expected {expected[at : at + 16].hex()}"
        )


def read(run, language):
    """A copy of the file opens, and its kept slots and counters have the expected contents."""
    peer = run.peer(language)
    for golden in names():
        expected = json.loads((GOLDEN / f"{golden}.json").read_text())["expected"]
        name = run.name()
        (run.folder / f"{name}.ring").write_bytes((GOLDEN / f"{golden}.ring").read_bytes())
        answer = peer.call("open", channel=name, name=name)
        info, header = answer.get("info", answer), expected["header"]
        for field in ("channel_id", "capacity", "publishers", "subscribers", "alignment", "counters", "file_length"):
            equal(f"{golden}: {field}", info.get(field), header[field])
        equal(f"{golden}: kind", info.get("kind"), KINDS[header["kind"]])
        if header["counters"]:
            found = [
                {k: c[k] for k in ("id", "label", "type_id", "value")}
                for c in peer.call("counters", channel=name)["counters"]
            ]
            equal(
                f"{golden}: counters",
                found,
                [{k: c[k] for k in ("id", "label", "type_id", "value")} for c in expected["counters"]],
            )
        foreign = FOREIGN[header["required_features"]]
        equal(f"{golden}: foreign", info.get("foreign"), foreign)
        if foreign:
            answer = refused("invalid-argument", peer, foreign, channel=name, **{foreign: run.name()})
            equal(f"{golden}: {foreign}", answer.get("argument"), "foreign")
        if info["kind"] == "queue":
            read_jobs(run, peer, golden, name, expected["jobs"])
        if info["kind"] == "service":
            read_requests(run, peer, golden, name, expected)
            peer.call("close", channel=name)
            continue
        for slot in expected["subscribers"]:
            if not slot["kept"] or foreign == "subscriber" or info["kind"] == "queue":
                continue
            handle = run.name("s")
            taken = peer.call("subscriber", channel=name, subscriber=handle, name=slot["name"], kept=bool(slot["name"]))
            equal(f"{golden}: slot and epoch", (taken["slot"], taken["epoch"]), (slot["slot"], slot["epoch"] + 1))
            messages = peer.call("poll", subscriber=handle, limit=10_000)["messages"]
            for unread in expected["unread"]:
                if unread["slot"] == slot["slot"]:
                    equal(
                        f"{golden}: slot {slot['slot']}, ring {unread['ring']}",
                        [
                            {k: m[k] for k in ("type", "position", "data")}
                            for m in messages
                            if m["ring"] == unread["ring"]
                        ],
                        unread["messages"],
                    )
            equal(
                f"{golden}: how many",
                len(messages),
                sum(len(u["messages"]) for u in expected["unread"] if u["slot"] == slot["slot"]),
            )
        for publisher in expected["publishers"]:
            if publisher["name"]:
                taken = peer.call("publisher", channel=name, publisher=run.name("p"), name=publisher["name"])
                equal(
                    f"{golden}: publisher {publisher['name']}",
                    (taken["ring"], taken["epoch"], taken["position"]),
                    (publisher["ring"], publisher["epoch"] + 1, publisher["claimed"]),
                )
        peer.call("close", channel=name)


def read_jobs(run, peer, golden, channel, expected):
    """A new worker gets the unfinished jobs, in order within each ring."""
    worker, found = run.name("w"), []
    peer.call("worker", channel=channel, worker=worker)
    while (job := peer.call("take_job", worker=worker, timeout=0.005)["job"]) is not None:
        found.append(job_of(job))
        peer.call("done", worker=worker)
    peer.call("close", worker=worker)

    def at(job):
        return job["ring"], job["position"]

    equal(f"{golden}: jobs", sorted(found, key=at), sorted((job_of(job) for job in expected), key=at))


def read_requests(run, peer, golden, channel, expected):
    """The next server can come. The file is of another boot, so its requests are dropped."""
    server = run.name("v")
    taken = peer.call("server", channel=channel, server=server, name="next")
    equal(f"{golden}: epoch of the server", taken["epoch"], expected["subscribers"][0]["epoch"] + 1)
    requests = peer.call("serve", server=server, handler={"echo": True})["requests"]
    equal(f"{golden}: requests", requests, [])
    peer.call("close", server=server)


def newer_written(run, language):
    """A file of a newer minor version is published into and read, and its reserved bytes stay unchanged. A file that
    needs a newer version is refused."""
    peer = run.peer(language)
    for golden in names("newer"):
        content = json.loads((GOLDEN / f"{golden}.json").read_text())
        name, expected = run.name(), content["expected"]
        path, foreign = run.folder / f"{name}.ring", FOREIGN[expected["header"]["required_features"]]
        before = (GOLDEN / f"{golden}.ring").read_bytes()
        path.write_bytes(before)
        peer.call("open", channel=name, name=name)
        rings = []
        if foreign != "subscriber":
            kept = next((slot["name"] for slot in expected["subscribers"] if slot["kept"]), "")
            rings = peer.call("subscriber", channel=name, subscriber=name + "s", name=kept)["rings"]
            drain(peer, name + "s")
        for k in range(expected["header"]["publishers"] if foreign != "publisher" else 0):
            publisher = f"{name}p{k}"
            ring = peer.call("publisher", channel=name, publisher=publisher)["ring"]
            if offer_within(2, peer, publisher, "01020304") < 0:
                raise Wrong(f"{golden}: held back in ring {ring}")
            if ring in rings:
                equal(f"{golden}: ring {ring}", data_of(drain(peer, name + "s")), ["01020304"])
        for counter in expected["counters"]:
            peer.call("counter_add", channel=name, counter=counter["id"], delta=1, times=1)
        peer.call("close", channel=name)
        after = path.read_bytes()
        equal(f"{golden}: length", len(after), len(before))
        if after == before:
            raise Wrong(f"{golden}: nothing was written")
        for at, length in content["reserved"]:
            same(after[at : at + length], before[at : at + length], f"{golden}: reserved bytes from {at}")
    for golden in names("refused"):
        content = json.loads((GOLDEN / f"{golden}.json").read_text())
        name = run.name()
        (run.folder / f"{name}.ring").write_bytes((GOLDEN / f"{golden}.ring").read_bytes())
        answer = refused(content["error"], peer, "open", channel=name, name=name)
        equal(
            f"{golden}: field and found",
            (answer.get("field"), answer.get("found")),
            (content["field"], content["found"]),
        )
