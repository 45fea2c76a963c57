# SPDX-License-Identifier: Apache-2.0
"""Judges the logs of one queue's producers and workers in one round (spec/queue.md). Uses only the logs, not the
binding: the published jobs, their hand-outs and the ends of these, and the kills and evictions."""

import bisect
import collections
import typing

import numpy
from hand_outs import evictions_of, seats_of
from side import TORN, WRONG_SENDER, Kind, Phase
from verify import Channel, Verdict

RULES = ("loss", "twice", "attempts", "never offered", "tear", "sender", "order", "agreement", "owners")
RULES += ("living declared dead", "evicted", "waits", "left over", "counters", "errors", "phases", "work")
ANNOUNCING = (Phase.fetching, Phase.finishing, Phase.giving_back)  # the phases in which a worker may take jobs
BATCH = 8  # the most jobs that a worker takes at once (WORKER.md)
LONGEST_WAIT = 250_000_000  # ns, with an idle worker: two caps of 100 ms (one look may find the lock taken)
LONGEST_STOP = 200_000_000  # ns: the longest SIGSTOP, and the machine's delays
LONGEST_HELD = 10_000_000_000  # ns that a producer may find no room


class End(typing.NamedTuple):
    """The end of a worker that may have had jobs in hand without a log entry."""

    begin: int  # ns: an eviction happens between begin and end
    end: int
    place: tuple = ()  # ring and position of the last hand-out, if the worker left; empty: not known
    reach: int = 0  # bytes behind it, of jobs that it may have taken together with that one

    def explains(self, since, job):
        if self.end < since:
            return False
        if not self.place:
            return True
        ring, position = self.place
        return ring == job.key[0] and position < job.position <= position + self.reach


class Budget:
    """Ends of workers, each of which may explain one batch of jobs that was announced or in hand elsewhere."""

    def __init__(self, ends):
        """Sorts the ends. Ends that explain few jobs come first, as jobs would else use up ends that others need."""
        self.ends = [sorted(end for end in ends if bool(end.place) == known) for known in (True, False)]
        self.left, self.claims = [[BATCH] * len(known) for known in self.ends], []

    def claim(self, since, until, job, text):
        """Demands an end between `since` and `until`."""
        self.claims.append((until, since, job, text))

    def unpaid(self):
        """Returns the claims without an end."""
        for until, since, job, text in sorted(self.claims, key=lambda claim: claim[:2]):
            if not any(self.pay(ends, left, since, until, job) for ends, left in zip(self.ends, self.left)):
                yield job.seat.life, text

    @staticmethod
    def pay(ends, left, since, until, job):
        for number in range(bisect.bisect_left(ends, (until,))):
            if left[number] and ends[number].explains(since, job):
                left[number] -= 1
                return True
        return False


def check_seats(seats, evictions, verdict):
    """Checks that a slot has one owner at a time and is lost only by eviction, and that evicted workers finish
    nothing."""
    by_slot = collections.defaultdict(list)
    for seat in seats:
        by_slot[seat.slot].append(seat)
    for slot, owners in by_slot.items():
        owners.sort(key=lambda seat: seat.epoch)
        for old, new in zip(owners, owners[1:]):
            if new.epoch == old.epoch:
                verdict.fail("owners", new.life, f"slot {slot} has had epoch {old.epoch} twice")
            # An evicted worker may learn of it only after another has taken the slot.
            evicted = any(e.begin < new.begin and e.end > old.asked for e in evictions[slot])
            if new.begin < old.end and not evicted:
                verdict.fail("living declared dead", new.life, f"took slot {slot} from {old.life.name}")
        for seat in owners:
            if seat.how == "lost":
                verdict.counts["slot lost"] += 1
                if not any(e.begin < seat.noticed and e.end > seat.asked for e in evictions[slot]):
                    verdict.fail("living declared dead", seat.life, f"lost slot {slot}, which no process evicted")
            for e in evictions[slot]:
                after = e.sure and seat.begin < e.begin
                late = [job for job in seat.jobs if after and job.time > e.end and job.done]
                for job in late[:1]:
                    text = (
                        f"finished {job.key} which it was handed {(job.time - e.end) / 1e6:.1f} ms after its eviction"
                    )
                    verdict.fail("evicted", seat.life, text)


def taken_away(job, evictions):
    """Returns when its worker may have been evicted with the job in hand; 0: it was not."""
    found = [e.begin for e in evictions[job.seat.slot] if e.begin <= job.end and e.end >= job.seat.asked]
    return found[-1] if found else 0


def in_order(story, evictions):
    """Sorts the hand-outs of one job by their real order. A worker that was evicted with the job in hand, before it
    logged that (it may have been stopped there), logs it after the worker that adopted the job. The adopter got the job
    after the eviction began, and logs more attempts."""
    story.sort(key=lambda job: job.time)
    for late in [job for job in story if not job.done and taken_away(job, evictions)]:
        begin = min(e.begin for e in evictions[late.seat.slot] if e.end >= late.seat.asked)
        here = story.index(late)
        while here and story[here - 1].time >= begin and story[here - 1].attempts > late.attempts:
            story[here - 1 : here + 1] = late, story[here - 1]
            here -= 1


