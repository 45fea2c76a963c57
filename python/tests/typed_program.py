# SPDX-License-Identifier: Apache-2.0
"""A user's program for type checkers: ``./dev lint`` runs mypy and basedpyright on it, and test_typing.py runs it.

A line with a type error has a ``type: ignore`` that names the error; an unnecessary one is an error itself.
"""

from __future__ import annotations

import array
from typing import TYPE_CHECKING, assert_type

import numpy
from numpy.typing import NDArray

import flyring
from flyring import Action, sbe
from generated_prices import SCHEMA, Book, PriceFlags, PriceUpdate, Trade


def on_update(update: PriceUpdate, message: flyring.Message) -> None:
    print(update.instrument.symbol, update.bid, update.lastSide, message.sender.name)


def on_trade(trade: Trade, message: flyring.Message) -> Action | None:
    return Action.COMMIT if trade.price > 0 else None


def on_rows(rows: NDArray[numpy.void]) -> None:
    print(rows["bid"].sum())


def generated(name: str) -> int:
    """Uses classes of ``flyring sbe generate``."""
    with flyring.Channel.open_or_create(name, kind="inbox", schema=SCHEMA, capacity=1 << 16) as channel:
        with channel.publisher("feed") as publisher:
            with publisher.claim(PriceUpdate) as update:
                assert_type(update, PriceUpdate)
                update.instrument.symbol = "EURUSD"
                update.bid = 1
                update.flags = PriceFlags.opening
                update.lastSide = None
            if (tried := publisher.try_claim(Book, 100)) is not None:
                assert_type(tried, Book)
                tried.abort()
            with publisher.claim(8) as claim:
                assert_type(claim, flyring.Claim)
                claim[0:8] = b"12345678"
            assert_type(publisher.send(b"abc", timeout=None), int)
            publisher.offer(bytearray(3), 5)
            publisher.offer(memoryview(b"abc"))
            publisher.offer(array.array("d", [1.5]))
            publisher.offer(numpy.arange(10))
            assert_type(publisher.offer_batch([b"a", numpy.zeros(3)]), int)
            publisher.offer_array(PriceUpdate, numpy.zeros(3, PriceUpdate.dtype))
        with channel.subscriber() as subscriber:
            handler = sbe.dispatch({PriceUpdate: on_update, Trade: on_trade}, otherwise=print)
            done = subscriber.poll(handler, 1, timeout=0.1)
            done += subscriber.poll(sbe.dispatch(sbe.on(PriceUpdate, on_update) | sbe.on(Trade, on_trade)), 1)
            while message := subscriber.take():
                data: bytes = bytes(message)
                done += len(data) == len(numpy.frombuffer(message.data, numpy.uint8))
                assert_type(memoryview(message).tobytes(), bytes)
            done += subscriber.poll_arrays(PriceUpdate, on_rows)
    return done


def jobs(name: str) -> int:
    """Uses a queue."""
    with flyring.Channel.create(name, "queue", producers=1, workers=2, schema=SCHEMA) as channel:
        with channel.publisher("feed") as publisher:
            publisher.offer_batch([b"a", b"b", b"c", b"d"])
            with publisher.claim(PriceUpdate) as update:
                update.instrument.symbol, update.bid, update.lastSide = "EURUSD", 1, None
        with channel.worker("w", timeout=0, wait="block") as worker:
            done = worker.poll(lambda job: Action.BREAK if job.repeat else None, 1, timeout=0.1)
            if (job := worker.take(timeout=None)) is not None:
                assert_type(job, flyring.Job)
                with job:
                    done += len(bytes(job)) + job.attempts
            for each in worker:
                assert_type(each, flyring.Job)
                if each.type == PriceUpdate.TEMPLATE_ID:
                    break
                assert_type(each.release(), bool) if not each.repeat else each.done()
            done += worker.poll(sbe.dispatch({PriceUpdate: on_update}))
            assert_type(worker.take(), flyring.Job | None)
            assert_type(worker.ended, bool)
    return done


def table(name: str) -> int:
    """Uses a table."""
    with flyring.Table.create(
        name, capacity=10, key="text", value_bytes=64, schema=SCHEMA, message="PriceUpdate"
    ) as prices:
        assert_type(prices.put("EURUSD", bytes(8)), int)
        prices["GBPUSD"] = bytearray(8)
        prices["USDJPY"] = numpy.zeros(2)
        assert_type(prices.get("EURUSD"), bytes | None)
        assert_type(prices.get("none", 5), bytes | int)
        assert_type(prices["EURUSD"], bytes)
        assert_type(prices.get_versioned("EURUSD"), tuple[bytes, int] | None)
        assert_type(prices.read("EURUSD", len), int | None)
        assert_type(prices.compare_and_put("EURUSD", 0, b""), int)
        assert_type(prices.wait_changed("EURUSD", 0, timeout=1), int)
        assert_type(prices.wait_changed(0, timeout=None), int)
        with prices.writer("feed", timeout=None) as writer:
            assert_type(writer, flyring.TableWriter)
            assert_type(writer.put("EURUSD", b"abc"), int)
            if (entry := writer.entry("EURUSD")) is not None:
                assert_type(entry, flyring.Entry)
                assert_type(entry.get(), bytes | None)
                entry.put(b"abcd")
            assert_type(writer.remove("GBPUSD"), bool)
        for value in prices.values():
            assert_type(value, bytes)
        found = sum(len(value) for _, value in prices.items())
        assert_type(prices.stats(), flyring.TableStats)
        return found + len(prices)


