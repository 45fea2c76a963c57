# SPDX-License-Identifier: Apache-2.0
"""Services and what others have for a question and its answer: real contenders, and a server that answers wrongly."""

from __future__ import annotations

import dataclasses
import os
import subprocess

import pytest

from driver.conftest import MakeRun
from driver.contenders import ROOT, Catalogue
from driver.install import PYTHON_VENV, environment, fill_in
from driver.sides import Failure, Group
from driver.summary import Summary
from driver.targets import verdicts
from driver.test_jobs import BUILT, needs_cores, skip_unless_built, turn

PROGRAMS = [*BUILT, "java25"]
OTHERS = [
    "cpp/zeromq-req",
    "cpp/grpc",
    "rust/iceoryx2-request",
    "python/iceoryx2-request",
    "python/pyzmq-req",
    "python/grpc",
]


def calls(catalogue: Catalogue, table: str, name: str) -> None:
    """Round trips: the client compares each answer, and the server each question."""
    skip_unless_built(catalogue, name)
    replies = turn(catalogue, table, name)
    assert [s["kind"] for s in replies["a"]["slices"]] == ["mean"] * 3
    assert all(s["count"] >= 64 and s["ns"] > 0 for s in replies["a"]["slices"])
    assert replies["b"]["slices"] == []


def many_calls(catalogue: Catalogue, name: str) -> None:
    """Streams: what was asked, was answered."""
    skip_unless_built(catalogue, name)
    replies = turn(catalogue, "service-32-16", name)
    for sent, received in zip(replies["a"]["slices"], replies["b"]["slices"], strict=True):
        assert sent["count"] == received["count"] >= 64 and received["ns"] > 0


@needs_cores
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("table", ["service-32", "service-32-block"])
def test_a_call_is_answered(catalogue: Catalogue, table: str, program: str) -> None:
    calls(catalogue, table, f"{program}/flyring-service")


@needs_cores
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("under_way", [1, 16])
def test_all_calls_of_a_stream_are_answered(catalogue: Catalogue, under_way: int, program: str) -> None:
    many_calls(catalogue, f"{program}/flyring-service-{under_way}")


@needs_cores
@pytest.mark.parametrize(
    "pair", ["cpp+java17", "java17+cpp", "cpp+python", "python+cpp", "java17+python", "python+java17"]
)
def test_client_and_server_of_two_languages(catalogue: Catalogue, pair: str) -> None:
    calls(catalogue, "service-32-mixed", f"{pair}/flyring-service-pair")


@needs_cores
@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("under_way", [1, 16])
def test_all_questions_of_a_stream_are_answered(catalogue: Catalogue, under_way: int, name: str) -> None:
    many_calls(catalogue, f"{name}-{under_way}")


@needs_cores
@pytest.mark.parametrize(
    "name",
    [
        *(n.replace("2-request", "2-request-event") for n in OTHERS),
        "java17/http-jdk",
        "java25/http-jdk",
        "python/http-server",
    ],
)
def test_a_question_is_answered_asleep(catalogue: Catalogue, name: str) -> None:
    calls(catalogue, "service-32-block", name)


@needs_cores
@pytest.mark.parametrize("program", ["rust", "python"])
def test_a_question_is_answered_spinning(catalogue: Catalogue, program: str) -> None:
    calls(catalogue, "service-32", f"{program}/iceoryx2-request")


WRONG = """
import sys
sys.path.insert(0, "bench/python")
import flyring_service, peer
right = flyring_service.Service.answering
def answering(self, must_be_end):
    answer, ends = right(self, must_be_end)
    count = 0
    def wrong(request):
        nonlocal count
        count += 1
        return bytes(32) if count == 50 else answer(request)
    return wrong, ends
flyring_service.Service.answering = answering
sys.exit(peer.main())
"""


@needs_cores
def test_the_loops_take_no_name_of_a_contenders(catalogue: Catalogue) -> None:
    """The page of bursts once had the name under which iceoryx2's contender knew how many words to loan."""
    calls(catalogue, "rtt-32", "python/iceoryx2")


