# SPDX-License-Identifier: Apache-2.0
# The C core (core/*.c). Publisher, Subscriber and so on are documented by their subclasses in publisher.py etc.

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Generic, Protocol, Self, SupportsIndex, TypeAlias, TypeVar, final, overload

from typing_extensions import Buffer

from .action import Action
from .client import Items
from .sender import Sender
from .stats import GateStats, JobStats, PublisherStats, SubscriberStats

_Get = TypeVar("_Get", covariant=True)
_Set = TypeVar("_Set", contravariant=True)
_Entry = TypeVar("_Entry", bound=Flyweight, covariant=True)
_Message = TypeVar("_Message", bound=MessageFlyweight)
_Result = TypeVar("_Result")
_Value = TypeVar("_Value")

class ArrayInterface(Protocol):
    """A numpy array or scalar. Needed because numpy declares its buffers to type checkers only since Python 3.12."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...

Bytes: TypeAlias = Buffer | ArrayInterface
"""Anything with the buffer protocol."""

def crc32c(data: Buffer, /) -> int: ...
def xxhash64(data: Buffer, /) -> int: ...
def file_system_type(fd: int, /) -> int: ...
def register_waker() -> bool: ...
def message_behind(message: Message, bytes: int, /) -> Message: ...
def look(
    file: File,
    memory: Memory,
    geometry: tuple[int, ...],
    now: int,
    publisher: type[PublisherStats],
    subscriber: type[SubscriberStats],
    gate: type[GateStats],
    job: type[JobStats],
    /,
) -> tuple[tuple[PublisherStats, ...], tuple[SubscriberStats, ...]]: ...
def close_all(users: list[Any], /) -> None: ...
@final
class Memory:
    def __new__(cls, file: File, length: int, writable: bool, path: str = ..., guard: int = 0) -> Self: ...
    @property
    def length(self) -> int: ...
    def load32(self, offset: int, /) -> int: ...
    def load64(self, offset: int, /) -> int: ...
    def load64_plain(self, offset: int, /) -> int: ...
    def load64_volatile(self, offset: int, /) -> int: ...
    def store32(self, offset: int, value: int, /) -> None: ...
    def store64(self, offset: int, value: int, /) -> None: ...
    def store64_plain(self, offset: int, value: int, /) -> None: ...
    def store64_volatile(self, offset: int, value: int, /) -> None: ...
    def add64(self, offset: int, delta: int, /) -> int: ...
    def compare_and_set64(self, offset: int, expected: int, value: int, /) -> bool: ...
    def read(self, offset: int, length: int, /) -> bytes: ...
    def write(self, offset: int, data: Buffer, /) -> None: ...
    def wake_all(self, offset: int, /) -> None: ...
    def announce_sleep(self, offset: int, /) -> int: ...
    def sleep(self, offset: int, sequence: int, seconds: float, /) -> None: ...
    def fence(self) -> None: ...
    def walk(
        self, ring: int, capacity: int, alignment: int, start: int, end: int, check_types: bool = False, /
    ) -> tuple[int, int, int]: ...
    def populate(self, offset: int, length: int, /) -> None: ...
    def close(self) -> None: ...

@final
class File:
    def __new__(cls, path: str, flags: int, mode: int = 0) -> Self: ...
    @property
    def ours(self) -> bool: ...
    def fileno(self) -> int: ...
    def reopen(self) -> Self: ...
    def try_lock(self, at: int, /) -> bool: ...
    def unlock(self, at: int, /) -> None: ...
    def is_locked(self, at: int, length: int = 1, /) -> bool: ...
    def hold(self, at: int, patience: float, /) -> Held | None: ...
    def close(self) -> None: ...

@final
class Held:
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, traceback: object, /) -> None: ...

class Message:
    """One message: its payload, type, ring, position and sender (spec/api.md).

    The payload is read through the buffer protocol, ``bytes(message)`` or ``message.data``. ``==`` compares the payload
    with another message or any bytes-like object.

    A message from ``poll`` lies in the ring (that of a lossy subscriber in a private copy). It is valid until its
    handler returns; after that its payload raises ClosedError. A message from ``take`` owns its bytes. A message from
    ``peek`` lies in the ring and may be overwritten at any time.
    """

    __hash__: ClassVar[None]  # type: ignore[assignment]

    @property
    def type(self) -> int: ...
    @property
    def ring(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def sender(self) -> Sender: ...
    @property
    def data(self) -> memoryview: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Job(Message):
    """One message of a queue, in the hand of one worker until it is done or released (spec/api.md).

    A job is a context manager: the end of the ``with`` block calls ``done``, and an exception calls ``release``.
    ``ring`` and ``position`` identify the job: they stay the same however often it is handed out. The payload lies in
    the ring and is valid until the job ends; after that it raises ClosedError. Ending a job raises ViewAliveError while
    a memoryview or array of it is alive. The sender of a job that was released before is not known.
    """

    @property
    def attempts(self) -> int:
        """How often the job was handed out before, as far as known. Never 0 if it was handed out before."""

    @property
    def repeat(self) -> bool:
        """Whether the job was handed out before."""

    def done(self) -> None:
        """Finishes the job.

        Raises SlotLostError if the worker was evicted meanwhile, so that the job belongs to another worker;
        ViewAliveError if a memoryview or array of the job is alive; ClosedError if the job has ended.
        """

    def release(self) -> bool:
        """Gives the job back to the queue, for any worker. Returns whether this succeeded.

        False: the returns ring has no room, or another worker is releasing a job right now. The job then stays in hand,
        and the next ``take`` or ``poll`` of this worker hands it out again. Raises SlotLostError, ViewAliveError and
        ClosedError as ``done`` does.
        """

    @property
    def _open(self) -> bool: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, traceback: object, /) -> None: ...

@final
class Claim:
    """Space in the ring for one message, to be filled in place and then committed or aborted (spec/api.md).

    Fill the space through ``claim[i:j] = bytes``, ``struct.pack_into(..., claim, 0, ...)``, ``numpy.frombuffer(claim)``
    or ``claim.data``. A claim is a context manager: the end of the ``with`` block commits it, and an exception aborts
    it.
    """

    @property
    def data(self) -> memoryview: ...
    def commit(self) -> int: ...
    def abort(self) -> int: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, traceback: object, /) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Publisher:
    def __new__(
        cls,
        memory: Memory,
        geometry: tuple[int, int, int, int, int, int, int, int, int],
        lock: File,
        slot: int,
        epoch: int,
        position: int,
        count: int,
        name: bytes,
        wait: str,
        max_lag: int,
        monotonic: int,
        default_type: int,
        wakes: bool,
        /,
    ) -> Self: ...
    def offer(self, data: Bytes | MessageFlyweight, type: int = ...) -> int | None:
        """Copies and publishes one message if there is room; does not wait. Returns the ring's new end position in
        bytes, or None, which is false, if there was no room.

        ``type``: 1 to 2^31-1. The default is 1; on a channel with a schema it is 65536, which no SBE message has. The
        type of a typed message is its template id, so leave ``type`` out.

        Raises MessageTooLargeError and InvalidArgumentError.
        """

    def send(self, data: Bytes | MessageFlyweight, type: int = ..., timeout: float | None = None) -> int:
        """Like ``offer``, but waits for room. Returns the ring's new end position, in bytes. Raises BackPressuredError
        if there was no room within ``timeout`` seconds (None: no limit)."""

    @overload
    def claim(
        self, message: type[_Message], variable_length: SupportsIndex = 0, timeout: float | None = None
    ) -> _Message:
        """Claims a message to be written in place, whose header is already written. ``variable_length``: bytes for its
        groups and data. The block is not cleared, so write every field. Raises BackPressuredError as below, and
        InvalidArgumentError if the template id cannot be a record type."""

    @overload
    def claim(self, length: SupportsIndex, type: int = ..., timeout: float | None = None) -> Claim:
        """Claims space for a message of ``length`` bytes, and waits for room. Commit or abort the claim before the next
        use of the publisher; as a context manager the claim does this itself. Raises BackPressuredError if there was no
        room within ``timeout`` seconds (None: no limit)."""

    @overload
    def try_claim(self, message: type[_Message], variable_length: SupportsIndex = 0) -> _Message | None: ...
    @overload
    def try_claim(self, length: SupportsIndex, type: int = ...) -> Claim | None:
        """Like ``claim``, but does not wait: returns None if there is no room."""

    def _fileno(self) -> int: ...
    def _arm(self, began: int, /) -> bool: ...
    def _is_armed(self) -> bool: ...
    def _check_idle(self) -> None: ...
    def _offer_array(self, layout: Layout, rows: Any, timeout: float | None, /) -> int: ...
    def offer_batch(self, messages: Iterable[Bytes], type: int = ...) -> int:
        """Publishes messages in order while there is room; does not wait. Returns how many were published: 0 to all.
        Raises MessageTooLargeError if a message is too large; then none was published."""

    def send_batch(self, messages: Iterable[Bytes], type: int = ..., timeout: float | None = None) -> int:
        """Like ``offer_batch``, but waits for room. Returns how many were published: all of them, unless ``timeout``
        seconds (None: no limit) passed first."""

    def flush(self, timeout: float | None = None) -> None:
        """Waits until every subscriber that a process owns now has read all published messages. Raises TimedOutError
        after ``timeout`` seconds (None: no limit)."""

    def set_spin(self, spin: float, /) -> None:
        """Sets how long a wait with ``wait="block"`` spins before it sleeps, in seconds. The default is 0.00002."""

    def prefetch(self) -> None:
        """Fetches the cache line of the next message, which a waiting reader also holds. A hint: call it at the start
        of a handler that will reply through this publisher. Has no effect on other processes."""

    def close(self) -> None:
        """Aborts an open claim, marks the ring as closed and gives the slot back. Closing twice does nothing. Raises
        ViewAliveError if a memoryview or array of a claim is alive. A thread that waits in this publisher gets
        ClosedError."""

    @property
    def position(self) -> int: ...
    @property
    def max_message_length(self) -> int: ...
    @property
    def ring(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def closed(self) -> bool: ...

class Reader:
    """The methods that subscribers and lossy subscribers share."""

    def poll(
        self, handler: Callable[[Message], Action | None], limit: SupportsIndex = 256, timeout: float | None = 0
    ) -> int:
        """Calls ``handler(message)`` for each waiting message, at most ``limit`` of them. Returns how many were
        handled. If there is none, waits up to ``timeout`` seconds for the first (0: does not wait; None: no limit).

        A message is valid until its handler returns. It lies in the ring; for a lossy subscriber it is a private copy.
        A message whose handler raises counts as consumed, and the exception reaches the caller.

        The handler returns None or a ``flyring.Action``: COMMIT (messages handled so far count as read from now on),
        BREAK (the poll ends), or ABORT (the poll ends; this message is neither consumed nor counted, and the next poll
        begins with it). Anything else raises InvalidArgumentError, and the message counts as consumed.
        """

    def _check_idle(self) -> None: ...
    def _poll_arrays(
        self,
        layout: Layout,
        view: Callable[[Message, int, int, int, int, int], object],
        handler: Callable[[Any], Action | None],
        limit: SupportsIndex,
        otherwise: Callable[[Message], Action | None] | None,
        timeout: float | None,
        /,
    ) -> int: ...
    def take(self, timeout: float | None = 0) -> Message | None:
        """Returns one message that owns its bytes, or None if none came within ``timeout`` seconds (0: does not wait;
        None: no limit)."""

    def __iter__(self) -> Self:
        """Iterates over messages that own their bytes, and waits for each. The iteration ends when at least one ring
        has ended, and every other ring has ended or never had a publisher."""

    def __next__(self) -> Message: ...
    def fileno(self) -> int:
        """Returns a file descriptor for select, epoll and event loops. It is readable while there may be messages. A
        ``poll`` or ``take`` that finds nothing makes it unreadable; do not read from it. It lives as long as this
        object."""

    def _is_armed(self) -> bool: ...
    def _have_ended(self) -> bool: ...
    def set_spin(self, spin: float, /) -> None:
        """Sets how long a wait with ``wait="block"`` spins before it sleeps, in seconds. The default is 0.00002."""

    def position(self, ring: int, /) -> int:
        """Returns the position of this reader in the given ring, in bytes. Raises InvalidArgumentError if the reader
        did not choose that ring."""

    def ended(self, ring: int, /) -> bool:
        """Returns whether the ring's publisher has closed and all its messages are consumed. A later publisher in the
        same ring makes it False again. Raises InvalidArgumentError if the reader did not choose that ring."""

    def close(self) -> None:
        """Gives the slot back, if the reader has one. A kept slot keeps its position; any other stops holding
        publishers back. Closing twice does nothing. Raises ViewAliveError inside a handler, and while a memoryview or
        array of a message is alive. A thread that waits in this reader gets ClosedError."""

    @property
    def rings(self) -> tuple[int, ...]: ...
    @property
    def closed(self) -> bool: ...

class Subscriber(Reader):
    def __new__(
        cls,
        data: Memory,
        memory: Memory,
        geometry: tuple[int, int, int, int, int, int, int, int, int],
        lock: File,
        slot: int,
        epoch: int,
        rings: tuple[tuple[int, int, int], ...],
        kept: bool,
        wait: str,
        wakes: bool,
        /,
    ) -> Self: ...
    def _check(self) -> None: ...
    def _unkeep(self) -> None: ...
    @property
    def slot(self) -> int: ...
    @property
    def kept(self) -> bool: ...
    @property
    def epoch(self) -> int: ...

class LossySubscriber(Reader):
    def __new__(
        cls,
        data: Memory,
        memory: Memory,
        file: File,
        geometry: tuple[int, int, int, int, int, int, int, int, int],
        rings: tuple[int, ...],
        oldest: bool,
        newest_after_lap: bool,
        wait: str,
        /,
    ) -> Self: ...
    def peek(self) -> Message | None:
        """Returns one message in place, without a copy, or None. Does not consume it.

        A publisher may overwrite the message while you read it. Call ``valid`` afterwards, and discard what you read if
        it returns False. The next ``poll``, ``take``, ``peek`` or ``valid`` ends the message.
        """

    def valid(self) -> bool:
        """Consumes the message from ``peek``, and returns whether it was intact until now. If it was overwritten, the
        loss is counted, and the subscriber continues with the next published message. Raises InvalidArgumentError if
        there is no message from ``peek``."""

    def lost_messages(self, ring: int, /) -> int:
        """Returns how many messages of this ring were overwritten before they were read, since the subscriber was
        made."""

    def lost_bytes(self, ring: int, /) -> int:
        """Returns how many bytes of this ring, padding included, were overwritten before they were read, since the
        subscriber was made."""

class Worker:
    def __new__(
        cls,
        data: Memory,
        memory: Memory,
        geometry: tuple[int, int, int, int, int, int, int, int, int],
        lock: File,
        slot: int,
        epoch: int,
        ring: int,
        at: int,
        end: int,
        attempts: int,
        monotonic: int,
        wait: str,
        wakes: bool,
        /,
    ) -> Self: ...
    def poll(self, handler: Callable[[Job], Action | None], limit: SupportsIndex = 1, timeout: float | None = 0) -> int:
        """Calls ``handler(job)`` for each job that this worker can take, at most ``limit`` of them. Returns how many
        were handled. If there is none, waits up to ``timeout`` seconds for the first (0: does not wait; None: no
        limit).

        Up to ``limit`` jobs, of at most an eighth of a ring in size, are taken at once, so each job waits for those
        before it. A job whose handler returns is done. A job whose handler raises is released, and the exception
        reaches the caller. Jobs that were taken but not handed out come with the next call.

        The handler returns None or a ``flyring.Action``: CONTINUE and COMMIT (the job is done), BREAK (the job is done,
        and the poll ends), or ABORT (the job is released and not counted, and the poll ends). The handler may also call
        ``done`` or ``release`` itself.
        """

    def take(self, timeout: float | None = 0) -> Job | None:
        """Returns one job, or None if none came within ``timeout`` seconds (0: does not wait; None: no limit). Raises
        ViewAliveError while the previous job is neither done nor released."""

    def drain(self) -> None:
        """Stops taking jobs. The worker hands out the jobs that it has already taken; then ``take`` returns None and
        ``poll`` returns 0 at once, and iteration ends. Thread-safe."""

    def _check(self) -> None: ...
    def _check_idle(self) -> None: ...
    def _next(self) -> Job | None: ...
    def fileno(self) -> int:
        """Returns a file descriptor for select, epoll and event loops. It is readable while there may be jobs. A
        ``poll`` or ``take`` that finds nothing makes it unreadable; do not read from it. It lives as long as this
        object."""

    def _is_armed(self) -> bool: ...
    def _have_ended(self) -> bool: ...
    def set_spin(self, spin: float, /) -> None:
        """Sets how long a wait with ``wait="block"`` spins before it sleeps, in seconds. The default is 0.00002."""

    def close(self) -> None:
        """Releases the jobs in hand and gives the slot back. Closing twice does nothing. Raises ViewAliveError inside a
        handler, and while a memoryview or array of a job is alive. A thread that waits in this worker gets
        ClosedError."""

    @property
    def ended(self) -> bool:
        """Whether all producers have closed and every job is done. False before the first producer."""

    @property
    def slot(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    @property
    def _drains(self) -> bool: ...

@final
class Answer(Message):
    """The reply to a call, or one item of a stream. A message that owns its bytes (spec/api.md)."""

    @property
    def repeat(self) -> bool:
        """Whether the request may have run more than once (at-least-once delivery)."""

@final
class Request(Message):
    """One request that a server handles. A message that owns its bytes (spec/api.md).

    The handler answers by ``reply``, or by the value that it returns. A request that the handler keeps with ``keep``
    may be answered later, from any thread.
    """

    @property
    def client(self) -> int:
        """The number of the client that calls."""

    @property
    def sequence(self) -> int:
        """The number of this call among the client's calls."""

    @property
    def cancelled(self) -> bool:
        """Whether the client no longer waits, or has gone."""

    @property
    def repeat(self) -> bool:
        """Whether the request may have run before (at-least-once delivery)."""

    @property
    def is_stream(self) -> bool:
        """Whether the client asked for a stream."""

    @property
    def answered(self) -> bool: ...
    def remaining(self) -> float | None:
        """Returns for how many more seconds the caller waits, at least 0; None if it has no time-out."""

    def reply(self, data: Bytes | MessageFlyweight, type: int | None = None) -> None:
        """Answers the request. Thread-safe.

        ``data``: bytes, or a message of a generated class. ``type`` None: 1, or 65536 on a channel with a schema; for a
        message of a class its template id.

        Raises InvalidArgumentError if the request was answered before; MessageTooLargeError, in which case nothing was
        sent; SlotLostError; ClosedError.
        """

    def fail(self, text: str, /) -> None:
        """Ends the call with ServiceError and this text; at most 1024 bytes of the text are sent. Raises the errors of
        ``reply``."""

    def keep(self) -> Self:
        """Keeps the request beyond its handler, and returns it, so that any thread may answer later. A kept request
        that is dropped without an answer fails with ``no answer``."""

    def stream(self, items: Iterable[Bytes | MessageFlyweight], type: int | None = None) -> None:
        """Answers with the items of an iterable, and then ends the stream. The server's polls take the next item when
        the caller has credit and the ring has room; they read one item ahead.

        If the iterable raises, the stream ends with ServiceError. Raises the errors of ``reply``, and
        InvalidArgumentError if the caller did not ask for a stream.
        """

