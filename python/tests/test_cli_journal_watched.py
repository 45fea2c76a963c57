# SPDX-License-Identifier: Apache-2.0
"""``ls``, ``top``, ``metrics`` and ``doctor`` know journals, and say what ``Journal.stats`` says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from flyring import Journal, layout
from flyring.cli import main
from flyring.cli.doctor_journals import left_of_journal
from flyring.cli.journal_show import described
from flyring.cli.top_model import Model
from journals import Folder, made, payloads


@pytest.fixture
def watched() -> Iterator[Journal]:
    """A journal with a writer, and a consumer that is 90 messages behind."""
    with made() as journal, journal.writer("w", helper=False) as writer, journal.consumer("c") as consumer:
        for payload in payloads(100):
            writer.append(payload)
        for _ in range(10):
            assert consumer.take() is not None
        yield journal


def test_ls_counts_journals(watched: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls"]) == 0
    assert "1 journal besides: flyring journal ls" in capsys.readouterr().out
    assert main(["ls", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["journals"] == ["j"]


def damage(journal: Journal) -> None:
    """The file stays as long as it is, because it is mapped."""
    with (Folder(journal.path).path / "control").open("r+b") as file:
        file.write(b"x" * 8)


def samples(text: str) -> dict[str, str]:
    pairs = (line.rpartition(" ") for line in text.splitlines() if line.startswith("flyring_journal"))
    return {name: value for name, _, value in pairs}


def test_metrics_have_what_stats_has(watched: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("prometheus_client")
    stats = watched.stats()
    for arguments in (["metrics"], ["metrics", "j"]):
        assert main(arguments) == 0
        found = samples(capsys.readouterr().out)
        assert float(found['flyring_journal_messages_total{journal="j"}']) == 100
        assert float(found['flyring_journal_bytes_total{journal="j"}']) == stats.published
        assert float(found['flyring_journal_disk_bytes{journal="j"}']) == stats.bytes
        assert float(found['flyring_journal_unsynced_bytes{journal="j"}']) == stats.published - stats.synced
        assert float(found['flyring_journal_writer_up{journal="j"}']) == 1
        assert float(found['flyring_journal_consumer_lag_messages{consumer="0",journal="j"}']) == 90
    damage(watched)
    assert main(["metrics"]) == 1
    assert samples(capsys.readouterr().out) == {'flyring_journal_up{journal="j"}': "0.0"}


def test_top_shows_writer_and_consumers_with_rates(watched: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    model = Model(None, None)
    model.look()
    with watched.reader() as reader:
        assert reader.poll(lambda _: None) > 0
    rows = {row.role: row for row in model.rows()}
    assert (rows["jrnl"].name, rows["jrnl"].messages) == ("w", 0)
    assert "1 segments" in rows["jrnl"].note
    assert "not synced" in rows["jrnl"].note
    assert (rows["cons"].name, rows["cons"].lag_messages) == ("c", 90)
    Folder(watched.path).store(layout.JOURNAL_CONTROL_FAILED, 1, 4)
    Folder(watched.path).store(layout.JOURNAL_CONTROL_MESSAGES, 200)
    model.look()
    (row,) = [row for row in model.rows() if row.role == "jrnl"]
    assert row.messages > 0
    assert row.states == ("SYNC FAILED",)
    assert any("SYNC FAILED" in event.text for event in model.events)
    Folder(watched.path).store(layout.JOURNAL_CONTROL_FAILED, 0, 4)
    model.close()
    for arguments in (["top", "--once"], ["top", "j", "--once"]):
        assert main(arguments) == 0
        text = capsys.readouterr().out
        assert "jrnl" in text
        assert "cons" in text


def test_doctor_says_what_to_do(watched: Journal, capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor", "--json"])
    lines = json.loads(capsys.readouterr().out)
    checks = lines["checks"] if isinstance(lines, dict) else lines
    assert [one["what"] for one in checks if one["name"] == "journals"] == ["1, without leftovers"]
    now = watched.stats().newest
    good: dict[str, Any] = {"name": "j", **described(watched)}
    assert list(left_of_journal(good, now)) == []
    for changed, bad, text in (
        ({"failed": True}, True, "a sync has failed"),
        ({"needs_recovery": True}, False, "the next writer recovers it"),
        ({"disk_free": 1 << 16}, True, "less than two segments"),
        ({"sync": 1.0, "unsynced_since": now - 120 * 10**9}, False, "not synced for 120 s"),
        ({"consumers": [good["consumers"][0] | {"lost": 7}]}, False, "has lost 7 messages"),
        (
            {"trim_consumed": True, "consumers": [good["consumers"][0] | {"live": False, "behind_bytes": 1 << 20}]},
            False,
            "no process has the consumer c",
        ),
    ):
        ((found_bad, what, do),) = left_of_journal(good | changed, now)
        assert (found_bad, text in what, bool(do)) == (bad, True, True), what
    damage(watched)
    assert main(["doctor", "--json"]) == 1
    assert '"journal"' in capsys.readouterr().out
