# SPDX-License-Identifier: Apache-2.0
"""Tests the tables' verifier: a correct story, and the same story with one fault, which must be found under the rule
that it breaks. Run by tables.py, or alone."""

import sys

import numpy
from side import Change, How, Kind, Life, Phase
from verify_tables import verify_tables

MS = 1_000_000


def begun(what, key, number, time, expected=0):
    return [Kind.BEGUN, what, key, number, expected, 0, int(time * MS)]


def changed(result, time):
    return [Kind.CHANGED, result, int(time * MS)]


def saw(key, number, version, begin, end, fault=0, how=How.GET):
    return [Kind.SAW, key, number, version, fault, begin * MS, end * MS, how]


def walked(how, count, begin, end, stamp, size):
    return [Kind.WALKED, how, count, begin * MS, end * MS, stamp, size]


def story():
    """`feed` holds the table, puts 10, 11 and 20, removes key 2, puts it again as 21 for no version, and leaves. `killed`
    is killed in the put of 12, which takes effect. `heir` puts 13 for its version, and fails to put 14. `look` reads all
    of that."""
    return {
        "feed": [
            [Kind.SEATED, 0, 1, 2 * MS, 1 * MS],
            begun(Change.PUT, 1, 10, 3),
            changed(3, 4),
            begun(Change.PUT, 1, 11, 5),
            changed(4, 6),
            begun(Change.PUT, 2, 20, 7),
            changed(7, 8),
            begun(Change.REMOVE, 2, 0, 10),
            changed(1, 11),
            begun(Change.IF_ABSENT, 2, 21, 12),
            changed(10, 13),
            saw(1, 11, 4, 14, 15, how=How.HELD_SNAPSHOT),
            saw(2, 21, 10, 14, 15, how=How.HELD_SNAPSHOT),
            walked(How.HELD_SNAPSHOT, 2, 14, 15, 5, 2),
            [Kind.LEFT, 0, 0, 0, 16 * MS],
        ],
        "killed": [begun(Change.PUT, 1, 12, 17)],
        "heir": [
            begun(Change.COMPARE, 1, 13, 21, 13),
            changed(14, 22),
            begun(Change.COMPARE, 1, 14, 23, 13),
            changed(0, 24),
            begun(Change.REMOVE, 2, 0, 25),
            changed(1, 26),
            begun(Change.REMOVE, 3, 0, 27),
            changed(0, 28),
        ],
        "look": [
            saw(1, -1, 0, 1, 2),
            saw(1, 10, 3, 3, 5),
            saw(2, 20, 7, 8, 9),
            saw(2, -1, 0, 11, 12),
            saw(1, 11, 4, 14, 15),
            saw(1, 12, 13, 19, 20),
            saw(1, 13, 14, 23, 24),
            saw(2, 21, 0, 23, 24),
            saw(1, 13, 14, 29, 30, how=How.WALK),
            saw(2, -1, 0, 29, 30, how=How.WALK),
            walked(How.WALK, 2, 29, 30, 8, 1),
            [Kind.SLEPT, 1, 4, 13, 15 * MS, 19 * MS],
            [Kind.SLEPT, -1, 8, -1, 30 * MS, 430 * MS],
            [Kind.SLEPT, 2, 10, 0, 22 * MS, 270 * MS],
        ],
    }


def judge(told):
    roles = {"look": "looker"}
    lives = []
    for name, rows in told.items():
        entries = numpy.array([row + [0] * (8 - len(row)) for row in rows], dtype="i8")
        life = Life(name, roles.get(name, "putter"), "none", 0, entries, ended=900 * MS)
        if name == "killed":
            life.killed, life.ended = 18 * MS, 19 * MS
        lives.append(life)
    return lives


def change(name, row, *rows, remove=1):
    """Returns the story with one row replaced by others."""
    told = story()
    told[name][row : row + remove] = [list(each) for each in rows]
    return told


