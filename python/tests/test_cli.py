# SPDX-License-Identifier: Apache-2.0
"""The command ``flyring``: output, exit status, and files that are not channels (spec/api.md)."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sysconfig
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from conftest import GOLDEN, SPEC, Child, golden_id, load_golden, own_rings
from flyring import Channel, Heartbeat, __version__, layout
from flyring._core import crc32c
from flyring.cli import main

COMMANDS = (("info",), ("check",), ("recover",), ("evict", "0"))


class Command:
    """Runs the command in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def text(self, *arguments: object, status: int = 0) -> str:
        self.capsys.readouterr()
        assert main([str(one) for one in arguments]) == status
        out, error = self.capsys.readouterr()
        assert bool(error) == (status == 2), error
        return out or error

    def json(self, *arguments: object, status: int = 0) -> dict[str, Any]:
        document = json.loads(self.text(*arguments, "--json", status=status))
        assert isinstance(document, dict)
        return document


@pytest.fixture
def flyring(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys)


@contextmanager
def nobody() -> Iterator[None]:
    """Runs a ``with`` block as a user without special rights: if root, as another user; else unchanged."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_the_command_is_installed() -> None:
    (entry,) = entry_points(group="console_scripts", name="flyring")
    assert entry.load() is main
    command = Path(sysconfig.get_path("scripts")) / "flyring"
    done = subprocess.run([command, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"flyring {__version__} (layout {layout.MAJOR}.{layout.MINOR})\n")
    broken = subprocess.run(f"{command} info nothing --json; {command} ls | true", shell=True, capture_output=True)
    assert (broken.returncode, broken.stdout, b"Traceback" in broken.stderr) == (0, b"", False)


@pytest.mark.parametrize(
    "arguments", [(), ("nonsense",), ("info",), ("evict", "x"), ("evict", "x", "one"), ("ls", "-x")]
)
def test_wrong_usage_is_status_2(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert all(f"    {command} " in text for command in ("ls", "info", "check", "recover", "evict"))


@pytest.mark.parametrize("path", GOLDEN, ids=golden_id)
def test_golden_files_break_no_rule_and_recover_leaves_nothing(path: Path, folder: Path, flyring: Command) -> None:
    ring = folder / "golden.ring"
    ring.write_bytes(path.with_suffix(".ring").read_bytes())
    before = ring.read_bytes()
    assert flyring.json("check", "golden")["broken"] == 0
    assert flyring.text("check", "golden").endswith("records walked\n")
    assert ring.read_bytes() == before
    flyring.json("recover", "golden")
    after = flyring.json("check", "golden")
    workers = load_golden(path)["expected"]["subscribers"][1:] if is_queue(path) else []
    in_hand = sum(gate >= 0 for worker in workers for gate in worker["gates"])  # left to the next worker
    assert (after["broken"], after["left"]) == (0, in_hand)


def is_queue(path: Path) -> bool:
    return bool(load_golden(path)["expected"]["header"]["kind"] == layout.KIND_QUEUE)


@pytest.mark.parametrize("path", GOLDEN, ids=golden_id)
def test_info_tells_what_a_golden_file_holds(path: Path, flyring: Command) -> None:
    expected = load_golden(path)["expected"]
    found = flyring.json("info", path.with_suffix(".ring"))
    file = found["file"]
    assert (found["version"], found["id"]) == (1, expected["header"]["channel_id"])
    for field in ("capacity", "alignment"):
        assert found[field] == expected["header"][field]
    for field in ("publishers", "subscribers"):
        assert len(found[field]) == expected["header"][field]
    for field in ("counters", "file_length", "ring_stride"):
        assert file[field] == expected["header"][field]
    assert (file["problem"], file["another_boot"]) == (None, True)
    foreign = {0: None, 2: "publisher", 4: "subscriber"}[expected["header"]["required_features"]]
    assert found["foreign"] == foreign
    if foreign == "publisher":  # it stores only claimed
        (ours,), (theirs,) = found["publishers"], expected["publishers"]
        assert (ours["state"], ours["published"], ours["messages"]) == ("foreign", theirs["claimed"], -1)
        ours |= {"state": "unused", "published": 0, "messages": 0}
    assert [one["state"] for one in found["subscribers"]] == ["foreign"] or foreign != "subscriber"
    for ours, theirs in zip(found["publishers"], expected["publishers"], strict=True):
        for field in ("epoch", "start", "name", "pid", "attached_at", "published", "claimed", "messages"):
            assert ours[field] == theirs[field], field
        assert (ours["slot"], ours["blocked_since"]) == (theirs["ring"], 0)  # no slot is owned
        state = "unused" if not theirs["epoch"] else "closed" if theirs["closed"] else "away"
        if found["kind"] == "queue" and ours["slot"] == len(found["publishers"]) - 1:
            state = "returns"
        assert ours["state"] == state
    for ours, theirs in zip(found["subscribers"], expected["subscribers"], strict=True):
        for field in ("slot", "epoch", "name", "pid", "attached_at", "discarded"):
            assert ours[field] == theirs[field], field
        assert ours["kept"] == bool(theirs["kept"])
        positions = {gate["ring"]: gate["position"] for gate in ours["gates"]}
        own = own_rings(expected["header"], theirs["slot"])
        assert positions == {ring: gate for ring, gate in zip(own, theirs["gates"], strict=True) if gate >= 0}
        assert [ours["outstanding"], ours["expired"]] == [theirs.get("outstanding", -1), theirs.get("expired", -1)]
        behind = {gate["ring"]: gate["lag_messages"] for gate in ours["gates"]}
        done = [one["messages"] for one in expected["publishers"]]
        if found["kind"] == "queue":  # slot 0: the jobs that no worker has taken; workers: not known
            for ring, lag in behind.items():
                left = sum(job["from"] == ring for job in expected["jobs"])
                in_hand = any(one["gates"][ring] >= 0 for one in expected["subscribers"][1:])
                assert lag == -1 if ours["slot"] else lag < left if in_hand else lag == left
        else:
            counts = dict(zip(own, theirs["counts"], strict=True))
            assert behind == {ring: -1 if foreign else done[ring] - counts[ring] for ring in positions}
    keys = [{**c, "key": c["key"].ljust(224, "0")} for c in found["counters"]]
    assert keys == [{**c, "key": c["key"].ljust(224, "0")} for c in expected["counters"]]
    text = flyring.text("info", path.with_suffix(".ring"))
    assert found["id"] in text
    assert all(one["name"] in text for one in found["publishers"] + found["subscribers"])


@pytest.mark.parametrize("path", GOLDEN, ids=golden_id)
def test_info_shows_every_field_of_a_golden_file_by_its_name(path: Path, flyring: Command) -> None:
    expected = load_golden(path)["expected"]
    found: dict[str, dict[str, object]] = {}
    for field in flyring.json("info", path.with_suffix(".ring"), "--fields")["fields"]:
        found.setdefault(field["place"], {})[field["name"]] = field["value"]
    known = layout.FIELDS
    assert set(found["header"]) == {name for name, *_ in known["header"]}
    shown = {name: value for name, value in found["header"].items() if name in expected["header"]}
    assert shown == {name: value for name, value in expected["header"].items() if name in shown}
    for k, publisher in enumerate(expected["publishers"]):
        slot, trailer = found[f"publisher_slot {k}"], found[f"trailer {k}"]
        assert set(slot) == {name for name, *_ in known["publisher_slot"]}
        assert {name: slot[name] for name in slot if name in publisher} == {
            name: publisher[name] for name in slot if name in publisher
        }
        assert [trailer[name] for name in ("published", "claimed")] == [publisher["published"], publisher["claimed"]]
        gating = [one for one in expected["subscribers"] if k in own_rings(expected["header"], one["slot"])]
        at = [own_rings(expected["header"], one["slot"]).index(k) for one in gating]
        gates = [one["gates"][i] for one, i in zip(gating, at, strict=True)]
        assert [trailer["gate" if j == 0 else f"gate[{j}]"] for j in range(len(gates))] == gates
        counts = [one["counts"][i] for one, i in zip(gating, at, strict=True)]
        assert [found[f"gate {one['slot']} of ring {k}"]["count"] for one in gating] == counts
        assert len([name for name in trailer if name.startswith("boundary[")]) == layout.BOUNDARIES
    text = flyring.text("info", path.with_suffix(".ring"), "--fields")
    assert all(place in text and name in text for place, names in found.items() for name in names)


def test_live_slots_and_lag(flyring: Command) -> None:
    with Channel.create("life", "broadcast", publishers=3, subscribers=3, capacity=4096) as channel:
        publisher, other = channel.publisher("feed"), channel.publisher("shut")
        slow = channel.subscriber("slow", kept=True, rings=[0])
        gone = channel.subscriber("gone", kept=True)
        gone.close()
        other.close()
        publisher.offer(b"x" * 100)
        channel.counters().allocate("bells \x1b[31m and ü", 7, b"key").set(-5)
        found = flyring.json("info", "life")
        assert [one["state"] for one in found["publishers"]] == ["live", "closed", "unused"]
        assert [one["state"] for one in found["subscribers"]] == ["live", "away", "unused"]
        assert found["publishers"][0]["pid"] == os.getpid()
        assert found["subscribers"][0]["gates"] == [
            {"ring": 0, "position": slow.position(0), "lag": publisher.position, "lag_messages": 1}
        ]
        assert [gate["ring"] for gate in found["subscribers"][1]["gates"]] == [0, 1, 2]
        assert found["counters"] == [
            {"id": 0, "label": "bells \x1b[31m and ü", "type_id": 7, "key": b"key".hex(), "value": -5}
        ]
        text = flyring.text("info", "life")
        assert "\x1b" not in text
        assert "0:0 (1 messages)" in text
        (row,) = flyring.json("ls")["channels"]
        assert (row["live_publishers"], row["live_subscribers"], row["messages"]) == (1, 1, 1)
        assert (row["publishers"], row["subscribers"], row["capacity"], row["kind"]) == (3, 3, 4096, "broadcast")
        assert flyring.text("ls").splitlines()[1].split()[:5] == ["life", "broadcast", "3", "x", "3"]


def test_info_shows_heartbeats(flyring: Command) -> None:
    with Channel.create("life", "inbox", capacity=4096, counters=3) as channel:
        channel.counters().allocate("bells")
        assert flyring.json("info", "life")["heartbeats"] == []
        with Heartbeat(channel, "loop", interval=0.5) as loop, Heartbeat(channel, "idle", interval=0):
            for _ in range(3):
                loop.beat()
            first, second = flyring.json("info", "life")["heartbeats"]
            began = first.pop("started_at")
            assert 0 <= time.time_ns() - began < 60_000_000_000
            pid = os.getpid()
            assert first == {"id": loop.id, "name": "loop", "pid": pid, "interval": 500_000_000, "beats": 3}
            assert (second["name"], second["interval"], second["beats"]) == ("idle", 0, 0)
            lines = flyring.text("info", "life").splitlines()
            at = lines.index("2 heartbeats")
            assert lines[at + 1].split() == ["ID", "NAME", "PID", "PROMISE", "BEGAN", "BEATS"]
            assert lines[at + 2].split()[:5] == [str(loop.id), "loop", str(pid), "0.5", "s"]
            assert lines[at + 2].split()[-1] == "3"
            assert lines[at + 3].split()[3] == "-"


def test_info_names_the_blocked_publisher_and_its_holders(flyring: Command) -> None:
    with Channel.create("full", "broadcast", publishers=2, subscribers=3, capacity=4096) as channel:
        publisher = channel.publisher("feed")
        channel.subscriber("gone", kept=True, rings=[0]).close()
        reader = channel.subscriber("slow", rings=[0])
        assert "BLOCKED" not in flyring.text("info", "full")
        while publisher.offer(bytes(100)):
            pass
        ring, other = flyring.json("info", "full")["publishers"]
        assert (ring["blocked_by"], other["blocked_by"]) == ([0, 1], [])
        assert ring["blocked_length"] >= 64 and ring["blocked_since"] > 0 and 0 <= ring["blocked_for"] < 60e9
        text = flyring.text("info", "full")
        assert f"BLOCKED publisher 0 (feed, pid {os.getpid()}) for " in text
        assert "subscriber 0 (gone, no process owns it, kept: flyring evict frees it)" in text
        assert f"subscriber 1 (slow, pid {os.getpid()})" in text
        (row,) = flyring.json("ls")["channels"]
        assert row["blocked"] == [0]
        channel.evict(0)
        assert flyring.json("info", "full")["publishers"][0]["blocked_by"] == [1]
        reader.poll(lambda message: None)
        assert flyring.json("info", "full")["publishers"][0]["blocked_since"] == 0  # before the publisher notices
        assert publisher.offer(bytes(100))
        assert "BLOCKED" not in flyring.text("info", "full")


def test_ls_shows_what_is_no_whole_channel(folder: Path, flyring: Command) -> None:
    empty = {"channels": [], "not_whole": [], "tables": [], "journals": []}
    assert flyring.json("ls") == {"folder": str(folder), **empty}
    Channel.create("good", "inbox").close()
    (folder / "notes.txt").write_text("no channel, no concern")
    assert [one["name"] for one in flyring.json("ls")["channels"]] == ["good"]
    (folder / "empty.ring").touch()
    (folder / "foreign\x1b.ring").write_bytes(b"x" * 9999)
    (folder / "link.ring").symlink_to("good.ring")
    (folder / "folder.ring").mkdir()
    os.mkfifo(folder / "fifo.ring")
    cut = (folder / "good.ring").read_bytes()[:10000]
    (folder / "cut.ring").write_bytes(cut)
    found = flyring.json("ls", folder, status=1)
    assert [one["name"] for one in found["channels"]] == ["good"]
    assert {one["name"]: one["code"] for one in found["not_whole"]} == {
        "cut": "truncated",
        **dict.fromkeys(("empty", "foreign\x1b", "link", "folder", "fifo"), "not-a-channel"),
    }
    assert "\x1b" not in flyring.text("ls", status=1)
    assert "no-such" in flyring.text("ls", folder / "no-such", status=2)


def test_a_missing_default_folder_has_no_channels(folder: Path, flyring: Command, monkeypatch: Any) -> None:
    monkeypatch.setenv("FLYRING_DIR", str(folder / "later"))
    assert flyring.json("ls")["channels"] == []
    assert not (folder / "later").exists()


def make_odd(folder: Path, kind: str) -> Path:
    path = folder / "odd.ring"
    match kind:
        case "empty":
            path.touch()
        case "magic only":
            path.write_bytes(bytes.fromhex(layout.MAGIC_HEX))
        case "foreign":
            path.write_bytes(b"#!/bin/sh\n" * 1000)
        case "folder":
            path.mkdir()
        case "symbolic link":
            Channel.create("good", "inbox").close()
            path.symlink_to(folder / "good.ring")
        case "dangling link":
            path.symlink_to(folder / "nothing")
        case "fifo":
            os.mkfifo(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as one:
                one.bind(str(path))
        case "device":
            return Path("/dev/zero")
    return path


@pytest.mark.parametrize(
    "kind", ["empty", "magic only", "foreign", "folder", "symbolic link", "dangling link", "fifo", "socket", "device"]
)
def test_what_is_no_channel(kind: str, folder: Path, flyring: Command) -> None:
    path = make_odd(folder, kind)
    code = "truncated" if kind == "magic only" else "not-a-channel"
    (finding,) = flyring.json("check", path, status=1)["findings"]
    assert (finding["kind"], finding["severity"], finding["section"]) == (code, "broken", "3.3")
    assert "BROKEN" in flyring.text("check", path, status=1)
    assert flyring.json("info", path, status=1)["file"]["problem"]["code"] == code
    assert "NOT A VALID CHANNEL" in flyring.text("info", path, status=1)
    for command, *rest in (("recover",), ("evict", "0")):
        assert flyring.text(command, path, *rest, status=2).startswith("flyring: ")


@pytest.mark.parametrize(("command", "rest"), [(c[0], c[1:]) for c in COMMANDS])
def test_what_is_not_possible_is_status_2(command: str, rest: tuple[str, ...], folder: Path, flyring: Command) -> None:
    assert "there is no channel" in flyring.text(command, "nothing", *rest, status=2)
    assert "must be 1 to 64" in flyring.text(command, "*", *rest, status=2)
    assert "there is no channel" in flyring.text(command, folder / "no" / "folder", *rest, status=2)
    Channel.create("private", "inbox").close()
    folder.chmod(0o755)
    os.chmod(folder / "private.ring", 0)
    with nobody():
        assert "access" in flyring.text(command, "private", *rest, status=2)


def test_read_permission_is_enough_to_look(folder: Path, flyring: Command) -> None:
    with Channel.create("public", "broadcast", capacity=4096) as channel:
        publisher = channel.publisher()
        publisher.offer(b"hello")
        folder.chmod(0o755)
        os.chmod(channel.path, 0o444)
        before = Path(channel.path).read_bytes()
        with nobody():
            found = flyring.json("info", "public")
            assert [one["state"] for one in found["publishers"]] == ["live", "unused", "unused", "unused"]
            assert flyring.json("check", "public")["findings"] == []
            assert len(flyring.json("ls")["channels"]) == 1
            for command, *rest in (("recover",), ("evict", "0")):
                assert "Permission denied" in flyring.text(command, "public", *rest, status=2)
        assert Path(channel.path).read_bytes() == before


def check_flips() -> list[tuple[int, str, str | None]]:
    """Returns (offset, error, field) of every header byte, by layout.toml."""
    table = tomllib.loads((SPEC / "layout.toml").read_text("utf-8"))["flip"]
    return [(at, one["error"], one.get("field")) for one in table for at in range(one["first"], one["last"] + 1)]


@pytest.mark.long
def test_every_flipped_header_byte_is_found(folder: Path, flyring: Command) -> None:
    golden = GOLDEN[0].with_suffix(".ring").read_bytes()
    path = folder / "flipped.ring"
    for at, error, field in check_flips():
        if 256 < at < layout.HEADER_CRC and at % 64:
            continue  # only every 64th of the reserved bytes is tried
        content = bytearray(golden)
        content[at] ^= 0xFF
        path.write_bytes(content)
        if error == "file_length":
            (length,) = struct.unpack_from("<q", content, layout.HEADER_FILE_LENGTH)
            error, field = ("truncated", None) if length > len(content) else ("corrupt-header", "file_length")
        document = flyring.json("check", path, status=1)
        first = document["findings"][0]
        assert first["kind"] == error, at
        if field:
            assert first["offset"] == getattr(layout, f"HEADER_{field.upper()}"), at
            if at % 64 == 0:
                assert flyring.json("info", path, status=1)["file"]["problem"]["field"] == field


@pytest.mark.long
def test_bad_header_fields_are_named(folder: Path, flyring: Command) -> None:
    path = folder / "bad.ring"
    for case in tomllib.loads((SPEC / "layout.toml").read_text("utf-8"))["bad_field"]:
        with Channel.replace("bad", "inbox", capacity=1 << 20):
            content = bytearray(path.read_bytes())
        at = getattr(layout, f"HEADER_{case['field'].upper()}")
        content[at : at + case["size"]] = case["value"].to_bytes(case["size"], "little", signed=case["value"] < 0)
        struct.pack_into("<I", content, layout.HEADER_CRC, crc32c(content[: layout.HEADER_CRC_LENGTH]))
        path.write_bytes(content)
        first = flyring.json("check", path, status=1)["findings"][0]
        names = getattr(layout, f"HEADER_{case['names'].upper()}")
        assert first["kind"] == case["error"], case
        assert first["offset"] == (0 if case["error"] == "truncated" else names), case


@pytest.mark.long
def test_a_file_cut_anywhere(folder: Path, flyring: Command) -> None:
    golden = (SPEC / "golden" / "1.0" / "three-publishers.ring").read_bytes()
    expected = load_golden(SPEC / "golden" / "1.0" / "three-publishers.json")["expected"]
    path = folder / "cut.ring"
    for size in [*range(0, 200, 7), 4095, 4096, *range(4097, len(golden), 509), len(golden) - 1]:
        path.write_bytes(golden[:size])
        first = flyring.json("check", path, status=1)["findings"][0]
        assert first["kind"] == ("not-a-channel" if size < 8 else "truncated"), size
        found = flyring.json("info", path, status=1)
        slots = (size - layout.HEADER_LENGTH - layout.CONTROL_SLOTS) // layout.CONTROL_SLOT_LENGTH
        names = [one["name"] for one in expected["publishers"]][: max(0, slots)]
        assert [one["name"] for one in found["publishers"]] == names, size  # the rest of the file is still shown


def test_evict_takes_a_slot_away(flyring: Command, child: Callable[..., Child]) -> None:
    with Channel.create("evict", "broadcast", publishers=1, subscribers=2, capacity=4096) as channel:
        publisher = channel.publisher()
        victim = child(
            """
            from flyring import Channel, SlotLostError
            with Channel.open("evict") as channel:
                subscriber = channel.subscriber("slow", kept=True)
                print("joined", flush=True)
                input()
                try:
                    subscriber.take()
                    print("nothing")
                except SlotLostError:
                    print("lost", flush=True)
            """
        )
        assert victim.line() == "joined"
        count = 0
        while publisher.offer(b"x" * 100):
            count += 1
        found = flyring.json("evict", "evict", 0)
        assert found["unread"] == count > 0
        assert (found["name"], found["live"], found["kept"], found["rings"], found["epoch"]) == (
            "slow",
            True,
            True,
            [0],
            1,
        )
        assert publisher.offer(b"x" * 100)
        assert flyring.json("check", "evict")["broken"] == 0
        victim.say()
        assert victim.line() == "lost"
        assert victim.end() == 0
        assert "held no publisher back" in flyring.text("evict", "evict", 1)
        for unread, said in ((0, "no unread message is"), (1, "its 1 unread message is"), (2, "its 2 unread messages")):
            with channel.subscriber() as subscriber:
                for _ in range(unread):
                    assert publisher.offer(b"x" * 100)
                assert said in flyring.text("evict", "evict", subscriber.slot)
        for wrong in (2, 1000):
            assert "there are 2" in flyring.text("evict", "evict", wrong, status=2)
