# SPDX-License-Identifier: Apache-2.0
"""Tests the journals' verifier: a correct story, and the same story with one fault, which must be found under the rule
that it breaks. Run by journals.py, or alone."""

import sys

import numpy
from side import Kind, Life, Phase
from verify_journals import NEWEST, verify_journals

MS = 1_000_000


def appending(first, count, time):
    return [Kind.APPENDING, first, count, time * MS]


def appended(position, count, time):
    return [Kind.APPENDED, position, count, time * MS]


def read(number, mark, position, time, lost=0, fault=0):
    return [Kind.READ, number, mark, position, lost, fault, time * MS]


def following(number, time, lost=0, wanted=-1, how=0):
    return [Kind.FOLLOWING, number, lost, (time + 1) * MS, time * MS, wanted, how]


def polled(number, lost=0):
    return [Kind.POLLED, number, lost]


def idle(begin, end):
    return [Kind.IDLE, begin * MS, end * MS]


def left(drained, time):
    return [Kind.LEFT, 0, drained, 0, time * MS]


def story():
    """`feed` appends 100, and 101 to 103 in a batch. `killed` is killed in the append of 200, which is there. `heir`
    appends 300 and is refused 301. `tail` follows all of it; `old` begins at the first one and loses two; `wants` asks
    for number 3; `new` begins behind the newest message. Consumer `ledger` is killed once, and gets numbers 1 and 2
    again."""
    return {
        "feed appender": [
            [Kind.SEATED, 0, 1, 2 * MS, 1 * MS],
            appending(100, 1, 3),
            appended(64, 1, 4),
            appending(101, 3, 5),
            appended(128, 3, 6),
            [Kind.LEFT, 0, 0, 0, 7 * MS],
        ],
        "killed appender": [appending(200, 1, 9)],
        "heir appender": [
            [Kind.SEATED, 0, 3, 12 * MS, 11 * MS],
            appending(300, 1, 13),
            appended(384, 1, 14),
            appending(301, 1, 15),
            appended(-1, 0, 16),
        ],
        "tail follower": [
            following(0, 1),
            *(read(n, m, 64 * (n + 1), 10 + n) for n, m in enumerate((100, 101, 102, 103, 200))),
            read(5, 300, 384, 20),
            left(1, 30),
        ],
        "wants follower": [following(3, 20, wanted=3), read(3, 103, 256, 22), read(4, 200, 320, 23)],
        "new follower": [following(5, 12, how=NEWEST), idle(13, 14), read(5, 300, 384, 15), idle(15, 900)],
        "old follower": [following(0, 20), read(2, 102, 192, 22, lost=2), read(3, 103, 256, 23, lost=2)],
        "first consumer ledger": [
            following(0, 1),
            read(0, 100, 64, 5),
            polled(1),
            read(1, 101, 128, 7),
            read(2, 102, 192, 8),
        ],
        "second consumer ledger": [
            following(1, 12),
            *(read(n, m, 64 * (n + 1), 13 + n) for n, m in ((1, 101), (2, 102), (3, 103), (4, 200))),
            polled(5),
            [Kind.LEFT, 0, 0, 0, 20 * MS],
        ],
        "third consumer ledger": [following(5, 21), read(5, 300, 384, 22), polled(6), [Kind.LEFT, 0, 0, 0, 23 * MS]],
    }


LEFT = [(4, 200, 320, 0), (5, 300, 384, 0)]


def judge(told):
    lives = []
    for name, rows in told.items():
        entries = numpy.array([row + [0] * (8 - len(row)) for row in rows], dtype="i8")
        role = next(role for role in ("appender", "follower", "consumer") if role in name)
        life = Life(name, role, "none", 0, entries, ended=900 * MS)
        life.final = name.startswith("tail")
        if name.startswith(("killed", "first")):
            life.killed, life.ended = 10 * MS, 11 * MS
        lives.append(life)
    return lives


def change(name, row, *rows, remove=1):
    """Returns the story with one row replaced by others."""
    told = story()
    name = next(each for each in told if each.startswith(name))
    told[name][row : row + remove] = [list(each) for each in rows]
    return told


def taken_early():
    """Returns the story in which the second consumer takes the name before the first one is killed."""
    return change("second", 0, following(1, 8))


