# SPDX-License-Identifier: Apache-2.0
"""The folder of a journal: its control file's words, and making and removing it (spec/journal.md 2)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID

from . import layout
from ._core import File, JournalWalk, Memory
from ._identity import Identity
from .errors import (
    ChannelExistsError,
    FlyringError,
    IoError,
    NoFreeSlotError,
    NoSuchChannelError,
    NotAChannelError,
    SlotOwner,
)
from .journal_header import JOURNAL_MAGIC, JournalHeader, Policy
from .slots import read_slot
from .system import check_folder, control_lock, create_file, failed, new_lock, open_file, sync_folder, test_locks

CONTROL_FILE = "control"
CONTROL = layout.HEADER_LENGTH
SLOT = CONTROL + layout.JOURNAL_CONTROL_SLOT
SLOT_LOCK = SLOT + layout.CONTROL_SLOT_LOCK
HELPER_LOCK = CONTROL + layout.JOURNAL_CONTROL_HELPER_LOCK
UNIT = 64
SEGMENT_NAME = re.compile(r"([0-9]{19})\.seg", re.ASCII)
OWN_FILES = re.compile(r"control|[0-9]{19}\.seg|\.(control|[0-9]{19}\.seg)\.[0-9A-Za-z]+\.tmp", re.ASCII)


@dataclass(frozen=True)
class JournalFiles:
    """An attached journal: what the operations on its files need."""

    path: str
    """The folder."""
    header: JournalHeader
    file: File
    """The control file."""
    memory: Memory
    identity: Identity
    wakes: bool
    read_only: bool

    @property
    def size(self) -> int:
        """The bytes of positions of a segment (Z)."""
        return self.header.segment_size

    @property
    def memory_is_closed(self) -> bool:
        try:
            self.memory.load32(CONTROL + layout.JOURNAL_CONTROL_SUCCESSOR)
        except FlyringError:
            return True
        return False

    def segment_of(self, position: int) -> int:
        return position - position % self.size

    # Words

    def word(self, offset: int) -> int:
        """A word of the control section, acquire."""
        return self.memory.load64(CONTROL + offset)

    def store(self, offset: int, value: int) -> None:
        """Stores a word of the control section, release."""
        self.memory.store64(CONTROL + offset, value)

    def grow(self, offset: int, value: int) -> None:
        """Stores a word that only grows, which other processes may raise at the same time."""
        while (before := self.word(offset)) < value:
            if self.memory.compare_and_set64(CONTROL + offset, before, value):
                return

    @property
    def published(self) -> int:
        return self.word(layout.JOURNAL_CONTROL_PUBLISHED)

    @property
    def claimed(self) -> int:
        return self.word(layout.JOURNAL_CONTROL_CLAIMED)

    @property
    def synced(self) -> int:
        return self.word(layout.JOURNAL_CONTROL_SYNCED)

    @property
    def synced_at(self) -> int:
        return max(0, self.word(layout.JOURNAL_CONTROL_SYNCED_AT))

    @property
    def trimmed(self) -> int:
        return self.word(layout.JOURNAL_CONTROL_TRIMMED)

    @property
    def ready(self) -> int:
        """An invalid word counts as 0: segments are prepared again (spec/journal.md 10)."""
        ready = self.word(layout.JOURNAL_CONTROL_READY)
        return ready if ready >= 0 and ready % self.size == 0 else 0

    @property
    def failed(self) -> bool:
        return self.memory.load32(CONTROL + layout.JOURNAL_CONTROL_FAILED) != 0

    def published_can_be(self) -> bool:
        """Whether ``published`` lies at or a little below ``claimed``, as a writer stores them (3.4)."""
        while True:
            published = self.published
            claimed = self.claimed
            if published == self.published:
                most = self.size // 4 + layout.JOURNAL_ANNOUNCE_AHEAD + UNIT
                return published % UNIT == 0 and 0 <= claimed - published <= most

    @property
    def unlinked(self) -> bool:
        return self.memory.load32(CONTROL + layout.JOURNAL_CONTROL_SUCCESSOR) != 0

    @property
    def policy(self) -> Policy:
        """The options that ``change`` changes; an invalid word counts as 0 (spec/journal.md 10)."""
        every, age, size = (
            self.word(offset)
            for offset in (
                layout.JOURNAL_CONTROL_SYNC_EVERY,
                layout.JOURNAL_CONTROL_MAX_AGE,
                layout.JOURNAL_CONTROL_MAX_SIZE,
            )
        )
        consumed = self.memory.load32(CONTROL + layout.JOURNAL_CONTROL_TRIM_CONSUMED)
        return Policy(every if every >= layout.JOURNAL_SYNC_EACH else 0, max(0, age), max(0, size), int(consumed == 1))

    def store_policy(self, policy: Policy) -> None:
        self.store(layout.JOURNAL_CONTROL_SYNC_EVERY, policy.sync_every)
        self.store(layout.JOURNAL_CONTROL_MAX_AGE, policy.max_age)
        self.store(layout.JOURNAL_CONTROL_MAX_SIZE, policy.max_size)
        self.memory.store32(CONTROL + layout.JOURNAL_CONTROL_TRIM_CONSUMED, policy.trim_consumed)

    def this_boot(self) -> bytes:
        try:
            return self.identity.this_boot().bytes
        except OSError as error:
            raise failed("open", error, str(error.filename)) from error

    def is_of_this_boot(self) -> bool:
        return self.memory.read(CONTROL + layout.JOURNAL_CONTROL_BOOT_ID, 16) == self.this_boot()

    def wake_readers(self) -> None:
        self.memory.wake_all(CONTROL + layout.JOURNAL_CONTROL_DATA_SEQUENCE)

    def wake_helper(self) -> None:
        self.memory.wake_all(CONTROL + layout.JOURNAL_CONTROL_WORK_SEQUENCE)

    def sync_control(self) -> None:
        """Writes the words to the disk. IoError."""
        try:
            os.fdatasync(self.file.fileno())
        except OSError as error:
            raise sync_failed("fdatasync", error, self.path) from error

    # Folder

    @property
    def mode(self) -> int:
        """Permission bits of the control file, which new segments get, too. IoError."""
        try:
            return os.fstat(self.file.fileno()).st_mode & 0o777
        except OSError as error:
            raise failed("fstat", error, self.path) from error

    def segment_path(self, position: int) -> str:
        return f"{self.path}/{position:019d}.seg"

    def positions(self) -> list[int]:
        """The positions of all files that have the name of a segment, ascending."""
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise failed("opendir", error, self.path) from error
        found = (SEGMENT_NAME.fullmatch(name) for name in names)
        return sorted(p for p in (int(match[1]) for match in found if match) if p % self.size == 0)


def sync_failed(call: str, error: OSError, path: str) -> FlyringError:
    """A sync that fails is *io* whatever its number is."""
    return IoError(call, error.errno or errno.EIO, path)


# Making and removing


def create_journal(
    path: str,
    header: JournalHeader,
    schema: bytes,
    policy: Policy,
    identity: Identity,
    mode: int,
    any_file_system: bool,
    make_first: Callable[[JournalFiles], None],
) -> File:
    """Makes the folder, segment 0 (by ``make_first``) and the control file. Returns the control file.

    ChannelExistsError, NotAChannelError, NoSpaceError, UnsuitableFileSystemError, AccessDeniedError, IoError.
    """
    check_folder(path, create=True)
    if os.path.lexists(f"{path}/{CONTROL_FILE}"):
        raise ChannelExistsError(path)
    made: list[File] = []

    def make(file: File) -> None:
        for offset, data in (
            (0, header.pack()),
            (CONTROL + layout.JOURNAL_CONTROL_BOOT_ID, identity.this_boot().bytes),
            (header.schema_offset, schema),
        ):
            view = memoryview(data)
            while view:
                written = os.pwrite(file.fileno(), view, offset)
                view, offset = view[written:], offset + written
        memory = Memory(file, header.sections_end, True, path)
        try:
            files = JournalFiles(path, header, file, memory, identity, False, False)
            for word in (layout.JOURNAL_CONTROL_CLAIMED, layout.JOURNAL_CONTROL_PUBLISHED):
                files.store(word, layout.JOURNAL_CHECK_SIZE)
            files.store_policy(policy)
            test_locks(file, path)
            make_first(files)
        finally:
            memory.close()
        made.append(file)

    with creating(path, mode):
        try:
            create_file(
                f"{path}/{CONTROL_FILE}", header.file_length, mode, any_file_system, False, make, True, overlay=False
            )
        except ChannelExistsError:
            raise ChannelExistsError(path) from None
    try:
        sync_folder(os.path.dirname(path))
    except OSError as error:
        made[0].close()
        raise sync_failed("fsync", error, os.path.dirname(path)) from error
    return made[0]


def folder_mode(mode: int) -> int:
    """What those need of the folder that may read files of this mode (read, search) or write them (write, search)."""
    read, write = mode & 0o444, mode & 0o222
    return 0o700 | read | read >> 2 | write | write >> 1


@contextlib.contextmanager
def locked_folder(path: str, make: bool) -> Iterator[File]:
    """Holds a journal's folder against another create or unlink. ``make``: makes it if it is not there.

    NoSuchChannelError, NotAChannelError, AccessDeniedError, IoError.
    """
    while True:
        if make:
            try:
                os.mkdir(path, 0o700)
            except FileExistsError:
                pass
            except OSError as error:
                raise failed("mkdir", error, path) from error
        try:
            folder = File(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            if make:
                continue  # it was removed meanwhile
            raise NoSuchChannelError(path) from None
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise NotAChannelError(path, "it is not a folder") from error
            raise failed("open", error, path) from error
        try:
            try:
                fcntl.flock(folder.fileno(), fcntl.LOCK_EX)
            except OSError as error:
                raise failed("flock", error, path) from error
            if has_its_name(folder, path):
                yield folder
                return
        finally:
            folder.close()
        if not make:
            raise NoSuchChannelError(path)


def has_its_name(folder: File, path: str) -> bool:
    """Whether the folder was not removed before it was locked. IoError."""
    try:
        return os.path.samestat(os.fstat(folder.fileno()), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise failed("stat", error, path) from error


@contextlib.contextmanager
def creating(path: str, mode: int) -> Iterator[None]:
    """Keeps other processes from making a journal in this folder, which could replace its first segment. ``mode``: that
    of the files; the folder gets what it needs."""
    with locked_folder(path, make=True) as folder:
        try:
            names = os.listdir(path)
            if CONTROL_FILE in names:  # the look at its name alone may fail
                raise ChannelExistsError(path)
            foreign = [name for name in names if not OWN_FILES.fullmatch(name)]
            if foreign:
                raise NotAChannelError(path, f"its folder holds other files: {sorted(foreign)[0]!r}")
            with contextlib.suppress(PermissionError):  # another user made the folder
                os.fchmod(folder.fileno(), os.fstat(folder.fileno()).st_mode & 0o7777 | folder_mode(mode))
            yield
        except FlyringError:
            raise
        except OSError as error:
            raise failed("create", error, path) from error


def unlink_journal(path: str) -> None:
    """Removes a journal (spec/journal.md 2). NoSuchChannelError, NotAChannelError, NoFreeSlotError, AccessDeniedError,
    IoError."""
    check_folder(path, create=False)
    with locked_folder(path, make=False):
        remove_files(path)


def remove_files(path: str) -> None:
    control = f"{path}/{CONTROL_FILE}"
    file = open_file(path, file_name=CONTROL_FILE)
    lock = memory = None
    try:
        page = os.pread(file.fileno(), layout.HEADER_LENGTH, 0)
        if page[:8] != JOURNAL_MAGIC:
            raise NotAChannelError(path, "it does not begin with the magic; nothing was removed")
        lock = new_lock(file, path)
        memory = words_of(file, path)
        if not lock.try_lock(SLOT_LOCK):
            raise no_free_writer(path, memory)
        with control_lock(lock, path):
            if memory is not None:
                memory.store32(CONTROL + layout.JOURNAL_CONTROL_SUCCESSOR, layout.SUCCESSOR_UNLINKED)
            os.unlink(control)
            if memory is not None:
                memory.wake_all(CONTROL + layout.JOURNAL_CONTROL_DATA_SEQUENCE)
                memory.wake_all(CONTROL + layout.JOURNAL_CONTROL_WORK_SEQUENCE)
            for name in sorted(os.listdir(path)):
                if OWN_FILES.fullmatch(name):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(f"{path}/{name}")
            with contextlib.suppress(OSError):  # a new journal has the folder already, or a user's file lies in it
                os.rmdir(path)
    except FlyringError:
        raise
    except FileNotFoundError as error:
        raise NoSuchChannelError(path) from error
    except OSError as error:
        raise failed("unlink", error, path) from error
    finally:
        if lock is not None:
            lock.close()
        if memory is not None:
            memory.close()
        file.close()


def words_of(file: File, path: str) -> Memory | None:
    """Maps the words of a control file; None if the file is damaged, which must not be mapped."""
    with contextlib.suppress(OSError, FlyringError):
        page = os.pread(file.fileno(), layout.HEADER_LENGTH, 0)
        JournalHeader.parse(page, os.fstat(file.fileno()).st_size, path)
        return Memory(file, CONTROL + layout.JOURNAL_CONTROL_CONSUMERS, True, path)
    return None


def no_free_writer(path: str, memory: Memory | None) -> NoFreeSlotError:
    fields = None if memory is None else read_slot(memory, SLOT)
    owner = SlotOwner(0, fields.name if fields else "", fields.pid if fields else 0)
    label = repr(owner.name) if owner.name else "without a name"
    last = f"the last JournalWriter was {label} (pid {owner.pid}); " if owner.pid else ""  # else pushes only
    return NoFreeSlotError(
        "writer",
        1,
        (owner,),
        f"the writer's slot of the journal at {path} is taken; {last}"
        "wait longer, close that writer, or kill its process if it is stopped",
    )


def id_at(path: str) -> UUID | None:
    """The id of the journal that has this path now; None if there is no whole one."""
    with contextlib.suppress(FlyringError, OSError, struct.error):
        file = open_file(path, True, CONTROL_FILE)
        with contextlib.closing(file):
            page = os.pread(file.fileno(), layout.HEADER_LENGTH, 0)
            return JournalHeader.parse(page, os.fstat(file.fileno()).st_size, path).journal_id
    return None


def new_walk(files: JournalFiles) -> JournalWalk:
    return JournalWalk(files.size)