@final
class Call:
    """A call of a client, under way or ended (spec/api.md). Made by ``Client.start`` and ``Client.stream``.

    A call is used by the thread of its client. ``for item in call`` and ``async for`` iterate over the items of a
    stream. A call that is dropped goes on, and its answer is discarded.
    """

    @property
    def done(self) -> bool:
        """Whether the call has ended."""

    @property
    def repeat(self) -> bool:
        """Whether the request of the answer may have run more than once (at-least-once delivery)."""

    def result(self, timeout: float | None = None) -> Answer:
        """Waits for the answer, and returns it. For a stream, returns an empty answer at the end of the stream.

        Raises ServiceError, ExpiredError, ServerGoneError, CancelledError, ClosedError, SlotLostError or
        CorruptRingError if the call ended without an answer. Raises TimedOutError after ``timeout`` seconds (None: no
        limit), and ChannelReplacedError if another channel has the name now; after these two the call goes on.
        """

    def next(self, timeout: float | None = None) -> Answer | None:
        """Streams only: waits for the next item, and returns it. Returns None at the end of the stream, and after
        ``timeout`` seconds (None: no limit); ``done`` tells these apart. Raises the errors of ``result``, after the
        last item that arrived."""

    def cancel(self) -> None:
        """Ends the call with CancelledError at once, and tells the server. Does nothing if the call has ended."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> Answer: ...
    def __aiter__(self) -> Items: ...
    def _set_callback(self, callback: Callable[[Call], object] | None, /) -> None: ...
    @property
    def _has_item(self) -> bool: ...
    @property
    def _stream(self) -> bool: ...
    @property
    def _client(self) -> Any: ...
    @property
    def _sequence(self) -> int: ...

class Server:
    def __new__(
        cls,
        data: Memory,
        memory: Memory,
        geometry: tuple[int, int, int, int, int, int, int, int, int],
        lock: File,
        epoch: int,
        sides: tuple[tuple[int, int, int, int, bool, int, int], ...],
        name: bytes,
        least: bool,
        max_outstanding: int,
        default_type: int,
        monotonic: int,
        clock_offset: int,
        wait: str,
        wakes: bool,
        /,
    ) -> Self: ...
    def poll(
        self,
        handler: Callable[[Request], object] | None = None,
        limit: SupportsIndex = 256,
        timeout: float | None = 0,
    ) -> int:
        """Calls ``handler(request)`` for each waiting request, at most ``limit`` of them. Returns how many were
        handled. If there is none, waits up to ``timeout`` seconds for the first (0: does not wait; None: no limit).
        With ``limit`` 0 it takes no request, does not wait, and sends replies that waited for room. Without a
        ``handler``, uses those of ``on``.

        The handler answers by ``request.reply``, or by the value that it returns: bytes, or a message of a generated
        class. If the handler raises, the call ends with ServiceError, and the poll goes on. Only exceptions that no
        handler should catch (KeyboardInterrupt, SystemExit) reach the caller, after the reply. An exception after the
        handler's own reply goes to ``sys.unraisablehook``.
        """

    def stop(self) -> None:
        """Ends the current ``serve``, or the next one. Thread-safe."""

    def fileno(self) -> int:
        """Returns a file descriptor for select, epoll and event loops. It is readable while there may be requests. A
        ``poll`` that finds nothing makes it unreadable; do not read from it. It lives as long as this object."""

    def set_spin(self, spin: float, /) -> None:
        """Sets how long a wait with ``wait="block"`` spins before it sleeps, in seconds. The default is 0.00002."""

    def close(self) -> None:
        """Gives the server's place back. Unanswered calls end with ServerGoneError; with at-least-once delivery they go
        to the next server. Closing twice does nothing. Raises ViewAliveError inside a handler."""

    @property
    def closed(self) -> bool: ...
    @property
    def client_gone(self) -> int:
        """How many replies were for clients that have gone."""

    @property
    def expired(self) -> int:
        """How many requests came after their deadline."""

    @property
    def not_run(self) -> int:
        """How many requests were for an earlier server."""

    @property
    def damaged(self) -> int:
        """How many clients were evicted for a damaged ring."""

    @property
    def slot(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def max_message_length(self) -> int:
        """The largest answer, in bytes."""

    def _check_idle(self) -> None: ...
    def _is_armed(self) -> bool: ...
    def _set_handler(self, handler: Callable[[Request], object], /) -> None: ...
    def _stopped(self) -> bool: ...
    def _set_clock(self, monotonic: int, /) -> None: ...
    @property
    def _held(self) -> tuple[int, int]: ...

class Client:
    def __new__(
        cls,
        data: Memory,
        memory: Memory,
        geometry: tuple[int, int, int, int, int, int, int, int, int],
        lock: File,
        number: int,
        epoch: int,
        publisher_epoch: int,
        end: int,
        end_count: int,
        cursor: int,
        count: int,
        name: bytes,
        least: bool,
        max_outstanding: int,
        default_type: int,
        monotonic: int,
        clock_offset: int,
        wait: str,
        wakes: bool,
        /,
    ) -> Self: ...
    def call(self, data: Bytes | MessageFlyweight, type: int | None = None, timeout: float | None = None) -> Answer:
        """Calls the server and returns its answer, which owns its bytes.

        ``data``: bytes, or a message of a generated class. ``type`` None: 1, or 65536 on a channel with a schema; for a
        message of a class its template id. ``timeout``: the limit in seconds (None: no limit) for the whole call:
        waiting for a server, for room, and for the answer. The request carries it as its deadline.

        Raises ServiceError, ExpiredError or ServerGoneError if the call ended without an answer. Raises BusyError,
        MessageTooLargeError or InvalidArgumentError if the call was not made. Raises ChannelReplacedError if another
        channel has the name now; then the call may go on, but its answer is lost.
        """

    def start(
        self,
        data: Bytes | MessageFlyweight,
        type: int | None = None,
        timeout: float | None = None,
        callback: Callable[[Call], object] | None = None,
    ) -> Call:
        """Publishes a request and returns a Call without waiting for the answer. Like ``call``, it waits if there is no
        server or no room.

        ``callback(call)`` is called when the call has ended, from inside a method of this client. It may start calls,
        but not wait. An exception from it is raised by that method.

        Raises ExpiredError if ``timeout`` seconds passed before the request was published, and otherwise the errors of
        ``call``.
        """

    def stream(
        self,
        data: Bytes | MessageFlyweight,
        type: int | None = None,
        credit: int = 64,
        timeout: float | None = None,
        callback: Callable[[Call], object] | None = None,
    ) -> Call:
        """Like ``start``, for a request that the server answers with a sequence of items: ``for item in call``.

        ``credit``: how many items may be under way between the server and the caller, 1 to 65535. ``callback`` is also
        called for each item. Raises InvalidArgumentError (``credit``) if the service delivers at least once, and
        otherwise the errors of ``start``.
        """

    def poll(self, timeout: float | None = 0) -> int:
        """Takes replies, ends calls, runs callbacks and notices the death of the server. Returns how many calls ended
        or got an item. If there is none, waits up to ``timeout`` seconds for the first (0: does not wait; None: no
        limit)."""

    def fileno(self) -> int:
        """Returns a file descriptor for select, epoll and event loops. It is readable while there may be replies. A
        ``poll`` that finds nothing makes it unreadable; do not read from it. It lives as long as this object."""

    def set_spin(self, spin: float, /) -> None:
        """Sets how long a wait with ``wait="block"`` spins before it sleeps, in seconds. The default is 0.00002."""

    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def outstanding(self) -> int:
        """How many calls are under way. Expired and cancelled calls count until the server has answered them."""

    @property
    def late(self) -> int:
        """How many replies came after their call had ended."""

    @property
    def number(self) -> int:
        """The number of this client, from 0."""

    @property
    def slot(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def max_message_length(self) -> int:
        """The largest request, in bytes."""

    def _check_idle(self) -> None: ...
    def _is_armed(self) -> bool: ...
    def _start_now(
        self,
        data: Bytes | MessageFlyweight,
        type: int | None,
        timeout: float | None,
        credit: int | None,
        callback: Callable[[Call], object] | None,
        /,
    ) -> Call | None: ...
    def _want_nothing(self) -> None: ...
    def _tell_rest(self) -> None: ...
    def _set_clock(self, monotonic: int, /) -> None: ...
    @property
    def _server_epoch(self) -> int: ...

class Table:
    """The C part of ``flyring.Table``: reads, and changes that hold the writer's slot only for themselves."""

    def __new__(
        cls,
        file: File,
        memory: Memory,
        shape: tuple[int, int, int, bool, int, int, int],
        path: str,
        wakes: bool,
        writable: bool,
        /,
    ) -> Self: ...
    @property
    def closed(self) -> bool:
        """True after ``close``, and in a forked child process."""

    _ready: bool
    _renewed: bool
    _busy: int
    def __len__(self) -> int: ...
    def __contains__(self, key: object, /) -> bool: ...
    def __getitem__(self, key: Any, /) -> bytes: ...
    def __setitem__(self, key: Any, value: Bytes | MessageFlyweight, /) -> None: ...
    def __delitem__(self, key: Any, /) -> None: ...
    @overload
    def get(self, key: Any, default: None = None) -> bytes | None: ...
    @overload
    def get(self, key: Any, default: _Value) -> bytes | _Value:
        """Returns a copy of the key's value, or ``default`` if it is absent."""

    def get_versioned(self, key: Any, /) -> tuple[bytes, int] | None:
        """Returns (value, version) of the key, with a copy of the value, or None if the key is absent."""

    def read(self, key: Any, handler: Callable[[memoryview], _Result], /) -> _Result | None:
        """Calls ``handler(value)`` with a memoryview of the value in the mapped file. Returns the handler's result, or
        None if the key is absent.

        The handler may see a torn value, and is called again then. Only its last call counts; that one saw a value that
        was not torn. The view is valid until the handler returns: keeping it, or a part of it, raises ViewAliveError.
        Raises BusyError if the value changed for a millisecond, faster than it could be read.
        """

    def put(self, key: Any, value: Bytes | MessageFlyweight, timeout: float | None = None) -> int:
        """Puts a value: bytes, a buffer, or a typed message. Takes the writer's slot for this one change, and waits up
        to ``timeout`` seconds (None: no limit) for it. Returns the key's new version.

        Raises NoFreeSlotError at the time-out, NoSpaceError if the table is full, MessageTooLargeError,
        AccessDeniedError if the table is read-only, BusyError if a TableWriter of this Table is open, and
        ChannelReplacedError if another table has the name.
        """

    def put_if_absent(self, key: Any, value: Bytes | MessageFlyweight, timeout: float | None = None) -> int:
        """Like ``put``, but only if the key is absent. Returns the new version, or 0 if the key was there."""

    def compare_and_put(
        self, key: Any, version: int, value: Bytes | MessageFlyweight, timeout: float | None = None
    ) -> int:
        """Like ``put``, but only if the key has this version; 0 means that the key must be absent. Returns the new
        version, or 0 if it put nothing."""

    def remove(self, key: Any, timeout: float | None = None) -> bool:
        """Removes a key. Returns whether it was there. ``timeout`` and errors are those of ``put``."""

    def _attach(self, file: File, memory: Memory, shape: tuple[int, int, int, bool, int, int, int], /) -> None: ...
    def _shut(self) -> None: ...
    def _scan(self, cell: int, /) -> tuple[int, list[tuple[Any, bytes, int]]]: ...
    def _version_of(self, key: Any, /) -> int: ...
    def _wait_changed(self, key: Any, version: int, timeout: float | None, /) -> int: ...
    def _recover(self, progress: Callable[[int, int], object] | None, /) -> int: ...
    def _set_clean(self, clean: bool, /) -> None: ...
    def _copy(self, to: Table, cell: int, /) -> int: ...
    def _handle(self, handler: Callable[[_Value], _Result], value: _Value, /) -> _Result: ...
    def _check_handler(self) -> None: ...
    def _check_single(self, held: bool, /) -> None: ...

