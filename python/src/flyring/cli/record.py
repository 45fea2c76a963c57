# SPDX-License-Identifier: Apache-2.0
"""``flyring record``: records channels into a journal (spec/journal.md 9). The messages move in the C core."""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from .. import Channel, LossySubscriber, Subscriber, WaitSet, layout
from .._core import Recorder
from .._identity import REAL
from ..errors import FlyringError, InvalidArgumentError, MessageTooLargeError, NoSuchChannelError, SlotLostError
from ..journal import Journal
from ..journal_writer import JournalWriter
from ..system import channel_path, default_folder
from ..table_file import is_checked
from .create import size
from .ls import SUFFIX, entries
from .record_progress import Progress
from .recording import SENDER, SOURCE, STATE, Decoder, RingState, Source, check_content, state_before, state_record

LIMIT = 1 << 18  # bytes of the journal that one ring adds in a turn
LOOK = 1.0  # s: between two looks for new channels
STATE_EVERY = 1 << 16  # messages, after which the state is repeated, so that a restart is quick
GATES_EVERY = 0.005  # s: between two syncs of a recorder whose channel survives a power loss
NAP = 0.0005
TIMES = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def duration(text: str) -> float:
    """A number of seconds: 10ms, 1.5, 30s, 10m, 2h, 7d."""
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+)([a-z]*)", text)
    if match is None or match[2] not in TIMES:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 10ms, 1.5 (seconds), 30s, 10m, 2h or 7d")
    return float(match[1]) * TIMES[match[2]]


def add_arguments(one: argparse.ArgumentParser) -> None:
    one.add_argument("names", metavar="NAME", nargs="+", help="channels: names, paths, or patterns such as 'quotes*'")
    one.add_argument("--to", metavar="JOURNAL", required=True, help="the recording; an existing one is continued")
    one.add_argument("--lossy", action="store_true", help="hold no publisher back; what is lost is counted")
    one.add_argument("--since-start", action="store_true", help="with --lossy: begin with what is still in the rings")
    one.add_argument("--name", dest="as_name", metavar="SLOT", help="the kept slot (default: record-JOURNAL)")
    one.add_argument("--segment-size", metavar="SIZE", type=size, help="bytes of a file of the journal (default 64MiB)")
    one.add_argument("--max-size", metavar="SIZE", type=size, help="remove the oldest files beyond this size")
    one.add_argument("--max-age", metavar="TIME", type=duration, help="remove files older than this")
    one.add_argument("--sync", metavar="TIME", type=duration, help="make it durable this often (default: each file)")
    one.add_argument("--for", dest="seconds", metavar="TIME", type=duration, help="end after this time")
    one.add_argument("--count", metavar="N", type=int, help="end after N messages, or a few more")
    one.add_argument("--forget", action="store_true", help="at the end, give up the kept slots")
    one.add_argument("--every", metavar="TIME", type=duration, default=1.0, help="between two lines of progress")
    one.add_argument("--quiet", action="store_true", help="print no progress")
    one.add_argument("--json", action="store_true", help="print progress as JSON lines on standard output")


def record(options: argparse.Namespace) -> int:
    """Runs the command. Returns status 1 if messages were lost, or a channel could not be recorded."""
    with opened(options) as journal, journal.writer("record", ahead=2) as writer, stopping() as stop:
        session = Session(journal, writer, options)
        try:
            session.run(stop)
        finally:
            session.close()
        return session.status()


@contextmanager
def opened(options: argparse.Namespace) -> Iterator[Journal]:
    given: dict[str, Any] = {"content": layout.JOURNAL_CONTENT_RECORDING}
    for option in ("segment_size", "max_size", "max_age", "sync"):
        if getattr(options, option) is not None:
            given[option] = getattr(options, option)
    with suppress(NoSuchChannelError), Journal.open(options.to, read_only=True) as there:
        check_content(there)
    with Journal.open_or_create(options.to, **given) as journal:
        yield journal


