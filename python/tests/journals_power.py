# SPDX-License-Identifier: Apache-2.0
"""What a disk may hold after a power loss (spec/journal.md 7): each page of a file as it was at its last sync or at any
time since, and torn; each name of a folder as it was at the folder's last sync, or as it is now."""

from __future__ import annotations

import os
import random
import shutil
import stat
from pathlib import Path

import pytest

SECTOR = 512


class Disk:
    """Watches the syncs of this process, all of which go through ``os``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.folder = folder
        self.durable: dict[int, bytes] = {}  # by inode: the bytes at the last sync
        self.history: dict[int, list[bytes]] = {}  # and states since
        self.names: dict[str, int] = {}  # at the last sync of the folder
        self.fail_at: int | None = None  # how many more syncs of segments succeed
        self.syncs = 0
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, self._watched(getattr(os, name)))

    def _watched(self, real: object) -> object:
        def sync(fd: int) -> None:
            status = os.fstat(fd)
            if stat.S_ISDIR(status.st_mode):
                if self._is_ours(fd):
                    self.names = self._names()
                return
            self.syncs += 1
            if self.fail_at is not None and status.st_size > 65536:
                if self.fail_at == 0:
                    raise OSError(5, "Input/output error")
                self.fail_at -= 1
            data = os.pread(fd, status.st_size, 0)
            self.durable[status.st_ino] = data
            self.history[status.st_ino] = []

        return sync

    def _is_ours(self, fd: int) -> bool:
        return os.path.realpath(f"/proc/self/fd/{fd}") == str(self.folder)

    def _names(self) -> dict[str, int]:
        if not self.folder.is_dir():
            return {}
        return {entry.name: entry.inode() for entry in os.scandir(self.folder)}

    def note(self) -> None:
        """Remembers the states of now, which the disk may hold, too."""
        for entry in os.scandir(self.folder):
            self.history.setdefault(entry.inode(), []).append(Path(entry.path).read_bytes())

    def lose_power(self, chance: random.Random, to: Path) -> None:
        """Makes a folder as the disk may hold it."""
        self.note()
        now, shutil_target = self._names(), to
        contents = {inode: self.history.get(inode, [])[-1] for inode in now.values() if self.history.get(inode)}
        if shutil_target.exists():
            shutil.rmtree(shutil_target)
        shutil_target.mkdir()
        for name in sorted({*self.names, *now}):
            inode = self.names.get(name)
            if name not in self.names or now.get(name) != inode:  # the change may be on the disk or not
                inode = chance.choice([inode, now.get(name)])
            if inode is None:
                continue
            base = self.durable.get(inode, b"")
            states = [base, *self.history.get(inode, [])]
            if not any(states):
                continue
            length = max(map(len, states)) if inode in self.durable else len(contents.get(inode, b""))
            (shutil_target / name).write_bytes(self._mixed(chance, states, length))

    def _mixed(self, chance: random.Random, states: list[bytes], length: int) -> bytes:
        mode = chance.choice(("old", "new", "mixed", "mixed", "torn"))
        if mode == "old":
            return states[0].ljust(length, b"\0")
        if mode == "new":
            return states[-1].ljust(length, b"\0")
        unit = SECTOR if mode == "torn" else 4096
        data = bytearray(states[0].ljust(length, b"\0"))
        last = states[-1].ljust(length, b"\0")
        for at in range(0, length, unit):
            if data[at : at + unit] != last[at : at + unit]:
                data[at : at + unit] = chance.choice(states).ljust(length, b"\0")[at : at + unit]
        return bytes(data)