FAULTS = {
    "a torn value": ("tear", change("look", 4, saw(1, 11, 4, 14, 15, fault=1))),
    "a value that was never put": ("never put", change("look", 4, saw(1, 99, 4, 14, 15))),
    "a value that was refused": ("never put", change("look", 6, saw(1, 14, 15, 24, 25))),
    "a value from the future": ("never put", change("look", 1, saw(1, 13, 14, 3, 5))),
    "a value of another key": ("agreement", change("look", 4, saw(1, 20, 7, 14, 15))),
    "another version than the put's": ("agreement", change("look", 4, saw(1, 11, 5, 14, 15))),
    "one version of two changes": ("agreement", change("heir", 1, changed(10, 22))),
    "an older version again": ("undone", change("look", 6, saw(1, 12, 13, 23, 24))),
    "a version that another process had overwritten": ("undone", change("look", 4, saw(1, 10, 3, 14, 15))),
    "a removed value": ("undone", change("look", 3, saw(2, 20, 7, 11, 12))),
    "a value that is lost": ("undone", change("look", 8, saw(1, -1, 0, 29, 30, how=How.WALK))),
    "what a reader saw of the killed is lost": ("undone", change("look", 6, saw(1, 11, 4, 23, 24))),
    "a version that is too small": ("order", change("heir", 8, begun(Change.PUT, 5, 50, 30), changed(6, 31), remove=0)),
    "compared with an older version": ("compare", change("heir", 0, begun(Change.COMPARE, 1, 13, 21, 4))),
    "put as absent though it was there": ("compare", change("feed", 3, begun(Change.IF_ABSENT, 1, 11, 5))),
    "removed twice": (
        "removed twice",
        change("heir", 7, changed(1, 26), begun(Change.REMOVE, 2, 0, 27), changed(1, 28)),
    ),
    "a copy of two instants": ("instant", change("feed", 11, saw(1, 10, 3, 14, 15, how=How.HELD_SNAPSHOT))),
    "a copy of a later instant": ("instant", change("feed", 13, walked(How.HELD_SNAPSHOT, 2, 14, 15, 4, 2))),
    "a copy that lost a key": ("instant", change("feed", 13, walked(How.HELD_SNAPSHOT, 2, 14, 15, 5, 3))),
    "a key met twice": (
        "instant",
        change("look", 10, saw(1, 13, 14, 29, 30, how=How.WALK), walked(How.WALK, 3, 29, 30, 8, 1)),
    ),
    "a change while another process holds": (
        "owners",
        change("heir", 0, begun(Change.PUT, 7, 70, 7), changed(8, 8), begun(Change.COMPARE, 1, 13, 21, 13)),
    ),
    "two holders": (
        "owners",
        change("heir", 0, [Kind.SEATED, 0, 2, 15 * MS, 15 * MS], begun(Change.COMPARE, 1, 13, 21, 13)),
    ),
    "a missed change": ("waits", change("look", 11, [Kind.SLEPT, 1, 4, 13, 15 * MS, 280 * MS])),
    "a missed change of any key": ("waits", change("look", 12, [Kind.SLEPT, -1, 6, -1, 15 * MS, 430 * MS])),
    "a wait that ends without a change": ("waits", change("look", 11, [Kind.SLEPT, 1, 4, 4, 15 * MS, 19 * MS])),
}


def run():
    """Returns (passed, failed)."""
    failed = []
    right = verify_tables(judge(story()))
    if right.failures or right.counts["changes"] != 8 or right.counts["changes of the killed"] != 1:
        failed.append(f"nothing is wrong, but: {dict(right.failures)} {right.counts}")
    grown = change("heir", 0, begun(Change.GROW, -1, 0, 20.5), changed(1, 22.5), begun(Change.COMPARE, 1, 13, 21, 13))
    for told, good in ((change("look", 6, saw(1, 12, 13, 23, 24)), False), (grown, True)):
        if good:  # the reader had looked just before the grow
            told["look"][6] = saw(1, 12, 13, 23, 24)
        if ("undone" in verify_tables(judge(told)).failures) == good:
            failed.append(f"an old value within 1 ms of a grow: {good}")
    for begin, good in ((25.5, True), (26.5, False)):  # the grow ends at 24.8
        told = change("heir", 4, begun(Change.GROW, -1, 0, 24.2), changed(1, 24.8), begun(Change.REMOVE, 2, 0, 25))
        told["heir"][7] = changed(1, 25.2)
        told["look"].insert(8, saw(2, 21, 10, begin, begin + 0.2))
        if ("undone" in verify_tables(judge(told)).failures) == good:
            failed.append(f"a removed value {begin - 24.8:.1f} ms after a grow: {good}")
    closing = change("killed", 0, [Kind.SEATED, 0, 2, 15 * MS, 14 * MS], *story()["killed"])
    closing["feed"][-1] = [Kind.LEFT, 0, 0, 0, 14 * MS]
    closing["heir"][0:2] = [
        [Kind.SEATED, 0, 3, int(17.5 * MS), 17 * MS],
        begun(Change.COMPARE, 1, 13, 21, 13),
        changed(14, 22),
    ]
    for phase, good in ((Phase.leaving, True), (Phase.putting, False)):
        lives = judge(closing)
        lives[1].phase = phase
        if ("owners" in verify_tables(lives).failures) == good:
            failed.append(f"killed in phase {phase.name}, while the next one holds the table")
    for name, (rule, told) in FAULTS.items():
        found = verify_tables(judge(told)).failures
        if rule not in found:
            failed.append(f"{name}: not found under {rule!r}; found {dict(found)}")
    for text in failed:
        print(f"FAIL  verifier: {text}")
    return 7 + len(FAULTS) - len(failed), len(failed)


if __name__ == "__main__":
    good, bad = run()
    print(f"{good} passed, {bad} failed")
    sys.exit(bool(bad))
