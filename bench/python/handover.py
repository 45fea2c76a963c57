# SPDX-License-Identifier: Apache-2.0
"""Queues of multiprocessing for processes that did not start each other.

Such a queue reaches a spawned process as a pickle, with file descriptors that the process inherits. Here side b makes
the queues and passes them to the sides that the driver started: in the same pickle, but with the descriptors sent
through a Unix socket. (This uses an undocumented name of multiprocessing: the object that stands for the process being
spawned.)
"""

from __future__ import annotations

import pickle
import socket
from multiprocessing import context, reduction
from typing import Any

from harness import Setup

received: list[int] = []


class Descriptor:
    """A file descriptor in the pickle."""

    def __init__(self, index: int) -> None:
        self.index = index

    def detach(self) -> int:
        return received[self.index]


class Parcel:
    """Takes the place of the process that multiprocessing spawns."""

    DupFd = Descriptor

    def __init__(self) -> None:
        self.fds: list[int] = []

    def duplicate_for_child(self, fd: int) -> int:
        self.fds.append(fd)
        return len(self.fds) - 1


class Handover:
    """Side b: give(). The other sides: take()."""

    def __init__(self, setup: Setup) -> None:
        self.sides = setup.sides
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if setup.side == "b":
            self.socket.bind(setup.path("handover"))
            self.socket.listen()
        else:
            self.socket.connect(setup.path("handover"))  # b opened it before this side was started

    def give(self, things: Any) -> None:
        parcel = Parcel()
        context.set_spawning_popen(parcel)
        try:
            pickled = bytes(reduction.ForkingPickler.dumps(things))
        finally:
            context.set_spawning_popen(None)
        for _ in range(self.sides - 1):
            with self.socket.accept()[0] as connection:
                socket.send_fds(connection, [pickled], parcel.fds)

    def take(self) -> Any:
        pickled, fds, _, _ = socket.recv_fds(self.socket, 1 << 20, 64)
        received[:] = fds
        return pickle.loads(pickled)
