# SPDX-License-Identifier: Apache-2.0
"""Tests the services' verifier: a correct story, and the same story with one fault, which must be found under the rule
that it breaks. Run by calls.py, or alone."""

import copy
import sys

import numpy
from side import End, Kind, Life, Phase
from verify_calls import verify_calls

MS = 1_000_000


def called(number, time, timeout=0, stream=0):
    return [Kind.CALLED, number, timeout * MS, time * MS, stream]


def ended(number, time, how=End.ANSWER, may=0, wrong=0, server=0, repeat=0):
    return [Kind.ENDED, number, how, may, wrong, time * MS, server, repeat]


def given(number, time, repeat=0, wrong=0, client=0):
    return [Kind.REQUEST, client, 1, number, repeat, wrong, time * MS]


def story():
    """Client 0, epoch 1. Server 1 answers call 0, fails 1, is killed with 2 in hand, and never gets 3. Server 2 answers
    4, is evicted with 5 in hand, and notices. Server 3 answers 7 late, and 8; 6 expires without a server."""
    return {
        "caller": [
            [Kind.SEATED, 1, 1, 2 * MS, 1 * MS],
            called(0, 10),
            ended(0, 12, server=1),
            called(1, 13),
            ended(1, 15, End.SERVICE_ERROR),
            called(2, 16),
            called(3, 17),
            ended(2, 60, End.SERVER_GONE, 1),
            ended(3, 60, End.SERVER_GONE, 0),
            called(4, 61),
            ended(4, 75, server=2),
            called(5, 76),
            ended(5, 95, End.SERVER_GONE, 1),
            called(6, 96, 5),
            ended(6, 102, End.EXPIRED, 0),
            called(7, 110, 20),
            ended(7, 131, End.EXPIRED, 1),
            called(8, 140),
            ended(8, 145, server=5),
            called(9, 146),
            ended(9, 146, End.CANCELLED),
            [Kind.LEFT, 0, 0, 0, 200 * MS],
        ],
        "first": [
            [Kind.SEATED, 0, 1, 3 * MS, 1 * MS],
            given(0, 11),
            given(1, 14),
            given(2, 18),
        ],
        "second": [
            [Kind.SEATED, 0, 2, 70 * MS, 65 * MS],
            given(4, 72),
            given(5, 77),
            [Kind.SLOT_LOST, 0, 0, 100 * MS, 77 * MS],
        ],
        "operator": [[Kind.EVICTED, 0, 90 * MS], [Kind.EVICTED, 0, 90 * MS, 91 * MS]],
        "third": [
            [Kind.SEATED, 0, 5, 105 * MS, 104 * MS],
            given(7, 111),
            given(8, 142),
            [Kind.IDLE, 300 * MS, 700 * MS],
            [Kind.LEFT, 0, 1, 0, 800 * MS],
        ],
    }


def least_story():
    """The same with at-least-once delivery: server 1 is killed with 0 in hand, and 1 answered but its gate not
    stored."""
    return {
        "caller": [
            [Kind.SEATED, 1, 1, 2 * MS, 1 * MS],
            called(0, 10),
            called(1, 11),
            called(2, 12),
            ended(1, 30, server=1),
            ended(0, 75, server=2, repeat=1),
            ended(2, 76, server=2),
            [Kind.LEFT, 0, 0, 0, 200 * MS],
        ],
        "first": [[Kind.SEATED, 0, 1, 3 * MS, 1 * MS], given(0, 13), given(1, 14)],
        "second": [
            [Kind.SEATED, 0, 2, 70 * MS, 65 * MS],
            given(0, 72, 1),
            given(1, 73, 1),
            given(2, 74),
            [Kind.LEFT, 0, 1, 0, 800 * MS],
        ],
    }


ROLES = {"caller": "caller", "operator": "operator"}


def judge(told, least=False):
    lives = []
    for name, rows in told.items():
        entries = numpy.array([row + [0] * (8 - len(row)) for row in rows], dtype="i8").reshape(-1, 8)
        life = Life(
            name, ROLES.get(name, "server"), "none", 0, entries, ended=900 * MS, final=name in ("second", "third")
        )
        if name == "first":
            life.phase, life.killed, life.ended = Phase.handling, 50 * MS, 51 * MS
        lives.append(life)
    return verify_calls(lives, least=least)


