# SPDX-License-Identifier: Apache-2.0
"""Creating, replacing and removing channels (spec/channel.md 3.1, 3.2)."""

from __future__ import annotations

import errno
import os
import pickle
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import flyring
from flyring import (
    AccessDeniedError,
    Channel,
    ChannelDiffersError,
    ChannelExistsError,
    FlyringError,
    InvalidArgumentError,
    NoSpaceError,
    UnsuitableFileSystemError,
    channel_path,
    system,
    unlink,
)
from flyring._core import File


def test_a_new_channel_has_the_defaults_of_the_spec(folder: Path) -> None:
    with Channel.create("new", "inbox") as channel:
        assert channel.path == f"{folder}/new.ring"
        assert (channel.kind, channel.capacity, channel.publishers, channel.subscribers) == ("inbox", 1 << 20, 4, 1)
        assert (channel.alignment, channel.counter_count, channel.schema) == (64, 64, None)
        status = os.stat(channel.path)
        assert status.st_size == channel.header.file_length == 4_259_840
        assert status.st_blocks * 512 >= status.st_size
        assert stat.S_IMODE(status.st_mode) == 0o600
        with Channel.open("new") as other:
            assert other.id == channel.id
            assert other.created_at == channel.created_at


def test_mode_and_schema_are_as_asked_for() -> None:
    text = "<schema>größer</schema>" * 1000
    with Channel.create("s", "broadcast", mode=0o640, schema=text, schema_id=7, schema_version=65535) as channel:
        assert stat.S_IMODE(os.stat(channel.path).st_mode) == 0o640
        with Channel.open("s") as other:
            assert (other.schema, other.schema_id, other.schema_version) == (text, 7, 65535)


def test_an_existing_name_is_exists_and_stays_as_it_was() -> None:
    with Channel.create("taken", "inbox") as channel:
        with pytest.raises(ChannelExistsError) as caught:
            Channel.create("taken", "inbox")
        assert isinstance(caught.value, FileExistsError)
        assert caught.value.errno == errno.EEXIST
        with Channel.open("taken") as other:
            assert other.id == channel.id


def test_a_replaced_channel_works_on_for_its_users() -> None:
    with Channel.create("r", "broadcast") as old:
        publisher, subscriber = old.publisher(), old.subscriber()
        publisher.offer(b"before")
        subscriber.take()
        with Channel.replace("r", "broadcast", capacity=4096) as new, Channel.open("r") as found:
            assert found.id == new.id != old.id
            assert publisher.offer(b"still here")
            assert bytes(subscriber.take() or b"") == b"still here"
    with Channel.replace("fresh", "inbox") as fresh, Channel.open("fresh") as found:
        assert found.id == fresh.id


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("kind", {"kind": "broadcast"}),
        ("capacity", {"capacity": 8192, "publishers": 9}),
        ("publishers", {"publishers": 5, "counters": 1}),
        ("alignment", {"alignment": 8}),
        ("counters", {"counters": 3}),
        ("schema_id", {"schema_id": 4}),
        ("schema_version", {"schema_version": 4}),
    ],
)
def test_open_or_create_names_the_first_field_that_differs(field: str, options: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"kind": "inbox", "capacity": 4096, "schema": "<a/>", "schema_id": 1, "schema_version": 1}
    with Channel.open_or_create("o", **asked) as made, Channel.open_or_create("o", **asked) as found:
        assert made.id == found.id
        with pytest.raises(ChannelDiffersError) as caught:
            Channel.open_or_create("o", **(asked | options))
        with Channel.open_or_create("o", **(asked | {"schema": "<newer/>", "schema_version": 0})) as found:
            assert found.schema == "<a/>"  # only the id must be equal, and the version may be newer
    assert caught.value.field == field
    assert len(caught.value.expected) <= 200


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("kind", {"kind": "ring"}),
        ("capacity", {"capacity": 4097}),
        ("capacity", {"capacity": 2048}),
        ("capacity", {"capacity": 2**31}),
        ("publishers", {"publishers": 0}),
        ("publishers", {"publishers": 1025}),
        ("subscribers", {"subscribers": 0}),
        ("subscribers", {"subscribers": 1025}),
        ("alignment", {"alignment": 16}),
        ("counters", {"counters": -1}),
        ("counters", {"counters": 65537}),
        ("schema", {"schema": "x" * (2**24 + 1)}),
        ("schema_id", {"schema": "x", "schema_id": 65536}),
        ("schema_version", {"schema": "x", "schema_version": -1}),
    ],
)
def test_options_out_of_range_are_named(argument: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Channel.create("bad", **({"kind": "inbox"} | options))
    assert caught.value.argument == argument
    assert isinstance(caught.value, ValueError)


def test_kind_must_be_given_and_options_must_exist() -> None:
    with pytest.raises(TypeError, match="kind"):
        Channel.create("no-kind")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="sise"):
        Channel.create("typo", "inbox", sise=3)  # type: ignore[call-arg]


