# SPDX-License-Identifier: Apache-2.0
"""``flyring metrics``: what it says of each state of a channel, as the parsers of prometheus-client read it."""

from __future__ import annotations

import builtins
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric, parser
from prometheus_client.openmetrics import parser as openmetrics

from conftest import SPEC, Child, fill
from flyring import BackPressuredError, Channel, Heartbeat, Table, layout, unlink
from flyring.cli import main
from flyring.cli.families import METRICS
from flyring.table_file import CONTROL
from queues import queue, take
from waits import until

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(families: Iterator[Metric]) -> Samples:
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


class Page:
    """A scrape. ``page("publisher_bytes_total", channel="c", publisher=0)`` is the value; None: there is none."""

    def __init__(self, text: str) -> None:
        self.families = list(openmetrics.text_string_to_metric_families(text))
        self.samples = samples(iter(self.families))

    def __call__(self, name: str, **labels: object) -> float | None:
        wanted = frozenset((key, str(value)) for key, value in labels.items())
        return self.samples.get((f"flyring_{name}", wanted))

    def state(self, side: str, slot: int, channel: str = "c") -> str:
        """Returns the state of a slot, of which there must be one."""
        label = f"flyring_{side}_state"
        states = [
            dict(labels)[label]
            for (name, labels), value in self.samples.items()
            if name == label and value == 1 and {("channel", channel), (side, str(slot))} <= labels
        ]
        assert len(states) == 1
        return states[0]

    def labels(self, metric: str, **labels: object) -> dict[str, str]:
        """Returns the labels of the one sample of an ``_info`` metric that has these labels."""
        wanted = {(key, str(value)) for key, value in labels.items()}
        found = [dict(each) for (one, each) in self.samples if one == f"flyring_{metric}" and wanted <= each]
        assert len(found) == 1
        return found[0]


@pytest.fixture
def scrape(capsys: pytest.CaptureFixture[str]) -> Callable[..., Page]:
    def once(*names: str, status: int = 0) -> Page:
        capsys.readouterr()
        assert main(["metrics", *names]) == status
        return Page(capsys.readouterr().out)

    return once


READER = """
import sys
from flyring import Channel
channel = Channel.open("c")
reader = channel.subscriber("dash")
print("ready", flush=True)
sys.stdin.readline()
"""


def test_an_empty_folder(scrape: Callable[..., Page]) -> None:
    page = scrape()
    assert [family.name for family in page.families] == ["flyring_build"]


def test_a_broadcast_channel(scrape: Callable[..., Page]) -> None:
    with Channel.create("c", "broadcast", capacity=4096, publishers=2) as channel:
        publisher, reader = channel.publisher("feed"), channel.subscriber("dash")
        for _ in range(3):
            publisher.offer(bytes(40))
        reader.poll(lambda message: None, limit=1)
        page, stats = scrape(), channel.stats()
        assert page.labels("channel_info") == {
            "channel": "c",
            "id": str(channel.id),
            "kind": "broadcast",
            "foreign": "",
            "delivery": "",
        }
        assert page("channel_created_timestamp_seconds", channel="c") == stats.created_at / 1e9
        assert page("ring_capacity_bytes", channel="c") == 4096
        assert page("channel_attached_publishers", channel="c") == 1
        assert page("channel_attached_subscribers", channel="c") == 1
        assert page("channel_replaced", channel="c") == 0
        assert page("publisher_messages_total", channel="c", publisher=0) == 3
        assert page("publisher_bytes_total", channel="c", publisher=0) == stats.publishers[0].published
        where = {"channel": "c", "publisher": 0, "subscriber": 0}
        assert page("subscriber_lag_messages", **where) == 2
        assert page("subscriber_lag_bytes", **where) == stats.subscribers[0].gates[0].lag > 0
        assert page("subscriber_bytes_total", **where) == stats.subscribers[0].gates[0].position > 0
        assert page("subscriber_lag_bytes", **where | {"publisher": 1}) is None  # that ring never had a publisher
        assert page("publisher_owners_total", channel="c", publisher=0) == 1
        assert page("publisher_owners_total", channel="c", publisher=1) is None
        assert page.labels("publisher_info")["name"] == "feed"
        assert page.labels("subscriber_info") == {
            "channel": "c",
            "subscriber": "0",
            "name": "dash",
            "pid": str(os.getpid()),
        }
        assert page.state("publisher", 0) == page.state("subscriber", 0) == "live"
        publisher.close()
        assert scrape().state("publisher", 0) == "closed"


