# SPDX-License-Identifier: Apache-2.0
"""Judges the logs of one table's putters and lookers in one round (spec/table.md). Uses only the logs, not the binding:
the changes, what was read and when, the walks, the copies and the sleeps. Each value names its key and its number, which
no other change has, so each version belongs to one change."""

import bisect
import collections
import dataclasses
import itertools

from side import BUSY, TORN, Change, How, Kind, Phase
from verify import Verdict

RULES = ("tear", "never put", "agreement", "undone", "order", "compare", "removed twice", "instant", "owners", "waits")
RULES += ("left over", "errors", "phases", "work")
LONGEST_WAIT = 250_000_000  # ns: two caps of 100 ms (the waker may have been killed before its wake)
LOOKS = 1_100_000  # ns: a process that has just looked for a grown file looks again after 1 ms
PUTS = (Change.PUT, Change.IF_ABSENT, Change.COMPARE)
NEVER = 2**62


@dataclasses.dataclass(eq=False)
class Done:
    """A change, as its process logged it."""

    life: object
    what: int
    key: int
    number: int
    expected: int
    begin: int
    end: int  # when it had returned, or its process was dead
    sure: bool  # whether it is known to have been made
    result: int = 0
    version: int = 0  # 0: not known
    known: int = NEVER  # since when it is known to have been made


@dataclasses.dataclass(eq=False)
class Sight:
    """What a process read."""

    life: object
    key: int
    number: int
    version: int
    begin: int
    end: int
    how: int


def changes_of(life):
    """Yields the changes of one process. The last one may have been made or not, if the process was killed in it."""
    open_one = None
    for kind, *row in life.entries.tolist():
        if kind == Kind.BEGUN:
            what, key, number, expected, _, begin, _ = row
            open_one = Done(life, what, key, number, expected, begin, life.ended, False)
        elif kind == Kind.CHANGED and open_one:
            result, end = row[:2]
            open_one.result, open_one.end = result, end
            made = result > 0
            open_one.sure = made
            if open_one.what in PUTS:
                open_one.version = result if made else 0
            open_one.known = end if made else NEVER
            if not made and open_one.what in PUTS:
                open_one.result = -1  # its value must never be seen
            if made or open_one.what in PUTS:
                yield open_one
            open_one = None
    if open_one:
        open_one.result = 0
        yield open_one


class Story:
    """All changes of one key."""

    def __init__(self):
        self.puts, self.removes, self.sights = [], [], []

    def close(self):
        self.puts.sort(key=lambda put: put.version)
        self.versions = [put.version for put in self.puts]
        sure = sorted((r.begin, r.end) for r in self.removes if r.sure and r.what == Change.REMOVE)
        self.sure_begins = [begin for begin, _ in sure]
        ends = itertools.accumulate((end for _, end in reversed(sure)), min)
        self.sure_ends = list(ends)[::-1]  # the earliest end of this one and all later ones
        every = sorted((r.begin, r.end) for r in self.removes)
        self.begins = [begin for begin, _ in every]
        self.ends = list(itertools.accumulate((end for _, end in every), max))

    def removed_between(self, since, until):
        """Whether a remove that took effect began and ended in this time."""
        at = bisect.bisect_left(self.sure_begins, since)
        return at < len(self.sure_ends) and self.sure_ends[at] <= until

    def may_be_removed(self, since, until):
        """Whether a remove may have taken effect in this time."""
        at = bisect.bisect_right(self.begins, until)
        return at > 0 and self.ends[at - 1] >= since


def gather(lives, verdict):
    """Returns the changes and what was read, checked against each other: [Done], [Sight], {number: Done}."""
    changes = [done for life in lives for done in changes_of(life)]
    by_number = {done.number: done for done in changes if done.what in PUTS}
    by_version, sights = {}, []
    for done in changes:
        verdict.work[done.life.language, done.life.role] += done.sure
        if done.version and by_version.setdefault(done.version, done) is not done:
            verdict.fail("agreement", done.life, f"version {done.version} was given twice")
    for life in lives:
        for kind, *row in life.entries.tolist():
            if kind != Kind.SAW:
                continue
            key, number, version, fault, begin, end, how = row
            verdict.work[life.language, life.role] += life.role == "looker"
            if fault == BUSY:
                verdict.counts["busy"] += 1
                continue
            if fault == TORN:
                verdict.fail("tear", life, f"key {key}: a torn value, or one of another key, at {end}")
                continue
            sight = Sight(life, key, number, version, begin, end, how)
            if number >= 0 and not agrees(sight, by_number.get(number), by_version, verdict):
                continue
            sights.append(sight)
    return changes, sights, by_number


