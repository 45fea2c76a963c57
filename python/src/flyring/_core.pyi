# SPDX-License-Identifier: Apache-2.0
# The C core (core/*.c). Publisher and Subscriber are documented by their subclasses in publisher.py, subscriber.py.

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Generic, Protocol, Self, SupportsIndex, TypeAlias, TypeVar, final, overload

from typing_extensions import Buffer

from .action import Action
from .client import Items
from .sender import Sender

_Get = TypeVar("_Get", covariant=True)
_Set = TypeVar("_Set", contravariant=True)
_Entry = TypeVar("_Entry", bound=Flyweight, covariant=True)
_Message = TypeVar("_Message", bound=MessageFlyweight)

class ArrayInterface(Protocol):
    """A numpy array or scalar: numpy tells type checkers of its buffers from Python 3.12 on only."""

    @property
    def __array_interface__(self) -> dict[str, Any]: ...

Bytes: TypeAlias = Buffer | ArrayInterface
"""Anything with the buffer protocol."""

def crc32c(data: Buffer, /) -> int: ...
def file_system_type(fd: int, /) -> int: ...
def register_waker() -> bool: ...
def message_behind(message: Message, bytes: int, /) -> Message: ...
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
    """One message: payload (buffer protocol, ``bytes(message)``, ``data``), type, ring, position and sender.

    From ``poll`` it lies in the ring (of a lossy subscriber: in a private copy) and is valid until its handler returns:
    ClosedError afterwards. From ``take`` it owns its bytes. From ``peek`` it lies in the ring and may be overwritten.
    ``==`` compares the payload with that of another message or with any bytes-like object.
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
    """One message of a queue, in the hand of one worker until it is done or released. A context manager: done at its
    normal end, released after an exception.

    ``ring`` and ``position`` are those of the record in which it was published first: its identity, however often it is
    handed out. Its bytes lie in the ring, and are valid until it ends: ClosedError afterwards; ViewAliveError from what
    would end it while a view of them is alive. The sender of a job that was released is not known.
    """

    @property
    def attempts(self) -> int:
        """How often it was handed out before, as far as it is known: never 0 if it was."""

    @property
    def repeat(self) -> bool:
        """Whether ``attempts`` is above 0."""

    def done(self) -> None:
        """Finishes it. SlotLostError if the worker was evicted meanwhile: the job is another's. ClosedError the second
        time."""

    def release(self) -> bool:
        """Gives it to others, at the end of the queue's returns: whether they may have it now. If not, there is no
        room, or others release just now: it stays in hand, and its worker's next ``take`` or ``poll`` hands it out
        again. SlotLostError, ClosedError as ``done``."""

    @property
    def _open(self) -> bool: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, traceback: object, /) -> None: ...

@final
class Claim:
    """Space in the ring, to be filled through the buffer protocol, ``data`` or ``claim[i:j] = bytes``, and then
    committed or aborted. As a context manager it commits at its normal end, and aborts after an exception.

    ``commit`` and ``abort`` return the ring's new end position in bytes. ViewAliveError if a memoryview or array of the
    claim is alive (the claim stays open); ClosedError if it has ended, or the publisher has; SlotLostError.
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
        """Copies and publishes one message: the ring's new end position in bytes; None, which is false, if nothing was
        published because there was no room. MessageTooLargeError; InvalidArgumentError unless ``type`` is 1 to 2^31-1.
        If it is not given it is 1, on a channel with a schema 65536, which no SBE message has. That of a typed message
        is its template id: do not give it."""

    def send(self, data: Bytes | MessageFlyweight, type: int = ..., timeout: float | None = None) -> int:
        """As ``offer``, but waits for room: the ring's new end position in bytes. BackPressuredError if there was none
        within ``timeout`` seconds (None: no limit)."""

    @overload
    def claim(
        self, message: type[_Message], variable_length: SupportsIndex = 0, timeout: float | None = None
    ) -> _Message:
        """A message to be written in place, its header is. ``variable_length``: bytes for its groups and data. The
        block is not cleared: write every field. BackPressuredError as below; InvalidArgumentError if the template id
        cannot be a type."""

    @overload
    def claim(self, length: SupportsIndex, type: int = ..., timeout: float | None = None) -> Claim:
        """Space for a message of ``length`` bytes. Waits for room: BackPressuredError if there was none within
        ``timeout`` seconds (None: no limit). Nothing else can be done with the publisher until it is committed or
        aborted; as a context manager it does that itself."""

    @overload
    def try_claim(self, message: type[_Message], variable_length: SupportsIndex = 0) -> _Message | None: ...
    @overload
    def try_claim(self, length: SupportsIndex, type: int = ...) -> Claim | None:
        """As ``claim``, but None if there is no room now."""

    def _fileno(self) -> int: ...
    def _arm(self, began: int, /) -> bool: ...
    def _is_armed(self) -> bool: ...
    def _check_idle(self) -> None: ...
    def _offer_array(self, layout: Layout, rows: Any, timeout: float | None, /) -> int: ...
    def offer_batch(self, messages: Iterable[Bytes], type: int = ...) -> int:
        """Publishes messages in order: how many were taken, 0 to all. MessageTooLargeError means that none was."""

    def send_batch(self, messages: Iterable[Bytes], type: int = ..., timeout: float | None = None) -> int:
        """As ``offer_batch``, but waits for room as often as it must: how many were taken, all of them unless
        ``timeout`` seconds passed first (None: no limit)."""

    def flush(self, timeout: float | None = None) -> None:
        """Waits until every subscriber whose slot somebody owns has read what was published. TimedOutError after
        ``timeout`` seconds (None: no limit)."""

    def set_spin(self, spin: float, /) -> None:
        """How long a wait spins before it sleeps, in seconds (0.00002 unless it is set), with ``wait="block"``."""

    def prefetch(self) -> None:
        """A hint, for the start of a handler that will answer through this publisher: fetches the cache line in which
        the next message will start, which a waiting reader has taken. Others see nothing of it."""

    def close(self) -> None:
        """Aborts an open claim, marks the ring closed, gives the slot back; twice is fine. ViewAliveError if a view of
        a claim is alive. A thread that waits in this publisher gets ClosedError."""

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
    """What subscribers and lossy subscribers share."""

    def poll(
        self, handler: Callable[[Message], Action | None], limit: SupportsIndex = 256, timeout: float | None = 0
    ) -> int:
        """Calls ``handler`` for each message that is there, at most ``limit``: how many. Waits up to ``timeout``
        seconds for the first (0: do not wait; None: no limit). A message, of a lossy subscriber a private copy, is
        valid until its handler returns; one whose handler raised counts as consumed, and the exception reaches the
        caller.

        The handler returns None or an ``Action``: COMMIT (what was handled so far counts as read from now on), BREAK
        (the poll ends), ABORT (the poll ends; this message is not consumed and not counted, and the next poll begins
        with it). InvalidArgumentError for anything else; the message counts as consumed."""

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
        """One message that owns its bytes, or None if there was none within ``timeout`` seconds (0: do not wait; None:
        no limit)."""

    def __iter__(self) -> Self:
        """Messages that own their bytes, waiting for each. It ends when one ring has ended, and every other has, or
        never had an owner."""

    def __next__(self) -> Message: ...
    def fileno(self) -> int:
        """A descriptor that is readable while something may be there: for select, epoll and other loops. A poll or take
        that finds nothing makes it unreadable; do not read from it. It lives as long as this object."""

    def _is_armed(self) -> bool: ...
    def _have_ended(self) -> bool: ...
    def set_spin(self, spin: float, /) -> None:
        """How long a wait spins before it sleeps, in seconds (0.00002 unless it is set), with ``wait="block"``."""

    def position(self, ring: int, /) -> int:
        """The cursor in that ring, in bytes. InvalidArgumentError if the ring was not chosen."""

    def ended(self, ring: int, /) -> bool:
        """Whether the ring's publisher closed and all that it published was consumed. A new publisher makes it untrue
        again. InvalidArgumentError if the ring was not chosen."""

    def close(self) -> None:
        """Gives the slot back, if it has one; a kept slot stays where it is, any other stops holding publishers back.
        Twice is fine. ViewAliveError while a handler runs, or a message is still exported. A thread that waits in
        this subscriber gets ClosedError."""

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
        """One message in place, or None: it may be overwritten while it is read. Not consumed; what is read of it
        counts only if ``valid()`` says so afterwards. The next poll, take, peek or valid ends it."""

    def valid(self) -> bool:
        """Whether the message peeked at was whole until now. It is consumed; if not, the loss is counted and the
        subscriber goes on with what is published next. InvalidArgumentError if nothing is peeked at."""

    def lost_messages(self, ring: int, /) -> int:
        """How many messages were overwritten before they were read, since the start."""

    def lost_bytes(self, ring: int, /) -> int:
        """Bytes of the ring, padding included, that were overwritten before they were read, since the start."""

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
        """Calls ``handler`` for each job that it can take, at most ``limit``, which it takes at once (as far as they
        are an eighth of a ring together), so that each waits for those before it: how many. Waits up to ``timeout``
        seconds for the first (0: do not wait; None: no limit).

        A job whose handler returns is done. One whose handler raises is released, and the exception reaches the caller;
        what was taken and not handed out comes with the next call. The handler returns None or an ``Action``: CONTINUE
        and COMMIT, done; BREAK, done, and the poll ends; ABORT, released, and the poll ends without counting it. It may
        call ``done`` or ``release`` itself."""

    def take(self, timeout: float | None = 0) -> Job | None:
        """One job, or None if there was none within ``timeout`` seconds (0: do not wait; None: no limit).
        ViewAliveError while the one before is neither done nor released."""

    def drain(self) -> None:
        """The worker hands out what it has taken already, and then nothing more: ``take`` returns None and ``poll`` 0,
        at once, and iteration ends. From any thread."""

    def _check(self) -> None: ...
    def _check_idle(self) -> None: ...
    def _next(self) -> Job | None: ...
    def fileno(self) -> int:
        """A descriptor that is readable while something may be there: for select, epoll and other loops. A poll or take
        that finds nothing makes it unreadable; do not read from it. It lives as long as this object."""

    def _is_armed(self) -> bool: ...
    def _have_ended(self) -> bool: ...
    def set_spin(self, spin: float, /) -> None:
        """How long a wait spins before it sleeps, in seconds (0.00002 unless it is set), with ``wait="block"``."""

    def close(self) -> None:
        """Gives back what it has in hand, which is released, and the slot. Twice is fine. ViewAliveError while a
        handler runs, or a job is still exported. A thread that waits in this worker gets ClosedError."""

    @property
    def ended(self) -> bool:
        """Whether all producers have closed, every job was handed out, and none is in hand; False before the first
        producer came."""

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
    """What a server replied: an answer, or an item of a stream. It owns its bytes."""

    @property
    def repeat(self) -> bool:
        """At least once: whether a handler was given the request more than once."""

