# SPDX-License-Identifier: Apache-2.0
"""The errors of attaching to files that are not valid channels (spec/channel.md 3.3)."""

from __future__ import annotations

import os
import struct
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import GOLDEN, SPEC, golden_id
from flyring import (
    AccessDeniedError,
    Channel,
    CorruptHeaderError,
    FlyringError,
    NoSuchChannelError,
    NotAChannelError,
    TruncatedError,
    VersionTooNewError,
    channel_path,
    layout,
    unlink,
)
from flyring._core import crc32c

TABLES = tomllib.loads((SPEC / "layout.toml").read_text())
FIELD_SIZES = {"major": "<H", "required_features": "<Q"}


def attach_error(name: str) -> FlyringError | None:
    try:
        Channel.open(name).close()
    except FlyringError as error:
        return error
    return None


def said(error: FlyringError | None) -> tuple[str, str | None]:
    assert error is not None, "it attached"
    return error.code, getattr(error, "field", None)


def put(folder: Path, content: bytes | bytearray) -> None:
    (folder / "file.ring").write_bytes(content)


@pytest.mark.parametrize("path", GOLDEN, ids=golden_id)
def test_a_file_cut_at_every_64th_byte_is_refused(path: Path, folder: Path) -> None:
    whole = path.with_suffix(".ring").read_bytes()
    put(folder, whole)
    assert attach_error("file") is None
    for cut in range((len(whole) - 1) // 64 * 64, -1, -64):
        os.truncate(folder / "file.ring", cut)
        error = attach_error("file")
        if cut < 8:
            assert isinstance(error, NotAChannelError), cut
        else:
            assert isinstance(error, TruncatedError), cut
            assert error.actual == cut
            assert error.expected == (len(whole) if cut >= layout.HEADER_LENGTH else layout.HEADER_LENGTH)


def test_a_file_cut_within_the_magic_is_not_a_channel_and_behind_it_truncated(folder: Path) -> None:
    whole = GOLDEN[0].with_suffix(".ring").read_bytes()
    for cut in range(48):
        put(folder, whole[:cut])
        assert said(attach_error("file"))[0] == ("not-a-channel" if cut < 8 else "truncated"), cut


def test_a_cut_file_of_another_version_is_told_so(folder: Path) -> None:
    page = bytearray(GOLDEN[0].with_suffix(".ring").read_bytes()[:100])
    page[layout.HEADER_MAJOR] = 2
    put(folder, page)
    assert said(attach_error("file")) == ("version-too-new", "major")
    page[layout.HEADER_MAJOR] = 1
    page[layout.HEADER_REQUIRED_FEATURES] = 1
    put(folder, page)
    assert said(attach_error("file")) == ("version-too-new", "required_features")
    put(folder, page[: layout.HEADER_REQUIRED_FEATURES + 7])
    assert said(attach_error("file")) == ("truncated", None)


@pytest.mark.parametrize(
    "path", [*GOLDEN[:2], *(pytest.param(path, marks=pytest.mark.long) for path in GOLDEN[2:])], ids=golden_id
)
def test_each_flipped_header_byte_gives_the_error_of_the_spec(path: Path, folder: Path) -> None:
    whole = path.with_suffix(".ring").read_bytes()
    put(folder, whole)
    assert attach_error("file") is None
    file = folder / "file.ring"
    checked = 0
    with file.open("r+b", buffering=0) as raw:
        for flip in TABLES["flip"]:
            for at in range(flip["first"], flip["last"] + 1):
                raw.seek(at)
                raw.write(bytes([whole[at] ^ 0xFF]))
                expected = (flip["error"], flip.get("field"))
                if flip["error"] == "file_length":
                    page = bytearray(whole[:40])
                    page[at] ^= 0xFF
                    longer = struct.unpack_from("<q", page, layout.HEADER_FILE_LENGTH)[0] > len(whole)
                    expected = ("truncated", None) if longer else ("corrupt-header", "file_length")
                assert said(attach_error("file")) == expected, at
                raw.seek(at)
                raw.write(whole[at : at + 1])
                checked += 1
    assert checked == layout.HEADER_LENGTH
    assert attach_error("file") is None


def with_field(page: bytes, field: str, size: int, value: int) -> bytes:
    changed = bytearray(page)
    at = getattr(layout, f"HEADER_{field.upper()}")
    changed[at : at + size] = (value % 2 ** (8 * size)).to_bytes(size, "little")
    struct.pack_into("<I", changed, layout.HEADER_CRC, crc32c(changed[: layout.HEADER_CRC_LENGTH]))
    return bytes(changed)


def bad_field_id(entry: dict[str, Any]) -> str:
    return f"{entry['field']}={entry['value']}"


@pytest.mark.parametrize("entry", TABLES["bad_field"], ids=bad_field_id)
def test_a_bad_field_with_a_right_checksum_is_named(entry: dict[str, Any], folder: Path) -> None:
    schema = "a schema" if entry["field"] in ("schema_id", "schema_version") else ""  # else id and version must be 0
    Channel.create("file", "inbox", schema=schema).close()
    file = folder / "file.ring"
    whole = file.read_bytes()
    changed = with_field(whole[: layout.HEADER_LENGTH], entry["field"], entry["size"], entry["value"])
    with file.open("r+b") as raw:
        raw.write(changed)
    code, field = said(attach_error("file"))
    assert code == entry["error"]
    if code != "truncated":
        assert field == entry["names"]


def test_a_file_of_a_newer_minor_version_is_accepted(folder: Path) -> None:
    whole = GOLDEN[0].with_suffix(".ring").read_bytes()
    newer = with_field(whole[: layout.HEADER_LENGTH], "minor", 2, 7)
    newer = with_field(newer, "optional_features", 8, 1 << 40)
    put(folder, newer + whole[layout.HEADER_LENGTH :])
    with Channel.open("file") as channel:
        assert channel.header.minor == 7


def test_another_major_version_and_an_unknown_required_feature_are_version_too_new(folder: Path) -> None:
    whole = GOLDEN[0].with_suffix(".ring").read_bytes()
    for field, size, value, supported in (("major", 2, 2, 1), ("required_features", 8, 1 << 40, 6)):
        put(folder, with_field(whole[: layout.HEADER_LENGTH], field, size, value) + whole[layout.HEADER_LENGTH :])
        error = attach_error("file")
        assert isinstance(error, VersionTooNewError)
        assert (error.field, error.found, error.supported) == (field, value, supported)


def test_a_newer_minor_version_may_have_sections_behind_the_schema(folder: Path) -> None:
    whole = GOLDEN[0].with_suffix(".ring").read_bytes() + bytes(4096)
    put(folder, with_field(whole[: layout.HEADER_LENGTH], "file_length", 8, len(whole)) + whole[layout.HEADER_LENGTH :])
    assert attach_error("file") is None


def test_a_file_that_is_no_channel_is_refused(folder: Path) -> None:
    put(folder, b"")
    assert isinstance(attach_error("file"), NotAChannelError)
    put(folder, b"Dear diary, today I made a ring buffer.\n" * 300)
    assert isinstance(attach_error("file"), NotAChannelError)
    put(folder, bytes(100_000))
    assert isinstance(attach_error("file"), NotAChannelError)
    (folder / "folder.ring").mkdir()
    assert isinstance(attach_error("folder"), NotAChannelError)
    os.mkfifo(folder / "pipe.ring")
    assert isinstance(attach_error("pipe"), NotAChannelError)
    Channel.create("real", "inbox").close()
    (folder / "link.ring").symlink_to(folder / "real.ring")
    assert isinstance(attach_error("link"), NotAChannelError)


def test_what_is_not_there(folder: Path) -> None:
    for name in ("missing", str(folder / "missing"), str(folder / "no" / "such" / "folder")):
        error = attach_error(name)
        assert isinstance(error, NoSuchChannelError)
        assert isinstance(error, FileNotFoundError)
        assert channel_path(name) in str(error)
    put(folder, b"file")
    assert isinstance(attach_error(str(folder / "file.ring" / "below")), NoSuchChannelError)
    with pytest.raises(NoSuchChannelError):
        unlink("missing")


def test_unlink_removes_channels_only(folder: Path) -> None:
    put(folder, b"precious text")
    with pytest.raises(NotAChannelError):
        unlink("file")
    assert (folder / "file.ring").read_bytes() == b"precious text"
    put(folder, bytes.fromhex(layout.MAGIC_HEX) + b"damaged")
    unlink("file")
    assert not (folder / "file.ring").exists()


def test_a_read_only_file_is_access_denied_to_another_user(folder: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    Channel.create("mine", "inbox").close()
    folder.chmod(0o755)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setuid(65534)
            attempts: list[Callable[[], Channel]] = [
                lambda: Channel.open("mine"),
                lambda: Channel.create("other", "inbox"),
            ]
            for attempt in attempts:
                try:
                    attempt().close()
                    status = 2
                    break
                except AccessDeniedError as error:
                    assert isinstance(error, PermissionError)
                    status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_errors_say_code_path_and_field(folder: Path) -> None:
    Channel.create("file", "inbox").close()
    changed = with_field((folder / "file.ring").read_bytes()[: layout.HEADER_LENGTH], "capacity", 4, 12345)
    with (folder / "file.ring").open("r+b") as raw:
        raw.write(changed)
    with pytest.raises(CorruptHeaderError, match=r"capacity is 12345") as caught:
        Channel.open("file")
    assert caught.value.code == "corrupt-header"
    assert str(folder) in str(caught.value)
    with pytest.raises(VersionTooNewError) as newer:
        put(folder, with_field(changed, "major", 2, 9))
        Channel.open("file")
    assert (newer.value.found, newer.value.supported) == (9, 1)
