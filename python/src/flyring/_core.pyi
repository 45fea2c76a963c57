# SPDX-License-Identifier: Apache-2.0
# The C core (core/*.c). Publisher and Subscriber are documented by their subclasses in publisher.py, subscriber.py.

from collections.abc import Callable, Iterable
from mmap import mmap
from typing import Any, ClassVar, Final, Self, SupportsIndex, final

from typing_extensions import Buffer

from .sender import Sender

LAYOUT: Final[dict[str, int]]

def crc32c(data: Buffer, /) -> int: ...
def file_system_type(fd: int, /) -> int: ...
@final
class Memory:
    def __new__(cls, mapping: mmap, writable: bool, path: str = ...) -> Self: ...
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
    def fence(self) -> None: ...
    def close(self) -> None: ...

@final
class LockFile:
    def __new__(cls, path: str) -> Self: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...

@final
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
class Claim:
    """Space in the ring, to be filled through the buffer protocol, ``data`` or ``claim[i:j] = bytes``, and then
    committed or aborted. As a context manager it aborts at the end unless it was committed.

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
        geometry: tuple[int, int, int, int, int, int, int, int],
        lock: LockFile,
        slot: int,
        epoch: int,
        position: int,
        count: int,
        name: bytes,
        wait: str,
        max_lag: int,
        /,
    ) -> Self: ...
    def offer(self, data: Buffer, type: int = 1, timeout: float | None = 0) -> int:
        """Copies and publishes one message: the ring's new end position in bytes, or BACK_PRESSURED (-1) if there was
        no room within ``timeout`` seconds (0: do not wait; None: for ever). MessageTooLargeError;
        InvalidArgumentError unless ``type`` is 1 to 2^31-1."""

    def claim(self, length: SupportsIndex, type: int = 1, timeout: float | None = 0) -> Claim | None:
        """Space for a message of ``length`` bytes, or None if there was no room within ``timeout`` seconds. Nothing
        else can be done with the publisher until it is committed or aborted."""

    def offer_batch(self, messages: Iterable[Buffer], type: int = 1) -> int:
        """Publishes messages in order: how many were taken, 0 to all. MessageTooLargeError means that none was."""

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

class Subscriber:
    def __new__(
        cls,
        data: Memory,
        memory: Memory,
        geometry: tuple[int, int, int, int, int, int, int, int],
        lock: LockFile,
        slot: int,
        epoch: int,
        rings: tuple[tuple[int, int], ...],
        kept: bool,
        wait: str,
        /,
    ) -> Self: ...
    def poll(self, handler: Callable[[Message], object], limit: SupportsIndex = 256, timeout: float | None = 0) -> int:
        """Calls ``handler`` for each message that is there, at most ``limit``: how many. Waits up to ``timeout``
        seconds for the first (0: do not wait; None: for ever). A message is valid until its handler returns; one whose
        handler raised counts as consumed, and the exception reaches the caller."""

    def take(self, timeout: float | None = 0) -> Message | None:
        """One message that owns its bytes, or None if there was none within ``timeout`` seconds."""

    def position(self, ring: int, /) -> int:
        """The cursor in that ring, in bytes. InvalidArgumentError if the ring was not chosen."""

    def ended(self, ring: int, /) -> bool:
        """Whether the ring's publisher closed and all that it published was consumed. A new publisher makes it untrue
        again. InvalidArgumentError if the ring was not chosen."""

    def close(self) -> None:
        """Gives the slot back; a kept one stays where it is, any other stops holding publishers back. Twice is fine.
        ViewAliveError inside of a handler, or while a message is still exported. A thread that waits in this
        subscriber gets ClosedError."""

    def _unkeep(self) -> None: ...
    @property
    def rings(self) -> tuple[int, ...]: ...
    @property
    def slot(self) -> int: ...
    @property
    def kept(self) -> bool: ...
    @property
    def epoch(self) -> int: ...
    @property
    def closed(self) -> bool: ...

class LossySubscriber:
    def __new__(
        cls,
        memory: Memory,
        geometry: tuple[int, int, int, int, int, int, int, int],
        rings: tuple[int, ...],
        oldest: bool,
        wait: str,
        /,
    ) -> Self: ...
    def poll(self, handler: Callable[[Message], object], limit: SupportsIndex = 256, timeout: float | None = 0) -> int:
        """Calls ``handler`` for each message that is there, at most ``limit``: how many. Waits up to ``timeout``
        seconds for the first (0: do not wait; None: for ever). A message is a private copy, valid until its handler
        returns; one whose handler raised counts as consumed, and the exception reaches the caller."""

    def take(self, timeout: float | None = 0) -> Message | None:
        """One message that owns its bytes, or None if there was none within ``timeout`` seconds."""

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

    def position(self, ring: int, /) -> int:
        """The cursor in that ring, in bytes. InvalidArgumentError if the ring was not chosen."""

    def ended(self, ring: int, /) -> bool:
        """Whether the ring's publisher closed and all that it published was consumed. A new publisher makes it untrue
        again. InvalidArgumentError if the ring was not chosen."""

    def close(self) -> None:
        """Twice is fine. ViewAliveError inside of a handler, or while a message is still exported. A thread that waits
        in this subscriber gets ClosedError."""

    @property
    def rings(self) -> tuple[int, ...]: ...
    @property
    def closed(self) -> bool: ...
