# SPDX-License-Identifier: Apache-2.0
"""Judges the logs of one journal's appenders, followers and consumers in one round (spec/journal.md). Uses only the
logs: what was appended and when, and what was read, with its number and position. Each message carries an id that no
other one has, so each number belongs to one message, for all readers and at all times."""

import bisect
import dataclasses
import itertools

from sessions import gone
from side import TORN, Kind, Phase
from verify import Verdict
from verify_tables import overlap

RULES = ("tear", "never appended", "agreement", "order", "lost", "exactly once", "at least once", "repeats", "owners")
RULES += ("waits", "left over", "errors", "phases", "work")
NEVER = 2**62
SIZE = 64  # a message begins at a multiple
LONGEST_WAIT = 250_000_000  # ns: two caps of 100 ms
NEWEST, AT_POSITION = 1, 2  # of FOLLOWING


@dataclasses.dataclass(eq=False)
class Appended:
    """Messages that one call appended: those with the ids `first` to `first + count - 1`."""

    life: object
    first: int
    count: int
    begin: int
    end: int  # when it had returned, or its process was dead
    sure: bool = False  # whether it has returned
    refused: bool = False
    position: int = -1  # of the first one; -1: not known


@dataclasses.dataclass(eq=False)
class Session:
    """From the opening of a reader or consumer to its close or death."""

    life: object
    name: str  # of a consumer
    number: int  # where it began
    lost: int  # at the beginning
    asked: int  # the time before it was opened
    opened: int  # the time after it
    wanted: int  # the number that it asked for; -1: another beginning
    how: int  # NEWEST, AT_POSITION, or 0
    durable: bool
    reads: list = dataclasses.field(default_factory=list)  # (number, id, position, lost, time)
    idle: list = dataclasses.field(default_factory=list)  # (next number, begin, end) in which it found nothing
    gate: int = -1  # how many messages polls that returned have consumed, without those lost
    closed: int = 0  # the time before its close; 0: its process died, or was ended
    drained: bool = False  # whether it has read all, after all appenders had ended

    @property
    def next(self):
        return self.reads[-1][0] + 1 if self.reads else self.number

    @property
    def consumed(self):
        """How many messages it has got, and its name before it."""
        return self.next - (self.reads[-1][3] if self.reads else self.lost)


def appended_by(life):
    """Yields what a process appended. Of a killed one the last call may have appended all or nothing."""
    under_way = None
    for kind, *row in life.entries.tolist():
        if kind == Kind.APPENDING:
            first, count, begin = row[:3]
            under_way = Appended(life, first, count, begin, life.ended)
        elif kind == Kind.APPENDED and under_way:
            position, count, end = row[:3]
            under_way.position, under_way.end = position, end
            under_way.sure, under_way.refused = count > 0, count <= 0
            under_way.count = max(count, 0) or under_way.count
            yield under_way
            under_way = None
    if under_way:
        yield under_way


def sessions_of(life, verdict):
    """Returns the sessions of one reading process. A torn message is a failure."""
    found = []
    for kind, *row in life.entries.tolist():
        if kind == Kind.FOLLOWING:
            number, lost, opened, asked, wanted, how, durable = row
            name = life.name.split(" ")[-1]
            found.append(Session(life, name, number, lost, asked, opened, wanted, how, bool(durable)))
        elif kind == Kind.READ and found:
            number, mark, position, lost, fault, time, _ = row
            if fault == TORN:
                verdict.fail("tear", life, f"number {number} at {position}: a torn message")
            else:
                found[-1].reads.append((number, mark, position, lost, time))
            verdict.work[life.language, life.role] += 1
        elif kind == Kind.POLLED and found:
            found[-1].gate = row[0] - row[1]
        elif kind == Kind.IDLE and found:
            found[-1].idle.append((found[-1].next, row[0], row[1]))
        elif kind == Kind.LEFT and found:
            found[-1].closed, found[-1].drained = row[3], bool(row[1])
    return found


class Story:
    """The journal as all logs together tell it: number -> (id, position)."""

    def __init__(self, appends, verdict):
        self.verdict, self.numbers, self.by_id = verdict, {}, {}
        self.of = {}
        for one in appends:
            for mark in range(one.first, one.first + one.count):
                self.of[mark] = one

    def tell(self, life, number, mark, position, time):
        """What a process, or the files, say of a number."""
        one = self.of.get(mark)
        if one is None or one.refused or one.begin > time:
            self.verdict.fail("never appended", life, f"number {number} at {position} has the id {mark}")
            return
        if one.position >= 0 and mark == one.first and one.position != position:
            text = f"number {number} is at {position}; its append said {one.position}"
            self.verdict.fail("agreement", life, text)
        known = self.numbers.setdefault(number, (mark, position))
        if known != (mark, position):
            text = f"number {number} is {(mark, position)}, and was {known}"
            self.verdict.fail("agreement", life, text)
        elif self.by_id.setdefault(mark, number) != number:
            self.verdict.fail("agreement", life, f"id {mark} has the numbers {self.by_id[mark]} and {number}")