class TableWriter:
    def __new__(cls, table: Table, lock: File, /) -> Self: ...
    @property
    def closed(self) -> bool:
        """True after ``close``, and in a forked child process."""

    @property
    def epoch(self) -> int:
        """A number that grows each time the writer's slot is taken; that of this writer."""

    def __setitem__(self, key: Any, value: Bytes | MessageFlyweight, /) -> None: ...
    def __delitem__(self, key: Any, /) -> None: ...
    def put(self, key: Any, value: Bytes | MessageFlyweight) -> int:
        """Puts a value: bytes, a buffer, or a typed message. Returns the key's new version.

        Raises NoSpaceError if the table is full, MessageTooLargeError, and SlotLostError.
        """

    def put_if_absent(self, key: Any, value: Bytes | MessageFlyweight) -> int:
        """Like ``put``, but only if the key is absent. Returns the new version, or 0 if the key was there."""

    def compare_and_put(self, key: Any, version: int, value: Bytes | MessageFlyweight) -> int:
        """Like ``put``, but only if the key has this version; 0 means that the key must be absent. Returns the new
        version, or 0 if it put nothing."""

    def remove(self, key: Any, /) -> bool:
        """Removes a key. Returns whether it was there."""

    def _check_change(self) -> None: ...
    def _clear(self, cell: int, /) -> tuple[int, int]: ...
    def _take(self, held: bool, /) -> int: ...
    def _move(self, other: TableWriter, /) -> None: ...
    def _shut(self) -> None: ...

