# SPDX-License-Identifier: Apache-2.0
"""The alert rules of docs/prometheus, by promtool; and a real Prometheus that scrapes ``flyring metrics`` and raises
alerts. Prometheus runs as a child process, with a port and a folder of its own."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import flyring

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "docs/prometheus/flyring.rules.yml"
TESTS = ROOT / "docs/prometheus/flyring_test.yml"
PATIENCE = 60  # seconds
CONFIGURATION = """
global: {{scrape_interval: 200ms, evaluation_interval: 200ms}}
scrape_configs:
  - job_name: flyring
    static_configs: [{{targets: ["{target}"]}}]
rule_files: [{rules}]
"""
SUBSCRIBER = """
import sys, flyring
reader = flyring.Channel.open("ticks").subscriber("dash")
print("ready", flush=True)
sys.stdin.read()
"""


def program(name: str) -> str:
    found = shutil.which(name)
    assert found, f"there is no {name} in PATH: ./dev test metrics fetches it"
    return found


def promtool(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program("promtool"), *map(str, arguments)], capture_output=True, text=True)


def test_the_rules_are_valid() -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_alert_as_they_should() -> None:
    done = promtool("test", "rules", TESTS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_is_tested() -> None:
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    assert len(alerts) == len(set(alerts)) > 0
    raised = re.findall(r"alertname: (\w+)\n +eval_time: \w+\n +exp_alerts:\n", TESTS.read_text())
    assert set(raised) == set(alerts)
    page = (ROOT / "docs/metrics.md").read_text("utf-8")
    assert set(re.findall(r"`(Flyring[A-Z]\w+)`", page)) == set(alerts)


def test_a_rule_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    text = RULES.read_text()
    changes = [
        ("flyring_publisher_blocked_seconds > 2", "flyring_publisher_blocked_seconds > 200"),
        ('flyring_subscriber_state="live"} == 1', 'flyring_subscriber_state="away"} == 1'),
        ("flyring_service_up == 0", "flyring_service_up == 1"),
        ("changes(flyring_table_owners_total[5m]) == 0", "changes(flyring_table_owners_total[5m]) >= 0"),
        ("flyring_journal_consumer_lag_messages offset 5m", "flyring_journal_consumer_lag_messages offset 6m"),
    ]
    shutil.copy(TESTS, tmp_path)
    for before, after in changes:
        assert before in text
        (tmp_path / RULES.name).write_text(text.replace(before, after))
        assert promtool("test", "rules", tmp_path / TESTS.name).returncode != 0, before


def test_promtool_accepts_the_older_format(folder: Path) -> None:
    with (
        flyring.Channel.create("ticks", "broadcast", capacity=4096, counters=2) as channel,
        flyring.Table.create("prices", capacity=2, key="text", value_bytes=8) as table,
    ):
        publisher, reader = channel.publisher("feed"), channel.subscriber("dash")
        channel.counters().allocate("lost dash")
        table["a"] = b"1"
        target = folder / "flyring.prom"
        subprocess.run([sys.executable, "-m", "flyring.cli", "metrics", "--textfile", str(target)], check=True)
        with target.open() as text:
            done = subprocess.run([program("promtool"), "check", "metrics"], stdin=text, capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        publisher.close()
        reader.close()


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="flyring-metrics-test-", dir="/dev/shm"))
    monkeypatch.setenv("FLYRING_DIR", str(path))
    yield path
    shutil.rmtree(path)


@contextmanager
def running(*command: str, **more: Any) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, text=True, **more) as process:
        try:
            yield process
        finally:
            process.kill()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Prometheus:
    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"

    def get(self, path: str, **arguments: str) -> Any:
        query = urllib.parse.urlencode(arguments)
        with urllib.request.urlopen(f"{self.address}{path}?{query}", timeout=10) as answer:
            return json.loads(answer.read())["data"]

    def value(self, query: str) -> float | None:
        result = self.get("/api/v1/query", query=query)["result"]
        return float(result[0]["value"][1]) if result else None

    def firing(self) -> dict[str, dict[str, str]]:
        alerts = self.get("/api/v1/alerts")["alerts"]
        return {one["labels"]["alertname"]: one["labels"] for one in alerts if one["state"] == "firing"}


def until(what: str, true: Callable[[], Any]) -> Any:
    give_up, seen = time.monotonic() + PATIENCE, None
    while time.monotonic() < give_up:
        try:
            if seen := true():
                return seen
        except OSError as error:  # it does not listen yet
            seen = error
        time.sleep(0.1)
    pytest.fail(f"{what} did not come in {PATIENCE} s; the last was {seen}")


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    # The rules without "for", so that the test need not wait for minutes.
    (folder / "quick.yml").write_text(re.sub(r"^ +for: \w+\n", "", RULES.read_text(), flags=re.M))
    (folder / "prometheus.yml").write_text(CONFIGURATION.format(target=target, rules=folder / "quick.yml"))
    port = free_port()
    with (
        (folder / "log").open("w") as log,
        running(
            program("prometheus"),
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
            stderr=log,
            stdout=log,
        ) as process,
    ):
        one = Prometheus(port)
        try:
            until("Prometheus", lambda: one.get("/api/v1/status/runtimeinfo"))
            yield one
        except BaseException:
            print((folder / "log").read_text()[-4000:], f"status {process.poll()}")
            raise


def test_prometheus_scrapes_and_alerts(folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flyring.cli", "metrics", "--listen", "0"]
    with (
        flyring.Channel.create("ticks", "broadcast", capacity=4096, counters=2) as channel,
        flyring.Channel.create("orders", "inbox", capacity=4096) as inbox,
        running(*command, stderr=subprocess.PIPE) as exporter,
    ):
        assert exporter.stderr is not None
        found = re.search(r"http://([^/]+)/metrics", exporter.stderr.readline())
        assert found
        feed, orders = channel.publisher("feed"), inbox.publisher("desk")
        counter = channel.counters().allocate("lost dash")
        with (
            running(sys.executable, "-c", SUBSCRIBER, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as reader,
            prometheus(tmp_path, found[1]) as server,
        ):
            assert reader.stdout is not None
            assert reader.stdout.readline() == "ready\n"
            until(
                "the first scrape", lambda: server.value('flyring_channel_attached_subscribers{channel="ticks"}') == 1
            )
            for group in server.get("/api/v1/rules")["groups"]:
                assert group["rules"]
            assert server.value("flyring_publisher_messages_total") == 0
            assert server.firing() == {}

            orders.offer(b"one")
            alert = until("FlyringNoReader", lambda: server.firing().get("FlyringNoReader"))
            assert (alert["channel"], alert["subscriber"]) == ("orders", "0")

            counter.set_release(7)
            until("FlyringLossyLost", lambda: server.firing().get("FlyringLossyLost"))

            while feed.offer(bytes(100)):
                pass
            alert = until("FlyringPublisherBlocked", lambda: server.firing().get("FlyringPublisherBlocked"))
            assert (alert["channel"], alert["name"], alert["pid"]) == ("ticks", "dash", str(reader.pid))
            assert "FlyringRingFull" in server.firing()
            query = 'flyring_subscriber_lag_messages{channel="ticks"}'
            assert server.value(query) == channel.stats().publishers[0].messages

            reader.kill()
            reader.wait()
            until("FlyringSubscriberDied", lambda: server.firing().get("FlyringSubscriberDied"))
            flyring.unlink("orders")
            (folder / "orders.ring").write_bytes(b"not a channel")
            until("FlyringChannelDown", lambda: server.firing().get("FlyringChannelDown"))
            until("an end", lambda: "FlyringNoReader" not in server.firing())
