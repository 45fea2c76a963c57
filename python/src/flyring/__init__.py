# SPDX-License-Identifier: Apache-2.0
"""Flyring passes messages between processes on one machine through memory-mapped files.

    import flyring

    with flyring.Channel.create("prices", "broadcast") as channel:
        subscriber = channel.subscriber()
        publisher = channel.publisher("feed")
        publisher.offer(b"hello")
        print(bytes(subscriber.take(timeout=1)))

The C++ and Java bindings use the same files; spec/channel.md documents their layout.
"""

from typing import TYPE_CHECKING

from ._core import Answer, Call, Claim, Job, JournalMessage, Message, Request, WaitSet
from .action import Action
from .channel import Channel, unlink
from .client import Client, ServerInfo
from .content import Options
from .counters import Counter, Counters
from .errors import (
    AccessDeniedError,
    BackPressuredError,
    BadMessageError,
    BusyError,
    CancelledError,
    ChannelDiffersError,
    ChannelExistsError,
    ChannelReplacedError,
    ClosedError,
    CorruptHeaderError,
    CorruptJournalError,
    CorruptRingError,
    CorruptTableError,
    DamagedError,
    ExpiredError,
    FlyringError,
    InvalidArgumentError,
    IoError,
    MessageTooLargeError,
    NeedsRecoveryError,
    NoFreeSlotError,
    NoSpaceError,
    NoSuchChannelError,
    NotAChannelError,
    ServerGoneError,
    ServiceError,
    SlotLostError,
    SlotOwner,
    TimedOutError,
    TruncatedError,
    TwoThreadsError,
    UnsuitableFileSystemError,
    VersionTooNewError,
    ViewAliveError,
)
from .header import Delivery, Kind
from .heartbeat import Heartbeat
from .journal import Journal
from .journal_consumer import JournalConsumer
from .journal_header import JournalOptions
from .journal_reader import JournalReader
from .journal_resume import JournalRecovery
from .journal_seek import JournalStart
from .journal_stats import JournalConsumerStats, JournalStats
from .journal_writer import JournalWriter
from .lossy import LossySubscriber, Start, WhenLapped
from .mesh import Mesh
from .publisher import Holder, Publisher
from .sender import Sender
from .server import Held, Server
from .stats import CounterStats, GateStats, HeartbeatStats, JobStats, PublisherStats, Stats, SubscriberStats
from .subscriber import Subscriber
from .system import channel_path, journal_path, table_path
from .table import Table
from .table_header import TableOptions
from .table_stats import TableStats
from .table_writer import Entry, TableWriter
from .wait import Wait
from .watchdog import Canary, Missed, Watchdog
from .worker import Worker

__version__: str

__all__ = [
    "AccessDeniedError",
    "Action",
    "Answer",
    "BackPressuredError",
    "BadMessageError",
    "BusyError",
    "Call",
    "Canary",
    "CancelledError",
    "Channel",
    "ChannelDiffersError",
    "ChannelExistsError",
    "ChannelReplacedError",
    "Claim",
    "Client",
    "ClosedError",
    "CorruptHeaderError",
    "CorruptJournalError",
    "CorruptRingError",
    "CorruptTableError",
    "Counter",
    "CounterStats",
    "Counters",
    "DamagedError",
    "Delivery",
    "Entry",
    "ExpiredError",
    "FlyringError",
    "GateStats",
    "Heartbeat",
    "HeartbeatStats",
    "Held",
    "Holder",
    "InvalidArgumentError",
    "IoError",
    "Job",
    "JobStats",
    "Journal",
    "JournalConsumer",
    "JournalConsumerStats",
    "JournalMessage",
    "JournalOptions",
    "JournalReader",
    "JournalRecovery",
    "JournalStart",
    "JournalStats",
    "JournalWriter",
    "Kind",
    "LossySubscriber",
    "Mesh",
    "Message",
    "MessageTooLargeError",
    "Missed",
    "NeedsRecoveryError",
    "NoFreeSlotError",
    "NoSpaceError",
    "NoSuchChannelError",
    "NotAChannelError",
    "Options",
    "Publisher",
    "PublisherStats",
    "Request",
    "Sender",
    "Server",
    "ServerGoneError",
    "ServerInfo",
    "ServiceError",
    "SlotLostError",
    "SlotOwner",
    "Start",
    "Stats",
    "Subscriber",
    "SubscriberStats",
    "Table",
    "TableOptions",
    "TableStats",
    "TableWriter",
    "TimedOutError",
    "TruncatedError",
    "TwoThreadsError",
    "UnsuitableFileSystemError",
    "VersionTooNewError",
    "ViewAliveError",
    "Wait",
    "WaitSet",
    "Watchdog",
    "WhenLapped",
    "Worker",
    "channel_path",
    "journal_path",
    "table_path",
    "unlink",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> str:
        """Look up ``__version__`` on first use, because that takes longer than importing the rest of the package."""
        if name == "__version__":
            from importlib.metadata import version

            return version("flyring")
        raise AttributeError(f"module 'flyring' has no attribute {name!r}")
