# SPDX-License-Identifier: Apache-2.0
"""The ops of a queue (interop-tests/PEER.md)."""

from __future__ import annotations

from typing import Any

from flyring import Action, Channel, ClosedError, Job, Worker
from flyring_service import BadRequestError
from flyring_stream import described

Request = dict[str, Any]
Answer = dict[str, Any]


def described_job(job: Job) -> dict[str, Any]:
    return described(job) | {"attempts": job.attempts, "repeat": job.repeat}


class ThrownError(Exception):
    """The exception that the handler of poll_jobs raises."""


class Jobs:
    """The workers of a peer, and the jobs in their hands."""

    channels: dict[str, Channel]

    def __init__(self) -> None:
        self.workers: dict[str, Worker] = {}
        self.jobs: dict[str, Job] = {}

    def op_worker(self, request: Request) -> Answer:
        worker = self.channels[request["channel"]].worker(request.get("name") or "", timeout=request.get("timeout", 0))
        self.workers[request["worker"]] = worker
        self.jobs.pop(request["worker"], None)
        return {"slot": worker.slot, "epoch": worker.epoch}

    def op_take_job(self, request: Request) -> Answer:
        job = self.workers[request["worker"]].take(request.get("timeout", 0))
        if job is None:
            return {"job": None}
        self.jobs[request["worker"]] = job
        return {"job": described_job(job)}

    def _job_of(self, request: Request) -> Job:
        if (job := self.jobs.get(request["worker"])) is None:
            raise ClosedError("job", detail="the worker has none in hand")
        return job

    def op_done(self, request: Request) -> Answer:
        self._job_of(request).done()
        del self.jobs[request["worker"]]
        return {}

    def op_release(self, request: Request) -> Answer:
        released = self._job_of(request).release()
        del self.jobs[request["worker"]]
        return {"released": released}

    def op_poll_jobs(self, request: Request) -> Answer:
        jobs: list[dict[str, Any]] = []
        action = request.get("action", "CONTINUE")
        if action not in ("CONTINUE", "BREAK", "ABORT", "throw"):
            raise BadRequestError(f"action: {action}")

        def handler(job: Job) -> Action | None:
            jobs.append(described_job(job))
            if action == "throw":
                raise ThrownError
            return Action[action]

        try:
            self.workers[request["worker"]].poll(handler, request["limit"], request.get("timeout", 0))
        except ThrownError:
            return {"jobs": jobs, "threw": True}
        return {"jobs": jobs}

    def op_drain(self, request: Request) -> Answer:
        self.workers[request["worker"]].drain()
        return {}

    def op_jobs_ended(self, request: Request) -> Answer:
        return {"ended": self.workers[request["worker"]].ended}