def test_a_blocked_publisher(scrape: Callable[..., Page]) -> None:
    with Channel.create("c", "broadcast", capacity=4096) as channel:
        publisher, reader = channel.publisher("feed"), channel.subscriber("dash")
        page = scrape()
        assert page("publisher_blocked_seconds", channel="c", publisher=0) == 0
        assert page("publisher_blocked_by", channel="c", publisher=0, subscriber=0) is None
        fill(publisher)

        def send() -> None:
            with pytest.raises(BackPressuredError):
                publisher.send(bytes(8), timeout=1)

        thread = threading.Thread(target=send)
        thread.start()
        until(lambda: channel.stats().publishers[0].blocked_for > 20_000_000)
        page = scrape()
        seconds = page("publisher_blocked_seconds", channel="c", publisher=0)
        assert seconds is not None and 0.02 < seconds < 2
        assert page("publisher_blocked_by", channel="c", publisher=0, subscriber=0) == 1
        thread.join()
        reader.close()


def test_a_dead_subscriber(scrape: Callable[..., Page], child: Callable[..., Child]) -> None:
    with Channel.create("c", "broadcast", capacity=4096) as channel:
        publisher = channel.publisher("feed")
        reader = child(READER)
        reader.line()
        assert scrape().state("subscriber", 0) == "live"
        reader.kill()
        page = scrape()
        assert page.state("subscriber", 0) == "away"
        assert page("subscriber_kept", channel="c", subscriber=0) == 0
        assert page("subscriber_lag_bytes", channel="c", publisher=0, subscriber=0) is not None
        assert page.labels("subscriber_info")["pid"] == str(reader.process.pid)
        assert page("channel_attached_subscribers", channel="c") == 0
        following = channel.subscriber("next")
        assert scrape()("subscriber_owners_total", channel="c", subscriber=0) == 2
        publisher.close()
        following.close()


def test_an_inbox_without_a_reader(scrape: Callable[..., Page]) -> None:
    with Channel.create("c", "inbox", capacity=4096) as channel:
        publisher = channel.publisher("feed")
        publisher.offer_batch([b"one", b"two"])
        page = scrape()
        assert page("channel_ownerless_slots", channel="c") == 1
        assert page("subscriber_kept", channel="c", subscriber=0) == 1
        assert page("subscriber_lag_messages", channel="c", publisher=0, subscriber=0) == 2
        channel.evict(0)
        assert scrape()("subscriber_evicted", channel="c", subscriber=0) == 1
        reader = channel.subscriber("reader")
        page = scrape()
        assert page("subscriber_discarded_messages_total", channel="c", subscriber=0) == 2
        assert page("subscriber_evicted", channel="c", subscriber=0) == 0
        assert page("channel_ownerless_slots", channel="c") == 0
        reader.close()


def test_a_queue(scrape: Callable[..., Page]) -> None:
    with queue() as channel:
        publisher, idle, other = channel.publisher("feed"), channel.worker("one"), channel.worker("two")
        publisher.offer_batch([b"%d" % k for k in range(4)])
        take(other).done()
        job = take(other)
        labels = {"channel": "jobs", "subscriber": 2}
        until(lambda: (scrape()("worker_busy_seconds", **labels) or 0) > 0)
        page = scrape()
        assert page("queue_waiting_jobs", channel="jobs", publisher=0) == 2
        assert page("queue_in_hand_jobs", channel="jobs") == 1
        assert page("worker_busy_seconds", channel="jobs", subscriber=1) == 0
        assert page("worker_job_attempts", channel="jobs", subscriber=1) is None
        assert page("worker_job_attempts", **labels) == 0
        assert page.state("subscriber", 0, "jobs") == "shared"
        assert page.state("publisher", 1, "jobs") == "returns"
        assert page("channel_attached_subscribers", channel="jobs") == 2
        job.done()
        idle.close()


def test_a_service(scrape: Callable[..., Page]) -> None:
    with Channel.create("c", "service", clients=2, capacity=4096, max_outstanding=8) as channel:
        client = channel.client("desk")
        assert scrape()("service_up", channel="c") == 0
        server = channel.server("pricing")
        calls = [client.start(b"price?", 7) for _ in range(2)]
        page = scrape()
        assert page("service_up", channel="c") == 1
        assert page("service_max_outstanding_calls", channel="c") == 8
        assert page("client_outstanding_calls", channel="c", subscriber=1) == 2
        assert page("client_outstanding_calls", channel="c", subscriber=0) is None  # slot 0 is the server's
        assert page("client_expired_calls_total", channel="c", subscriber=1) == 0
        assert page.labels("channel_info")["delivery"] == "at-most-once"
        server.close()
        assert scrape()("service_up", channel="c") == 0
        del calls


def test_counters(scrape: Callable[..., Page]) -> None:
    with Channel.create("c", "broadcast", counters=2, capacity=4096) as channel:
        channel.counters().allocate('a "label"\n\\', 7).set(-5)
        labels = {"channel": "c", "counter": 0, "type_id": 7, "label": 'a "label"\n\\'}
        assert scrape()("application_value", **labels) == -5


