# SPDX-License-Identifier: Apache-2.0
"""Tables: a writer that dies at any store, or is stopped or killed; what readers see of it; concurrency with exact
accounting; what is left of an operation that is disturbed in this process (spec/table.md 3, 5, 7)."""

from __future__ import annotations

import asyncio
import contextlib
import copy as copying
import gc
import os
import pickle
import signal
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import Child, in_child
from flyring import (
    ClosedError,
    FlyringError,
    InvalidArgumentError,
    NoFreeSlotError,
    SlotLostError,
    Table,
    TimedOutError,
    TwoThreadsError,
    layout,
    table_path,
)
from flyring._identity import Identity
from flyring.table_check import broken_rules
from tables import DyingWriter, die_at
from test_survivors import descriptors, interrupted, quick_collections  # noqa: F401

CONTROL = layout.HEADER_LENGTH


CHANGES: dict[str, tuple[Callable[[DyingWriter], Iterator[None]], str, bytes | None, bytes | None]] = {
    "put": (lambda writer: writer.put(b"a", b"new value"), "a", b"old", b"new value"),
    "insert": (lambda writer: writer.put(b"new", b"new value"), "new", None, b"new value"),
    "remove": (lambda writer: writer.remove(b"a"), "a", b"old", None),
}


@pytest.mark.parametrize("moving", [False, True], ids=["", "rebuild"])
@pytest.mark.parametrize("reused", [False, True], ids=["", "reused"])
@pytest.mark.parametrize("change", CHANGES)
def test_writer_dies_at_each_store(change: str, reused: bool, moving: bool) -> None:
    do, key, old, new = CHANGES[change]
    store, ended = 0, False
    while not ended:
        store += 1
        with Table.replace("t", capacity=12, key="text", value_bytes=16) as table:
            for one in ("a", "b", "c", "d", "e"):
                table[one] = b"old"
            if reused:
                del table["b"], table["e"]
            if moving:
                start_rebuild(table)
            expected = dict(table)
            ended = not die_at(do(DyingWriter(table)), store)
            with Table.open("t", read_only=True) as reader:
                seen = reader.get(key)
                assert seen in (old, new), store
                assert {one: value for one, value in reader.items() if one != key} == {
                    one: value for one, value in expected.items() if one != key
                }
                seen_version = reader.version
                with Table.open("t") as other:
                    with other.writer():
                        pass
                    assert [*broken_rules(other)] == [], store
                    assert reader.get(key) == seen, store  # the next writer changes nothing that readers see
                    assert len(reader) == len(list(reader)), store
                    stamp = table._memory.load64(CONTROL + layout.TABLE_CONTROL_STAMP)
                    assert reader.version == stamp >= seen_version, store  # take 4
                    other[key] = b"next"
                    other["z"] = b"z"
                    assert other.remove(key)
                    for number in range(40):  # ends the rebuild, too
                        other["z"] = b"%d" % number
                        other[f"more{number % 3}"] = b""
                    assert [*broken_rules(other)] == [], store
                    assert key not in reader
    assert store > 8


def start_rebuild(table: Table) -> None:
    """Brings the table to a rebuild that moves entries: `rebuild` is above N."""
    filled = layout.HEADER_LENGTH + layout.TABLE_CONTROL_FILLED
    table._memory.store64(filled, table.header.entries)
    for _ in range(2):
        table["a"] = b"old"
    assert table._memory.load64(CONTROL + layout.TABLE_CONTROL_REBUILD) > table.header.entries


def test_killed_writers(child: Callable[..., Child]) -> None:
    """Each child changes the table until it is killed. No value is torn, no version goes back, and the next one goes
    on."""
    code = """
        import flyring, random, sys
        chance = random.Random(int(sys.argv[1]))
        with flyring.Table.open("t") as table, table.writer("child", timeout=10) as writer:
            print("ready", flush=True)
            while True:
                key = chance.randrange(60)
                if chance.random() < 0.3:
                    writer.remove(key)
                else:
                    writer.put(key, bytes([chance.randrange(256)]) * chance.randrange(100))
        """
    with Table.create("t", capacity=60, key="integer", value_bytes=100) as table:
        versions: dict[int, int] = {}
        last = 0
        for seed in range(8):
            one = child(code, str(seed))
            assert one.line() == "ready"
            end = time.monotonic() + 0.05
            while time.monotonic() < end:
                for key in range(60):
                    found = table.get_versioned(key)
                    if found is not None:
                        assert len(set(found[0])) <= 1
                        assert found[1] >= versions.get(key, 0)
                        versions[key] = found[1]
                for key, value in table.items():
                    assert 0 <= key < 60
                    assert len(set(value)) <= 1
                assert table.version >= last
                last = table.version
            one.kill()
            before = dict(table)
            with table.writer(timeout=5):
                assert dict(table) == before
                assert [*broken_rules(table)] == []


