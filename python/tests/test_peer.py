# SPDX-License-Identifier: Apache-2.0
"""The test peer makes the streams of interop-tests/PEER.md, and finds errors in streams."""

from __future__ import annotations

import json
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from conftest import SPEC
from flyring import Channel
from waits import Waits

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


WAITS: list[dict[str, Any]] = [
    {"op": "create", "channel": "c", "name": "peer", "kind": "broadcast", "capacity": 4096},
    {"op": "publisher", "channel": "c", "publisher": "p"},
    {"op": "subscriber", "channel": "c", "subscriber": "s", "timeout": 0},
]


def test_ops_that_wait() -> None:
    fills = [{"op": "offer", "publisher": "p", "data": "00" * 900, "timeout": None}] * 4
    answers = conversation(
        *WAITS,
        {"op": "flush", "publisher": "p", "timeout": 0.001},
        {"op": "take", "subscriber": "s", "timeout": 0.001},
        {"op": "poll", "subscriber": "s", "limit": 3, "timeout": 0.001},
        *fills,
        {"op": "offer", "publisher": "p", "data": "00" * 900, "timeout": 0.001},
        {"op": "offer_batch", "publisher": "p", "data": ["00" * 900], "timeout": 0.001},
        {"op": "claim", "publisher": "p", "length": 900, "timeout": 0.001},
        {"op": "flush", "publisher": "p", "timeout": 0.001},
        {"op": "open", "channel": "d", "name": "missing", "timeout": 0.001},
        {"op": "open", "channel": "d", "name": "peer", "timeout": 1, "wake": False},
        {"op": "poll", "subscriber": "s", "limit": 9, "timeout": 1},
        {"op": "claim", "publisher": "p", "length": 4, "timeout": None},
        {"op": "commit", "publisher": "p", "data": "01020304"},
        {"op": "take", "subscriber": "s", "timeout": None},
        {"op": "flush", "publisher": "p"},
    )[3:]
    assert [answers[0]["ok"], answers[1]["message"], answers[2]["messages"]] == [True, None, []]
    assert all(answer["position"] > 0 for answer in answers[3:7])
    assert [answer.get("error") for answer in answers[7:12]] == [
        "back-pressured",
        None,
        "back-pressured",
        "timed-out",
        "timed-out",
    ]
    assert answers[8]["taken"] == 0
    assert all(answer["what_for"] for answer in answers[10:12])
    assert answers[12]["ok"]
    assert len(answers[13]["messages"]) == 4
    assert answers[14]["claimed"]
    assert answers[16]["message"]["data"] == "01020304"
    assert answers[17] == {"ok": True}


def test_a_stream_goes_through_verbs_that_wait() -> None:
    stream = {"seed": 9, "count": 300, "min": 0, "max": 100, "wait": "block", "spin": 0}
    with Channel.create("peer", "broadcast", capacity=4096):
        peers = [flyring_peer.Peer(), flyring_peer.Peer()]
        for peer, handle in zip(peers, ("publisher", "subscriber"), strict=True):
            for request in (
                {"op": "open", "channel": "c", "name": "peer"},
                {"op": handle, "channel": "c", handle: "h"},
            ):
                assert peer.answer(json.dumps(request))["ok"]
        publish = {"op": "publish_stream", "publisher": "h", "how": "mix"} | stream
        waits = Waits(lambda: peers[0].answer(json.dumps(publish)))
        verify = {
            "op": "verify_stream",
            "subscriber": "h",
            "how": "mix",
            "wait": "block",
            "streams": [{"ring": 0} | stream],
        }
        assert peers[1].answer(json.dumps(verify))["verified"]
        assert waits.end()["count"] == 300
        for peer in peers:
            peer.close_all()


