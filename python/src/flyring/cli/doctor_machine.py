# SPDX-License-Identifier: Apache-2.0
"""What ``flyring doctor`` asks the machine. Tests replace ``root``, under which /proc and /sys are looked for."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import resource
import secrets
from collections import Counter

from .._core import File
from ..errors import FlyringError
from ..system import check_file_system, check_folder
from ..system import test_locks as lock_test

MEMBARRIER = {"x86_64": 324, "aarch64": 283}
FUTEX_WAITV = 449
GLOBAL_EXPEDITED = 1 << 1
ENOSYS, EPERM = 38, 1
JAR = re.compile(r"/flyring-(\d[\w.]*?)\.jar")
DIST = re.compile(r"(.*)/flyring/_core\.[\w.-]*so$")


class Machine:
    def __init__(self, root: str = "") -> None:
        self.root = root

    # Files of the kernel

    def text(self, path: str) -> str:
        """Returns the text of a file of /proc or /sys; "" if it is not there."""
        try:
            with open(self.root + path, encoding="ascii", errors="replace") as file:
                return file.read().strip()
        except OSError:
            return ""

    def chosen(self, path: str) -> str:
        """Returns the word in brackets of a file like "always [madvise] never"."""
        found = re.search(r"\[(\w+)\]", self.text(path))
        return found[1] if found else ""

    def governor(self, core: int) -> str:
        return self.text(f"/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor")

    def quota(self) -> float | None:
        """Returns how many cores this process's cgroup may use; None: no limit, or not known."""
        group = re.search(r"^0::(.*)$", self.text("/proc/self/cgroup"), re.M)
        path = group[1] if group else "/"
        least: float | None = None
        while True:
            words = self.text(f"/sys/fs/cgroup{path.rstrip('/')}/cpu.max").split()
            if len(words) == 2 and words[0] != "max":
                cores = int(words[0]) / int(words[1])
                least = cores if least is None else min(least, cores)
            if path in ("/", ""):
                return least
            path = os.path.dirname(path)

    def in_container(self) -> bool:
        marks = ("/.dockerenv", "/run/.containerenv")
        named = re.search(r"docker|kubepods|libpod|containerd", self.text("/proc/1/cgroup"))
        return named is not None or any(os.path.exists(self.root + mark) for mark in marks)

    # System calls

    def release(self) -> str:
        return f"{platform.system()} {platform.release()} {platform.machine()}"

    def has_membarrier(self) -> bool:
        number = MEMBARRIER.get(platform.machine())
        if number is None:
            return False
        return bool(max(0, call(number, 0, 0, 0)) & GLOBAL_EXPEDITED)

    def has_futex_waitv(self) -> bool:
        return call(FUTEX_WAITV, 0, 0, 0, 0, 0) not in (-ENOSYS, -EPERM)

    def cores(self) -> list[int]:
        return sorted(os.sched_getaffinity(0))

    def limits(self) -> tuple[int | None, int | None]:
        """Returns the limits of file size and of open files; None: no limit."""
        size, files = (resource.getrlimit(one)[0] for one in (resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE))
        unlimited = resource.RLIM_INFINITY
        return None if size == unlimited else size, None if files == unlimited else files

    # The folder

    def folder_problem(self, folder: str) -> str:
        if os.path.exists(folder) and not os.path.isdir(folder):
            return f"{folder} is not a folder"
        try:
            check_folder(os.path.join(folder, "x"), create=False)
        except FlyringError as error:
            return str(error)
        return ""

    def may_write(self, folder: str) -> bool:
        return os.access(folder, os.W_OK | os.X_OK, effective_ids=True)

    def file_system_problem(self, place: str) -> str:
        try:
            file = File(place, os.O_RDONLY | os.O_DIRECTORY)
            try:
                check_file_system(file, place, any_file_system=False, read_only=False)
            finally:
                file.close()
        except (FlyringError, OSError) as error:
            return str(error)
        return ""

    def lock_problem(self, folder: str) -> str:
        path = os.path.join(folder, f".doctor.{secrets.token_hex(8)}.tmp")
        try:
            file = File(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                os.unlink(path)
                lock_test(file, folder)
            finally:
                file.close()
        except (FlyringError, OSError) as error:
            return str(error)
        return ""

    def space(self, place: str) -> tuple[int, int, int | None]:
        """Returns the bytes in all, the free bytes, and how many more files fit; None: any number."""
        status = os.statvfs(place)
        files = status.f_favail if status.f_files else None
        return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize, files

    def mount(self, place: str) -> str:
        """Returns the mount point that a folder is in."""
        place = os.path.realpath(place)
        while not os.path.ismount(place):
            place = os.path.dirname(place)
        return place

    def is_mount(self, folder: str) -> bool:
        return self.mount(folder if os.path.isdir(folder) else os.path.dirname(folder)) != "/dev/shm"

    def huge_pages(self, folder: str) -> str | None:
        """Returns the option ``huge`` of the tmpfs that a folder is in; None: it is in another file system."""
        place = self.mount(folder).replace(" ", "\\040")
        mounts = re.findall(r"^\S+ (\S+) (\S+) (\S+)", self.text("/proc/self/mounts"), re.M)
        over = self.chosen("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
        for point, kind, options in reversed(mounts):  # the last one hides the others
            if point != place:
                continue
            if kind != "tmpfs":
                return None
            found = re.search(r"\bhuge=(\w+)", options)
            # Of these words, only deny and force concern a mount that has a name.
            return {"deny": "never", "force": "always"}.get(over) or (found[1] if found else "never")
        return None

    def temporary(self, folder: str) -> list[str]:
        """Returns files of unfinished channels (spec/channel.md 3.2)."""
        if not os.path.isdir(folder) or not os.access(folder, os.R_OK):
            return []
        names = [name for name in os.listdir(folder) if re.fullmatch(r"\..*\.[0-9a-f]{16}\.tmp", name)]
        return [os.path.join(folder, name) for name in sorted(names)]

    # Other processes

    def libraries(self, pids: set[int]) -> dict[tuple[str, str], int]:
        """Returns {(version, what): in how many processes}, as far as their open files and mappings tell."""
        found: Counter[tuple[str, str]] = Counter()
        for pid in pids:
            found.update(set(self._libraries_of(pid)))
        return dict(found)

    def _libraries_of(self, pid: int) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        paths = set(re.findall(r"(/\S+)$", self.text(f"/proc/{pid}/maps"), re.M))
        with contextlib.suppress(OSError):
            for one in os.listdir(f"{self.root}/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    paths.add(os.readlink(f"{self.root}/proc/{pid}/fd/{one}"))
        for path in paths:
            if jar := JAR.search(path):
                found.append((jar[1], f"Java {jar[1]}"))
            elif module := DIST.match(path):
                version = installed(module[1])
                found.append((version, f"Python {version or 'of unknown version'}"))
        return found


def installed(folder: str) -> str:
    """Returns the version of the Flyring that is installed in a folder of Python packages; "" if not known."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if match := re.fullmatch(r"flyring-(.+)\.dist-info", name):
                return match[1]
    return ""


def call(number: int, *arguments: int) -> int:
    """Makes a system call. Returns its result, or -errno."""
    libc = ctypes.CDLL(None, use_errno=True)
    result = int(libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)))
    return -ctypes.get_errno() if result < 0 else result
