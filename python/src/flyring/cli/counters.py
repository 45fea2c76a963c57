# SPDX-License-Identifier: Apache-2.0
"""The part of ``flyring check`` for the counters section (spec/channel.md 4.8, 8)."""

from __future__ import annotations

from .. import layout
from .._core import Memory
from ..header import Header
from .report import Findings

STATES = (
    layout.COUNTER_METADATA_STATE_UNUSED,
    layout.COUNTER_METADATA_STATE_ALLOCATED,
    layout.COUNTER_METADATA_STATE_RECLAIMED,
)
NEVER = 2**63 - 1
FREE_IT = "free the counter and allocate it again"


def check_counters(header: Header, memory: Memory, findings: Findings) -> None:
    unused: int | None = None
    for i in range(header.counters):
        metadata = header.counter_metadata_offset + layout.COUNTER_METADATA_STRIDE * i
        state = memory.load32(metadata + layout.COUNTER_METADATA_STATE)
        where = {"slot": f"counter {i}"}
        if state not in STATES:
            what = f"there is no state {state}"
            findings.broken("counter", "4.8", metadata, what, "replace the channel", **where)
        elif state == layout.COUNTER_METADATA_STATE_UNUSED:
            unused = i if unused is None else unused
        elif unused is not None:
            what = f"it has the state {state}, but counter {unused} before it was never used: readers stop there"
            findings.broken("counter", "8", metadata, what, "replace the channel", **where)
        if state == layout.COUNTER_METADATA_STATE_ALLOCATED:
            check_allocated(memory, metadata, i, findings)
        elif state == layout.COUNTER_METADATA_STATE_RECLAIMED:
            check_reclaimed(memory, metadata, i, findings)


def check_allocated(memory: Memory, metadata: int, i: int, findings: Findings) -> None:
    where = {"slot": f"counter {i}"}
    length = memory.load32(metadata + layout.COUNTER_METADATA_LABEL_LENGTH)
    if not 0 <= length <= layout.COUNTER_METADATA_LABEL_MAX_LENGTH:
        offset = metadata + layout.COUNTER_METADATA_LABEL_LENGTH
        findings.broken("label", "4.8", offset, f"the label's length is {length}", FREE_IT, **where)
        return
    try:
        memory.read(metadata + layout.COUNTER_METADATA_LABEL, length).decode("utf-8")
    except UnicodeDecodeError as error:
        offset = metadata + layout.COUNTER_METADATA_LABEL + error.start
        findings.broken("label", "4.8", offset, f"the label is not UTF-8: {error.reason}", FREE_IT, **where)
    reuse = memory.load64(metadata + layout.COUNTER_METADATA_FREE_FOR_REUSE)
    if reuse != NEVER:
        offset = metadata + layout.COUNTER_METADATA_FREE_FOR_REUSE
        findings.broken(
            "free-for-reuse", "4.8", offset, f"it is in use, but free_for_reuse is {reuse}", FREE_IT, **where
        )


def check_reclaimed(memory: Memory, metadata: int, i: int, findings: Findings) -> None:
    """Looks for a free that its caller did not finish: the key is left, or the counter stays unusable."""
    where = {"slot": f"counter {i}"}
    if memory.load64(metadata + layout.COUNTER_METADATA_FREE_FOR_REUSE) == NEVER:
        offset = metadata + layout.COUNTER_METADATA_FREE_FOR_REUSE
        what = "a free was begun and not finished: the counter cannot be allocated again"
        findings.left("free-for-reuse", "8", offset, what, "flyring recover finishes it", **where)
    elif any(memory.read(metadata + layout.COUNTER_METADATA_KEY, layout.COUNTER_METADATA_KEY_LENGTH)):
        offset = metadata + layout.COUNTER_METADATA_KEY
        findings.broken("key", "8", offset, "the key of a freed counter is not zero", "harmless", **where)