def test_stopped_writer_holds_writers_but_no_reader(child: Callable[..., Child]) -> None:
    with Table.create("t", capacity=4, key="text", value_bytes=8) as table:
        table["a"] = b"1"
        one = child(
            """
            import flyring
            with flyring.Table.open("t") as table, table.writer("stopped"):
                print("ready", flush=True)
                input()
            """
        )
        assert one.line() == "ready"
        os.kill(one.process.pid, signal.SIGSTOP)
        assert table["a"] == b"1"
        with pytest.raises(NoFreeSlotError) as caught:
            table.put("a", b"2", timeout=0.02)
        assert (caught.value.owners[0].name, caught.value.owners[0].pid) == ("stopped", one.process.pid)
        one.kill()
        assert table.put("a", b"2", timeout=5)
        assert table["a"] == b"2"


def test_two_processes_take_turns(child: Callable[..., Child]) -> None:
    """Single puts of several processes: each adds one to a counter by compare_and_put. None is lost."""
    code = """
        import flyring
        with flyring.Table.open("t") as table:
            done = 0
            while done < 200:
                value, version = table.get_versioned("n")
                if table.compare_and_put("n", version, b"%d" % (int(value) + 1)):
                    done += 1
        print("done", flush=True)
        """
    with Table.create("t", capacity=4, key="text", value_bytes=8) as table:
        table["n"] = b"0"
        children = [child(code) for _ in range(3)]
        assert [one.line() for one in children] == ["done"] * 3
        assert table["n"] == b"600"
        assert [*broken_rules(table)] == []


def test_exception_in_a_signal_handler_leaves_the_slot_free() -> None:
    def handler(*_: Any) -> None:
        raise InterruptedError

    with Table.create("t", capacity=4, key="text", value_bytes=8) as table, Table.open("t") as other:
        before = signal.signal(signal.SIGALRM, handler)
        try:
            with table.writer():
                signal.setitimer(signal.ITIMER_REAL, 0.02)
                with pytest.raises(InterruptedError):
                    other.put("a", b"1")
        finally:
            signal.signal(signal.SIGALRM, before)
        assert other.put("a", b"2", timeout=0)
        assert table["a"] == b"2"


# In this process


@pytest.fixture
def table() -> Iterator[Table]:
    with Table.create("t", capacity=16, key="text", value_bytes=48) as one:
        yield one
        if not one.closed:
            assert [*broken_rules(one)] == []


def take_and_write() -> None:
    with Table.open("t") as table, table.writer("w") as writer:
        writer.put("a", b"2")
        writer.remove("b")
        writer["b"] = b"2"
        writer.update("a", lambda value: None)


def change_alone() -> None:
    with Table.open("t") as table:
        table["a"] = b"2"
        table.update("a", lambda value: None)
        table.update({"b": b"2"})
        table.compare_and_put("a", 1, b"")
        del table["b"]


def clear_and_fill() -> None:
    with Table.open("t") as table:
        table.clear()
        table["a"] = table["b"] = b"2"


def grow() -> None:
    with Table.open("t") as table:
        table.grow(table.capacity + 1)


def grow_a_writer() -> None:
    with Table.open("t") as table, table.writer("w") as writer:
        writer.grow(table.capacity + 1)
        writer.put("a", b"2")


def copy() -> None:
    with Table.open("t") as table:
        table.snapshot("s")


def close_synced() -> None:
    with Table.open("t") as table:
        table["a"] = b"2"
        table.close(sync=True)


