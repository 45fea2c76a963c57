# SPDX-License-Identifier: Apache-2.0
"""Judges what the workers of one round wrote down. It knows nothing of the binding: only which messages were offered,
which offers had returned, and who has seen what."""

import collections
import dataclasses

import numpy
from side import Kind, Phase

END = (2**62, 0)


@dataclasses.dataclass
class Published:
    """What one owner of a ring published: message n was acknowledged when ends[i] with counts[i] > n was written."""

    ring: int
    epoch: int
    start: int
    publisher: int
    begin: int
    life: object
    counts: numpy.ndarray
    ends: numpy.ndarray
    batches: numpy.ndarray
    attempted: int
    closed: int  # ns; 0: not

    @property
    def acknowledged(self):
        return int(self.counts[-1]) if len(self.counts) else 0


@dataclasses.dataclass
class Read:
    """What one owner of a subscriber slot, or one lossy subscriber, saw."""

    life: object
    slot: int
    epoch: int
    kept: bool
    lossy: bool
    asked: int  # ns, before it took the slot
    begin: int  # ns, when it had taken it
    cursors: dict
    messages: numpy.ndarray
    left: int = 0  # ns; 0: not
    forgot: bool = False
    drained: bool = False
    last: bool = False  # of its process
    slot_lost: bool = False
    lost: dict = None  # by ring, at the end


def gone(life):
    """When this process had its slot no more, at the earliest."""
    if life.phase in (Phase.closing, Phase.leaving, Phase.forgetting):
        return 0  # perhaps it had closed, and was killed before it could say so
    return life.killed or life.ended


class Verdict:
    """Failures by the name of the rule, and what was counted."""

    def __init__(self):
        self.failures = collections.defaultdict(list)
        self.counts = collections.Counter()
        self.dead_waits = []  # ms, what the machine took subtracted

    def fail(self, rule, life, text):
        self.failures[rule].append(f"{life.name if life else 'channel'}: {text}")


def sessions(life, first, last):
    """The log's stretches from an entry of kind `first` to the next one; what is before the first is left out."""
    kinds = life.entries[:, 0]
    begins = [i for i in numpy.flatnonzero(kinds == first) if i == 0 or kinds[i - 1] != first]
    for begin, end in zip(begins, [*begins, len(kinds)][1:]):
        rows = life.entries[begin:end]
        yield rows, rows[rows[:, 0] == last], end == len(kinds)


def published_by(life):
    for rows, closed, last in sessions(life, Kind.TAKEN, Kind.CLOSED):
        acks = rows[rows[:, 0] == Kind.ACKNOWLEDGED]
        _, ring, epoch, start, begin, publisher = (int(x) for x in rows[0, :6])
        ended = int(closed[0, 4]) if len(closed) else 0
        acknowledged = int(acks[-1, 1]) if len(acks) else 0
        attempted = max(life.attempted, acknowledged) if last and not ended else acknowledged
        yield Published(
            ring, epoch, start, publisher, begin, life, acks[:, 1], acks[:, 2], acks[:, 3], attempted, ended
        )


def read_by(life):
    for rows, left, last in sessions(life, Kind.JOINED, Kind.LEFT):
        lost_slot = rows[rows[:, 0] == Kind.SLOT_LOST]
        joined = rows[rows[:, 0] == Kind.JOINED]
        _, _, slot, _, epoch, kept, begin, asked = (int(x) for x in joined[0])
        cursors = {int(j[1]): int(j[3]) for j in joined}
        read = Read(life, slot, epoch, bool(kept), life.role == "lossy", asked, begin, cursors, None)
        read.messages, read.last = rows[rows[:, 0] == Kind.MESSAGE], last
        if len(left):
            read.forgot, read.drained, read.left = bool(left[0, 1]), bool(left[0, 2]), int(left[0, 4])
        read.lost = {int(r[1]): int(r[2]) for r in rows[rows[:, 0] == Kind.LOST]}
        if len(lost_slot):
            read.slot_lost, read.left = True, int(lost_slot[0, 4])
            read.messages = read.messages[: len(read.messages) - int(lost_slot[0, 2])]
        yield read