def test_heartbeats(scrape: Callable[..., Page]) -> None:
    with (
        Channel.create("c", "broadcast", counters=3, capacity=4096) as channel,
        Heartbeat(channel, "loop", interval=0.5) as heart,
        Heartbeat(channel, "other"),
    ):
        heart.beat()
        page, labels = scrape(), {"channel": "c", "counter": heart.id}
        assert page("heartbeat_beats_total", **labels) == 1
        assert page("heartbeat_interval_seconds", **labels) == 0.5
        assert page.labels("heartbeat_info", name="loop")["pid"] == str(os.getpid())
        assert not [name for name, _ in page.samples if "application" in name]


def test_a_table(scrape: Callable[..., Page]) -> None:
    with Table.create("t", capacity=8, key="text", value_bytes=8) as table, Channel.create("c", "inbox"):
        table["a"] = b"1"
        table["b"] = b"2"
        del table["b"]
        with table.writer("feed") as writer:
            writer.put("a", b"3")
            page = scrape()
            assert page("table_writer_up", table="t") == 1
            assert page.labels("table_writer_info", table="t") == {
                "table": "t",
                "name": "feed",
                "pid": str(os.getpid()),
            }
        page = scrape("t")
        assert page("channel_up", channel="c") is None
        assert page.labels("table_info", table="t")["id"] == str(table.id)
        for name, value in {
            "up": 1,
            "keys": 1,
            "capacity": 8,
            "changes_total": 4,
            "owners_total": 4,
            "writer_up": 0,
            "writer_closed": 1,
            "unfinished": 0,
            "needs_recovery": 0,
            "damaged_values": 0,
            "replaced": 0,
        }.items():
            assert page(f"table_{name}", table="t") == value, name
        memory = table._memory
        memory.store64(CONTROL + layout.TABLE_CONTROL_STAMP, 9)
        memory.store64(CONTROL + layout.TABLE_CONTROL_DAMAGED, 3)
        memory.store32(CONTROL + layout.TABLE_CONTROL_SUCCESSOR, 2)
        memory.write(CONTROL + layout.TABLE_CONTROL_BOOT_ID, bytes(16))
        page = scrape()
        for name, value in {"unfinished": 1, "damaged_values": 3, "replaced": 2, "needs_recovery": 1}.items():
            assert page(f"table_{name}", table="t") == value, name
        assert (page("channel_up", channel="c"), page("table_up", table="t")) == (1, 1)


def test_tables_that_are_missing_or_not_valid(scrape: Callable[..., Page], folder: Path) -> None:
    Table.create("good", capacity=8, key="text", value_bytes=8).close()
    (folder / "bad.table").write_bytes(b"something else")
    page = scrape(status=1)
    assert [page("table_up", table=name) for name in ("good", "bad", "none")] == [1, 0, None]
    path = str(folder / "good.table")
    assert scrape(path)("table_up", table=path) == 1
    missing = str(folder / "none.table")
    assert scrape(missing, status=1)("table_up", table=missing) == 0


