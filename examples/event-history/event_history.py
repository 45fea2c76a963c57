# SPDX-License-Identifier: Apache-2.0
"""Events that are kept: read them live, or later from a time on.

event_history.py write LAST PER_SECOND    appends events up to number LAST, behind those in the journal
event_history.py tail LAST                prints each event as it comes, up to number LAST
event_history.py since TIME               prints the events from TIME on: ns since 1970, as of `date +%s%N`
"""

import sys
import time

import flyring


def open_events() -> flyring.Journal:
    """A reader or a writer may come first: whichever does creates the journal. A power loss takes at most the events of
    about 10 ms, and the newest 64 MiB are kept."""
    return flyring.Journal.open_or_create("event-history", segment_size=1 << 20, sync=0.01, max_size=64 << 20)


def take_writer(journal: flyring.Journal) -> flyring.JournalWriter:
    """There is one writer. A second one waits, and goes on when the first one has ended or was killed."""
    try:
        return journal.writer("recorder")
    except flyring.NoFreeSlotError as error:
        print(f"waiting: the writer is process {error.owners[0].pid}", flush=True)
        return journal.writer("recorder", timeout=None)


def write(last: int, per_second: float) -> None:
    with open_events() as journal, take_writer(journal) as writer:
        print(f"begins behind event {writer.number}", flush=True)
        while writer.number < last:
            writer.append(b"event %d" % (writer.number + 1))
            time.sleep(1 / per_second)


def tail(last: int) -> None:
    with open_events() as journal, journal.reader("newest") as reader:
        print(f"waits behind event {reader.number}", flush=True)
        while reader.number < last:
            message = reader.take(timeout=None)  # sleeps until there is one
            print(bytes(message).decode(), flush=True)


def since(when: int) -> None:
    with open_events() as journal, journal.reader(flyring.JournalStart.at_time(when)) as reader:
        while message := reader.take():
            print(bytes(message).decode())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", last, per_second]:
            write(int(last), float(per_second))
        case ["tail", last]:
            tail(int(last))
        case ["since", when]:
            since(int(when))
        case _:
            sys.exit("Use event_history.py with: write LAST PER_SECOND, tail LAST, or since TIME.")