@final
class Request(Message):
    """One request in a server's hand. It owns its bytes. Its handler answers it by ``reply``, or by what it returns;
    one that is kept is answered later, from any thread."""

    @property
    def client(self) -> int:
        """The number of its caller."""

    @property
    def sequence(self) -> int:
        """Its number among its caller's calls."""

    @property
    def cancelled(self) -> bool:
        """Whether its caller does not wait any more, or has gone."""

    @property
    def repeat(self) -> bool:
        """At least once: whether a handler was given it before."""

    @property
    def is_stream(self) -> bool:
        """Whether its caller takes a stream."""

    @property
    def answered(self) -> bool: ...
    def remaining(self) -> float | None:
        """Seconds for which its caller still waits, 0 at least; None: as long as it takes."""

    def reply(self, data: Bytes | MessageFlyweight, type: int | None = None) -> None:
        """Answers it, from any thread. ``type``: None: 1, or 65536 on a channel with a schema; of a message its
        template id. InvalidArgumentError if it was answered before; MessageTooLargeError (nothing was sent);
        SlotLostError; ClosedError."""

    def fail(self, text: str, /) -> None:
        """Its call ends with ServiceError and this text, of which 1024 bytes at most are sent. Raises as ``reply``
        does."""

    def keep(self) -> Self:
        """The request, to be answered later, from any thread. One that nobody has any more fails with ``no answer``."""

    def stream(self, items: Iterable[Bytes | MessageFlyweight], type: int | None = None) -> None:
        """Answers with what an iterable gives: polls take an item each time the caller has credit and the ring has
        room, one item ahead, then end the stream. If it raises, the stream ends with ServiceError. Raises as ``reply``
        does, and InvalidArgumentError if the caller takes no stream."""

