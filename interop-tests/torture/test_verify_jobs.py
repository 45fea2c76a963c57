# SPDX-License-Identifier: Apache-2.0
"""Tests the queue's verifier: a correct story, and the same story with one fault, which must be found under the rule
that it breaks. Run by jobs.py, or alone."""

import sys

import numpy
from side import Kind, Life, Phase
from verify_jobs import verify_jobs

MS = 1_000_000


def job(sequence, time, attempts=0, wrong=0, position=None):
    place = 64 * sequence if position is None else position
    return [Kind.JOB, 0, place, 1, sequence, attempts, wrong, time * MS]


def done(time):
    return [Kind.DONE, time * MS]


def acknowledged(sequence, time):
    return [Kind.ACKNOWLEDGED, sequence + 1, 64 * (sequence + 1), 1, time * MS]


def story():
    """Ring 0, epoch 1: ten jobs. Worker `killed` does 0, and is killed with 1. `heir` does 2 and 1, is evicted with 3,
    and notices. `last` releases 4, does 3 and 4, throws 5, does 6, 5, 7 and 8, and closes with 9 in hand. It does 9
    when it has its slot again."""
    return {
        "producer": [
            [Kind.TAKEN, 0, 1, 0, 1 * MS, 7, 0],
            *(acknowledged(n, 2 + n) for n in range(10)),
            [Kind.CLOSED, 10, 0, 0, 900 * MS],
        ],
        "killed": [[Kind.SEATED, 1, 1, 2 * MS, 1 * MS], job(0, 20), done(21), job(1, 22)],
        "heir": [
            [Kind.SEATED, 2, 1, 2 * MS, 1 * MS],
            job(2, 24),
            done(25),
            job(1, 45, 1),
            done(46),
            job(3, 47),
            [Kind.SLOT_LOST, 2, 1, 100 * MS, 47 * MS],
        ],
        "operator": [[Kind.EVICTED, 2, 60 * MS], [Kind.EVICTED, 2, 60 * MS, 61 * MS]],
        "last": [
            [Kind.SEATED, 3, 1, 3 * MS, 2 * MS],
            job(4, 62),
            [Kind.GIVING, 63 * MS],
            [Kind.GIVEN, 1, 64 * MS],
            job(3, 65, 1),
            done(66),
            job(4, 67, 1),
            done(68),
            job(5, 69),
            [Kind.GIVING, 70 * MS],
            job(6, 71),
            done(72),
            job(5, 73, 1),
            done(74),
            job(7, 75),
            done(76),
            job(8, 77),
            done(78),
            job(9, 79),
            [Kind.GIVING, 80 * MS],
            [Kind.LEFT, 0, 0, 0, 81 * MS],
            [Kind.SEATED, 3, 2, 84 * MS, 83 * MS],
            job(9, 85, 1),
            done(86),
            [Kind.IDLE, 87 * MS, 500 * MS],
            [Kind.LEFT, 0, 1, 0, 500 * MS],
        ],
    }


def judge(told, phase=Phase.handling):
    roles = {"producer": "publisher", "operator": "operator", "other operator": "operator"}
    lives = []
    for name, rows in told.items():
        entries = numpy.array([row + [0] * (8 - len(row)) for row in rows], dtype="i8")
        life = Life(name, roles.get(name, "worker"), "none", 0, entries, ended=900 * MS, final=name == "last")
        if name == "killed":
            life.phase, life.killed, life.ended = phase, 40 * MS, 41 * MS
        lives.append(life)
    return lives


def change(name, row, *rows, told=None, remove=1):
    """Returns the story with one row replaced by others."""
    told = told or story()
    told[name][row : row + remove] = [list(each) for each in rows]
    return told


def without_the_eviction():
    told = story()
    del told["operator"]
    return told


def stood_still(adopted, wrote, evicted=True):
    """Returns the story in which the evicted worker was stopped after it got job 3 and before it logged that, so the
    other worker logged the job first."""
    told = story() if evicted else without_the_eviction()
    told["heir"][5] = job(3, wrote)
    told["last"][1:6] = [
        job(3, adopted, 1),
        done(adopted),
        job(4, 66),
        [Kind.GIVING, 66 * MS],
        [Kind.GIVEN, 1, 66 * MS],
    ]
    return told


