#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random SIGKILL torture of journals (spec/journal.md), in rounds of ten seconds, with a journal whose consumers lose
nothing, and one with a size limit; both with small segments. Appenders append one message, batches and claims, with the
writer's slot held or for one push, with and without a helper, sync, change the sync policy, and trim. Followers begin
anywhere, and read and sleep. Two processes compete for each named consumer. All are killed, stopped, continued and
restarted. After each round every read is checked: what an append returned is there once, in order, with the same bytes,
for each reader, or it is counted as lost; what was not returned is there once or not at all; a consumer gets a message
again only after a death, and only what it had not confirmed; no trim takes what a consumer needs. At the end the files
hold what the logs say, and `flyring journal check` finds nothing.

    journals.py [--seconds 10] [--seed N] [--languages cpp,java,python] [--fault NAME:WHO] [--worker LANGUAGE=COMMAND]
    journals.py --faults [--seconds 10] [--seed N] [--languages ...] [--worker ...]

The options are those of torture.py. Languages: those of workers.toml that play journals. `--fault`: of an appender
`torn`, `lost`, `twice`; of a follower or consumer `drop`, `again`, `deaf`; of a consumer `forget` (WORKER.md)."""

import pathlib
import struct
import subprocess
import sys

import test_verify_journals
import torture
from verify_journals import RULES, verify_journals

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "spec" / "golden"))

from journals import CHECK, CONTROL, PADDING, PAGE, UNIT, crc32c

SEGMENT = 65536
KEPT = {"kind": "journal", "segment_size": SEGMENT, "consumers": 4, "max_size": 0, "names": "ledger,audit"}
LIMITED = {"kind": "journal", "segment_size": SEGMENT, "consumers": 1, "max_size": 6 * SEGMENT, "names": "slow"}
ACTORS = (
    (0, "appender", "feed"),
    (0, "follower", "left"),
    (0, "consumer", "ledger"),
    (1, "appender", "one"),
    (1, "follower", "up"),
    (1, "consumer", "slow"),
    (0, "appender", "other"),
    (0, "follower", "right"),
    (0, "consumer", "ledger"),
    (0, "consumer", "audit"),
    (1, "appender", "two"),
    (1, "follower", "down"),
    (0, "appender", "third"),
)
WORK = {"appender": 30, "follower": 30, "consumer": 30}  # messages per second that each language must reach
FAULTS = {
    "torn": {"tear"},
    "lost": {"lost"},
    "twice": {"agreement", "never appended"},
    "drop": {"exactly once"},
    "again": {"exactly once"},
    "forget": {"at least once", "exactly once", "repeats"},
    "deaf": {"waits"},
}


class Files:
    """The files of a journal at the end of a round, read without a binding."""

    def __init__(self, path):
        self.path = path
        control = (path / "control").read_bytes()
        self.published, self.trimmed = (
            struct.unpack_from("<q", control, PAGE + CONTROL[name][0])[0] for name in ("published", "trimmed")
        )
        self.segments = {}  # by position
        self.number, self.messages = 0, []  # of the first message; (number, id, position, torn)
        self.read()

    def read(self):
        """Reads all records from `trimmed` to `published`. Raises ValueError for what no record can be."""
        position, number, first = self.trimmed, -1, True
        # Behind published: the writer may have been killed between the store of a length and that of published.
        while position < self.published or self.record(position)[0]:
            length, kind, data = self.record(position)
            if kind == CHECK and length == UNIT:
                where, count = struct.unpack_from("<qq", data, 8)
                right = where == position and struct.unpack_from("<I", data, 60)[0] == crc32c(data[:60])
                if not right or number not in (-1, count):
                    raise ValueError(f"the check at {position} with count {count} is not that of {number} messages")
                number = count
                if first:
                    self.number, first = count, False
            elif first:
                raise ValueError(f"a record of type {kind} is at {position}, where the files begin")
            elif kind > 0:
                self.messages.append((number, *self.message(data, position)))
                number += 1
            elif kind != PADDING or length <= 0:
                raise ValueError(f"a record of length {length} and type {kind} is at {position}")
            position += -(-length // UNIT) * UNIT

    def record(self, position):
        base = position - position % SEGMENT
        file = self.path / f"{base:019d}.seg"
        if not file.exists():
            return 0, 0, b""
        if base not in self.segments:
            self.segments[base] = file.read_bytes()
        at = PAGE + position - base
        length, kind = struct.unpack_from("<ii", self.segments[base], at)
        return length, kind, self.segments[base][at : at + length]

    @staticmethod
    def message(data, position):
        """Returns (id, position, torn)."""
        crc, length, mark = struct.unpack_from("<IIq", data, 16)
        return mark, position, int(length != len(data) - 16 or crc != crc32c(data[20:]))


def judge(lives, number, path, verdict, gaps):
    limited = number == 1
    left, trimmed = [], (0, 0)
    try:
        files = Files(path)
        left, trimmed = files.messages, (files.number, files.trimmed)
    except Exception as error:
        verdict.fail("left over", None, f"{type(error).__name__}: {error}")
    verify_journals(lives, verdict, gaps, left, trimmed, limited)
    checked = subprocess.run(
        [sys.executable, "-m", "flyring.cli", "journal", "check", path], capture_output=True, text=True, check=False
    )
    if checked.returncode:
        verdict.fail("left over", None, f"flyring journal check: {checked.stdout[-500:]}{checked.stderr[-500:]}")


GAME = torture.Game(
    __doc__,
    (KEPT, LIMITED),
    ACTORS,
    WORK,
    RULES,
    FAULTS,
    judge,
    test_verify_journals.run,
    needs="journals",
    suffix=".journal",
)

if __name__ == "__main__":
    sys.exit(torture.main(GAME))