def change(name, row, *rows, remove=1, told=None):
    """Returns the story with one row replaced by others."""
    told = copy.deepcopy(told or story())
    told[name][row : row + remove] = [list(each) for each in rows]
    return told


def least(name, row, *rows, remove=1):
    return change(name, row, *rows, remove=remove, told=least_story())


def first_leaves(answers=False):
    """Returns the at-least-once story in which server 1 closes properly, with call 0 in hand or answered."""
    told = least("caller", 5, ended(0, 31, server=1)) if answers else least_story()
    told["zero"] = told.pop("first") + [[Kind.LEFT, 0, 0, 0, 50 * MS]]
    return told


def three_servers(second=0, third=1):
    """Returns the at-least-once story in which server 1 closes properly, with call 0 in hand and call 1 answered.
    Server 2 is given call `second`, which is at the gate, and closes. Server 3 is given call `third`, and 2."""
    told = first_leaves()
    told["second"][1:] = [given(second, 72, 1), [Kind.LEFT, 0, 0, 0, 73 * MS]]
    told["third"] = [
        [Kind.SEATED, 0, 3, 75 * MS, 74 * MS],
        given(third, 76, 1),
        given(2, 77),
        [Kind.LEFT, 0, 1, 0, 800 * MS],
    ]
    told["caller"][6] = ended(2, 78, server=3)
    return told


def first_expires(timeout=20):
    """Returns the at-least-once story in which server 1 closes properly, with call 0 in hand, whose time is over before
    server 2 comes. So server 2 is given call 1, and not call 0."""
    told = first_leaves()
    told["caller"][1] = called(0, 10, timeout)
    told["caller"][5] = ended(0, 31, End.EXPIRED, 1)
    del told["second"][1]
    return told


FAULTS = {
    "a call never ends": ("never ended", change("caller", 4)),
    "the last call never ends": ("never ended", change("caller", 18)),
    "a call ends twice": ("ended twice", change("caller", 4, ended(1, 15, End.SERVICE_ERROR), ended(1, 16))),
    "another call's answer": ("answer", change("caller", 2, ended(0, 12, wrong=1, server=1))),
    "an answer that nobody gave": ("answer", change("first", 1)),
    "an error that nobody gave": ("answer", change("first", 2)),
    "an answer of a server that was not given it": ("answer", change("caller", 2, ended(0, 12, server=2))),
    "a request that is handled twice by one server": ("twice", change("first", 1, given(0, 11), given(0, 12))),
    "a request that is handled by two servers": ("twice", change("second", 1, given(2, 71), given(4, 72))),
    "not run, and it ran": ("not run", change("first", 3, given(2, 18), given(3, 19))),
    "expired, not run, and it ran": ("not run", change("third", 1, given(6, 110), given(7, 111))),
    "a repeat of at most once": ("repeat", change("third", 2, given(8, 142, 1))),
    "an answer that says repeat": ("repeat", change("caller", 18, ended(8, 145, server=5, repeat=1))),
    "server gone, and none was": ("server gone", change("caller", 4, ended(1, 15, End.SERVER_GONE, 1))),
    "server gone, long after": ("waits", change("caller", 12, ended(5, 95 + 400, End.SERVER_GONE, 1))),
    "expired too early": ("waits", change("caller", 16, ended(7, 125, End.EXPIRED, 1))),
    "expired too late": ("waits", change("caller", 16, ended(7, 131 + 300, End.EXPIRED, 1))),
    "expired without a time-out": ("waits", change("caller", 18, ended(8, 145, End.EXPIRED, 1))),
    "a request that nobody made": ("never asked", change("third", 2, given(8, 142), given(10, 143))),
    "a torn request": ("tear", change("third", 2, given(8, 142, 0, 1))),
    "another sender": ("sender", change("third", 2, given(8, 142, 0, 2))),
    "requests out of order": ("order", change("third", 1, given(8, 111), given(7, 142), remove=2)),
    "a place taken from one who lives": ("living declared dead", change("second", 0, [Kind.SEATED, 0, 2, 40 * MS, 1])),
    "two owners of one epoch": ("owners", change("second", 0, [Kind.SEATED, 0, 1, 70 * MS, 65 * MS])),
    "a place lost that nobody evicted": ("living declared dead", change("operator", 0, remove=2)),
    "an evicted server goes on": ("evicted", change("second", 2, given(5, 77), given(9, 91 + 600))),
    "a request waits while its server finds nothing": (
        "waits",
        change(
            "third",
            2,
            [Kind.IDLE, 142 * MS, 542 * MS],
            given(8, 543),
            told=change("caller", 18, ended(8, 545, server=5)),
        ),
    ),
    "nobody found it empty": ("left over", change("third", 4, [Kind.LEFT, 0, 0, 0, 800 * MS])),
}
LEAST_FAULTS = {
    "a call of at least once ends with its server": (
        "server gone",
        least("caller", 5, ended(0, 75, End.SERVER_GONE, 1)),
    ),
    "a repeat that does not say so": ("repeat", least("second", 1, given(0, 72))),
    "the first time, and it says repeat": ("repeat", {"third": [[Kind.SEATED, 0, 1, 1 * MS, 1], given(0, 13, 1)]}),
    "to one server twice": ("twice", least("second", 3, given(2, 74), given(2, 75, 1))),
    "answered by one that left in order, and again": ("twice", first_leaves(answers=True)),
    "the same behind a call whose time is not over": ("twice", first_expires(timeout=2000)),
    "the gate goes back": ("twice", three_servers(second=1, third=0)),
}


