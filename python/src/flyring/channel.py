# SPDX-License-Identifier: Apache-2.0
"""A channel: one mapped file with rings and slots (spec/api.md, spec/channel.md 3)."""

from __future__ import annotations

import contextlib
import os
import warnings
import weakref
from collections.abc import Iterable, Iterator
from operator import index
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack
from uuid import UUID

from . import layout
from ._core import File, Memory, close_all
from ._identity import REAL, Identity
from .attaching import attached, once_there, opened_or_created
from .client import Client
from .closing import Closing
from .content import Options, describe, write_content
from .counters import Counters
from .errors import (
    AccessDeniedError,
    ChannelDiffersError,
    ChannelReplacedError,
    ClosedError,
    FlyringError,
    InvalidArgumentError,
)
from .header import Delivery, Foreign, Header, Kind
from .lossy import LossySubscriber, Start, WhenLapped
from .publisher import Publisher
from .server import Server
from .services import (
    evict_server,
    give_client_back,
    give_server_back,
    take_client_place,
    take_server_place,
)
from .slots import (
    Attached,
    check_max_lag,
    check_name,
    check_subscriber,
    evict,
    evict_worker,
    give_back,
    take_publisher_slot,
    take_subscriber_slot,
    take_worker_slot,
)
from .stats import Look, Stats
from .subscriber import Subscriber
from .system import (
    channel_path,
    create_file,
    failed,
    open_file,
    remove,
    test_locks,
)
from .wait import Wait, check_timeout, check_wait
from .worker import Worker

if TYPE_CHECKING:
    from .sbe.schema import Schema


User = TypeVar("User", Publisher, Subscriber, LossySubscriber, Worker, Server, Client)