def late(finding):
    """Returns the story in which job 9 is acknowledged after 11 ms and handed out after 479, while another worker finds
    nothing, from 20 ms on."""
    told = change(
        "last",
        18,
        [Kind.LEFT, 0, 0, 0, 81 * MS],
        [Kind.SEATED, 3, 2, 84 * MS, 83 * MS],
        job(9, 479),
        done(480),
        [Kind.LEFT, 0, 1, 0, 880 * MS],
        remove=8,
    )
    told["idler"] = [
        [Kind.SEATED, 4, 1, 2 * MS, 1 * MS],
        [Kind.IDLE, 20 * MS, (20 + finding) * MS],
        [Kind.LEFT, 0, 0, 0, 800 * MS],
    ]
    return told


def thrown():
    """Like `late`, but job 9 is acknowledged after 469 ms, and thrown once. Its worker's slot was evicted while the
    worker took it: the eviction may mean the worker, but in fact hit the last owner."""
    told = late(450)
    told["producer"][10] = acknowledged(9, 469)
    at = told["last"].index(done(480))
    told["last"][at : at + 1] = [[Kind.GIVING, 479 * MS], job(9, 480, 1), done(480)]
    told["other operator"] = [[Kind.EVICTED, 3, 82 * MS], [Kind.EVICTED, 3, 82 * MS, 85 * MS]]
    return told


def stray(noticed):
    """Returns the story in which job 9 was published after the eviction, and has 1 attempt when it is first handed out.
    The evicted worker, which learns of the loss at `noticed`, may have taken it."""
    told = change("last", 18, job(9, 79, 1))
    told["last"][22] = job(9, 85, 2)
    told["producer"][9:11] = [acknowledged(8, 70), acknowledged(9, 78)]
    told["heir"][-1][3] = noticed * MS
    return told


def left(*rows):
    """Returns the story in which job 1 has 1 attempt, and another worker has left before."""
    told = change("killed", 1, job(1, 22, 1), remove=3)
    told["leaver"] = [[Kind.SEATED, 4, 1, 2 * MS, 1 * MS], *rows, [Kind.LEFT, 0, 0, 0, 21 * MS]]
    return told


FAULTS = {
    "a job was lost": ("loss", change("last", 12, remove=2)),
    "the last job was lost": ("loss", change("last", 22, remove=2)),
    "a job of the dead was lost": ("loss", change("heir", 3, remove=2)),
    "a job of an evicted worker was lost": ("loss", change("last", 4, remove=2)),
    "a job that was released was lost": ("loss", change("last", 6, remove=2)),
    "a job was done twice for no reason": ("twice", change("last", 14, job(7, 75), done(75), job(7, 75, 1))),
    "a job of the dead was handed out once more than they died": (
        "twice",
        change("last", 14, job(1, 75, 2), done(75), job(7, 75)),
    ),
    "a released job came twice": ("twice", change("last", 14, job(4, 75, 2), done(75), job(7, 75))),
    "a job that was done, and not given back, came again": ("twice", change("last", 9, done(70))),
    "a job of the dead says 0": ("attempts", change("heir", 3, job(1, 45))),
    "a job of an evicted worker says 0": ("attempts", change("last", 4, job(3, 65))),
    "a job says 0 that another had before the eviction": ("attempts", stood_still(59, 70)),
    "a job says 0 that another had, and nobody was evicted": ("attempts", stood_still(65, 70, False)),
    "a released job says 0": ("attempts", change("last", 6, job(4, 67))),
    "a job says 1 the first time, and nobody has died yet": ("attempts", change("killed", 1, job(0, 20, 1))),
    "a job says 1, and who has left had none with it": ("attempts", left([Kind.JOB, 1, 0, 1, 0, 0, 0, 19 * MS])),
    "a released job does not count on": (
        "attempts",
        change("last", 6, job(4, 67, 1), [Kind.GIVING, 67 * MS], [Kind.GIVEN, 1, 67 * MS], job(4, 68, 1)),
    ),
    "a torn job": ("tear", change("last", 14, job(7, 75, 0, 1))),
    "the wrong sender": ("sender", change("last", 14, job(7, 75, 0, 2))),
    "more was handed out than was published": ("never offered", change("last", 14, job(10, 75), done(75), job(7, 75))),
    "two positions of one job": ("agreement", change("last", 6, job(4, 67, 1, 0, 999))),
    "jobs out of order": ("order", change("last", 14, job(8, 75), done(76), job(7, 77), done(78), remove=4)),
    "a slot lost that nobody evicted": ("living declared dead", without_the_eviction()),
    "a slot taken from a living worker": ("living declared dead", change("last", 21, [Kind.SEATED, 3, 2, 80 * MS, 1])),
    "an evicted worker finishes a job that it got afterwards": (
        "evicted",
        change("heir", 6, job(7, 62), done(63), [Kind.SLOT_LOST, 2, 0, 100 * MS, 47 * MS]),
    ),
    "a job waits while a worker finds nothing": ("waits", late(450)),
    "nobody found it empty": ("left over", change("last", 25, [Kind.LEFT, 0, 0, 0, 500 * MS])),
}


