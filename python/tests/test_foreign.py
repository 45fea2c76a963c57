# SPDX-License-Identifier: Apache-2.0
"""Stock Agrona at one end of a channel (spec/channel.md 6.15): the option, the header, and refused operations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agrona import OneToOneRingBuffer
from flyring import (
    Channel,
    ChannelDiffersError,
    ClosedError,
    CorruptHeaderError,
    InvalidArgumentError,
    Subscriber,
    VersionTooNewError,
    layout,
)
from flyring._core import crc32c

Got = list[tuple[int, bytes]]
SHAPE: dict[str, Any] = {"kind": "inbox", "publishers": 1, "subscribers": 1, "alignment": 8}


def make(end: Any, **options: Any) -> Channel:
    return Channel.create("agrona", **({"capacity": 4096, "foreign": end} | SHAPE | options))


def word(channel: Channel, name: str) -> int:
    at = channel.header.trailer(0) + getattr(layout, f"TRAILER_{name.upper()}")
    return channel._attached.memory.load64(at)


def types(channel: Channel) -> set[int]:
    """Returns the types of all records of the current lap."""
    memory, base, at, found = channel._attached.memory, channel.header.ring(0), 0, set()
    while at < channel.capacity and (length := memory.load32(base + at)) > 0:
        found.add(memory.load32(base + at + 4))
        at += -(-length // 8) * 8
    return found


def polled(subscriber: Subscriber, got: Got, limit: int = 256) -> int:
    return subscriber.poll(lambda message: got.append((message.type, bytes(message))), limit)


# The header and the option


@pytest.mark.parametrize(("end", "feature"), [("publisher", 2), ("subscriber", 4), (None, 0)])
def test_the_header_says_which_end_is_foreign(end: Any, feature: int, folder: Path) -> None:
    with make(end) as channel, Channel.open("agrona") as other:
        assert (channel.foreign, other.foreign) == (end, end)
        assert (folder / "agrona.ring").read_bytes()[16:24] == feature.to_bytes(8, "little")


@pytest.mark.parametrize(
    "wrong",
    [
        {"foreign": "both"},
        {"foreign": ""},
        {"foreign": 2},
        {"kind": "broadcast"},
        {"publishers": 2},
        {"alignment": 64},
    ],
)
def test_a_foreign_end_needs_agronas_shape(wrong: dict[str, Any], folder: Path) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        make(**({"end": "publisher"} | wrong))
    assert caught.value.argument == "foreign"
    with pytest.raises(InvalidArgumentError) as caught:  # the defaults have another shape
        Channel.create("agrona", "inbox", foreign="subscriber")
    assert caught.value.argument == "foreign"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("alignment", {"alignment": 64, "foreign": None}),
        ("foreign", {"foreign": None, "counters": 3}),
        ("foreign", {"foreign": "publisher"}),
        ("counters", {"counters": 3}),
    ],
)
def test_open_or_create_compares_it_between_alignment_and_counters(field: str, options: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"capacity": 4096, "foreign": "subscriber"} | SHAPE
    with Channel.open_or_create("agrona", **asked), Channel.open_or_create("agrona", **asked) as found:
        assert found.foreign == "subscriber"
        with pytest.raises(ChannelDiffersError) as caught:
            Channel.open_or_create("agrona", **(asked | options))
    assert caught.value.field == field


FIELDS = {"kind": (layout.HEADER_KIND, 2), "alignment": (layout.HEADER_ALIGNMENT, 64)}


def changed(folder: Path, features: int, field: str | None = None) -> None:
    """Changes the header of a file, and corrects its checksum."""
    path = folder / "agrona.ring"
    content = bytearray(path.read_bytes())
    content[16:24] = features.to_bytes(8, "little")
    if field is not None:
        at, value = FIELDS[field]
        content[at : at + 4] = value.to_bytes(4, "little")
    content[layout.HEADER_CRC : 4096] = crc32c(content[: layout.HEADER_CRC]).to_bytes(4, "little")
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("features", "field"),
    [(6, None), (2, "kind"), (4, "alignment"), (6, "kind"), (2, "publishers")],
)
def test_a_combination_that_cannot_be_is_a_corrupt_header(features: int, field: str | None, folder: Path) -> None:
    options = {field: 2} if field in ("publishers", "subscribers") else {}
    make(None, **options).close()
    changed(folder, features, None if options else field)
    with pytest.raises(CorruptHeaderError) as caught:
        Channel.open("agrona")
    assert caught.value.field == "required_features"


@pytest.mark.parametrize("features", [1, 3, 8, 1 << 63])
def test_an_unknown_feature_is_too_new(features: int, folder: Path) -> None:
    make(None).close()
    changed(folder, features)
    with pytest.raises(VersionTooNewError) as caught:
        Channel.open("agrona")
    assert (caught.value.field, caught.value.found) == ("required_features", features)


def test_another_bad_field_is_named_before_the_combination(folder: Path) -> None:
    make(None).close()
    path = folder / "agrona.ring"
    content = bytearray(path.read_bytes())
    content[layout.HEADER_COUNTERS] = 255
    content[layout.HEADER_COUNTERS + 3] = 255
    path.write_bytes(content)
    changed(folder, 2, "alignment")
    with pytest.raises(CorruptHeaderError) as caught:
        Channel.open("agrona")
    assert caught.value.field == "counters"


# What is not possible

REFUSED: dict[str, list[tuple[str, Callable[[Channel], object]]]] = {
    "publisher": [
        ("publisher", lambda channel: channel.publisher("p")),
        ("lossy", lambda channel: channel.lossy_subscriber()),
        ("oldest", lambda channel: channel.lossy_subscriber([0], "oldest")),
        ("evict", lambda channel: channel.evict(0)),
        ("forget", lambda channel: channel.subscriber("s").forget()),
    ],
    "subscriber": [
        ("subscriber", lambda channel: channel.subscriber()),
        ("kept", lambda channel: channel.subscriber("s", kept=True)),
        ("max_lag", lambda channel: channel.publisher(max_lag=4096)),
        ("evict", lambda channel: channel.evict(0)),
    ],
}


@pytest.mark.parametrize(
    ("end", "call"), [pytest.param(end, call, id=f"{end}-{name}") for end in REFUSED for name, call in REFUSED[end]]
)
def test_what_agrona_does_not_know_is_an_invalid_argument(end: str, call: Callable[[Channel], object]) -> None:
    with make(end) as channel:
        with pytest.raises(InvalidArgumentError) as caught:
            call(channel)
        assert caught.value.argument == "foreign"
        assert word(channel, "gate") == 0


def test_a_refused_forget_changes_nothing() -> None:
    with make("publisher") as channel:
        writer, subscriber = OneToOneRingBuffer(channel), channel.subscriber("s")
        with pytest.raises(InvalidArgumentError):
            subscriber.forget()
        assert writer.write(3, b"still")
        assert subscriber.take() == b"still"
        subscriber.close()
        with pytest.raises(ClosedError):
            subscriber.forget()