def check_order(story, verdict):
    """Checks that numbers and positions grow together, and in the order of time; and of each batch, all or nothing."""
    latest, of, last = 0, None, (-1, -SIZE, 0)
    for number, (mark, position) in sorted(story.numbers.items()):
        one = story.of[mark]
        if position <= last[1]:
            verdict.fail("order", one.life, f"number {number} is at {position}, number {last[0]} at {last[1]}")
        if one.end < latest:
            text = f"number {number} ended {(latest - one.end) / 1e6:.3f} ms before an earlier one began"
            verdict.fail("order", one.life, f"{text} ({of.life.name})")
        if mark > one.first and number - 1 in story.numbers and story.numbers[number - 1][0] != mark - 1:
            verdict.fail("order", one.life, f"number {number} does not follow the rest of its batch")
        if one.begin > latest:
            latest, of = one.begin, one
        last = (number, position, mark)


def check_all_there(appends, story, trimmed, limited, verdict):
    """Checks that each message whose append returned was seen, or is there at the end. `trimmed`: as (number, position)
    of the first one that is there. `limited`: what lies below may be in no log."""
    for one in appends:
        if not one.sure:
            continue
        verdict.work[one.life.language, one.life.role] += one.count
        for mark in range(one.first, one.first + one.count):
            if mark not in story.by_id and not (limited and one.position < trimmed[1]):
                verdict.fail("lost", one.life, f"id {mark}, appended at {one.position}, was never read")
    lowest, highest = min(story.numbers, default=0), max(story.numbers, default=-1)
    begin = max(lowest, trimmed[0]) if limited else lowest
    missing = [n for n in range(begin, highest + 1) if n not in story.numbers]
    if missing:
        verdict.fail("lost", None, f"numbers {missing[:5]} are in no log and not there")
    if lowest > 0 and (not limited or trimmed[0] < lowest):
        verdict.fail("lost", None, f"the numbers below {lowest} are in no log")


class Times:
    """The numbers whose append has returned, in the order of time."""

    def __init__(self, story):
        self.sure = sorted((one.end, n) for n, (mark, _) in story.numbers.items() if (one := story.of[mark]).sure)
        self.highest = list(itertools.accumulate((n for _, n in self.sure), max))
        self.begun = sorted((story.of[mark].begin, n) for n, (mark, _) in story.numbers.items())
        self.lowest = list(itertools.accumulate((n for _, n in reversed(self.begun)), min))[::-1]

    def returned_before(self, time):
        """Returns the highest number whose append had returned; -1: there is none."""
        at = bisect.bisect_left(self.sure, (time, -1)) - 1
        return self.highest[at] if at >= 0 else -1

    def begun_after(self, time):
        """Returns the lowest number whose append began later."""
        at = bisect.bisect_right(self.begun, (time, NEVER))
        return self.lowest[at] if at < len(self.lowest) else NEVER


def check_session(session, times, end, verdict):
    """Checks that a reader gets each number exactly once, and counts as lost exactly what it does not get. `end`: the
    number behind all."""
    number, lost = session.number, session.lost
    for found, _, position, now_lost, _ in session.reads:
        expected = number + now_lost - lost
        if found != expected or now_lost < lost:
            text = f"number {found} at {position}, where {expected} is next ({now_lost - lost} are lost)"
            verdict.fail("exactly once", session.life, text)
        number, lost = found + 1, now_lost
    # What was trimmed in front of a position cannot be counted.
    known = session.how != AT_POSITION or session.number <= session.wanted
    if session.wanted >= 0 and known and session.number - session.lost != session.wanted:
        text = f"begins at number {session.number} with {session.lost} lost, and asked for {session.wanted}"
        verdict.fail("exactly once", session.life, text)
    before, after = times.returned_before(session.asked), times.begun_after(session.opened)
    if session.how == NEWEST and not session.durable and not before < session.number <= after:
        text = f"begins behind the newest message at number {session.number}; {before} was there, {after} was not"
        verdict.fail("exactly once", session.life, text)
    if session.drained and session.life.final and not session.durable and number != end:
        verdict.fail("exactly once", session.life, f"found nothing behind number {number - 1} of {end}")