def run():
    """Runs the tests. Returns (passed, failed)."""
    failed = []
    right = verify_jobs(judge(story()))
    if right.failures or right.counts["handed out again"] != 5 or right.counts["hand-outs"] != 15:
        failed.append(f"nothing is wrong, but: {dict(right.failures)} {right.counts}")
    told = change("heir", 3, remove=2)
    right = verify_jobs(judge(told, Phase.finishing))
    if right.failures or right.counts["perhaps done"] != 1:
        failed.append(f"killed while it finished the job, but: {dict(right.failures)} {right.counts}")
    told = change("last", 4, remove=2)
    told["heir"][6].append(1)
    right = verify_jobs(judge(told))
    if right.failures or right.counts["perhaps done"] != 1:
        failed.append(f"evicted when it had finished the job, but: {dict(right.failures)} {right.counts}")
    right = verify_jobs(judge(late(200)))
    if right.failures:
        failed.append(f"a job waits while all work, but: {dict(right.failures)}")
    for stops, rule in ((((25 * MS, 470 * MS),), ""), (((475 * MS, 600 * MS),), "waits")):
        lives = judge(late(450))
        next(life for life in lives if life.name == "last").stops = stops
        found = verify_jobs(lives).failures
        if list(found) != [rule] * bool(rule):
            failed.append(f"the worker of a job that waits was stopped, {stops}: {dict(found)}")
    right = verify_jobs(judge(left(job(0, 19), done(20))))
    if right.failures:
        failed.append(f"one left with a job that nobody was handed, but: {dict(right.failures)}")
    right = verify_jobs(judge(thrown()))
    if right.failures:
        failed.append(f"an eviction that did not hit the worker, but: {dict(right.failures)}")
    right = verify_jobs(judge(stood_still(65, 70)))
    if right.failures or right.counts["handed out again"] != 5:
        failed.append(f"an evicted worker stood still, but: {dict(right.failures)} {right.counts}")
    for noticed, rule in ((100, ""), (65, "attempts")):
        found = verify_jobs(judge(stray(noticed))).failures
        if list(found) != [rule] * bool(rule):
            failed.append(f"an evicted worker took a job, and learned of the loss at {noticed} ms: {dict(found)}")
    told = change("heir", 6, [Kind.SLOT_LOST, 2, 1, 100 * MS, 90 * MS])  # it began its next poll after 90 ms
    told["next"] = [[Kind.SEATED, 2, 2, 70 * MS, 69 * MS], [Kind.LEFT, 0, 0, 0, 72 * MS]]
    for begin, rule in ((60, ""), (95, "living declared dead")):
        told["operator"] = [[Kind.EVICTED, 2, begin * MS], [Kind.EVICTED, 2, begin * MS, (begin + 1) * MS]]
        found = verify_jobs(judge(told)).failures
        if (rule in found) != bool(rule) or (not rule and found):
            failed.append(f"evicted from {begin} ms on, and another has the slot after 70 ms: {dict(found)}")
    told = change("killed", 3, remove=1)  # it closes, releases job 1, and is killed before it logs that
    told["heir"][3:5] = [job(1, 26, 1), done(27)]
    for phase, rule in ((Phase.leaving, ""), (Phase.fetching, "attempts")):
        found = verify_jobs(judge(told, phase)).failures
        if list(found) != [rule] * bool(rule):
            failed.append(f"killed in its close, in phase {phase.name}: {dict(found)}")
    told = change("heir", 3, job(0, 45, 1), done(46), job(1, 46, 1), done(46), remove=2)
    for phase, rule in ((Phase.fetching, ""), (Phase.handling, "twice")):
        # the dead worker had announced job 0 while another one, here itself, had it
        found = verify_jobs(judge(told, phase)).failures
        if list(found) != [rule] * bool(rule):
            failed.append(f"announced by the dead, in phase {phase.name}: {dict(found)}")
    for name, (rule, told) in FAULTS.items():
        found = verify_jobs(judge(told)).failures
        if rule not in found:
            failed.append(f"{name}: not found under {rule!r}; found {dict(found)}")
    for text in failed:
        print(f"FAIL  verifier: {text}")
    return 17 + len(FAULTS) - len(failed), len(failed)


if __name__ == "__main__":
    good, bad = run()
    print(f"{good} passed, {bad} failed")
    sys.exit(bool(bad))