class Channel:
    """The rings of one channel: all that was published, in order."""

    def __init__(self, lives, verdict):
        self.verdict, self.rings, self.ends = verdict, collections.defaultdict(dict), collections.defaultdict(set)
        for life in lives:
            for p in published_by(life) if life.role == "publisher" else ():
                if p.epoch in self.rings[p.ring]:
                    verdict.fail("owners", life, f"ring {p.ring} has had epoch {p.epoch} twice")
                self.rings[p.ring][p.epoch] = p
        for ring, owners in self.rings.items():
            self.rings[ring] = dict(sorted(owners.items()))
            self._check_owners(list(self.rings[ring].values()))

    def _check_owners(self, owners):
        for p in owners:
            self.verdict.counts["acknowledged"] += p.acknowledged
            if len(p.ends) and (p.ends[0] <= p.start or (numpy.diff(p.ends) <= 0).any()):
                self.verdict.fail("order", p.life, f"positions of ring {p.ring} do not grow")
        for old, new in zip(owners, owners[1:]):
            if new.start < (old.ends[-1] if len(old.ends) else old.start):
                self.verdict.fail("loss", new.life, f"ring {old.ring}: begins at {new.start}, before what was there")
            if new.begin < (old.closed or gone(old.life)):
                self.verdict.fail("living declared dead", new.life, f"took ring {old.ring} from {old.life.name}")

    def place(self, ring, position):
        """(epoch, n) of the first message that ends behind a position; n is the lowest that it can be, and the third
        value the highest (a batch has one position)."""
        epoch, n, most = 0, 0, 0
        for p in self.rings[ring].values():
            if p.start > position:
                break
            i = int(numpy.searchsorted(p.ends, position, "right"))
            epoch, n = p.epoch, int(p.counts[i - 1]) if i else 0
            most = p.attempted if i == len(p.ends) else int(p.counts[i]) - 1 if p.batches[i] > 1 else n
        return epoch, n, most

    def skipped(self, ring, one, other):
        """Acknowledged messages from place `one` to just before place `other`."""
        lost = 0
        for p in self.rings[ring].values():
            if one[0] <= p.epoch <= other[0]:
                begin = one[1] if p.epoch == one[0] else 0
                end = min(p.acknowledged, other[1]) if p.epoch == other[0] else p.acknowledged
                lost += max(0, end - begin)
        return lost

    def length_seen(self, ring, epoch, count, life):
        """A subscriber has seen that the stream of this epoch ended after `count` messages."""
        known = self.ends[ring, epoch]
        known.add(count)
        if len(known) > 1:
            self.verdict.fail("agreement", life, f"ring {ring} epoch {epoch} ended after {sorted(known)} messages")


def check_messages(channel, read, ring, rows):
    """What holds for each message by itself."""
    fail, life = channel.verdict.fail, read.life
    if ring not in read.cursors:
        fail("never offered", life, f"messages of ring {ring}, which it did not choose")
    if (rows[:, 6] == 1).any():
        fail("tear", life, f"ring {ring}: torn message at position {rows[rows[:, 6] == 1][0, 2]}")
        return False
    if (rows[:, 6] == 2).any():
        fail("sender", life, f"ring {ring}: another sender's message at position {rows[rows[:, 6] == 2][0, 2]}")
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
    """A gapless suffix of the stream from the join on; for lossy ones the gaps are what they counted as lost."""
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
        check_lost(channel, read, ring, begin[:2], first, int(lost[0]), begin[2] - begin[1])
    elif first[0] == begin[0] and not begin[1] <= first[1] <= begin[2]:
        fail("loss", life, f"ring {ring}: joined at {read.cursors[ring]}, expected {begin}, got {first}")
    elif first[0] != begin[0]:
        check_gap(channel, read, ring, begin[:2], first, f"after its join at {read.cursors[ring]}")


def check_gap(channel, read, ring, one, other, where):
    lost = channel.skipped(ring, one, other)
    if lost or other[1] not in (0, one[1]):
        channel.verdict.fail("loss", read.life, f"ring {ring}: from {one} to {other} {where}: {lost} lost")


