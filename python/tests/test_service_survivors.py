# SPDX-License-Identifier: Apache-2.0
"""Known faults of other libraries (spec/service.md 12), and servers and clients that die, are evicted, or are hostile
(spec/service.md 3 to 10)."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from uuid import UUID

import pytest

from conftest import Child, in_child
from flyring import (
    Call,
    Channel,
    ClosedError,
    CorruptRingError,
    InvalidArgumentError,
    NoFreeSlotError,
    Request,
    ServerGoneError,
    SlotLostError,
    TimedOutError,
    layout,
)
from flyring._identity import Identity
from flyring.system import new_lock
from services import LARGEST, Pair, echo, end_of, pair, poke, record_at, service, serving, settle

SERVER = """
import os, signal, sys, time
from flyring import Channel
channel = Channel.open("c")
server = channel.server("child", timeout=20)
print("ready", flush=True)
done = 0
def handler(request):
    global done
    if bytes(request) == b"hang":
        time.sleep(1000)
    if sys.argv[1] == "third" and not request.repeat:
        done += 1
        if done == 3:
            os.kill(os.getpid(), signal.SIGKILL)
    return b"again" if request.repeat else b"first"
server.serve(handler)
"""

CLIENT = """
import sys, time
from flyring import Channel
channel = Channel.open("c")
client = channel.client("child")
for _ in range(int(sys.argv[1])):
    client.start(b"d")
if sys.argv[2] == "stream":
    client.stream(b"s", credit=3)
