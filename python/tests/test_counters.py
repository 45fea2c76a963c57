# SPDX-License-Identifier: Apache-2.0
"""The counters section (spec/channel.md 8)."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from conftest import Child
from flyring import Channel, ClosedError, Counter, InvalidArgumentError, NoSpaceError, layout
from flyring._identity import Identity
from flyring.counters import Counters


def test_a_counter_is_found_by_label_and_has_what_it_was_made_with() -> None:
    with Channel.create("c", "inbox") as one, Channel.open("c") as two:
        made = one.counters().allocate("größe", 42, b"key")
        found = two.counters().find("größe")
        assert found is not None
        assert (found.id, found.type_id, found.key) == (made.id, 42, b"key".ljust(112, b"\0"))
        assert two.counters().find("none") is None
        assert [counter.id for counter in two.counters()] == [made.id]
        assert len(two.counters()) == 64
        assert two.counters().counter(made.id).label == "größe"
        for number in (-1, 1, 64):
            with pytest.raises(InvalidArgumentError):
                two.counters().counter(number)


def test_find_goes_on_if_a_counter_is_freed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    with Channel.create("c", "inbox") as channel:
        counters = channel.counters()
        first, second = counters.allocate("first"), counters.allocate("second")
        to_free = [first]
        registration = Counters._registration

        def freed_behind(self: Counters, number: int) -> int:
            found = registration(self, number)
            if to_free:
                to_free.pop().free()
            return found

        monkeypatch.setattr(Counters, "_registration", freed_behind)
        found = counters.find("second")
        assert not to_free
        assert found is not None
        assert found.id == second.id


def test_every_access_reads_and_writes_the_same_64_bits() -> None:
    with Channel.create("ops", "inbox") as channel:
        counter = channel.counters().allocate("n")
        writes: list[Callable[[int], None]] = [counter.set, counter.set_volatile, counter.set_release]
        for write in writes:
            for value in (0, -1, 2**63 - 1, -(2**63), 12345):
                write(value)
                assert counter.get() == counter.get_volatile() == value
        assert counter.get_and_add(5) == 12345
        assert counter.get_and_add(-50) == 12350
        assert counter.compare_and_set(12300, 2**63 - 1)
        assert not counter.compare_and_set(12300, 1)
        assert counter.get_and_add(1) == 2**63 - 1
        assert counter.get() == -(2**63)
        for bad in (2**63, -(2**63) - 1):
            with pytest.raises(OverflowError):
                counter.set(bad)


def test_when_all_are_in_use_there_is_no_space() -> None:
    with Channel.create("few", "inbox", counters=3) as channel:
        counters = channel.counters()
        made = [counters.allocate(f"n{i}") for i in range(3)]
        with pytest.raises(NoSpaceError, match="counters") as caught:
            counters.allocate("one more")
        assert (caught.value.needed, caught.value.free, caught.value.unit) == (1, 0, "counters")
        made[1].set(99)
        made[1].free()
        assert [counter.id for counter in counters] == [0, 2]
        again = counters.allocate("again")
        assert (again.id, again.get()) == (1, 0)
    with Channel.create("no", "inbox", counters=0) as channel, pytest.raises(NoSpaceError):
        channel.counters().allocate("any")


def test_a_freed_counter_is_not_used_before_its_time() -> None:
    with Channel.create("later", "inbox", counters=2, _identity=Identity(now=5_000_000_000)) as early:
        early.counters().allocate("a").free()
        with Channel.open("later", _identity=Identity(now=4_000_000_000)) as earlier:
            assert earlier.counters().allocate("b").id == 1
        assert early.counters().allocate("c").id == 0


def test_labels_and_keys_have_limits() -> None:
    with Channel.create("limits", "inbox") as channel:
        counters = channel.counters()
        assert counters.allocate("ä" * 190, -(2**31), bytes(112)).label == "ä" * 190
        for label, type_id, key, argument in (
            ("ä" * 190 + "x", 0, b"", "label"),
            ("x", 0, bytes(113), "key"),
            ("x", 2**31, b"", "type_id"),
        ):
            with pytest.raises(InvalidArgumentError) as caught:
                counters.allocate(label, type_id, key)
            assert caught.value.argument == argument


def test_a_damaged_label_length_does_not_read_beyond_the_label() -> None:
    with Channel.create("damaged", "inbox") as channel:
        counter = channel.counters().allocate("fine")
        at = channel.header.counter_metadata_offset + layout.COUNTER_METADATA_LABEL_LENGTH
        for length in (-5, 2**31 - 1):
            channel._attached.memory.store32(at, length)
            assert len(counter.label) <= layout.COUNTER_METADATA_LABEL_MAX_LENGTH


RAISER = """
    import sys, flyring
    with flyring.Channel.open(sys.argv[1]) as channel:
        counter = channel.counters().find("shared")
        for i in range(20000):
            if i % 2:
                counter.get_and_add(1)
            else:
                while True:
                    value = counter.get_volatile()
                    if counter.compare_and_set(value, value + 1):
                        break
"""


def test_no_increment_is_lost_between_processes_and_threads(child: Callable[..., Child]) -> None:
    with Channel.create("shared", "inbox") as channel:
        counter = channel.counters().allocate("shared")
        children = [child(RAISER, channel.path) for _ in range(2)]

        def add(counter: Counter) -> None:
            for _ in range(20000):
                counter.get_and_add(1)

        threads = [threading.Thread(target=add, args=(counter,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [one.end() for one in children] == [0, 0]
        assert counter.get() == 80000


def test_after_close_counters_are_closed() -> None:
    with Channel.create("closed", "inbox") as channel:
        counters = channel.counters()
        counter = counters.allocate("n")
    for use in (counter.get, lambda: counter.set(1), lambda: counters.allocate("m"), lambda: counter.label):
        with pytest.raises(ClosedError):
            use()