class Channel(Closing):
    """An attached channel: one memory-mapped file with rings and slots.

    Made by ``create``, ``open``, ``open_or_create``, ``replace`` or ``wait_for``. The ``name`` argument of these
    methods is a name or a path: a string with a ``/`` is a path. A name matches ``[A-Za-z0-9._-]{1,64}`` and stands for
    the file ``<folder>/<name>.ring``. The folder is ``/dev/shm/flyring-<uid>``, unless FLYRING_DIR is set.

    A channel is a context manager: leaving the ``with`` block closes it. Unpickling a channel attaches to its path
    again. In a forked child process every channel is closed, so the child must open it again.
    """

    def __init__(
        self,
        file: File,
        path: str,
        header: Header,
        schema: bytes,
        identity: Identity,
        any_file_system: bool,
        wake: bool,
        read_only: bool = False,
    ) -> None:
        """Internal: use the class methods. The new channel owns ``file`` once this returns."""
        self._pid = os.getpid()
        self._users: weakref.WeakSet[Publisher | Subscriber | LossySubscriber | Worker | Server | Client] = (
            weakref.WeakSet()
        )
        self._schema = schema
        self._any_file_system = any_file_system
        self._read_only = read_only
        self._data = memory = Memory(file, header.sections_end, False, path)
        if not read_only:
            memory = Memory(file, header.sections_end, True, path)
        self._attached = Attached(path, file, header, memory, identity, wake)
        self._look: Look | None = None
        self._closed = False

    @classmethod
    def create(
        cls, name: str | os.PathLike[str], kind: Kind, *, _identity: Identity = REAL, **options: Unpack[Options]
    ) -> Self:
        """Creates the channel's file and attaches to it. Other processes see the complete file or none.

        ``kind``: "inbox" (one reader; messages published before it attaches wait for it), "broadcast" (every subscriber
        gets every message), "queue" (each message goes to one worker), or "service" (requests and replies).
        ``options``: see ``flyring.Options``.

        Raises InvalidArgumentError, ChannelExistsError, NoSpaceError, UnsuitableFileSystemError, AccessDeniedError or
        IoError.
        """
        return cls._create(channel_path(name), describe(kind, options, _identity), options, _identity, replace=False)

    @classmethod
    def replace(
        cls, name: str | os.PathLike[str], kind: Kind, *, _identity: Identity = REAL, **options: Unpack[Options]
    ) -> Self:
        """Like ``create``, but replaces an existing file of that name. Processes that are attached to the old file keep
        it, and get ChannelReplacedError when they next wait."""
        return cls._create(channel_path(name), describe(kind, options, _identity), options, _identity, replace=True)

    @classmethod
    def open(
        cls,
        name: str | os.PathLike[str],
        *,
        read_only: bool = False,
        schema: Schema | None = None,
        min_schema_version: int = 0,
        any_file_system: bool = False,
        wake: bool = True,
        _identity: Identity = REAL,
    ) -> Self:
        """Attaches to an existing channel, after a full check of its header (spec/channel.md 3.3).

        ``read_only``: opens and maps the file for reading only. Lossy subscribers, ``stats`` and reading counters work;
        every method that would write raises AccessDeniedError.

        ``schema``: the channel must have a schema with the same id; any version will do (spec/messages.md 2).
        ``min_schema_version``: the channel's schema must have at least this version. Otherwise ``open`` raises
        ChannelDiffersError, whose ``field`` is ``schema``, ``schema_id`` or ``schema_version``.

        ``wake``: with False, objects made from this channel do not wake sleeping processes: those look for news every
        millisecond instead. If all channels of this process have it False, no sleeper interrupts this process with a
        memory barrier (spec/channel.md 6.16).

        Raises NoSuchChannelError, AccessDeniedError, NotAChannelError, TruncatedError, VersionTooNewError,
        CorruptHeaderError, UnsuitableFileSystemError, ChannelDiffersError, InvalidArgumentError or IoError.
        """
        path = channel_path(name)
        return attached(
            path,
            Header.parse,
            lambda file, header, text: cls(file, path, header, text, _identity, any_file_system, wake, read_only),
            read_only=read_only,
            schema=schema,
            min_schema_version=min_schema_version,
            any_file_system=any_file_system,
        )

    @classmethod
    def wait_for(
        cls,
        name: str | os.PathLike[str],
        timeout: float | None = None,
        *,
        read_only: bool = False,
        schema: Schema | None = None,
        min_schema_version: int = 0,
        any_file_system: bool = False,
        wake: bool = True,
        _identity: Identity = REAL,
    ) -> Self:
        """Waits until the channel exists, then opens it like ``open``. Raises TimedOutError if the channel does not
        exist within ``timeout`` seconds (None: no limit). Raises the other errors of ``open`` at once."""
        return once_there(
            "channel",
            timeout,
            lambda: cls.open(
                name,
                read_only=read_only,
                schema=schema,
                min_schema_version=min_schema_version,
                any_file_system=any_file_system,
                wake=wake,
                _identity=_identity,
            ),
        )

    @classmethod
    def open_or_create(
        cls, name: str | os.PathLike[str], kind: Kind, *, _identity: Identity = REAL, **options: Unpack[Options]
    ) -> Self:
        """Attaches to the channel if it exists, else creates it.

        Raises the errors of ``open`` and ``create``, except NoSuchChannelError and ChannelExistsError. Raises
        ChannelDiffersError, which names the first differing field, if the existing channel does not match the options.
        """
        path = channel_path(name)
        description = describe(kind, options, _identity)
        return opened_or_created(
            lambda: cls.open(
                path,
                any_file_system=options.get("any_file_system", False),
                wake=options.get("wake", True),
                _identity=_identity,
            ),
            lambda channel: channel._compare(description[0]),
            lambda: cls._create(path, description, options, _identity, replace=False),
        )

    @classmethod
    def _create(
        cls, path: str, description: tuple[Header, bytes], options: Options, identity: Identity, replace: bool
    ) -> Self:
        header, schema = description
        any_file_system = options.get("any_file_system", False)
        made: list[Self] = []

        def make(file: File) -> None:
            write_content(file, header, schema, identity)
            made.append(cls(file, path, header, schema, identity, any_file_system, options.get("wake", True)))
            test_locks(file, path)

        try:
            with successor(path, layout.SUCCESSOR_REPLACED if replace else 0):
                create_file(path, header.file_length, options.get("mode", 0o600), any_file_system, replace, make)
        except BaseException:
            for channel in made:
                channel.close()
            raise
        return made[0]

    def _compare(self, wanted: Header) -> None:
        for name in COMPARED:
            field = NAMES_OF.get(self.kind, {}).get(name, name) if self.kind == wanted.kind else name
            expected, actual = getattr(wanted, field), getattr(self.header, field)
            if expected != actual:
                raise ChannelDiffersError(self.path, field, expected, actual)
        if self.header.schema_version < wanted.schema_version:
            raise ChannelDiffersError(self.path, "schema_version", wanted.schema_version, self.header.schema_version)

    # What is made from a channel

    def publisher(self, name: str = "", *, max_lag: int = 0, wait: Wait = "block") -> Publisher:
        """Takes a publisher slot and its ring. With a ``name``, takes the slot that had this name before, if there is
        one.

        ``max_lag``: a limit in bytes, from capacity / 2 to capacity. A subscriber, kept or not, that is further behind
        than this is evicted when it holds this publisher back. 0: this publisher evicts no subscriber.
        ``wait``: how ``send`` and ``claim`` wait, see ``flyring.Wait``.

        Raises NoFreeSlotError if all slots are owned; CorruptRingError if the slot's last owner left a damaged ring;
        InvalidArgumentError, also (``foreign``) if the publisher of this channel is a stock Agrona process, or the
        subscriber is one and ``max_lag`` is not 0; AccessDeniedError if the channel is read-only.
        """
        self._check_writable()
        self._check_no_service("publishers; take a client, or a server")
        self._check_ours("publisher")
        if self.foreign and max_lag != 0:
            raise InvalidArgumentError("foreign", "a foreign subscriber cannot be evicted: max_lag must be 0")
        check_name(name)
        if self.header.is_queue and max_lag != 0:
            raise InvalidArgumentError("max_lag", "a queue hands out each job: it must be 0; evict a worker instead")
        check_max_lag(index(max_lag), self.capacity)
        check_wait(wait)
        slot = take_publisher_slot(self._attached, name)
        try:
            publisher = Publisher(self, slot, wait, max_lag)
        except BaseException:
            slot.lock.close()
            raise
        return self._made(publisher, [(self._attached.memory, self.header.ring(slot.slot), self.header.ring_stride)])

    def subscriber(
        self,
        name: str = "",
        *,
        kept: bool = False,
        rings: Iterable[int] | None = None,
        timeout: float | None = 0,
        wait: Wait = "block",
    ) -> Subscriber:
        """Takes a subscriber slot that reads the given ``rings`` (None: all). Waits up to ``timeout`` seconds (0: does
        not wait; None: no limit) until a slot is free.

        The subscriber sees messages published from now on. With ``kept``, which needs a ``name``, the slot keeps its
        position after close: the next subscriber of that name continues there.
        ``wait``: how ``poll`` and ``take`` wait, see ``flyring.Wait``.

        Raises NoFreeSlotError if no slot became free; CorruptRingError; ChannelDiffersError (``rings``) if the kept
        slot reads other rings; InvalidArgumentError, also (``foreign``) if the subscriber of this channel is a stock
        Agrona process; AccessDeniedError if the channel is read-only.
        """
        self._check_writable()
        self._check_no_service("subscribers; take a client, a server, or a lossy subscriber to look on")
        self._check_ours("subscriber")
        if self.header.is_queue:
            raise InvalidArgumentError("kind", "a queue has no subscribers, but workers: use worker")
        chosen = check_subscriber(self.header, name, kept, rings)
        patience = check_timeout(timeout)
        check_wait(wait)
        slot = take_subscriber_slot(self._attached, name, kept, chosen, patience)
        try:
            subscriber = Subscriber(self, slot, wait)
        except BaseException:
            give_back(self._attached, slot)
            raise
        pages = []
        for ring, _, _ in slot.cursors:
            pages.append((self._data, self.header.ring(ring), self.header.capacity))
            pages.append((self._attached.memory, self.header.trailer(ring), self.header.trailer_length))
        return self._made(subscriber, pages)

    def worker(self, name: str = "", *, timeout: float | None = 0, wait: Wait = "block") -> Worker:
        """Queues only: takes a worker's slot. Waits up to ``timeout`` seconds (0: does not wait; None: no limit) until
        a slot is free.

        Raises NoFreeSlotError if no slot became free; InvalidArgumentError, also (``kind``) on other kinds of channel;
        AccessDeniedError if the channel is read-only.
        """
        self._check_writable()
        if not self.header.is_queue:
            raise InvalidArgumentError("kind", f"a channel of kind {self.kind} has no workers: use subscriber")
        check_name(name)
        patience = check_timeout(timeout)
        check_wait(wait)
        slot = take_worker_slot(self._attached, name, patience)
        try:
            worker = Worker(self, slot, wait)
        except BaseException:
            slot.lock.close()
            raise
        pages = []
        for ring in range(self.header.publishers):
            pages.append((self._data, self.header.ring(ring), self.header.capacity))
            pages.append((self._attached.memory, self.header.trailer(ring), self.header.trailer_length))
        return self._made(worker, pages)

    def server(self, name: str = "", *, timeout: float | None = 0, wait: Wait = "block") -> Server:
        """Services only: takes the place of the server, of which a service has one. While another server lives, waits
        up to ``timeout`` seconds (0: does not wait; None: no limit) for it to go.

        Raises NoFreeSlotError if another server still lives; CorruptRingError; InvalidArgumentError, also (``kind``) on
        other kinds of channel; AccessDeniedError if the channel is read-only.
        """
        self._check_writable()
        self._check_service("server")
        check_name(name)
        patience = check_timeout(timeout)
        check_wait(wait)
        place = take_server_place(self._attached, name, patience)
        try:
            server = Server(self, place, wait)
        except BaseException:
            give_server_back(self._attached, place)
            raise
        pages = []
        for ring in range(self.header.clients):
            pages.append((self._data, self.header.ring(ring), self.header.capacity))
            pages.append((self._attached.memory, self.header.trailer(ring), self.header.trailer_length))
            replies = self.header.ring(self.header.clients + ring)
            pages.append((self._attached.memory, replies, self.header.ring_stride))
        return self._made(server, pages)

    def client(self, name: str = "", *, timeout: float | None = 0, wait: Wait = "block") -> Client:
        """Services only: takes the place of a client, which calls the server. Waits up to ``timeout`` seconds (0: does
        not wait; None: no limit) until a place is free. Raises NoFreeSlotError if no place became free, and otherwise
        the errors of ``server``."""
        self._check_writable()
        self._check_service("clients")
        check_name(name)
        patience = check_timeout(timeout)
        check_wait(wait)
        place = take_client_place(self._attached, name, patience)
        try:
            client = Client(self, place, wait)
        except BaseException:
            give_client_back(self._attached, place)
            raise
        replies = self.header.clients + place.number
        pages = [
            (self._data, self.header.ring(replies), self.header.capacity),
            (self._attached.memory, self.header.trailer(replies), self.header.trailer_length),
            (self._attached.memory, self.header.ring(place.number), self.header.ring_stride),
        ]
        return self._made(client, pages)

    def lossy_subscriber(
        self,
        rings: Iterable[int] | None = None,
        start: Start = "now",
        *,
        when_lapped: WhenLapped = "oldest",
        wait: Wait = "block",
    ) -> LossySubscriber:
        """Makes a reader of the given ``rings`` (None: all) that takes no slot, holds no publisher back, and counts the
        messages it lost.

        ``start``: "now" begins with the next published message, "oldest" with the oldest message still in the ring.
        ``when_lapped``: where the reader continues after a publisher has overwritten what it had not read: "oldest" is
        the oldest message that still leaves a quarter of the ring before the next overwrite, "newest" is the next
        published message.

        Raises CorruptRingError; InvalidArgumentError, also (``foreign``) if the publisher is a stock Agrona process.
        """
        self._check_open()
        if self.foreign == "publisher":
            raise InvalidArgumentError(
                "foreign", "what a foreign publisher overwrites cannot be detected; use subscriber"
            )
        subscriber = LossySubscriber(self, rings, start, when_lapped, wait)
        return self._made(
            subscriber, [(self._data, self.header.ring(ring), self.header.ring_stride) for ring in subscriber.rings]
        )

    def _made(self, user: User, pages: Iterable[tuple[Memory, int, int]]) -> User:
        """Registers a new publisher or subscriber, and maps the pages that it uses now, so that no message pays for a
        page fault later."""
        try:
            self._users.add(user)
            for memory, offset, length in pages:
                memory.populate(offset, length)
            self._check_open()  # another thread may have closed it meanwhile
        except BaseException:
            user.close()
            raise
        return user

    def evict(self, slot: int) -> int:
        """Takes a subscriber slot away from its owner, alive or dead, so that it holds no publisher back.

        Returns the number of messages that the owner had not read, or -1 if that number is not known. On a queue, the
        worker's job goes to another worker, and the result is 1 if the worker had a job, else 0. On a service, slot 0
        is the server's, and slot 1 + k is that of client k.

        The owner's next verb raises SlotLostError. A kept slot stays kept, but its unread messages are lost: the next
        owner begins with the next published message.

        Raises InvalidArgumentError, also (``foreign``) if one end of the channel is a stock Agrona process;
        AccessDeniedError if the channel is read-only; IoError.
        """
        self._check_writable()
        if self.foreign:
            raise InvalidArgumentError("foreign", "Agrona needs the slot's position, so the slot cannot be evicted")
        if self.header.is_service and slot == 0:
            return evict_server(self._attached)
        return evict_worker(self._attached, slot) if self.header.is_queue else evict(self._attached, slot)

    def counters(self) -> Counters:
        """The channel's counters, which all attached processes share. Raises ClosedError."""
        self._check_open()
        return Counters(self)

    def close(self) -> None:
        """Closes the channel and every object made from it. Closing twice does nothing.

        Raises ViewAliveError or TwoThreadsError if one of these objects cannot be closed now; then nothing is closed.
        """
        if self._closed:
            return
        users = sorted(self._users, key=lambda user: type(user).__name__)  # in one order, whatever their hashes
        close_all(users)
        self._data.close()
        self._attached.memory.close()
        self._attached.file.close()
        self._closed = True
        for user in users:
            if isinstance(user, Client):
                user._tell_rest()

    @property
    def closed(self) -> bool:
        """True after ``close``, and in a forked child process."""
        return self._closed or self._forked

    @property
    def _forked(self) -> bool:
        return self._pid != os.getpid()

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("channel", self._forked)
        if not self._attached.file.ours:
            raise ClosedError("channel", detail="its descriptor was closed by other code; open the channel again")

    def _check_writable(self) -> None:
        self._check_open()
        if self._read_only:
            raise AccessDeniedError(self.path, "the channel was opened for reading only")

    def _check_ours(self, end: Foreign) -> None:
        if self.foreign == end:
            raise InvalidArgumentError("foreign", f"the {end} of this channel is a stock Agrona process, not Flyring")

    def _check_service(self, what: str) -> None:
        if not self.header.is_service:
            raise InvalidArgumentError("kind", f"a channel of kind {self.kind} has no {what}; create a service")

    def _check_no_service(self, what: str) -> None:
        if self.header.is_service:
            raise InvalidArgumentError("kind", f"a service has no {what}")

    def _check_replaced(self) -> None:
        """Raises ChannelReplacedError if another channel has the name now (spec/channel.md 6.13).

        The C core calls this at intervals while a publisher waits for room or a reader waits for messages.
        """
        with contextlib.suppress(OSError):
            if self.closed or os.fstat(self._attached.file.fileno()).st_nlink > 0:
                return
            standing = channel_at(self.path)
            if standing is not None and standing != self.id:
                raise ChannelReplacedError(self.path, standing)

    # Properties

    @property
    def header(self) -> Header:
        """The checked header of the file: dimensions and offsets."""
        return self._attached.header

    @property
    def path(self) -> str:
        """The absolute path of the file."""
        return self._attached.path

    @property
    def id(self) -> UUID:
        """The channel's UUID, made at creation."""
        return self.header.channel_id

    @property
    def kind(self) -> Kind:
        """ "inbox", "broadcast", "queue" or "service"."""
        return self.header.kind

    @property
    def capacity(self) -> int:
        """The size of each ring, in bytes."""
        return self.header.capacity

    @property
    def publishers(self) -> int:
        """The number of publisher slots, which is also the number of rings."""
        return self.header.publishers

    @property
    def subscribers(self) -> int:
        """The number of subscriber slots."""
        return self.header.subscribers

    @property
    def producers(self) -> int:
        """Queues: the largest number of publishers; else 0. ``publishers`` also counts the returns ring."""
        return self.header.producers

    @property
    def workers(self) -> int:
        """Queues: the largest number of workers; else 0. ``subscribers`` also counts the shared slot 0."""
        return self.header.workers

    @property
    def clients(self) -> int:
        """Services: the largest number of clients; else 0."""
        return self.header.clients

    @property
    def delivery(self) -> Delivery:
        """Services: "at-most-once" or "at-least-once". Other kinds: "at-most-once"."""
        return self.header.delivery

    @property
    def max_outstanding(self) -> int:
        """Services: the largest number of calls that one client may have under way at once; else 0."""
        return self.header.max_outstanding

    @property
    def alignment(self) -> int:
        """The alignment of records, in bytes: 64 or 8."""
        return self.header.alignment

    @property
    def foreign(self) -> Foreign | None:
        """The end at which a stock Agrona process is, "publisher" or "subscriber", or None (spec/channel.md 6.15)."""
        return self.header.foreign

    @property
    def counter_count(self) -> int:
        """The number of counters in the file, allocated or not."""
        return self.header.counters

    @property
    def created_at(self) -> int:
        """The time of creation, in ns since 1970-01-01 UTC."""
        return self.header.created_at

    @property
    def schema(self) -> str | None:
        """The schema in the file, as text, or None. ``flyring.sbe.Schema.of(channel)`` makes message classes of it."""
        return self._schema.decode("utf-8", "replace") if self._schema else None

    @property
    def schema_id(self) -> int:
        """The id of the schema; 0 without one."""
        return self.header.schema_id

    @property
    def schema_version(self) -> int:
        """The version of the schema; 0 without one."""
        return self.header.schema_version

    def stats(self) -> Stats:
        """A snapshot of the channel: slots, rings, gates and counters (spec/api.md, Stats).

        Works on read-only channels, takes no lock and writes nothing. Raises ClosedError.
        """
        self._check_open()
        at = self._attached
        if self._look is None:
            self._look = Look(at.header, at.memory, at.file)
        try:
            return self._look.stats(at.path)
        except OSError as error:
            raise failed("fcntl(F_OFD_GETLK)", error, at.path) from error

    # Special methods

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            try:
                if self._pid == os.getpid():
                    warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
            finally:
                self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return reopen, (type(self), self.path, self._any_file_system, self._read_only, self._attached.wakes)

    def __repr__(self) -> str:
        return f"<flyring.Channel {self.path} {self.kind}{' closed' if self.closed else ''}>"


