# SPDX-License-Identifier: Apache-2.0
"""The demo programs (bench/DEMOS.md), two processes each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

QUICK = ["--count", "500", "--warmup", "50", "--wait", "yield", "--timeout", "20"]


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "flyring.demo", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def both(*arguments: str, program: tuple[str, ...] = ()) -> str:
    """Runs both programs. Returns ping's output."""
    pong = start(*program, "pong", *QUICK, *arguments)
    ping = start(*program, "ping", *QUICK, *arguments)
    out, err = ping.communicate(timeout=60)
    pong_out, pong_err = pong.communicate(timeout=60)
    assert (ping.returncode, pong.returncode, err, pong_out, pong_err) == (0, 0, "", "", "")
    return out


@pytest.mark.parametrize("size", ["32", "33", "1000"])
def test_ping_prints_a_table_and_leaves_nothing(size: str, folder: Path) -> None:
    title, names, values = both("--size", size, "--core", "0").splitlines()
    assert title == f"ping python: 500 round trips of {size} bytes, closed loop, wait yield, core 0"
    assert names.split() == ["p50", "p90", "p99", "p99.9", "p99.99", "max", "mean", "count"]
    numbers = values.split()
    assert numbers[-1] == "ns"
    assert int(numbers[0]) <= int(numbers[2]) <= int(numbers[5])
    assert numbers[-2] == "500"
    assert os.listdir(folder) == []


def test_the_result_as_json_and_its_histogram(folder: Path) -> None:
    from hdrh.histogram import HdrHistogram

    result: dict[str, Any] = json.loads(both("--json", "--histogram", str(folder / "times"), "--rate", "5000"))
    assert (result["program"], result["language"], result["unit"], result["count"]) == ("ping", "python", "ns", 500)
    assert (result["size"], result["rate"], result["wait"], result["core"]) == (32, 5000, "yield", -1)
    histogram = HdrHistogram.decode((folder / "times").read_text().strip())
    assert histogram.get_total_count() == 500
    assert histogram.get_value_at_percentile(50) == result["p50"]


def test_both_sides_may_sleep() -> None:
    result = json.loads(both("--json", "--untimed", "--wait", "block", "--rate", "5000"))
    assert (result["wait"], result["count"]) == ("block", 500)


def test_untimed_reports_the_mean_only() -> None:
    result = json.loads(both("--json", "--untimed"))
    assert "p50" not in result
    assert result["mean"] > 0


def test_the_counter_demo(folder: Path) -> None:
    assert both(program=("counter",)).startswith("counter ping python: 500 round trips")
    assert os.listdir(folder) == []


def test_the_counter_demo_is_not_fooled_by_an_earlier_run(folder: Path) -> None:
    (folder / "demo.counter").write_bytes((7).to_bytes(8, "little") + bytes(4088))
    assert both(program=("counter",)).startswith("counter ping python: 500 round trips")


def test_a_silent_other_side_ends_the_demo_with_a_clear_line(folder: Path) -> None:
    for program in (["ping"], ["pong"], ["counter", "ping"], ["counter", "pong"]):
        done = subprocess.run(
            [sys.executable, "-m", "flyring.demo", *program, "--timeout", "0.2"],
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode == 1, done
        assert "is the other side running?" in done.stderr
        for left in folder.iterdir():
            assert left.suffix == ".ring"
            left.unlink()


def test_a_wrong_answer_names_field_and_sequence() -> None:
    import argparse

    import flyring
    from flyring.demo import DemoError
    from flyring.demo.ping import Ping, content

    with flyring.Channel.create("wrong", "broadcast", publishers=2, subscribers=2) as channel:
        mine, theirs = channel.publisher(), channel.publisher()
        options = argparse.Namespace(size=40, rate=0.0, timeout=1.0)
        ping = Ping(options, mine, channel.subscriber(rings=[1]))
        right = bytearray(content(5, 77, -1, 40))
        for at, name in ((0, "sequence"), (8, "send_time"), (17, "price"), (24, "quantity"), (39, "bytes after")):
            wrong = bytearray(right)
            wrong[at] ^= 1
            theirs.offer(wrong)
            with pytest.raises(DemoError, match=f"{name}.*message 5"):
                ping.receive(5, bytes(right), ping.take(1))
        theirs.offer(content(0, 1, -1, 40))
        theirs.offer(right)
        ping.receive(5, bytes(right), ping.take(1))


def test_typed_messages(folder: Path) -> None:
    result = json.loads(both("--typed", "--json"))
    assert (result["typed"], result["size"], result["count"]) == (True, 70, 500)
    assert result["p50"] > 0
    title, *_ = both("--typed", "--untimed", "--core", "0").splitlines()
    assert title == "ping python: 500 round trips of 70 bytes, closed loop, wait yield, core 0"
    assert "typed" not in json.loads(both("--json"))
    assert os.listdir(folder) == []


def test_typed_needs_a_channel_with_the_schema(folder: Path) -> None:
    from flyring import Channel

    Channel.create("demo", "broadcast", publishers=2, subscribers=2, counters=0).close()
    for program in ("ping", "pong"):
        done = subprocess.run(
            [sys.executable, "-m", "flyring.demo", program, "--typed"], capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert "schema_id = 0, but 7 was asked for" in done.stderr


def test_what_typed_cannot_be_given_with() -> None:
    for arguments in (["ping", "--size", "32"], ["counter", "ping"], ["ping", "--count", str(2**32)]):
        done = subprocess.run(
            [sys.executable, "-m", "flyring.demo", *arguments, "--typed"], capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (2, "")


def test_the_schema_of_the_demo_is_that_of_the_specification() -> None:
    from flyring.demo.typed import SCHEMA

    assert SCHEMA.text == (Path(__file__).parents[2] / "spec" / "sbe" / "prices.xml").read_text("utf-8")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("instrument.id", 43),
        ("instrument.symbol", "FLYRX"),
        ("instrument.exchange", ""),
        ("instrument.currency", "USD"),
        ("instrument.kind", 1),
        ("timestamp", 78),
        ("bid", 100000005),
        ("ask", 100001005),
        ("bidSize", 7),
        ("askSize", 7),
        ("flags", 4),
        ("lastSide", None),
        ("sequence", 6),
    ],
)
def test_a_wrong_typed_answer_names_field_and_sequence(path: str, value: object) -> None:
    import argparse

    import flyring
    from flyring.demo import DemoError
    from flyring.demo.typed import SCHEMA, PriceUpdate, TypedPing, fill

    with flyring.Channel.create("wrong", "broadcast", publishers=2, subscribers=2, schema=SCHEMA) as channel:
        mine, theirs = channel.publisher(), channel.publisher()
        ping = TypedPing(argparse.Namespace(rate=0.0, timeout=1.0), mine, channel.subscriber(rings=[1]))
        *inside, name = path.split(".")

        def answer(sequence: int, wrong: bool) -> None:
            with theirs.claim(PriceUpdate) as update:
                fill(update, sequence, 77, True)
                if wrong:
                    setattr(getattr(update, inside[0]) if inside else update, name, value)
                update.commit()

        answer(0, False)  # an answer to an old probe, which is skipped
        answer(5, False)
        ping.round_trip(5, 77)
        answer(5, True)
        with pytest.raises(DemoError, match=f"{path} of message [56]"):
            ping.round_trip(5, 77)
