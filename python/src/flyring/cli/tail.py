# SPDX-License-Identifier: Apache-2.0
"""``flyring tail``: prints the messages of a channel live, as a lossy subscriber (spec/api.md, spec/messages.md 4)."""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from .. import Action, Channel, LossySubscriber, Message, layout
from .._core import message_behind
from ..errors import AccessDeniedError, BadMessageError, ChannelReplacedError, CorruptRingError, InvalidArgumentError
from ..sbe import Schema, dispatch, to_dict
from ..sbe.errors import SbeError, SchemaError
from .columns import Table
from .lines import raw_line, typed_line
from .report import printable
from .where import Where

_MOST_COMPLAINTS = 10
_LOOK = 0.5
"""Seconds between checks whether the pipe that reads standard output is still open."""


def tail(
    name: str,
    *,
    as_table: bool = False,
    since_start: bool = False,
    messages: Sequence[str] = (),
    where: Sequence[str] = (),
    count: int | None = None,
    ring: int | None = None,
    read_only: bool = False,
) -> int:
    """Runs the command until it is interrupted, or ``count`` messages were shown. Returns status 1 if messages were
    lost or could not be decoded, a ring is damaged, or the channel was replaced."""
    with open_to_follow(name, read_only) as channel:
        schema = _schema_of(channel, needed=bool(messages or where))
        follower = _Follower(schema, as_table, messages, where, count)
        if channel.kind == "service":
            follower.skip_prefixes(channel.clients)
        rings = None if ring is None else [ring]
        subscriber = channel.lossy_subscriber(rings, "oldest" if since_start else "now")
        with suppress(KeyboardInterrupt):
            follower.follow(subscriber)
        follower.count_losses(subscriber)
        return follower.say_what_was_wrong()


def open_to_follow(name: str, read_only: bool) -> Channel:
    """Opens the channel, for reading only if asked to or if the file cannot be written. A read-only reader cannot ask
    to be woken, so it looks every millisecond (spec/channel.md 6.16)."""
    if not read_only:
        with suppress(AccessDeniedError):
            return Channel.open(name)
    return Channel.open(name, read_only=True)


def complain(text: str) -> None:
    sys.stdout.flush()  # so that the output and this message appear in order
    print(f"flyring: {printable(text)}", file=sys.stderr, flush=True)


def output_is_closed() -> bool:
    """Returns whether standard output is a pipe whose other end is closed. Without this check, tail would notice only
    when it prints the next message."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _schema_of(channel: Channel, needed: bool) -> Schema | None:
    """Returns the channel's schema; None if there is none, or it is not an SBE schema."""
    if channel.schema is None:
        if needed:
            raise InvalidArgumentError("name", f"the channel at {channel.path} has no schema for --message or --where")
        return None
    try:
        return Schema.of(channel)
    except SchemaError as error:
        if needed:
            raise
        complain(f"the schema in {channel.path} cannot be read, and all messages are shown raw: {error}")
        return None


class _Enough(Exception):  # noqa: N818 - no error
    """Raised when ``count`` messages have been shown."""


class _Follower:
    def __init__(
        self, schema: Schema | None, as_table: bool, messages: Sequence[str], where: Sequence[str], count: int | None
    ) -> None:
        if count is not None and count < 1:
            raise InvalidArgumentError("count", f"{count} must be 1 or more")
        self.left = count
        self.table = Table(schema.model if schema else None) if as_table else None
        self.chosen = bool(messages or where)
        self.where = [Where(clause, schema.model) for clause in where] if schema else []
        self.handler: Callable[[Message], Action | None] = self.on_raw
        self.not_decoded = self.damaged_rings = self.lost_messages = self.lost_bytes = 0
        self.replaced = False
        if schema is not None:
            unknown = [name for name in messages if name not in schema.messages]
            if unknown:
                known = ", ".join(schema.messages)
                raise InvalidArgumentError("message", f"the schema has no {', '.join(unknown)}, but {known}")
            classes = [schema.messages[name] for name in messages or schema.messages]
            typed = {one: self.on_typed for one in classes if 0 < one.TEMPLATE_ID < 2**31}  # a record's type
            self.handler = dispatch(typed, otherwise=None if self.chosen else self.on_raw)

    def skip_prefixes(self, clients: int) -> None:
        """Shows each message of a service without its prefix (spec/service.md 2). Cancel and credit messages have an
        empty payload, and are shown raw."""
        show = self.handler

        def handler(message: Message) -> Action | None:
            prefix = layout.REQUEST_LENGTH if message.ring < clients else layout.REPLY_LENGTH
            if len(message) < prefix:
                self.bad(f"ring {message.ring}, position {message.position}: shorter than its prefix")
                return None
            return show(message_behind(message, prefix))

        self.handler = handler

    def follow(self, subscriber: LossySubscriber) -> None:
        try:
            while True:
                try:
                    if subscriber.poll(self.handler, timeout=_LOOK) == 0 and output_is_closed():
                        return
                except BadMessageError as error:
                    self.bad(str(error))
                except CorruptRingError as error:
                    self.damaged(error)
                    if self.damaged_rings >= len(subscriber.rings):
                        return
                except ChannelReplacedError as error:
                    self.replaced = True
                    complain(str(error))
                    return
                finally:
                    self.flush()
        except _Enough:
            return

    def on_typed(self, decoder: Any, message: Message) -> None:
        try:
            body = to_dict(decoder)
        except SbeError as error:
            self.bad(f"ring {message.ring}, position {message.position}: {error}")
            return
        if all(where.matches(decoder.NAME, body) for where in self.where):
            self.show(typed_line(message, decoder.NAME, body))

    def on_raw(self, message: Message) -> None:
        self.show(raw_line(message))

    def show(self, line: dict[str, Any]) -> None:
        if self.table is not None:
            self.table.add(line)
        else:
            print(json.dumps(line))
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                raise _Enough

    def flush(self) -> None:
        if self.table is not None:
            self.table.flush()
        sys.stdout.flush()

    def bad(self, text: str) -> None:
        self.not_decoded += 1
        if self.not_decoded <= _MOST_COMPLAINTS:
            complain(text)
        if self.not_decoded == _MOST_COMPLAINTS:
            complain("further messages like that are only counted")

    def damaged(self, error: CorruptRingError) -> None:
        self.damaged_rings += 1
        complain(str(error))

    def count_losses(self, subscriber: LossySubscriber) -> None:
        self.lost_messages = sum(subscriber.lost_messages(ring) for ring in subscriber.rings)
        self.lost_bytes = sum(subscriber.lost_bytes(ring) for ring in subscriber.rings)

    def say_what_was_wrong(self) -> int:
        if self.lost_messages:
            lost = f"{self.lost_messages} messages, {self.lost_bytes} bytes"
            complain(f"lost, because overwritten before they were read: {lost}")
        if self.not_decoded:
            complain(f"not decoded: {self.not_decoded} messages")
        return 1 if self.lost_messages or self.not_decoded or self.damaged_rings or self.replaced else 0
