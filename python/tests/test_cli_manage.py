# SPDX-License-Identifier: Apache-2.0
"""``flyring create`` and ``flyring rm``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import flyring
from conftest import SPEC
from flyring import Channel
from flyring.cli import main


def test_create_makes_what_the_options_say(folder: Path) -> None:
    assert main(["create", "made", "--kind", "broadcast", "--capacity", "64KiB", "--publishers", "2"]) == 0
    with Channel.open("made") as channel:
        assert (channel.kind, channel.capacity, channel.publishers) == ("broadcast", 65536, 2)
        assert (channel.subscribers, channel.alignment) == (4, 64)  # the defaults


def test_create_with_a_schema_and_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = SPEC / "sbe" / "prices.xml"
    assert main(["create", "prices", "--kind", "inbox", "--schema", str(schema), "--mode", "0640", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    with Channel.open("prices") as channel:
        assert document["id"] == str(channel.id) and document["path"] == channel.path
        assert channel.schema == schema.read_text()
    assert Path(document["path"]).stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--kind", "inbox", "--capacity", "5000"], "capacity"),
        (["--kind", "inbox", "--subscribers", "2"], "subscribers"),
        (["--kind", "broadcast", "--schema", "/nowhere"], "nowhere"),
    ],
)
def test_create_refuses(folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    assert main(["create", "bad", *arguments]) == 2
    assert says in capsys.readouterr().err
    assert not (folder / "bad.ring").exists()


@pytest.mark.parametrize("words", [["--kind", "list"], ["--kind", "inbox", "--capacity", "1XB"], []])
def test_create_with_invalid_options_prints_the_usage(folder: Path, words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["create", "bad", *words])
    assert ended.value.code == 2


def test_create_refuses_an_existing_channel(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["create", "one", "--kind", "inbox"]) == 0
    assert main(["create", "one", "--kind", "inbox"]) == 2
    assert "one.ring" in capsys.readouterr().err


def test_rm_removes_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        Channel.create(name, "inbox").close()
    assert main(["rm", "one", str(folder / "two.ring")]) == 0
    assert capsys.readouterr().out.count("removed") == 2
    assert not list(folder.glob("*.ring"))


def test_rm_leaves_what_is_in_use(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Channel.create("busy", "inbox") as channel:
        publisher = channel.publisher("feed")
        assert main(["rm", "busy"]) == 1
        assert "publisher feed (pid" in capsys.readouterr().err
        assert (folder / "busy.ring").exists()
        assert main(["rm", "busy", "--force"]) == 0
        assert not (folder / "busy.ring").exists()
        assert publisher.offer(b"still mapped")


def test_rm_goes_on_after_one_that_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Channel.create("good", "inbox").close()
    (folder / "text.ring").write_text("not a channel")
    assert main(["rm", "missing", "text", "good", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [one["error"] is None for one in document["channels"]] == [False, False, True]
    assert (folder / "text.ring").exists() and not (folder / "good.ring").exists()
    with pytest.raises(flyring.NoSuchChannelError):
        Channel.open("good")
