# SPDX-License-Identifier: Apache-2.0
"""Follows one thread of a peer through one request with ptrace. It sees each system call that concerns the channel, and
can make the call fail, or hold the thread there while something else happens. It can also stop the thread after each
access to some words of the channel (debug registers). Needs x86-64, and Linux 5.3 or newer, but no privilege."""

import ctypes
import errno
import os
import pathlib
import signal
import time
from dataclasses import dataclass

SEIZE, INTERRUPT, SYSCALL, DETACH, POKEUSER, PEEKUSER, GET_SYSCALL_INFO = 0x4206, 0x4207, 24, 17, 6, 3, 0x420E
TRACESYSGOOD, EXITKILL = 1, 1 << 20
ENTRY, EXIT = 1, 2
WALL = 0x40000000
RAX, ORIG_RAX, DEBUG = 10 * 8, 15 * 8, 848  # in struct user
OFD_GETLK, OFD_SETLK, UNLOCK = 36, 37, 2

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_ulong, ctypes.c_ulong)
libc.ptrace.restype = ctypes.c_long
libc.syscall.restype = ctypes.c_long


class Info(ctypes.Structure):
    """struct ptrace_syscall_info, with the entry of its union."""

    _fields_ = (
        ("op", ctypes.c_uint8),
        ("pad", ctypes.c_uint8 * 3),
        ("arch", ctypes.c_uint32),
        ("instruction", ctypes.c_uint64),
        ("stack", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
    )


@dataclass(frozen=True)
class Call:
    """A system call: the indexes of its descriptor and its path in the arguments, and its possible errors."""

    name: str
    descriptor: int | None
    path: int | None
    errors: tuple[int, ...]


E = errno
CALLS = {
    0: Call("read", 0, None, (E.EIO, E.EINTR)),
    2: Call("open", None, 0, (E.EACCES, E.EMFILE, E.ENOMEM, E.EINTR)),
    3: Call("close", 0, None, (E.EIO, E.EINTR)),
    4: Call("stat", None, 0, (E.EIO,)),
    5: Call("fstat", 0, None, (E.EIO,)),
    8: Call("lseek", 0, None, (E.EINVAL,)),
    9: Call("mmap", 4, None, (E.EAGAIN, E.ENOMEM)),
    16: Call("ioctl", 0, None, (E.EPERM,)),
    17: Call("pread", 0, None, (E.EIO, E.EINTR)),
    18: Call("pwrite", 0, None, (E.EIO, E.EINTR)),
    72: Call("fcntl", 0, None, (E.ENOLCK, E.EINTR)),
    73: Call("flock", 0, None, (E.ENOLCK, E.EINTR)),
    74: Call("fsync", 0, None, (E.EIO,)),
    75: Call("fdatasync", 0, None, (E.EIO,)),
    77: Call("ftruncate", 0, None, (E.EIO,)),
    82: Call("rename", None, 1, (E.EACCES,)),
    83: Call("mkdir", None, 0, (E.EACCES,)),
    84: Call("rmdir", None, 0, (E.EACCES,)),
    86: Call("link", None, 1, (E.EACCES,)),
    87: Call("unlink", None, 0, (E.EACCES,)),
    90: Call("chmod", None, 0, (E.EPERM,)),
    91: Call("fchmod", 0, None, (E.EPERM,)),
    137: Call("statfs", None, 0, (E.EIO,)),
    138: Call("fstatfs", 0, None, (E.EIO, E.EINTR)),
    217: Call("getdents64", 0, None, (E.EIO,)),
    257: Call("openat", None, 1, (E.EACCES, E.EMFILE, E.ENOMEM, E.EINTR)),
    258: Call("mkdirat", None, 1, (E.EACCES,)),
    262: Call("fstatat", 0, 1, (E.EIO,)),
    263: Call("unlinkat", None, 1, (E.EACCES,)),
    264: Call("renameat", None, 3, (E.EACCES,)),
    265: Call("linkat", None, 3, (E.EACCES,)),
    285: Call("fallocate", 0, None, (E.ENOSPC, E.EINTR)),
    316: Call("renameat2", None, 3, (E.EACCES,)),
    332: Call("statx", 0, 1, (E.EIO,)),
}
WRITE, MMAP, FUTEX, FUTEX_WAITV, MEMBARRIER = 1, 9, 202, 449, 324
FUTEX_WAIT_BITSET, FUTEX_WAKE_BITSET = 9, 10  # without the private flag
SYSTEM_PATHS = ("/proc/self/fd/", "/proc/sys/kernel/random/")


@dataclass(frozen=True)
class Point:
    """The n-th system call of a request that concerns the channel."""

    n: int
    name: str
    detail: str
    errors: tuple[int, ...]
    completes: bool
    """The call has its effect even if it reports a failure: Linux closes and unlocks nevertheless."""

    def __str__(self):
        return f"{self.n} {self.name}{self.detail and ' ' + self.detail}"


class Tracer:
    def __init__(self, pid, folder):
        self.pid, self.folder = pid, str(folder)
        self.points = []

    def follow(self, send, at=None, name=None, error=0, then=None):
        """Sends a request, and lets the thread that reads it run until it begins to answer. At point `at` its system
        call fails with `error`, if it is the call `name`, or `then()` is called while the thread is stopped before the
        call. Returns the points."""
        tid = self._reader()
        ptrace(SEIZE, tid, 0, TRACESYSGOOD | EXITKILL)
        ptrace(INTERRUPT, tid)
        os.waitpid(tid, WALL)
        send()
        self.points, failing, deliver, answering = [], None, 0, False
        while True:
            ptrace(SYSCALL, tid, 0, deliver)
            _, status = os.waitpid(tid, WALL)
            if not os.WIFSTOPPED(status):
                raise Ended(f"the peer ended with status {status} at {self.points[-1] if self.points else 'its begin'}")
            deliver, stop = 0, os.WSTOPSIG(status)
            if stop != signal.SIGTRAP | 0x80:
                if status >> 16 == 0:
                    deliver = stop
                continue
            info = syscall_info(tid)
            if info.op == EXIT and answering:  # not at its entry: a long write that then blocks would lose its rest
                ptrace(DETACH, tid)
                return self.points
            if info.op == EXIT and failing is not None:
                ptrace(POKEUSER, tid, RAX, (-failing) & (2**64 - 1))
                failing = None
            elif info.op == ENTRY:
                if info.number == WRITE and info.arguments[0] == 1:
                    answering = True
                    continue
                point = self._point(info)
                if point is None:
                    continue
                self.points.append(point)
                if point.n != at:
                    continue
                if then is not None:
                    then()
                if error and point.name == name:
                    failing = error
                    if not point.completes:
                        ptrace(POKEUSER, tid, ORIG_RAX, 2**64 - 1)  # turns it into no system call

    def _reader(self):
        """Returns the thread that reads standard input, or is about to."""
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
                try:
                    if (task / "syscall").read_text().startswith("0 0x0 "):
                        return int(task.name)
                except OSError:
                    pass  # the thread has ended
            time.sleep(0.0005)
        raise Ended("no thread of the peer reads its standard input")

    def _point(self, info):
        call = CALLS.get(info.number)
        if call is None:
            return None
        detail = ""
        if call.path is not None:
            detail = self._text(info.arguments[call.path])
            if not detail.startswith((self.folder, *SYSTEM_PATHS)) and (detail or call.descriptor is None):
                return None
        if call.descriptor is not None and not detail:
            descriptor = ctypes.c_int(info.arguments[call.descriptor]).value
            try:
                file = os.readlink(f"/proc/{self.pid}/fd/{descriptor}")
            except OSError:
                return None
            if not file.startswith(self.folder):
                return None
        completes = call.name == "close"
        if call.name == "fcntl":
            command, kind = info.arguments[1], 0
            if command in (OFD_GETLK, OFD_SETLK):
                kind = int.from_bytes(self._bytes(info.arguments[2], 2), "little")
                detail = "unlock" if command == OFD_SETLK and kind == UNLOCK else "lock"
            completes = detail == "unlock"
        errors = call.errors
        if call.name == "lseek" and info.arguments[2] != os.SEEK_SET:
            errors = ()  # a query of the position cannot fail
        return Point(len(self.points), call.name, os.path.basename(detail), errors, completes)

    def _bytes(self, address, length):
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
            return os.pread(memory.fileno(), length, address)

    def _text(self, address):
        if address == 0:
            return ""
        content = b""
        while b"\0" not in content and len(content) < 4096:
            more = self._bytes(address + len(content), 4096 - (address + len(content)) % 4096)
            if not more:
                break
            content += more
        return content.split(b"\0")[0].decode(errors="replace")


@dataclass(frozen=True)
class Word:
    """A word to watch; there can be up to four. ``reads``: the thread also stops after loads."""

    name: str
    offset: int
    size: int = 8
    reads: bool = False


SLEEPING = {name: Word(name, 0) for name in ("membarrier", "futex wait", "futex wake", "timed out")}
TIMED_OUT = -errno.ETIMEDOUT & 2**64 - 1


def sleeping_call(info):
    """Returns one of SLEEPING, or None. A process-private futex does not count."""
    if info.number == MEMBARRIER:
        return SLEEPING["membarrier"]
    if info.number == FUTEX_WAITV:
        return SLEEPING["futex wait"]
    operation = {FUTEX_WAIT_BITSET: "futex wait", FUTEX_WAKE_BITSET: "futex wake"}.get(info.arguments[1] & 0xFFFFFFFF)
    return SLEEPING.get(operation) if info.number == FUTEX else None


class Watcher(Tracer):
    def __init__(self, pid, folder, path):
        super().__init__(pid, folder)
        self.path = str(path)

    def watch(self, send, words, hit, calls=False):
        """Sends a request. Calls `hit(word)` whenever the thread has stored to one of the words (or loaded it), while
        the thread is stopped after that. If `hit` returns true, kills the peer there by SIGKILL. Returns whether it
        did. With `calls`, the thread also stops before each of SLEEPING, and after a futex wait that timed out."""
        tid = self._reader()
        ptrace(SEIZE, tid, 0, TRACESYSGOOD | EXITKILL)
        try:
            return self._watch(tid, send, words, hit, calls)
        except BaseException:
            self._end(tid)
            raise

    def _end(self, tid):
        """Kills the peer by SIGKILL, and reaps the traced thread."""
        os.kill(self.pid, signal.SIGKILL)
        try:
            while not os.WIFSIGNALED(os.waitpid(tid, WALL)[1]):
                pass
        except ChildProcessError:
            pass

    def _watch(self, tid, send, words, hit, calls):
        ptrace(INTERRUPT, tid)
        os.waitpid(tid, WALL)
        watched = self._arm(tid, words)
        send()
        deliver, call, sleeping = 0, None, None
        while True:
            ptrace(SYSCALL, tid, 0, deliver)
            _, status = os.waitpid(tid, WALL)
            if not os.WIFSTOPPED(status):
                raise Ended(f"the peer ended with status {status}")
            deliver, stop = 0, os.WSTOPSIG(status)
            if stop == signal.SIGTRAP | 0x80:
                info = syscall_info(tid)
                if info.op == EXIT and call == MMAP:
                    watched = self._arm(tid, words)  # the call may have mapped a word to watch
                call = info.number if info.op == ENTRY else None
                waited = sleeping is SLEEPING["futex wait"] and info.number == TIMED_OUT  # the result of the call
                sleeping = sleeping_call(info) if calls and info.op == ENTRY else None
                sleeping = SLEEPING["timed out"] if waited and info.op == EXIT else sleeping
                if sleeping and hit(sleeping):
                    self._end(tid)
                    return True
                if info.op == ENTRY and info.number == WRITE and info.arguments[0] == 1:
                    poke(tid, DEBUG + 56, 0)
                    ptrace(DETACH, tid)
                    return False
            elif stop == signal.SIGTRAP and status >> 16 == 0:
                which = peek(tid, DEBUG + 48)
                poke(tid, DEBUG + 48, 0)
                for i, (word, _) in enumerate(watched):
                    if which & 1 << i and hit(word):
                        self._end(tid)
                        return True
            elif status >> 16 == 0:
                deliver = stop

    def _arm(self, tid, words):
        """Sets the debug registers. Returns (word, address) of each."""
        watched = [(word, address) for word in words for address in self._addresses(word)]
        if len(watched) > 4:
            raise Ended(f"{len(watched)} addresses cannot be watched at once: {watched}")
        poke(tid, DEBUG + 56, 0)
        control = 0
        for i, (word, address) in enumerate(watched):
            poke(tid, DEBUG + 8 * i, address)
            bits = (3 if word.reads else 1) | (2 if word.size == 8 else 3) << 2
            control |= 1 << 2 * i | bits << 16 + 4 * i
        poke(tid, DEBUG + 56, control)
        return watched

    def _addresses(self, word):
        """Returns the addresses at which the peer has mapped the word writable; if loads count, also read-only."""
        found = []
        for line in pathlib.Path(f"/proc/{self.pid}/maps").read_text().splitlines():
            addresses, access, begin, _, _, *file = line.split(maxsplit=5)
            first, last = (int(a, 16) for a in addresses.split("-"))
            at = word.offset - int(begin, 16)
            if file == [self.path] and 0 <= at < last - first and (access == "rw-s" or word.reads):
                found.append(first + at)
        return found


class Ended(Exception):
    """The peer has ended."""


def ptrace(request, tid, address=0, data=0):
    if libc.ptrace(request, tid, address, data) == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"ptrace {request}: {os.strerror(code)}")


def poke(tid, at, value):
    ptrace(POKEUSER, tid, at, value & (2**64 - 1))


def peek(tid, at):
    ctypes.set_errno(0)
    value = ctypes.c_ulong()
    if libc.syscall(101, PEEKUSER, tid, at, ctypes.byref(value)) == -1:  # ptrace; its wrapper returns the value
        raise OSError(ctypes.get_errno(), "PTRACE_PEEKUSER")
    return value.value


def syscall_info(tid):
    info = Info()
    if libc.ptrace(GET_SYSCALL_INFO, tid, ctypes.sizeof(info), ctypes.addressof(info)) <= 0:
        raise OSError(ctypes.get_errno(), "PTRACE_GET_SYSCALL_INFO")
    return info
