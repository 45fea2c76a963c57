# SPDX-License-Identifier: Apache-2.0
"""count.py offer|take|claim|poll|batch... N: passes 2 N messages of 32 bytes with each operation, all in one thread.

instructions.py runs it under callgrind, which writes its counts at each sched_yield: before and after the second N.
"""

import os
import sys
import tempfile

import flyring

MESSAGE = bytes(range(32))
BATCH = 256
OPERATIONS = ("offer", "take", "claim", "poll", "batch")


class Ring:
    # Without a subscriber nothing holds offer, claim and batch back, so all instructions of the extension are theirs.
    # take and poll need messages, so they offer them, too.

    def __init__(self, folder: str, operation: str) -> None:
        path = os.path.join(folder, operation)
        self.channel = flyring.Channel.create(
            path, kind="broadcast", capacity=1 << 20, publishers=1, subscribers=1, counters=0
        )
        self.publisher = self.channel.publisher("a")
        self.subscriber = self.channel.subscriber() if operation in ("take", "poll") else None
        self.operation = getattr(self, operation)

    def run(self, n: int) -> None:
        for _ in range(n // BATCH):
            self.operation()

    def offer(self) -> None:
        for _ in range(BATCH):
            self.publisher.offer(MESSAGE)

    def claim(self) -> None:
        for _ in range(BATCH):
            claim = self.publisher.claim(32)
            claim[:] = MESSAGE
            claim.commit()

    def batch(self) -> None:
        if self.publisher.offer_batch([MESSAGE] * BATCH) != BATCH:
            raise SystemExit("the batch was not taken")

    def take(self) -> None:
        self.offer()
        for _ in range(BATCH):
            if self.subscriber.take() is None:
                raise SystemExit("a message is missing")

    def poll(self) -> None:
        self.offer()
        polled = 0
        while polled < BATCH:
            polled += self.subscriber.poll(look)


def look(message: flyring.Message) -> None:
    pass


def main() -> None:
    *operations, n = sys.argv[1:] or ["0"]
    if not operations or not set(operations) <= set(OPERATIONS) or int(n) <= 0 or int(n) % BATCH:
        raise SystemExit(f"usage: count.py {'|'.join(OPERATIONS)}... N (a multiple of {BATCH})")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        for operation in operations:
            ring = Ring(folder, operation)
            ring.run(int(n))
            os.sched_yield()
            ring.run(int(n))
            os.sched_yield()
            ring.channel.close()


main()