@contextmanager
def stopping() -> Iterator[list[int]]:
    """Ctrl-C and SIGTERM end the recording in order, instead of anywhere."""
    stop: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        stop.append(number)

    before = {one: signal.signal(one, note) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


class Tap:
    """One channel that is recorded."""

    def __init__(self, session: Session, path: str) -> None:
        self.path, self.session = path, session
        self.name = os.path.basename(path).removesuffix(SUFFIX)
        self.channel = Channel.open(path)
        self.kept = not session.lossy
        self.durable = is_checked(self.channel._attached.file)
        self.gone = False
        try:
            self.check()
            number, self.known = session.source_number(self.channel)
            header = self.channel.header
            schema = (self.channel.schema or "").encode("utf-8")
            self.source = Source(
                number,
                self.channel.kind,
                header.schema_id,
                header.schema_version,
                self.channel.clients,
                self.channel.id,
                REAL.this_boot(),
                self.name,
                schema,
            )
            self.lost = self.messages = self.bytes = self.doubles = 0
            self.attach()
        except BaseException:
            self.channel.close()
            raise

    def check(self) -> None:
        kind, most = self.channel.kind, self.channel.capacity // 4
        if self.kept and kind != "broadcast":
            text = f"{self.name} is of kind {kind}: only a broadcast channel is recorded without loss; use --lossy"
            raise InvalidArgumentError("name", text)
        if most + 64 > self.session.journal.segment_size // 4:
            text = (
                f"messages of {self.name} have up to {most} bytes, and a message of the journal a fourth of a segment: "
                f"make the journal with --segment-size {8 * most} or more"
            )
            raise InvalidArgumentError("segment_size", text)

    def attach(self) -> None:
        """Takes the slot, or begins to look on, where the journal ends."""
        self.reader: Subscriber | LossySubscriber
        if self.kept:
            self.reader = self.channel.subscriber(self.session.slot_name, kept=True)
        else:
            oldest = bool(self.known) or self.session.options.since_start
            self.reader = self.channel.lossy_subscriber(None, "oldest" if oldest else "now")
        self.recorder = Recorder(self.reader, self.session.writer, self.source.number)
        for ring, state in self.known.items():
            if ring in self.reader.rings:
                self.recorder.resume(ring, state.next, state.number, state.epoch, state.sender)
        self.session.waits.add(self.reader)

    def attach_again(self) -> None:
        """The slot was taken away: takes it again. What was lost meanwhile is told by the numbers."""
        self.count()
        self.known = {ring: state for (number, ring), state in self.session.decoded().rings.items()
                      if number == self.source.number}  # fmt: skip
        self.session.waits.remove(self.reader)
        self.reader.close()
        self.attach()

    def count(self) -> None:
        self.lost += self.recorder.lost
        self.messages += self.recorder.messages
        self.bytes += self.recorder.bytes
        self.doubles += self.recorder.doubles

    def totals(self) -> tuple[int, int, int]:
        """Messages, bytes, lost messages."""
        one = self.recorder
        return self.messages + one.messages, self.bytes + one.bytes, self.lost + one.lost

    def has_ended(self) -> bool:
        """Whether another channel has the name, or none, and no publisher of the old one lives."""
        with suppress(NoSuchChannelError), Channel.open(self.path, read_only=True) as there:
            if there.id == self.channel.id:
                return False
        self.gone = True
        return all(one.state != "live" for one in self.channel.stats().publishers)

    def close(self) -> None:
        self.session.waits.remove(self.reader)
        self.reader.close()
        self.channel.close()


class Session:
    """The recorder's loop."""

    def __init__(self, journal: Journal, writer: JournalWriter, options: argparse.Namespace) -> None:
        self.journal, self.writer, self.options = journal, writer, options
        self.lossy: bool = options.lossy
        title = os.path.basename(journal.path).removesuffix(".journal")
        self.slot_name: str = options.as_name or f"record-{title}"[: layout.MAX_NAME_LENGTH]
        self.waits = WaitSet()
        self.taps: list[Tap] = []
        self.ended: list[tuple[int, int, int]] = []
        self.refused: dict[str, str] = {}
        self.before = self.decoded()
        self.numbers = max(self.before.sources, default=-1)
        self.segment, self.since_state, self.gates_at = -1, 0, 0.0
        self.look(first=True)
        self.write_state()
        self.progress = Progress(self, options)

    def decoded(self) -> Decoder:
        return state_before(self.journal, self.writer.number, self.writer.position)

    def source_number(self, channel: Channel) -> tuple[int, dict[int, RingState]]:
        """The number of the channel in the recording, and what that has of its rings."""
        for number, source in self.before.sources.items():
            if source.channel_id == channel.id:
                return number, {ring: state for (of, ring), state in self.before.rings.items() if of == number}
        self.numbers += 1
        if self.numbers > 0xFFFF:
            raise InvalidArgumentError("to", "the recording has 65536 channels: begin another one")
        return self.numbers, {}

    # Channels that come and go

    def paths(self) -> Iterator[tuple[str, bool]]:
        """The channels that match, each with whether it was named without a pattern."""
        for name in self.options.names:
            if not any(c in name for c in "*?["):
                yield channel_path(name), True
                continue
            folder, pattern = os.path.split(name)
            folder = folder or os.environ.get("FLYRING_DIR") or default_folder()
            for file in sorted(entries(folder, must_exist=False)):
                if fnmatch.fnmatchcase(file.removesuffix(SUFFIX), pattern.removesuffix(SUFFIX)):
                    yield os.path.join(os.path.abspath(folder), file), False

    def look(self, first: bool = False) -> bool:
        """Begins with new channels. Returns whether there is one."""
        found = False
        for path, named in dict(self.paths()).items():
            if any(tap.path == path and not tap.gone for tap in self.taps):
                continue
            try:
                self.taps.append(Tap(self, path))
                found = True
            except NoSuchChannelError:
                if first and named:
                    raise
            except FlyringError as error:
                if first and named:
                    raise
                if self.refused.get(path) != str(error):
                    self.refused[path] = str(error)
                    print(f"flyring: does not record {path}: {error}", file=sys.stderr, flush=True)
        return found

    def look_again(self) -> None:
        for tap in list(self.taps):
            if tap.has_ended() and self.step(tap) == 0:
                self.store_gates()
                tap.close()
                self.taps.remove(tap)
                self.ended.append(tap.totals())
        if self.look():
            self.write_state()

    # Recording

    def run(self, stop: list[int]) -> None:
        options = self.options
        began = looked = time.monotonic()
        while not stop:
            now = time.monotonic()
            self.progress.tick(now)
            if now - looked >= LOOK:
                looked = now
                self.look_again()
            if options.seconds is not None and now - began >= options.seconds:
                return
            ready = self.waits.wait(0.05)
            if sum([self.step(tap) for tap in list(self.taps)]) == 0 and ready:
                time.sleep(NAP)  # a reader that is lost, or whose channel was replaced, counts as ready
            self.store_gates_if_due()
            if options.count is not None and self.totals()[0] >= options.count:
                return

    def step(self, tap: Tap) -> int:
        """One turn of a channel. Returns how many messages it recorded."""
        total = 0
        while True:
            try:
                total += tap.recorder.step(self.segment, LIMIT)
            except SlotLostError:
                if tap.reader.closed or self.writer.closed:
                    raise
                self.writer._check()
                tap.attach_again()
                self.write_state()
                return total
            if not self.has_entered():
                break
            self.write_state()
        self.since_state += total
        if self.since_state >= STATE_EVERY:
            self.write_state()
        return total

    def has_entered(self) -> bool:
        """Whether the journal is in another segment than that of the state."""
        size = self.journal.segment_size
        return self.writer.position % size != 0 and self.writer.position // size * size != self.segment

    def write_state(self) -> None:
        """Repeats sources and senders, so that reading can begin here."""
        writer, size = self.writer, self.journal.segment_size
        taken = {tap.source.number for tap in self.taps}
        for _ in range(3):
            begin = -1
            try:
                for source in [*(tap.source for tap in self.taps), *self.carried(taken)]:
                    at = writer.append(source.encode(), SOURCE)
                    begin = at if begin < 0 else begin
                if begin < 0:
                    begin = writer.position
            except MessageTooLargeError as error:
                raise InvalidArgumentError("segment_size", f"a schema does not fit into a segment: {error}") from error
            segment = begin // size * size
            whole = all(tap.recorder.note_senders(segment) for tap in self.taps)
            for (number, ring), state in self.before.rings.items():
                if number not in taken and number in self.before.sources:
                    writer.append(state.encode(number, ring), SENDER)
            at = writer.append(state_record(begin), STATE)
            if whole and at // size * size == segment:
                self.segment, self.since_state = segment, 0
                return
        raise InvalidArgumentError("segment_size", "sources and senders do not fit into one segment: make it larger")

    def carried(self, taken: set[int]) -> list[Source]:
        """Channels of the recording that are not recorded now: a later recorder may go on with them."""
        return [source for number, source in self.before.sources.items() if number not in taken]

    def store_gates_if_due(self) -> None:
        kept = [tap for tap in self.taps if tap.kept]
        if not any(tap.durable for tap in kept):
            for tap in kept:
                self.store(tap, tap.recorder.cursors())
            return
        now = time.monotonic()
        held = any(8 * tap.recorder.held >= tap.channel.capacity for tap in kept)
        if held or now - self.gates_at >= GATES_EVERY:
            if any(tap.recorder.held for tap in kept):
                self.store_gates()
            self.gates_at = now

    def store_gates(self) -> None:
        """Syncs what was recorded, then stores the gates at what was read before."""
        kept = [(tap, tap.recorder.cursors()) for tap in self.taps if tap.kept]
        if any(tap.durable for tap, _ in kept):
            self.writer.sync()
        for tap, cursors in kept:
            self.store(tap, cursors)

    def store(self, tap: Tap, cursors: list[tuple[int, int, int]]) -> None:
        with suppress(SlotLostError):  # the next turn takes it again
            tap.recorder.store_gates(cursors)

    # The end

    def totals(self) -> tuple[int, int, int]:
        every = [*self.ended, *(tap.totals() for tap in self.taps)]
        return sum(one[0] for one in every), sum(one[1] for one in every), sum(one[2] for one in every)

    def close(self) -> None:
        with suppress(FlyringError):
            if not self.writer.closed:
                self.store_gates()
        self.progress.close()
        for tap in self.taps:
            if self.options.forget and isinstance(tap.reader, Subscriber):
                self.waits.remove(tap.reader)
                tap.reader.forget()
                tap.channel.close()
            else:
                tap.close()

    def status(self) -> int:
        return 1 if self.totals()[2] or self.refused else 0
