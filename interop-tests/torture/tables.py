#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random SIGKILL torture of tables (spec/table.md), in rounds of ten seconds, with a table of integers, which grows, and
one of text, which is often full and has crcs. Putters put, compare, remove, clear, grow and copy, with the writer's slot
held or for one change; lookers read, walk, copy and sleep. All are killed, stopped, continued and restarted. After each
round every read is checked: its value is whole, was put under this key, has one version, and is never undone, also by a
process of another language; versions are in the order of time; a copy that the writer made is of one instant. At the end
the index, the stack and the size fit the cells.

    tables.py [--seconds 10] [--seed N] [--languages cpp,java,python] [--fault NAME:WHO] [--worker LANGUAGE=COMMAND]
    tables.py --faults [--seconds 10] [--seed N] [--languages ...] [--worker ...]

The options are those of torture.py. Languages: those of workers.toml that play tables. `--fault`: of a putter `torn`,
`lost`; of a looker `stale`, `blind`, `deaf` (WORKER.md)."""

import pathlib
import sys

import test_verify_tables
import torture
from verify_tables import RULES, verify_tables

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "spec" / "golden"))

from tables import Table

INTEGERS = {"kind": "table", "key": "integer", "capacity": 24, "value_bytes": 200, "checked": 0}
TEXT = {"kind": "table", "key": "text", "capacity": 14, "value_bytes": 500, "checked": 1}
ACTORS = (
    (0, "putter", "feed"),
    (0, "putter", "other"),
    (0, "putter", "third"),
    (0, "looker", "left"),
    (0, "looker", "right"),
    (1, "putter", "one"),
    (1, "putter", "two"),
    (1, "looker", "up"),
    (1, "looker", "down"),
)
WORK = {"putter": 30, "looker": 50}  # changes and reads per second that each language must reach
FAULTS = {
    "torn": {"tear"},
    "lost": {"undone", "never put", "agreement", "order"},
    "stale": {"undone"},
    "blind": {"undone"},
    "deaf": {"waits"},
}


def judge(lives, number, path, verdict, gaps):
    verify_tables(lives, verdict, gaps)
    try:
        table = Table.of_file(path.read_bytes())
        table.finish()  # as the next owner does
        table.check()
    except Exception as error:
        verdict.fail("left over", None, f"{type(error).__name__}: {error}")


GAME = torture.Game(
    __doc__,
    (INTEGERS, TEXT),
    ACTORS,
    WORK,
    RULES,
    FAULTS,
    judge,
    test_verify_tables.run,
    needs="tables",
    suffix=".table",
)

if __name__ == "__main__":
    sys.exit(torture.main(GAME))
