# SPDX-License-Identifier: Apache-2.0
"""Judges the logs of one service's servers and callers in one round (spec/service.md). Uses only the logs, not the
binding: the calls, their ends, the requests that handlers got, and the kills and evictions."""

import collections
import dataclasses

from hand_outs import evictions_of
from sessions import gone
from side import TORN, WRONG_SENDER, End, Kind, Phase
from verify import Verdict

RULES = ("never ended", "ended twice", "answer", "twice", "not run", "repeat", "server gone", "never asked", "tear")
RULES += (
    "sender",
    "order",
    "owners",
    "living declared dead",
    "evicted",
    "waits",
    "left over",
    "errors",
    "phases",
    "work",
)
LONGEST_WAIT = 250_000_000  # ns: two caps of 100 ms, and a margin
LONGEST_STOP = 200_000_000  # ns: the longest SIGSTOP, and the machine's delays
MOST_REQUESTS = 64  # that the ring of the at-least-once service can hold: 4096 bytes, at least 64 each (WORKER.md)


@dataclasses.dataclass(eq=False)
class Seat:
    """One owner of the server's place, or of a client's."""

    life: object
    slot: int
    epoch: int
    asked: int  # ns, before the take
    begin: int  # ns, after the take
    end: int = 2**62  # ns: the earliest end of the ownership
    noticed: int = 2**62  # ns: the latest end of the ownership
    how: str = ""  # how it ended: left, lost, killed; empty: its process ended otherwise
    requests: list = dataclasses.field(default_factory=list)
    calls: dict = dataclasses.field(default_factory=dict)  # by number
    idle: list = dataclasses.field(default_factory=list)
    drained: bool = False
    last: bool = False  # whether it is the last of its process


@dataclasses.dataclass(eq=False)
class Handed:
    """A request that a handler got."""

    seat: Seat
    key: tuple  # client, its epoch, number
    repeat: bool
    wrong: int
    time: int


@dataclasses.dataclass(eq=False)
class Call:
    """One call."""

    seat: Seat
    number: int
    timeout: int  # ns; 0: none
    begin: int
    stream: bool
    ends: list = dataclasses.field(default_factory=list)

    @property
    def key(self):
        return self.seat.slot - 1, self.seat.epoch, self.number


@dataclasses.dataclass(eq=False)
class Ended:
    how: End
    may_have_run: bool
    wrong: bool
    time: int
    server: int
    repeat: bool


def seats_of(life):
    """Yields the seats of one process, in order. The end of the process tells the last one's end."""
    seat, mine = None, []
    for kind, *words in life.entries.tolist():
        if kind == Kind.SEATED:
            seat = Seat(life, words[0], words[1], words[3], words[2])
            mine.append(seat)
        elif kind == Kind.REQUEST:
            client, epoch, number, repeat, wrong, time = words[:6]
            seat.requests.append(Handed(seat, (client, epoch, number), bool(repeat), wrong, time))
        elif kind == Kind.CALLED:
            seat.calls[words[0]] = Call(seat, words[0], words[1], words[2], bool(words[3]))
        elif kind == Kind.ENDED:
            number, how, may, wrong, time, server, repeat = words
            end = Ended(End(how), bool(may), bool(wrong), time, server, bool(repeat))
            if number in seat.calls:
                seat.calls[number].ends.append(end)
        elif kind == Kind.IDLE:
            seat.idle.append((words[0], words[1]))
        elif kind == Kind.LEFT and seat:
            seat.how, seat.end, seat.noticed, seat.drained = "left", words[3], life_end(life, words[3]), bool(words[1])
        elif kind == Kind.SLOT_LOST and seat:
            seat.how, seat.end, seat.noticed = "lost", words[3], words[2]
    if mine and not mine[-1].how:
        last = mine[-1]
        last.last, last.how = True, "killed" if life.killed else ""
        last.end, last.noticed = gone(life), life.ended
    return mine


def life_end(life, begin):
    """Returns when a place that was given back from `begin` on was certainly free."""
    later = [int(row[4]) for row in life.entries if row[0] == Kind.SEATED and row[4] > begin]
    return min(later, default=life.ended)


