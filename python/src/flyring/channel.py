# SPDX-License-Identifier: Apache-2.0
"""A channel: one mapped file with rings and slots (spec/api.md, spec/channel.md 3)."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
import weakref
from collections.abc import Iterable, Iterator
from operator import index
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack
from uuid import UUID

from . import layout
from ._core import File, Memory, close_all
from ._identity import REAL, Identity
from .client import Client
from .closing import Closing
from .content import Options, check_is_schema, check_schema, describe, write_content
from .counters import Counters
from .errors import (
    AccessDeniedError,
    ChannelDiffersError,
    ChannelExistsError,
    ChannelReplacedError,
    ClosedError,
    FlyringError,
    InvalidArgumentError,
    NoSuchChannelError,
    TimedOutError,
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
    check_file_system,
    check_folder,
    create_file,
    failed,
    is_locked,
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
    """One mapped file, attached. Made by ``create``, ``open``, ``open_or_create`` or ``replace``.

    A name matches ``[A-Za-z0-9._-]{1,64}`` and stands for ``<folder>/<name>.ring``; what contains a ``/`` is a path. A
    context manager that closes. Pickling it attaches again by path. In a forked child everything is closed: open again.
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
        """For this package, which gives ``file`` away when this returns; use the class methods."""
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
        self._closed = False

    @classmethod
    def create(
        cls, name: str | os.PathLike[str], kind: Kind, *, _identity: Identity = REAL, **options: Unpack[Options]
    ) -> Self:
        """Makes the file whole and attaches.

        ``kind``: "inbox" (one reader, whose place is kept: what comes before it is there waits for it), "broadcast",
        "queue" (each message to one worker), or "service" (question and answer).
        InvalidArgumentError, ChannelExistsError, NoSpaceError, UnsuitableFileSystemError, AccessDeniedError, IoError.
        """
        return cls._create(channel_path(name), describe(kind, options, _identity), options, _identity, replace=False)

    @classmethod
    def replace(
        cls, name: str | os.PathLike[str], kind: Kind, *, _identity: Identity = REAL, **options: Unpack[Options]
    ) -> Self:
        """As ``create``, but a file of that name is replaced; a process that has the old one attached keeps it."""
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
        """Attaches after full validation (spec 3.3).

        ``read_only``: the file is opened and mapped for reading. Lossy subscribers and the values of counters can be
        had; what would write is AccessDeniedError.

        ``schema``: the channel must have one with the same id, of any version (spec/messages.md 2).
        ``min_schema_version``: the channel's schema must be at least so new. ChannelDiffersError (``schema``,
        ``schema_id``, ``schema_version``) if not.

        ``wake``: False: nothing that is made from this channel wakes those who sleep, and no sleeper interrupts this
        process, if all of its channels have it so. Who waits for it looks every millisecond (spec 6.16).

        NoSuchChannelError, AccessDeniedError, NotAChannelError, TruncatedError, VersionTooNewError,
        CorruptHeaderError, UnsuitableFileSystemError, InvalidArgumentError, IoError.
        """
        path = channel_path(name)
        if schema is not None:
            check_is_schema(schema)
        check_folder(path, create=False)
        file = open_file(path, read_only)
        try:
            header = Header.parse(
                os.pread(file.fileno(), layout.HEADER_LENGTH, 0), os.fstat(file.fileno()).st_size, path
            )
            check_file_system(file, path, any_file_system, read_only)
            if not read_only:
                test_locks(file, path)
            check_schema(path, header, None if schema is None else schema.id, min_schema_version)
            text = os.pread(file.fileno(), header.schema_length, header.schema_offset)
            return cls(file, path, header, text, _identity, any_file_system, wake, read_only)
        except BaseException as error:
            file.close()
            if isinstance(error, OSError) and not isinstance(error, FlyringError):
                raise failed("attach", error, path) from error
            raise

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
        """As ``open``, as soon as there is such a channel: TimedOutError if there is none within ``timeout`` seconds
        (None: no limit). The other errors of ``open`` come at once."""
        give_up = time.monotonic() + check_timeout(timeout)
        nap = 0.001
        while True:
            try:
                return cls.open(
                    name,
                    read_only=read_only,
                    schema=schema,
                    min_schema_version=min_schema_version,
                    any_file_system=any_file_system,
                    wake=wake,
                    _identity=_identity,
                )
            except NoSuchChannelError as error:
                left = give_up - time.monotonic()
                if left <= 0:
                    raise TimedOutError(f"a channel at {error.path}") from None
            time.sleep(min(nap, left))
            nap = min(2 * nap, 0.016)

    @classmethod
    def open_or_create(
        cls, name: str | os.PathLike[str], kind: Kind, *, _identity: Identity = REAL, **options: Unpack[Options]
    ) -> Self:
        """Attaches to what exists, or creates it: the errors of both, but NoSuchChannelError and ChannelExistsError.

        ChannelDiffersError names the first field in which the existing channel is not what was asked for.
        """
        path = channel_path(name)
        description = describe(kind, options, _identity)
        while True:
            with contextlib.suppress(NoSuchChannelError):
                channel = cls.open(
                    path,
                    any_file_system=options.get("any_file_system", False),
                    wake=options.get("wake", True),
                    _identity=_identity,
                )
                try:
                    channel._compare(description[0])
                except BaseException:
                    channel.close()
                    raise
                return channel
            with contextlib.suppress(ChannelExistsError):
                return cls._create(path, description, options, _identity, replace=False)

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
        """Takes a publisher slot, and so a ring; with a name, the slot that had it before.

        ``max_lag``: a subscriber, kept or not, that is further behind than so many bytes (capacity / 2 to capacity) is
        evicted when it holds this publisher back; 0: never. NoFreeSlotError if all slots are owned; CorruptRingError if
        the ring that its last owner left cannot be right; InvalidArgumentError, also (foreign) if the publisher is a
        stock Agrona process, or the subscriber is one and ``max_lag`` not 0; AccessDeniedError.
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
        """Takes a subscriber slot on the rings given (None: all); waits up to ``timeout`` seconds (None: no limit)
        until one is free.

        It sees what is published from now on; a kept one, which needs a name, what was published since its slot's
        stored positions. NoFreeSlotError; InvalidArgumentError, also (foreign) if the subscriber is a stock Agrona
        process; CorruptRingError; ChannelDiffersError (rings) if the kept slot is on others; AccessDeniedError.
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
        """Of a queue: takes a worker's slot; waits up to ``timeout`` seconds (None: no limit) until one is free.

        NoFreeSlotError; InvalidArgumentError, also (kind) on another kind of channel; AccessDeniedError.
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
        """Of a service: the one that answers; waits up to ``timeout`` seconds (None: no limit) while another one lives.

        NoFreeSlotError; CorruptRingError; InvalidArgumentError, also (kind) on another kind of channel;
        AccessDeniedError.
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
        """Of a service: one that calls the server; waits up to ``timeout`` seconds (None: no limit) until a place is
        free. Raises as ``server`` does."""
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
        """A reader of the rings given (None: all) that takes no slot, holds no publisher back, and counts what it lost.

        It sees what is published from ``"now"`` on, or begins at the ``"oldest"`` message that is known to be still
        there. ``when_lapped``: where it goes on after it was overtaken: at the ``"oldest"`` message that leaves it a
        quarter of the ring, or at the ``"newest"``. InvalidArgumentError, also (foreign) if the publisher is a stock
        Agrona process; CorruptRingError.
        """
        self._check_open()
        if self.foreign == "publisher":
            raise InvalidArgumentError("foreign", "what a foreign publisher overwrites is lost unseen; take the slot")
        subscriber = LossySubscriber(self, rings, start, when_lapped, wait)
        return self._made(
            subscriber, [(self._data, self.header.ring(ring), self.header.ring_stride) for ring in subscriber.rings]
        )

    def _made(self, user: User, pages: Iterable[tuple[Memory, int, int]]) -> User:
        """A new publisher or subscriber, with the pages that it uses mapped."""
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
        """Takes a subscriber slot away from its owner, alive or dead, and stops it from holding publishers back: how
        many messages it had not read, -1 if that is not known. A worker's job goes to another worker: 1 if it had one,
        else 0.

        The owner's next poll is SlotLostError. A kept slot stays kept, but what waited for it is lost: its next owner
        starts afresh. InvalidArgumentError, also (foreign) if the channel has a foreign end; AccessDeniedError;
        IoError.
        """
        self._check_writable()
        if self.foreign:
            raise InvalidArgumentError("foreign", "Agrona computes with the slot's position: it cannot be evicted")
        if self.header.is_service and slot == 0:
            return evict_server(self._attached)
        return evict_worker(self._attached, slot) if self.header.is_queue else evict(self._attached, slot)

    def counters(self) -> Counters:
        """The counters section."""
        self._check_open()
        return Counters(self)

    def close(self) -> None:
        """Closes the channel and every publisher and subscriber made from it; twice is fine.

        ViewAliveError or TwoThreadsError if one of those cannot be closed now: nothing is closed then.
        """
        if self._closed:
            return
        users = list(self._users)
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
        """True after close, and in a forked child."""
        return self._closed or self._forked

    @property
    def _forked(self) -> bool:
        return self._pid != os.getpid()

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("channel", self._forked)
        if not self._attached.file.ours:
            raise ClosedError("channel", detail="somebody else closed its descriptor; open it again")

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
        """Spec 6.13: ChannelReplacedError if another channel has the name.

        Publishers that are held back, and subscribers that get nothing, call it now and then.
        """
        with contextlib.suppress(OSError):
            if self.closed or os.fstat(self._attached.file.fileno()).st_nlink > 0:
                return
            standing = channel_at(self.path)
            if standing is not None and standing != self.id:
                raise ChannelReplacedError(self.path, standing)

    # What it is

    @property
    def header(self) -> Header:
        return self._attached.header

    @property
    def path(self) -> str:
        return self._attached.path

    @property
    def id(self) -> UUID:
        return self.header.channel_id

    @property
    def kind(self) -> Kind:
        return self.header.kind

    @property
    def capacity(self) -> int:
        """Bytes of one ring."""
        return self.header.capacity

    @property
    def publishers(self) -> int:
        """Publisher slots, and so rings."""
        return self.header.publishers

    @property
    def subscribers(self) -> int:
        """Subscriber slots."""
        return self.header.subscribers

    @property
    def producers(self) -> int:
        """Of a queue: how many publishers it can have; 0 elsewhere. ``publishers`` counts the returns ring, too."""
        return self.header.producers

    @property
    def workers(self) -> int:
        """Of a queue: how many workers it can have; 0 elsewhere. ``subscribers`` counts the shared slot 0, too."""
        return self.header.workers

    @property
    def clients(self) -> int:
        """Of a service: how many clients it can have; 0 elsewhere."""
        return self.header.clients

    @property
    def delivery(self) -> Delivery:
        """Of a service; elsewhere "at-most-once"."""
        return self.header.delivery

    @property
    def max_outstanding(self) -> int:
        """Of a service: how many calls of one client may be under way at once; 0 elsewhere."""
        return self.header.max_outstanding

    @property
    def alignment(self) -> int:
        """Of records, in bytes."""
        return self.header.alignment

    @property
    def foreign(self) -> Foreign | None:
        """ "publisher" or "subscriber": the end at which a stock Agrona process is (spec 6.15), or None."""
        return self.header.foreign

    @property
    def counter_count(self) -> int:
        """How many counters the channel has, allocated or not."""
        return self.header.counters

    @property
    def created_at(self) -> int:
        """ns since 1970-01-01 UTC."""
        return self.header.created_at

    @property
    def schema(self) -> str | None:
        """The text that describes the messages, or None. As message classes: ``flyring.sbe.Schema.of(channel)``."""
        return self._schema.decode("utf-8", "replace") if self._schema else None

    @property
    def schema_id(self) -> int:
        return self.header.schema_id

    @property
    def schema_version(self) -> int:
        return self.header.schema_version

    def stats(self) -> Stats:
        """What the channel holds now: slots, rings, gates, counters (spec/api.md, Stats). Read-only channels, too.
        Takes no lock and writes nothing. ClosedError."""
        self._check_open()
        at = self._attached
        return Look(at.header, at.memory, lambda byte: is_locked(at.file, byte, at.path)).stats(at.path)

    # Python's habits

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
    """What a pickled channel becomes."""
    return cls.open(path, any_file_system=any_file_system, read_only=read_only, wake=wake)


def channel_at(path: str) -> UUID | None:
    """The id of the whole channel at a path, if there is one."""
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
    """Spec 3.2: tells those who have the channel at a path what is about to become of its name (0: nothing), and wakes
    them at the end, when the name has changed. A hint: whatever fails is ignored."""
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
    """Removes a channel's name; attached processes keep working.

    NoSuchChannelError; NotAChannelError if the file has not our magic (nothing is removed then); AccessDeniedError.
    """
    path = channel_path(name)
    remove(path, lambda: successor(path, layout.SUCCESSOR_UNLINKED))
