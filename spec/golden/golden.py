# SPDX-License-Identifier: Apache-2.0
"""Makes a golden file: does operations in the simulation, records each with its result, and writes the JSON."""

import json
import uuid

from queues import Queue
from services import Service
from simulation import Channel

MAKE = {"queue": Queue, "service": Service}

BOOT_ID = "00112233-4455-4677-8899-aabbccddeeff"  # not the id of a real boot
CREATED_AT = 1_700_000_000_123_456_789
NOW = 1_700_000_001_987_654_321
MONOTONIC = 7_000_000_000_123
PID = 4242


def pattern(seed, length):
    return {"pattern": seed, "length": length}


def to_bytes(data):
    if isinstance(data, str):
        return bytes.fromhex(data)
    return bytes((data["pattern"] + 7 * i) & 0xFF for i in range(data["length"]))


class Golden:
    """Does operations in the simulation, and records each with its result."""

    def __init__(self, golden, channel=None, **options):
        """Works in a new channel, or in an existing one."""
        self.golden, self.options, self.operations, self.objects = golden, options, [], {}
        self.typed = []  # the decoded messages
        self.inject = {
            "channel_id": str(uuid.uuid5(uuid.NAMESPACE_URL, "flyring-golden:" + golden)),
            "created_at": CREATED_AT,
            "boot_id": BOOT_ID,
            "pid": PID,
            "now": NOW,
            "monotonic": MONOTONIC,
        }
        self.channel = channel or MAKE.get(options["kind"], Channel)(options, self.inject)

    def did(self, op, fields, **result):
        self.operations.append({"op": op} | fields | result)
        return next(iter(result.values()), None)

    def publisher(self, handle, name="", max_lag=0):
        p = self.objects[handle] = self.channel.take_publisher(name, max_lag)
        self.did(
            "publisher", {"as": handle, "name": name, "max_lag": max_lag}, ring=p.ring, epoch=p.epoch, position=p.t
        )

    def subscriber(self, handle, name="", kept=False, rings=None):
        s = self.objects[handle] = self.channel.take_subscriber(name, kept, rings)
        self.did(
            "subscriber",
            {"as": handle, "name": name, "kept": kept, "rings": rings},
            slot=s.slot,
            epoch=s.epoch,
            positions={str(k): c for k, c in s.cursors.items()},
        )

    def offer(self, handle, kind, data):
        return self.did(
            "offer",
            {"publisher": handle, "type": kind, "data": data},
            position=self.channel.offer(self.objects[handle], kind, to_bytes(data)),
        )

    def claim(self, handle, length, kind):
        return self.did(
            "claim",
            {"publisher": handle, "length": length, "type": kind},
            claimed=self.channel.claim(self.objects[handle], length, kind),
        )

    def commit(self, handle, data):
        return self.did(
            "commit",
            {"publisher": handle, "data": data},
            position=self.channel.commit(self.objects[handle], to_bytes(data)),
        )

    def abort(self, handle):
        return self.did("abort", {"publisher": handle}, position=self.channel.abort(self.objects[handle]))

    def offer_batch(self, handle, kind, messages):
        return self.did(
            "offer_batch",
            {"publisher": handle, "type": kind, "data": messages},
            taken=self.channel.offer_batch(self.objects[handle], kind, [to_bytes(m) for m in messages]),
        )

    def poll(self, handle, limit=256):
        return self.did(
            "poll", {"subscriber": handle, "limit": limit}, expect=len(self.channel.poll(self.objects[handle], limit))
        )

    def close(self, handle):
        o = self.objects.pop(handle)
        if hasattr(o, "ring"):
            self.channel.close_publisher(o)
            self.did("close", {"publisher": handle})
        elif hasattr(o, "publishers"):
            self.channel.close_server(o)
            self.did("close", {"server": handle})
        elif hasattr(o, "calls"):
            self.channel.close_client(o)
            self.did("close", {"client": handle})
        elif hasattr(o, "hand"):
            self.channel.close_subscriber(o)
            self.did("close", {"worker": handle})
        else:
            self.channel.close_subscriber(o)
            self.did("close", {"subscriber": handle})

    def worker(self, handle, name=""):
        w = self.objects[handle] = self.channel.take_worker(name)
        self.did("worker", {"as": handle, "name": name}, slot=w.slot, epoch=w.epoch)

    def take_job(self, handle):
        jobs = self.channel.take(self.objects[handle])
        return self.did("take_job", {"worker": handle}, job=jobs[0].facts() if jobs else None)

    def done(self, handle):
        self.channel.done(self.objects[handle])
        self.did("done", {"worker": handle})

    def release(self, handle):
        return self.did("release", {"worker": handle}, released=self.channel.release(self.objects[handle]))

    def poll_jobs(self, handle, limit):
        jobs = self.channel.poll_jobs(self.objects[handle], limit)
        self.did("poll_jobs", {"worker": handle, "limit": limit}, jobs=[job.facts() for job in jobs])

    # --- services

    def server(self, handle, name=""):
        server = self.objects[handle] = self.channel.take_server(name)
        self.did("server", {"as": handle, "name": name}, epoch=server.epoch)

    def client(self, handle, name=""):
        client = self.objects[handle] = self.channel.take_client(name)
        self.did("client", {"as": handle, "name": name}, number=client.number, epoch=client.epoch)

    def start(self, client, handle, kind, data, timeout=0, credit=0):
        call = self.channel.start(self.objects[client], handle, kind, to_bytes(data), timeout, credit)
        if call != "busy":
            self.objects[handle] = call
        fields = {"client": client, "as": handle, "type": kind, "data": data, "timeout": timeout, "credit": credit}
        return self.did("start", fields, started=call != "busy")

    def cancel(self, client, handle):
        self.channel.cancel(self.objects[client], self.objects.pop(handle))
        self.did("cancel", {"call": handle})

    def poll_client(self, handle):
        found = self.channel.poll_client(self.objects[handle])
        return self.did("poll_client", {"client": handle}, found=found)

    @staticmethod
    def does(what):
        """Converts a handler's action for the simulation. `what` is one of {"reply": data, "type": n}, {"fail": text},
        {"keep": handle}, {"stream": [data, ...], "type": n}."""
        if "reply" in what:
            return "reply", what["type"], to_bytes(what["reply"])
        if "fail" in what:
            return "fail", what["fail"]
        if "stream" in what:
            return "stream", what["type"], [to_bytes(item) for item in what["stream"]]
        return ("keep",)

    def serve(self, handle, what, limit=256):
        """Does a poll whose handler treats all requests alike; kept requests get the handles keep0, keep1 ..."""
        requests = self.channel.serve(self.objects[handle], limit, lambda _: self.does(what))
        if "keep" in what:
            for i, request in enumerate(requests):
                self.objects[f"{what['keep']}{i}"] = request
        fields = {"server": handle, "limit": limit, "handler": what}
        return self.did("serve", fields, requests=[request.facts() for request in requests])

    def later(self, server, request, what):
        """Answers a request that was kept."""
        self.channel.reply_later(self.objects[server], self.objects.pop(request), self.does(what))
        self.did("later", {"server": server, "request": request, "handler": what})

    def clock(self, monotonic):
        self.channel.inject = self.channel.inject | {"monotonic": monotonic}
        self.did("clock", {"monotonic": monotonic})

    def evict(self, slot):
        self.did("evict", {"slot": slot}, messages=self.channel.evict(slot))

    def asleep(self, pair, rings):
        """Does step 2 of 6.16 (sleep) for a process that is then killed."""
        self.foreign(self.channel.fall_asleep(pair, rings))

    def foreign(self, stores):
        for at, data in stores:
            self.did("foreign_store", {"offset": at, "data": data.hex()})

    def foreign_write(self, kind, data):
        stores, taken = self.channel.foreign_write(kind, to_bytes(data))
        self.foreign(stores)
        return taken

    def foreign_read(self, limit):
        stores, count = self.channel.foreign_read(limit)
        self.foreign(stores)
        return count

    def forget(self, handle):
        self.channel.forget(self.objects.pop(handle))
        self.did("forget", {"subscriber": handle})

    def counter_allocate(self, label, type_id=0, key=""):
        return self.did(
            "counter_allocate",
            {"label": label, "type_id": type_id, "key": key},
            counter=self.channel.counter_allocate(label, type_id, bytes.fromhex(key)),
        )

    def counter_set(self, counter, value):
        self.channel.counter_set(counter, value)
        self.did("counter_set", {"counter": counter, "value": value})

    def counter_add(self, counter, delta):
        self.did("counter_add", {"counter": counter, "delta": delta}, previous=self.channel.counter_add(counter, delta))

    def counter_free(self, counter):
        self.channel.counter_free(counter)
        self.did("counter_free", {"counter": counter})

    def files(self):
        """Returns {file name: content}."""
        content = {
            "inject": self.inject,
            "create": self.options,
            "operations": self.operations,
            "expected": self.channel.expected(),
        }
        if self.typed:
            content["typed"] = self.typed
        return {self.golden + ".ring": bytes(self.channel.b), self.golden + ".json": dump(content).encode()}


def dump(value, indent=0):
    """Returns JSON with a line per list element at the outer levels, so that differences are readable."""
    inner = " " * (indent + 1)
    if isinstance(value, dict) and indent < 3:
        lines = [inner + json.dumps(k) + ": " + dump(v, indent + 1) for k, v in value.items()]
        return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}" + ("\n" if indent == 0 else "")
    if isinstance(value, list) and value and indent < 3 and isinstance(value[0], dict):
        lines = [
            inner
            + (
                dump(v, indent + 1)
                if "messages" in v and isinstance(v["messages"], list)
                else json.dumps(v, ensure_ascii=False)
            )
            for v in value
        ]
        return "[\n" + ",\n".join(lines) + "\n" + " " * indent + "]"
    return json.dumps(value, ensure_ascii=False)


def lines(facts):
    """Returns JSON with a line per key, and per point in the list of the dead."""
    rest = {key: value for key, value in facts.items() if key != "dead"}
    head = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in rest.items())
    return "{\n" + head + ' "dead": [\n  ' + ",\n  ".join(map(json.dumps, facts["dead"])) + "\n ]\n}\n"
