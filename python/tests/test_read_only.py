# SPDX-License-Identifier: Apache-2.0
"""A channel that is opened read-only (spec/channel.md 3.3) cannot be written."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flyring import AccessDeniedError, Channel, NoSuchChannelError, TruncatedError, layout


def test_the_file_is_opened_and_mapped_for_reading_only() -> None:
    with Channel.create("ro", "broadcast"):
        pass
    with Channel.open("ro", read_only=True) as channel:
        assert fcntl.fcntl(channel._attached.file.fileno(), fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if channel.path in line]
        assert {line[1] for line in maps} == {"r--s"}


def test_a_file_without_write_permission_can_be_opened_read_only(folder: Path) -> None:
    with Channel.create("mode", "broadcast", mode=0o400) as channel, channel.publisher() as publisher:
        before = (folder / "mode.ring").read_bytes()
        with Channel.open("mode", read_only=True) as other, other.lossy_subscriber() as reader:
            assert reader.take() is None
        assert (folder / "mode.ring").read_bytes() == before
        with Channel.open("mode", read_only=True) as other, other.lossy_subscriber() as reader:
            publisher.offer(b"x")
            assert reader.take() == b"x"


def test_what_would_write_is_access_denied() -> None:
    with Channel.create("denied", "inbox") as channel:
        channel.counters().allocate("n").set(5)
        before = Path(channel.path).read_bytes()
        with Channel.open("denied", read_only=True) as other:
            counters = other.counters()
            counter = next(iter(counters))
            assert [c.label for c in counters] == ["n"]
            assert (counter.get(), counter.get_volatile(), counter.type_id) == (5, 5, 0)
            uses: list[Callable[[], Any]] = [
                other.publisher,
                other.subscriber,
                lambda: other.subscriber("a", kept=True),
                lambda: other.evict(0),
                lambda: counters.allocate("m"),
                counter.free,
                lambda: counter.set(1),
                lambda: counter.set_volatile(1),
                lambda: counter.set_release(1),
                lambda: counter.get_and_add(1),
                lambda: counter.compare_and_set(5, 6),
                lambda: counter.compare_and_set(4, 6),
                lambda: other._attached.memory.write(0, b"x"),
            ]
            for use in uses:
                with pytest.raises(AccessDeniedError, match="reading only") as caught:
                    use()
                assert (caught.value.path, isinstance(caught.value, PermissionError)) == (channel.path, True)
            assert "reading" in caught.value.reason
        assert Path(channel.path).read_bytes() == before


def test_pickling_keeps_read_only() -> None:
    with Channel.create("pickled", "broadcast") as channel:
        for read_only in (False, True):
            with Channel.open("pickled", read_only=read_only) as one, pickle.loads(pickle.dumps(one)) as two:
                for each in (one, two):
                    if read_only:
                        with pytest.raises(AccessDeniedError):
                            each.publisher()
                    else:
                        each.publisher().close()
        assert channel.id == one.id


def test_the_checks_are_those_of_open(folder: Path) -> None:
    with pytest.raises(NoSuchChannelError):
        Channel.open("none", read_only=True)
    Channel.create("cut", "broadcast").close()
    os.truncate(folder / "cut.ring", layout.HEADER_LENGTH + 100)
    with pytest.raises(TruncatedError):
        Channel.open("cut", read_only=True)


def test_it_needs_no_locks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Channel.create("nolocks", "broadcast").close()

    def refuse(*arguments: Any) -> Any:
        raise AssertionError("no lock is needed")

    monkeypatch.setattr("flyring.system.new_lock", refuse)
    monkeypatch.setattr("flyring.channel.test_locks", refuse)
    with Channel.open("nolocks", read_only=True) as channel, channel.lossy_subscriber() as reader:
        assert reader.take() is None
        assert len(os.listdir(folder)) == 1