def agrees(sight, done, by_version, verdict):
    """Checks that a value that was read was put, under this key and in this version. Notes the version."""
    text = f"key {sight.key}: value {sight.number} in version {sight.version}"
    if done is None or done.result == -1 or done.begin > sight.end:
        verdict.fail("never put", sight.life, text)
        return False
    if done.key != sight.key:
        verdict.fail("agreement", sight.life, f"{text} was put under key {done.key}")
        return False
    if sight.version:
        if done.version and done.version != sight.version:
            verdict.fail("agreement", sight.life, f"{text} has version {done.version}, put by {done.life.name}")
        if by_version.setdefault(sight.version, done) is not done:
            verdict.fail("agreement", sight.life, f"{text}: the version is that of {by_version[sight.version].number}")
        done.version, done.sure = sight.version, True
    elif done.version == 0:
        return True
    if sight.how != How.LEFT_SNAPSHOT:
        done.known = min(done.known, sight.end)
        done.end = min(done.end, sight.end)
    return True


def check_order(changes, verdict):
    """Checks that versions are in the order of time: a change that had ended before another one began is older."""
    latest, of = 0, None
    for done in sorted((c for c in changes if c.version), key=lambda c: c.version):
        if done.end < latest:
            text = f"version {done.version} ended {(latest - done.end) / 1e6:.3f} ms before version {of.version} began"
            verdict.fail("order", done.life, text)
        if done.begin > latest:
            latest, of = done.begin, done


class Grows:
    """When the table was made larger. A reader may read the old file for 1 ms longer (table.md 7). What it finds there
    was there when the table began to grow; it may have been removed since."""

    def __init__(self, changes):
        self.spans = sorted((c.begin, c.end + LOOKS) for c in changes if c.what == Change.GROW)
        self.begins = [begin for begin, _ in self.spans]

    def file_of(self, time):
        """Returns the time as of which a reader's file may be that begins to read at `time`."""
        at = bisect.bisect_right(self.begins, time)
        earlier = [begin for begin, end in self.spans[max(0, at - 20) : at] if end >= time]
        return min(earlier, default=time)


def check_key(key, story, grows, verdict):
    """Checks that what was read of one key is never undone."""
    events = [(put.known, put.version, put.begin) for put in story.puts if put.known < NEVER]
    by_version = {put.version: put for put in story.puts}
    seen = [s for s in story.sights if s.number >= 0 and s.version and s.how != How.LEFT_SNAPSHOT]
    events += [(s.end, s.version, grows.file_of(s.begin)) for s in seen]
    events.sort()
    at = floor = alive = 0
    sights = ((grows.file_of(s.begin), s) for s in story.sights if s.how != How.LEFT_SNAPSHOT)
    for begun, sight in sorted(sights, key=lambda pair: pair[0]):
        while at < len(events) and events[at][0] <= begun:
            _, version, begin = events[at]
            if version > floor:
                floor, alive = version, begin
            elif version == floor:
                alive = max(alive, begin)
            at += 1
        if sight.number < 0:
            if floor and not story.may_be_removed(alive, sight.end):
                text = f"key {key} is absent at {sight.begin}; version {floor} was there, and no process removed it"
                verdict.fail("undone", sight.life, text)
        elif sight.version:
            put = by_version.get(sight.version)
            if sight.version < floor:
                verdict.fail("undone", sight.life, f"key {key} has version {sight.version} again, after {floor}")
            elif put and story.removed_between(put.known, begun):
                verdict.fail("undone", sight.life, f"key {key} has version {sight.version}, which was removed")


def check_compare(key, story, verdict):
    """Checks that a value that was put for a version replaced that version; for version 0, an absent key."""
    for place, done in enumerate(story.puts):
        if done.what == Change.PUT or not done.sure:
            continue
        before = story.puts[place - 1] if place else None
        expected = done.expected if done.what == Change.COMPARE else 0
        text = f"key {key}: version {done.version} was put for {expected}"
        if expected and before and before.version > expected:
            verdict.fail("compare", done.life, f"{text}, but {before.version} was there")
        elif expected == 0 and before and not story.may_be_removed(before.begin, done.end):
            verdict.fail("compare", done.life, f"{text}, but {before.version} was there, and no process removed it")


def check_removes(key, story, verdict):
    """Checks that between two removes that found the key there was a put."""
    sure = sorted((r for r in story.removes if r.sure and r.what == Change.REMOVE), key=lambda r: r.end)
    puts = sorted((put.begin, put.end) for put in story.puts + story.unseen)
    begins, ends = [b for b, _ in puts], list(itertools.accumulate((e for _, e in puts), max))
    for one, other in zip(sure, sure[1:]):
        at = bisect.bisect_right(begins, other.end)
        if one.end < other.begin and (not at or ends[at - 1] < one.begin):
            verdict.fail("removed twice", other.life, f"key {key}, which {one.life.name} had removed at {one.end}")


