# SPDX-License-Identifier: Apache-2.0
"""The test peer's streams are those of interop-tests/PEER.md, and it finds what is wrong with one."""

from __future__ import annotations

import json
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from conftest import SPEC

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peer"))
import flyring_peer
from flyring_stream import message_at

STREAMS = json.loads((SPEC.parent / "interop-tests" / "stream.json").read_text())


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: f"seed {stream['seed']}")
def test_a_stream_has_the_messages_of_the_file(stream: dict[str, Any]) -> None:
    for expected in stream["messages"]:
        kind, data = message_at(stream["seed"], expected["sequence"], stream["min"], stream["max"], None)
        assert (kind, len(data), data.hex()) == (expected["type"], expected["length"], expected["data"])


def conversation(*requests: dict[str, Any] | str) -> list[dict[str, Any]]:
    lines = [request if isinstance(request, str) else json.dumps(request) for request in requests]
    answers = StringIO()
    flyring_peer.serve(StringIO("\n".join(lines) + "\n"), answers)
    return [json.loads(line) for line in answers.getvalue().splitlines()]


START: list[dict[str, Any]] = [
    {"op": "create", "channel": "c", "name": "peer", "kind": "broadcast", "capacity": 65536, "id": 1},
    {"op": "publisher", "channel": "c", "publisher": "p"},
    {"op": "subscriber", "channel": "c", "subscriber": "s"},
]


@pytest.mark.parametrize("how", ["offer", "claim", "batch", "mix"])
@pytest.mark.parametrize("kind", [{}, {"type": 5}])
def test_what_a_peer_publishes_a_peer_verifies(how: str, kind: dict[str, int]) -> None:
    stream = {"seed": 9, "count": 200, "min": 0, "max": 100} | kind
    answers = conversation(
        *START,
        {"op": "publish_stream", "publisher": "p", "how": how} | stream,
        {"op": "verify_stream", "subscriber": "s", "how": "mix", "streams": [{"ring": 0} | stream]},
        {"op": "quit", "id": "bye"},
    )
    assert [answer["ok"] for answer in answers] == [True] * 6
    assert (answers[0]["id"], answers[-1]) == (1, {"ok": True, "id": "bye"})
    assert (answers[3]["count"], answers[4]["count"], answers[4]["verified"]) == (200, 200, True)


def test_a_wrong_stream_and_a_missing_one_are_reported() -> None:
    stream = {"seed": 9, "count": 10, "min": 50, "max": 100}
    answers = conversation(
        *START,
        {"op": "publish_stream", "publisher": "p", "how": "offer"} | stream,
        {"op": "verify_stream", "subscriber": "s", "streams": [{"ring": 0} | stream | {"seed": 10}]},
        {"op": "verify_stream", "subscriber": "s", "seconds": 0.1, "streams": [{"ring": 0} | stream | {"count": 99}]},
    )
    assert answers[4]["error"] == "mismatch"
    assert (answers[4]["ring"], answers[4]["sequence"]) == (0, 0)
    assert answers[5]["error"] in ("timeout", "mismatch")


def test_errors_carry_what_they_say_and_nonsense_is_a_bad_request() -> None:
    answers = conversation(
        *START,
        {"op": "open", "channel": "d", "name": "missing"},
        {"op": "offer", "publisher": "p", "data": "00" * 20000},
        {"op": "offer", "publisher": "nobody", "data": ""},
        {"op": "fly"},
        "this is no JSON",
        {"op": "open_or_create", "channel": "e", "name": "peer", "kind": "broadcast", "capacity": 4096},
        {"op": "hello"},
    )[3:]
    assert answers[0]["error"] == "no-such-channel"
    assert (answers[1]["error"], answers[1]["length"], answers[1]["limit"]) == ("too-large", 20000, 16376)
    assert [answer["error"] for answer in answers[2:5]] == ["bad-request"] * 3
    assert (answers[5]["error"], answers[5]["field"]) == ("differs", "capacity")
    assert answers[6]["language"] == "python"
