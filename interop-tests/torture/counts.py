# SPDX-License-Identifier: Apache-2.0
"""Checks the counters of the channel: each worker counts in its own one, and all count in counter 0. Reads the file by
spec/channel.md 4.2 and 4.8, without a binding."""

import numpy
from side import Kind

COUNTERS, METADATA, VALUES = 84, 104, 120  # fields of the header
METADATA_BYTES, VALUE_BYTES = 512, 128
UNUSED, ALLOCATED, RECLAIMED = 0, 1, -1


def read_counters(path):
    """Returns {id: value} of the allocated counters, and the states of all."""
    data = numpy.fromfile(path, dtype="u1")
    number = int(data[COUNTERS : COUNTERS + 4].view("<i4")[0])
    metadata, values = (int(data[at : at + 8].view("<i8")[0]) for at in (METADATA, VALUES))
    states = data[metadata : metadata + METADATA_BYTES * number].reshape(number, -1)[:, :4].copy().view("<i4")[:, 0]
    found = data[values : values + VALUE_BYTES * number].reshape(number, -1)[:, :8].copy().view("<i8")[:, 0]
    return {int(i): int(found[i]) for i in numpy.flatnonzero(states == ALLOCATED)}, states


def check_counters(lives, values, states, verdict):
    """Checks that no count is missing and none is too many, except for one count that a killed worker was about to
    make."""
    if not set(states.tolist()) <= {UNUSED, ALLOCATED, RECLAIMED}:
        verdict.fail("counters", None, f"states {sorted(set(states.tolist()))}")
    used = numpy.flatnonzero(states != UNUSED)
    if len(used) and used[-1] != len(used) - 1:
        verdict.fail("counters", None, f"counter {used[-1]} was taken and a lower one never")
    lives = [life for life in lives if life.role in ("publisher", "reliable", "kept")]
    for life in lives:
        rows = life.entries
        acknowledged = rows[rows[:, 0] == Kind.ACKNOWLEDGED][:, 3].sum()
        logged = int(acknowledged if life.role == "publisher" else (rows[:, 0] == Kind.MESSAGE).sum())
        last = int(rows[-1, 3]) if len(rows) and rows[-1, 0] == Kind.ACKNOWLEDGED else 1
        if not life.counted <= logged <= life.counting + (last if life.killed else 0):
            text = f"logged {logged} messages, counted {life.counted} to {life.counting}"
            verdict.fail("counters", life, text)
        own = rows[rows[:, 0] == Kind.COUNTER]
        if life.killed and len(own) and own[-1, 1] >= 0:
            value = values.get(int(own[0, 1]))
            verdict.counts["counters of the dead"] += 1
            if value is None or not life.counted <= value <= life.counting:
                text = f"its own counter {own[0, 1]} is {value}, not {life.counted} to {life.counting}"
                verdict.fail("counters", life, text)
    least, most = sum(life.counted for life in lives), sum(life.counting for life in lives)
    if not least <= values.get(0, -1) <= most:
        verdict.fail("counters", None, f"the common counter is {values.get(0)}, not {least} to {most}")
    verdict.counts["counted"] += values.get(0, 0)
