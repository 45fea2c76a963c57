# SPDX-License-Identifier: Apache-2.0
"""Shares jobs out to several workers, and gives up a job that failed three times.

queue.py produce    each line of standard input is a job
queue.py work       does jobs until all producers have gone and nothing is left; a text that
                   begins with "bad" fails, one with "slow" takes a minute the first time
queue.py dead       prints the jobs that were given up
"""

import sys
import time

import flyring

GIVE_UP_AFTER = 3


def jobs() -> flyring.Channel:
    return flyring.Channel.open_or_create("jobs", kind="queue", producers=2, workers=3)


def dead_letters() -> flyring.Channel:
    return flyring.Channel.open_or_create("dead-letters", kind="inbox")


def produce() -> None:
    with jobs() as queue, queue.publisher() as producer:
        for line in sys.stdin:
            producer.send(line.strip().encode())  # sleeps while the ring is full


def work() -> None:
    with jobs() as queue, dead_letters() as letters, queue.worker() as worker, letters.publisher() as given_up:
        for job in worker:  # sleeps while there is none; each is done when the loop asks for the next one
            text = bytes(job).decode()
            if job.attempts >= GIVE_UP_AFTER:
                given_up.send(text.encode(), timeout=5)
                print(f"given up: {text}", flush=True)
                continue
            print(f"begun: {text}", flush=True)
            try:
                handle(text, job.attempts)
            except ValueError:
                job.release()  # another worker may have more luck
            else:
                print(f"done: {text}", flush=True)


def handle(text: str, attempts: int) -> None:
    if text.startswith("bad"):
        raise ValueError(text)
    if text.startswith("slow") and attempts == 0:
        time.sleep(60)


def dead() -> None:
    with dead_letters() as letters, letters.subscriber() as reader:
        while letter := reader.take():
            print(bytes(letter).decode())


if __name__ == "__main__":
    verbs = {"produce": produce, "work": work, "dead": dead}
    if len(sys.argv) != 2 or sys.argv[1] not in verbs:
        sys.exit("Use queue.py produce, queue.py work, or queue.py dead.")
    verbs[sys.argv[1]]()
