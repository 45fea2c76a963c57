# SPDX-License-Identifier: Apache-2.0
"""A queue on disk: jobs that wait, however many there are, and survive every program.

persistent_queue.py push TEXT...    each TEXT is a job
persistent_queue.py work SECONDS    does jobs one after another, each in SECONDS; ends behind the job "stop"
persistent_queue.py show            prints how many jobs are not done
"""

import sys
import time

import flyring


def open_jobs() -> flyring.Journal:
    """With sync "each", a job that was pushed is there after a power loss, too, if FLYRING_DIR is on a disk."""
    return flyring.Journal.open_or_create("jobs", segment_size=1 << 20, sync="each")


def push(texts: list[str]) -> None:
    with open_jobs() as journal:
        for text in texts:
            journal.push(text.encode())  # waits while another process pushes


def take_worker(journal: flyring.Journal) -> flyring.JournalConsumer:
    try:
        return journal.consumer("worker")
    except flyring.NoFreeSlotError as error:
        sys.exit(f"process {error.owners[0].pid} is at work")


def work(seconds: float) -> None:
    done = ""

    def do(job: flyring.JournalMessage) -> None:
        nonlocal done
        text = bytes(job).decode()
        print(f"begun: {text}", flush=True)
        time.sleep(seconds)
        print(f"done: {text}", flush=True)
        done = text

    with open_jobs() as journal, take_worker(journal) as worker:
        while done != "stop":
            # Sleeps until there is a job. It is consumed when do has returned: a killed worker's job comes again.
            worker.poll(do, limit=1, timeout=None)
            if worker.number % 1000 == 0:
                journal.trim(consumed=True)  # gives the space of done jobs back


def show() -> None:
    with open_jobs() as journal:
        stats = journal.stats()
        left = stats.consumers[0].behind if stats.consumers else stats.messages
        print(f"{left} of {stats.messages} jobs are not done")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["push", *texts] if texts:
            push(texts)
        case ["work", seconds]:
            work(float(seconds))
        case ["show"]:
            show()
        case _:
            sys.exit("Use persistent_queue.py with: push TEXT..., work SECONDS, or show.")
