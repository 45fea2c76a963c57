# SPDX-License-Identifier: Apache-2.0
"""Tests the verifier: a correct story, and the same story with one fault, which must be found under the rule that it
breaks. Run by torture.py, or alone."""

import sys

import numpy
from side import Kind, Life, Phase
from counts import check_counters
from verify import Verdict, verify

MS = 1_000_000


def message(position, epoch, sequence, torn=0, lost=0):
    return [Kind.MESSAGE, 0, position, epoch, sequence, 7, torn, lost]


def story():
    """Ring 0: epoch 1 published 4 messages of 64 bytes and was killed during a fifth; epoch 2 published 3. A reliable
    subscriber saw all messages; a kept one was killed, and resumed; a lossy one lost one message."""
    return {
        "first": [[Kind.TAKEN, 0, 1, 0, 10, 7], *([Kind.ACKNOWLEDGED, n, 64 * n, 1] for n in range(1, 5))],
        "second": [
            [Kind.TAKEN, 0, 2, 640, 40 * MS, 7],
            *([Kind.ACKNOWLEDGED, n, 704 + 64 * n, 1] for n in range(1, 4)),
            [Kind.DEAD_WAIT, 3, 41 * MS, 42 * MS, 0, 70, 1],
            [Kind.CLOSED, 3, 0, 0, 60 * MS],
        ],
        "reliable": [
            [Kind.JOINED, 0, 0, 64, 1, 0, 5],
            *(message(64 * n, 1, n) for n in range(1, 5)),
            *(message(704 + 64 * n, 2, n) for n in range(3)),
            [Kind.LEFT, 0, 1, 0, 70 * MS],
        ],
        "kept": [[Kind.JOINED, 0, 1, 0, 1, 1, 5], message(0, 1, 0), message(64, 1, 1), message(128, 1, 2)],
        "heir": [
            [Kind.JOINED, 0, 1, 128, 2, 1, 40 * MS],
            message(128, 1, 2),
            message(192, 1, 3),
            message(256, 1, 4),
            *(message(704 + 64 * n, 2, n) for n in range(3)),
            [Kind.LEFT, 0, 1, 0, 70 * MS],
        ],
        "lossy": [
            [Kind.JOINED, 0, 0, 0, 0, 0, 5],
            message(0, 1, 0),
            message(128, 1, 2, lost=1),
            message(832, 2, 2, lost=5),
            [Kind.LOST, 0, 5, 896],
            [Kind.LEFT, 0, 1, 0, 70 * MS],
        ],
    }


def judge(told):
    killed = {"first": Phase.committing, "kept": Phase.polling}
    counts = told.get("count", {})
    roles = {"first": "publisher", "second": "publisher", "kept": "kept", "heir": "kept", "next": "reliable"}
    lives = []
    for name, rows in told.items():
        if name == "count":
            continue
        entries = numpy.array([row + [0] * (8 - len(row)) for row in rows], dtype="i8")
        life = Life(name, roles.get(name, name), "none", 0, entries, ended=80 * MS, final=name not in killed)
        if name in killed:
            life.phase, life.killed, life.ended, life.attempted = killed[name], 30 * MS, 31 * MS, 5
        logged = sum(r[3] if r[0] == Kind.ACKNOWLEDGED else r[0] == Kind.MESSAGE for r in rows)
        life.counting = life.counted = counts.get(name, logged)
        if name == "first":
            life.counted -= 1
        lives.append(life)
    return lives


def change(name, row, *values):
    """Returns the story with one row replaced or removed."""
    told = story()
    told[name][row : row + 1] = [list(values)] if values else []
    return told