def check_walks(lives, stories, verdict):
    """Checks that a walk meets a key once, and that a copy that the writer made is of one instant."""
    for life in lives:
        rows = life.entries.tolist()
        for place, (kind, how, count, begin, end, stamp, size, _) in enumerate(rows):
            if kind != Kind.WALKED:
                continue
            verdict.counts[How(how).name.lower().replace("_", " ") + "s"] += 1
            met = [row for row in rows[place - count : place] if row[0] == Kind.SAW and row[4] == 0]
            there = {row[1]: row[3] for row in met if row[2] >= 0}
            for key, times in collections.Counter(row[1] for row in met).items():
                if times > 1 and not stories[key].may_be_removed(begin, end):
                    verdict.fail("instant", life, f"met key {key} {times} times, which no process removed meanwhile")
            if how in (How.SNAPSHOT, How.HELD_SNAPSHOT) and size != len(there):
                verdict.fail("instant", life, f"a copy of {size} keys holds {len(there)}")
            if how != How.HELD_SNAPSHOT:
                continue
            for key, story in stories.items():
                version = there.get(key, 0)
                at = bisect.bisect_right(story.versions, 2 * stamp + 1) - 1
                if version >> 1 > stamp:
                    verdict.fail("instant", life, f"a copy of change {stamp} has version {version} of key {key}")
                elif version and at >= 0 and story.versions[at] > version:
                    text = f"a copy of change {stamp} has version {version} of key {key}, not {story.versions[at]}"
                    verdict.fail("instant", life, text)


def check_owners(lives, changes, verdict):
    """Checks that no other process changes the table while a writer holds it."""
    spans = []
    for life in lives:
        since = last = 0
        for kind, _, end, after, before, *_ in life.entries.tolist():
            if kind == Kind.SEATED:
                since = last = after
            elif kind == Kind.CHANGED:
                last = end
            elif kind == Kind.LEFT and since:
                spans.append((since, before, life))
                since = 0
        if since:
            # It may have been killed in its close, behind the release of the slot.
            spans.append((since, last if life.phase == Phase.leaving else life.killed or life.ended, life))
    spans.sort(key=lambda span: span[:2])
    for (_, end, one), (begin, _, other) in zip(spans, spans[1:]):
        if begin < end:
            verdict.fail("owners", other, f"holds the table since {begin}, which {one.name} held until {end}")
    begins = [begin for begin, _, _ in spans]
    for done in changes:
        at = bisect.bisect_right(begins, done.begin) - 1
        if done.sure and at >= 0 and spans[at][2] is not done.life and done.end < spans[at][1]:
            verdict.fail("owners", done.life, f"changed key {done.key} while {spans[at][2].name} held the table")
    verdict.counts["held"] += len(spans)


def overlap(begin, end, spans):
    return sum(max(0, min(end, b) - max(begin, a)) for a, b in spans)


def check_waits(lives, stories, changes, gaps, verdict):
    """Checks that a process that waits for a change learns of it."""
    known = sorted((c.version, c.known) for c in changes if c.version and c.known < NEVER)
    every = ([version for version, _ in known], [since for _, since in known])
    of_key = {}
    for key, story in stories.items():
        put = [p for p in story.puts if p.known < NEVER]
        of_key[key] = ([p.version for p in put], [p.known for p in put])
    for life in lives:
        for kind, key, before, result, begin, end, *_ in life.entries.tolist():
            if kind != Kind.SLEPT:
                continue
            verdict.counts["waits"] += 1
            if result == before:
                verdict.fail("waits", life, f"a wait for key {key} ended with version {before}, which it had")
            if before == 0:
                continue  # an absent key may come and go between two looks
            versions, since = every if key < 0 else of_key.get(key, ((), ()))
            at = bisect.bisect_right(versions, 2 * before + 1 if key < 0 else before)
            changed = min(since[at:], default=NEVER)
            begun = max(begin, changed)
            alone = end - begun - overlap(begun, end, gaps) - overlap(begun, end, life.stops)
            if alone > LONGEST_WAIT:
                text = f"key {key} had another version than {before} for {alone / 1e6:.0f} ms"
                verdict.fail("waits", life, text)


def verify_tables(lives, verdict=None, gaps=()):
    """Returns the verdict on one table's putters and lookers. `gaps`: the times when the host took a core away."""
    verdict = verdict or Verdict()
    changes, sights, by_number = gather(lives, verdict)
    check_order(changes, verdict)
    stories = collections.defaultdict(Story)
    keys = {done.key for done in changes if done.what in PUTS}
    for done in changes:
        if done.what in PUTS and done.version:
            stories[done.key].puts.append(done)
        elif done.what == Change.REMOVE:
            stories[done.key].removes.append(done)
        elif done.what == Change.CLEAR:
            for key in keys:
                stories[key].removes.append(done)
    for sight in sights:
        if sight.number >= 0 and not sight.version:
            sight.version = by_number[sight.number].version
        stories[sight.key].sights.append(sight)
    unseen = [done for done in changes if done.what in PUTS and not done.version and done.result != -1]
    grows = Grows(changes)
    for key, story in stories.items():
        story.unseen = [done for done in unseen if done.key == key]
        story.close()
        check_key(key, story, grows, verdict)
        check_compare(key, story, verdict)
        check_removes(key, story, verdict)
    check_walks(lives, stories, verdict)
    check_owners(lives, changes, verdict)
    check_waits(lives, stories, changes, gaps, verdict)
    verdict.counts["changes"] += sum(done.sure for done in changes)
    verdict.counts["changes of the killed"] += sum(done.sure and done.result == 0 for done in changes)
    verdict.counts["reads"] += len(sights)
    verdict.counts["grown"] += sum(done.what == Change.GROW and done.sure for done in changes)
    return verdict