def test_names_and_paths(folder: Path) -> None:
    assert channel_path("a.B-c_9") == f"{folder}/a.B-c_9.ring"
    assert channel_path("./x") == f"{os.getcwd()}/./x"
    assert channel_path(folder / "some file") == f"{folder}/some file"
    for bad in ("", "a b", "ä", "x" * 65, "a\n", "a\0b"):
        with pytest.raises(InvalidArgumentError):
            channel_path(bad)
    with Channel.create(folder / "by path", "inbox") as channel:
        assert channel.path == f"{folder}/by path"
    unlink(folder / "by path")


def test_a_relative_folder_is_made_absolute(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("FLYRING_DIR", "relative")
    with Channel.create("c", "inbox") as channel:
        assert channel.path == f"{folder}/relative/c.ring"
        assert (folder / "relative" / "c.ring").exists()


def test_the_default_folder_is_made_private_and_refused_when_it_is_not(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.delenv("FLYRING_DIR")
    assert channel_path("n") == f"/dev/shm/flyring-{os.geteuid()}/n.ring"
    default = folder / "default"
    monkeypatch.setattr(system, "default_folder", lambda: str(default))
    with pytest.raises(flyring.NoSuchChannelError):
        Channel.open("first")
    assert not default.exists()
    Channel.create("first", "inbox").close()
    assert stat.S_IMODE(default.stat().st_mode) == 0o700
    default.chmod(0o720)
    for attempt in (lambda: Channel.open("first"), lambda: Channel.create("second", "inbox"), lambda: unlink("first")):
        with pytest.raises(AccessDeniedError, match="others may write"):
            attempt()
    default.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(default, 65534, 65534)
        with pytest.raises(AccessDeniedError, match="belongs to user 65534"):
            Channel.open("first")
    elsewhere = folder / "elsewhere"
    default.rename(elsewhere)
    default.symlink_to(elsewhere)
    with pytest.raises(AccessDeniedError, match="not a folder"):
        Channel.open("first")


def test_twenty_creates_and_unlinks_leave_no_file_behind(folder: Path) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    for i in range(20):
        with (
            Channel.create("again", "inbox" if i % 2 else "broadcast") as channel,
            channel.publisher() as publisher,
            channel.subscriber() as subscriber,
        ):
            publisher.offer(b"x")
            subscriber.take()
        unlink("again")
    assert os.listdir(folder) == []
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_failed_creates_leave_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Channel.create("there", "inbox").close()
    for attempt in (Channel.create, Channel.replace):
        with monkeypatch.context() as patch:

            def refuse(file: File, path: str) -> None:
                raise UnsuitableFileSystemError(path, "for the test")

            patch.setattr("flyring.channel.test_locks", refuse)
            with pytest.raises(UnsuitableFileSystemError):
                attempt("new", "inbox")
    with pytest.raises(ChannelExistsError):
        Channel.create("there", "inbox")
    assert os.listdir(folder) == ["there.ring"]


def test_file_systems_without_nameless_files_work_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = 0

    def no_nameless(path: str, flags: int, mode: int = 0) -> File:
        nonlocal refused
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            refused += 1
            raise OSError(errno.EOPNOTSUPP, "no O_TMPFILE here")
        return File(path, flags, mode)

    monkeypatch.setattr(system, "File", no_nameless)
    Channel.create("plain", "inbox").close()
    Channel.replace("plain", "inbox").close()
    with pytest.raises(ChannelExistsError):
        Channel.create("plain", "inbox")
    assert refused == 2
    assert os.listdir(folder) == ["plain.ring"]


def test_an_unknown_file_system_is_refused_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "FILE_SYSTEMS", {0xEF53})
    with pytest.raises(UnsuitableFileSystemError) as caught:
        Channel.create("odd", "inbox")
    assert isinstance(caught.value, OSError)
    Channel.create("odd", "inbox", any_file_system=True).close()
    with pytest.raises(UnsuitableFileSystemError):
        Channel.open("odd")
    with Channel.open("odd", any_file_system=True) as channel, pickle.loads(pickle.dumps(channel)) as again:
        assert again.id == channel.id


def test_a_file_system_without_locks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lockless:
        def try_lock(self, at: int) -> bool:
            return True

        def is_locked(self, at: int) -> bool:
            return False

        def close(self) -> None:
            pass

    monkeypatch.setattr(system, "new_lock", lambda file, path: Lockless())
    with pytest.raises(UnsuitableFileSystemError, match="locks"):
        Channel.create("lockless", "inbox")


def test_a_file_system_that_is_full_says_needed_and_free_bytes(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a tmpfs of 1 MiB")
    small = folder / "small"
    small.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], stderr=subprocess.PIPE, text=True
    )
    if "permission denied" in mount.stderr:
        pytest.skip(f"root may not mount here (a container): {mount.stderr}")
    assert mount.returncode == 0, mount.stderr
    try:
        with pytest.raises(NoSpaceError) as caught:
            Channel.create(small / "big", "inbox")
        assert caught.value.needed == 4_259_840
        assert 0 < caught.value.free <= 1 << 20
        assert caught.value.errno == errno.ENOSPC
        assert "4259840" in str(caught.value)
        assert list(small.iterdir()) == []
        Channel.create(small / "fits", "inbox", capacity=65536, counters=0).close()
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_file_system_that_fills_meanwhile_is_no_space_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(NoSpaceError):
        Channel.create("big", "inbox")
    assert os.listdir(folder) == []


