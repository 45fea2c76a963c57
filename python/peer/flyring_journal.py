# SPDX-License-Identifier: Apache-2.0
"""The ops of a journal (interop-tests/PEER.md)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from flyring import Action, Claim, Journal, JournalConsumer, JournalReader, JournalStart, JournalWriter
from flyring_service import Answer, BadRequestError, HandlerError, RefusedError, Request
from flyring_stream import Stream, described, die
from flyring_table import identity_of

COMMON = ("schema", "schema_id", "schema_version", "mode", "any_file_system", "wake")
OPTIONS = ("segment_size", "consumers", "content", *COMMON)
OPENING = ("read_only", "any_file_system", "wake", "min_schema_version")
STARTS: dict[str, Callable[[int], JournalStart]] = {
    "position": JournalStart.at_position,
    "number": JournalStart.at_number,
    "time": JournalStart.at_time,
}
BATCH = 8
NS = 1_000_000_000
Reading = JournalReader | JournalConsumer


def policy_of(request: Request) -> dict[str, Any]:
    """Returns the options that can be changed later. A request has times in ns, the binding in seconds."""
    made = {name: request[name] for name in ("max_size", "trim_consumed") if name in request}
    if "max_age" in request:
        made["max_age"] = request["max_age"] / NS
    if (sync := request.get("sync")) is not None:
        made["sync"] = sync if isinstance(sync, str) else sync / NS
    return made


def start_of(request: Request) -> Any:
    start = request.get("start") or "oldest"
    if isinstance(start, str):
        return start
    ((kind, value),) = start.items()
    return STARTS[kind](value)


def typed(request: Request) -> dict[str, Any]:
    return {name: request[name] for name in ("type", "time") if name in request}


def json_of(message: Any) -> Answer:
    return described(message) | {"time": message.time, "number": message.number}


def place(reading: Reading) -> Answer:
    return {name: getattr(reading, name) for name in ("position", "number", "lost", "cuts")}


class Journals:
    """The part of the peer for journals. Some ops have the names of ops of channels and tables."""

    def __init__(self) -> None:
        self.journals: dict[str, Journal] = {}
        self.journal_writers: dict[str, JournalWriter] = {}
        self.readers: dict[str, JournalReader] = {}
        self.consumers: dict[str, JournalConsumer] = {}
        self.journal_claims: dict[str, Claim] = {}
        self.journal_ops: dict[str, Callable[[Request], Answer]] = {
            name.removeprefix("journal_op_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("journal_op_")
        }

    def is_of_journal(self, request: Request) -> bool:
        """Returns whether a request names a journal, or what was made from one."""
        return any(kind in request for kind in ("journal", "reader", "consumer")) or (
            request.get("writer") in self.journal_writers
        )

    def reading(self, request: Request) -> Reading:
        return self.consumers[request["consumer"]] if "consumer" in request else self.readers[request["reader"]]

    def _make_journal(self, request: Request, make: Callable[..., Journal]) -> Answer:
        options = {name: request[name] for name in OPTIONS if request.get(name) is not None}
        journal = make(request["name"], _identity=identity_of(request), **options, **policy_of(request))
        self.journals[request["journal"]] = journal
        return self.journal_op_info(request)

    def journal_op_create(self, request: Request) -> Answer:
        return self._make_journal(request, Journal.create)

    def journal_op_open_or_create(self, request: Request) -> Answer:
        return self._make_journal(request, Journal.open_or_create)

    def journal_op_open(self, request: Request) -> Answer:
        options = {name: request[name] for name in OPENING if name in request}
        identity = identity_of(request)
        if "timeout" in request:
            journal = Journal.wait_for(request["name"], request["timeout"], _identity=identity, **options)
        else:
            journal = Journal.open(request["name"], _identity=identity, **options)
        self.journals[request["journal"]] = journal
        return self.journal_op_info(request)

    def journal_op_info(self, request: Request) -> Answer:
        journal = self.journals[request["journal"]]
        header = journal.header
        return {
            "path": journal.path,
            "journal_id": str(journal.id),
            "segment_size": journal.segment_size,
            "consumers": header.consumers,
            "content": header.content,
            "created_at": journal.created_at,
            "schema": journal.schema or "",
            "schema_id": header.schema_id,
            "schema_version": header.schema_version,
        }

    def journal_op_stats(self, request: Request) -> Answer:
        stats = asdict(self.journals[request["journal"]].stats())
        sync = stats["sync"]
        for consumer in stats["consumers"]:
            del consumer["slot"]
        return {
            "stats": stats
            | {
                "id": str(stats["id"]),
                "sync": {"never": 0, "each": -1}[sync] if isinstance(sync, str) else round(sync * NS),
                "max_age": round(stats["max_age"] * NS),
                "consumers": list(stats["consumers"]),
            }
        }

    def journal_op_unlink(self, request: Request) -> Answer:
        Journal.unlink(request["name"])
        return {}

    # Writing

    def journal_op_writer(self, request: Request) -> Answer:
        options = {name: request[name] for name in ("helper", "ahead") if name in request}
        writer = self.journals[request["journal"]].writer(
            request.get("name") or "", timeout=request.get("timeout", 0), **options
        )
        self.journal_writers[request["writer"]] = writer
        recovery = writer.recovery
        return {
            "epoch": writer.epoch,
            "position": writer.position,
            "number": writer.number,
            "recovery": None if recovery is None else asdict(recovery),
        }

    def journal_op_append(self, request: Request) -> Answer:
        writer, data = self.journal_writers[request["writer"]], bytes.fromhex(request["data"])
        return {"position": writer.append(data, **typed(request))}

    def journal_op_append_many(self, request: Request) -> Answer:
        messages = [bytes.fromhex(data) for data in request["data"]]
        return {"taken": self.journal_writers[request["writer"]].append_many(messages, **typed(request))}

    def journal_op_claim(self, request: Request) -> Answer:
        writer = self.journal_writers[request["writer"]]
        self.journal_claims[request["writer"]] = writer.claim(request["length"], **typed(request))
        return {}

    def journal_op_commit(self, request: Request) -> Answer:
        claim, data = self.journal_claims[request["writer"]], bytes.fromhex(request.get("data", ""))
        claim[: len(data)] = data
        return {"position": claim.commit()}

    def journal_op_abort(self, request: Request) -> Answer:
        return {"position": self.journal_claims[request["writer"]].abort()}

    def journal_op_push(self, request: Request) -> Answer:
        journal, data = self.journals[request["journal"]], bytes.fromhex(request["data"])
        return {"position": journal.push(data, request.get("type"), timeout=request.get("timeout"))}

    def journal_op_sync(self, request: Request) -> Answer:
        if "consumer" in request:
            self.consumers[request["consumer"]].sync()
        else:
            self.journal_writers[request["writer"]].sync()
        return {}

    # Reading

    def journal_op_reader(self, request: Request) -> Answer:
        reader = self.journals[request["journal"]].reader(
            start_of(request),
            durable=request.get("durable", False),
            skip_damaged=request.get("skip_damaged", False),
        )
        self.readers[request["reader"]] = reader
        return place(reader)

    def journal_op_consumer(self, request: Request) -> Answer:
        consumer = self.journals[request["journal"]].consumer(
            request["name"], start_of(request), skip_damaged=request.get("skip_damaged", False)
        )
        self.consumers[request["consumer"]] = consumer
        return place(consumer) | {"epoch": consumer.epoch}

    def journal_op_positions(self, request: Request) -> Answer:
        if "writer" in request:
            writer = self.journal_writers[request["writer"]]
            return {"position": writer.position, "number": writer.number}
        return place(self.reading(request))

    def journal_op_seek(self, request: Request) -> Answer:
        reader = self.readers[request["reader"]]
        reader.seek(start_of(request))
        return place(reader)

    def journal_op_poll(self, request: Request) -> Answer:
        messages: list[Answer] = []
        action = request.get("action", "CONTINUE")
        if action != "throw" and action not in Action.__members__:
            raise BadRequestError(f"action: {action}")

        def handle(message: Any) -> Action | None:
            messages.append(json_of(message))
            if action == "throw":
                raise HandlerError
            return Action[action]

        try:
            self.reading(request).poll(handle, request.get("limit", 256), request.get("timeout", 0))
        except HandlerError:
            return {"messages": messages, "threw": True}
        return {"messages": messages}

    def journal_op_take(self, request: Request) -> Answer:
        message = self.reading(request).take(request.get("timeout", 0))
        return {"message": None if message is None else json_of(message)}

    def journal_op_pop(self, request: Request) -> Answer:
        consumer = self.consumers[request["consumer"]]
        message = consumer.pop(request["timeout"]) if "timeout" in request else consumer.pop()
        return {"message": None if message is None else json_of(message)}

    def journal_op_peek(self, request: Request) -> Answer:
        message = self.consumers[request["consumer"]].peek()
        return {"message": None if message is None else json_of(message)}

    def journal_op_ended(self, request: Request) -> Answer:
        return {"ended": self.reading(request).ended()}

    def journal_op_size(self, request: Request) -> Answer:
        return {"size": self.consumers[request["consumer"]].size}

    def journal_op_forget(self, request: Request) -> Answer:
        if "consumer" in request:
            self.consumers[request["consumer"]].forget()
        else:
            self.journals[request["journal"]].forget(request["name"])
        return {}

    # The whole journal

    def journal_op_trim(self, request: Request) -> Answer:
        limits = {name: request[name] for name in ("consumed", "position", "before", "size") if name in request}
        return {"freed": self.journals[request["journal"]].trim(**limits)}

    def journal_op_change(self, request: Request) -> Answer:
        self.journals[request["journal"]].change(**policy_of(request))
        return {}

    def journal_op_close(self, request: Request) -> Answer:
        if "writer" in request:
            self.journal_writers[request["writer"]].close(request.get("sync", True))
        elif "journal" in request:
            self.journals[request["journal"]].close()
        else:
            self.reading(request).close()
        return {}

    # Streams

    def journal_op_append_stream(self, request: Request) -> Answer:
        writer, stream = self.journal_writers[request["writer"]], Stream.of(request)
        how, last, first = request.get("how", "append"), request.get("die_at"), request.get("first", 0)
        if how not in ("append", "claim", "many", "mix"):
            raise BadRequestError(f"how: {how}")
        i, end = first, first + request["count"]
        start = time.monotonic()
        give_up = start + request.get("seconds", 60)
        while i < end and (i % 16 or time.monotonic() < give_up):
            way = ("append", "claim", "many")[i % 3] if how == "mix" else how
            kind, data = stream.message(i)
            if i == last:
                claim = writer.claim(len(data), kind)
                claim[: len(data) // 2] = data[: len(data) // 2]
                die()
            if way == "append":
                writer.append(data, kind)
            elif way == "claim":
                if how == "mix" and i % 30 == 1:
                    writer.claim(len(data), kind).abort()
                claim = writer.claim(len(data), kind)
                claim[:] = data
                claim.commit()
            else:
                batch = [data]
                while len(batch) < BATCH and i + len(batch) < end and i + len(batch) != last:
                    next_kind, next_data = stream.message(i + len(batch))
                    if next_kind != kind:
                        break
                    batch.append(next_data)
                if writer.append_many(batch, kind) != len(batch):
                    raise RefusedError("mismatch", "append_many took less than it was given")
                i += len(batch) - 1
            i += 1
        seconds = time.monotonic() - start
        return {"count": i - first, "seconds": seconds, "position": writer.position, "number": writer.number}

    def journal_op_read_stream(self, request: Request) -> Answer:
        reading, how = self.reading(request), request.get("how", "poll")
        if how not in ("poll", "take", "mix"):
            raise BadRequestError(f"how: {how}")
        wait = request.get("wait", "backoff")
        if wait not in ("backoff", "block"):
            raise BadRequestError(f"wait: {wait}")
        if "spin" in request:
            reading.set_spin(request["spin"] / NS)
        checker = Checker(reading, request)
        start = time.monotonic()
        give_up, turn, limit = start + request.get("seconds", 60), 0, 0.2 if wait == "block" else 0
        while checker.next < checker.end:
            turn += 1
            before = checker.seen
            # Not take for the one to die in, which consumes its message before it returns.
            if checker.seen != checker.die_at and (how == "take" or (how == "mix" and turn % 2 == 1)):
                if (message := reading.take(limit)) is not None:
                    checker.check(message)
            else:
                reading.poll(checker.check, min(256, checker.end - checker.next), limit)
            # Behind messages, too: a writer that is faster than this reader leaves it no idle turn.
            if time.monotonic() > give_up and checker.next < checker.end:
                raise RefusedError("timeout", "not all messages came in time", counts=[checker.seen])
            if checker.seen == before and not limit:
                time.sleep(50e-6)
        return {"count": checker.seen, "seconds": time.monotonic() - start, "verified": True} | {
            name: getattr(reading, name) for name in ("position", "number", "lost")
        }


class Checker:
    """The expected and received messages of one ``read_stream``."""

    def __init__(self, reading: Reading, request: Request) -> None:
        self.reading, self.stream, self.die_at = reading, Stream.of(request), request.get("die_at")
        self.next = request.get("first", 0)
        self.end = self.next + request["count"]
        self.lost, self.number, self.position, self.seen = reading.lost, reading.number, reading.position, 0

    def check(self, message: Any) -> None:
        if self.seen == self.die_at:
            die()
        gap = self.reading.lost - self.lost
        self.lost, self.number, self.next = self.lost + gap, self.number + gap, self.next + gap
        kind, data = self.stream.message(self.next)
        wrong = [
            what
            for what, is_wrong in (
                ("behind the stream's end", self.next >= self.end),
                (f"type {message.type}", message.type != kind),
                ("payload", bytes(message) != data),
                (f"number {message.number}", message.number != self.number),
                (f"position {message.position}", message.position < self.position),
                (f"time {message.time}", message.time <= 0),
            )
            if is_wrong
        ]
        if wrong:
            raise RefusedError("mismatch", f"message {self.next}: {wrong[0]}", sequence=self.next, what=wrong[0])
        self.position = message.position + 1
        self.number, self.next, self.seen = self.number + 1, self.next + 1, self.seen + 1