def test_channels_that_are_missing_or_not_valid(
    scrape: Callable[..., Page], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Channel.create("good", "inbox").close()
    (folder / "bad.ring").write_bytes(b"something else")
    page = scrape(status=1)
    assert [page("channel_up", channel=name) for name in ("good", "bad", "none")] == [1, 0, None]
    page = scrape("good", "none", status=1)
    assert [page("channel_up", channel=name) for name in ("good", "bad", "none")] == [1, None, 0]
    assert main(["metrics", "none"]) == 1
    assert "none.ring" in capsys.readouterr().err
    assert main(["metrics", "no name"]) == 2
    path = str(folder / "good.ring")
    assert scrape(path)("channel_up", channel=path) == 1


def test_a_file_name_that_is_not_text(scrape: Callable[..., Page], folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.ring")).write_bytes(b"something else")
    assert scrape(status=1)("channel_up", channel="\\udcff") == 0


def test_textfile_is_replaced_at_once_and_in_the_older_format(tmp_path: Path) -> None:
    target = tmp_path / "flyring.prom"
    with Channel.create("c", "broadcast", capacity=4096) as channel:
        publisher = channel.publisher("feed")
        assert main(["metrics", "--textfile", str(target)]) == 0
        before = target.stat().st_ino
        publisher.offer(b"x")
        assert main(["metrics", "--textfile", str(target)]) == 0
    assert target.stat().st_ino != before  # it was written beside it, and renamed
    assert list(tmp_path.iterdir()) == [target]
    text = target.read_text()
    found = samples(iter(parser.text_string_to_metric_families(text)))
    assert found[("flyring_publisher_messages_total", frozenset({("channel", "c"), ("publisher", "0")}))] == 1
    # node_exporter refuses the types that only OpenMetrics has
    assert set(re.findall(r"^# TYPE \S+ (\w+)$", text, re.M)) == {"gauge", "counter"}


def test_textfile_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["metrics", "--textfile", str(tmp_path / "none" / "x.prom")]) == 2
    assert "x.prom" in capsys.readouterr().err


@contextmanager
def listening(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Runs ``flyring metrics --listen``; yields the process and the address that it prints."""
    command = [sys.executable, "-m", "flyring.cli", "metrics", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert select.select([process.stderr], [], [], 30)[0]
            line = process.stderr.readline()
            found = re.search(r"http://\S+/metrics", line)
            assert found, line
            yield process, found[0]
        finally:
            process.kill()


def get(address: str, accept: str) -> tuple[str, str]:
    request = urllib.request.Request(address, headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def test_listen_reads_for_each_request_and_speaks_both_formats() -> None:
    with Channel.create("c", "broadcast", capacity=4096) as channel, listening("--listen", "0") as (process, address):
        publisher = channel.publisher("feed")
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", address)
        for count in (0, 1):
            kind, text = get(address, "application/openmetrics-text; version=1.0.0")
            assert kind.startswith("application/openmetrics-text")
            assert Page(text)("publisher_messages_total", channel="c", publisher=0) == count
            publisher.offer(b"x")
        kind, text = get(address, "text/plain")
        assert kind.startswith("text/plain")
        assert samples(iter(parser.text_string_to_metric_families(text)))
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


def test_listen_goes_on_while_channels_come_and_go() -> None:
    accept = "application/openmetrics-text"
    with listening("--listen", "127.0.0.1:0", "c") as (_, address):
        assert Page(get(address, accept)[1])("channel_up", channel="c") == 0
        Channel.create("c", "inbox").close()
        assert Page(get(address, accept)[1])("channel_up", channel="c") == 1
        unlink("c")
        assert Page(get(address, accept)[1])("channel_up", channel="c") == 0


def test_listen_on_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with listening("--listen", "0") as (_, address):
        port = address.split(":")[2].partition("/")[0]
        assert main(["metrics", "--listen", port]) == 2
        assert f"port {port}: Address already in use" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["http", "1:2:x", ":9464", "65536", "-1"])
def test_listen_refuses_an_address(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["metrics", f"--listen={word}"])
    assert ended.value.code == 2
    assert "0.0.0.0:9464" in capsys.readouterr().err


def test_without_the_library(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("prometheus_client"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert main(["metrics"]) == 2
    assert "pip install 'flyring[metrics]'" in capsys.readouterr().err


def test_nothing_is_written_and_reading_is_enough(scrape: Callable[..., Page], folder: Path) -> None:
    with Channel.create("c", "service", clients=2, capacity=4096) as channel:
        server, client = channel.server("pricing"), channel.client("desk")
        client.start(b"price?", 7)
        path = folder / "c.ring"
        path.chmod(0o400)
        before, changed = path.read_bytes(), path.stat().st_mtime_ns
        time.sleep(0.01)
        scrape()
        assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, changed)
        server.close()


def test_names_and_labels_are_those_of_the_page() -> None:
    """docs/metrics.md lists exactly the metrics that there are, with their labels."""
    page = (SPEC.parent / "docs" / "metrics.md").read_text("utf-8")
    listed = {
        name: tuple(re.findall(r"`(\w+)`", labels))
        for name, labels in re.findall(r"^\| `(flyring_\w+)` \| \w+ \| ([^|]*) \|", page, re.M)
    }
    suffix = {"counter": "_total", "info": "_info"}
    more = {
        "flyring_build": ("version", "layout"),
        "flyring_channel": ("id", "kind", "foreign", "delivery"),
        "flyring_publisher": ("name", "pid"),
        "flyring_subscriber": ("name", "pid"),
        "flyring_heartbeat": ("name", "pid"),
        "flyring_table": ("id",),
        "flyring_journal": ("id", "content"),
        "flyring_journal_writer": ("name", "pid"),
        "flyring_journal_consumer": ("name", "pid"),
        "flyring_table_writer": ("name", "pid"),
        "flyring_publisher_state": ("flyring_publisher_state",),
        "flyring_subscriber_state": ("flyring_subscriber_state",),
    }
    assert listed == {
        name + suffix.get(kind, ""): labels + more.get(name, ()) for name, (kind, labels, _) in METRICS.items()
    }


def test_the_help_names_all_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["metrics", "--help"])
    assert "channels, tables and journals" in " ".join(capsys.readouterr().out.split())
