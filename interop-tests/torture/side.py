# SPDX-License-Identifier: Apache-2.0
"""The side file of a worker (WORKER.md): where a worker writes what it is doing and what it has done, and which survives
its death. The worker writes, the driver and the verifier read."""

import dataclasses
import enum
import mmap
import os

import numpy

ENTRIES = 32768  # a worker leaves when its log is nearly full
ENTRY_WORDS = 8
LOG = 4096  # bytes before the log
WORD_PHASE, WORD_STOP, WORD_COUNT, WORD_ATTEMPTED, WORD_COUNTING, WORD_COUNTED, WORD_NAPPING = range(7)

PUBLISHER = ("taking", "recovering", "offering", "claiming", "writing", "committing", "aborting", "in_batch")
PUBLISHER += ("held_back", "closing")
SUBSCRIBER = ("joining", "polling", "handling", "idle", "leaving")
KEPT = ("resuming", "forgetting")
LOSSY = ("starting", "reading")
OPERATOR = ("evicting",)
COUNTERS = ("counting",)  # publishers, reliable and kept subscribers
WORKER = ("seating", "fetching", "handling", "finishing", "giving_back", "idle", "leaving")
SERVER = ("seating", "fetching", "handling", "replying", "idle", "leaving")
CALLER = ("seating", "calling", "awaiting", "idle", "leaving")
Phase = enum.IntEnum(
    "Phase",
    "working taking recovering offering claiming writing committing aborting in_batch held_back closing "
    "joining resuming polling handling idle leaving forgetting starting reading evicting counting "
    "seating fetching finishing giving_back replying calling awaiting",
)


class Kind(enum.IntEnum):
    """Of an entry of the log; behind it what its words 1 to 7 hold."""

    TAKEN = 1  # ring, epoch, position, time, publisher, lag limit
    ACKNOWLEDGED = 2  # how many messages of this session were acknowledged by now, position, how many at once, time
    CLOSED = 3  # count, -, -, time
    DEAD_WAIT = 4  # slot, begin, end, ns lost to the machine, offers, those of them that had to look for the dead
    HELD = 5  # slot, begin, end, live, kept
    JOINED = 6  # ring, slot, cursor, epoch, kept, time when it had joined, time when it asked to
    MESSAGE = 7  # ring, position, epoch, sequence, publisher, what is wrong (below), lost before it (lossy)
    LEFT = 8  # forgot, drained, -, time
    EVICTED = 9  # slot, begin, end (0: not yet)
    SLOT_LOST = 10  # slot, messages of the poll that ended so: they may be torn; time, time when that poll began
    LOST = 11  # ring, messages lost, position, bytes lost; at the end of a lossy one
    COUNTER = 12  # id of its own counter; -1: it is about to give it back
    FIRST = 13  # ring, bytes lost; before a lossy one's first message of this ring
    SEATED = 14  # slot, epoch, time when it had its slot, time when it asked for it
    JOB = 15  # ring, position, epoch, sequence, attempts, what is wrong (below), time
    DONE = 16  # time; of the last JOB, as all that follow
    GIVING = 17  # time, before it gives it back
    GIVEN = 18  # whether others may have it, time
    IDLE = 19  # begin, end: it had nothing in hand, and found nothing
    REQUEST = 20  # number of the client, its epoch, number of the call, repeat, what is wrong (below), time
    CALLED = 21  # number of the call, its time-out (0: none), time before it, whether it takes a stream
    ENDED = 22  # number of the call, how (End), may have run, wrong answer, time, epoch of who answered, repeat


class End(enum.IntEnum):
    """How a call ended."""

    ANSWER = 0  # of a stream: its end
    SERVICE_ERROR = 1
    EXPIRED = 2
    SERVER_GONE = 3
    CANCELLED = 4
    CLOSED = 5
    SLOT_LOST = 6
    REFUSED = 7  # it was not made: too many are under way


RIGHT, TORN, WRONG_SENDER, UNKNOWN_SENDER = range(4)  # of a message


@dataclasses.dataclass
class Life:
    """One worker process, as it is judged."""

    name: str  # of the process, for people
    role: str
    language: str
    channel: int
    entries: numpy.ndarray  # of int64, ENTRY_WORDS in a row
    attempted: int = 0  # messages of the last session that it may have published
    phase: int = 0  # when it died
    counting: int = 0  # what it may have counted
    counted: int = 0  # what it has
    killed: int = 0  # ns; 0: it ended by itself
    ended: int = 2**62  # ns, when it was reaped
    stops: tuple = ()  # (begin, end) of SIGSTOP, ns
    final: bool = False  # it was told to end when all publishers had ended


class Side:
    """The driver's end of a side file."""

    def __init__(self, path):
        self.path = path
        with open(path, "xb") as file:
            file.truncate(LOG + ENTRIES * ENTRY_WORDS * 8)
        with open(path, "r+b") as file:
            self.map = mmap.mmap(file.fileno(), 0)
        self.words = memoryview(self.map).cast("q")

    def phase(self):
        return self.words[WORD_PHASE]

    def stop(self):
        self.words[WORD_STOP] = 1

    def stopping(self):
        return self.words[WORD_STOP] != 0

    def napping(self):
        return self.words[WORD_NAPPING] != 0

    def count(self):
        return self.words[WORD_COUNT]

    def attempted(self):
        return self.words[WORD_ATTEMPTED]

    def entries(self):
        log = numpy.frombuffer(self.map, dtype="<i8", offset=LOG, count=self.count() * ENTRY_WORDS)
        return log.reshape(-1, ENTRY_WORDS).copy()

    def close(self):
        self.words.release()
        self.map.close()
        os.unlink(self.path)