class TableEntry:
    def __new__(cls, table: Table, key: Any, writer: TableWriter | None = None, /) -> Self: ...
    @property
    def key(self) -> Any:
        """The key."""

    @property
    def version(self) -> int:
        """The key's version; 0 if it is absent."""

    @property
    def _writer(self) -> TableWriter | None: ...
    def get(self) -> bytes | None:
        """Returns a copy of the key's value, or None if it is absent."""

    def read(self, handler: Callable[[memoryview], _Result], /) -> _Result | None:
        """Like ``Table.read``."""

    def wait_changed(self, version: int, timeout: float | None = None) -> int:
        """Like ``Table.wait_changed(key, version)`` of this key."""

    def put(self, value: Bytes | MessageFlyweight, /) -> int:
        """Like ``TableWriter.put`` of this key. Raises InvalidArgumentError if ``Table.entry`` made this entry."""

@final
class TableWait:
    def __new__(cls, table: Table, key: Any, version: int, /) -> Self: ...
    def fileno(self) -> int: ...
    def look(self) -> int | None: ...
    def stop(self) -> None: ...
    def _is_armed(self) -> bool: ...

@final
class JournalMessage(Message):
    """One message of a journal: a ``flyring.Message`` with a time and a number (spec/api.md, Journal).

    ``position`` is where its record begins, by which a reader may begin with it later. ``ring`` is 0, and the
    ``sender`` is not known. A message from ``poll`` is valid until its handler returns; one from ``take``, ``pop`` or
    ``peek`` owns its bytes.
    """

    @property
    def time(self) -> int:
        """When it was appended, in ns since 1970, or the time that its writer gave."""

    @property
    def number(self) -> int:
        """How many messages lie before it in the journal."""

