# SPDX-License-Identifier: Apache-2.0
"""The scenarios of the matrix with a queue (spec/queue.md); see scenarios.py."""

from driver import both
from harness import equal, true
from stream import message


def shared_out(cell):
    """Workers that poll and take share the streams of all producers: every job comes once, and those of a ring in
    order. Then workers release jobs, which others do."""
    producers, workers = cell.peers("publisher", 1), [*cell.peers("subscriber", 2), *cell.peers("subscriber", 3)]
    verified = 0
    for given in cell.p["streams"]:
        name, (creator, *others) = cell.run.name(), cell.random.sample([*producers, *workers], len(producers + workers))
        options = {"capacity": given["capacity"], "alignment": given["alignment"], "counters": 0}
        creator.call(
            "create", channel=name, name=name, kind="queue", producers=len(producers), workers=len(workers), **options
        )
        for peer in others:
            peer.call("open", channel=name, name=name)
        rings = [p.call("publisher", channel=name, publisher=name)["ring"] for p in producers]
        for worker in workers:
            worker.call("worker", channel=name, worker=name)
        streams = [cell.stream(min=8, max=given["max"], numbered=True) for _ in rings]
        for p, stream in zip(producers, streams):
            p.send(
                "publish_stream",
                publisher=name,
                how=given["how"],
                seconds=cell.patience,
                wait="block",
                spin=0,
                **stream,
            )
        verified += work(cell, name, workers, dict(zip(rings, streams)), given["limit"])
        for p, stream, answer in zip(producers, streams, both(*producers, timeout=cell.patience + 5)):
            equal(f"{p.label}: published", answer["count"], stream["count"])
        for worker in workers:
            equal("nothing more", worker.call("take_job", worker=name)["job"], None)
        verified += given_back(cell, name, producers[0], workers)
        for peer in (*producers, *workers):
            peer.call("close", channel=name)
    return verified


def work(cell, name, workers, streams, limit):
    """Works until every job of every stream is done. Returns how many."""
    total = sum(stream["count"] for stream in streams.values())
    seen, by = set(), {}
    while len(seen) < total:
        for worker in workers:
            worker.send("poll_jobs", worker=name, limit=limit, timeout=0.2)
        for worker, answer in zip(workers, both(*workers, timeout=cell.patience + 5)):
            last = {}
            for job in answer["jobs"]:
                ring, stream = job["ring"], streams[job["ring"]]
                payload = bytes.fromhex(job["data"])
                i = int.from_bytes(payload[:8], "little")
                kind, expected = message(stream["seed"], i, stream["min"], stream["max"])
                equal("job", (job["type"], payload[8:], job["attempts"]), (kind, expected[8:], 0))
                true("a job of its stream", 0 <= i - stream["first"] < stream["count"], i)
                true("a job that nobody had", (ring, i) not in seen, (ring, i))
                true("the order of its ring", i > last.get(ring, -1), (last.get(ring), i))
                last[ring] = i
                seen.add((ring, i))
            by[worker] = by.get(worker, 0) + len(answer["jobs"])
    true("work for every worker", min(by.values()) > 0, by.values())
    return total


def given_back(cell, name, producer, workers):
    """Each worker releases a job to the next one. The count of attempts goes on."""
    producer.call("offer", publisher=name, data="c0ffee", type=9)
    identity = None
    for attempts, worker in enumerate(workers):
        job = worker.call("take_job", worker=name)["job"]
        equal("job", (job["data"], job["type"], job["attempts"]), ("c0ffee", 9, attempts))
        identity = identity or (job["ring"], job["position"])
        equal("identity", (job["ring"], job["position"]), identity)
        if worker is not workers[-1]:
            equal("released", worker.call("release", worker=name)["released"], True)
    workers[-1].call("done", worker=name)
    return 1