FAULTS = {
    "a message was lost": ("loss", change("reliable", 3)),
    "the last message was lost": ("loss", change("reliable", 7)),
    "the first message after the join was lost": ("loss", change("reliable", 1)),
    "the first message of the second owner was lost": ("loss", change("reliable", 5)),
    "the last message of the first owner was lost": ("loss", change("heir", 2)),
    "a message was delivered twice": ("order", change("reliable", 3, *message(64, 1, 1))),
    "a torn message": ("tear", change("reliable", 3, *message(192, 1, 3, torn=1))),
    "the wrong sender": ("sender", change("reliable", 3, *message(192, 1, 3, torn=2))),
    "an aborted claim was delivered": ("never offered", change("reliable", 3, *message(192, 1, -4))),
    "more was delivered than was offered": ("never offered", change("reliable", 7, *message(832, 2, 3))),
    "an epoch that nobody had": ("never offered", change("reliable", 7, *message(832, 3, 0))),
    "two positions of one message": ("agreement", change("heir", 4, *message(712, 2, 0))),
    "a subscriber did not see what another one saw": ("agreement", change("heir", 3)),
    "a kept subscriber resumed too late": ("loss", change("heir", 0, Kind.JOINED, 0, 1, 256, 2, 1, 40 * MS)),
    "loss counted too low": ("lost count", change("lossy", 2, *message(128, 1, 2, lost=0))),
    "loss counted too high": ("lost count", change("lossy", 4, Kind.LOST, 0, 6, 896)),
    "a ring taken from a living publisher": ("living declared dead", change("second", 0, Kind.TAKEN, 0, 2, 640, 20, 7)),
    "a slot lost that nobody evicted": (
        "living declared dead",
        change("reliable", 8, Kind.SLOT_LOST, 0, 0, 0, 70 * MS),
    ),
    "a living subscriber looked dead": (
        "living declared dead",
        change("second", 4, Kind.DEAD_WAIT, 0, 41 * MS, 43 * MS, 0, 70, 1),
    ),
    "held back for long": ("waits", change("second", 4, Kind.HELD, 0, 0, 20_000 * MS, 1, 0)),
    "six looks for the dead, and still held back": (
        "offers",
        change("second", 4, Kind.DEAD_WAIT, 3, 41 * MS, 42 * MS, 0, 400, 6),
    ),
    "a sender that was known is not": ("sender", change("reliable", 3, *message(192, 1, 3, torn=3))),
    "a sender that is not known after its owner record": ("sender", change("reliable", 5, *message(704, 2, 0, torn=3))),
}


def with_a_lag_limit(name, row, *values):
    """Returns the story in which the second owner has a lag limit, so it may evict any subscriber and waits for
    none."""
    told = change(name, row, *values)
    told["second"][0] = [Kind.TAKEN, 0, 2, 640, 40 * MS, 7, 2048]
    return told


FAULTS["held back in spite of a lag limit"] = (
    "waits",
    with_a_lag_limit("second", 4, Kind.HELD, 0, 0, 3000 * MS, 1, 0),
)
LOST_SLOT = ("reliable", 8, Kind.SLOT_LOST, 0, 0, 71 * MS, 70 * MS)


def closed_before_the_heir():
    """Returns the story in which the kept subscriber had closed, so that it may see no message again."""
    told = story()
    told["kept"].append([Kind.LEFT, 0, 0, 0, 29 * MS])
    return told


FAULTS["seen again after a proper close"] = ("duplicates", closed_before_the_heir())


def put_off(lost_bytes, *seen):
    """Returns a story in which a start at now is delayed, because the first owner died between its stores. The second
    owner counts its messages. Then one message is lost, before the first seen one, or until the end. Three or four
    messages were published meanwhile."""
    told = story()
    told["lossy"] = [
        [Kind.JOINED, 0, 0, 256, 0, 0, 5],
        *[[Kind.FIRST, 0, lost_bytes]] * len(seen),
        *seen,
        [Kind.LOST, 0, 1, 896, lost_bytes],
        [Kind.LEFT, 0, 1, 0, 70 * MS],
    ]
    return told


LAST = message(832, 2, 2, lost=1)
PUT_OFF = {"seen": put_off(448, LAST), "not seen": put_off(448)}
FAULTS["more was missed before the first message than there was room for"] = ("lost count", put_off(449, LAST))
FAULTS["more was missed until the end than there was room for"] = ("lost count", put_off(449))