def check_waits(session, times, gaps, verdict):
    """Checks that a reader that finds nothing has nothing to find."""
    for number, begin, end in session.idle:
        verdict.counts["waits"] += 1
        late = end - LONGEST_WAIT - overlap(begin, end, gaps) - overlap(begin, end, session.life.stops)
        if not session.durable and late > begin and times.returned_before(late) >= number:
            text = f"waited {(end - begin) / 1e6:.0f} ms for number {number}, which had been there for too long"
            verdict.fail("waits", session.life, text)


def check_consumers(sessions, limited, verdict):
    """Checks that each name gets each number at least once, and one again only after a death, from its gate on."""
    for name, of_name in itertools.groupby(sorted(sessions, key=lambda s: (s.name, s.opened)), key=lambda s: s.name):
        before = None
        for session in of_name:
            if not limited and (session.lost or any(read[3] for read in session.reads)):
                verdict.fail("at least once", session.life, f"{name} has lost messages, which no trim may take")
            if before is None and not limited and session.number != 0:
                verdict.fail("at least once", session.life, f"{name} begins at number {session.number}")
            if before is not None:
                end, begin = before.consumed, session.number - session.lost
                text = f"{name} goes on behind {begin} messages; {before.life.name} had consumed {end}"
                if begin > end:
                    verdict.fail("at least once", session.life, text)
                elif begin < end and before.closed:
                    verdict.fail("repeats", session.life, f"{text}, and had closed")
                elif begin < before.gate:
                    verdict.fail("repeats", session.life, f"{text}, and had stored its gate at {before.gate}")
                verdict.counts["numbers again after a death"] += max(0, end - begin)
                if session.opened < (before.closed or gone(before.life)):
                    verdict.fail("owners", session.life, f"has {name}, which {before.life.name} has")
            before = session


def check_owners(lives, appends, verdict):
    """Checks that no other process appends while a writer holds the slot."""
    spans = []
    for life in lives:
        since = last = 0
        for kind, _, _, c, d, *_ in life.entries.tolist():
            if kind == Kind.SEATED and life.role == "appender":
                since = last = c
            elif kind == Kind.APPENDED:
                last = c
            elif kind == Kind.LEFT and since:
                spans.append((since, d, life))
                since = 0
        if since:
            spans.append((since, last if life.phase == Phase.leaving else life.killed or life.ended, life))
    spans.sort(key=lambda span: span[:2])
    for (_, end, one), (begin, _, other) in zip(spans, spans[1:]):
        if begin < end:
            verdict.fail("owners", other, f"has the slot since {begin}, which {one.name} had until {end}")
    begins = [begin for begin, _, _ in spans]
    for one in appends:
        at = bisect.bisect_left(begins, one.begin) - 1
        if one.sure and at >= 0 and spans[at][2] is not one.life and one.end < spans[at][1]:
            verdict.fail("owners", one.life, f"appended id {one.first} while {spans[at][2].name} had the slot")
    verdict.counts["held"] += len(spans)


def verify_journals(lives, verdict=None, gaps=(), left=(), trimmed=(0, 0), limited=False):
    """Returns the verdict on one journal's processes. `gaps`: the times when the host took a core away. `left`:
    (number, id, position, torn) of what the files have at the end. `trimmed`: (number, position) where they begin.
    `limited`: whether the journal has a size limit, which takes also what consumers have not consumed."""
    verdict = verdict or Verdict()
    appends = [one for life in lives for one in appended_by(life)]
    sessions = [session for life in lives for session in sessions_of(life, verdict)]
    story = Story(appends, verdict)
    for session in sessions:
        for number, mark, position, _, time in session.reads:
            story.tell(session.life, number, mark, position, time)
    for number, mark, position, torn in left:
        if torn:
            verdict.fail("tear", None, f"number {number} at {position} is torn in the file")
        else:
            story.tell(None, number, mark, position, NEVER)
    story.numbers = {number: one for number, one in story.numbers.items() if one[0] in story.of}
    check_order(story, verdict)
    check_all_there(appends, story, trimmed, limited, verdict)
    times, end = Times(story), max(story.numbers, default=-1) + 1
    for session in sessions:
        check_session(session, times, end, verdict)
        check_waits(session, times, gaps, verdict)
    check_consumers([s for s in sessions if s.life.role == "consumer"], limited, verdict)
    check_owners(lives, appends, verdict)
    verdict.counts["appended"] += sum(one.count for one in appends if one.sure)
    known = [one for one in appends if not one.sure and not one.refused and one.first in story.by_id]
    verdict.counts["appended by the killed"] += len(known)
    verdict.counts["read"] += sum(len(session.reads) for session in sessions)
    verdict.counts["lost"] += sum(
        (s.reads[-1][3] if s.reads else s.lost) for s in sessions if s.life.role == "follower"
    )
    verdict.counts["trimmed"] += trimmed[0]
    return verdict