NAMES_OF = {
    "queue": {"publishers": "producers", "subscribers": "workers"},
    "service": {"publishers": "clients", "subscribers": "clients"},
}
COMPARED = (
    "kind",
    "capacity",
    "publishers",
    "subscribers",
    "alignment",
    "foreign",
    "counters",
    "delivery",
    "max_outstanding",
    "schema_id",
)


def reopen(cls: type[Channel], path: str, any_file_system: bool, read_only: bool, wake: bool) -> Channel:
    """Opens the channel again when it is unpickled."""
    return cls.open(path, any_file_system=any_file_system, read_only=read_only, wake=wake)


def channel_at(path: str) -> UUID | None:
    """Returns the id of the channel at ``path``, or None if there is no valid channel."""
    try:
        file = open_file(path, read_only=True)
        try:
            page, size = os.pread(file.fileno(), layout.HEADER_LENGTH, 0), os.fstat(file.fileno()).st_size
        finally:
            file.close()
        return Header.parse(page, size, path).channel_id
    except (FlyringError, OSError):
        return None


@contextlib.contextmanager
def successor(path: str, what: int) -> Iterator[None]:
    """Stores the ``successor`` hint in the channel at ``path`` before its name changes, and wakes its sleepers after
    that (spec/channel.md 3.2). ``what``: a SUCCESSOR constant, or 0 to do nothing. Ignores errors, because this is only
    a hint."""
    old: Memory | None = None
    if what:
        with contextlib.suppress(FlyringError, OSError, ValueError):
            file = open_file(path)
            try:
                page, size = os.pread(file.fileno(), layout.HEADER_LENGTH, 0), os.fstat(file.fileno()).st_size
                control = Header.parse(page, size, path).control_offset
                old = Memory(file, control + layout.SECTION_ALIGNMENT, True, path)
                old.store32(control + layout.CONTROL_SUCCESSOR, what)
            finally:
                file.close()
    try:
        yield
    finally:
        if old is not None:
            old.wake_all(control + layout.CONTROL_DATA_SEQUENCE)
            old.wake_all(control + layout.CONTROL_ROOM_SEQUENCE)
            old.wake_all(control + layout.CONTROL_JOBS_SEQUENCE)
            old.close()


def unlink(name: str | os.PathLike[str]) -> None:
    """Removes a channel's name. Attached processes keep working.

    Raises NoSuchChannelError; AccessDeniedError; NotAChannelError if the file does not begin with Flyring's magic
    number, in which case nothing is removed.
    """
    path = channel_path(name)
    remove(path, lambda: successor(path, layout.SUCCESSOR_UNLINKED))
