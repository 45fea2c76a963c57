# SPDX-License-Identifier: Apache-2.0
"""Tests of the matrix itself: it finds and reports faults (liar.py), and ends. Needs built peers."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
PEERS = Path(os.environ.get("INTEROP_PEERS", HERE / "peers.toml"))
sys.path.insert(0, str(HERE))
from driver import commands  # noqa: E402

HONEST = commands(PEERS)["python"]


class Result:
    def __init__(self, process, folder):
        self.status, self.text = process.returncode, process.stdout + process.stderr
        self.last = process.stdout.rstrip("\n").rpartition("\n")[2]
        self.table = (folder / "table.txt").read_text() if (folder / "table.txt").exists() else ""
        self.page = (folder / "index.html").read_text() if (folder / "index.html").exists() else ""
        found = re.findall(r"^(ok|FAIL|skip) *\[ *\d+/\d+\] (\S+)", process.stdout, re.M)
        self.outcome = {cell: outcome for outcome, cell in found}


@pytest.fixture
def matrix(tmp_path):
    """Returns a function that runs the matrix with the peer `honest` and, with a fault, `liar`, both in Python."""

    def run(*arguments, fault=None, environment=None):
        peers = {"honest": HONEST}
        if fault:
            peers["liar"] = [sys.executable, str(HERE / "liar.py"), fault, *HONEST]
        toml = "".join(f"[{name}]\ncommand = {json.dumps(command)}\n" for name, command in peers.items())
        (tmp_path / "peers.toml").write_text(toml)
        argv = [sys.executable, str(HERE / "matrix.py"), "--short", "--peers", str(tmp_path / "peers.toml")]
        argv += ["--report", str(tmp_path / "report"), *arguments]
        process = subprocess.run(
            argv, capture_output=True, text=True, timeout=120, env=os.environ | (environment or {})
        )
        return Result(process, tmp_path / "report")

    return run


def ids(*cells):
    return [word for cell in cells for word in ("--cell", cell)]


# scenarios in which the liar publishes a wrong message, and in which it only reads
PUBLISHES = [
    *("one-to-one/liar-honest", "all-to-one/honest", "one-to-all/liar", "bus/all", "claims/liar-honest"),
    *("batch/liar-honest", "sizes/liar-honest", "alignments/liar-honest", "wrap/liar-honest", "lossy/liar-honest"),
    *("kept/liar-honest", "join-and-leave/honest", "publisher-killed/honest-liar", "reversed/liar-honest"),
    *("create-open/liar-honest", "subscriber-killed/liar-honest"),
]
READS = ["one-to-one/honest-liar", "one-to-all/honest", "wrap/honest-liar", "counters/all"]


@pytest.mark.parametrize(
    "fault, published",
    [
        ("byte", PUBLISHES[::3]),
        pytest.param("byte", PUBLISHES, marks=pytest.mark.long),
        pytest.param("drop", PUBLISHES, marks=pytest.mark.long),
    ],
    ids=["byte-some", "byte", "drop"],
)
def test_one_wrong_message_fails_the_cells_in_which_it_is_published(matrix, fault, published):
    result = matrix("--watchdog", "20", *ids(*published, *READS), fault=fault)
    assert {cell: result.outcome.get(cell) for cell in published} == dict.fromkeys(published, "FAIL"), result.text
    honest = [cell for cell in READS if cell != "one-to-all/honest"]
    assert {cell: result.outcome.get(cell) for cell in honest} == dict.fromkeys(honest, "ok"), result.text
    assert result.status == 1
    assert result.last == f"{result.text.count('ok   [')} passed, {len(published)} failed"


@pytest.mark.parametrize(
    "fault, cell",
    [
        ("blind", "one-to-one/honest-liar"),
        pytest.param("blind", "lossy/honest-liar", marks=pytest.mark.long),
        ("miscount", "lossy/honest-liar"),
        pytest.param("wrong-sum", "counters/all", marks=pytest.mark.long),
        ("forgetful", "kept/honest-liar"),
        pytest.param("forgetful", "kept-killed/liar-honest", marks=pytest.mark.long),
        ("immortal", "publisher-killed/liar-honest"),
        pytest.param("immortal", "kept-killed/liar-honest", marks=pytest.mark.long),
        pytest.param("immortal", "subscriber-killed/honest-liar", marks=pytest.mark.long),
    ],
)
def test_other_lies_are_found(matrix, fault, cell):
    result = matrix("--watchdog", "5", *ids(cell), fault=fault)
    assert (result.outcome, result.status, result.last) == ({cell: "FAIL"}, 1, "0 passed, 1 failed"), result.text


def test_a_failing_cell_shows_its_seed_its_command_and_the_logs_of_both_peers(matrix):
    cell = "one-to-one/liar-honest"
    result = matrix(*ids(cell), "--seed", "77", fault="byte", environment={"INTEROP_COMMAND": "again"})
    assert f"again --cell {cell} --seed 77 --short" in result.text
    for text in (f"again --cell {cell} --seed 77 --short", "publish_stream", "verify_stream", "mismatch"):
        assert text in result.page
    (number,) = re.findall(r"Seed (\d+)\.", result.page)
    seed = {number} | set(re.findall(r"Seed (\d+)\.", matrix(*ids(cell), "--seed", "77", fault="byte").page))
    assert seed == {number}
    assert re.findall(r"Seed (\d+)\.", matrix(*ids(cell), "--seed", "78", fault="byte").page) != [number]
    assert len(re.findall(r"<h3>(?:liar|honest)-\d+\.log</h3>", result.page)) == 2


@pytest.mark.long
def test_a_peer_that_ends_and_one_that_hangs(matrix):
    """Their cells fail within the watchdog's time, and the next cell is run."""
    cells, expected = ids("one-to-one/liar-honest", "kept/honest-honest"), ["FAIL", "ok"]
    crashed = matrix(*cells, fault="crash=publish_stream")
    assert (list(crashed.outcome.values()), crashed.status) == (expected, 1), crashed.text
    assert "the liar ends at publish_stream" in crashed.text and "the liar ends at publish_stream" in crashed.page
    for op in ("publisher", "publish_stream"):
        begin = time.monotonic()
        hung = matrix(*cells, "--watchdog", "8", fault=f"hang={op}")
        assert time.monotonic() - begin < 50
        assert (list(hung.outcome.values()), hung.status) == (expected, 1), hung.text
        assert hung.last == "1 passed, 1 failed"


