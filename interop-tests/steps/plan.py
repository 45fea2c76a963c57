# SPDX-License-Identifier: Apache-2.0
"""What the tracer and the Python children agree on: plan.hpp, in Python."""

import signal
import uuid

from flyring._identity import Identity

MONOTONIC = 3_000_000_000
SERVER_AT = 2048  # server_at of plan.hpp
LOST_STATUS = 3  # lost_status of child.hpp

IDENTITY = Identity(
    channel_id=uuid.UUID(bytes=b"\x11" + bytes(15)),
    boot_id=uuid.UUID(bytes=b"\x22" + bytes(15)),
    created_at=1_000_000_000,
    now=2_000_000_000,
    monotonic=MONOTONIC,
    pid=1002,
)


def mark():
    signal.raise_signal(signal.SIGTRAP)


def length_of(sequence):
    return 8 + 5 * sequence % 41


def payload(sequence, length):
    return bytes((31 * sequence + 3 * i) % 251 for i in range(length))