def wait() -> None:
    with Table.open("t") as table:
        for key in ("a", "none"):
            with contextlib.suppress(TimedOutError):
                table.wait_changed(key, table._version_of(key), timeout=0.0001)
        with contextlib.suppress(NoFreeSlotError), table.writer(), Table.open("t") as other:
            other.put("a", b"", timeout=0.0001)


def wait_in_a_loop() -> None:
    async def main() -> None:
        with Table.open("t") as table:
            for key in ("a", None):
                with contextlib.suppress(TimedOutError):
                    await table.changed(key, timeout=0.0001)

    asyncio.run(main())


STEP = 149  # try an interrupt at every so many instructions
OPERATIONS = [
    take_and_write,
    change_alone,
    clear_and_fill,
    grow,
    grow_a_writer,
    copy,
    close_synced,
    wait,
    wait_in_a_loop,
]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.usefixtures("quick_collections")
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_at_any_instruction_leaves_nothing_behind(operation: Callable[[], None], folder: Path) -> None:
    with Table.create("t", capacity=4, key="text", value_bytes=8, checked=True) as table:
        table["a"] = table["b"] = b"1"
        table.snapshot("s")
        operation()
        gc.collect()
        before = descriptors()
        n, done = 1, 0
        while interrupted(operation, n):
            gc.collect()
            assert descriptors() == before, n
            assert sorted(os.listdir(folder)) == ["s.table", "t.table"], n
            with Table.open("t") as other, Table.open("s") as snapshot, other.writer():  # at once: no lock is held
                assert [*broken_rules(other)] == [*broken_rules(snapshot)] == [], n
                assert {*other.items()} <= {("a", b"1"), ("a", b"2"), ("b", b"1"), ("b", b"2")}, n
                assert other._memory.load32(CONTROL + layout.TABLE_CONTROL_SUCCESSOR) == 0, n
            done += 1
            n += STEP
        assert done >= 3