def test_a_peer_that_does_not_start_fails(matrix):
    result = matrix(*ids("one-to-one/liar-honest", "one-to-one/honest-honest"), fault="crash=hello")
    assert result.outcome == {"one-to-one/honest-honest": "ok", "one-to-one/liar-honest": "FAIL"}, result.text


def test_a_language_that_lacks_an_op_is_listed_as_skipped(matrix):
    result = matrix(*ids("claims/liar-honest", "claims/honest-honest", "counters/all"), fault="lacks=abort")
    assert result.outcome == {"claims/honest-honest": "ok", "claims/liar-honest": "skip", "counters/all": "ok"}
    assert "skipped: claims/liar-honest: liar has no abort" in result.text
    assert "claims/liar-honest: liar has no abort" in result.page
    assert re.search(r"claims +liar → honest +skipped +.*liar has no abort", result.table)
    assert (result.status, result.last) == (0, "2 passed, 0 failed")
    result = matrix(*ids("counters/all", "lossy/honest-honest"), fault="lacks=counter_add")
    assert (result.outcome, result.status) == ({"counters/all": "ok", "lossy/honest-honest": "ok"}, 0), result.text
    assert "skipped: counters/liar: liar has no counter_add" in result.text


@pytest.mark.long
def test_nothing_passed_is_a_failure(matrix):
    result = matrix(*ids("claims/liar-liar"), fault="lacks=abort")
    assert (result.status, result.last) == (1, "0 passed, 0 failed"), result.text
    assert matrix("--only", "no such cell").status == 1
    assert matrix("--cell", "no/such").status == 2
    assert matrix("--languages", "cobol").status == 2


def test_cells_are_chosen_by_text_language_and_id(matrix):
    result = matrix("--only", "one-to-one", "--languages", "honest", fault="byte")
    assert (list(result.outcome), result.status) == (["one-to-one/honest-honest"], 0), result.text
    assert "liar" not in result.table


LOOP = 'while [ ! -e "$0/done" ]; do "$@" --socket "$0/honest-$N.sock" 2>> "$0/honest-$N.stderr"; sleep 0.1; done'


@pytest.mark.long
def test_peers_that_others_start_are_let_in_through_sockets(matrix, tmp_path):
    """As in containers, loops start the peers, and restart dead ones. The driver starts and kills none."""
    sockets, channels = tmp_path / "s", tmp_path / "channels"
    environment = os.environ | {"FLYRING_DIR": str(channels)}
    loops = [
        subprocess.Popen(["sh", "-c", LOOP, str(sockets), *HONEST], env=environment | {"N": n}) for n in ("1", "2", "3")
    ]
    try:
        cells = ids(
            "one-to-one/honest-honest", "create-open/honest-honest", "publisher-killed/honest-honest", "bus/all"
        )
        result = matrix("--sockets", str(sockets), *cells, environment=environment)
        assert (result.status, result.last) == (0, "4 passed, 0 failed"), result.text
        assert [loop.wait(10) for loop in loops] == [0, 0, 0]
        assert list(channels.iterdir()) == []
    finally:
        for loop in loops:
            loop.kill()