def reasons(job, evictions):
    """Returns when there was a reason to hand the job out again. A worker that is killed while it releases a job may
    leave it in both places."""
    if job.giving:
        yield job.giving
    evicted = taken_away(job, evictions)
    if evicted:
        yield evicted
    elif job.cut_off or job.last and job.giving and not job.given and job.seat.how == "killed":
        yield job.seat.life.killed


def check_job(key, story, published, evictions, strangers, verdict):
    """Checks all hand-outs of one job, in the order of time. `published`: the earliest time of the first."""
    text = f"ring {key[0]} epoch {key[1]}: {key[2]}"
    if len({job.position for job in story}) > 1:
        verdict.fail("agreement", story[0].seat.life, f"{text} was at {sorted({job.position for job in story})}")
    if story[0].attempts:
        strangers["first"].claim(published, story[0].time, story[0], f"{text} says {story[0].attempts} the first time")
    known, copies = [], False  # copies: the job may exist twice, each with its own count
    for before, job in zip(story, story[1:]):
        more = list(reasons(before, evictions))
        copies |= len(more) > 1
        known += more
        life = job.seat.life
        if job.attempts <= 0:
            verdict.fail("attempts", life, f"{text} was handed out before, by {before.seat.life.name}, and says 0")
        elif not copies and before.others_may and before.given < job.time and job.attempts <= before.attempts:
            verdict.fail("attempts", life, f"{text} says {job.attempts}, was released with {before.attempts}")
        earlier = [time for time in known if time <= job.time]
        if earlier:
            known.remove(min(earlier))
            verdict.counts["handed out again"] += 1
        else:
            copies = True
            verdict.counts["announced by the dead"] += 1
            # a worker that had announced it, too, before that worker took it, and that may have been stopped there
            strangers["again"].claim(
                published,
                min(job.time, before.time + LONGEST_STOP),
                job,
                f"{text} came after {before.seat.life.name} had it, for no reason",
            )
    verdict.counts["perhaps done"] += not any(job.done for job in story)
    return any(job.done or job.perhaps_done for job in story)


def death_of(seat):
    """Returns since when jobs in hand of a killed worker may have gone to others. A worker that was killed in its close
    may have released them before, when its last hand-out had ended."""
    if seat.life.phase != Phase.leaving:
        return seat.life.killed
    return min(max([seat.begin, *(job.end for job in seat.jobs[-1:])]), seat.life.killed)


def published_after(channel, key):
    """Returns when the producer's previous message was acknowledged, or when the producer had its ring."""
    ring, epoch, sequence = key
    p = channel.rings[ring].get(epoch)
    if p is None:
        return 0
    row = int(numpy.searchsorted(p.counts, sequence, "right"))
    return int(p.times[row - 1]) if row else p.begin


def stray_until(eviction, slot, seats):
    """Returns until when the evicted worker may have taken jobs. It leaves them in hand when it learns of the loss."""
    evicted = [seat for seat in seats if seat.slot == slot and seat.how == "lost" and seat.begin < eviction.end]
    return max([eviction.end, *(seat.noticed for seat in evicted if seat.noticed >= eviction.begin)])