def test_threads_share_a_table() -> None:
    """Each thread adds to a counter; single changes of one object are one after the other."""
    with Table.create("t", capacity=4, key="text", value_bytes=8) as table:
        table["n"] = b"0"

        def add() -> None:
            for _ in range(300):
                table.update("n", lambda value: value.__setitem__(slice(None), b"%d" % (int(value) + 1)))

        threads = [threading.Thread(target=add) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert table["n"] == b"900"


def test_second_thread_waits_for_a_recovery() -> None:
    with Table.create("t", capacity=4, key="text", value_bytes=8, checked=True) as table:
        table["a"] = b"1"
    begun, go_on = threading.Event(), threading.Event()

    def progress(done: int, cells: int) -> None:
        begun.set()
        assert go_on.wait(30)

    identity = Identity(boot_id=uuid.uuid4())
    with Table.open("t", recovery_progress=progress, _identity=identity) as table:
        one = threading.Thread(target=lambda: table.put("b", b"2"))
        other = threading.Thread(target=lambda: table.put("c", b"3"))
        one.start()
        assert begun.wait(30)
        other.start()
        with pytest.raises(TwoThreadsError):
            table.close()
        with pytest.raises(NoFreeSlotError):
            table.put("d", b"4", timeout=0.01)
        go_on.set()
        one.join()
        other.join()
        assert dict(table) == {"a": b"1", "b": b"2", "c": b"3"}


def test_another_thread_waits_for_the_handler_of_an_update() -> None:
    with Table.create("t", capacity=4, key="text", value_bytes=8) as table:
        table["a"] = b"1"
        threads: list[threading.Thread] = []

        def handler(value: bytearray) -> None:
            threads.append(threading.Thread(target=lambda: table.put("a", b"3")))
            threads[0].start()
            time.sleep(0.02)
            assert table["a"] == b"1"
            value[:] = b"2"

        version = table.update("a", handler)
        threads[0].join()
        assert table["a"] == b"3"
        assert table.version == (version >> 1) + 1
        with table.writer() as writer:
            caught: list[BaseException] = []

            def beside() -> None:
                try:
                    writer.put("a", b"x")
                except TwoThreadsError as error:
                    caught.append(error)

            def call(value: bytearray) -> None:
                thread = threading.Thread(target=beside)
                thread.start()
                thread.join()

            writer.update("a", call)
            assert len(caught) == 1


@pytest.mark.parametrize("kind", ["key", "table", "slot"])
def test_signal_ends_a_wait(kind: str) -> None:
    class StopError(Exception):
        pass

    def handler(*_: Any) -> None:
        raise StopError

    with Table.create("t", capacity=4, key="text", value_bytes=8) as table, Table.open("t") as other:
        table["a"] = b"1"
        waits: dict[str, Callable[[], object]] = {
            "key": lambda: other.wait_changed("a", table._version_of("a")),
            "table": lambda: other.wait_changed(table.version),
            "slot": lambda: other.writer(timeout=None),
        }
        before = signal.signal(signal.SIGALRM, handler)
        try:
            with contextlib.ExitStack() as stack:
                if kind == "slot":
                    stack.enter_context(table.writer())
                signal.setitimer(signal.ITIMER_REAL, 0.02)
                with pytest.raises(StopError):
                    waits[kind]()
        finally:
            signal.signal(signal.SIGALRM, before)
        assert table.put("a", b"2", timeout=0)


@pytest.mark.parametrize("verb", ["update", "read"])
def test_fork_in_a_handler_goes_on_in_the_parent_only(verb: str) -> None:
    with Table.create("t", capacity=4, key="text", value_bytes=8) as table:
        table["a"] = b"1"
        children: list[int] = []

        def fork(value: object) -> None:
            children.append(os.fork())
            if 0 in children:
                table.close()  # does nothing in the child

        try:
            getattr(table, verb)("a", fork)
        except ClosedError:
            os._exit(7)
        if 0 in children:
            os._exit(1)
        assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [7]
        assert table.put("a", b"2", timeout=0)
        assert [*broken_rules(table)] == []


def test_forked_child_does_not_keep_its_dead_parents_slot(child: Callable[..., Child]) -> None:
    one = child(
        """
        import os, sys, time, flyring
        table = flyring.Table.open("t")
        writer = table.writer("parent")
        table.wait_changed(table.version - 1, timeout=0)
        pid = os.fork()
        if pid == 0:
            time.sleep(60)
        print(pid, flush=True)
        sys.stdin.read()
        """
    )
    with Table.create("t", capacity=4, key="text", value_bytes=8) as table:
        table["a"] = b"1"
        orphan = int(one.line())
        try:
            with pytest.raises(NoFreeSlotError, match="parent"):
                table.put("a", b"2", timeout=0)
            one.kill()
            assert table.put("a", b"2", timeout=5)
        finally:
            os.kill(orphan, signal.SIGKILL)


def test_descriptors_closed_by_other_code() -> None:
    """After closefrom another process may take the slot: the old owner finds that, and unlocks nothing of others."""

    def work() -> None:
        warnings.simplefilter("ignore")
        table = Table.open("t")
        writer = table.writer("old")
        table.wait_changed(0, timeout=0)
        os.closerange(3, 1000)
        with Table.open("t") as other, other.writer("new") as new:
            refused: list[Callable[[], object]] = [lambda: writer.put("a", b"x"), writer.clear]
            for use in refused:
                with pytest.raises(SlotLostError):
                    use()
            writer.close()
            table.close()
            gc.collect()
            with Table.open("t") as third, pytest.raises(NoFreeSlotError, match="new"):
                third.put("a", b"", timeout=0)
            new["a"] = b"mine"

    with Table.create("t", capacity=4, key="text", value_bytes=8) as table:
        table["a"] = b"1"
        in_child(work)
        assert table["a"] == b"mine"
        assert [*broken_rules(table)] == []


def test_writers_and_entries_cannot_be_pickled_or_copied() -> None:
    with Table.create("t", capacity=4, key="text", value_bytes=8) as table, table.writer() as writer:
        writer["a"] = b"1"
        for one in (writer, writer.entry("a"), table.entry("a")):
            with pytest.raises(TypeError):
                pickle.dumps(one)
            with pytest.raises(TypeError):
                copying.copy(one)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="before Python 3.12, a buffer is not Python code")