def test_a_file_size_limit_is_no_space_and_no_signal(folder: Path, child: Any) -> None:
    code = """
        import resource, sys
        from flyring import Channel, NoSpaceError
        resource.setrlimit(resource.RLIMIT_FSIZE, (65536, resource.RLIM_INFINITY))
        for make in (Channel.create, Channel.replace, Channel.open_or_create):
            try:
                make("limited", "inbox")
            except NoSpaceError as error:
                print(error.needed, error.free, flush=True)
        with Channel.create("small", "inbox", capacity=4096, publishers=1, counters=0) as channel:
            print(channel.publisher().offer(b"fits") > 0, flush=True)
    """
    limited = child(code)
    assert [limited.line() for _ in range(4)] == ["4259840 65536"] * 3 + ["True"]
    assert limited.end() == 0
    assert os.listdir(folder) == ["small.ring"]


def pretend(monkeypatch: pytest.MonkeyPatch, kind: int) -> None:
    """Pretends another file system."""
    monkeypatch.setattr(system, "file_system_type", lambda fd: kind)


def test_btrfs_is_refused_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Channel.create("tree", "inbox").close()
    pretend(monkeypatch, system.BTRFS)
    for attempt in (lambda: Channel.create("new", "inbox"), lambda: Channel.open("tree")):
        with pytest.raises(UnsuitableFileSystemError, match="btrfs: when its disk is full"):
            attempt()
    assert os.listdir(folder) == ["tree.ring"]
    Channel.create("new", "inbox", any_file_system=True).close()


def test_overlay_is_not_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, system.OVERLAY)
    Channel.create("layers", "inbox").close()
    Channel.open("layers").close()
    with pytest.raises(UnsuitableFileSystemError, match="overlay: a reader may keep an old copy"):
        Channel.open("layers", read_only=True)
    Channel.open("layers", read_only=True, any_file_system=True).close()


def test_a_creator_that_is_killed_leaves_no_name(folder: Path, child: Any) -> None:
    code = """
        import os, signal, flyring.channel
        real = flyring.channel.write_content
        def die(*args):
            real(*args)
            os.kill(os.getpid(), signal.SIGKILL)
        flyring.channel.write_content = die
        flyring.Channel.create("killed", "inbox")
    """
    assert child(code).process.wait() == -9
    assert os.listdir(folder) == []


RACER = """
    import sys, flyring
    print("ready", flush=True)
    missing = attached = 0
    for line in sys.stdin:
        name = line.strip()
        while True:
            try:
                channel = flyring.Channel.open(name)
                break
            except flyring.NoSuchChannelError:
                missing += 1
        attached += 1
        assert channel.schema == name * 50, "not whole"
        with channel.subscriber() as subscriber:
            pass
        channel.close()
        print("attached", flush=True)
    print(missing, attached, flush=True)
"""


@pytest.mark.long
def test_opening_while_it_is_created_finds_nothing_or_all_of_it(child: Any) -> None:
    racer = child(RACER)
    assert racer.line() == "ready"
    for i in range(1000):
        name = f"race-{i}"
        racer.say(name)
        for _ in range(i % 50 * 20):
            pass
        Channel.create(name, "inbox", capacity=4096, schema=name * 50).close()
        assert racer.line() == "attached"
        unlink(name)
    racer.process.stdin.close()
    missing, attached = map(int, racer.line().split())
    assert attached == 1000
    assert missing > 0
    racer.process.stdin = None


def test_of_many_creators_at_once_one_makes_it(child: Any) -> None:
    code = """
        import sys, flyring
        print("ready", flush=True)
        for line in sys.stdin:
            with flyring.Channel.open_or_create(line.strip(), "inbox", capacity=4096) as channel:
                print(channel.id, flush=True)
    """
    others = [child(code), child(code)]
    assert [other.line() for other in others] == ["ready", "ready"]
    for i in range(50):
        for other in others:
            other.say(f"many-{i}")
        assert len({other.line() for other in others}) == 1


def test_every_error_can_be_pickled() -> None:
    attempts: list[Callable[[], Any]] = [lambda: Channel.open("none"), lambda: Channel.create("", "inbox")]
    for attempt in attempts:
        with pytest.raises(FlyringError) as caught:
            attempt()
        again = pickle.loads(pickle.dumps(caught.value))
        assert (type(again), str(again), vars(again)) == (type(caught.value), str(caught.value), vars(caught.value))
