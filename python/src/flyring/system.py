# SPDX-License-Identifier: Apache-2.0
"""Files, folders and locks: what the operating system is asked for (spec 3.1, 3.2, 5.1)."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
import struct
import time
from collections.abc import Callable, Iterator

from . import layout
from ._core import LockFile, file_system_type
from .errors import (
    AccessDeniedError,
    ChannelExistsError,
    InvalidArgumentError,
    IoError,
    NoSpaceError,
    NoSuchChannelError,
    NotAChannelError,
    UnsuitableFileSystemError,
)

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
FILE_SYSTEMS = {0x01021994, 0x858458F6, 0xEF53, 0x58465342, 0x9123683E, 0x794C7630}
FLOCK = struct.Struct("hh4xqqi4x")  # struct flock of 64-bit Linux
CONTROL_LOCK_RETRY = 0.0001
CONTROL_LOCK_PATIENCE = 5.0


# Where


def channel_path(name: str | os.PathLike[str]) -> str:
    """The path that a channel's name stands for (spec 3.1); what contains a ``/`` is a path already.

    InvalidArgumentError if it is neither a name nor a path.
    """
    text = os.fspath(name)
    if "/" in text:
        return text
    if not NAME.fullmatch(text):
        raise InvalidArgumentError("name", f"{text!r} must be 1 to 64 of A-Z a-z 0-9 . _ - (or a path, with a /)")
    return f"{os.environ.get('FLYRING_DIR') or default_folder()}/{text}.ring"


def default_folder() -> str:
    return f"/dev/shm/flyring-{os.geteuid()}"


def check_folder(path: str, create: bool) -> None:
    """Makes the folder of names if asked to, and refuses the default one if others could have put files there."""
    folder = os.path.dirname(path)
    default = folder == default_folder()
    if create and folder in (default_folder(), os.environ.get("FLYRING_DIR")):
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
    """The error of this package for a failed system call."""
    number = error.errno or errno.EIO
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return AccessDeniedError(path, f"{call}: {os.strerror(number)}")
    return IoError(call, number, path)


# Files


def open_file(path: str, read_only: bool = False) -> int:
    """Opens an existing channel's file for reading and, unless ``read_only``, for writing (spec 3.3)."""
    access = os.O_RDONLY if read_only else os.O_RDWR
    try:
        fd = os.open(path, access | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise NoSuchChannelError(path) from error
        if error.errno == errno.ELOOP:
            raise NotAChannelError(path, "it is a symbolic link") from error
        if error.errno in (errno.EISDIR, errno.ENXIO):
            raise NotAChannelError(path, "it is not a regular file") from error
        raise failed("open", error, path) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotAChannelError(path, "it is not a regular file")
    return fd


def create_file(
    path: str, length: int, mode: int, any_file_system: bool, replace: bool, write: Callable[[int], None]
) -> int:
    """A whole new file under its name, or nothing (spec 3.2): ``write(fd)`` fills it before it has the name.

    The descriptor, or ChannelExistsError, NoSpaceError, UnsuitableFileSystemError, AccessDeniedError, IoError.
    """
    check_folder(path, create=True)
    if not replace and os.path.lexists(path):
        raise ChannelExistsError(path)
    folder, base = os.path.split(path)
    unique = f"{folder}/.{base.removesuffix('.ring')}.{secrets.token_hex(8)}.tmp"
    fd, named = open_new(folder, unique)
    try:
        os.fchmod(fd, mode)
        check_file_system(fd, path, any_file_system)
        reserve(fd, length, path)
        write(fd)
        test_locks(fd, path)
        if not named and not replace:
            link(fd, path)
        else:
            if not named:
                link(fd, unique)
                named = True
            if replace:
                os.rename(unique, path)
            else:
                os.link(unique, path)
                os.unlink(unique)
            named = False
    except BaseException as error:
        os.close(fd)
        if named:
            with contextlib.suppress(OSError):
                os.unlink(unique)
        if isinstance(error, FileExistsError) and not isinstance(error, ChannelExistsError):
            raise ChannelExistsError(path) from error
        if type(error).__module__ == "builtins" and isinstance(error, OSError):
            raise failed("create", error, path) from error
        raise
    return fd


def open_new(folder: str, unique: str) -> tuple[int, bool]:
    """A descriptor of a new file, and whether it has the unique name (where there are no nameless files)."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600), False
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
            raise failed("open", error, folder) from error
    try:
        return os.open(unique, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), True
    except OSError as error:
        raise failed("open", error, folder) from error


def link(fd: int, path: str) -> None:
    """Gives a nameless file its name: linkat of /proc/self/fd/N, which os.link does only with a folder descriptor."""
    descriptors = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.link(str(fd), path, src_dir_fd=descriptors, follow_symlinks=True)
    finally:
        os.close(descriptors)


def reserve(fd: int, length: int, path: str) -> None:
    status = os.fstatvfs(fd)
    free = status.f_bavail * status.f_frsize
    if status.f_blocks and free < length:  # no blocks at all: a file system without a limit
        raise NoSpaceError(path, length, free)
    try:
        os.posix_fallocate(fd, 0, length)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise NoSpaceError(path, length, free) from error
        raise failed("posix_fallocate", error, path) from error


def check_file_system(fd: int, path: str, any_file_system: bool) -> None:
    kind = file_system_type(fd)
    if not any_file_system and kind not in FILE_SYSTEMS:
        raise UnsuitableFileSystemError(
            path, f"its file system (type {kind:#x}) is not known to work; use /dev/shm, or any_file_system=True"
        )


def unlink(name: str | os.PathLike[str]) -> None:
    """Removes a channel's name; attached processes keep working.

    NoSuchChannelError; NotAChannelError if the file has not our magic (nothing is removed then); AccessDeniedError.
    """
    path = channel_path(name)
    check_folder(path, create=False)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise NoSuchChannelError(path) from error
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NotAChannelError(path, "it is not a regular file") from error
        raise failed("open", error, path) from error
    try:
        regular = stat.S_ISREG(os.fstat(fd).st_mode)
        if not regular or os.pread(fd, 8, 0) != bytes.fromhex(layout.MAGIC_HEX):
            raise NotAChannelError(path, "it does not begin with the magic; nothing was removed")
        os.unlink(path)
    except FileNotFoundError as error:
        raise NoSuchChannelError(path) from error
    except PermissionError as error:
        raise failed("unlink", error, path) from error
    finally:
        os.close(fd)


# Locks


def new_lock(fd: int, path: str) -> LockFile:
    """A description of its own of the attached file (spec 5.1)."""
    try:
        return LockFile(f"/proc/self/fd/{fd}")
    except OSError as error:
        raise failed("open", error, path) from error


def try_lock(lock: LockFile, at: int) -> bool:
    """Takes the lock on byte ``at`` of the file unless another description has it."""
    try:
        fcntl.fcntl(lock.fileno(), fcntl.F_OFD_SETLK, FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, at, 1, 0))
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def release_lock(lock: LockFile, at: int) -> None:
    fcntl.fcntl(lock.fileno(), fcntl.F_OFD_SETLK, FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, at, 1, 0))


def is_locked(lock: LockFile, at: int) -> bool:
    """Whether another description than this one has the lock on byte ``at``."""
    answer = fcntl.fcntl(lock.fileno(), fcntl.F_OFD_GETLK, FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, at, 1, 0))
    return bool(FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)


@contextlib.contextmanager
def control_lock(lock: LockFile, path: str) -> Iterator[None]:
    """Holds the channel's control lock; IoError (EAGAIN) after 5 s."""
    at = layout.HEADER_LENGTH + layout.CONTROL_CONTROL_LOCK
    give_up = time.monotonic() + CONTROL_LOCK_PATIENCE
    while not try_lock(lock, at):
        if time.monotonic() > give_up:
            raise IoError("fcntl(F_OFD_SETLK)", errno.EAGAIN, f"the control lock of {path}")
        time.sleep(CONTROL_LOCK_RETRY)
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # closed already: closing unlocks
            release_lock(lock, at)


def test_locks(fd: int, path: str) -> None:
    """The self-test of spec 5.1: a lock taken through one description is seen through a second one."""
    at = layout.HEADER_LENGTH + layout.CONTROL_LOCK_TEST
    first, second = new_lock(fd, path), new_lock(fd, path)
    try:
        if try_lock(first, at) and not is_locked(second, at):
            raise UnsuitableFileSystemError(path, "its locks do not work between file descriptions")
    except OSError as error:
        if isinstance(error, UnsuitableFileSystemError):
            raise
        raise UnsuitableFileSystemError(path, f"it has no open-file-description locks ({error.strerror})") from error
    finally:
        first.close()
        second.close()