def test_buffer_that_closes_the_table_is_harmless() -> None:
    class Key:
        def __buffer__(self, flags: int) -> memoryview:
            table.close()
            return memoryview(b"a")

    key: Any = Key()
    uses: list[Callable[[], object]] = [
        lambda: table.get(key),
        lambda: table[key],
        lambda: key in table,
        lambda: table.read(key, bytes),
        lambda: table.get_versioned(key),
        lambda: table.put(key, b""),
        lambda: table.put(b"a", key),
        lambda: table.remove(key),
        lambda: table.update(key, lambda value: None),
        lambda: table.wait_changed(key, 1, timeout=0),
        lambda: writer.put(key, b""),
        lambda: writer.put(b"a", key),
        lambda: writer.remove(key),
        lambda: own.put(key),
        lambda: table.entry(key),
    ]
    for number, use in enumerate(uses):
        with Table.replace("t", capacity=4, key="bytes", value_bytes=8) as table:
            table[b"a"] = b"1"
            if number < 10:
                with pytest.raises((ClosedError, InvalidArgumentError)):
                    use()
                continue
            writer = table.writer()
            entry = writer.entry(b"a")
            assert entry is not None
            own = entry
            with pytest.raises((ClosedError, InvalidArgumentError, TypeError)):
                use()
            writer.close()


def test_python_code_between_check_and_use_is_harmless() -> None:
    class Version:
        def __index__(self) -> int:
            table.close()
            return 1

    version: Any = Version()
    uses: list[Callable[[], object]] = [
        lambda: table.compare_and_put("a", version, b""),
        lambda: writer.compare_and_put("a", version, b""),
        lambda: table.wait_changed("a", version, timeout=0),
        lambda: table.wait_changed(version, timeout=0),
        lambda: table._scan(version),
        lambda: writer._clear(version),
    ]
    for use in uses:
        with Table.replace("t", capacity=4, key="text", value_bytes=8) as table:
            table["a"] = b"1"
            writer = table.writer()
            with pytest.raises(FlyringError) as caught:
                use()
            assert caught.value.code in ("closed", "busy")
            assert table.closed or caught.value.code == "busy"


def test_everything_is_closed(table: Table) -> None:
    table["a"] = b"1"
    entry, writer = table.entry("a"), table.writer()
    assert entry is not None
    table.close()
    table.close()
    for refused in (
        lambda: table["a"],
        lambda: table.put("a", b""),
        lambda: "a" in table,
        lambda: len(table),
        lambda: list(table),
        lambda: table.version,
        lambda: table.stats(),
        lambda: table.read("a", bytes),
        lambda: table.wait_changed(0),
        lambda: table.snapshot("s"),
        lambda: table.writer(),
        lambda: entry.get(),
        lambda: entry.version,
        lambda: writer.put("a", b""),
        lambda: writer.clear(),
    ):
        with pytest.raises(ClosedError):
            refused()


def test_unclosed_table_warns() -> None:
    table = Table.create("t", capacity=4, key="text", value_bytes=8)
    with pytest.warns(ResourceWarning, match="unclosed"):
        del table
        gc.collect()


def test_forked_child_has_nothing(table: Table) -> None:
    table["a"] = b"1"
    with table.writer() as writer:

        def child_does() -> None:
            for refused in (lambda: table["a"], lambda: writer.put("a", b"2"), lambda: table.put("a", b"2")):
                with pytest.raises(ClosedError):
                    refused()
            with Table.open("t") as own, pytest.raises(NoFreeSlotError):
                own.put("a", b"3", timeout=0)

        in_child(child_does)
        assert writer.put("a", b"still mine")
    assert table["a"] == b"still mine"


def test_pickle_opens_again(table: Table) -> None:
    table["a"] = b"1"
    with pickle.loads(pickle.dumps(table)) as other:
        assert (other["a"], other.path) == (b"1", table_path("t"))


def test_two_threads_during_a_recovery(table: Table) -> None:
    """Python code that runs under the lock of single changes cannot change the table itself."""
    caught: list[type[BaseException]] = []

    def renew() -> None:
        try:
            table.put("b", b"")
        except TwoThreadsError as error:
            caught.append(type(error))
        Table._renew_boot(table)

    table._ready = False
    table.__dict__["_renew_boot"] = renew
    table["a"] = b"1"
    assert caught == [TwoThreadsError]
    assert dict(table) == {"a": b"1"}
