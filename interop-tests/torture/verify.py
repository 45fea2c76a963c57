# SPDX-License-Identifier: Apache-2.0
"""Judges the logs of one round's workers. Uses only the logs, not the binding: the offered messages, the offers that
had returned, and the messages that each subscriber saw."""

import bisect
import collections

import numpy
from sessions import gone, published_by, read_by
from side import TORN, UNKNOWN_SENDER, WRONG_SENDER, Kind, Phase

END = (2**62, 0)
LONGEST_BY_LIVING, LONGEST_BY_LAG = 10_000_000_000, 2_000_000_000  # ns; a publisher with a lag limit does not wait
SHORTEST = 8 + 32  # bytes of the shortest record (WORKER.md)
MOST_LOOKS = 5  # a publisher's tests for dead readers until it goes on (each at least 1 ms after the previous one)


class Verdict:
    """Failures by the name of the rule, and statistics."""

    def __init__(self):
        self.failures = collections.defaultdict(list)
        self.counts = collections.Counter()
        self.work = collections.Counter()  # messages published or read, by language and role
        self.dead_waits = []  # ms without the time lost to the machine, offers, tests, publisher

    def fail(self, rule, life, text):
        self.failures[rule].append(f"{life.name if life else 'channel'}: {text}")


class Channel:
    """The rings of one channel, with all published messages in order."""

    def __init__(self, lives, verdict, alignment):
        self.record = -(-SHORTEST // alignment) * alignment  # the smallest record of a message, in bytes
        self.verdict, self.rings, self.ends = verdict, collections.defaultdict(dict), collections.defaultdict(set)
        for life in lives:
            for p in published_by(life) if life.role == "publisher" else ():
                if p.epoch in self.rings[p.ring]:
                    verdict.fail("owners", life, f"ring {p.ring} has had epoch {p.epoch} twice")
                self.rings[p.ring][p.epoch] = p
        self.owners = {ring: [p for _, p in sorted(owners.items())] for ring, owners in self.rings.items()}
        self.epochs = {ring: [p.epoch for p in owners] for ring, owners in self.owners.items()}
        self.starts = {ring: [p.start for p in owners] for ring, owners in self.owners.items()}
        for owners in self.owners.values():
            self._check_owners(owners)

    def between(self, ring, one, other):
        """Returns the owners of epochs `one` to `other`."""
        epochs = self.epochs.get(ring, [])
        return self.owners[ring][bisect.bisect_left(epochs, one) : bisect.bisect_right(epochs, other)] if epochs else []

    def _check_owners(self, owners):
        for p in owners:
            self.verdict.work[p.life.language, "publisher"] += p.acknowledged
            if len(p.ends) and (p.ends[0] <= p.start or (numpy.diff(p.ends) <= 0).any()):
                self.verdict.fail("order", p.life, f"positions of ring {p.ring} do not grow")
        for old, new in zip(owners, owners[1:]):
            if new.start < (old.ends[-1] if len(old.ends) else old.start):
                self.verdict.fail("loss", new.life, f"ring {old.ring}: begins at {new.start}, before what was there")
            if new.begin < (old.closed or gone(old.life)):
                self.verdict.fail("living declared dead", new.life, f"took ring {old.ring} from {old.life.name}")

    def place(self, ring, position):
        """Returns (epoch, lowest n, highest n) of the first message that ends behind a position. n is a range, because
        a batch has one position, which may lie behind padding after it."""
        owner = bisect.bisect_right(self.starts.get(ring, []), position) - 1
        if owner < 0:
            return 0, 0, 0
        p = self.owners[ring][owner]
        i = int(numpy.searchsorted(p.ends, position, "right"))
        n = int(p.counts[i - 1]) if i else 0
        if position == (p.ends[i - 1] if i else p.start):
            return p.epoch, n, n
        return p.epoch, n, p.attempted if i == len(p.ends) else int(p.counts[i])

    def skipped(self, ring, one, other):
        """Returns the number of acknowledged messages from place `one` to just before place `other`."""
        lost = 0
        for p in self.between(ring, one[0], other[0]):
            begin = one[1] if p.epoch == one[0] else 0
            end = min(p.acknowledged, other[1]) if p.epoch == other[0] else p.acknowledged
            lost += max(0, end - begin)
        return lost

    def length_seen(self, ring, epoch, count, life):
        """Notes that a subscriber saw the stream of this epoch end after `count` messages."""
        known = self.ends[ring, epoch]
        known.add(count)
        if len(known) > 1:
            self.verdict.fail("agreement", life, f"ring {ring} epoch {epoch} ended after {sorted(known)} messages")


def check_messages(channel, read, ring, rows):
    """Checks each message by itself."""
    fail, life = channel.verdict.fail, read.life
    if ring not in read.cursors:
        fail("never offered", life, f"messages of ring {ring}, which it did not choose")
    if (rows[:, 6] == TORN).any():
        fail("tear", life, f"ring {ring}: torn message at position {rows[rows[:, 6] == TORN][0, 2]}")
        return False
    if (rows[:, 6] == WRONG_SENDER).any():
        fail("sender", life, f"ring {ring}: wrong sender at position {rows[rows[:, 6] == WRONG_SENDER][0, 2]}")
    unknown = rows[:, 6] == UNKNOWN_SENDER
    channel.verdict.counts["of an unknown sender"] += int(unknown.sum())
    if not read.lossy and (unknown[1:] & (~unknown[:-1] | (numpy.diff(rows[:, 3]) > 0))).any():
        fail("sender", life, f"ring {ring}: a sender is not known after a message of a known one, or an owner record")
    if (rows[:, 2] < read.cursors.get(ring, 0)).any() or (numpy.diff(rows[:, 2]) <= 0).any():
        fail("order", life, f"ring {ring}: positions do not grow from the cursor on")
    for epoch in numpy.unique(rows[:, 3]):
        mine, p = rows[rows[:, 3] == epoch], channel.rings[ring].get(int(epoch))
        if p is None:
            fail("never offered", life, f"ring {ring}: message of epoch {epoch}, which nobody had")
            return False
        if (mine[:, 5] != p.publisher).any():
            fail("never offered", life, f"ring {ring} epoch {epoch}: not its publisher {p.publisher}")
        if (mine[:, 4] < 0).any():
            fail("never offered", life, f"ring {ring} epoch {epoch}: the message of an aborted claim")
        if (mine[:, 4] >= p.attempted).any():
            fail("never offered", life, f"ring {ring} epoch {epoch}: {mine[:, 4].max()}, attempted {p.attempted}")
    return True


def check_order(channel, read, ring, rows):
    """Checks that the messages have no gaps from the join on; for lossy subscribers, that gaps equal their counted
    losses."""
    fail, life = channel.verdict.fail, read.life
    epochs, numbers, lost = rows[:, 3], rows[:, 4], rows[:, 7]
    same = numpy.diff(epochs) == 0
    gaps = numpy.diff(numbers) - 1 - (numpy.diff(lost) if read.lossy else 0)
    for i in numpy.flatnonzero(same & (gaps != 0))[:3]:
        wrong = "order" if numbers[i + 1] <= numbers[i] else "lost count" if read.lossy else "loss"
        fail(wrong, life, f"ring {ring} epoch {epochs[i]}: {numbers[i + 1]} follows {numbers[i]}, lost {lost[i]}")
    for i in numpy.flatnonzero(~same):
        one, other = (int(epochs[i]), int(numbers[i]) + 1), (int(epochs[i + 1]), int(numbers[i + 1]))
        if other[0] < one[0]:
            fail("order", life, f"ring {ring}: epoch {other[0]} follows {one[0]}")
        elif read.lossy:
            check_lost(channel, read, ring, one, other, int(lost[i + 1] - lost[i]))
        else:
            check_gap(channel, read, ring, one, other, "between two owners")
            channel.length_seen(ring, one[0], one[1], life)
    begin = channel.place(ring, read.cursors[ring])
    first = (int(epochs[0]), int(numbers[0]))
    if read.lossy:
        passed = int(rows[0, 2]) - read.cursors[ring] - read.first.get(ring, 0)
        check_lost(channel, read, ring, begin[:2], first, int(lost[0]), begin[2] - begin[1], passed)
    elif first[0] == begin[0] and not begin[1] <= first[1] <= begin[2]:
        fail("loss", life, f"ring {ring}: joined at {read.cursors[ring]}, expected {begin}, got {first}")
    elif first[0] != begin[0]:
        check_gap(channel, read, ring, begin[:2], first, f"after its join at {read.cursors[ring]}")


def check_gap(channel, read, ring, one, other, where):
    lost = channel.skipped(ring, one, other)
    if lost or other[1] not in (0, one[1]):
        channel.verdict.fail("loss", read.life, f"ring {ring}: from {one} to {other} {where}: {lost} lost")


def check_lost(channel, read, ring, one, other, counted, slack=0, passed=0):
    """Checks counted losses: at least the acknowledged messages in between, at most the attempted ones. A start at now
    is delayed to a later poll while the publisher is between its stores, or died there (channel.md 6.10). Messages
    published until then are neither seen nor lost. `passed`: before a ring's first message, the bytes from the cursor
    on that were not counted as lost. The missing messages must fit into these."""
    least = most = 0
    for p in channel.between(ring, one[0], other[0]):
        known = channel.ends.get((ring, p.epoch))
        low, high = (min(known), max(known)) if known else (p.acknowledged, p.attempted)
        begin = one[1] if p.epoch == one[0] else 0
        least += max(0, (other[1] if p.epoch == other[0] else low) - begin)
        most += max(0, (other[1] if p.epoch == other[0] else high) - begin)
    missing = least - slack - counted
    if missing > 0 and missing * channel.record <= passed:
        channel.verdict.counts["lossy starts put off"] += 1
    elif missing > 0 or counted > most:
        text = f"ring {ring}: from {one} to {other} {counted} counted as lost, published {least} to {most}"
        channel.verdict.fail("lost count", read.life, text)


def check_end(channel, read):
    """Checks that a subscriber that was told to read the rest, after all publishers had ended, did so."""
    for ring, cursor in read.cursors.items():
        rows = read.messages[read.messages[:, 1] == ring]
        place = channel.place(ring, cursor)
        last = (int(rows[-1, 3]), int(rows[-1, 4]) + 1) if len(rows) else place[:2]
        if read.lossy:
            messages, position, lost = read.lost.get(ring, (0, cursor, 0))
            counted = messages - (int(rows[-1, 7]) if len(rows) else 0)
            slack, passed = (0, 0) if len(rows) else (place[2] - place[1], position - cursor - lost)
            check_lost(channel, read, ring, last, END, counted, slack, passed)
            channel.verdict.counts["lost"] += messages
        else:
            check_gap(channel, read, ring, last, END, "at the end")


def check_kept(channel, reads, evictions):
    """Checks the owners of one slot: a kept one resumes at its predecessor's position."""
    places, old = {}, None
    for read in sorted(reads, key=lambda r: r.epoch):
        # An evicted reader may learn of it only after another has taken the slot.
        taken_away = old and any(begin < read.begin and end > old.asked for begin, end in evictions)
        if old and not taken_away and read.begin < max(old.begin, old.left or gone(old.life)):
            channel.verdict.fail("living declared dead", read.life, f"took slot {read.slot} from {old.life.name}")
        if not old or taken_away or not old.kept or old.forgot or (old.last and old.life.phase == Phase.forgetting):
            places = {}
        for ring, cursor in read.cursors.items():
            begin = channel.place(ring, cursor)
            if ring in places:
                before, exact = places[ring]
                channel.verdict.counts["resumed"] += 1
                if channel.skipped(ring, before, begin[:2]):
                    text = f"ring {ring}: resumed at {cursor}, {begin}, but had seen less than {before}"
                    channel.verdict.fail("loss", read.life, text)
                rows = read.messages[read.messages[:, 1] == ring]
                again = int(
                    numpy.sum((rows[:, 3] < before[0]) | ((rows[:, 3] == before[0]) & (rows[:, 4] < before[1])))
                )
                channel.verdict.counts["seen again after a kept one's death"] += again
                if again and exact:
                    channel.verdict.fail("duplicates", read.life, f"ring {ring}: {again} again after a proper close")
        for ring, cursor in read.cursors.items():
            rows = read.messages[read.messages[:, 1] == ring]
            if len(rows):
                places[ring] = (int(rows[-1, 3]), int(rows[-1, 4]) + 1), bool(read.left)
            elif ring in places:
                places[ring] = places[ring][0], places[ring][1] and bool(read.left)
            else:
                places[ring] = channel.place(ring, cursor)[:2], False
        old = read


def verify(lives, verdict=None, gaps=(), alignment=64):
    """Returns the verdict on one channel's workers. `gaps`: the times when the host took a core away (canary.py)."""
    verdict = verdict or Verdict()
    channel = Channel(lives, verdict, alignment)
    reads = [read for life in lives if life.role != "publisher" for read in read_by(life)]
    published = [p for owners in channel.rings.values() for p in owners.values()]
    for_lag = [(p.begin, p.closed or p.life.ended) for p in published if p.max_lag]  # may evict any slot at any time
    evictions = collections.defaultdict(lambda: list(for_lag))
    for life in lives:
        for _, slot, begin, end, *_ in life.entries[life.entries[:, 0] == Kind.EVICTED][-1:].tolist():
            evictions[slot].append((begin, end or life.ended))
            verdict.counts["evicted"] += 1
    for read in reads:
        evicted = any(
            begin < (read.noticed or read.left or gone(read.life)) and end > read.asked
            for begin, end in evictions[read.slot]
        )
        if read.slot_lost:
            verdict.counts["slot lost"] += 1
            if not evicted:
                verdict.fail("living declared dead", read.life, f"lost slot {read.slot}, which no process evicted")
        elif evicted and not read.lossy and not read.left:  # killed before a poll raised slot lost
            read.messages = read.messages[: max(0, len(read.messages) - 256)]
    for read in sorted(reads, key=lambda r: r.lossy):  # reliable ones first: they tell the epochs' lengths
        verdict.counts["joins"] += 1
        verdict.work[read.life.language, read.life.role] += len(read.messages)
        for ring in sorted({int(r) for r in read.messages[:, 1]}):
            rows = read.messages[read.messages[:, 1] == ring]
            if check_messages(channel, read, ring, rows) and ring in read.cursors:
                check_order(channel, read, ring, rows)
        if read.drained and read.life.final:
            check_end(channel, read)
    starts = sum(len(read.cursors) for read in reads if read.lossy)
    verdict.counts["lossy starts"] += starts
    if verdict.counts["lossy starts put off"] > 5 + verdict.counts["lossy starts"] * 0.05:
        verdict.fail("lost count", None, f"{verdict.counts['lossy starts put off']} of {starts} starts put off")
    slots = collections.defaultdict(list)
    for read in reads:
        if not read.lossy:
            slots[read.slot].append(read)
    for slot, owners in slots.items():
        check_kept(channel, owners, evictions[slot])
    seen = numpy.concatenate([numpy.zeros((0, 8), "i8")] + [r.messages for r in reads])
    keys = seen[:, 1] << 56 | seen[:, 3] << 32 | seen[:, 4] & 0xFFFFFFFF  # ring, epoch, sequence
    order = numpy.argsort(keys, kind="stable")
    if ((numpy.diff(keys[order]) == 0) & (numpy.diff(seen[order, 2]) != 0)).any():
        verdict.fail("agreement", None, "two subscribers have seen one message at different positions")
    for life in lives:
        check_waits(life, slots, verdict, gaps)
    return channel


def check_waits(life, slots, verdict, gaps):
    """Checks how long dead readers held publishers back, and that these were dead."""
    for row in life.entries[life.entries[:, 0] == Kind.DEAD_WAIT].tolist():
        _, slot, begin, end, lost, offers, looks, _ = row
        stopped = sum(max(0, min(end, b) - max(begin, a)) for a, b in life.stops)
        taken = sum(max(0, min(end, b) - max(begin, a)) for a, b in gaps)
        wait = max(0, end - begin - max(lost, taken) - stopped) / 1e6
        verdict.dead_waits.append(
            (wait, offers, looks, f"{life.name}, begin {begin}, end {end}, lost {lost}, taken {taken}")
        )
        if looks > MOST_LOOKS:
            verdict.fail("offers", life, f"held back by dead slot {slot} for {offers} offers, {looks} of them overdue")
        for read in slots[slot]:
            if read.begin < begin and end < (read.left or gone(read.life)) and end - begin > 1_000_000:
                text = f"saw slot {slot} without an owner, which {read.life.name} was"
                verdict.fail("living declared dead", life, text)
    held = life.entries[life.entries[:, 0] == Kind.HELD]
    verdict.counts["held back over 2 ms"] += len(held)
    longest = LONGEST_BY_LAG if (life.entries[life.entries[:, 0] == Kind.TAKEN, 6] > 0).any() else LONGEST_BY_LIVING
    held = held[held[:, 5] == 0]  # a kept slot's owner may be away for any time
    if len(held) and (held[:, 3] - held[:, 2]).max() > longest:
        verdict.fail("waits", life, f"held back for {(held[:, 3] - held[:, 2]).max() / 1e9:.1f} s")