def test_one_message_to_and_fro() -> None:
    with Channel.create("peer", "broadcast", capacity=4096, publishers=2):
        peers = [flyring_peer.Peer(), flyring_peer.Peer()]

        def both(*requests: dict[str, Any]) -> list[dict[str, Any]]:
            waits = Waits(lambda: peers[0].answer(json.dumps(requests[0])))
            answer = peers[1].answer(json.dumps(requests[-1]))
            return [waits.end(), answer]

        for ring, peer in enumerate(peers):
            for request in (
                {"op": "open", "channel": "c", "name": "peer"},
                {"op": "publisher", "channel": "c", "publisher": "p"},
                {"op": "subscriber", "channel": "c", "subscriber": "s", "rings": [1 - ring]},
            ):
                assert peer.answer(json.dumps(request))["ok"]
        ping = {"op": "ping_pong", "publisher": "p", "subscriber": "s", "count": 200}
        for answer in both(ping | {"first": True}, ping | {"late": 0}):
            assert (answer["ok"], answer["count"]) == (True, 200)
            assert 0 < answer["longest"] <= answer["seconds"] * 1e9
            late = answer["late"]
        assert late == 200  # of the second stream
        wrong = both(ping | {"first": True, "count": 1}, {"op": "offer", "publisher": "p", "data": "05" + "00" * 15})
        assert (wrong[0]["error"], wrong[0]["ring"], wrong[0]["sequence"]) == ("mismatch", 1, 0)
        assert peers[1].answer(json.dumps({"op": "take", "subscriber": "s"}))["ok"]
        silent = peers[0].answer(json.dumps(ping | {"seconds": 0.01}))
        assert (silent["ok"], silent["error"]) == (False, "timeout")
        for peer in peers:
            peer.close_all()


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


def test_lossy_readers_senders_and_evict_by_request() -> None:
    answers = conversation(
        START[0],
        {"op": "publisher", "channel": "c", "publisher": "p", "name": "feed", "max_lag": 65536},
        START[2],
        {"op": "open", "channel": "r", "name": "peer", "read_only": True},
        {"op": "lossy_subscriber", "channel": "r", "subscriber": "l", "rings": [0]},
        {"op": "offer", "publisher": "p", "data": "01", "type": 7},
        {"op": "peek", "subscriber": "l"},
        {"op": "valid", "subscriber": "l"},
        {"op": "valid", "subscriber": "l"},
        {"op": "lost", "subscriber": "l", "ring": 0},
        {"op": "publisher", "channel": "r", "publisher": "q"},
        {"op": "take", "subscriber": "s"},
        {"op": "evict", "channel": "c", "slot": 4},
        {"op": "evict", "channel": "c", "slot": 0},
        {"op": "take", "subscriber": "s"},
        {"op": "close", "publisher": "p"},
        {"op": "ended", "subscriber": "l", "ring": 0},
        {"op": "lossy_subscriber", "channel": "c", "subscriber": "o", "start": "oldest"},
        {"op": "poll", "subscriber": "o"},
        {"op": "peek", "subscriber": "s"},
        {"op": "publisher", "channel": "c", "publisher": "x", "max_lag": 1},
    )[3:]
    message = {"data": "01", "type": 7, "ring": 0, "position": 64, "sender": {"name": "feed", "epoch": 1}}
    assert answers[1] == {"ok": True, "rings": [0], "positions": {"0": 0}}
    assert answers[3] == {"ok": True, "message": message}
    assert answers[4] == {"ok": True, "valid": True}
    assert (answers[5]["error"], answers[5]["argument"]) == ("invalid-argument", "valid")
    assert answers[6] == {"ok": True, "messages": 0, "bytes": 0}
    assert (answers[7]["error"], answers[7]["path"][-9:]) == ("access-denied", "peer.ring")
    assert answers[8] == {"ok": True, "message": message}
    assert (answers[9]["error"], answers[9]["argument"]) == ("invalid-argument", "slot")
    assert answers[10] == {"ok": True, "messages": 0}
    assert (answers[11]["error"], answers[11]["slot"]) == ("slot-lost", 0)
    assert answers[13] == {"ok": True, "ended": True}
    assert answers[15]["messages"] == [message]
    assert answers[16]["error"] == "bad-request"
    assert (answers[17]["error"], answers[17]["argument"]) == ("invalid-argument", "max_lag")