def counting(name="", count=0):
    """Returns the story with counts, as each worker logged them, but `count` for one of them. The first one has counter
    1, and was killed between log and count."""
    told = story()
    told["first"][1:1] = [[Kind.COUNTER, 1]]
    return {each: told[each] for each in ("first", "second", "reliable", "kept", "heir")} | {"count": {name: count}}


# the fault (or none), values of the counters, the story; all count 7 + 7 + 3 + 6 messages
COUNTS = {
    "": ({0: 22, 1: 3}, counting()),
    "the common one is too low": ({0: 21, 1: 3}, counting()),
    "the common one is too high": ({0: 24, 1: 4}, counting()),
    "its own is too low": ({0: 22, 1: 2}, counting()),
    "its own is gone": ({0: 22}, counting()),
    "one has counted more than it logged": ({0: 24, 1: 3}, counting("reliable", 9)),
}


def verdict(told, gaps=()):
    found = Verdict()
    verify(judge(told), found, gaps)
    return found


def run():
    """Runs the tests. Returns (passed, failed)."""
    failed = []
    right = verdict(story())
    if (
        right.failures
        or right.work["none", "publisher"] != 7
        or right.counts["seen again after a kept one's death"] != 1
    ):
        failed.append(f"nothing is wrong, but: {dict(right.failures)} {right.counts}")
    evicted = verdict(with_a_lag_limit(*LOST_SLOT)).failures
    if evicted:
        failed.append(f"evicted by a publisher with a lag limit, but: {dict(evicted)}")
    # Evicted while it handles a message: it began its next poll after 70 ms, when another had the slot.
    told = change("reliable", 8, Kind.SLOT_LOST, 0, 0, 71 * MS, 70 * MS)
    told["next"] = [[Kind.JOINED, 0, 0, 896, 2, 0, 66 * MS, 65 * MS], [Kind.LEFT, 0, 1, 0, 72 * MS]]
    for begin, rule in ((63, ""), (68, "living declared dead")):
        told["operator"] = [[Kind.EVICTED, 0, begin * MS], [Kind.EVICTED, 0, begin * MS, (begin + 1) * MS]]
        found = verdict(told).failures
        if list(found) != [rule] * bool(rule):
            failed.append(f"evicted from {begin} ms on, and another has the slot after 66 ms: {dict(found)}")
    for name, told in PUT_OFF.items():
        found = verdict(told)
        if found.failures or found.counts["lossy starts put off"] != 1:
            failed.append(f"a start was put off, {name}, but: {dict(found.failures)} {found.counts}")
    waits = [
        [
            wait[0]
            for wait in verdict(
                change("second", 4, Kind.DEAD_WAIT, 3, 41 * MS, 47 * MS, lost * MS, 70, 1), gaps
            ).dead_waits
        ]
        for lost, gaps in ((0, ()), (2, ()), (1, ((40 * MS, 42 * MS), (45 * MS, 46 * MS), (50 * MS, 60 * MS))))
    ]
    if waits != [[6], [4], [4]]:
        failed.append(f"waits of 6 ms, of which 0, 2 and 2 were lost: {waits}")
    for name, (rule, told) in FAULTS.items():
        found = verdict(told).failures
        if rule not in found:
            failed.append(f"{name}: not found under {rule!r}; found {dict(found)}")
    for name, (values, told) in COUNTS.items():
        found = Verdict()
        check_counters(judge(told), values, numpy.array([1, 1, -1, 0]), found)
        if bool(found.failures["counters"]) != bool(name):
            failed.append(f"counters, {name or 'nothing is wrong'}: found {dict(found.failures)}")
    for text in failed:
        print(f"FAIL  verifier: {text}")
    return 5 + len(PUT_OFF) + len(FAULTS) + len(COUNTS) - len(failed), len(failed)


if __name__ == "__main__":
    good, bad = run()
    print(f"{good} passed, {bad} failed")
    sys.exit(bool(bad))
