# SPDX-License-Identifier: Apache-2.0
"""``flyring top`` as plain text: each state of docs/troubleshooting.md is made, and must be shown."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from conftest import Child
from flyring import Channel, Heartbeat
from flyring.cli import main
from flyring.cli.top import TITLES, arranged, recent, table_lines
from flyring.cli.top_model import Model, rate_text
from flyring.cli.top_row import Row
from flyring.stats import Look, Stats

CONTAINER = r"(?:, container [0-9a-f]+)?"
"""What stands behind a pid if the tests themselves run in a container."""

READER = """
    import sys
    from flyring import Channel, Heartbeat
    with Channel.open(sys.argv[1]) as channel:
        reader = channel.subscriber("slow", kept=sys.argv[2] == "kept")
        print(reader.slot, flush=True)
        input()
        reader.poll(lambda message: None)
        print("polled", flush=True)
        input()
"""


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, status: int | None = None) -> str:
    capsys.readouterr()
    found = main(["top", "--once", *arguments])
    assert status is None or found == status
    # A note that does not fit goes on in the next line, indented by two.
    return re.sub(r"\n  +(?=\S)", " ", capsys.readouterr().out)


def line(text: str, role: str, name: str) -> str:
    (found,) = [one for one in text.splitlines() if re.search(rf"\b{role}\b.* {name} ", one)]
    return found


def full(channel: Channel) -> object:
    publisher = channel.publisher("feed")
    while publisher.offer(bytes(100)):
        pass
    return publisher


def test_blocked_and_full_name_the_reader_and_its_pid(
    capsys: pytest.CaptureFixture[str], child: Callable[..., Child]
) -> None:
    with Channel.create("ticks", "broadcast", publishers=1, subscribers=2, capacity=4096) as channel:
        slow = child(READER, "ticks", "plain")
        slow.line()
        publisher = full(channel)
        text = shown(capsys, status=1)
        pid = slow.process.pid
        assert re.search(rf"! BLOCKED by slow \(pid {pid}{CONTAINER}\) since \d+\.\d s", line(text, "pub", "feed"))
        assert "! FULL" in line(text, "sub", "slow")
        assert "1 publishers blocked" in text
        slow.say()
        assert slow.line() == "polled"
        text = shown(capsys, status=0)
        assert "BLOCKED" not in text and "FULL" not in text and "!" not in text
        assert publisher


def test_a_stopped_reader_is_told_from_a_slow_one(
    capsys: pytest.CaptureFixture[str], child: Callable[..., Child]
) -> None:
    with Channel.create("ticks", "broadcast", publishers=1, subscribers=2, capacity=4096) as channel:
        slow = child(READER, "ticks", "plain")
        slow.line()
        publisher = full(channel)
        assert "STOPPED" not in shown(capsys)
        slow.process.send_signal(signal.SIGSTOP)
        try:
            os.waitid(os.P_PID, slow.process.pid, os.WSTOPPED | os.WNOWAIT)
            text = shown(capsys, status=1)
        finally:
            slow.process.send_signal(signal.SIGCONT)
        assert re.search(rf"BLOCKED by slow \(pid {slow.process.pid}{CONTAINER}, STOPPED\)", line(text, "pub", "feed"))
        assert "! STOPPED" in line(text, "sub", "slow")
        assert publisher


def test_a_hung_reader_does_not_read(child: Callable[..., Child]) -> None:
    with Channel.create("ticks", "broadcast", publishers=1, subscribers=2, capacity=4096) as channel:
        slow = child(READER, "ticks", "plain")
        slow.line()
        publisher = channel.publisher("feed")
        publisher.offer(b"x")
        model = Model(None, None)
        model.look()
        assert not any(row.alarm for row in model.rows())
        time.sleep(1.1)
        model.look()
        (row,) = [row for row in model.rows() if row.alarm]
        assert (row.name, row.note, row.lag_messages) == ("slow", "does not read", 1)
        assert row.unmoved >= 1
        model.close()


def test_dead_owners_and_when_they_died(capsys: pytest.CaptureFixture[str], child: Callable[..., Child]) -> None:
    with Channel.create("ticks", "broadcast", publishers=1, subscribers=2, capacity=4096) as channel:
        slow = child(READER, "ticks", "kept")
        slow.line()
        publisher = child(
            """
            from flyring import Channel, Heartbeat
            with Channel.open("ticks") as channel:
                publisher = channel.publisher("feed")
                publisher.offer(b"x")
                print("there", flush=True)
                input()
            """
        )
        publisher.line()
        model = Model(None, None)
        model.look()
        for one in (slow, publisher):
            one.process.kill()
            one.process.wait()
        model.look()
        rows = {row.role: row for row in model.rows()}
        assert (rows["pub"].note, rows["pub"].state) == ("DEAD", "away")
        assert (rows["sub"].note, rows["sub"].state) == ("kept, NO OWNER", "away")
        died = [text.split("ago  ")[1] for text in recent(model)]
        assert died == [
            f"ticks: publisher 0 (feed, pid {publisher.process.pid}) DIED",
            f"ticks: subscriber 0 (slow, pid {slow.process.pid}) died or left",
        ]
        text = shown(capsys, status=1)
        assert "! DEAD" in line(text, "pub", "feed") and "! kept, NO OWNER" in line(text, "sub", "slow")
        model.close()
        with channel.publisher("feed"):  # it recovers the ring
            assert "DEAD" not in shown(capsys)


def test_no_readers_is_a_state(capsys: pytest.CaptureFixture[str]) -> None:
    with (
        Channel.create("ticks", "broadcast", publishers=1, subscribers=2, capacity=4096) as ticks,
        Channel.create("jobs", "queue", producers=1, workers=1, capacity=4096) as jobs,
    ):
        feed, front = ticks.publisher("feed"), jobs.publisher("front")
        assert shown(capsys, status=0).count("NO READERS") == 0  # there is nothing to read
        feed.offer(b"x")
        front.offer(b"x")
        text = shown(capsys, status=1)
        assert "! NO READERS" in line(text, "pub", "feed")
        assert "! NO READERS" in line(text, "prod", "front")
        with ticks.subscriber("s"), jobs.worker("w"):
            assert "NO READERS" not in shown(capsys)


def test_a_lapped_lossy_reader_that_counts_its_losses() -> None:
    with Channel.create("ticks", "broadcast", publishers=1, subscribers=1, capacity=4096) as channel:
        counter = channel.counters().allocate("lost viewer")
        model = Model(None, None)
        model.look()
        counter.set(1000)
        time.sleep(0.1)
        model.look()
        (row,) = model.rows()
        assert (row.role, row.name, row.alarm) == ("lossy", "viewer", True)
        assert re.fullmatch(r"LAPPED: loses [\d.]+k? messages a second", row.note)
        model.look()
        (row,) = model.rows()
        assert (row.note, row.alarm) == ("lost 1000 in all", False)
        model.close()


def test_replaced_and_removed_channels() -> None:
    with Channel.create("ticks", "broadcast", publishers=1, subscribers=1, capacity=4096):
        model = Model(None, None)
        model.look()
        with Channel.replace("ticks", "inbox", capacity=4096):
            model.look()
            assert recent(model)[-1].endswith("ticks: REPLACED by another channel")
        os.unlink(os.path.join(model.folder, "ticks.ring"))
        model.look()
        assert recent(model)[-1].endswith("ticks: the channel is gone")
        assert list(model.rows()) == []
        model.close()


def test_jobs_in_hand_and_calls_outstanding(capsys: pytest.CaptureFixture[str]) -> None:
    with (
        Channel.create("jobs", "queue", producers=1, workers=1, capacity=4096) as jobs,
        Channel.create("ask", "service", clients=2) as service,
    ):
        front, worker = jobs.publisher("front"), jobs.worker("w")
        front.offer(b"x")
        job = worker.take()
        server, client = service.server("s"), service.client("c")
        call = client.start(b"question")
        text = shown(capsys)
        assert re.search(r"job of ring 0 in hand for \d+\.\d s", line(text, "work", "w"))
        assert "1 calls out" in line(text, "client", "c")
        assert job is not None and call is not None and server
        job.done()


def test_a_file_that_is_no_channel_is_shown(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "odd.ring").write_bytes(b"nothing")
    text = shown(capsys, status=1)
    assert "odd" in text and "NOT VALID" in text


def test_rates_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    with Channel.create("ticks", "broadcast", publishers=1, subscribers=1, capacity=65536) as channel:
        publisher, reader = channel.publisher("feed"), channel.subscriber("fast")
        model = Model(None, "ticks")
        model.look()
        time.sleep(0.05)
        for _ in range(100):
            publisher.offer(bytes(56))
        reader.poll(lambda message: None, limit=40)
        model.look()
        rows = {row.role: row for row in model.rows()}
        assert rows["pub"].bytes / rows["pub"].messages == pytest.approx(64, rel=0.02)  # and an owner record
        assert 100 / 5 < rows["pub"].messages <= 100 / 0.05
        assert rows["sub"].messages / rows["pub"].messages == pytest.approx(0.4)
        assert (rows["sub"].lag_messages, rows["sub"].lag) == (60, 60 * 64)
        model.close()
        capsys.readouterr()
        assert main(["top", "--once", "--json", "ticks"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["version"] == 1
        assert [(row["role"], row["lag"]) for row in document["rows"]] == [("pub", 0), ("sub", 60 * 64)]


def test_the_table_fits_its_width_and_hides_no_note() -> None:
    note = "BLOCKED by " + ", ".join(f"reader-{i} (pid {1000000 + i})" for i in range(9)) + " since 3.2 s"
    rows = [
        Row("a-channel-with-a-long-name", "client", 511, "n" * 64, 4194303, "sleeping", 1e6, 1e9, 10**6, 2**30, 99.5,
            note, ("BLOCKED",)),
        Row("b", "pub", 0, "", 0, "closed", 0, 0, -1, 0, 0, ""),
    ]  # fmt: skip
    for width in (80, 100, 200):
        lines = table_lines(rows, width)
        assert all(len(one) <= width for one in lines)
        assert note.replace(" ", "") in "".join(lines).replace(" ", "")
    assert all(name in table_lines(rows, 200)[0] for name in TITLES)
    assert [row.channel for row in arranged(rows, "channel", "closed")] == ["b"]
    assert [row.channel for row in arranged(reversed(rows), "lag")] == ["a-channel-with-a-long-name", "b"]


@pytest.mark.parametrize(
    ("rate", "text"), [(0, "0"), (-1, "-"), (7.4, "7"), (999, "999"), (1500, "1.5k"), (34e6, "34M"), (2.5e9, "2.5G")]
)
def test_rates_are_short(rate: float, text: str) -> None:
    assert rate_text(rate) == text


def test_it_ends_after_count_tables_and_refuses_what_cannot_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--count", "2", "--interval", "0.05"]) == 0
    assert capsys.readouterr().out.count("there is no channel with users") == 2
    assert main(["top", "--interval", "0"]) == 2
    assert "interval" in capsys.readouterr().err
    assert main(["top", "--once", "nothing"]) == 1
    assert "nothing" in capsys.readouterr().out


def test_a_hundred_channels_need_little_time(folder: Path) -> None:
    channels = [Channel.create(f"c{i}", "broadcast", publishers=2, subscribers=2, capacity=4096) for i in range(100)]
    users = [(channel.publisher("p"), channel.subscriber("s")) for channel in channels]
    model = Model(None, None)
    model.look()
    begin = time.process_time()
    for _ in range(5):
        model.look()
        arranged(model.rows(), "channel")
    assert (time.process_time() - begin) / 5 < 0.2  # 0.02 s on an idle core; 5 % of a core is 0.05 s
    model.close()
    for channel in channels:
        channel.close()
    assert users


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """Path and time of each snapshot: nothing else reads the lines of rings and gates."""
    found: list[tuple[str, float]] = []
    read = Look.stats

    def stats(self: Look, path: str) -> Stats:
        found.append((os.path.basename(path), time.monotonic()))
        return read(self, path)

    monkeypatch.setattr(Look, "stats", stats)
    return found


def test_top_reads_a_channel_once_a_second(reads: list[tuple[str, float]], capsys: pytest.CaptureFixture[str]) -> None:
    with Channel.create("a", "broadcast", capacity=4096) as one, Channel.create("b", "inbox", capacity=4096):
        publisher = one.publisher("feed")
        publisher.offer(b"x")
        main(["top", "--count", "3"])
        publisher.close()
    assert capsys.readouterr().out.count("2 channels") == 3
    for name in ("a.ring", "b.ring"):
        times = [at for path, at in reads if path == name]
        assert len(times) == 4  # the first table has rates, so it takes two
        assert all(after - before >= 0.99 for before, after in pairwise(times[1:])), times


def test_the_monitor_reads_a_channel_once_a_second(
    reads: list[tuple[str, float]], capsys: pytest.CaptureFixture[str]
) -> None:
    with Channel.create("a", "broadcast", capacity=4096):
        main(["monitor", "a", "--hiccup", "0", "--seconds", "2.5"])
    times = [at for _, at in reads]
    assert 2 <= len(times) <= 3
    assert all(after - before >= 0.99 for before, after in pairwise(times)), times


def test_a_reader_that_had_nothing_to_read_does_not_hang(child: Callable[..., Child]) -> None:
    with Channel.create("ticks", "broadcast", publishers=1, subscribers=2, capacity=4096) as channel:
        slow = child(READER, "ticks", "plain")
        slow.line()
        publisher = channel.publisher("feed")
        model = Model(None, None)
        model.look()
        time.sleep(1.1)
        publisher.offer(b"x")
        model.look()
        (row,) = [row for row in model.rows() if row.role == "sub"]
        assert (row.lag_messages, row.unmoved, row.states) == (1, 0, ())
        model.close()


def test_curve_of_the_heartbeats_of_one_channel(capsys: pytest.CaptureFixture[str]) -> None:
    with Channel.create("ticks", "inbox", capacity=4096) as channel, Heartbeat(channel, "loop") as heart:
        over = threading.Event()

        def beat() -> None:
            while not over.wait(0.02):
                heart.beat()

        beating = threading.Thread(target=beat)
        beating.start()
        try:
            main(["top", "ticks", "--count", "2", "--interval", "0.5", "--curve"])
        finally:
            over.set()
            beating.join()
        text = capsys.readouterr().out
        assert re.search(r"time between two beats; a look each 10 ms\n +\d+ (ms|s) \|", text)
        assert len(re.findall(r"\|.*\*", text)) >= 1
        assert re.search(r"\n +\* ticks\.loop\n", text)
        assert "no interval" not in text


def test_curve_says_that_nothing_beats_and_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    with Channel.create("ticks", "inbox", capacity=4096):
        main(["top", "ticks", "--count", "1", "--interval", "0.1", "--curve"])
        assert "no interval between two beats was seen yet" in capsys.readouterr().out
        assert main(["top", "--once", "--curve"]) == 2
        assert "curve: name the channel" in capsys.readouterr().err
        assert main(["top", "ticks", "--once", "--curve", "--json"]) == 2
        assert "leave out --json" in capsys.readouterr().err
