# SPDX-License-Identifier: Apache-2.0
"""The command ``flyring`` on queues: waiting jobs, jobs in hand, dead workers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from conftest import Child
from flyring import Action, Channel, SlotLostError, layout
from flyring.cli import main
from queues import all_jobs, gate, queue, take
from test_queue_survivors import WORKER, forge


def run(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> Any:
    assert main([*words, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def text(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert main([*words]) == status
    return capsys.readouterr().out


def test_create(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["create", "jobs", "--kind", "queue", "--producers", "2", "--workers", "3"]) == 0
    with Channel.open("jobs") as channel:
        assert (channel.kind, channel.producers, channel.workers) == ("queue", 2, 3)
    for option in ("--publishers", "--subscribers"):
        assert main(["create", "bad", "--kind", "queue", option, "2"]) == 2
        assert "queue" in capsys.readouterr().err
    assert "2 x 3" in text(capsys, "ls")
    assert main(["check", "jobs"]) == 0


def test_info_of_a_queue_that_works(capsys: pytest.CaptureFixture[str]) -> None:
    with queue() as channel:
        publisher, worker = channel.publisher("feed"), channel.worker("busy")
        publisher.offer_batch([b"%d" % k for k in range(5)])
        take(worker).release()
        job = take(worker)
        document = run(capsys, "info", "jobs")
        assert document["subscribers"][0]["state"] == "shared"
        assert document["publishers"][1]["state"] == "returns"
        in_hand = document["subscribers"][1]["in_hand"]
        assert (in_hand["ring"], in_hand["attempts"], in_hand["end"] > in_hand["position"]) == (1, 0, True)
        assert in_hand["busy_for"] >= 0
        shown = text(capsys, "info", "jobs")
        assert "queue, 1 producers x 2 workers" in shown
        assert "4 jobs wait for a worker in ring 0" in shown
        assert "worker 1 (busy, pid" in shown
        assert "has a job of ring 1 at 64 in hand for" in shown
        assert "handovers" in text(capsys, "info", "jobs", "--fields")
        assert text(capsys, "check", "jobs").endswith("0 leftovers of dead owners, 7 records walked\n")
        while publisher.offer(bytes(100)) is not None:
            pass
        assert "held by jobs that no worker has taken" in text(capsys, "info", "jobs")
        job.done()
        all_jobs(worker)
        shown = text(capsys, "info", "jobs")
        assert "wait for" not in shown and "in hand" not in shown


def test_a_job_that_holds_its_producer_back(capsys: pytest.CaptureFixture[str]) -> None:
    with queue(workers=2) as channel:
        publisher, slow, other = channel.publisher("feed"), channel.worker("slow"), channel.worker("other")
        publisher.offer(b"first")
        job = take(slow)
        while publisher.offer(bytes(100)) is not None:
            all_jobs(other)
        shown = text(capsys, "info", "jobs")
        assert "held by worker 1 (slow, pid" in shown
        assert "worker 1 (slow, pid" in shown and "has a job of ring 0 at 64 in hand for" in shown
        job.done()


def test_a_job_that_was_given_back_is_listed_once(capsys: pytest.CaptureFixture[str]) -> None:
    with queue() as channel:
        publisher, worker = channel.publisher("feed"), channel.worker("busy")
        publisher.offer(b"one")
        take(worker).release()
        take(worker).release()
        assert run(capsys, "ls")["channels"][0]["messages"] == 1
        take(worker).done()


def test_how_often_a_job_was_left_behind(child: Callable[..., Child], capsys: pytest.CaptureFixture[str]) -> None:
    with queue(workers=3) as channel:
        publisher = channel.publisher("feed")
        publisher.offer(b"one")
        for times in ("in hand for", "handed out once before", "handed out 2 times before"):
            victim = child(WORKER, "1")
            assert victim.line() == "ready"
            victim.say()
            assert victim.line() == "one"
            assert times in text(capsys, "info", "jobs")
            victim.kill()


def test_a_worker_that_died(child: Callable[..., Child], capsys: pytest.CaptureFixture[str]) -> None:
    with queue(workers=3) as channel:
        publisher = channel.publisher("feed")
        victim = child(WORKER, "1")
        assert victim.line() == "ready"
        publisher.offer_batch([b"one", b"two"])
        victim.say()
        assert victim.line() == "one"
        victim.kill()
        forge(channel, 0, 3, gate(channel, 0, 0), gate(channel, 0, 0) + 64)
        assert "worker 1 (child, pid" in (shown := text(capsys, "info", "jobs"))
        assert "is DEAD, and had a job of ring 0" in shown
        found = run(capsys, "check", "jobs")
        assert (found["broken"], found["left"]) == (0, 2)
        assert sorted(one["kind"] for one in found["findings"]) == ["announced", "job"]
        outcome = run(capsys, "recover", "jobs")
        assert [(one["action"], one["where"]) for one in outcome["done"]] == [("announced", "subscriber 3")]
        assert outcome["jobs"] == ["subscriber 1"]
        assert gate(channel, 0, 1) >= 0  # a worker's gate stays for the worker that adopts the job
        assert gate(channel, 0, 3) == -1
        with channel.worker() as worker:
            time.sleep(0.002)
            assert sorted(all_jobs(worker)) == [b"one", b"two"]
        assert text(capsys, "recover", "jobs") == "alive, left alone: publisher 0\nthere was nothing to recover\n"
        assert main(["check", "jobs"]) == 0


def test_recover_of_the_returns_ring(capsys: pytest.CaptureFixture[str]) -> None:
    with queue() as channel:
        memory, trailer = channel._attached.memory, channel.header.trailer(1)
        memory.store64(trailer + layout.TRAILER_CLAIMED, memory.load64(trailer + layout.TRAILER_PUBLISHED) + 64)
        outcome = run(capsys, "recover", "jobs")
        assert [(one["action"], one["where"]) for one in outcome["done"]] == [("ring", "publisher 1")]
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer(b"one")
        assert take(worker).release()
        assert all_jobs(worker) == [b"one"]


def test_evict(capsys: pytest.CaptureFixture[str]) -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker("busy")
        publisher.offer(b"one")
        assert worker.poll(lambda job: Action.BREAK) == 1
        assert run(capsys, "evict", "jobs", "1")["job"] is False
        worker.close()
        worker = channel.worker("busy")
        publisher.offer(b"two")
        job = take(worker)
        assert "had a job, which goes to another worker" in text(capsys, "evict", "jobs", "1")
        with channel.worker() as other:
            assert bytes(other.take(timeout=1) or b"") == b"two"
        with pytest.raises(SlotLostError):
            job.done()
        assert main(["evict", "jobs", "0"]) == 2
        assert "worker" in capsys.readouterr().err


def test_tail_and_publish(capsys: pytest.CaptureFixture[str], folder: Any) -> None:
    with queue(producers=2) as channel:
        worker = channel.worker()
        lines = folder / "lines"
        lines.write_text('{"type": 3, "text": "one"}\n{"type": 3, "text": "two"}\n')
        assert main(["publish", "jobs", str(lines), "--name", "cli"]) == 0
        take(worker).release()
        capsys.readouterr()
        assert main(["tail", "jobs", "--since-start", "--count", "2"]) == 0
        shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [one["text"] for one in shown] == ["one", "two"]
        assert main(["tail", "jobs", "--ring", "2"]) == 2  # the returns ring
        assert all_jobs(worker)


def test_check_finds_what_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    with queue() as channel:
        publisher, worker = channel.publisher(), channel.worker()
        publisher.offer(b"one")
        all_jobs(worker)
        memory, header = channel._attached.memory, channel.header
        memory.store32(header.subscriber_slot(0) + layout.SUBSCRIBER_SLOT_KEPT, 0)
        memory.store64(header.gate(0, 0), 10**6)
        kinds = {one["kind"] for one in run(capsys, "check", "jobs", status=1)["findings"]}
        assert {"kept", "gate"} <= kinds
    with Channel.create("plain", "broadcast") as channel:
        memory, header = channel._attached.memory, channel.header
        memory.store64(header.control_offset + layout.CONTROL_HANDOVERS, 1)
        assert [one["kind"] for one in run(capsys, "check", "plain", status=1)["findings"]] == ["not-zero"]
