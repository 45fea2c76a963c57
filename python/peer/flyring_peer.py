# SPDX-License-Identifier: Apache-2.0
"""The test peer of the Python binding (interop-tests/PEER.md): ``python -m flyring_peer [--socket PATH]``."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TextIO
from uuid import UUID

import flyring
from flyring import (
    BackPressuredError,
    BusyError,
    Channel,
    FlyringError,
    Holder,
    LossySubscriber,
    Message,
    Publisher,
    Subscriber,
)
from flyring._identity import Identity
from flyring_counters import Counters
from flyring_jobs import Jobs
from flyring_journal import Journals
from flyring_service import BadRequestError, RefusedError, Services
from flyring_stream import Stream, StreamMismatchError, Verifier, described, die
from flyring_table import Tables

CARRIED = ("path", "field", "expected", "actual", "found", "supported", "ring", "position", "reason", "needed", "free")
MORE_CARRIED = ("kind", "slots", "channel_id", "length", "limit", "argument", "slot", "call", "what_for", "cell")
OF_JOURNALS = ("to", "messages")
OF_CALLS = ("may_have_run", "text", "pid", "outstanding")
OPTIONS = ("capacity", "publishers", "subscribers", "producers", "workers", "alignment", "foreign", "counters")
MORE_OPTIONS = (
    "clients",
    "delivery",
    "max_outstanding",
    "schema",
    "schema_id",
    "schema_version",
    "mode",
    "any_file_system",
    "wake",
)
BATCH = 8
PING = struct.Struct("<qq")  # number, time of CLOCK_MONOTONIC in ns
PING_TYPE = 1

Request = dict[str, Any]
Answer = dict[str, Any]


class Idle:
    """Spins a little, then yields, then sleeps up to 50 microseconds."""

    def __init__(self) -> None:
        self.turns = 0

    def wait(self) -> None:
        self.turns += 1
        if self.turns > 200:
            time.sleep(50e-6)
        elif self.turns > 100:
            os.sched_yield()

    def reset(self) -> None:
        self.turns = 0


def settle() -> None:
    """Runs a few instructions, so that a signal during an exception in the binding is handled here at the latest."""


def described_holder(holder: Holder | None) -> Answer | None:
    return None if holder is None else asdict(holder)


def says_block(user: Publisher | Subscriber | LossySubscriber, request: Request) -> bool:
    """Returns whether a request asks for verbs that sleep ("wait": "block"). "spin": how long they spin before, in
    ns."""
    wait = request.get("wait", "backoff")
    if wait not in ("backoff", "block"):
        raise BadRequestError(f"wait: {wait}")
    if "spin" in request:
        user.set_spin(request["spin"] / 1e9)
    return wait == "block"


class Peer(Services, Tables, Jobs, Counters, Journals):
    def __init__(self) -> None:
        Jobs.__init__(self)
        Services.__init__(self)
        Tables.__init__(self)
        Journals.__init__(self)
        self.channels: dict[str, Channel] = {}
        self.publishers: dict[str, Publisher] = {}
        self.subscribers: dict[str, Subscriber | LossySubscriber] = {}
        self.claims: dict[str, flyring.Claim] = {}
        self.meshes: dict[str, flyring.Mesh] = {}
        self.ops: dict[str, Callable[[Request], Answer]] = {
            name.removeprefix("op_"): getattr(self, name) for name in dir(self) if name.startswith("op_")
        }

    def answer(self, line: str) -> Answer:
        request: Any = None
        result: Answer
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise BadRequestError(f"no such request: {line.strip()[:200]}")
            ops = self.journal_ops if self.is_of_journal(request) else self.ops
            if request.get("op") not in ops:
                raise BadRequestError(f"no such request: {line.strip()[:200]}")
            result = {"ok": True} | ops[request["op"]](request)
            settle()
        except FlyringError as error:
            result = {"ok": False, "error": error.code, "message": str(error)}
            if isinstance(error, (BackPressuredError, BusyError)):
                result["holder"] = described_holder(error.holder)
            if isinstance(error, flyring.NoFreeSlotError):
                result["owners"] = [owner._asdict() for owner in error.owners]
            if isinstance(error, flyring.ServerGoneError):
                result["name"] = error.name
            if isinstance(error, flyring.IoError):
                result["errno"] = error.errno
            if isinstance(error, flyring.DamagedError):
                result["from"] = error.from_
            for name in CARRIED + MORE_CARRIED + OF_CALLS + OF_JOURNALS:
                value = getattr(error, name, None)
                if value is not None and not callable(value):
                    result[name] = value if isinstance(value, (int, str, list)) else str(value)
        except RefusedError as refused:
            result = {"ok": False} | refused.answer
        except (BadRequestError, KeyError, TypeError, ValueError, OverflowError) as error:
            result = {"ok": False, "error": "bad-request", "message": f"{type(error).__name__}: {error}"}
        except KeyboardInterrupt:
            result = {"ok": False, "error": "interrupted", "message": "a signal came"}
        except Exception as error:
            result = {"ok": False, "error": "unexpected", "message": f"{type(error).__name__}: {error}"}
        if isinstance(request, dict) and "id" in request:
            result["id"] = request["id"]
        return result

    def close_all(self) -> None:
        for channel in [*self.channels.values(), *self.tables.values(), *self.journals.values()]:
            with contextlib.suppress(FlyringError):
                channel.close()

    def op_die(self, request: Request) -> Answer:
        die()
        return {}

    # Channels

    def op_hello(self, request: Request) -> Answer:
        return {
            "language": "python",
            "version": flyring.__version__,
            "layout": "1.0",
            "pid": os.getpid(),
            "ops": [*{**self.ops, **self.journal_ops}, "quit"],
        }

    def _make(self, request: Request, make: Callable[..., Channel]) -> Answer:
        options = {name: request[name] for name in OPTIONS + MORE_OPTIONS if request.get(name) is not None}
        inject = request.get("inject") or {}
        identity = Identity(
            channel_id=UUID(inject["channel_id"]) if "channel_id" in inject else None,
            created_at=inject.get("created_at"),
            boot_id=UUID(inject["boot_id"]) if "boot_id" in inject else None,
            pid=inject.get("pid"),
            now=inject.get("now"),
            monotonic=inject.get("monotonic"),
        )
        return self._attached(request, make(request["name"], request["kind"], _identity=identity, **options))

    def _attached(self, request: Request, channel: Channel) -> Answer:
        self.channels[request["channel"]] = channel
        return self.op_info(request)

    def op_create(self, request: Request) -> Answer:
        if "table" in request:
            return self.make_table(request, flyring.Table.create)
        return self._make(request, Channel.create)

    def op_open_or_create(self, request: Request) -> Answer:
        if "table" in request:
            return self.make_table(request, flyring.Table.open_or_create)
        return self._make(request, Channel.open_or_create)

    def op_replace(self, request: Request) -> Answer:
        if "table" in request:
            return self.make_table(request, flyring.Table.replace)
        return self._make(request, Channel.replace)

    def op_open(self, request: Request) -> Answer:
        if "table" in request:
            return self.open_table(request)
        read_only, wake = bool(request.get("read_only", False)), request.get("wake", True)
        if "timeout" in request:
            channel = Channel.wait_for(request["name"], request["timeout"], read_only=read_only, wake=wake)
        else:
            channel = Channel.open(request["name"], read_only=read_only, wake=wake)
        return self._attached(request, channel)

    def op_info(self, request: Request) -> Answer:
        if "table" in request:
            return self.table_info(request)
        channel = self.channels[request["channel"]]
        return {
            "path": channel.path,
            "channel_id": str(channel.id),
            "kind": channel.kind,
            "capacity": channel.capacity,
            "publishers": channel.publishers,
            "subscribers": channel.subscribers,
            "alignment": channel.alignment,
            "foreign": channel.foreign,
            "counters": channel.counter_count,
            "file_length": channel.header.file_length,
        }

    def op_stats(self, request: Request) -> Answer:
        if "table" in request:
            return self.table_stats(request)
        return {"stats": self.channels[request["channel"]].stats().as_dict()}

    def op_unlink(self, request: Request) -> Answer:
        unlink = flyring.Table.unlink if request.get("table") else flyring.unlink
        unlink(request["name"])
        return {}

    def op_beside(self, request: Request) -> Answer:
        channel, do, fifo = self.channels[request["channel"]], request["do"], request["fifo"]
        if do not in ("close", "fork"):
            raise BadRequestError("do is neither close nor fork")
        threading.Thread(target=beside, args=(channel, do, fifo), daemon=True).start()
        return {}

    def op_publisher(self, request: Request) -> Answer:
        publisher = self.channels[request["channel"]].publisher(
            request.get("name") or "", max_lag=request.get("max_lag") or 0
        )
        self.publishers[request["publisher"]] = publisher
        return {"ring": publisher.ring, "epoch": publisher.epoch, "position": publisher.position}

    def op_subscriber(self, request: Request) -> Answer:
        subscriber = self.channels[request["channel"]].subscriber(
            request.get("name") or "",
            kept=bool(request.get("kept", False)),
            rings=request.get("rings"),
            timeout=request.get("timeout", 0),
        )
        self.subscribers[request["subscriber"]] = subscriber
        return {
            "slot": subscriber.slot,
            "epoch": subscriber.epoch,
            "rings": list(subscriber.rings),
            "positions": {str(ring): subscriber.position(ring) for ring in subscriber.rings},
        }

    def op_lossy_subscriber(self, request: Request) -> Answer:
        subscriber = self.channels[request["channel"]].lossy_subscriber(
            request.get("rings"), request.get("start") or "now", when_lapped=request.get("when_lapped") or "oldest"
        )
        self.subscribers[request["subscriber"]] = subscriber
        return {"rings": list(subscriber.rings)} | self.op_positions(request)

    def op_evict(self, request: Request) -> Answer:
        return {"messages": self.channels[request["channel"]].evict(request["slot"])}

    def op_close(self, request: Request) -> Answer:
        if "table" in request or "writer" in request:
            self.close_table(request)
        elif "channel" in request:
            self.channels[request["channel"]].close()
        elif "publisher" in request:
            self.publishers[request["publisher"]].close()
        elif "worker" in request:
            self.workers[request["worker"]].close()
        elif "server" in request:
            self.servers[request["server"]].close()
        elif "mesh" in request:
            self.meshes[request["mesh"]].close()
        elif "client" in request:
            self.clients[request["client"]].client.close()
        else:
            self.subscribers[request["subscriber"]].close()
        return {}

    def op_mesh(self, request: Request) -> Answer:
        one = flyring.Mesh(self.channels[request["channel"]], request["name"], request["every"] / 1e9)
        self.meshes[request["mesh"]] = one
        return {"ring": one.ring}

    def op_forget(self, request: Request) -> Answer:
        subscriber = self.subscribers[request["subscriber"]]
        if isinstance(subscriber, LossySubscriber):
            raise BadRequestError("a lossy subscriber has no slot to forget")
        subscriber.forget()
        return {}

    # Publishing

    def op_offer(self, request: Request) -> Answer:
        publisher = self.publishers[request["publisher"]]
        data, kind = bytes.fromhex(request["data"]), request.get("type", 1)
        if "timeout" in request:
            return {"position": publisher.send(data, kind, request["timeout"])}
        position = publisher.offer(data, kind)
        return {"position": -1 if position is None else position}

    def op_flush(self, request: Request) -> Answer:
        self.publishers[request["publisher"]].flush(request.get("timeout"))
        return {}

    def op_offer_batch(self, request: Request) -> Answer:
        publisher = self.publishers[request["publisher"]]
        messages = [bytes.fromhex(data) for data in request["data"]]
        if "timeout" in request:
            return {"taken": publisher.send_batch(messages, request.get("type", 1), request["timeout"])}
        return {"taken": publisher.offer_batch(messages, request.get("type", 1))}

    def op_claim(self, request: Request) -> Answer:
        handle = request["publisher"]
        publisher, length, kind = self.publishers[handle], request["length"], request.get("type", 1)
        if "timeout" in request:
            claim: flyring.Claim | None = publisher.claim(length, kind, request["timeout"])
        else:
            claim = publisher.try_claim(length, kind)
        if claim is not None:
            self.claims[handle] = claim
        return {"claimed": claim is not None}

    def op_commit(self, request: Request) -> Answer:
        claim, data = self.claims[request["publisher"]], bytes.fromhex(request.get("data", ""))
        claim[: len(data)] = data
        return {"position": claim.commit()}

    def op_abort(self, request: Request) -> Answer:
        return {"position": self.claims[request["publisher"]].abort()}

    def op_held_by(self, request: Request) -> Answer:
        return {"holder": described_holder(self.publishers[request["publisher"]].held_by())}

    def op_positions(self, request: Request) -> Answer:
        if "publisher" in request:
            return {"position": self.publishers[request["publisher"]].position}
        subscriber = self.subscribers[request["subscriber"]]
        return {"positions": {str(ring): subscriber.position(ring) for ring in subscriber.rings}}

    def op_publish_stream(self, request: Request) -> Answer:
        publisher = self.publishers[request["publisher"]]
        stream, how, last = Stream.of(request), request.get("how", "offer"), request.get("die_at")
        if how not in ("offer", "claim", "batch", "mix"):
            raise BadRequestError(f"how: {how}")
        first = request.get("first", 0)
        end = first + request["count"]
        start = time.monotonic()
        give_up = start + request.get("seconds", 60)
        idle, back_pressured, i = Idle(), 0, first
        blocks = says_block(publisher, request)
        while i < end:
            left = max(0.0, give_up - time.monotonic()) if blocks else 0
            way = ("offer", "claim", "batch")[i % 3] if how == "mix" else how
            kind, data = stream.message(i)
            if i == last:
                taken = self._claim_and_die(publisher, data, kind)
            elif way == "offer":
                taken = self._send(publisher, data, kind, left) if blocks else int(bool(publisher.offer(data, kind)))
            elif way == "claim":
                if how == "mix" and i % 30 == 1 and (aborted := publisher.try_claim(len(data), kind)) is not None:
                    aborted.abort()
                taken = self._claim_and_commit(publisher, data, kind, left)
            else:
                batch = [data]
                while len(batch) < BATCH and i + len(batch) < end and i + len(batch) != last:
                    next_kind, next_data = stream.message(i + len(batch))
                    if next_kind != kind:
                        break
                    batch.append(next_data)
                taken = publisher.send_batch(batch, kind, left)
            if taken:
                i += taken
                idle.reset()
            else:
                back_pressured += 1
                idle.wait()
                if (blocks or idle.turns % 64 == 0) and time.monotonic() > give_up:
                    raise RefusedError(
                        "timeout", f"held back at message {i}: {publisher.held_by()}", counts=[i - first]
                    )
        return {
            "count": end - first,
            "seconds": time.monotonic() - start,
            "back_pressured": back_pressured,
            "position": publisher.position,
        }

    @staticmethod
    def _send(publisher: Publisher, data: bytes, kind: int, timeout: float) -> int:
        try:
            return int(publisher.send(data, kind, timeout) > 0)
        except flyring.BackPressuredError:
            return 0

    @staticmethod
    def _claim_and_commit(publisher: Publisher, data: bytes, kind: int, timeout: float) -> int:
        claim = publisher.try_claim(len(data), kind)
        if claim is None and timeout > 0:
            with contextlib.suppress(flyring.BackPressuredError):
                claim = publisher.claim(len(data), kind, timeout)
        if claim is None:
            return 0
        claim[:] = data
        claim.commit()
        return 1

    @staticmethod
    def _claim_and_die(publisher: Publisher, data: bytes, kind: int) -> int:
        claim = publisher.try_claim(len(data), kind)
        if claim is not None:
            claim[: len(data) // 2] = data[: len(data) // 2]
            die()
        return 0

    # Subscribing

    def op_take(self, request: Request) -> Answer:
        message = self.subscribers[request["subscriber"]].take(request.get("timeout", 0))
        return {"message": None if message is None else described(message)}

    def op_poll(self, request: Request) -> Answer:
        messages: list[dict[str, Any]] = []
        subscriber = self.subscribers[request["subscriber"]]
        subscriber.poll(
            lambda message: messages.append(described(message)), request.get("limit", 256), request.get("timeout", 0)
        )
        return {"messages": messages}

    def _lossy(self, request: Request) -> LossySubscriber:
        subscriber = self.subscribers[request["subscriber"]]
        if not isinstance(subscriber, LossySubscriber):
            raise BadRequestError("this subscriber is not a lossy one")
        return subscriber

    def op_peek(self, request: Request) -> Answer:
        message = self._lossy(request).peek()
        return {"message": None if message is None else described(message)}

    def op_valid(self, request: Request) -> Answer:
        return {"valid": self._lossy(request).valid()}

    def op_lost(self, request: Request) -> Answer:
        subscriber, ring = self._lossy(request), request["ring"]
        return {"messages": subscriber.lost_messages(ring), "bytes": subscriber.lost_bytes(ring)}

    def op_ended(self, request: Request) -> Answer:
        return {"ended": self.subscribers[request["subscriber"]].ended(request["ring"])}

    def op_verify_stream(self, request: Request) -> Answer:
        subscriber, how = self.subscribers[request["subscriber"]], request.get("how", "poll")
        if how not in ("poll", "take", "mix"):
            raise BadRequestError(f"how: {how}")
        blocks = says_block(subscriber, request)
        verifier = Verifier(subscriber, request["streams"], request.get("die_at"), 0.2 if blocks else 0)
        start = time.monotonic()
        give_up = start + request.get("seconds", 60)
        idle, turn = Idle(), 0
        try:
            while missing := verifier.missing:
                turn += 1
                if verifier.turn(how == "take" or (how == "mix" and turn % 2 == 1), min(256, missing)):
                    idle.reset()
                elif not blocks:
                    idle.wait()
                # Behind messages, too: publishers that are faster than this reader leave it no idle turn.
                if (blocks or turn % 64 == 0) and time.monotonic() > give_up and verifier.missing:
                    raise RefusedError("timeout", "not all messages came in time", counts=verifier.counts())
        except StreamMismatchError as wrong:
            raise RefusedError(
                "mismatch", str(wrong), ring=wrong.ring, sequence=wrong.sequence, what=wrong.what
            ) from wrong
        seconds = time.monotonic() - start
        return {"count": verifier.count, "seconds": seconds, "verified": True, "rings": verifier.rings()}

    def op_ping_pong(self, request: Request) -> Answer:
        if "table" in request:
            return self.table_ping_pong(request)
        publisher, subscriber = self.publishers[request["publisher"]], self.subscribers[request["subscriber"]]
        count, first, seconds = request["count"], bool(request.get("first", False)), request.get("seconds", 60)
        late_from, spin = request.get("late", 50_000_000), request.get("spin", 0) / 1e9
        publisher.set_spin(spin)
        subscriber.set_spin(spin)
        clock, longest, late = time.monotonic_ns, 0, 0
        start = clock()
        for number in range(count):
            if first:
                publisher.send(PING.pack(number, clock()), PING_TYPE, seconds)
            message = subscriber.take(seconds)
            taken = clock()
            if message is None:
                raise RefusedError("timeout", f"message {number} did not come in {seconds} s", counts=[number])
            took = taken - ping_time(message, number)
            longest = max(longest, took)
            late += took >= late_from
            if not first:
                publisher.send(PING.pack(number, clock()), PING_TYPE, seconds)
        return {"count": count, "seconds": (clock() - start) / 1e9, "longest": longest, "late": late}


def ping_time(message: Message, number: int) -> int:
    """Returns when message `number` of a ping_pong was published."""
    what = ""
    if (message.type, len(message)) != (PING_TYPE, PING.size):
        what = f"type {message.type}, {len(message)} bytes; not type {PING_TYPE}, {PING.size} bytes"
    elif (found := PING.unpack(message)[0]) != number:
        what = f"it is number {found}"
    if what:
        text = f"ring {message.ring}, message {number}: {what}"
        raise RefusedError("mismatch", text, ring=message.ring, sequence=number, what=what)
    published: int = PING.unpack(message)[1]
    return published


def beside(channel: Channel, do: str, fifo: str) -> None:
    """Another thread: waits for its order, then acts."""
    with open(fifo + ".go", "rb") as go:
        if not go.read(1):
            return
    done = "o"
    try:
        if do == "close":
            channel.close()
        elif (child := os.fork()) == 0:
            closed = False
            try:
                channel.publisher()
            except flyring.ClosedError:
                closed = True
            finally:
                os._exit(0 if closed else 1)
        else:
            done = "o" if os.waitpid(child, 0)[1] == 0 else "x"
    except FlyringError:
        done = "e"
    except BaseException:
        done = "x"
    with open(fifo + ".done", "w") as answer:
        answer.write(done)


def serve(requests: TextIO, answers: TextIO) -> None:
    peer = Peer()
    try:
        for line in requests:
            if not line.strip():
                continue
            with contextlib.suppress(ValueError, AttributeError):
                request = json.loads(line)
                if request.get("op") == "quit":
                    answers.write(json.dumps({"ok": True} | {k: v for k, v in request.items() if k == "id"}) + "\n")
                    answers.flush()
                    return
            answers.write(json.dumps(peer.answer(line)) + "\n")
            answers.flush()
    finally:
        peer.close_all()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m flyring_peer", description=__doc__)
    parser.add_argument(
        "--socket", metavar="PATH", help="a Unix stream socket to connect to, instead of stdin and stdout"
    )
    options = parser.parse_args()
    if options.socket is None:
        serve(sys.stdin, sys.stdout)
        return 0
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(options.socket)
        with (
            connection.makefile("r", encoding="utf-8") as requests,
            connection.makefile("w", encoding="utf-8") as answers,
        ):
            serve(requests, answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
