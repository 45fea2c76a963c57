# SPDX-License-Identifier: Apache-2.0
"""Messages of journals and recordings as JSON lines (spec/messages.md 4), and the choice among them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from .. import layout
from .._core import JournalMessage
from ..errors import BadMessageError, InvalidArgumentError
from ..journal import Journal
from ..journal_seek import JournalStart
from .journal_damage import Damages
from .recording import LOOK, Lost, Recorded, Source, recorded
from .report import printable_text

if TYPE_CHECKING:
    from ..sbe import Schema
    from .where import Where

Json = dict[str, Any]


def time_of(text: str) -> int:
    """A time in ns since 1970: a number of ns, or ISO 8601 (UTC unless it says otherwise)."""
    if re.fullmatch(r"[0-9]+", text):
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time: write ns since 1970, or 2026-11-28T12:00:00.5"
        ) from None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    whole = int(when.replace(microsecond=0).timestamp())
    return whole * 1_000_000_000 + when.microsecond * 1000


def iso(when: int) -> str:
    """ns since 1970 as ISO 8601, to the ns."""
    seconds, rest = divmod(when, 1_000_000_000)
    if not 0 <= seconds < 253_402_300_800:
        return str(when)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def add_range(one: argparse.ArgumentParser) -> None:
    """The options that choose a part of a journal."""
    one.add_argument("--from", dest="from_time", metavar="TIME", type=time_of,
                     help="begin at this time: 2026-11-28T12:00:00.5 (UTC), or ns since 1970")  # fmt: skip
    one.add_argument("--until", dest="to_time", metavar="TIME", type=time_of, help="end before this time")
    one.add_argument("--from-number", metavar="N", type=int, help="begin at this message of the journal")
    one.add_argument(
        "--until-number", dest="to_number", metavar="N", type=int, help="end before this message of the journal"
    )


def add_choice(one: argparse.ArgumentParser) -> None:
    """The options that choose among messages, as those of tail."""
    one.add_argument("--message", metavar="NAME", action="append", default=[],
                     help="only messages of this name; may be repeated")  # fmt: skip
    one.add_argument("--type", metavar="N", type=int, action="append", default=[],
                     help="only messages of this type; may be repeated")  # fmt: skip
    one.add_argument("--where", metavar="FIELD=VALUE", action="append", default=[],
                     help="only messages whose FIELD has this VALUE; also != < <= > >=; may be repeated")  # fmt: skip
    one.add_argument("--channel", metavar="NAME", action="append", default=[],
                     help="of a recording: only this channel; may be repeated")  # fmt: skip
    one.add_argument("--sender", metavar="NAME", action="append", default=[],
                     help="of a recording: only this publisher; may be repeated")  # fmt: skip
    one.add_argument("--ring", metavar="K", type=int, help="of a recording: only this ring")


def start_of(options: argparse.Namespace) -> JournalStart | None:
    if options.from_number is not None and options.from_time is not None:
        raise InvalidArgumentError("from", "give --from or --from-number")
    if options.from_number is not None:
        return JournalStart.at_number(options.from_number)
    return None if options.from_time is None else JournalStart.at_time(options.from_time)


class Texts:
    """Decodes payloads by the schemas of a journal."""

    def __init__(self) -> None:
        self.schemas: dict[bytes, Schema | None] = {}
        self.not_decoded = 0

    def schema_of(self, text: bytes) -> Schema | None:
        if text not in self.schemas:
            from ..sbe import Schema, SchemaError  # most of the imports of a command, and many journals have no schema

            try:
                self.schemas[text] = Schema.parse(text.decode("utf-8", "replace")) if text else None
            except SchemaError:
                self.schemas[text] = None
        return self.schemas[text]

    def content(self, payload: bytes, kind: int, schema: Schema | None) -> Json:
        """{"message", "body"}, or {"type", "text" or "data"}."""
        if schema is not None:
            from ..sbe import SbeError, to_dict

            for message in schema.messages.values():
                if kind == message.TEMPLATE_ID:
                    try:
                        return {"message": message.NAME, "body": to_dict(message.decode(payload))}
                    except (SbeError, BadMessageError):
                        self.not_decoded += 1
                        break
        text = printable_text(payload)
        return {"type": kind} | ({"data": payload.hex()} if text is None else {"text": text})


def payload_of(item: Recorded) -> bytes:
    """The payload without the prefix of a service's messages (spec/service.md 2)."""
    if item.source.kind != "service":
        return item.payload
    return item.payload[layout.REQUEST_LENGTH if item.ring < item.source.clients else layout.REPLY_LENGTH :]