@needs_cores
@pytest.mark.parametrize("program", list(BUILT))
@pytest.mark.parametrize(
    ("table", "name", "reason"),
    [
        ("service-32", "flyring-service", "begins with word 0 or has wrong bytes"),
        ("service-32-16", "flyring-service-1", "another call's answer"),
        ("service-32-16", "flyring-service-16", "another call's answer"),
    ],
)
def test_a_wrong_answer_is_seen(catalogue: Catalogue, table: str, name: str, reason: str, program: str) -> None:
    contender = catalogue.contenders[f"{program}/{name}"]
    skip_unless_built(catalogue, contender.id)
    skip_unless_built(catalogue, f"python/{name}")
    python, inner = catalogue.contenders[f"python/{name}"].b
    server = dataclasses.replace(python, argv=(str(PYTHON_VENV / "bin/python"), "-c", WRONG))
    contender = dataclasses.replace(contender, b=(server, inner), silence=5.0)
    cores = sorted(os.sched_getaffinity(0))
    group = Group(contender, catalogue.tables[table], (cores[0], cores[-1]), 0.02, fill_in, environment())
    try:
        with pytest.raises(Failure, match=reason):
            group.turn(3, "mean")
    finally:
        group.kill()


def test_a_call_is_compared_with_the_round_trip_of_the_same_languages(catalogue: Catalogue) -> None:
    assert catalogue.tables["service-32"].reference("python/flyring-service") == "python/flyring-pair"
    assert catalogue.tables["service-32-block"].reference("java25/flyring-service") == "java25/flyring-block"
    mixed = catalogue.tables["service-32-mixed"]
    assert mixed.reference("java17+cpp/flyring-service-pair") == "java17+cpp/flyring-pair"
    for table in (catalogue.tables[name] for name in ("service-32", "service-32-mixed", "service-32-block")):
        rows = {c.id for c in catalogue.of_table(table) if not c.cannot(table)}
        flyring = {c for c in rows if "flyring" in c}
        assert {table.reference(c) for c in flyring} - {""} <= rows


def test_a_row_without_a_row_of_flyring_beside_it_has_no_ratio(make_run: MakeRun) -> None:
    target = {
        "text": "it",
        "contender": ["cpp/flyring-service-16"],
        "at_least": {"times": 4.0, "of": ["cpp/flyring-service-1"]},
    }
    rates = {"cpp/flyring-service-1": 5e6, "cpp/flyring-service-16": 25e6, "rust/iceoryx2-request-16": 3e6}
    results = make_run([target], rates, scenario="stream", wait="own", compared_with="*/flyring-service-1")
    (verdict,) = verdicts(results)
    assert verdict.reached and "5.00 times C++: Flyring service, one call at a time" in verdict.measured
    grid = Summary.of(results).parts[0].figures
    at = grid.head.index("times Flyring service, one call at a time, same language (95 % interval)")
    assert [row[at] for row in grid.rows] == ["0.200 (0.200–0.200)", "–", "–"]


ORDER = """
import sys
sys.path.insert(0, "bench/python")
import grpc_calls, harness
setup = harness.Setup("grpc", "b", "stream", 32, "write", "block", -1, sys.argv[1], 2, 0, 0.1, {"outstanding": "16"})
contender = grpc_calls.Grpc(setup)
messages = contender.messages(0).whole
try:
    for word in sys.argv[2].split():
        contender.echo.take(contender.end if word == "end" else bytes(32) if word == "zero" else messages[int(word)])
    print(contender.echo.received, "ended" if contender.echo.ended.acquire(blocking=False) else "goes on")
except harness.BenchError as error:
    print(error)
contender.close()
"""


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ("0 1 2 end", "3 ended"),
        ("1 0 3 4 2 end", "5 ended"),
        ("0 1", "0 goes on"),
        ("0 2 end", "1 messages came out of order, or twice"),
        ("0 0 end", "1 messages came out of order, or twice"),
        ("0 zero", "message 1 of this slice is wrong"),
    ],
)
def test_calls_that_overtake_each_other_are_checked(tmp_path: object, requests: str, said: str) -> None:
    if not (PYTHON_VENV / "peers.stamp").exists():
        pytest.skip("grpcio is not installed: ./dev bench --peers")
    command = [str(PYTHON_VENV / "bin/python"), "-c", ORDER, str(tmp_path), requests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert said in done.stdout
