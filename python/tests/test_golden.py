# SPDX-License-Identifier: Apache-2.0
"""The golden files: the same operations write the same bytes, and every file has the expected contents."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import flyring
from conftest import GOLDEN, SPEC, golden_id, load_golden
from flyring import Channel, InvalidArgumentError, VersionTooNewError, layout
from flyring._identity import Identity
from flyring.slots import read_slot
from flyring.system import control_lock, new_lock
from golden_services import ServiceActor, bytes_of, in_order, requests_left

# The files of the implemented layout version, which are also written.
CURRENT = [path for path in GOLDEN if path.parent.name == f"{layout.MAJOR}.{layout.MINOR}"]
NEWER = [path for path in GOLDEN if path.parent.name == "newer"]
REFUSED = sorted(SPEC.glob("golden/refused/*.json"))
DEAD = sorted(SPEC.glob("golden/dead/*.json"))


def test_there_are_golden_files() -> None:
    assert len(CURRENT) >= 23
    assert len(NEWER) >= 7
    assert len(REFUSED) >= 2
    assert len(DEAD) >= 31


def described(job: flyring.Job) -> dict[str, Any]:
    fields = {name: getattr(job, name) for name in ("ring", "position", "attempts", "repeat", "type")}
    return fields | {"data": bytes(job).hex()}


class Actor(ServiceActor):
    """Does the operations of a golden file and compares each result."""

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self.channel = channel
        self.objects: dict[str, Any] = {}
        self.claims: dict[str, flyring.Claim] = {}
        self.jobs: dict[str, flyring.Job] = {}

    def do(self, operation: dict[str, Any]) -> None:
        fields = dict(operation)
        getattr(self, fields.pop("op"))(**fields)

    def publisher(self, name: str, ring: int, epoch: int, position: int, max_lag: int = 0, **handle: str) -> None:
        publisher = self.objects[handle["as"]] = self.channel.publisher(name, max_lag=max_lag)
        assert (publisher.ring, publisher.epoch, publisher.position) == (ring, epoch, position)

    def subscriber(
        self,
        name: str,
        kept: bool,
        rings: list[int] | None,
        slot: int,
        epoch: int,
        positions: dict[str, int],
        **handle: str,
    ) -> None:
        subscriber = self.objects[handle["as"]] = self.channel.subscriber(name, kept=kept, rings=rings)
        assert (subscriber.slot, subscriber.epoch) == (slot, epoch)
        assert {str(ring): subscriber.position(ring) for ring in subscriber.rings} == positions

    def offer(self, publisher: str, type: int, data: Any, position: int) -> None:
        assert (self.objects[publisher].offer(bytes_of(data), type) or -1) == position

    def claim(self, publisher: str, length: int, type: int, claimed: bool) -> None:
        claim = self.objects[publisher].try_claim(length, type)
        assert (claim is not None) == claimed
        if claim is not None:
            self.claims[publisher] = claim

    def commit(self, publisher: str, data: Any, position: int) -> None:
        claim = self.claims.pop(publisher)
        claim[:] = bytes_of(data)
        assert claim.commit() == position

    def abort(self, publisher: str, position: int) -> None:
        assert self.claims.pop(publisher).abort() == position

    def offer_batch(self, publisher: str, type: int, data: list[Any], taken: int) -> None:
        assert self.objects[publisher].offer_batch([bytes_of(one) for one in data], type) == taken

    def poll(self, subscriber: str, limit: int, expect: int) -> None:
        assert self.objects[subscriber].poll(lambda message: None, limit) == expect

    def worker(self, name: str, slot: int, epoch: int, **handle: str) -> None:
        worker = self.objects[handle["as"]] = self.channel.worker(name)
        assert (worker.slot, worker.epoch) == (slot, epoch)

    def take_job(self, worker: str, job: dict[str, Any] | None) -> None:
        taken = self.objects[worker].take()
        assert (None if taken is None else described(taken)) == (job and {**job, "data": bytes_of(job["data"]).hex()})
        if taken is not None:
            self.jobs[worker] = taken

    def done(self, worker: str) -> None:
        self.jobs.pop(worker).done()

    def release(self, worker: str, released: bool) -> None:
        assert self.jobs.pop(worker).release() == released

    def poll_jobs(self, worker: str, limit: int, jobs: list[dict[str, Any]]) -> None:
        found: list[dict[str, Any]] = []
        self.objects[worker].poll(lambda job: found.append(described(job)), limit)
        assert found == [{**job, "data": bytes_of(job["data"]).hex()} for job in jobs]

    def close(self, **handle: str) -> None:
        (name,) = handle.values()
        self.objects.pop(name).close()

    def evict(self, slot: int, messages: int) -> None:
        assert self.channel.evict(slot) == messages

    def forget(self, subscriber: str) -> None:
        self.objects.pop(subscriber).forget()

    def foreign_store(self, offset: int, data: str) -> None:
        """Writes to the mapped file, like a process with other software."""
        with open(self.channel.path, "r+b", buffering=0) as file:
            assert os.pwrite(file.fileno(), bytes.fromhex(data), offset) == len(data) // 2

    def counter_allocate(self, label: str, type_id: int, key: str, counter: int) -> None:
        assert self.channel.counters().allocate(label, type_id, bytes.fromhex(key)).id == counter

    def counter_set(self, counter: int, value: int) -> None:
        self.channel.counters().counter(counter).set(value)

    def counter_add(self, counter: int, delta: int, previous: int) -> None:
        assert self.channel.counters().counter(counter).get_and_add(delta) == previous

    def counter_free(self, counter: int) -> None:
        self.channel.counters().counter(counter).free()


def first_difference(ours: bytes, theirs: bytes) -> str:
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
    if at is None:
        return f"lengths {len(ours)} and {len(theirs)}"
    return f"at {at}: ours {ours[at : at + 16].hex()}, golden {theirs[at : at + 16].hex()}"


@pytest.mark.parametrize("path", CURRENT, ids=golden_id)
def test_the_same_operations_write_the_same_bytes(path: Path) -> None:
    golden = load_golden(path)
    inject = golden["inject"]
    identity = Identity(
        channel_id=UUID(inject["channel_id"]),
        created_at=inject["created_at"],
        boot_id=UUID(inject["boot_id"]),
        pid=inject["pid"],
        now=inject["now"],
        monotonic=inject["monotonic"],
    )
    with Channel.create("golden", _identity=identity, **golden["create"]) as channel:
        actor = Actor(channel)
        for number, operation in enumerate(golden["operations"]):
            try:
                actor.do(operation)
            except AssertionError as error:
                raise AssertionError(f"operation {number}: {operation}") from error
        ours, theirs = Path(channel.path).read_bytes(), path.with_suffix(".ring").read_bytes()
        assert ours == theirs, first_difference(ours, theirs)


@pytest.mark.parametrize("path", GOLDEN, ids=golden_id)
def test_a_golden_file_is_read_with_the_expected_content(path: Path, folder: Path) -> None:
    expected = load_golden(path)["expected"]
    shutil.copy(path.with_suffix(".ring"), folder / "golden.ring")
    with Channel.open("golden") as channel:
        check_header(channel, expected)
        check_slots(channel, expected)
        check_counters(channel, expected)
        check_still_there(channel, expected)
        check_foreign(channel, expected)
        check_unread(channel, expected)
        check_jobs(channel, expected)
    if expected["header"]["kind"] == layout.KIND_SERVICE:
        check_requests(expected)


@pytest.mark.parametrize("path", NEWER, ids=golden_id)
def test_a_file_of_a_newer_minor_version_is_written_to_and_what_is_reserved_stays(path: Path, folder: Path) -> None:
    golden = load_golden(path)
    before = path.with_suffix(".ring").read_bytes()
    (folder / "golden.ring").write_bytes(before)
    name = next((slot["name"] for slot in golden["expected"]["subscribers"] if slot["kept"]), "")
    with Channel.open("golden") as channel:
        subscriber = channel.subscriber(name) if channel.foreign != "subscriber" else None
        while subscriber and subscriber.take():
            pass
        count = channel.publishers if channel.foreign != "publisher" else 0
        publishers = [channel.publisher() for _ in range(count)]
        for publisher in publishers:
            assert publisher.send(b"from an older version", 77, timeout=2)
            with publisher.claim(5, 78, timeout=2) as claim:
                claim[:] = b"claim"
                claim.commit()
            if subscriber and publisher.ring in subscriber.rings:
                messages = [subscriber.take(), subscriber.take()]
                assert [bytes(one) for one in messages if one] == [b"from an older version", b"claim"]
        for counter in channel.counters():
            counter.get_and_add(1)
    after = (folder / "golden.ring").read_bytes()
    assert len(after) == len(before)
    for at, length in golden["reserved"]:
        assert after[at : at + length] == before[at : at + length], at
    assert after != before


@pytest.mark.parametrize("path", REFUSED, ids=golden_id)
def test_a_file_that_needs_a_newer_version_is_refused(path: Path, folder: Path) -> None:
    expected = load_golden(path)
    shutil.copy(path.with_suffix(".ring"), folder / "golden.ring")
    with pytest.raises(VersionTooNewError) as caught:
        Channel.open("golden")
    assert (caught.value.code, caught.value.field, caught.value.found) == tuple(
        expected[key] for key in ("error", "field", "found")
    )


def written(data: bytes, runs: list[list[Any]]) -> bytes:
    changed = bytearray(data)
    for at, text in runs:
        changed[at : at + len(text) // 2] = bytes.fromhex(text)
    return bytes(changed)


@pytest.mark.parametrize("path", DEAD, ids=golden_id)
def test_the_next_owner_takes_over_the_dead(path: Path, folder: Path) -> None:
    golden = load_golden(path)
    inject = golden["inject"]
    identity = Identity(
        channel_id=UUID(inject["channel_id"]),
        created_at=inject["created_at"],
        boot_id=UUID(inject["boot_id"]),
        pid=inject["pid"],
        now=inject["now"],
        monotonic=inject.get("monotonic"),
    )
    base = written(bytes(golden["file_length"]), golden["base"])
    for number, point in enumerate(golden["dead"]):
        what = f"killed at point {number}, last store: {point['last_store']}"
        left = written(base, point["left"])
        (folder / "dead.ring").write_bytes(left)
        with Channel.open("dead", _identity=identity) as channel:
            actor = Actor(channel)
            for operation in point["operations"]:
                try:
                    actor.do(operation)
                except Exception as error:
                    raise AssertionError(f"{what}: {operation}: {error!r}") from error
            ours, theirs = (folder / "dead.ring").read_bytes(), written(left, point["after"])
            assert ours == theirs, f"{what}: {first_difference(ours, theirs)}"
            reader, found = actor.objects["reader"], []
            if channel.kind == "queue":
                lock = new_lock(channel._attached.file, channel.path)
                with control_lock(lock, channel.path):  # so that no worker adopts the job
                    assert jobs_left(channel, reader, actor.jobs.get("reader")) == sorted_jobs(point["finds"]), what
                continue
            if channel.kind == "service":
                assert requests_left(reader) == in_order(point["finds"]), what
                continue
            while (message := reader.take()) is not None:
                entry = {"ring": message.ring, "type": message.type, "position": message.position}
                found.append(entry | {"data": bytes(message).hex()})
            assert sorted(found, key=lambda entry: entry["ring"]) == point["finds"], what


def check_header(channel: Channel, expected: dict[str, Any]) -> None:
    header, wanted = channel.header, expected["header"]
    for field in ("header_length", "minor", "file_length", "created_at", "alignment", "capacity", "publishers"):
        assert getattr(header, field) == wanted[field], field
    for field in ("subscribers", "counters", "control_offset", "control_length", "counter_metadata_offset"):
        assert getattr(header, field) == wanted[field], field
    for field in ("counter_metadata_length", "counter_values_offset", "counter_values_length", "rings_offset"):
        assert getattr(header, field) == wanted[field], field
    for field in ("ring_stride", "schema_offset", "schema_length", "schema_id", "schema_version"):
        assert getattr(header, field) == wanted[field], field
    if channel.kind == "service":
        assert channel.delivery == ("at-most-once", "at-least-once")[wanted["delivery"]]
        assert channel.max_outstanding == wanted["max_outstanding"]
    assert str(channel.id) == wanted["channel_id"]
    assert channel.kind == {1: "inbox", 2: "broadcast", 3: "queue", 4: "service"}[wanted["kind"]]
    assert (channel.schema or "") == expected["schema"]
    memory = channel._attached.memory
    assert str(UUID(bytes=memory.read(header.control_offset, 16))) == expected["boot_id"]


def check_slots(channel: Channel, expected: dict[str, Any]) -> None:
    header, memory = channel.header, channel._attached.memory
    for wanted in expected["publishers"]:
        ring = wanted["ring"]
        slot, trailer = header.publisher_slot(ring), header.trailer(ring)
        fields = read_slot(memory, slot)
        assert fields is not None
        found = {
            "ring": ring,
            "epoch": fields.epoch,
            "start": memory.load64(slot + layout.PUBLISHER_SLOT_START),
            "closed": int(fields.flag),
            "name": fields.name,
            "pid": fields.pid,
            "attached_at": fields.attached_at,
            "blocked_since": memory.load64(slot + layout.PUBLISHER_SLOT_BLOCKED_SINCE),
            "blocked_length": memory.load64(slot + layout.PUBLISHER_SLOT_BLOCKED_LENGTH),
            "claimed": memory.load64(trailer + layout.TRAILER_CLAIMED),
            "published": memory.load64(trailer + layout.TRAILER_PUBLISHED),
            "messages": memory.load64(trailer + layout.TRAILER_MESSAGES_DONE),
            "boundaries": [
                [memory.load64(at), memory.load64(at + layout.TRAILER_BOUNDARY_COUNT)]
                for at in range(trailer, trailer + 8 * layout.TRAILER_BOUNDARY_STRIDE, layout.TRAILER_BOUNDARY_STRIDE)
            ],
        }
        assert found == wanted
    for wanted in expected["subscribers"]:
        slot = header.subscriber_slot(wanted["slot"])
        fields = read_slot(memory, slot)
        assert fields is not None
        found = {
            "slot": wanted["slot"],
            "epoch": fields.epoch,
            "kept": int(fields.flag),
            "evicting": memory.load32(slot + layout.SUBSCRIBER_SLOT_EVICTING),
            "name": fields.name,
            "pid": fields.pid,
            "attached_at": fields.attached_at,
            "discarded": memory.load64(slot + layout.SUBSCRIBER_SLOT_DISCARDED),
            "counts": [
                memory.load64(header.gate(ring, wanted["slot"]) + layout.GATE_COUNT)
                for ring in header.rings_of(wanted["slot"])
            ],
            "gates": [memory.load64(header.gate(ring, wanted["slot"])) for ring in header.rings_of(wanted["slot"])],
        }
        if channel.kind == "service":
            gates = [header.gate(ring, wanted["slot"]) for ring in header.rings_of(wanted["slot"])]
            if wanted["slot"] == 0:
                found["taken_ends"] = [memory.load64(gate + layout.GATE_TAKEN_END) for gate in gates]
            else:
                found["outstanding"] = memory.load32(gates[0] + layout.GATE_OUTSTANDING)
                found["expired"] = memory.load64(gates[0] + layout.GATE_EXPIRED)
        if channel.kind == "queue":
            gates = [header.gate(ring, wanted["slot"]) for ring in range(header.publishers)]
            found["busy_since"] = memory.load64(slot + layout.SUBSCRIBER_SLOT_BUSY_SINCE)
            found["taken_ends"] = [memory.load64(gate + layout.GATE_TAKEN_END) for gate in gates]
            found["attempts"] = [memory.load32(gate + layout.GATE_ATTEMPTS) for gate in gates]
        assert found == wanted


def check_counters(channel: Channel, expected: dict[str, Any]) -> None:
    found = [
        {"id": c.id, "label": c.label, "type_id": c.type_id, "key": c.key.hex(), "value": c.get()}
        for c in channel.counters()
    ]
    assert found == expected["counters"]


def check_still_there(channel: Channel, expected: dict[str, Any]) -> None:
    """Checks what a lossy reader gets that starts at the oldest message still there."""
    with Channel.open(channel.path, read_only=True) as read_only:
        for wanted in expected["still_there"]:
            with read_only.lossy_subscriber([wanted["ring"]], "oldest") as reader:
                messages = []
                while (message := reader.take()) is not None:
                    messages.append(
                        {
                            "type": message.type,
                            "position": message.position,
                            "data": bytes(message).hex(),
                            "sender": {"name": message.sender.name, "epoch": message.sender.epoch},
                        }
                    )
                found = {"ring": wanted["ring"], "ended": reader.ended(wanted["ring"]), "messages": messages}
                assert found == wanted


def check_jobs(channel: Channel, expected: dict[str, Any]) -> None:
    """Checks the jobs that a new worker gets until there are no more: in order within a ring."""
    if channel.kind != "queue":
        return
    header, memory = channel.header, channel._attached.memory
    assert memory.load64(header.control_offset + layout.CONTROL_HANDOVERS) == expected["handovers"]
    with channel.worker() as worker:
        assert jobs_left(channel, worker, None, timeout=0.02) == sorted_jobs(expected["jobs"])


def check_requests(expected: dict[str, Any]) -> None:
    """Checks the requests that a new server hands out in the boot of the file. In another boot there are none."""
    identity = Identity(boot_id=UUID(expected["boot_id"]))
    with Channel.open("golden", _identity=identity) as channel:
        header, memory = channel.header, channel._attached.memory
        assert memory.load64(header.control_offset + layout.CONTROL_SERVING) == expected["serving"]
        assert requests_left(channel.server()) == in_order(expected["requests"])


def jobs_left(channel: Channel, worker: Any, job: Any, timeout: float = 0) -> list[dict[str, Any]]:
    """Returns the jobs that a worker has in hand, and then gets until there are no more. Finishes each."""
    header, memory, found = channel.header, channel._attached.memory, []
    while (job := job or worker.take(timeout=timeout)) is not None:
        ring = next(r for r in range(header.publishers) if memory.load64(header.gate(r, worker.slot)) >= 0)
        found.append(described(job) | {"from": ring})
        job.done()
        job = None
    return sorted_jobs(found)


def sorted_jobs(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sorts jobs by the ring from which they were taken, then by ring and position."""
    return sorted(jobs, key=lambda job: (job["from"], job["ring"], job["position"]))


def check_foreign(channel: Channel, expected: dict[str, Any]) -> None:
    """Checks that the slot of a foreign end cannot be taken (6.15)."""
    foreign = {0: None, 2: "publisher", 4: "subscriber"}[expected["header"]["required_features"]]
    assert channel.foreign == foreign
    if foreign is not None:
        with pytest.raises(InvalidArgumentError) as caught:
            channel.publisher() if foreign == "publisher" else channel.subscriber()
        assert caught.value.argument == "foreign"


def check_unread(channel: Channel, expected: dict[str, Any]) -> None:
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for slot, name in {(entry["slot"], entry["name"]) for entry in expected["unread"]}:
        with channel.subscriber(name) as subscriber:
            assert subscriber.slot == slot
            for ring in subscriber.rings:
                found[slot, ring] = []
            while (message := subscriber.take()) is not None:
                entry = {"type": message.type, "position": message.position, "data": bytes(message).hex()}
                found[slot, message.ring].append(entry)
    assert found == {(entry["slot"], entry["ring"]): entry["messages"] for entry in expected["unread"]}