class Choice:
    """What add_choice has chosen."""

    def __init__(self, options: argparse.Namespace, texts: Texts) -> None:
        self.options, self.texts = options, texts
        self.wheres: dict[Schema, list[Where]] = {}

    @property
    def reads_content(self) -> bool:
        return bool(self.options.message or self.options.where)

    def source(self, item: Recorded | Lost) -> bool:
        return self.ring(item.source, item.ring)

    def ring(self, source: Source, ring: int) -> bool:
        given = self.options
        return (not given.channel or source.name in given.channel) and given.ring in (None, ring)

    def sender(self, name: str) -> bool:
        return not self.options.sender or name in self.options.sender

    def recorded(self, item: Recorded, content: Json | None = None) -> bool:
        if not self.source(item) or not self.sender(item.sender):
            return False
        schema = self.texts.schema_of(item.source.schema)
        return self.message(item.type, payload_of(item), schema, content)

    def message(self, kind: int, payload: bytes, schema: Schema | None, content: Json | None = None) -> bool:
        given = self.options
        if given.type and kind not in given.type:
            return False
        if not self.reads_content:
            return True
        found = content or self.texts.content(payload, kind, schema)
        if "message" not in found or (given.message and found["message"] not in given.message) or schema is None:
            return False
        if schema not in self.wheres:
            from .where import Where

            self.wheres[schema] = [Where(clause, schema.model) for clause in given.where]
        return all(where.matches(found["message"], found["body"]) for where in self.wheres[schema])


def within(options: argparse.Namespace, time: int, number: int) -> bool:
    """Whether a message lies before the end that was asked for."""
    return (options.to_time is None or time < options.to_time) and (
        options.to_number is None or number < options.to_number
    )


def own_messages(journal: Journal, options: argparse.Namespace, damages: Damages) -> Iterator[JournalMessage]:
    """The messages of a journal in the chosen part."""
    follow = getattr(options, "follow", False)
    end = None if follow else journal.stats().published
    with damages.reader(journal, start_of(options) or "oldest") as reader:
        while end is None or reader.position < end:
            message = reader.take(LOOK if follow else 0)
            if message is None:
                if follow:
                    continue
                break
            if (end is not None and message.position >= end) or not within(options, message.time, message.number):
                break
            yield message
        damages.end(reader)


def chosen(
    journal: Journal, options: argparse.Namespace, choice: Choice, damages: Damages
) -> Iterator[Recorded | Lost]:
    """What a recording holds in the chosen part. Stops at the first message behind it."""
    for item in recorded(journal, start_of(options), getattr(options, "follow", False), damages):
        number = item.count if isinstance(item, Recorded) else -1
        if not within(options, item.time, number):
            return
        if choice.source(item) if isinstance(item, Lost) else choice.recorded(item):
            yield item


def line_of(item: Recorded | Lost, texts: Texts) -> Json:
    if isinstance(item, Lost):
        return {"time": iso(item.time), "channel": item.source.name, "ring": item.ring, "lost": item.messages,
                "from": item.begin, "to": item.end}  # fmt: skip
    where = {"time": iso(item.time), "channel": item.source.name, "ring": item.ring, "sender": item.sender,
             "position": item.position, "number": item.count}  # fmt: skip
    return where | texts.content(payload_of(item), item.type, texts.schema_of(item.source.schema))
