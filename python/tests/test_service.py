# SPDX-License-Identifier: Apache-2.0
"""A service: calls and answers, streams, deadlines, cancel (spec/service.md 2 to 7, spec/api.md)."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from flyring import (
    BusyError,
    Call,
    CancelledError,
    Channel,
    ChannelDiffersError,
    ClosedError,
    InvalidArgumentError,
    MessageTooLargeError,
    NoFreeSlotError,
    Request,
    ServerGoneError,
    ServiceError,
    TwoThreadsError,
    ViewAliveError,
    layout,
)
from services import LARGEST, data_asleep, echo, end_of, pair, poke, record_at, service, serving


def test_a_call_gets_its_answer() -> None:
    with pair() as both:
        assert (both.server.epoch, both.server.slot, both.server.name) == (1, 0, "pricing")
        assert (both.client.number, both.client.slot, both.client.name) == (0, 1, "desk")

        def handler(request: Request) -> None:
            assert (request.type, request.client, request.sender.name) == (7, 0, "desk")
            assert not (request.repeat or request.is_stream or request.cancelled or request.answered)
            assert request.remaining() is None
            assert request == b"price?"
            request.reply(b"42", 9)
            assert request.answered

        call = both.client.start(b"price?", 7)
        assert not call.done
        assert both.server.poll(handler) == 1
        assert both.client.poll() == 1
        answer = call.result()
        assert (bytes(answer), answer.type, answer.ring, answer.repeat) == (b"42", 9, 2, False)
        assert answer.sender.name == "pricing"
        assert call.done


@pytest.mark.parametrize(
    ("kind", "options", "argument"),
    [
        ("service", {"publishers": 4}, "publishers"),
        ("service", {"subscribers": 4}, "subscribers"),
        ("service", {"producers": 4}, "producers"),
        ("service", {"workers": 4}, "workers"),
        ("service", {"clients": 0}, "clients"),
        ("service", {"clients": 513}, "clients"),
        ("service", {"max_outstanding": 0}, "max_outstanding"),
        ("service", {"max_outstanding": 65536}, "max_outstanding"),
        ("service", {"delivery": "twice"}, "delivery"),
        ("inbox", {"clients": 2}, "clients"),
        ("inbox", {"delivery": "at-most-once"}, "delivery"),
        ("inbox", {"max_outstanding": 2}, "max_outstanding"),
    ],
)
def test_options_that_are_refused(kind: Any, options: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Channel.create("c", kind, **options)
    assert caught.value.argument == argument


def test_what_it_is_made_of() -> None:
    with Channel.create("plain", "service") as channel, Channel.create("other", "queue") as other:
        assert (channel.capacity, channel.clients, channel.publishers, channel.subscribers) == (65536, 16, 32, 17)
        assert (channel.max_outstanding, channel.delivery) == (64, "at-most-once")
        for make in (channel.publisher, channel.subscriber, channel.worker, other.server, other.client):
            with pytest.raises(InvalidArgumentError) as caught:
                make()
            assert caught.value.argument == "kind"
        with Channel.open_or_create("plain", "service"):
            pass
        for option, value in (("clients", 3), ("delivery", "at-least-once"), ("max_outstanding", 3)):
            with pytest.raises(ChannelDiffersError) as differs:
                Channel.open_or_create("plain", "service", **{option: value})  # type: ignore[arg-type]
            assert differs.value.field == option


def test_there_is_one_server_and_so_many_clients() -> None:
    with service() as channel:
        server = channel.server("first")
        with pytest.raises(NoFreeSlotError) as caught:
            channel.server("second")
        assert [(one.slot, one.name) for one in caught.value.owners] == [(0, "first")]
        first, second = channel.client(), channel.client()
        with pytest.raises(NoFreeSlotError):
            channel.client()
        first.close()
        late = channel.client("late")
        assert late.number == 0
        closes = threading.Timer(0.03, server.close)
        closes.start()
        with channel.server("second", timeout=10) as following:
            assert following.epoch == 2
        closes.join()
        assert second.epoch == 1


@pytest.mark.parametrize("alignment", [8, 64])
def test_requests_and_answers_of_every_length_wrap_around_the_rings(alignment: int) -> None:
    with pair(clients=1, alignment=alignment) as both:
        most = both.client.max_message_length
        assert (most, both.server.max_message_length) == (4096 // 4 - 32, LARGEST)
        message = bytes(7 * i & 0xFF for i in range(most))
        for length in range(0, most + 1, 13):
            call = both.client.start(message[:length], 3)
            assert both.server.poll(echo) == 1
            assert both.client.poll() == 1
            assert (bytes(call.result()), call.result().type) == (message[:length], 3)
        with pytest.raises(MessageTooLargeError):
            both.client.start(bytes(most + 1))
        large = bytes(LARGEST + 1)
        assert both.error_of(lambda request: large).startswith("a message of 1001 bytes is too large")
        assert both.error_of(lambda request: request.reply(large)).startswith("a message of 1001 bytes")

        def handler(request: Request) -> None:
            with pytest.raises(MessageTooLargeError):
                request.reply(large)
            request.fail("as you like")

        assert both.error_of(handler) == "as you like"


def test_a_handler_may_answer_fail_throw_or_forget(monkeypatch: pytest.MonkeyPatch) -> None:
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda told: unraisable.append(told.exc_value))

    def throws(error: BaseException) -> Any:
        def handler(request: Request) -> None:
            raise error

        return handler

    with pair() as both:
        assert both.answered_by(lambda request: b"returned") == b"returned"
        assert both.answered_by(lambda request: bytearray(b"a buffer")) == b"a buffer"
        assert both.answered_by(lambda request: request) == b"price?"
        assert both.error_of(lambda request: request.fail("no such item")) == "no such item"
        assert both.error_of(throws(RuntimeError("out of stock"))) == "out of stock"
        assert both.error_of(throws(ZeroDivisionError())) == "ZeroDivisionError"
        assert both.error_of(lambda request: None) == "no answer"
        assert "int" in both.error_of(lambda request: 5)
        sent = both.error_of(lambda request: request.fail("x" + "ä" * 1000))
        assert sent == "x" + "ä" * 499  # as many whole characters as fit in 4096 / 4 - 24 bytes
        assert "type" in both.error_of(lambda request: request.reply(b"x", 0))
        assert unraisable == []

        def twice(request: Request) -> bytes:
            request.reply(b"once")
            for answer in (lambda: request.reply(b"twice"), lambda: request.fail("twice"), request.keep):
                with pytest.raises(InvalidArgumentError):
                    answer()
            return b"twice"

        assert both.answered_by(twice) == b"once"
        assert [type(error) for error in unraisable] == [InvalidArgumentError]
        assert both.server.held == (0, 0)


def test_what_no_handler_should_catch_comes_out_of_the_poll_behind_the_reply() -> None:
    with pair() as both:
        for error in (KeyboardInterrupt, SystemExit):
            call = both.client.start(b"x")

            def handler(request: Request, error: type[BaseException] = error) -> None:
                raise error

            with pytest.raises(error):
                both.server.poll(handler)
            assert end_of(call.result) == "service-error"
        assert both.answered_by(echo) == b"price?"


def test_kept_requests_are_answered_from_any_thread_in_any_order() -> None:
    with pair(capacity=65536) as both:
        calls = [both.client.start(b"call %d" % i) for i in range(60)]
        kept: list[Request] = []
        assert both.server.poll(lambda request: kept.append(request.keep())) == 60
        assert both.server.held == (60, 0)

        def answer(t: int) -> None:
            for i in reversed(range(60)):
                if i % 3 == t:
                    kept[i].reply(kept[i])

        threads = [threading.Thread(target=answer, args=(t,)) for t in range(3)]
        for thread in threads:
            thread.start()
        other = both.channel.client()
        for _ in range(200):  # while the poll goes on
            call = other.start(b"other")
            both.server.poll(echo)
            assert call.result(20) == b"other"
        for thread in threads:
            thread.join()
        assert [bytes(call.result(20)) for call in calls] == [b"call %d" % i for i in range(60)]
        assert both.server.held == (0, 0)
        with pytest.raises(InvalidArgumentError):
            kept[0].reply(b"again")


def test_a_kept_request_that_is_dropped_fails_and_one_may_outlive_its_server() -> None:
    with pair() as both:
        kept: list[Request] = []
        call = both.client.start(b"x")
        both.server.poll(lambda request: kept.append(request.keep()))
        kept.clear()
        with pytest.raises(ServiceError) as caught:
            call.result(20)
        assert caught.value.text == "no answer"
        again = both.client.start(b"y")
        both.server.poll(lambda request: kept.append(request.keep()))
        both.server.close()
        with pytest.raises(ClosedError):
            kept[0].reply(b"late")
        assert kept[0] == b"y"
        with pytest.raises(ServerGoneError):
            again.result(20)


def test_no_more_than_max_outstanding() -> None:
    with pair(clients=1, capacity=65536, max_outstanding=3) as both:
        calls = [both.client.start(b"x") for _ in range(3)]
        with pytest.raises(BusyError) as caught:
            both.client.start(b"x")
        assert (caught.value.outstanding, caught.value.holder) == (3, None)
        with pytest.raises(BusyError):
            both.client.call(b"x", timeout=0.001)
        calls[0].cancel()
        with pytest.raises(BusyError):  # a call counts until its final reply
            both.client.start(b"x")
        assert both.channel.stats().subscribers[1].outstanding == 3
        assert both.server.poll(echo) == 3
        calls.append(both.client.start(b"x"))
        assert (both.client.outstanding, both.client.late) == (1, 1)  # late: the answer of the cancelled call
        with pytest.raises(CancelledError):
            calls[0].result()
        assert calls[1].result() == b"x"


def test_deadlines() -> None:
    with pair() as both:
        start = time.monotonic()
        assert end_of(lambda: both.client.call(b"x", timeout=0.02)) == "expired True"
        assert time.monotonic() - start >= 0.02
        call, calm = both.client.start(b"y", 1, 0.02), both.client.start(b"z", 1, 10)
        time.sleep(0.025)
        handed: list[bytes] = []

        def handler(request: Request) -> bytes:
            handed.append(bytes(request))
            remaining = request.remaining()
            assert remaining is not None
            assert 5 < remaining <= 10
            return bytes(request)

        both.server.poll(handler)
        assert handed == [b"z"]  # no handler gets an expired request
        assert both.server.expired == 2
        assert end_of(call.result) == "expired False"
        assert calm.result() == b"z"
        assert both.client.outstanding == 0
        assert both.channel.stats().subscribers[1].expired == 2


def test_cancel_tells_the_server() -> None:
    with pair() as both:
        call = both.client.start(b"x")
        kept: list[Request] = []
        both.server.poll(lambda request: kept.append(request.keep()))
        assert not kept[0].cancelled
        call.cancel()
        call.cancel()  # cancelling twice does nothing
        assert call.done
        with pytest.raises(CancelledError):
            call.result()
        both.server.poll(echo)
        assert kept[0].cancelled
        kept[0].reply(b"all the same")
        assert both.client.poll() == 0
        assert (both.client.late, both.client.outstanding) == (1, 0)


def test_callbacks_may_start_calls_but_not_wait() -> None:
    with pair() as both:
        ended: list[bytes] = []

        def heard(call: Call) -> None:
            ended.append(bytes(call.result()))
            with pytest.raises(TwoThreadsError):
                both.client.call(b"x", timeout=0.001)
            with pytest.raises(TwoThreadsError):
                both.client.poll()
            with pytest.raises(ViewAliveError):
                both.client.close()
            if len(ended) < 5:
                both.client.start(b"x", callback=heard)

        both.client.start(b"x", callback=heard)
        for i in range(1, 6):
            assert both.server.poll(echo) == 1
            assert both.client.poll() == 1
            assert len(ended) == i
        assert both.client.outstanding == 0


def test_a_callback_does_not_wait_for_an_item() -> None:
    with pair() as both:
        seen: list[bytes] = []

        def heard(call: Call) -> None:
            item = call.next(0)
            seen.append(b"" if item is None else bytes(item))
            if not call.done:
                assert call.next(0) is None
                with pytest.raises(TwoThreadsError):
                    call.next()
                with pytest.raises(TwoThreadsError):
                    next(iter(call))

        both.client.stream(b"go", credit=1, callback=heard)
        both.server.poll(lambda request: request.stream([b"a", b"b"]))
        for _ in range(4):
            both.client.poll()
            both.server.poll(echo)
        assert seen == [b"a", b"b", b""]


def test_at_least_once_an_answer_of_another_thread_moves_the_gate_while_the_server_is_at_work() -> None:
    with pair(delivery="at-least-once") as both:
        kept: list[Request] = []
        both.client.start(b"a")
        both.server.poll(lambda request: kept.append(request.keep()))
        other = both.channel.client()
        other.start(b"b")

        def handler(request: Request) -> bytes:
            thread = threading.Thread(target=lambda: kept[0].reply(b"a"))
            thread.start()
            thread.join()
            ring = both.channel.stats().publishers[0]
            assert both.channel.stats().subscribers[0].gates[0].position == ring.published
            return b"b"

        assert both.server.poll(handler) == 1


def test_what_a_callback_raises_comes_out_of_the_verb_and_the_others_are_told_with_the_next() -> None:
    with pair() as both:
        told: list[str] = []

        def raises(name: str) -> Any:
            def heard(call: Call) -> None:
                told.append(name)
                raise RuntimeError("stop")

            return heard

        for name in ("a", "b"):
            both.client.start(b"x", callback=raises(name))
        assert both.server.poll(echo) == 2
        for expected in (["a"], ["a", "b"]):
            with pytest.raises(RuntimeError):
                both.client.poll()
            assert told == expected


def test_closed_calls_are_told() -> None:
    with pair() as both:
        told: list[str] = []
        call = both.client.start(b"x", callback=lambda call: told.append(end_of(call.result)))
        both.client.close()
        assert told == ["closed"]
        with pytest.raises(ClosedError):
            call.result()
        with pytest.raises(ClosedError):
            both.client.call(b"x")
        handed: list[bytes] = []
        both.server.poll(lambda request: handed.append(bytes(request)))
        assert handed == [b"x"]  # a published request runs nevertheless
        assert both.server.client_gone == 1


@pytest.mark.parametrize("credit", [1, 2, 5, 1000])
@pytest.mark.parametrize("items", [0, 1, 2, 5, 6, 300])
def test_a_stream_has_at_most_its_credit_under_way_and_ends(credit: int, items: int) -> None:
    made = 0

    def numbers() -> Iterator[bytes]:
        nonlocal made
        for i in range(items):
            made += 1
            yield b"%d" % i

    def handler(request: Request) -> None:
        assert request.is_stream
        request.stream(numbers(), 4)

    with pair() as both:
        call = both.client.stream(b"go", credit=credit)
        both.server.poll(handler)
        assert made <= credit + 1  # the server reads one item ahead
        for i in range(items):
            item = None
            for _ in range(5):
                item = item or call.next(0)
                both.server.poll(echo)
            assert item is not None
            assert (bytes(item), item.type) == (b"%d" % i, 4)
        both.server.poll(echo)
        assert call.next(1) is None
        assert call.done
        assert both.server.held == (0, 0)
        assert both.client.outstanding == 0


def test_streams_that_are_refused() -> None:
    with pair() as both:
        assert "stream" in both.error_of(lambda request: request.stream([b"x"]))
        for credit in (0, 65536, -1):
            with pytest.raises(InvalidArgumentError) as caught:
                both.client.stream(b"x", credit=credit)
            assert caught.value.argument == "credit"


def endless() -> Iterator[bytes]:
    while True:
        yield b"more"


def test_a_stream_that_throws_is_cancelled_or_late_ends() -> None:
    def torn() -> Iterator[bytes]:
        yield from [b"item"] * 3
        raise RuntimeError("torn")

    with pair() as both:
        throws = both.client.stream(b"go", credit=8)
        both.server.poll(lambda request: request.stream(torn()))
        assert [bytes(throws.next() or b"") for _ in range(3)] == [b"item"] * 3
        with pytest.raises(ServiceError) as caught:
            throws.next()
        assert caught.value.text == "torn"

        cancelled = both.client.stream(b"go", credit=4)
        both.server.poll(lambda request: request.stream(endless()))
        assert cancelled.next() == b"more"
        cancelled.cancel()
        both.server.poll(echo)
        both.client.poll()
        assert (both.client.outstanding, both.server.held.in_hand) == (0, 0)

        late = both.client.stream(b"go", credit=2, timeout=0.02)
        both.server.poll(lambda request: request.stream(endless()))
        time.sleep(0.025)

        def read_all() -> None:
            while late.next(0):
                pass

        assert end_of(read_all) == "expired True"
        both.server.poll(echo)
        both.client.poll()
        assert both.client.outstanding == 0


def test_a_stream_of_what_is_no_message_ends_with_an_error() -> None:
    with pair() as both:
        for items in ([b"fine", 5], [bytes(LARGEST + 1)]):
            call = both.client.stream(b"go", credit=8)
            both.server.poll(lambda request, items=items: request.stream(items))
            with pytest.raises(ServiceError):
                list(call)
            assert both.server.held == (0, 0)


def test_a_stream_is_iterated() -> None:
    with pair() as both, serving(both.server, lambda request: request.stream(b"%d" % i for i in range(500))):
        call = both.client.stream(b"go", credit=7)
        assert [bytes(item) for item in call] == [b"%d" % i for i in range(500)]
        assert list(call) == []
        assert len(call.result()) == 0


def test_callbacks_run_while_another_verb_waits() -> None:
    with pair() as both:
        both.client.set_spin(0)
        kept: list[Request] = []
        told = threading.Event()
        both.client.start(b"a", callback=lambda call: told.set())

        def answer() -> None:
            while len(kept) < 2:
                both.server.poll(lambda request: kept.append(request.keep()), timeout=0.01)
            kept[0].reply(b"a")
            assert told.wait(10)
            kept[1].reply(b"b")

        thread = threading.Thread(target=answer)
        thread.start()
        assert both.client.call(b"b", timeout=20) == b"b"
        thread.join()


@pytest.mark.parametrize("is_evicted", [True, False])
def test_calls_that_end_with_their_client_are_told_once(is_evicted: bool) -> None:
    with pair() as both:
        told: list[str] = []
        for _ in range(3):
            both.client.start(b"x", callback=lambda call: told.append(end_of(call.result)))
        code = "slot-lost" if is_evicted else "corrupt-ring"
        if is_evicted:
            both.channel.evict(1)
        else:
            both.server.poll(echo)
            poke(both.channel, record_at(both.channel, 2, 128), "<i", 5)
        assert end_of(both.client.poll) == code
        assert told == [code] * 3
        both.client.close()
        assert told == [code] * 3


def test_a_lossy_subscriber_looks_on() -> None:
    with pair() as both, both.channel.lossy_subscriber() as lossy:
        assert both.answered_by(echo) == b"price?"
        seen: list[tuple[int, bytes]] = []

        def look(message: Any) -> None:
            prefix = layout.REQUEST_LENGTH if message.ring < 2 else layout.REPLY_LENGTH
            seen.append((message.ring, bytes(message)[prefix:]))

        lossy.poll(look)
        assert seen == [(0, b"price?"), (2, b"price?")]


def test_stats() -> None:
    with pair(clients=3, max_outstanding=9) as both:
        both.client.start(b"x")
        stats = both.channel.stats()
        assert (stats.clients, stats.max_outstanding, stats.serving, stats.delivery) == (3, 9, 1, "at-most-once")
        assert len(stats.subscribers) == 4
        server, desk, unused = stats.subscribers[:3]
        assert (server.state, server.outstanding, len(server.gates)) == ("live", -1, 3)
        assert server.gates[0].lag_messages == 1
        assert (desk.name, desk.outstanding, desk.expired) == ("desk", 1, 0)
        assert [gate.ring for gate in desk.gates] == [3]
        assert (unused.state, unused.gates) == ("unused", ())


def test_arguments_and_two_threads() -> None:
    with pair() as both:
        for call in (
            lambda: both.client.poll(-1),
            lambda: both.server.poll(echo, 1, -1),
            lambda: both.client.set_spin(-1),
            lambda: both.client.call(b"x", 0),
            lambda: both.client.call(b"x", 1, -1),
        ):
            with pytest.raises(InvalidArgumentError):
                call()
        with pytest.raises(TypeError):
            both.server.poll()
        for nonsense in (lambda: both.client.call("text"), lambda: both.client.call(), lambda: both.server.poll(5)):  # type: ignore[arg-type,call-arg]
            with pytest.raises(TypeError):
                nonsense()
        both.client.set_spin(0)
        caller = threading.Thread(target=lambda: end_of(lambda: both.client.call(b"x", timeout=0.3)))
        caller.start()
        give_up = time.monotonic() + 10
        while not data_asleep(both.channel, 2) and time.monotonic() < give_up:
            time.sleep(0.001)
        with pytest.raises(TwoThreadsError):
            both.client.call(b"y")
        with pytest.raises(TwoThreadsError):
            both.client.poll()
        caller.join()
