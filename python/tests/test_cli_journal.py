# SPDX-License-Identifier: Apache-2.0
"""``flyring journal``: ls, info, check, cat, trim, rm, copy (spec/api.md, Journal)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import SPEC, Child
from flyring import Journal
from flyring.cli import main
from flyring.sbe import Schema, from_dict
from journals import Folder, Z, made, payloads, read_all
from recordings import Command, lines, run, stats

PRICES = Schema.load(SPEC / "sbe" / "prices.xml")
INSTRUMENT = {"id": 42, "symbol": "FLYR", "exchange": "XLON", "currency": "EUR", "kind": "STOCK"}
SECOND = 1_000_000_000


def trade(price: int) -> dict[str, Any]:
    return {"instrument": INSTRUMENT, "timestamp": 1, "price": price, "size": 3, "side": "SELL"}


def out_of(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> str:
    capsys.readouterr()
    assert main([str(one) for one in arguments]) == status
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out_of(capsys, "journal", *arguments, "--json", status=status))
    return found


def test_info_and_ls_show_what_stats_tells(capsys: pytest.CaptureFixture[str]) -> None:
    with made(max_size=1 << 20) as journal, journal.writer("w", helper=False) as writer:
        for payload in payloads(2000):
            writer.append(payload)
        with journal.consumer("c") as consumer:
            for _ in range(10):
                assert consumer.take() is not None
            known = journal.stats()
            found = document(capsys, "info", "j")
            for field in ("published", "messages", "synced", "trimmed", "segments", "bytes", "oldest", "newest", "pid"):
                assert found[field] == getattr(known, field), field
            assert (found["writer"], found["writing"], found["failed"], found["needs_recovery"]) == (
                "w",
                True,
                False,
                False,
            )
            assert found["unsynced_bytes"] == known.published - known.synced
            assert found["disk_free"] > 0
            (one,) = found["consumers"]
            assert (one["name"], one["behind"], one["lost"], one["live"]) == ("c", 1990, 0, True)
            text = out_of(capsys, "journal", "info", "j")
            for part in ("2000 messages", "writer     w (pid", "1 MiB", "c ", "1990"):
                assert part in text
            (row,) = document(capsys, "ls")["journals"]
            assert (row["name"], row["messages"]) == ("j", 2000)
            assert "2000" in out_of(capsys, "journal", "ls")


def test_a_folder_that_is_no_journal_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "bad.journal").mkdir()
    (folder / "bad.journal" / "control").write_bytes(b"x" * 8192)
    (one,) = document(capsys, "ls", status=1)["not_whole"]
    assert (one["name"], one["code"]) == ("bad", "not-a-channel")


def test_check_proves_all_and_names_what_is_damaged(capsys: pytest.CaptureFixture[str]) -> None:
    with made() as journal, journal.writer(helper=False) as writer:
        positions = [writer.append(payload) for payload in payloads(3000)]
        writer.sync()
        path = journal.path
    found = document(capsys, "check", "j")
    assert (found["messages"], found["damages"]) == (3000, [])
    Folder(path).flip(positions[1500] + 20)
    found = document(capsys, "check", "j", status=1)
    (damage,) = found["damages"]
    assert damage["from"] <= positions[1500] < damage["to"]
    assert found["messages"] + damage["messages"] == 3000
    Folder(path).flip(positions[10] + 20)
    found = document(capsys, "check", "j", status=1)
    assert len(found["damages"]) == 2
    assert found["messages"] + sum(one["messages"] for one in found["damages"]) == 3000
    assert "DAMAGED" in out_of(capsys, "journal", "check", "j", status=1)


def test_cat_prints_typed_and_raw_messages_with_times(capsys: pytest.CaptureFixture[str]) -> None:
    with made(schema=PRICES) as journal, journal.writer(helper=False) as writer:
        for price in range(5):
            writer.append(from_dict(PRICES.Trade, trade(price)), PRICES.Trade.TEMPLATE_ID, time=(1 + price) * SECOND)
        writer.append(b"hello", 65536, time=9 * SECOND + 1)
    every = lines("j")
    assert [line["number"] for line in every] == list(range(6))
    assert every[0]["message"] == "Trade"
    assert every[3]["body"]["price"] == 3
    assert (every[5]["type"], every[5]["text"], every[5]["time"]) == (65536, "hello", "1970-01-01T00:00:09.000000001Z")
    assert [one["number"] for one in lines("j", "--where", "price>=3")] == [3, 4]
    assert [one["number"] for one in lines("j", "--type", "65536")] == [5]
    assert [one["number"] for one in lines("j", "--message", "Trade", "--count", 2)] == [0, 1]
    assert [one["number"] for one in lines("j", "--from", "1970-01-01T00:00:03", "--until", 5 * SECOND)] == [2, 3]
    assert [one["number"] for one in lines("j", "--from-number", 4, "--until-number", 5)] == [4]


def test_damages_one_behind_the_other_are_all_told() -> None:
    with made() as journal, journal.writer(helper=False) as writer:
        positions = [writer.append(payload) for payload in payloads(6000)]
        writer.sync()
        path = journal.path
    numbers = [next(n for n, at in enumerate(positions) if at > k * Z + 9999) for k in (1, 2, 4)]  # two are neighbours
    for number in numbers:
        Folder(path).flip(positions[number] + 20)
    status, out, error = run("journal", "cat", "j")
    found = [json.loads(line)["number"] for line in out.splitlines()]
    told = [tuple(map(int, one)) for one in re.findall(r"DAMAGED from (\d+) to (\d+): (\d+) messages", error)]
    assert status == 1
    assert len(told) == 3
    assert all(begin <= positions[number] < end for (begin, end, _), number in zip(told, numbers, strict=True))
    gone = [at for at in positions if any(begin <= at < end for begin, end, _ in told)]
    assert len(gone) == sum(messages for *_, messages in told) == 6000 - len(found)
    status, out, _ = run("journal", "check", "j", "--json")
    assert status == 1
    assert [(one["from"], one["to"], one["messages"]) for one in json.loads(out)["damages"]] == told


def test_cat_follows_a_live_journal() -> None:
    with made() as journal, journal.writer(helper=False) as writer:
        writer.append(b"one")
        command = Command("journal", "cat", "j", "--follow", "--count", 2)
        assert command.process.stdout is not None
        assert json.loads(command.process.stdout.readline())["text"] == "one"
        writer.append(b"two")
        assert json.loads(command.process.stdout.readline())["text"] == "two"
        assert command.end(None)[0] == 0


def test_trim_removes_what_no_consumer_needs(capsys: pytest.CaptureFixture[str]) -> None:
    with made() as journal, journal.writer(helper=False) as writer:
        for payload in payloads(3000):
            writer.append(payload)
        writer.sync()
        with journal.consumer("c") as consumer:
            while consumer.number < 1500:
                consumer.take()
            found = document(capsys, "trim", "j", "--consumed")
            assert found["freed"] > 0
            assert found["trimmed"] == journal.stats().trimmed
            assert 0 < found["trimmed"] <= consumer.position
            assert document(capsys, "trim", "j", "--size", "0")["freed"] == 0  # the consumer needs it
        assert len(read_all(journal)) >= 1500
    with pytest.raises(SystemExit):
        main(["journal", "trim", "j"])


def test_sizes_are_written_as_for_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with made() as journal, journal.writer(helper=False) as writer:
        for payload in payloads(3000):
            writer.append(payload)
        writer.sync()
        assert document(capsys, "trim", "j", "--size", "1MiB")["freed"] == 0
        assert document(capsys, "trim", "j", "--size", "128KiB")["freed"] > 0
        assert journal.stats().published - journal.stats().trimmed <= 128 << 10


def test_rm_removes_a_journal_with_its_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made("k").close()
    with made() as journal:
        with journal.writer("feed"):
            for force in ([], ["--force"]):
                assert main(["journal", "rm", "j", *force]) == 1
                assert "feed" in capsys.readouterr().err
        with journal.consumer("ledger"):
            assert main(["journal", "rm", "j", "k"]) == 1
            text = capsys.readouterr()
            assert "in use by consumer ledger (pid" in text.err
            assert "k.journal: removed" in text.out
            assert [path.name for path in folder.glob("*.journal")] == ["j.journal"]
            assert document(capsys, "rm", "j", "--force")["journals"][0]["error"] is None
        assert journal.stats().successor == 2
    assert not list(folder.glob("*.journal"))
    assert main(["journal", "rm", "j"]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_a_copy_of_a_live_journal_is_whole_up_to_its_last_check(capsys: pytest.CaptureFixture[str]) -> None:
    with made() as journal, journal.writer(helper=False) as writer:
        for payload in payloads(3000):
            writer.append(payload)
        with journal.consumer("c"):
            found = document(capsys, "copy", "j", "k")
        for payload in payloads(10):
            writer.append(payload)
        with Journal.open("k") as copy:
            every = read_all(copy)
            assert every == payloads(3000)[: len(every)]
            assert 3000 - len(every) < Z // 128
            assert found["messages"] == len(every) == copy.stats().messages
            assert copy.stats().consumers == ()
            with copy.writer() as again:  # it goes on as any journal
                again.append(b"more")
            assert read_all(copy) == [*every, b"more"]
        assert document(capsys, "check", "k")["damages"] == []
        capsys.readouterr()
        assert main(["journal", "copy", "j", "k"]) == 2
        assert "already" in capsys.readouterr().err


def test_a_copy_while_a_writer_appends_has_every_message(
    child: Callable[..., Child], capsys: pytest.CaptureFixture[str]
) -> None:
    code = (
        "import sys\nfrom flyring import Journal\n"
        "with Journal.open('j') as journal, journal.writer() as writer:\n"
        "    print('ready', flush=True)\n    number = 0\n"
        "    while True:\n        writer.append(number.to_bytes(8, 'little') * 4)\n        number += 1\n"
    )
    made(segment_size=1 << 20).close()
    writer = child(code)
    assert writer.line() == "ready"
    for number in range(3):
        while stats("j").published < (1 + number) << 20:  # a segment may be made ahead of the first message
            time.sleep(0.002)
        document(capsys, "copy", "j", f"copy{number}")
    writer.kill()
    for number in range(3):
        with Journal.open(f"copy{number}") as journal:
            found = [int.from_bytes(one[:8], "little") for one in read_all(journal)]
            assert found == list(range(len(found)))
            assert len(found) > 1000


def test_what_needs_another_kind_of_name_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "info", "nothing"]) == 2
    assert "there is no journal" in capsys.readouterr().err


def test_a_command_for_channels_names_that_of_a_journal(capsys: pytest.CaptureFixture[str]) -> None:
    made().close()
    assert main(["info", "j"]) == 2
    assert "j is a journal: flyring journal info j" in capsys.readouterr().err
    assert main(["rm", "j"]) == 2
    assert "j is a journal: flyring journal rm j" in capsys.readouterr().err
