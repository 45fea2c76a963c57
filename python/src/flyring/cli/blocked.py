# SPDX-License-Identifier: Apache-2.0
"""Sentences about waiting: publishers that are held back (spec/channel.md 6.2, 5), kept slots without an owner, and
jobs in hand."""

from __future__ import annotations

from collections.abc import Iterator

from ..stats import Stats, SubscriberStats
from .report import seconds_text


def blocked(stats: Stats) -> Iterator[str]:
    """Yields a sentence for each publisher that waits for room."""
    for ring in stats.publishers:
        if not ring.blocked_since:
            continue
        noun = "worker" if stats.kind == "queue" else "subscriber"
        if stats.kind == "service":
            noun = "server, slot" if ring.slot < stats.clients else "client, slot"
        holders = "; ".join(holder(stats.subscribers[k], noun) for k in ring.blocked_by)
        who = f"publisher {ring.slot} ({ring.name or 'no name'}, pid {ring.pid})"
        wait = f"{seconds_text(ring.blocked_for)}, wants {ring.blocked_length} bytes"
        yield f"BLOCKED {who} for {wait}, held by {holders}"


def holder(slot: SubscriberStats, noun: str) -> str:
    if slot.state == "shared":
        return "jobs that no worker has taken"
    if slot.state == "foreign":
        return f"subscriber {slot.slot} (stock Agrona)"
    owner = f"pid {slot.pid}" if slot.state == "live" else "no process owns it"
    free = ": flyring evict frees it" if slot.kept and slot.state != "live" else ""
    return f"{noun} {slot.slot} ({slot.name or 'no name'}, {owner}{', kept' if slot.kept else ''}{free})"


def unheard(stats: Stats) -> Iterator[str]:
    """Yields a sentence for each ring of a broadcast channel with a live publisher that no subscriber reads."""
    for ring in stats.publishers:
        if stats.kind == "broadcast" and ring.state == "live" and ring.readers == 0 and ring.messages > 0:
            who = f"publisher {ring.slot} ({ring.name or 'no name'}, pid {ring.pid})"
            yield f"NO READERS: no subscriber reads what {who} publishes"


def waiting(stats: Stats) -> Iterator[str]:
    """Yields a sentence for each kept slot that no process owns and that has unread messages."""
    for slot in stats.subscribers:
        rings = [gate for gate in slot.gates if gate.lag]
        if not slot.kept or slot.state in ("live", "foreign") or not rings:
            continue
        if stats.kind == "service":
            lags = [gate.lag_messages for gate in rings]
            if any(lags):
                count = f"{sum(lags)} requests" if min(lags) >= 0 else "requests"
                where = ", ".join(str(gate.ring) for gate in rings)
                yield f"{count} wait for a server in ring {where}"
            continue
        if slot.state == "shared" and not any(gate.lag_messages for gate in rings):
            continue  # the lag is only padding
        known = all(gate.lag_messages >= 0 for gate in rings)
        what = f"{sum(gate.lag_messages for gate in rings)} messages" if known else "messages"
        where = ", ".join(str(gate.ring) for gate in rings)
        if slot.state == "shared":
            yield f"{what.replace('messages', 'jobs')} wait for a worker in ring {where}"
            continue
        who = f"subscriber {slot.slot} ({slot.name or 'no name'})"
        do = "" if stats.foreign else "; flyring evict frees them"
        yield f"{who} is kept and no process owns it: {what} wait in ring {where}{do}"


def working(stats: Stats) -> Iterator[str]:
    """Yields a sentence for each worker of a queue, alive or dead, that has a job in hand."""
    for slot in stats.subscribers:
        job = slot.in_hand
        if job is None:
            continue
        what = f"a job of ring {job.ring} at {job.position} in hand for {seconds_text(job.busy_for)}"
        times = "once" if job.attempts == 1 else f"{job.attempts} times"
        again = f", handed out {times} before" if job.attempts else ""
        who = f"worker {slot.slot} ({slot.name or 'no name'}, pid {slot.pid})"
        if slot.state == "live":
            yield f"{who} has {what}{again}{', was evicted' if slot.evicting else ''}"
        else:
            yield f"{who} is DEAD, and had {what}{again}: the next worker that looks takes it over"
