# SPDX-License-Identifier: Apache-2.0
"""Lets system calls fail in a child process, as in a sandbox, by a seccomp filter that stays until the process ends."""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

MEMBARRIER = {"x86_64": 324, "aarch64": 283}[platform.machine()]
FUTEX_WAITV = 449
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000


def refuse(number: int, error: int = errno.EPERM) -> None:
    """Makes this system call fail in this process from now on."""
    program = b"".join(
        struct.pack("<HBBI", *step)
        for step in (
            (LOAD_WORD, 0, 0, 0),  # the call's number
            (JUMP_IF_EQUAL, 0, 1, number),
            (RETURN, 0, 0, FAIL | error),
            (RETURN, 0, 0, ALLOW),
        )
    )
    steps = ctypes.create_string_buffer(program, len(program))
    described = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(steps)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, described):
        raise OSError(ctypes.get_errno(), "prctl")