def overlap(begin, end, spans):
    return sum(max(0, min(end, b) - max(begin, a)) for a, b in spans)


def alone(begin, end, life, gaps):
    """Returns the ns of a span in which this process could run."""
    return end - begin - overlap(begin, end, life.stops) - overlap(begin, end, gaps)


class Service:
    """All events in one service."""

    def __init__(self, lives, verdict, gaps, least):
        self.verdict, self.gaps, self.least = verdict, gaps, least
        self.servers = [seat for life in lives if life.role == "server" for seat in seats_of(life)]
        self.clients = [seat for life in lives if life.role == "caller" for seat in seats_of(life)]
        # Servers that were killed before they logged that they had their place.
        self.seating = [(life.killed, life.ended) for life in lives if life.killed and life.phase == Phase.seating]
        self.evictions = collections.defaultdict(list)
        for eviction in sorted(evictions_of(lives), key=lambda e: e.begin):
            self.evictions[eviction.slot].append(eviction)
            verdict.counts["evicted"] += 1
        self.calls = {call.key: call for seat in self.clients for call in seat.calls.values()}
        self.handed = collections.defaultdict(list)
        for seat in self.servers:
            for one in seat.requests:
                self.handed[one.key].append(one)
        for story in self.handed.values():
            story.sort(key=lambda one: one.time)

    def fail(self, rule, life, text):
        self.verdict.fail(rule, life, text)

    # --- places ---------------------------------------------------------------------------------------------------

    def check_places(self):
        places = collections.defaultdict(list)
        for seat in (*self.servers, *self.clients):
            places[seat.slot].append(seat)
        for slot, owners in places.items():
            owners.sort(key=lambda seat: seat.epoch)
            for old, new in zip(owners, owners[1:]):
                if new.epoch == old.epoch:
                    self.fail("owners", new.life, f"slot {slot} has had epoch {old.epoch} twice")
                # An evicted owner may learn of it only after another has taken the slot.
                evicted = any(e.begin < new.begin and e.end > old.asked for e in self.evictions[slot])
                if new.begin < old.end and not evicted:
                    self.fail("living declared dead", new.life, f"took slot {slot} from {old.life.name}")
            for seat in owners:
                self.check_lost(seat)

    def check_lost(self, seat):
        evictions = self.evictions[seat.slot]
        if seat.how == "lost":
            self.verdict.counts["slot lost"] += 1
            if not any(e.begin < seat.noticed and e.end > seat.asked for e in evictions):
                self.fail("living declared dead", seat.life, f"lost slot {seat.slot}, which no process evicted")
        for e in evictions:
            if not (e.sure and seat.begin < e.begin):
                continue
            late = [one for one in seat.requests if one.time > e.end + LONGEST_STOP]
            late = [one for one in late if alone(e.end, one.time, seat.life, self.gaps) > LONGEST_WAIT]
            for one in late[:1]:
                text = f"was given {one.key} {(one.time - e.end) / 1e6:.1f} ms after its eviction"
                self.fail("evicted", seat.life, text)

    # --- calls ----------------------------------------------------------------------------------------------------

    def check_calls(self):
        for seat in self.clients:
            self.verdict.work[seat.life.language, "caller"] += sum(len(call.ends) for call in seat.calls.values())
            for call in seat.calls.values():
                self.check_call(call)

    def check_call(self, call):
        life, text = call.seat.life, f"call {call.key}"
        if not call.ends:
            self.verdict.counts["under way when its client died"] += call.seat.how == "killed"
            if call.seat.how != "killed":
                self.fail("never ended", life, text)
            return
        if len(call.ends) > 1:
            self.fail("ended twice", life, f"{text}: {[end.how.name for end in call.ends]}")
        end = call.ends[0]
        self.verdict.counts[end.how.name.lower()] += 1
        story = self.handed.get(call.key, [])
        if end.wrong:
            self.fail("answer", life, f"{text} got another answer")
        if end.how in (End.ANSWER, End.SERVICE_ERROR):
            before = [one for one in story if one.time <= end.time]
            if not before:
                self.fail("answer", life, f"{text} ended as {end.how.name}, and no handler was given it")
            elif end.server and end.server not in {one.seat.epoch for one in before}:
                self.fail("answer", life, f"{text} has an answer of epoch {end.server}, which was not given it")
            if end.repeat and not self.least:
                self.fail("repeat", life, f"{text} says repeat, of a service of at most once")
        elif end.how == End.EXPIRED:
            self.check_time(call, end)
        elif end.how == End.SERVER_GONE:
            self.check_gone(call, end)
        if end.how in (End.EXPIRED, End.SERVER_GONE, End.REFUSED) and not end.may_have_run and story:
            self.fail(
                "not run", life, f"{text} ended as {end.how.name}, not run; {story[0].seat.life.name} was given it"
            )

    def check_time(self, call, end):
        life, due = call.seat.life, call.begin + call.timeout
        if not call.timeout:
            self.fail("waits", life, f"call {call.key} expired, and had no time-out")
        elif end.time < due:
            self.fail("waits", life, f"call {call.key} expired {(due - end.time) / 1e6:.1f} ms before its time")
        elif alone(due, end.time, life, self.gaps) > LONGEST_WAIT:
            self.fail("waits", life, f"call {call.key} expired {(end.time - due) / 1e6:.0f} ms after its time")

    def check_gone(self, call, end):
        """Checks that the call's server had gone, not long before. The server may have gone even before the call,
        because a client tests for that only at intervals."""
        life = call.seat.life
        if self.least:
            return self.fail("server gone", life, f"call {call.key} ended with its server")
        ends = [(seat.end, seat.noticed) for seat in self.servers] + self.seating
        ends += [(e.begin, e.end) for e in self.evictions[0]]
        possible = [(since, until) for since, until in ends if since <= end.time and until >= call.begin]
        lived = [seat for seat in self.servers if seat.begin <= call.begin and seat.end >= end.time]
        if lived and not possible:
            text = f"call {call.key} ended as server gone, and {lived[0].life.name} lived all the time"
            return self.fail("server gone", life, text)
        known = max((min(until, end.time) for _, until in possible), default=call.begin)
        waited = alone(max(known, call.begin), end.time, life, self.gaps)
        if waited > LONGEST_WAIT:
            self.fail("waits", life, f"call {call.key} ended {waited / 1e6:.0f} ms after its server had gone")
        return None

    # --- requests -------------------------------------------------------------------------------------------------

    def check_requests(self):
        for seat in self.servers:
            self.verdict.work[seat.life.language, "server"] += len(seat.requests)
            self.check_order(seat)
            for one in seat.requests:
                if one.wrong == TORN:
                    self.fail("tear", seat.life, f"a torn request of client {one.key[0]}")
                elif one.wrong == WRONG_SENDER:
                    self.fail("sender", seat.life, f"{one.key} has another sender")
                elif one.key not in self.calls:
                    self.fail("never asked", seat.life, f"{one.key}")
        for key, story in self.handed.items():
            self.check_story(key, story)

    def check_order(self, seat):
        """Checks that the requests of each client come in its order, repeats first."""
        last = {}
        for one in seat.requests:
            place = one.key[:2]
            if one.wrong == TORN:
                continue
            if one.key[2] <= last.get(place, -1):
                self.fail("order", seat.life, f"{one.key} after number {last[place]}")
            last[place] = max(one.key[2], last.get(place, -1))

    def check_story(self, key, story):
        """Checks all hand-outs of one request, in the order of time."""
        if any(one.wrong == TORN for one in story):
            return
        first = story[0]
        if not self.least:
            if len(story) > 1:
                names = [one.seat.life.name for one in story]
                self.fail("twice", story[1].seat.life, f"{key} was given to {names}")
            if first.repeat:
                self.fail("repeat", first.seat.life, f"{key} says repeat, of a service of at most once")
            return
        if first.repeat and not self.unfinished_before(first):
            self.fail("repeat", first.seat.life, f"{key} says repeat the first time, and nobody has died")
        for before, one in zip(story, story[1:]):
            self.verdict.counts["repeats"] += 1
            if one.seat.epoch == before.seat.epoch:
                self.fail("twice", one.seat.life, f"{key} was given to the same server twice")
            elif not one.repeat:
                self.fail("repeat", one.seat.life, f"{key} was given to {before.seat.life.name}, and does not say so")
            first = self.first_after(before, one)
            again = before.seat.how == "left" and self.was_answered_by(first.key, before)
            if first.key[2] > key[2]:
                text = f"{key} was given to {before.seat.life.name}, and a server after it began behind it"
                self.fail("twice", one.seat.life, text)
            elif again and not self.expired_in_hand(first, before):
                self.fail("twice", one.seat.life, f"{key} was answered by {before.seat.life.name}, which left in order")

    def unfinished_before(self, one):
        """Returns whether an earlier server was killed, evicted or left: it may have had this request without a log
        entry."""
        earlier = [seat for seat in self.servers if seat.epoch < one.seat.epoch]
        return any(seat.how in ("killed", "lost") for seat in earlier) or any(
            e.begin < one.time for e in self.evictions[0]
        )

    def first_after(self, before, one):
        """Returns the first request of this client that a server got after the server of `before`, up to the server of
        `one`. It was at the gate that the server of `before` left. Those behind it are repeats, too, also at a third
        server if the second one leaves after the first request."""
        later = [seat for seat in self.servers if before.seat.epoch < seat.epoch <= one.seat.epoch]
        requests = [each for seat in later for each in seat.requests if each.key[:2] == one.key[:2]]
        return min(requests, key=lambda each: (each.seat.epoch, each.time), default=one)

    def was_answered_by(self, key, before):
        call = self.calls.get(key)
        return bool(
            call and call.ends and call.ends[0].server == before.seat.epoch and call.ends[0].time < before.seat.end
        )

    def expired_in_hand(self, first, before):
        """Returns whether a request in front of `first` may have been in hand when its server left, and at the gate of
        the next one, which answered *expired* and gave it to no handler (service.md 5, poll 5)."""
        key = first.key
        requests = [other.key for other in before.seat.requests if other.key[:2] == key[:2] and other.key[2] < key[2]]
        calls = [self.calls[each] for each in requests[-MOST_REQUESTS:] if each in self.calls]
        return any(
            call.timeout
            and call.begin + call.timeout <= first.time
            and all(end.how not in (End.ANSWER, End.SERVICE_ERROR) for end in call.ends)
            for call in calls
        )

    # --- waits, the end -------------------------------------------------------------------------------------------

    def check_waits(self):
        """Checks that no request waits for long while its server finds nothing."""
        spans = [(begin, end, seat) for seat in self.servers for begin, end in seat.idle]
        for story in self.handed.values():
            one = story[0]
            call = self.calls.get(one.key)
            if not call or one.time - call.begin < LONGEST_WAIT:
                continue
            for begin, end, seat in spans:
                begin, end = max(begin, call.begin), min(end, one.time)
                # It may be published late, because its client waits for a server or room, or is stopped.
                waited = alone(begin, end, seat.life, (*self.gaps, *call.seat.life.stops))
                if end > begin and waited > LONGEST_WAIT:
                    text = f"{one.key} waited for {waited / 1e6:.0f} ms while {seat.life.name} found nothing"
                    self.fail("waits", one.seat.life, text)
                    break

    def check_end(self):
        finals = [seat for seat in self.servers if seat.life.final and seat.how == "left"]
        if not any(seat.drained for seat in finals):
            self.fail("left over", None, "no server found the service empty at the end")


def verify_calls(lives, verdict=None, gaps=(), least=False):
    """Returns the verdict on one service's servers and callers. `gaps`: the times when the host took a core away."""
    verdict = verdict or Verdict()
    service = Service(lives, verdict, gaps, least)
    verdict.counts["places taken"] += len(service.servers) + len(service.clients)
    service.check_places()
    service.check_calls()
    service.check_requests()
    service.check_waits()
    service.check_end()
    verdict.counts["calls"] += len(service.calls)
    verdict.counts["requests"] += sum(len(story) for story in service.handed.values())
    return verdict