@final
class Call:
    """A call that is under way, or has ended. For the client's thread. ``for item in call``, and ``async for``: the
    items of a stream. One that is dropped goes on, and nobody hears of its end."""

    @property
    def done(self) -> bool:
        """Whether it has ended."""

    @property
    def repeat(self) -> bool:
        """Of an answer: whether a handler was given the request more than once."""

    def result(self, timeout: float | None = None) -> Answer:
        """The answer (of a stream: an empty one, at its end); waits for it up to ``timeout`` seconds (None: no limit).

        ServiceError, ExpiredError, ServerGoneError, CancelledError, ClosedError, SlotLostError, CorruptRingError: how
        the call ended. TimedOutError, and ChannelReplacedError: it goes on."""

    def next(self, timeout: float | None = None) -> Answer | None:
        """Of a stream: the next item; waits for it up to ``timeout`` seconds (None: no limit). None at its end, and at
        the time-out: ``done`` tells which. Raises as ``result`` does, behind the last item that came."""

    def cancel(self) -> None:
        """Ends it as cancelled, at once, and tells the server. Does nothing if it has ended."""

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
        """Calls ``handler`` with each Request that is there, at most ``limit``: how many. Waits up to ``timeout``
        seconds for the first (0: do not wait; None: no limit).

        It answers by ``reply``, or by what it returns: bytes, or a message of a generated class. If it raises, its call
        ends with ServiceError, and the poll goes on; only what no handler should catch (KeyboardInterrupt, SystemExit)
        comes out, after the reply. What it raises behind its own answer goes to ``sys.unraisablehook``."""

    def stop(self) -> None:
        """Ends the ``serve`` that is under way, or the next one. From any thread."""

    def fileno(self) -> int:
        """A descriptor that is readable while something may be there: for select, epoll and other loops. A poll that
        finds nothing makes it unreadable; do not read from it. It lives as long as this object."""

    def set_spin(self, spin: float, /) -> None:
        """How long a wait spins before it sleeps, in seconds (0.00002 unless it is set), with ``wait="block"``."""

    def close(self) -> None:
        """Gives the place back. Calls in hand end as server gone; at least once they go to the next server. Twice is
        fine. ViewAliveError from inside a handler."""

    @property
    def closed(self) -> bool: ...
    @property
    def client_gone(self) -> int:
        """Replies to clients that have gone, since the start."""

    @property
    def expired(self) -> int:
        """Requests that came too late, since the start."""

    @property
    def not_run(self) -> int:
        """Requests to an earlier server, since the start."""

    @property
    def damaged(self) -> int:
        """Clients evicted for what they wrote, since the start."""

    @property
    def slot(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def max_message_length(self) -> int:
        """Bytes: the largest answer."""

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
        """The answer. Waits for a server, for room, and for the answer, up to ``timeout`` seconds (None: no limit),
        which is the request's deadline. ``type``: None: 1, or 65536 on a channel with a schema; of a message its
        template id.

        ServiceError, ExpiredError, ServerGoneError: how the call ended. BusyError, MessageTooLargeError,
        InvalidArgumentError: it was not made. ChannelReplacedError: it may go on, but nobody waits for it."""

    def start(
        self,
        data: Bytes | MessageFlyweight,
        type: int | None = None,
        timeout: float | None = None,
        callback: Callable[[Call], object] | None = None,
    ) -> Call:
        """Publishes a request, waiting as ``call`` does if there is no server or no room; does not wait for the answer.
        ``callback(call)`` is called when it has ended, in a verb of this client; it may start calls, but not wait. What
        it raises comes out of the verb. ExpiredError (nothing was published), else as ``call``."""

    def stream(
        self,
        data: Bytes | MessageFlyweight,
        type: int | None = None,
        credit: int = 64,
        timeout: float | None = None,
        callback: Callable[[Call], object] | None = None,
    ) -> Call:
        """The same, for a request that is answered by a sequence of items: ``for item in call``. ``credit``: how many
        may lie between the server and the one who reads them, 1 to 65535. ``callback`` is called for each item, too.
        InvalidArgumentError (credit) also at least once."""

    def poll(self, timeout: float | None = 0) -> int:
        """Takes replies, ends calls, runs callbacks, notices that the server has gone: how many calls ended, or got an
        item. Waits up to ``timeout`` seconds for the first (0: do not wait; None: no limit)."""

    def fileno(self) -> int:
        """A descriptor that is readable while something may be there: for select, epoll and other loops. A poll that
        finds nothing makes it unreadable; do not read from it. It lives as long as this object."""

    def set_spin(self, spin: float, /) -> None:
        """How long a wait spins before it sleeps, in seconds (0.00002 unless it is set), with ``wait="block"``."""

    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def outstanding(self) -> int:
        """Calls under way, those that expired or were cancelled included until the server answered them."""

    @property
    def late(self) -> int:
        """Replies that nobody waited for any more."""

    @property
    def number(self) -> int:
        """Of the clients, from 0."""

    @property
    def slot(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def max_message_length(self) -> int:
        """Bytes: the largest request."""

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

@final
class WaitSet:
    """Subscribers, workers and publishers, of one or several channels, that one thread waits for."""

    def __new__(cls) -> Self: ...
    def add(self, member: Reader | Worker | Publisher | Server | Client, /) -> None:
        """A subscriber, lossy or not, a worker, a server or a client: ready when a message may be there. A publisher:
        ready when there is room for what found none last. InvalidArgumentError if it is in the set."""

    def remove(self, member: Reader | Worker | Publisher | Server | Client, /) -> None:
        """InvalidArgumentError if it is not in the set."""

    def wait(self, timeout: float | None = None) -> list[Any]:
        """Waits until one is ready, or ``wake``, or ``timeout`` seconds (None: no limit) have passed: those that are
        ready, in the order in which they were added. What was closed, has lost its slot, or is of a channel that was
        replaced, is ready: its next method says what happened. TwoThreadsError if one of them is in use."""

    def wake(self) -> None:
        """Ends the wait that is under way, or the next one. From any thread."""

    def set_spin(self, spin: float, /) -> None:
        """How long a wait looks before it sleeps, in seconds (0.00002 unless it is set)."""

    @property
    def naps(self) -> bool:
        """Whether it naps, for a millisecond at most, instead of sleeping until somebody wakes it: the kernel has no
        futex_waitv, or there are more than 127 pairs of words to sleep on (one for each channel and direction)."""

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
    """The block of a message or entry class, and what follows it."""

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
        """The schema version of the writer."""

    @property
    def acting_block_length(self) -> int:
        """Of the writer, in bytes."""

class MessageFlyweight(Flyweight):
    @classmethod
    def encode(cls, buffer: Bytes, offset: SupportsIndex = 0) -> Self:
        """Writes the header, and gives the message to be written behind it. The block is not cleared: write every
        field. MessageTooShortError."""

    @classmethod
    def decode(cls, buffer: Bytes, offset: SupportsIndex = 0) -> Self:
        """Checks the header, and gives the message to be read. WrongMessageError, MessageTooShortError."""

    @classmethod
    def wrap(
        cls,
        buffer: Bytes,
        offset: SupportsIndex = 0,
        block_length: SupportsIndex | None = None,
        version: SupportsIndex | None = None,
    ) -> Self:
        """A message without header, to be read: its block begins at ``offset``. Not given, or None: the class's own
        BLOCK_LENGTH and SCHEMA_VERSION. MessageTooShortError."""

    def commit(self) -> int:
        """Publishes the claim: the ring's new end position in bytes. OrderError if groups or data were not written (the
        claim stays open); ClosedError; SlotLostError; SbeError if it is no claim."""

    def abort(self) -> int:
        """Gives the claim up (it becomes padding): the ring's new end position in bytes."""

    @property
    def encoded_length(self) -> int:
        """Bytes of the whole message so far, header included (without one after ``wrap``)."""

    def __bytes__(self) -> bytes:
        """A copy of the whole message, header included. OrderError if it is not complete."""

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: object, error: object, traceback: object, /) -> None:
        """Aborts the claim if it is still open; lets go of the buffer of any other message."""

@final
class Group(Generic[_Entry]):
    """The entries of a group: ``len``, iteration and indexes when reading, ``encode`` when writing."""

    def encode(self, count: int, /) -> GroupIterator[_Entry]:
        """Begins the group: an iterator over its ``count`` entries, each to be written before the next. OrderError if
        it is not its turn; OutOfRangeError; MessageTooShortError."""

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