def check_published(channel, seats, evictions, capacity, verdict):
    """Checks that the published jobs, and no others, are done. Returns {key: hand-outs in the order of time}."""
    stories = collections.defaultdict(list)
    for seat in seats:
        verdict.work[seat.life.language, "worker"] += len(seat.jobs)
        for job in seat.jobs:
            ring, epoch, sequence = job.key
            p = channel.rings[ring].get(epoch)
            evicted = taken_away(job, evictions)
            if job.wrong == TORN and not (evicted and not job.done):
                verdict.fail("tear", seat.life, f"ring {ring}: torn job at position {job.position}")
            elif job.wrong == WRONG_SENDER and not (evicted and not job.done):
                verdict.fail("sender", seat.life, f"ring {ring}: wrong sender at position {job.position}")
            elif job.wrong in (TORN, WRONG_SENDER):
                verdict.counts["overwritten while it was read, by the evicted"] += 1
                continue
            if job.wrong == TORN:
                continue
            if p is None or not 0 <= sequence < p.attempted:
                verdict.fail("never offered", seat.life, f"ring {ring} epoch {epoch}: {sequence}")
            stories[job.key].append(job)
        check_order(seat, verdict)
    for story in stories.values():
        in_order(story, evictions)
    killed = [seat for seat in seats if seat.how == "killed"]
    dead = [End(death_of(seat), seat.life.ended) for seat in killed]
    strange = [End(seat.life.killed, seat.life.ended) for seat in killed if seat.life.phase in ANNOUNCING]
    held = {
        e
        for seat in seats
        for job in seat.jobs
        for e in evictions[seat.slot]
        if job.time <= e.begin and job.end >= e.end
    }
    strays = {e: End(e.begin, stray_until(e, slot, seats)) for slot, found in evictions.items() for e in found}
    left = [
        End(seat.end, seat.end, (job.key[0], job.position), capacity // 8)
        for seat in seats
        for job in seat.jobs[-1:]
        if seat.how == "left"
    ]
    strangers = {
        "first": Budget(dead + list(strays.values()) + left),
        "again": Budget(strange + [end for e, end in strays.items() if e not in held]),
    }
    finished = {
        key
        for key, story in stories.items()
        if check_job(key, story, published_after(channel, key), evictions, strangers, verdict)
    }
    for life, text in strangers["again"].unpaid():
        verdict.fail("twice", life, text)
    for life, text in strangers["first"].unpaid():
        verdict.fail("attempts", life, text)
    for ring, owners in channel.rings.items():
        for epoch, p in owners.items():
            missing = [n for n in range(p.acknowledged) if (ring, epoch, n) not in finished]
            if missing:
                seen = sum((ring, epoch, n) in stories for n in missing)
                text = (
                    f"ring {ring} epoch {epoch}: {len(missing)} are not done, such as {missing[:5]}; {seen} were begun"
                )
                verdict.fail("loss", p.life, text)
    return stories


def check_order(seat, verdict):
    """Checks that jobs of one producer that were handed out for the first time come in its order."""
    places = {}
    for job in seat.jobs:
        if job.attempts == 0:
            if job.position <= places.get(job.key[0], -1):
                verdict.fail("order", seat.life, f"ring {job.key[0]}: {job.position} after {places[job.key[0]]}")
            places[job.key[0]] = max(job.position, places.get(job.key[0], -1))


def overlap(begin, end, spans):
    return sum(max(0, min(end, b) - max(begin, a)) for a, b in spans)


def waits(channel, stories, evictions):
    """Yields (job, the time since which any worker could take it) of each hand-out for which that is known, and its
    wait. The jobs of a batch wait for those before them: the worker has them in hand since the first."""
    for (ring, epoch, sequence), story in stories.items():
        p = channel.rings[ring].get(epoch)
        if p is None:
            continue
        for before, job in zip([None, *story], story):
            if before is None:
                if job.attempts or sequence >= p.acknowledged:
                    continue
                since = int(p.times[numpy.searchsorted(p.counts, sequence, "right")])
            elif before.others_may:
                since = before.given
            elif before.cut_off:
                since = before.seat.life.ended
            elif before.lost and (found := taken_away(before, evictions)):
                since = max(e.end for e in evictions[before.seat.slot] if e.begin == found)
            else:
                continue
            if job.time - since > LONGEST_WAIT:
                jobs = job.seat.jobs
                here = jobs.index(job)
                yield job, since, jobs[max(0, here - BATCH + 1)].time


def check_waits(channel, seats, stories, evictions, gaps, verdict):
    """Checks that no job waits for long while a worker finds nothing."""
    spans = [(begin, end, seat) for seat in seats for begin, end in seat.idle]
    for job, since, until in waits(channel, stories, evictions):
        for begin, end, seat in spans:
            begin, end = max(begin, since), min(end, until)
            if end - begin <= LONGEST_WAIT:
                continue
            # The job may be in hand already of the worker that logs it later, which may be stopped meanwhile.
            lost = (gaps, seat.life.stops, job.seat.life.stops)
            alone = end - begin - sum(overlap(begin, end, each) for each in lost)
            if alone > LONGEST_WAIT:
                text = f"{job.key} waited for {alone / 1e6:.0f} ms while {seat.life.name} found nothing"
                verdict.fail("waits", job.seat.life, text)
                break
    for life in channel.lives:
        held = life.entries[life.entries[:, 0] == Kind.HELD]
        verdict.counts["held back over 2 ms"] += len(held)
        if len(held) and (held[:, 3] - held[:, 2]).max() > LONGEST_HELD:
            verdict.fail("waits", life, f"held back for {(held[:, 3] - held[:, 2]).max() / 1e9:.1f} s")


def verify_jobs(lives, verdict=None, gaps=(), alignment=64, capacity=16384):
    """Returns the verdict on one queue's producers and workers. `gaps`: the times when the host took a core away."""
    verdict = verdict or Verdict()
    channel = Channel(lives, verdict, alignment)
    channel.lives = lives
    seats = [seat for life in lives if life.role == "worker" for seat in seats_of(life)]
    evictions = collections.defaultdict(list)
    for eviction in sorted(evictions_of(lives), key=lambda e: e.begin):
        evictions[eviction.slot].append(eviction)
        verdict.counts["evicted"] += 1
    verdict.counts["seats"] += len(seats)
    check_seats(seats, evictions, verdict)
    stories = check_published(channel, seats, evictions, capacity, verdict)
    check_waits(channel, seats, stories, evictions, gaps, verdict)
    verdict.counts["jobs"] += len(stories)
    verdict.counts["hand-outs"] += sum(len(story) for story in stories.values())
    verdict.counts["idle for long"] += sum(end - begin > LONGEST_WAIT for s in seats for begin, end in s.idle)
    if not any(seat.drained and seat.life.final for seat in seats):
        verdict.fail("left over", None, "no worker found the queue empty at the end")
    return verdict
