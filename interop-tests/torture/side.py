# SPDX-License-Identifier: Apache-2.0
"""The side file of a worker (WORKER.md), in which the worker writes its current phase and its log. The file survives
the worker's death. The driver and the verifier read it."""

import dataclasses
import enum
import mmap
import os

import numpy

ENTRIES = 32768  # a worker leaves when its log is nearly full
ENTRY_WORDS = 8
LOG = 4096  # the offset of the log, in bytes
WORD_PHASE, WORD_STOP, WORD_COUNT, WORD_ATTEMPTED, WORD_COUNTING, WORD_COUNTED, WORD_NAPPING = range(7)

PUBLISHER = ("taking", "recovering", "offering", "claiming", "writing", "committing", "aborting", "in_batch")
PUBLISHER += ("held_back", "closing")
SUBSCRIBER = ("joining", "polling", "handling", "idle", "leaving")
KEPT = ("resuming", "forgetting")
LOSSY = ("starting", "reading")
OPERATOR = ("evicting",)
COUNTERS = ("counting",)  # phases of publishers, and of reliable and kept subscribers
WORKER = ("seating", "fetching", "handling", "finishing", "giving_back", "idle", "leaving")
SERVER = ("seating", "fetching", "handling", "replying", "idle", "leaving")
CALLER = ("seating", "calling", "awaiting", "idle", "leaving")
PUTTER = ("seating", "putting", "removing", "comparing", "clearing", "growing", "copying", "idle", "leaving")
APPENDER = ("seating", "appending", "in_batch", "claiming", "committing", "aborting", "pushing", "syncing", "trimming")
APPENDER += ("idle", "leaving")
FOLLOWER = ("starting", "polling", "handling", "idle", "leaving")
CONSUMER = ("seating", "polling", "handling", "idle", "leaving")
LOOKER = ("looking", "walking", "copying", "sleeping", "idle")
Phase = enum.IntEnum(
    "Phase",
    "working taking recovering offering claiming writing committing aborting in_batch held_back closing "
    "joining resuming polling handling idle leaving forgetting starting reading evicting counting "
    "seating fetching finishing giving_back replying calling awaiting "
    "putting removing comparing clearing growing copying looking walking sleeping "
    "appending pushing syncing trimming",
)


class Kind(enum.IntEnum):
    """The kind of a log entry. The comments list the contents of its words 1 to 7."""

    TAKEN = 1  # ring, epoch, position, time, publisher, lag limit
    ACKNOWLEDGED = 2  # number of messages acknowledged in this session so far, position, number at once, time
    CLOSED = 3  # count, -, -, time
    DEAD_WAIT = 4  # slot, begin, end, ns lost to the machine, offers, offers that had to test for dead readers
    HELD = 5  # slot, begin, end, live, kept
    JOINED = 6  # ring, slot, cursor, epoch, kept, time after the join, time before the join
    MESSAGE = 7  # ring, position, epoch, sequence, publisher, fault (below), losses before it (lossy)
    LEFT = 8  # forgot, drained, -, time
    EVICTED = 9  # slot, begin, end (0: not yet)
    # slot, messages of the poll that ended so, which may be torn, time, begin of that poll; in a queue: whether the
    # last job's handler had returned
    SLOT_LOST = 10
    LOST = 11  # ring, messages lost, position, bytes lost; at the end of a lossy subscriber
    COUNTER = 12  # id of its own counter; -1: it is about to free it
    FIRST = 13  # ring, bytes lost; before a lossy subscriber's first message of this ring
    SEATED = 14  # slot, epoch, time after the take, time before the take
    JOB = 15  # ring, position, epoch, sequence, attempts, fault (below), time
    DONE = 16  # time; belongs to the last JOB, like all that follow
    GIVING = 17  # time, before release
    GIVEN = 18  # the result of release, time
    IDLE = 19  # begin, end of a time in which it had nothing in hand and found nothing
    REQUEST = 20  # number of the client, its epoch, number of the call, repeat, fault (below), time
    CALLED = 21  # number of the call, its time-out (0: none), time before it, whether it is a stream
    ENDED = 22  # number of the call, how (End), may have run, wrong answer, time, epoch of the server, repeat
    BEGUN = 23  # of a table: what (Change), key, number of the value, expected version, -, time before it
    CHANGED = 24  # result of the last BEGUN (version, whether removed, count; -1: not made), time after it
    SAW = 25  # key, number of the value (-1: absent), version (0: not known), fault (below), begin, end, how (How)
    WALKED = 26  # how, how many SAW before it belong to it, begin, end, version of the table, number of keys
    SLEPT = 27  # key (-1: any), version before, result (-1: timed out), begin, end
    APPENDING = 28  # of a journal: id of the first message, how many, time before the call
    APPENDED = 29  # position of the first one (-1: not known), how many (0: refused), time after the call
    # number where the reader or consumer begins, lost so far, time after it was opened, time before, number that it
    # asked for (-1: another beginning), 1: it begins behind the newest message, or 2: at a position, 1: it reads only
    # what is durable
    FOLLOWING = 30
    READ = 31  # number, id, position, lost so far, fault (below), time
    POLLED = 32  # number behind what a poll that returned has consumed, lost so far


class End(enum.IntEnum):
    """How a call ended."""

    ANSWER = 0  # or the end of a stream
    SERVICE_ERROR = 1
    EXPIRED = 2
    SERVER_GONE = 3
    CANCELLED = 4
    CLOSED = 5
    SLOT_LOST = 6
    REFUSED = 7  # not made, because too many are under way


class Change(enum.IntEnum):
    """A change of a table."""

    PUT = 1
    IF_ABSENT = 2
    COMPARE = 3
    REMOVE = 4
    CLEAR = 5
    GROW = 6


class How(enum.IntEnum):
    """How the value of a key was read."""

    GET = 1
    WALK = 2
    SNAPSHOT = 3
    HELD_SNAPSHOT = 4
    LEFT_SNAPSHOT = 5  # a copy that a killed process had made


RIGHT, TORN, WRONG_SENDER, UNKNOWN_SENDER = range(4)  # the faults of a message; of a value: RIGHT, TORN, BUSY
BUSY = 2  # the read began again for 1 ms


@dataclasses.dataclass
class Life:
    """One worker process, as the verifier judges it."""

    name: str  # the process, for people
    role: str
    language: str
    channel: int
    entries: numpy.ndarray  # int64, ENTRY_WORDS in a row
    attempted: int = 0  # how many messages of the last session it may have published
    phase: int = 0  # the phase at its death
    counting: int = 0  # how many counts it may have made
    counted: int = 0  # how many counts it has made
    killed: int = 0  # time of the kill, in ns; 0: it ended by itself
    ended: int = 2**62  # time of the reaping, in ns
    stops: tuple = ()  # (begin, end) of SIGSTOP, ns
    final: bool = False  # whether it was told to end after all publishers had ended


class Side:
    """The driver's access to a side file."""

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
