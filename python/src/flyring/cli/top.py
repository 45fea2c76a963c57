# SPDX-License-Identifier: Apache-2.0
"""``flyring top``: what goes on in all channels of a folder, or in one. Live in a terminal (top_live.py), or plain."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..errors import InvalidArgumentError
from .report import print_json, printable, size_text
from .top_model import Model, rate_text
from .top_row import Row

if TYPE_CHECKING:
    from .top_curve import BeatCurve

MISSING = (
    "the live table needs the libraries textual and hdrhistogram: pip install 'flyring[top]'; or use --once, or pipe "
    "the output"
)
NO_CURVE = "the curve needs the library hdrhistogram: pip install 'flyring[top]'"
SORTS = ("channel", "rate", "lag", "alarm")
TITLES = ("CHANNEL", "ROLE", "SLOT", "NAME", "PID", "STATE", "MSG/S", "B/S", "LAG", "LAG B", "UNMOVED", "NOTE")
RIGHT = frozenset(("SLOT", "PID", "MSG/S", "B/S", "LAG", "LAG B", "UNMOVED"))
NARROW = 80
CURVE_HEIGHT = 9
FIRST_WIDTH = {"CHANNEL": 12, "NAME": 10}
"""The greatest width of these columns on a terminal of 80 columns. On a wider terminal each gets half of the rest."""


def add_arguments(one: argparse.ArgumentParser) -> None:
    one.add_argument("name", nargs="?", metavar="NAME", help="a channel, table or journal; default: all of the folder")
    one.add_argument("--folder", metavar="FOLDER", help="default: FLYRING_DIR, or /dev/shm/flyring-<uid>")
    one.add_argument("--once", action="store_true", help="print one table and end; status 1 if a line is marked with !")
    one.add_argument("--interval", metavar="SECONDS", type=float, default=1.0, help="between two tables (default 1)")
    one.add_argument("--count", metavar="N", type=int, help="end after N tables")
    one.add_argument("--sort", choices=SORTS, default="channel", help="the order of the lines (default channel)")
    one.add_argument("--curve", action="store_true", help="also draw the times between the beats of NAME's heartbeats")
    one.add_argument("--filter", metavar="TEXT", default="", help="only lines with this text")


def top(options: argparse.Namespace) -> int:
    """Runs the command. Returns status 1 if a line of the last table is marked."""
    if options.interval <= 0:
        raise InvalidArgumentError("interval", f"{options.interval} must be above 0")
    if options.curve and options.name is None:
        raise InvalidArgumentError("curve", "name the channel whose heartbeats it shows")
    if options.curve and options.json:
        raise InvalidArgumentError("curve", "it is drawn as text; leave out --json")
    model = Model(options.folder, options.name)
    plain = options.once or options.count is not None or options.json or not sys.stdout.isatty()
    try:
        if plain:
            return print_tables(model, options)
        try:
            from .top_live import show
        except ImportError:
            print(f"flyring: {MISSING}", file=sys.stderr)
            return 2
        show(model, options.interval, options.sort, options.filter, options.curve)
        return 0
    finally:
        model.close()


def opened_curve(name: str) -> BeatCurve:
    """Begins the curve of a channel. Raises FlyringError if there is no valid channel, or the library is missing."""
    try:
        from .top_curve import BeatCurve
    except ImportError as error:
        raise InvalidArgumentError("curve", NO_CURVE) from error
    return BeatCurve(name)


def pause(seconds: float, beats: BeatCurve | None) -> None:
    """Waits until the next table. Meanwhile the curve looks at the heartbeats."""
    if beats is None:
        time.sleep(seconds)
        return
    from .monitor import TICK

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(TICK)
        beats.glance()


def print_tables(model: Model, options: argparse.Namespace) -> int:
    """Prints tables, with the curve if it was asked for. Returns the status."""
    beats = opened_curve(options.name) if options.curve else None
    try:
        return print_each(model, options, beats)
    finally:
        if beats is not None:
            beats.close()


def print_each(model: Model, options: argparse.Namespace, beats: BeatCurve | None) -> int:
    """Prints the tables. The first one needs two looks for its rates, so it comes after one interval, or without a
    curve after at most 0.2 s."""
    count = 1 if options.once else options.count
    printed = 0
    model.look()
    marked = False
    while count is None or printed < count:
        short = printed == 0 and beats is None
        pause(min(options.interval, 0.2) if short else options.interval, beats)
        model.look()
        rows = arranged(model.rows(), options.sort, options.filter)
        marked = any(row.alarm for row in rows)
        if options.json:
            print_json(document(model, rows))
        else:
            if printed:
                print()
            print(time.strftime("%H:%M:%S"), summary(model))
            width = shutil.get_terminal_size((NARROW, 24)).columns
            for line in [*table_lines(rows, width), *(beats.lines(width, CURVE_HEIGHT) if beats else ())]:
                print(line)
            for text in recent(model):
                print(text)
        sys.stdout.flush()
        printed += 1
    return 1 if marked else 0


def document(model: Model, rows: Sequence[Row]) -> dict[str, object]:
    now = time.monotonic()
    events = [{"ago": round(now - event.at, 3), "text": event.text} for event in model.events]
    return {"version": 1, "rows": [vars(row) | {"alarm": row.alarm} for row in rows], "events": events}


def arranged(rows: Iterable[Row], sort: str, only: str = "") -> list[Row]:
    """Returns the rows that contain the text, in the order that was asked for."""
    found = [row for row in rows if only.lower() in " ".join(cells(row)).lower()]
    if sort == "rate":
        found.sort(key=lambda row: -row.bytes)
    elif sort == "lag":
        found.sort(key=lambda row: -row.lag)
    elif sort == "alarm":
        found.sort(key=lambda row: not row.alarm)
    return found


def summary(model: Model) -> str:
    stats = [seen.stats for seen in model.seen.values()]
    rings = [ring for one in stats for ring in one.publishers]
    blocked = sum(ring.blocked_since > 0 for ring in rings)
    rate = sum(max(0.0, messages) for seen in model.seen.values() for (role, _), (messages, _) in seen.rates.items()
               if role == "pub")  # fmt: skip
    count = f"{len(stats)} channel{'s' * (len(stats) != 1)}, {rate_text(rate)} messages/s"
    if tables := list(model.tables.values()):
        changes = rate_text(sum(one.rate for one in tables))
        count += f", {len(tables)} table{'s' * (len(tables) != 1)}, {changes} changes/s"
    return f"{count}, {blocked} publishers blocked" if blocked else count


def cells(row: Row) -> tuple[str, ...]:
    return (
        row.channel,
        row.role,
        str(row.slot),
        row.name or "-",
        str(row.pid or "-"),
        row.state,
        rate_text(row.messages),
        rate_text(row.bytes),
        "-" if row.lag_messages < 0 else rate_text(row.lag_messages),
        "-" if not row.lag else size_text(row.lag).replace(" ", "").replace("iB", ""),
        f"{row.unmoved:.1f}s" if row.unmoved else "-",
        f"! {row.note}" if row.alarm else row.note,
    )


def table_lines(rows: Sequence[Row], width: int) -> list[str]:
    """Formats the rows for a terminal of this width. A note that does not fit goes on in the next line."""
    return [line for line, _ in laid_out(rows, width)] if rows else ["there is no channel with users, and no table"]


def laid_out(rows: Sequence[Row], width: int) -> list[tuple[str, Row | None]]:
    """Returns the lines with their rows; the first line has the titles, and no row."""
    all_cells = [tuple(printable(cell) for cell in cells(row)) for row in rows]
    more = max(0, width - NARROW) // 2
    widths = []
    for i, name in enumerate(TITLES[:-1]):
        longest = max([len(name), *(len(row[i]) for row in all_cells)])
        widths.append(min(longest, FIRST_WIDTH[name] + more) if name in FIRST_WIDTH else longest)
    drop = dropped(widths, width)
    lines: list[tuple[str, Row | None]] = []
    for row, source in zip((TITLES, *all_cells), (None, *rows), strict=True):
        parts = []
        for i, name in enumerate(TITLES[:-1]):
            if i in drop:
                continue
            text = row[i] if len(row[i]) <= widths[i] else row[i][: widths[i] - 1] + "~"
            parts.append(text.rjust(widths[i]) if name in RIGHT else text.ljust(widths[i]))
        line = " ".join(parts)
        note = row[-1]
        if len(line) + 1 + len(note) <= width:
            lines.append((f"{line} {note}".rstrip(), source))
            continue
        lines.append((line.rstrip(), source))
        lines += [(one, source) for one in wrapped(note, width)]
    return lines


def wrapped(note: str, width: int) -> list[str]:
    """Returns a note in lines of its own, which are indented."""
    lines, line = [], " "
    for word in note.split(" "):
        if len(line) + 1 + len(word) > width and line.strip():
            lines.append(line)
            line = "   "
        line += " " + word
    return [*lines, line]


def dropped(widths: Sequence[int], width: int) -> set[int]:
    """Returns the columns that a narrow terminal leaves out."""
    drop: set[int] = set()
    for name in ("SLOT", "B/S", "UNMOVED", "PID"):
        if sum(w + 1 for i, w in enumerate(widths) if i not in drop) <= width:
            break
        drop.add(TITLES.index(name))
    return drop


def recent(model: Model) -> list[str]:
    """Returns what happened in the last minute, the newest last."""
    now = time.monotonic()
    return [printable(f"{now - event.at:4.0f} s ago  {event.text}") for event in model.events]
