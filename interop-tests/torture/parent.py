# SPDX-License-Identifier: Apache-2.0
"""Ties a process to its parent."""

import ctypes
import signal

PR_SET_PDEATHSIG = 1
C_LIBRARY = ctypes.CDLL(None)


def die_with_parent():
    """For Popen's preexec_fn: lets the kernel kill the new process when its parent dies in any way."""
    C_LIBRARY.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