def check_lost(channel, read, ring, one, other, counted, slack=0):
    """Counted as lost: at least what was acknowledged in between, at most what was attempted."""
    least = most = 0
    for p in channel.rings[ring].values():
        if one[0] <= p.epoch <= other[0]:
            known = channel.ends.get((ring, p.epoch))
            low, high = (min(known), max(known)) if known else (p.acknowledged, p.attempted)
            begin = one[1] if p.epoch == one[0] else 0
            least += max(0, (other[1] if p.epoch == other[0] else low) - begin)
            most += max(0, (other[1] if p.epoch == other[0] else high) - begin)
    if not least - slack <= counted <= most:
        text = f"ring {ring}: from {one} to {other} {counted} counted as lost, published {least} to {most}"
        channel.verdict.fail("lost count", read.life, text)


def check_end(channel, read):
    """It was told to read until nothing is left, when nobody published any more."""
    for ring, cursor in read.cursors.items():
        rows = read.messages[read.messages[:, 1] == ring]
        place = channel.place(ring, cursor)
        last = (int(rows[-1, 3]), int(rows[-1, 4]) + 1) if len(rows) else place[:2]
        if read.lossy:
            counted = read.lost.get(ring, 0) - (int(rows[-1, 7]) if len(rows) else 0)
            check_lost(channel, read, ring, last, END, counted, 0 if len(rows) else place[2] - place[1])
            channel.verdict.counts["lost"] += read.lost.get(ring, 0)
        else:
            check_gap(channel, read, ring, last, END, "at the end")


def check_kept(channel, reads, evictions):
    """The owners of one slot, one after another: a kept one goes on where the one before it was."""
    places, old = {}, None
    for read in sorted(reads, key=lambda r: r.epoch):
        if old and read.begin < max(old.begin, old.left or gone(old.life)):
            channel.verdict.fail("living declared dead", read.life, f"took slot {read.slot} from {old.life.name}")
        taken_away = old and any(begin < read.begin and end > old.asked for begin, end in evictions)
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


def verify(lives, verdict=None):
    """The verdict on one channel's workers."""
    verdict = verdict or Verdict()
    channel = Channel(lives, verdict)
    reads = [read for life in lives if life.role != "publisher" for read in read_by(life)]
    evictions = collections.defaultdict(list)
    for life in lives:
        for _, slot, begin, end, *_ in life.entries[life.entries[:, 0] == Kind.EVICTED][-1:].tolist():
            evictions[slot].append((begin, end or life.ended))
            verdict.counts["evicted"] += 1
    for read in reads:
        evicted = any(
            begin < (read.left or gone(read.life)) and end > read.asked for begin, end in evictions[read.slot]
        )
        if read.slot_lost:
            verdict.counts["slot lost"] += 1
            if not evicted:
                verdict.fail("living declared dead", read.life, f"lost slot {read.slot}, which nobody evicted")
        elif evicted and not read.lossy and not read.left:  # killed before its poll said so
            read.messages = read.messages[: max(0, len(read.messages) - 256)]
    for read in sorted(reads, key=lambda r: r.lossy):  # the reliable ones tell how many messages an epoch had
        verdict.counts["joins"] += 1
        verdict.counts["messages"] += len(read.messages)
        for ring in sorted({int(r) for r in read.messages[:, 1]}):
            rows = read.messages[read.messages[:, 1] == ring]
            if check_messages(channel, read, ring, rows) and ring in read.cursors:
                check_order(channel, read, ring, rows)
        if read.drained and read.life.final:
            check_end(channel, read)
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
        check_waits(life, slots, verdict)
    return channel


def check_waits(life, slots, verdict):
    """How long publishers were held back by the dead, and whether those were dead."""
    for _, slot, begin, end, delay, *_ in life.entries[life.entries[:, 0] == Kind.DEAD_WAIT].tolist():
        stopped = sum(max(0, min(end, b) - max(begin, a)) for a, b in life.stops)
        verdict.dead_waits.append(((end - begin - max(delay, stopped)) / 1e6, life.name, begin, end))
        for read in slots[slot]:
            if read.begin < begin and end < (read.left or gone(read.life)) and end - begin > 1_000_000:
                text = f"saw slot {slot} without an owner, which {read.life.name} was"
                verdict.fail("living declared dead", life, text)
    held = life.entries[life.entries[:, 0] == Kind.HELD]
    verdict.counts["held back over 2 ms"] += len(held)
    if len(held) and (held[:, 3] - held[:, 2]).max() > 10e9:
        verdict.fail("waits", life, f"held back for {(held[:, 3] - held[:, 2]).max() / 1e9:.1f} s")