def journal(name: str) -> int:
    with flyring.Journal.create(name, segment_size=1 << 16, schema=SCHEMA, sync="each", max_age=3600.0) as made:
        with made.writer("feed") as writer:
            with writer.claim(Trade) as trade:
                assert_type(trade, Trade)
                trade.price = 0
            assert_type(writer.append(b"raw", time=5), int)
            writer.append_many([b"a", memoryview(b"b")], 7)
            if TYPE_CHECKING:
                writer.offer(b"raw")  # type: ignore[attr-defined]
        with made.reader(flyring.JournalStart.at_number(0)) as reader:
            handled = reader.poll(sbe.dispatch({Trade: on_trade}), limit=2)
            message = reader.take()
            assert_type(message, flyring.JournalMessage | None)
            assert message is not None
            assert_type(message.number + message.time + reader.position, int)
        with made.consumer("reader", "newest") as consumer:
            assert_type(consumer.pop(timeout=0), flyring.JournalMessage | None)
            assert_type(consumer.size, int)
        made.trim(consumed=True)
        return handled + message.number + 1


async def received(reader: flyring.JournalReader) -> int:
    message = await reader.receive(timeout=1)
    assert_type(message, flyring.JournalMessage | None)
    async for one in reader:
        assert_type(one, flyring.JournalMessage)
    return 0 if message is None else message.number


def at_run_time(name: str, path: str) -> list[str]:
    """Uses classes of ``Schema.load``, as in the README."""
    prices, seen = sbe.Schema.load(path), list[str]()
    with flyring.Channel.open_or_create(name, kind="inbox", schema=prices) as channel:
        with channel.publisher().claim(prices.PriceUpdate) as update:
            update.instrument.symbol = "FLYR"
            update.bid, update.ask = 100, 101
        show = lambda update, message: seen.append(update.instrument.symbol)  # noqa: E731 - as in the README
        channel.subscriber().poll(sbe.dispatch({prices.PriceUpdate: show}))
    return seen


if TYPE_CHECKING:

    def from_3_12_on(message: flyring.Message, claim: flyring.Claim) -> None:
        """Before Python 3.12, type checkers do not know numpy's buffers, so programs pass ``message.data``."""
        import sys

        if sys.version_info >= (3, 12):
            numpy.frombuffer(message, numpy.uint8)
            numpy.frombuffer(claim, numpy.uint8)

    def refused(channel: flyring.Channel, publisher: flyring.Publisher, subscriber: flyring.Subscriber) -> None:
        publisher.offer("text")  # type: ignore[arg-type]
        publisher.offer(5)  # type: ignore[arg-type]
        publisher.offer_batch(["text"])  # type: ignore[list-item]
        publisher.claim("8")  # type: ignore[call-overload]
        publisher.claim(int)  # type: ignore[type-var]
        publisher.claim(PriceUpdate).price = 3  # type: ignore[attr-defined]
        publisher.try_claim(PriceUpdate).commit()  # type: ignore[union-attr]
        publisher.claim(PriceUpdate).bid = "1"  # type: ignore[assignment]
        subscriber.poll(lambda: None)  # type: ignore[arg-type,misc]
        subscriber.poll(on_update)  # type: ignore[arg-type]
        _ = subscriber.take().data  # type: ignore[union-attr]
        subscriber.poll_arrays(PriceUpdate, on_update)  # type: ignore[arg-type]
        subscriber.poll(sbe.dispatch({Trade: lambda trade: None}))  # type: ignore[dict-item,misc]
        sbe.on(Trade, on_update)  # type: ignore[arg-type]
        sbe.on(Trade, lambda trade, message: print(trade.bid))  # type: ignore[attr-defined]
        sbe.on(int, print)  # type: ignore[type-var]
        sbe.dispatch({int: on_update})  # type: ignore[type-var]
        sbe.dispatch({Trade: on_trade}, otherwise=on_trade)  # type: ignore[arg-type]
        flyring.Channel.open_or_create("x", kind="pubsub")  # type: ignore[arg-type]
        flyring.Channel.open_or_create("x", kind="inbox", size=3)  # type: ignore[call-arg]
        channel.publisher(wait="sleep")  # type: ignore[arg-type]
        channel.subscriber(rings=0)  # type: ignore[arg-type]
        channel.lossy_subscriber(start="first")  # type: ignore[arg-type]
        subscriber.wait = 3  # type: ignore[attr-defined]

    def refused_of_tables(table: flyring.Table, writer: flyring.TableWriter) -> None:
        table.put("key", "text")  # type: ignore[arg-type]
        table["key"] = 5  # type: ignore[assignment]
        writer.put("key", b"", timeout=1)  # type: ignore[call-arg]
        table.writer(5)  # type: ignore[arg-type]
        table.entry("key").get()  # type: ignore[union-attr]
        flyring.Table.create("t", capacity=1, key="float", value_bytes=8)  # type: ignore[arg-type]
        flyring.Table.create("t", size=1)  # type: ignore[call-arg]