class JournalWalk:
    def __new__(cls, size: int, /) -> Self: ...
    def use(self, file: File, segment: int, /) -> None: ...
    def forget(self) -> None: ...
    def begin(self, at: int, count: int, time: int = 0, fresh: bool = False, /) -> None: ...
    def scan(self, limit: int, /) -> int: ...
    def spans(self, limit: int, /) -> int: ...
    def judge(self, file: File, /) -> int: ...
    def find_check(self, start: int, limit: int, /) -> int: ...
    def seek(self, kind: int, value: int, /) -> tuple[int, int, int]: ...
    def pass_records(self, at: int, limit: int, /) -> tuple[int, bool]: ...
    @staticmethod
    def make_check(position: int, count: int, time: int, /) -> bytes: ...
    @property
    def segment(self) -> int: ...
    @property
    def at(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def start_count(self) -> int: ...
    @property
    def start_time(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def time(self) -> int: ...
    @property
    def crc(self) -> int: ...
    @property
    def check_count(self) -> int: ...
    @property
    def check_time(self) -> int: ...
    @property
    def cut_count(self) -> int: ...
    @property
    def cut_next(self) -> int: ...
    @property
    def cut_reached(self) -> int: ...
    @property
    def cut_reason(self) -> int: ...

class JournalReader(Reader):
    def __new__(
        cls,
        memory: Memory,
        file: File,
        walk: JournalWalk,
        boot: bytes,
        durable: bool,
        wait: str,
        lock: File | None,
        slot: int,
        epoch: int,
        lost: int,
        /,
    ) -> Self: ...
    def poll(
        self,
        handler: Callable[[JournalMessage], Action | None],
        limit: SupportsIndex = 256,
        timeout: float | None = 0,
    ) -> int:
        """Calls ``handler(message)`` for each message, at most ``limit`` of them. See ``Subscriber.poll``."""

    def take(self, timeout: float | None = 0) -> JournalMessage | None:
        """Returns one message that owns its bytes, or None if none came within ``timeout`` seconds (0: does not wait;
        None: no limit)."""

    def __next__(self) -> JournalMessage: ...
    @property
    def position(self) -> int:  # type: ignore[override]
        """Where the next record lies that it has not read, in bytes since the journal's creation."""

    @property
    def number(self) -> int:
        """How many messages lie before that position."""

    @property
    def lost(self) -> int:
        """How many messages it lost: they were trimmed before it read them, or skipped as damaged."""

    @property
    def cuts(self) -> int:
        """How many places it passed where a power loss or a failed sync took the end."""

    @property
    def durable(self) -> bool:
        """Whether it reads only what is synced."""

    def _peek(self) -> JournalMessage | None: ...
    def _check(self) -> None: ...
    def _place(self, position: int, number: int, span: int, span_count: int, fresh: bool, /) -> None: ...
    def _prove(self, until: int, after: int, /) -> None: ...
    def _map(self, memory: Memory | None, segment: int, until: int, /) -> None: ...
    def _set_foreign(self, foreign: bool, blocked: bool, /) -> None: ...
    def _lose(self, messages: int, /) -> None: ...
    def _count_cut(self) -> None: ...
    def _limit_to(self, position: int, /) -> None: ...
    def _wait_beyond(self, position: int, /) -> None: ...
    def _limit(self) -> int: ...
    def _store(self) -> None: ...
    def _unkeep(self) -> None: ...
    @property
    def _span(self) -> int: ...
    @property
    def _span_count(self) -> int: ...
    @property
    def _fresh(self) -> bool: ...
    @property
    def _foreign(self) -> bool: ...
    @property
    def _mapped(self) -> int: ...
    @property
    def _epoch(self) -> int: ...

@final
class Replay:
    """Publishes the messages of a recording (spec/journal.md 9). For ``flyring replay``."""

    def __new__(
        cls,
        reader: JournalReader,
        types: tuple[int, ...],
        end: int,
        until_time: int,
        until_number: int,
        speed: float,
        /,
    ) -> Self: ...
    def route(self, source: int, ring: int, publisher: Publisher | None, /) -> None:
        """Messages of this ring go there. None: they are not chosen."""

    def forget_routes(self) -> None: ...
    def step(self, limit: int, /) -> int:
        """Passes up to ``limit`` messages, and publishes those that are chosen. Returns why it ended (replay.c)."""

    @property
    def published(self) -> int:
        """How many messages were published."""

    @property
    def late(self) -> int:
        """How many of them were published over a millisecond late."""

    @property
    def latest(self) -> int:
        """The most that one was late, in ns."""

    @property
    def due(self) -> int:
        """When the message is due that was not, in ns of CLOCK_MONOTONIC."""

@final
class Recorder:
    """Moves the messages of one channel into a recording (spec/journal.md 9). For ``flyring record``."""

    def __new__(cls, reader: Reader, writer: JournalWriter, source: int, /) -> Self: ...
    def resume(self, ring: int, next: int, number: int, epoch: int, name: str, /) -> None:
        """The journal has the ring's messages below the position ``next``, and ``number`` is that of the next one (-1:
        not known). ``epoch`` and ``name`` are the last one's sender."""

    def step(self, segment: int, limit: int, /) -> int:
        """Records what is there: about ``limit`` bytes of the journal for each ring. Ends early when the journal has
        entered another segment than ``segment``. Returns how many messages."""

    def note_senders(self, segment: int, /) -> bool:
        """Records the senders of all rings. False: the journal has entered another segment than ``segment``."""

    def cursors(self) -> list[tuple[int, int, int]]:
        """How far it has read: (ring, position, number) of each ring."""

    def store_gates(self, cursors: list[tuple[int, int, int]], /) -> None:
        """Stores the gates of a kept subscriber where ``cursors`` was."""

    @property
    def messages(self) -> int:
        """How many messages were recorded."""

    @property
    def bytes(self) -> int:
        """The bytes of their payloads."""

    @property
    def doubles(self) -> int:
        """Messages that the journal had already."""

    @property
    def lost(self) -> int:
        """Messages that were lost, and recorded as such."""

    @property
    def held(self) -> int:
        """The bytes that were read of a ring, and whose gate is not stored."""

class JournalWriter:
    def __new__(
        cls,
        memory: Memory,
        lock: File,
        path: str,
        size: int,
        epoch: int,
        end: int,
        count: int,
        latest: int,
        since: int,
        crc: int,
        default_type: int,
        checked_at: int,
        now: int,
        wakes: bool,
        /,
    ) -> Self: ...
    def append(self, data: Bytes | MessageFlyweight, type: int = ..., time: int | None = None) -> int:
        """Appends one message: bytes, a buffer, or a typed message. Returns the position of the message, in bytes.

        ``type``: 1 to 2^31-1; by default 1, in a journal with a schema 65536; that of a typed message is its template
        id. ``time``: ns since 1970; None: now. When this returns, the message is there however the process ends; it is
        on the disk after the next sync.

        Raises MessageTooLargeError; NoSpaceError and IoError if the next segment cannot be made, which change nothing;
        IoError also after a sync that failed, which ends the writer; SlotLostError.
        """

    def append_many(
        self, messages: Iterable[Bytes | MessageFlyweight], type: int = ..., time: int | None = None
    ) -> int:
        """Appends messages in order, with one time and one wake-up. Returns how many. Lengths are checked first, so
        MessageTooLargeError means that none was appended. After another error those before it are appended; ``number``
        tells how many."""

    @overload
    def claim(self, message: type[_Message], variable_length: SupportsIndex = 0) -> _Message:
        """Returns a Claim: space for one message of ``length`` bytes, to be filled in place. ``claim(Message,
        variable_length=0)`` returns a typed message. Its ``commit`` returns the message's position. At most one claim
        is open: any other method that appends raises ViewAliveError until it has ended."""

    @overload
    def claim(self, length: SupportsIndex, type: int = ...) -> Claim: ...
    @property
    def position(self) -> int:
        """Where the next record begins, in bytes since the journal's creation."""

    @property
    def number(self) -> int:
        """How many messages the journal has had, those that were trimmed included."""

    @property
    def epoch(self) -> int:
        """How many owners the writer's slot has had, this one included."""

    @property
    def max_message_length(self) -> int:
        """The longest payload in bytes."""

    @property
    def closed(self) -> bool:
        """True after ``close``, and in a forked child process."""

    def _may_close(self) -> None: ...
    def _drop_claim(self) -> None: ...
    def _is_owner(self) -> bool: ...
    def _shut(self) -> None: ...
    def _check(self) -> None: ...
    def _make_check(self) -> None: ...
    def _fail(self, number: int, /) -> None: ...
    @property
    def _since(self) -> int: ...

@final
class WaitSet:
    """Waits for several subscribers, workers, publishers, servers and clients in one thread (spec/api.md).

    The members may belong to different channels. A wait set is not thread-safe, except for ``wake``.
    """

    def __new__(cls) -> Self: ...
    def add(self, member: Reader | Worker | Publisher | Server | Client, /) -> None:
        """Adds a member. A subscriber, lossy subscriber, worker, server or client is ready when there may be a message
        for it. A publisher is ready when there is room for the message that last found none. Raises
        InvalidArgumentError if the member is in the set already."""

    def remove(self, member: Reader | Worker | Publisher | Server | Client, /) -> None:
        """Removes a member. Raises InvalidArgumentError if the member is not in the set."""

    def wait(self, timeout: float | None = None) -> list[Any]:
        """Waits until a member is ready, ``wake`` is called, or ``timeout`` seconds (None: no limit) have passed.
        Returns the members that are ready, in the order in which they were added.

        A member that is closed, has lost its slot, or whose channel was replaced, counts as ready: its next method
        raises the error. Raises TwoThreadsError if a member is in use by another thread.
        """

    def wake(self) -> None:
        """Ends the current ``wait``, or the next one. Thread-safe."""

    def set_spin(self, spin: float, /) -> None:
        """Sets how long a wait spins before it sleeps, in seconds. The default is 0.00002."""

    @property
    def naps(self) -> bool:
        """Whether the set looks every millisecond instead of sleeping until it is woken. This is so if the kernel has
        no futex_waitv, or there are more than 127 pairs of words to sleep on (one for each channel and direction)."""

    def __len__(self) -> int: ...

# SBE (flyring.sbe)

@final
class Field(Generic[_Get, _Set]):
    """One attribute of a message, group entry or composite. Made by ``flyring.sbe.fields``."""

    def __new__(
        cls,
        kind: str,
        name: str,
        offset: int,
        primitive: str,
        length: int,
        since: int,
        byte_order: str,
        null: float | None = None,
        minimum: float | None = None,
        maximum: float | None = None,
        type: Any = None,
        codec: str | None = None,
        extra: tuple[Any, ...] | None = None,
        /,
    ) -> Self: ...
    @overload
    def __get__(self, instance: None, owner: type[Any], /) -> Self: ...
    @overload
    def __get__(self, instance: Flyweight, owner: type[Any] | None = None, /) -> _Get: ...
    def __set__(self, instance: Flyweight, value: _Set, /) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def type(self) -> Any: ...
    @property
    def offset(self) -> int: ...
    @property
    def length(self) -> int: ...
    @property
    def since(self) -> int: ...
    @property
    def encoding(self) -> str | None: ...
    @property
    def typestr(self) -> str: ...

@final
class Layout:
    """The block of a message or entry class, and the groups and data that follow it."""

    def __new__(
        cls,
        name: str,
        block_length: int,
        parts: tuple[Field[Any, Any], ...],
        header: tuple[int | str, ...] = ...,
        template_id: int = 0,
        schema_id: int = 0,
        version: int = 0,
        /,
    ) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def block_length(self) -> int: ...
    @property
    def header_length(self) -> int: ...
    @property
    def template_id(self) -> int: ...

class Flyweight:
    @property
    def acting_version(self) -> int:
        """The schema version that the writer used."""

    @property
    def acting_block_length(self) -> int:
        """The block length that the writer used, in bytes."""

class MessageFlyweight(Flyweight):
    @classmethod
    def encode(cls, buffer: Bytes, offset: SupportsIndex = 0) -> Self:
        """Writes the message header at ``offset`` of ``buffer``, and returns a message to be written behind it. The
        block is not cleared, so write every field. Raises MessageTooShortError."""

    @classmethod
    def decode(cls, buffer: Bytes, offset: SupportsIndex = 0) -> Self:
        """Checks the message header at ``offset`` of ``buffer``, and returns the message to be read. Raises
        WrongMessageError or MessageTooShortError."""

    @classmethod
    def wrap(
        cls,
        buffer: Bytes,
        offset: SupportsIndex = 0,
        block_length: SupportsIndex | None = None,
        version: SupportsIndex | None = None,
    ) -> Self:
        """Returns a message without a header, to be read, whose block begins at ``offset`` of ``buffer``.
        ``block_length`` and ``version`` None: those of the class, BLOCK_LENGTH and SCHEMA_VERSION. Raises
        MessageTooShortError."""

    def commit(self) -> int:
        """Publishes the claim. Returns the ring's new end position, in bytes.

        Raises OrderError if groups or data were not written (the claim stays open); ClosedError; SlotLostError;
        SbeError if the message is not a claim.
        """

    def abort(self) -> int:
        """Gives the claim up; its space becomes padding. Returns the ring's new end position, in bytes."""

    @property
    def encoded_length(self) -> int:
        """Bytes of the whole message so far, header included (after ``wrap`` there is none)."""

    def __bytes__(self) -> bytes:
        """Returns a copy of the whole message, header included. Raises OrderError if the message is not complete."""

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, traceback: object, /) -> None:
        """Commits the claim if it is still open, or aborts it after an exception. Releases the buffer of any other
        message."""

@final
class Group(Generic[_Entry]):
    """The entries of a group. To read: ``len``, iteration and indexes. To write: ``encode(count)``."""

    def encode(self, count: int, /) -> GroupIterator[_Entry]:
        """Begins the group, and returns an iterator over its ``count`` entries. Write each entry before you ask for the
        next. Raises OrderError if another field must be written first; OutOfRangeError; MessageTooShortError."""

    def __len__(self) -> int: ...
    def __iter__(self) -> GroupIterator[_Entry]: ...
    def __getitem__(self, index: SupportsIndex, /) -> _Entry: ...

@final
class GroupIterator(Iterator[_Entry]):
    def __next__(self) -> _Entry: ...

def dispatch(
    handlers: Mapping[type[_Message], Callable[[Any, Message], Action | None]],
    otherwise: Callable[[Message], Action | None] | None = None,
) -> Callable[[Message], Action | None]:
    """A handler for ``poll`` that calls ``handlers[Message](decoder, message)`` by the record's type, which is the
    template id. Both are valid until the handler returns.

    A type without a handler goes to ``otherwise``, or is skipped. BadMessageError for a message that is not what its
    type says; it is consumed. What a handler or ``otherwise`` returns, None or an ``Action``, is what ``poll`` gets.
    One dispatch may serve many subscribers, also lossy ones, and what ``take`` returned.
    """
