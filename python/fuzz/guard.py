# SPDX-License-Identifier: Apache-2.0
"""Mappings between inaccessible pages: reading or writing one byte outside of a file kills the process."""

from __future__ import annotations

import os
from typing import Any

import flyring.channel
import flyring.cli.image
import flyring.table_base
import flyring.table_file
import flyring.table_writer
from flyring._core import File, Memory

GUARD = 1 << 20  # on both sides


def guarded(file: File, length: int, *options: Any) -> Memory:
    """Makes a ``Memory`` with guards."""
    if not 0 < length <= os.fstat(file.fileno()).st_size:
        raise ValueError(f"a mapping of {length} bytes is not what is to be tested")
    return Memory(file, length, *options, guard=GUARD)


def install() -> None:
    flyring.channel.Memory = flyring.cli.image.Memory = guarded  # type: ignore[assignment, misc]
    for module in (flyring.table_base, flyring.table_file, flyring.table_writer):
        module.Memory = guarded  # type: ignore[assignment, attr-defined, misc]
