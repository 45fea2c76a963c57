#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random SIGKILL torture of queues (spec/queue.md), in rounds of ten seconds. Producers and workers of all languages
are killed, stopped, evicted while they are stopped, continued and restarted. Workers throw, release, abort, and leave
with jobs in hand. After each round every job is checked. It was done. It was handed out again only if a worker was
killed or evicted with it, or released it, and then it was marked as a repeat. No job waited while a worker found
nothing.

    jobs.py [--seconds 10] [--seed N] [--languages cpp,java,python] [--fault NAME:WHO] [--worker LANGUAGE=COMMAND]
    jobs.py --faults [--seconds 10] [--seed N] [--languages ...] [--worker ...]

The options are those of torture.py. `--fault`: of a worker `drop`, `twice`, `forget`, `deaf`; of a publisher `skip`,
`torn`, `epoch`, `lost` (WORKER.md)."""

import pathlib
import struct
import subprocess
import sys

import test_verify_jobs
import torture
from counts import check_counters, read_counters
from verify_jobs import RULES, verify_jobs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from sleepers import File

QUEUE = {"kind": "queue", "capacity": 16384, "alignment": 64, "publishers": 3, "subscribers": 5, "counters": 1024}
SMALL = {"kind": "queue", "capacity": 4096, "alignment": 8, "publishers": 2, "subscribers": 3, "counters": 1024}
ACTORS = (
    (0, "publisher", "orders"),
    (0, "publisher", "prices"),
    (0, "publisher", "news"),
    (0, "worker", "first"),
    (0, "worker", "second"),
    (0, "worker", "third"),
    (0, "worker", "fourth"),
    (0, "worker", "fifth"),
    (1, "publisher", "left"),
    (1, "publisher", "right"),
    (1, "worker", "packer"),
    (1, "worker", "painter"),
    (1, "worker", "porter"),
    (0, "operator", "operator"),
    (1, "operator", "operator"),
)
WORK = {"publisher": 30, "worker": 30}  # messages per second that each language must reach
FAULTS = {
    "drop": {"loss"},
    "twice": {"twice"},
    "forget": {"attempts"},
    "deaf": {"waits"},
    "torn": {"tear"},
    "epoch": {"sender", "never offered"},
    "lost": {"loss"},
}


def left_over(path, number):
    """Returns the jobs left in a queue's file: those that were not taken, and those in hand."""
    with File(path) as file:
        options = (QUEUE, SMALL)[number]
        for ring in range(options["publishers"] + 1):
            at = file.rings + ring * file.stride + file.gate(0, ring) % file.capacity
            length = struct.unpack_from("<i", file.bytes, at)[0]
            if length > 0:
                yield f"ring {ring}: {length} bytes at position {file.gate(0, ring)}, which nobody took"
            for slot in range(1, options["subscribers"] + 1):
                if file.gate(slot, ring) != -1:
                    yield f"ring {ring}: the gate of slot {slot} is {file.gate(slot, ring)}"


def judge(lives, number, path, verdict, gaps):
    options = (QUEUE, SMALL)[number]
    verify_jobs(lives, verdict, gaps, options["alignment"], options["capacity"])
    check_counters(lives, *read_counters(path), verdict)
    for text in left_over(path, number):
        verdict.fail("left over", None, text)
    checked = subprocess.run(
        [sys.executable, "-m", "flyring.cli", "check", path], capture_output=True, text=True, check=False
    )
    if checked.returncode:
        verdict.fail("left over", None, f"flyring check: {checked.stdout[-500:]}{checked.stderr[-500:]}")


GAME = torture.Game(__doc__, (QUEUE, SMALL), ACTORS, WORK, RULES, FAULTS, judge, test_verify_jobs.run)

if __name__ == "__main__":
    sys.exit(torture.main(GAME))
