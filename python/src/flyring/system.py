# SPDX-License-Identifier: Apache-2.0
"""Files, folders and locks: the calls to the operating system (spec/channel.md 3.1, 3.2, 5.1)."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
import secrets
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager

from . import layout
from ._core import File, Held, file_system_type
from .errors import (
    AccessDeniedError,
    ChannelExistsError,
    FlyringError,
    InvalidArgumentError,
    IoError,
    NoSpaceError,
    NoSuchChannelError,
    NotAChannelError,
    UnsuitableFileSystemError,
)

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
FILE_SYSTEMS = {0x01021994, 0x858458F6, 0xEF53, 0x58465342, 0x794C7630}
BTRFS, OVERLAY = 0x9123683E, 0x794C7630
CONTROL_LOCK_PATIENCE = 5.0


# Where


def channel_path(name: str | os.PathLike[str]) -> str:
    """Returns the absolute path of the channel with this name (spec/channel.md 3.1). A ``name`` with a ``/`` is a path
    already.

    Raises InvalidArgumentError if it is neither a valid name nor a path.
    """
    return path_of(name, ".ring")


def table_path(name: str | os.PathLike[str]) -> str:
    """Like ``channel_path``, for a table (spec/table.md 2)."""
    return path_of(name, ".table")


def journal_path(name: str | os.PathLike[str]) -> str:
    """Like ``channel_path``, for the folder of a journal (spec/journal.md 2)."""
    return path_of(name, ".journal")


def path_of(name: str | os.PathLike[str], suffix: str) -> str:
    text = os.fspath(name)
    if "/" not in text:
        if not NAME.fullmatch(text):
            raise InvalidArgumentError("name", f"{text!r} must be 1 to 64 of A-Z a-z 0-9 . _ - (or a path, with a /)")
        text = f"{os.environ.get('FLYRING_DIR') or default_folder()}/{text}{suffix}"
    if text.startswith("/"):
        return text
    try:
        return f"{os.getcwd()}/{text}"
    except OSError as error:
        raise failed("getcwd", error, text) from error


def default_folder() -> str:
    return f"/dev/shm/flyring-{os.geteuid()}"


def check_folder(path: str, create: bool) -> None:
    """Makes the folder of names if ``create``. Refuses the default folder if other users could have put files there."""
    folder = os.path.dirname(path)
    default = folder == default_folder()
    if create and folder == os.path.dirname(channel_path("any")):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            pass
        except OSError as error:
            raise failed("mkdir", error, folder) from error
    if not default:
        return
    try:
        status = os.lstat(folder)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode):
        raise AccessDeniedError(folder, "it is not a folder; remove it")
    if status.st_uid != os.geteuid():
        raise AccessDeniedError(folder, f"it belongs to user {status.st_uid}, not to {os.geteuid()}; set FLYRING_DIR")
    if status.st_mode & 0o022:
        raise AccessDeniedError(folder, f"others may write to it; chmod go-w {folder}")


def failed(call: str, error: OSError, path: str) -> OSError:
    """Returns this package's error for a failed system call. Raises ``error`` if it is one: as its own cause it would
    live, with what its traceback keeps, until a garbage collection."""
    if isinstance(error, FlyringError):
        try:
            raise error
        finally:
            del error
    number = error.errno or errno.EIO
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return AccessDeniedError(path, f"{call}: {os.strerror(number)}")
    return IoError(call, number, path)


# Files


def open_file(path: str, read_only: bool = False, file_name: str = "") -> File:
    """Opens an existing channel's file for reading and, unless ``read_only``, for writing (spec/channel.md 3.3).
    ``file_name``: the file, if it lies in the folder ``path``, which errors name."""
    access = os.O_RDONLY if read_only else os.O_RDWR
    try:
        file = File(f"{path}/{file_name}" if file_name else path, access | os.O_NOFOLLOW | os.O_NONBLOCK)
        regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise NoSuchChannelError(path) from error
        if error.errno == errno.ELOOP:
            raise NotAChannelError(path, "it is a symbolic link") from error
        if error.errno in (errno.EISDIR, errno.ENXIO):
            raise NotAChannelError(path, "it is not a regular file") from error
        raise failed("open", error, path) from error
    if not regular:
        file.close()
        raise NotAChannelError(path, "it is not a regular file")
    return file


def create_file(
    path: str,
    length: int,
    mode: int,
    any_file_system: bool,
    replace: bool,
    make: Callable[[File], None],
    synced: bool = False,
    naming: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    overlay: bool = True,
) -> None:
    """Makes a new file atomically: under its name there is a complete file or none (spec/channel.md 3.2).
    ``make(file)`` fills the file and attaches to it before it gets the name. ``synced``: the file is written to the
    disk before it gets its name, and then the name is. ``naming``: made just before the file gets the name, and left
    just after that. ``overlay``: whether the file may lie there.

    ChannelExistsError, NoSpaceError, UnsuitableFileSystemError, AccessDeniedError, IoError.
    """
    check_folder(path, create=True)
    if not replace and os.path.lexists(path):
        raise ChannelExistsError(path)
    folder, base = os.path.split(path)
    unique = f"{folder}/.{base.removesuffix('.ring').removesuffix('.table')}.{secrets.token_hex(8)}.tmp"
    named = True  # assumed until known, because an interrupt can come at any time
    try:
        file, named = open_new(folder, unique)
        try:
            os.fchmod(file.fileno(), mode)
            check_file_system(file, path, any_file_system, read_only=False, overlay=overlay)
            reserve(file, length, path)
            make(file)
            if synced:
                os.fsync(file.fileno())
            if not named and not replace:
                link(file, path)
                if synced:
                    sync_folder(folder)
                return
            if not named:
                named = True
                link(file, unique)
            if replace:
                with naming():
                    os.rename(unique, path)
                    named = False
            else:
                os.link(unique, path)
            if synced:
                sync_folder(folder)
        except BaseException:
            file.close()
            raise
    except FlyringError:
        raise
    except FileExistsError as error:
        raise ChannelExistsError(path) from error
    except OSError as error:
        raise failed("create", error, path) from error
    finally:
        if named:
            with contextlib.suppress(OSError):
                os.unlink(unique)


def sync_folder(folder: str) -> None:
    """Writes the names of a folder to the disk."""
    names = File(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(names.fileno())
    finally:
        names.close()


def open_new(folder: str, unique: str) -> tuple[File, bool]:
    """Makes a new file, nameless if the file system can do that. Returns it, and whether it has the unique name."""
    try:
        return File(folder, os.O_TMPFILE | os.O_RDWR, 0o600), False
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            raise failed("open", error, folder) from error
    try:
        return File(unique, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), True
    except OSError as error:
        raise failed("open", error, folder) from error


def link(file: File, path: str) -> None:
    """Gives a nameless file its name, by linkat of /proc/self/fd/N. os.link calls linkat only if it gets the descriptor
    of a folder."""
    descriptors = File("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.link(str(file.fileno()), path, src_dir_fd=descriptors.fileno(), follow_symlinks=True)
    finally:
        descriptors.close()


def reserve(file: File, length: int, path: str) -> None:
    status = os.fstatvfs(file.fileno())
    free = status.f_bavail * status.f_frsize
    if status.f_blocks and free < length:  # f_blocks is 0 on a file system without a limit
        raise NoSpaceError(path, length, free)
    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if most != resource.RLIM_INFINITY and most < length:  # a write beyond this limit would raise SIGXFSZ
        raise NoSpaceError(path, length, most)
    try:
        os.posix_fallocate(file.fileno(), 0, length)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise NoSpaceError(path, length, free) from error
        raise failed("posix_fallocate", error, path) from error


def check_file_system(file: File, path: str, any_file_system: bool, read_only: bool, overlay: bool = True) -> None:
    """Checks that a channel may lie on this file system (spec/channel.md 3.1). UnsuitableFileSystemError."""
    if any_file_system:
        return
    kind = file_system_type(file.fileno())
    if kind == BTRFS:
        raise UnsuitableFileSystemError(
            path, "btrfs: when its disk is full, a store may never return; use /dev/shm, or any_file_system=True"
        )
    if kind not in FILE_SYSTEMS:
        raise UnsuitableFileSystemError(
            path, f"its file system (type {kind:#x}) is not known to work; use /dev/shm, or any_file_system=True"
        )
    if kind == OVERLAY and not overlay:
        raise UnsuitableFileSystemError(
            path, "overlay: a sync may reach another file than the mapped one; use a volume, or any_file_system=True"
        )
    if kind == OVERLAY and read_only:
        raise UnsuitableFileSystemError(
            path, "overlay: a reader may keep an old copy; attach read-write or use a volume"
        )


def remove(
    path: str, around: Callable[[], AbstractContextManager[None]], magic: bytes = bytes.fromhex(layout.MAGIC_HEX)
) -> None:
    """Removes a channel's or table's name (spec/channel.md 3.2), within ``around()``."""
    check_folder(path, create=False)
    try:
        file = File(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise NoSuchChannelError(path) from error
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NotAChannelError(path, "it is not a regular file") from error
        raise failed("open", error, path) from error
    try:
        regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        if not regular or os.pread(file.fileno(), 8, 0) != magic:
            raise NotAChannelError(path, "it does not begin with the magic; nothing was removed")
        with around():
            os.unlink(path)
    except FlyringError:
        raise
    except FileNotFoundError as error:
        raise NoSuchChannelError(path) from error
    except OSError as error:
        raise failed("unlink", error, path) from error
    finally:
        file.close()


# Locks


def new_lock(file: File, path: str) -> File:
    """Opens the attached file again, for a file description with locks of its own (spec/channel.md 5.1)."""
    try:
        return file.reopen()
    except OSError as error:
        raise failed("open", error, path) from error


def control_lock(lock: File, path: str) -> Held:
    """Takes the channel's control lock for a ``with`` block. IoError (EAGAIN) after 5 s."""
    at = layout.HEADER_LENGTH + layout.CONTROL_CONTROL_LOCK
    try:
        held = lock.hold(at, CONTROL_LOCK_PATIENCE)
    except OSError as error:
        raise failed("fcntl(F_OFD_SETLK)", error, path) from error
    if held is None:
        raise IoError("fcntl(F_OFD_SETLK)", errno.EAGAIN, f"the control lock of {path}")
    return held


def is_locked(lock: File, at: int, path: str) -> bool:
    """Returns whether another file description holds the lock on byte ``at``. IoError."""
    try:
        return lock.is_locked(at)
    except OSError as error:
        raise failed("fcntl(F_OFD_GETLK)", error, path) from error


def test_locks(file: File, path: str) -> None:
    """Tests that a lock taken through one file description is seen through another (spec/channel.md 5.1)."""
    at = layout.HEADER_LENGTH + layout.CONTROL_LOCK_TEST
    first, second = new_lock(file, path), new_lock(file, path)
    try:
        if first.try_lock(at) and not second.is_locked(at):
            raise UnsuitableFileSystemError(path, "its locks do not work between file descriptions")
    except FlyringError:
        raise
    except OSError as error:
        raise UnsuitableFileSystemError(path, f"it has no open-file-description locks ({error.strerror})") from error
    finally:
        first.close()
        second.close()