FAULTS = {
    "a torn message": ("tear", change("tail", 2, read(1, 101, 128, 11, fault=1)), LEFT),
    "a torn message in the file": ("tear", story(), [(4, 200, 320, 0), (5, 300, 384, 1)]),
    "a message that was never appended": ("never appended", change("tail", 2, read(1, 999, 128, 11)), LEFT),
    "a message that was refused": ("never appended", change("tail", 7, read(6, 301, 448, 21), remove=0), LEFT),
    "a message from the future": ("never appended", change("tail", 6, read(5, 300, 384, 12)), LEFT),
    "another message at a number": ("agreement", change("old", 1, read(2, 103, 192, 22, lost=2)), LEFT),
    "another position of a number": ("agreement", change("old", 1, read(2, 102, 256, 22, lost=2)), LEFT),
    "a position that the append did not say": ("agreement", change("feed", 2, appended(128, 1, 4)), LEFT),
    "one message with two numbers": ("agreement", change("tail", 5, read(4, 103, 320, 14)), LEFT),
    "another message in the file": ("agreement", story(), [(4, 103, 320, 0), (5, 300, 384, 0)]),
    "numbers against the order of time": (
        "order",
        change("heir", 1, appending(300, 1, 1), appended(384, 1, 2), remove=2),
        LEFT,
    ),
    "positions against the order of numbers": ("order", change("tail", 6, read(5, 300, 300, 20)), [(4, 200, 320, 0)]),
    "a message that is gone": ("lost", change("heir", 3, appending(301, 1, 15), appended(448, 1, 16), remove=2), LEFT),
    "a batch that is gone in part": (
        "lost",
        change("feed", 4, appended(128, 3, 6), appending(104, 2, 6), appended(320, 2, 6)),
        LEFT,
    ),
    "a number that is skipped": ("exactly once", change("tail", 3), LEFT),
    "a number twice": ("exactly once", change("tail", 3, read(2, 102, 192, 12), read(2, 102, 192, 13)), LEFT),
    "one lost too few": ("exactly once", change("old", 1, read(2, 102, 192, 22, lost=1)), LEFT),
    "one lost too many": ("exactly once", change("old", 2, read(3, 103, 256, 23, lost=3)), LEFT),
    "a consumer that skips": ("at least once", change("third", 0, following(6, 21)), LEFT),
    "a consumer that does not begin at the beginning": ("at least once", change("first", 0, following(1, 1)), LEFT),
    "a consumer that lost": ("at least once", change("third", 0, following(5, 21, lost=1)), LEFT),
    "a number again behind a close": ("repeats", change("third", 0, following(4, 21)), LEFT),
    "a number again below the gate": ("repeats", change("second", 0, following(0, 12)), LEFT),
    "a message again behind a loss": (
        "repeats",
        change("third", 0, following(5, 21, lost=1), read(5, 300, 384, 22, lost=1)),
        LEFT,
    ),
    "two owners of a name": ("owners", change("third", 0, following(5, 17)), LEFT),
    "the name of a living consumer": ("owners", taken_early(), LEFT),
    "another number than it asked for": ("exactly once", change("wants", 0, following(3, 20, wanted=2)), LEFT),
    "a beginning too far behind": ("exactly once", change("new", 0, following(4, 16, how=NEWEST), remove=3), LEFT),
    "a beginning too far ahead": ("exactly once", change("new", 0, following(6, 11, how=NEWEST), remove=3), LEFT),
    "an end that is not read": ("exactly once", change("tail", 6), LEFT),
    "a reader that sleeps on": ("waits", change("new", 1, idle(13, 300)), LEFT),
    "two owners": ("owners", change("heir", 0, [Kind.SEATED, 0, 3, 6 * MS, 5 * MS]), LEFT),
    "an append beside the owner": (
        "owners",
        change("heir", 0, appending(400, 1, 4), appended(900, 1, 5), [Kind.SEATED, 0, 3, 12 * MS, 11 * MS]),
        LEFT,
    ),
}


def run():
    """Returns (passed, failed)."""
    failed = []
    right = verify_journals(judge(story()), left=LEFT, trimmed=(2, 192))
    if right.failures or right.counts["appended"] != 5 or right.counts["appended by the killed"] != 1:
        failed.append(f"nothing is wrong, but: {dict(right.failures)} {right.counts}")
    told = change("third", 0, following(5, 21, lost=2), read(5, 300, 384, 22, lost=2), polled(6, 2), remove=3)
    told["second consumer ledger"][5:] = [polled(3), left(0, 20)]
    del told["second consumer ledger"][3:5]
    limited = verify_journals(judge(told), left=LEFT[1:], trimmed=(5, 384), limited=True).failures
    if limited:
        failed.append(f"a size limit took two messages of a consumer, but: {dict(limited)}")
    lives = judge(taken_early())
    for life in lives:
        if life.name.startswith("first"):
            life.phase = Phase.leaving  # it had closed, and was killed before it could say so
    if found := verify_journals(lives, left=LEFT, trimmed=(2, 192)).failures:
        failed.append(f"a consumer was killed behind its close, but: {dict(found)}")
    for name, (rule, told, there) in FAULTS.items():
        found = verify_journals(judge(told), left=there, trimmed=(2, 192)).failures
        if rule not in found:
            failed.append(f"{name}: not found under {rule!r}; found {dict(found)}")
    for text in failed:
        print(f"FAIL  verifier: {text}")
    return 3 + len(FAULTS) - len(failed), len(failed)


if __name__ == "__main__":
    good, bad = run()
    print(f"{good} passed, {bad} failed")
    sys.exit(bool(bad))
