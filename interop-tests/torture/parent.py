# SPDX-License-Identifier: Apache-2.0
"""What ties a process to the one that starts it."""

import ctypes
import signal

PR_SET_PDEATHSIG = 1
C_LIBRARY = ctypes.CDLL(None)


def die_with_parent():
    """For Popen's preexec_fn: the new process is killed when its parent dies, whatever the parent dies of."""
    C_LIBRARY.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