print("ready", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("is_asleep", [True, False])
def test_dead_server_is_seen(is_asleep: bool, child: Callable[..., Child]) -> None:
    with service() as channel, channel.client() as client:
        victim = child(SERVER, "")
        assert victim.line() == "ready"
        server = client.server
        assert server is not None
        assert server.name == "child"
        assert client.call(b"x", timeout=10) == b"first"
        client.set_spin(0 if is_asleep else 20)
        taken = client.start(b"hang")
        time.sleep(0.05)
        lies = client.start(b"behind it")
        pid = victim.process.pid
        killed: list[float] = []

        def kill() -> None:
            victim.process.kill()
            killed.append(time.monotonic())

        killer = threading.Timer(0.02, kill)
        killer.start()
        assert end_of(taken.result) == "server-gone True"
        killer.join()
        assert time.monotonic() - killed[0] < 0.3  # the limit is 100 ms, plus the delay of a busy machine
        with pytest.raises(ServerGoneError) as caught:
            lies.result()
        assert (caught.value.may_have_run, caught.value.name, caught.value.pid) == (False, "child", pid)
        assert client.server is None
        assert client.outstanding == 0
        assert end_of(lambda: client.call(b"nobody", timeout=0.02)) == "expired False"


def test_a_server_that_was_killed_in_a_reply_was_read_before() -> None:
    """The call ends with the answer that the dead server published, not as server gone."""
    with pair() as both:
        call, other = both.client.start(b"x"), both.client.start(b"y")
        both.server.poll(echo, 1)
        both.server.close()
        assert call.result(10) == b"x"
        assert end_of(lambda: other.result(10)) == "server-gone False"


def test_a_client_that_only_polls_now_and_then_learns_of_a_dead_server() -> None:
    with pair() as both:
        call = both.client.start(b"x")
        both.server.close()
        give_up = time.monotonic() + 0.5
        while not call.done and time.monotonic() < give_up:
            both.client.poll()
            time.sleep(0.005)
        assert end_of(call.result) == "server-gone False"


def test_old_reply_never_reaches_the_next_client() -> None:
    with pair() as both:
        kept: list[Request] = []
        both.client.start(b"old")
        both.server.poll(lambda request: kept.append(request.keep()))
        both.client.close()
        with both.channel.client() as following:
            assert following.number == 0
            call = following.start(b"new")  # it has the same sequence as the old call
            kept[0].reply(b"for the old one")
            assert following.poll() == 0
            assert both.server.client_gone == 1
            both.server.poll(echo)
            assert call.result(10) == b"new"
            lost = following.start(b"old")  # the reply is published before the client is evicted
            both.server.poll(echo)
            both.channel.evict(1)
            for verb in (following.poll, lost.result):
                with pytest.raises(SlotLostError):
                    verb()
        with both.channel.client() as third:
            assert third.number == 0
            again = third.start(b"third")
            both.server.poll(echo)
            assert again.result(10) == b"third"
            third.start(b"old")
            both.server.poll(lambda request: kept.append(request.keep()))
        # A reply that is published while the next client takes the place: closed is 0, the epoch is still the old one.
        poke(both.channel, closed_at(both.channel, 0), "<i", 0)
        kept[1].reply(b"for the third one")
        assert both.server.client_gone == 1
        with both.channel.client() as fourth:
            assert fourth.number == 0
            last = fourth.start(b"fourth")
            assert fourth.poll() == 0
            both.server.poll(echo)
            assert last.result(10) == b"fourth"
            fourth.start(b"late")
            both.server.poll(lambda request: kept.append(request.keep()))
            before = fourth.epoch
        with both.channel.client() as fifth:
            assert fifth.number == 0
            first = fifth.start(b"first")
            both.server.poll(echo)
            assert first.result(10) == b"first"
            latest = fifth.start(b"fifth")  # it has the same sequence as the late call
            # The server looked at the slot before this client came, and publishes the reply after that (reply 2).
            word = both.channel.header.subscriber_slot(1) + layout.SUBSCRIBER_SLOT_EPOCH
            poke(both.channel, word, "<q", before)
            kept[2].reply(b"for the old one")
            poke(both.channel, word, "<q", fifth.epoch)
            assert fifth.poll() == 0
            assert fifth.late == 1
            both.server.poll(echo)
            assert latest.result(10) == b"fifth"


def closed_at(channel: Channel, ring: int) -> int:
    return channel.header.publisher_slot(ring) + layout.PUBLISHER_SLOT_CLOSED


def test_a_reply_looks_at_closed_and_not_at_the_gate() -> None:
    """A client stores its gate at each call, so a look at the gate would cost a transfer of its line (reply 2)."""
    with pair() as both:
        assert both.answered_by(echo) == b"price?"
        call = both.client.start(b"x")
        poke(both.channel, both.channel.header.gate(2, 1), "<q", layout.NOT_GATING)
        both.server.poll(echo)
        assert both.server.client_gone == 0
        assert call.result(10) == b"x"
        # A client that was killed in its close, in front of the store of its gate.
        both.client.start(b"y")
        poke(both.channel, closed_at(both.channel, 0), "<i", 1)
        both.server.poll(echo)
        assert both.server.client_gone == 1
        assert both.server.held == (0, 0)
        assert both.client.poll() == 0


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_stream_ends_when_its_client_leaves(is_closed: bool) -> None:
    with pair() as both:
        both.client.stream(b"x", credit=64)
        both.server.poll(lambda request: request.stream(bytes(LARGEST) for _ in range(100)))
        assert both.server.held.in_hand == 1  # it found no room
        if is_closed:
            both.client.close()
        else:
            both.channel.evict(1)
        both.server.poll(echo)
        assert both.server.held == (0, 0)
        assert both.server.client_gone >= 1


def test_a_poll_with_limit_0_sends_waiting_replies_and_takes_no_request() -> None:
    with pair() as both:
        large = bytes(LARGEST)
        calls = [both.client.start(b"x") for _ in range(12)]
        assert both.server.poll(lambda request: large) == 12
        assert both.server.held.waiting > 0
        last = both.client.start(b"last")
        give_up = time.monotonic() + 10
        while both.server.held.in_hand and time.monotonic() < give_up:
            both.client.poll()
            assert both.server.poll(echo, 0) == 0
        assert both.server.held == (0, 0)
        both.client.poll()
        assert [len(call.result(1)) for call in calls] == [LARGEST] * 12
        assert both.server.poll(echo, limit=0, timeout=None) == 0  # does not wait
        assert not last.done
        with pytest.raises(InvalidArgumentError, match="limit"):
            both.server.poll(echo, -1)
        both.server.poll(echo)
        assert last.result(1) == b"last"


def test_reply_without_room_leaks_nothing() -> None:
    with pair() as both:
        large = bytes(LARGEST)
        for _ in range(50):
            calls = [both.client.start(b"x") for _ in range(12)]
            assert both.server.poll(lambda request: large) == 12
            held = both.server.held
            assert held.waiting > 0
            assert held.in_hand == held.waiting
            settle(both)
            assert [len(call.result(1)) for call in calls] == [LARGEST] * 12
        for _ in range(12):  # replies to a client that leaves while they wait
            both.client.start(b"x")
        both.server.poll(lambda request: large)
        assert both.server.held.waiting > 0
        both.client.close()
        both.server.poll(echo)
        assert both.server.held == (0, 0)


def test_clients_come_and_go() -> None:
    with service() as channel, channel.server() as server:
        for i in range(400):
            with channel.client() as client:
                call = client.start(b"x")
                assert server.poll(echo) >= 1  # including the requests that were left
                assert call.result(10) == b"x"
                if i % 3 == 0:
                    client.start(b"left behind")
        server.poll(echo)
        assert server.held == (0, 0)
        with channel.client() as client:
            assert client.epoch == 401


def test_request_of_a_client_that_left_is_run(child: Callable[..., Child]) -> None:
    with pair() as both:
        with both.channel.client() as brief:
            for what in (b"a", b"b", b"c"):
                brief.start(what)
        victim = child(CLIENT, "1", "")
        assert victim.line() == "ready"
        victim.kill()
        run: list[bytes] = []

        def handler(request: Request) -> bytes:
            run.append(bytes(request))
            return b""

        assert both.server.poll(handler) == 4
        assert run == [b"a", b"b", b"c", b"d"]
        assert both.server.held == (0, 0)
        assert both.server.client_gone >= 3


def test_slow_client_delays_no_other() -> None:
    with pair() as both, both.channel.client() as slow:
        large = bytes(LARGEST)
        calls = [slow.start(b"s") for _ in range(30)]
        with serving(both.server, lambda request: large):
            for _ in range(200):
                start = time.monotonic()
                assert len(both.client.call(b"quick", timeout=10)) == LARGEST
                assert time.monotonic() - start < 2
            assert both.server.held.waiting > 0
            assert [len(call.result(20)) for call in calls] == [LARGEST] * 30  # the slow client's calls get all answers
        assert both.server.held == (0, 0)


def test_no_call_ends_in_silence() -> None:
    """Whichever ring is full, each call ends with an answer or an error."""
    with pair(clients=1, max_outstanding=1000) as both:
        large = bytes(both.client.max_message_length)
        ended: list[str] = []
        started = refused = 0
        for _ in range(40):
            try:
                both.client.start(large, 1, 0.005, lambda call: ended.append(end_of(call.result)))
                started += 1
            except TimeoutError as error:
                assert end_of(lambda error=error: throw(error)) == "expired False"
                refused += 1
        assert started > 0
        assert refused > 0
        time.sleep(0.01)
        while both.server.poll(echo) > 0 or both.client.poll() > 0:
            pass
        assert len(ended) == started
        assert {end.split()[0] for end in ended} == {"expired"}
        assert both.server.expired == started
        assert both.client.late == started  # replies to ended calls are counted
        assert both.client.outstanding == 0


def throw(error: BaseException) -> None:
    raise error


def test_dead_client_does_not_stop_the_server(child: Callable[..., Child]) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b"endless"

    with pair() as both:
        for is_dead in (True, False):
            victim = child(CLIENT, "20", "stream")
            assert victim.line() == "ready"
            if is_dead:
                victim.kill()
            both.server.poll(lambda r: r.stream(endless()) if r.is_stream else bytes(LARGEST))
            if not is_dead:
                victim.kill()
            give_up = time.monotonic() + 10
            while both.server.held.in_hand and time.monotonic() < give_up:
                both.server.poll(echo, timeout=0.02)
            assert both.server.held == (0, 0)
            assert both.answered_by(echo) == b"price?"


def test_evicting_a_server_tells_its_callers() -> None:
    with pair() as both:
        taken = both.client.start(b"a")
        kept: list[Request] = []
        both.server.poll(lambda request: kept.append(request.keep()))
        lies = both.client.start(b"b")
        assert both.channel.evict(0) == 1
        assert end_of(lambda: taken.result(10)) == "server-gone True"
        assert end_of(lambda: lies.result(10)) == "server-gone True"  # the victim may take it before it notices
        with pytest.raises(NoFreeSlotError):  # before the victim notices
            both.channel.server()
        assert end_of(lambda: both.client.call(b"c", timeout=0.005)) == "expired False"
        with pytest.raises(SlotLostError):
            kept[0].reply(b"late")
        with pytest.raises(SlotLostError):
            both.server.poll(echo)
        with both.channel.server("next") as following:
            again = both.client.start(b"d")
            handed: list[bytes] = []

            def handler(request: Request) -> bytes:
                handed.append(bytes(request))
                return bytes(request)

            following.poll(handler)
            assert handed == [b"d"]  # requests to the previous server are not run
            assert following.not_run == 1
            assert again.result(10) == b"d"
        both.server.close()


def test_at_least_once_the_next_server_answers() -> None:
    with pair(delivery="at-least-once") as both:
        calls = [both.client.start(what) for what in (b"a", b"b", b"c", b"d")]
        kept: list[Request] = []
        both.server.poll(lambda request: kept.append(request.keep()), 3)
        kept[1].reply(b"b1")
        both.server.close()
        assert calls[1].result(10) == b"b1"
        with pytest.raises(TimedOutError):  # the call does not end with its server
            calls[0].result(0.15)
        handed: list[tuple[bytes, bool]] = []

        def handler(request: Request) -> bytes:
            handed.append((bytes(request), request.repeat))
            return bytes(request) + b"2"

        with both.channel.server() as following:
            following.poll(handler)
            assert handed == [(b"a", True), (b"b", True), (b"c", True), (b"d", False)]
            answers = [(bytes(calls[i].result(10)), calls[i].repeat) for i in (0, 2, 3)]
            assert answers == [(b"a2", True), (b"c2", True), (b"d2", False)]
            assert both.client.late == 1  # late: the second answer to b
            with pytest.raises(InvalidArgumentError) as caught:
                both.client.stream(b"x")
            assert caught.value.argument == "credit"


def test_at_least_once_no_request_is_lost_and_what_was_begun_says_repeat(child: Callable[..., Child]) -> None:
    with service(delivery="at-least-once") as channel, channel.client() as client:
        for _ in range(5):
            child(SERVER, "third")
        seen = [bytes(client.call(b"x", timeout=20)) for _ in range(12)]
        assert seen == [b"first", b"first", b"again"] * 4


def test_a_call_of_another_boot_is_dropped() -> None:
    before = Identity(boot_id=UUID("11111111-1111-1111-1111-111111111111"))
    channel = Channel.create("c", "service", _identity=before, delivery="at-least-once", clients=2)
    with channel, channel.client() as client, channel.server():
        client.start(b"old")
    with Channel.open("c") as channel, channel.server() as server:
        assert server.poll(echo) == 0
        with channel.client() as client:
            call = client.start(b"new")
            assert server.poll(echo) == 1
            assert call.result(10) == b"new"


@pytest.mark.parametrize(
    ("offset", "value"), [(0, 3), (0, 5000), (4, -7), (0, 20)], ids=["length", "long", "type", "short"]
)
def test_a_hostile_client_is_evicted_and_the_others_go_on(offset: int, value: int) -> None:
    with pair() as both:
        hostile = both.channel.client()
        assert hostile.number == 1
        first = hostile.start(b"first")  # after its owner record
        end = both.channel.stats().publishers[1].published
        kept: list[Request] = []
        both.server.poll(lambda request: kept.append(request.keep()))
        hostile.start(b"second")
        poke(both.channel, record_at(both.channel, 1, end) + offset, "<i", value)
        both.server.poll(echo)
        assert both.server.damaged == 1
        assert kept[0].cancelled
        for verb in (hostile.poll, first.result):
            with pytest.raises(SlotLostError):
                verb()
        kept[0].reply(b"for nobody")
        assert both.answered_by(echo) == b"price?"
        hostile.close()
        with both.channel.client() as better:
            assert better.number == 1
            call = better.start(b"better")
            assert both.server.poll(echo) == 1
            assert call.result(10) == b"better"


VALUES = [-5, 3, 1 << 62, 1 << 40]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(
    "at",
    [
        layout.TRAILER_PUBLISHED,
        layout.TRAILER_GATE,
        layout.TRAILER_CLAIMED,
        layout.TRAILER_GATE + layout.GATE_TAKEN_END,
    ],
)
def test_hostile_words_of_a_request_ring(at: int, value: int) -> None:
    """A new server finds hostile words in ring 0. The ring of client 1 is valid."""
    with service() as channel, channel.client(), channel.client() as whole:
        poke(channel, channel.header.trailer(0) + at, "<q", value)
        with channel.server() as server:
            call = whole.start(b"whole")
            assert server.poll(echo) == 1
            assert call.result(10) == b"whole"


@pytest.mark.parametrize("value", VALUES)
def test_hostile_words_of_a_ring_of_replies(value: int) -> None:
    for at in (layout.TRAILER_PUBLISHED, layout.TRAILER_CLAIMED):
        with service() as channel:
            poke(channel, channel.header.trailer(3) + at, "<q", value)
            with pytest.raises(CorruptRingError):
                channel.server()
            assert channel.stats().subscribers[0].state == "unused"
            os.unlink(channel.path)


@pytest.mark.parametrize("value", VALUES)
def test_other_hostile_words(value: int) -> None:
    with pair() as both:
        serving = both.channel.header.control_offset + layout.CONTROL_SERVING
        poke(both.channel, serving, "<q", value)
        assert end_of(lambda: both.client.call(b"x", timeout=0.005)) == "expired False"
        poke(both.channel, serving, "<q", both.server.epoch)
        poke(both.channel, both.channel.header.gate(2, 1) + layout.GATE_EXPIRED, "<q", value)
        assert both.channel.stats().subscribers[1].expired == max(0, value)
        assert both.answered_by(echo) == b"price?"


def test_a_server_that_is_coming_is_not_taken_for_the_last_one() -> None:
    """Step 2 of service.md 4 sets serving to 0 before the lock is held, so a caller that sees the lock finds no
    server."""
    with pair() as both:
        assert both.answered_by(echo) == b"price?"
        call = both.client.start(b"x")
        both.server.close()
        poke(both.channel, both.channel.header.trailer(2) + layout.TRAILER_PUBLISHED, "<q", 1)
        with pytest.raises(CorruptRingError):
            both.channel.server()
        assert both.channel.stats().serving == 0
        attached = both.channel._attached
        lock = new_lock(attached.file, attached.path)  # simulates a server that has come so far
        assert lock.try_lock(attached.header.subscriber_slot(0))
        assert both.client.server is None
        assert end_of(lambda: call.result(5)) == "server-gone True"
        lock.close()


def test_a_corrupt_ring_of_replies_ends_the_calls_of_its_client() -> None:
    with pair() as both:
        call = both.client.start(b"x")
        both.server.poll(echo)
        poke(both.channel, record_at(both.channel, 2, 128), "<i", 5)
        for verb in (both.client.poll, call.result, lambda: both.client.call(b"x")):
            with pytest.raises(CorruptRingError) as caught:
                verb()
            assert caught.value.ring == 2
        assert both.channel.stats().subscribers[1].outstanding == 0
        both.client.close()
        with both.channel.client() as following:
            again = following.start(b"y")
            both.server.poll(echo)
            assert again.result(10) == b"y"


def test_fork_leaves_the_parent_its_places() -> None:
    with pair() as both:
        call = both.client.start(b"x")
        kept: list[Request] = []
        both.server.poll(lambda request: kept.append(request.keep()))

        def child() -> None:
            verbs: tuple[Callable[[], object], ...] = (
                lambda: both.client.call(b"y"),
                lambda: both.server.poll(echo),
                lambda: kept[0].reply(b"z"),
                call.result,
                call.cancel,
                both.client.poll,
            )
            for verb in verbs:
                with pytest.raises(ClosedError):
                    verb()

        in_child(child)
        kept[0].reply(b"the parent's")
        assert call.result(10) == b"the parent's"


def test_a_handler_that_forks() -> None:
    with pair() as both:
        call = both.client.start(b"x")

        def handler(request: Request) -> bytes:
            in_child(lambda: reply_is_closed(request))
            return b"the parent's"

        both.server.poll(handler)
        assert call.result(10) == b"the parent's"


def reply_is_closed(request: Request) -> None:
    with pytest.raises(ClosedError):
        request.reply(b"the child's")


def test_a_callback_that_forks() -> None:
    with pair() as both:

        def heard(call: Call) -> None:
            def child() -> None:
                with pytest.raises(ClosedError):
                    both.client.start(b"y")

            in_child(child)

        both.client.start(b"x", callback=heard)
        both.server.poll(echo)
        assert both.client.poll() == 1
        assert both.answered_by(echo) == b"price?"


def test_a_place_is_given_back_whole_when_one_lock_of_it_is_refused() -> None:
    with service() as channel:
        header = channel.header
        holder = channel._attached.file.reopen()
        assert holder.try_lock(header.publisher_slot(3))  # one of the server's slots
        assert holder.try_lock(header.subscriber_slot(1))  # one of client 0's slots
        with pytest.raises(NoFreeSlotError):
            channel.server()
        with channel.client() as client:
            assert client.number == 1
        for slot in (header.subscriber_slot(0), header.publisher_slot(2), header.publisher_slot(0)):
            assert not holder.is_locked(slot)
        holder.close()
        with channel.server(), channel.client() as client:
            assert client.number == 0


def test_a_server_that_comes_while_its_predecessor_sleeps(child: Callable[..., Child]) -> None:
    with service() as channel:
        victim = child(SERVER, "")
        assert victim.line() == "ready"
        channel.evict(0)
        with channel.server("next", timeout=10) as server, channel.client() as client:  # both wake sleepers, and unlock
            both = object.__new__(Pair)
            both.channel, both.server, both.client = channel, server, client
            assert both.answered_by(echo) == b"price?"