def run():
    """Runs the tests. Returns (passed, failed)."""
    failed = []
    right = judge(story())
    if right.failures or right.counts["calls"] != 10 or right.counts["requests"] != 7:
        failed.append(f"nothing is wrong, but: {dict(right.failures)} {right.counts}")
    right = judge(least_story(), least=True)
    if right.failures or right.counts["repeats"] != 2:
        failed.append(f"at least once, nothing is wrong, but: {dict(right.failures)} {right.counts}")
    right = judge(first_leaves(), least=True)
    if right.failures:
        failed.append(f"it left with a request in hand, what is behind that is repeated, but: {dict(right.failures)}")
    right = judge(first_expires(), least=True)
    if right.failures:
        failed.append(f"what is behind a request that expired in hand is repeated, but: {dict(right.failures)}")
    right = judge(three_servers(), least=True)
    if right.failures:
        failed.append(f"the second of three servers leaves after the request at the gate, but: {dict(right.failures)}")
    told = story()
    told["first"] = told["first"] + [[Kind.LEFT, 0, 0, 0, 50 * MS]]
    right = judge(told)
    if right.failures:
        failed.append(f"a server that leaves in order is gone, too, but: {dict(right.failures)}")
    told = change("second", 3, [Kind.SLOT_LOST, 0, 0, 130 * MS, 110 * MS])  # it began its next poll after 110 ms
    for operator, rule in (({"operator": told["operator"]}, ""), ({}, "living declared dead")):
        found = judge({name: rows for name, rows in told.items() if name != "operator"} | operator)
        if (rule in found.failures) != bool(rule) or (not rule and found.failures):
            failed.append(f"it learns of its eviction behind the next one's start: {dict(found.failures)}")
    for faults, at_least in ((FAULTS, False), (LEAST_FAULTS, True)):
        for name, (rule, told) in faults.items():
            found = judge(told, at_least).failures
            if rule not in found:
                failed.append(f"{name}: not found under {rule!r}; found {dict(found)}")
    for text in failed:
        print(f"FAIL  verifier: {text}")
    return 8 + len(FAULTS) + len(LEAST_FAULTS) - len(failed), len(failed)


if __name__ == "__main__":
    good, bad = run()
    print(f"{good} passed, {bad} failed")
    sys.exit(bool(bad))
