# SPDX-License-Identifier: Apache-2.0
"""Every language answers the same bad request with the same error code and details."""

import json
import os
import socket
import struct
import subprocess

from driver import ROOT
from harness import equal, refused, true, Wrong

OPTIONS = {"kind": "broadcast", "capacity": 4096, "publishers": 2, "subscribers": 2, "counters": 2}


def bad_requests(run, language):
    """A peer answers *bad request* to what it does not understand, and goes on."""
    peer = run.peer(language)
    for line in (
        "not json",
        "[]",
        "{}",
        '{"op": "dance"}',
        '{"op": "offer", "publisher": "nobody", "data": "00"}',
        '{"op": "poll", "subscriber": "nobody", "limit": 1}',
        '{"op": "info", "channel": "nobody"}',
    ):
        peer.send_line(line, {"op": line})
        try:
            peer.receive()
        except Exception as e:  # any exception; `code` tells which
            equal(f"{peer.label}: {line}", getattr(e, "code", str(e)), "bad-request")
        else:
            raise Wrong(f"{peer.label}: {line}: expected an error, found an answer")
    equal("layout", peer.call("hello")["layout"], "1.0")
    equal(
        "ops",
        set(peer.hello["ops"])
        >= {
            "hello",
            "create",
            "open_or_create",
            "replace",
            "open",
            "info",
            "unlink",
            "publisher",
            "subscriber",
            "offer",
            "offer_batch",
            "claim",
            "commit",
            "abort",
            "held_by",
            "take",
            "poll",
            "positions",
            "publish_stream",
            "verify_stream",
            "counter_allocate",
            "counter_find",
            "counter_get",
            "counter_set",
            "counter_add",
            "counter_cas_loop",
            "counter_free",
            "counters",
            "close",
            "forget",
        },
        True,
    )


def socket_and_quit(run, language):
    """A peer also works through a Unix socket. `quit` and the end of input end it with status 0."""
    path = str(run.folder / "peer.socket")
    for last_words in (b'{"op": "quit"}\n', b""):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            listener.settimeout(20)
            process = subprocess.Popen(
                [*run.commands[language], "--socket", path],
                stdin=subprocess.DEVNULL,
                cwd=ROOT,
                stdout=subprocess.PIPE,
                env=os.environ | {"FLYRING_DIR": str(run.folder)},
            )
            try:
                connection, _ = listener.accept()
                with connection, connection.makefile("rw") as lines:
                    connection.settimeout(10)
                    lines.write('{"op": "hello", "id": "first"}\n')
                    lines.flush()
                    answer = json.loads(lines.readline())
                    equal("hello", (answer["ok"], answer["id"], answer["pid"]), (True, "first", process.pid))
                    connection.sendall(last_words)
                    connection.shutdown(socket.SHUT_WR)
                    equal("status", process.wait(10), 0)
                equal("standard output", process.stdout.read(), b"")
            except (OSError, subprocess.TimeoutExpired) as e:
                raise Wrong(f"{language} --socket: {e!r}, status {process.poll()}") from e
            finally:
                process.kill()
                process.stdout.close()
                process.wait()
        os.unlink(path)


def bad_options(run, language):
    """Options out of range are *invalid argument*, and an existing name is *exists*. Neither leaves a file."""
    peer = run.peer(language)
    for wrong in (
        {"kind": "pipe"},
        {"capacity": 2048},
        {"capacity": 5000},
        {"capacity": 2**31},
        {"capacity": -4096},
        {"publishers": 0},
        {"publishers": 1025},
        {"subscribers": -1},
        {"subscribers": 1025},
        {"kind": "inbox", "subscribers": 0},
        {"kind": "inbox", "subscribers": 2},
        {"alignment": 0},
        {"alignment": 16},
        {"counters": -1},
        {"counters": 65537},
        {"schema_id": 65536, "schema": "x"},
        {"schema_version": -1, "schema": "x"},
        {"schema_id": 1},
        {"schema_version": 1},
    ):
        name = run.name()
        refused("invalid-argument", peer, "create", channel=name, name=name, **OPTIONS | wrong)
    for name in ("", "a b", "ü", "n" * 65, "a\nb"):
        refused("invalid-argument", peer, "create", channel=run.name(), name=name, **OPTIONS)
        refused("invalid-argument", peer, "open", channel=run.name(), name=name)
    name = run.name()
    answer = refused(
        "no-space", peer, "create", channel=name, name=name, **OPTIONS | {"capacity": 2**30, "publishers": 1024}
    )
    true("needed > 2^40 > free >= 0", answer["needed"] > 2**40 > answer["free"] >= 0, answer)
    equal("nothing is left", os.listdir(run.folder), [])
    peer.call("create", channel=name, name=name, **OPTIONS)
    answer = refused("exists", peer, "create", channel=name + "x", name=name, **OPTIONS)
    equal("path", os.path.realpath(answer["path"]), os.path.realpath(run.folder / (name + ".ring")))
    wrong = OPTIONS | {"kind": "inbox", "subscribers": 0}  # checked before the comparison with the existing channel
    refused("invalid-argument", peer, "open_or_create", channel=name + "y", name=name, **wrong)


def bad_files(run, language):
    """Files that are not valid channels are refused with the right error."""
    peer, name = run.peer(language), run.name()
    golden = (ROOT / "spec" / "golden" / "1.0" / "one-message.ring").read_bytes()

    def attach(content, code, **expected):
        path = run.folder / (run.name() + ".ring")
        path.write_bytes(content)
        answer = refused(code, peer, "open", channel=run.name(), name=str(path))
        for field, value in expected.items():
            equal(f"{peer.label}: {code}: {field}", answer.get(field), value)
        equal("the file is as it was", path.read_bytes() == content, True)

    def changed(offset, replacement):
        return golden[:offset] + replacement + golden[offset + len(replacement) :]

    attach(b"", "not-a-channel")
    attach(b"FLYRIN", "not-a-channel")
    attach(b"hello, world\n" * 1000, "not-a-channel")
    attach(golden[:8], "truncated")
    attach(golden[:4095], "truncated")
    attach(golden[:-1], "truncated")
    attach(golden + b"\0", "corrupt-header", field="file_length")
    attach(changed(8, b"\2"), "version-too-new", field="major")
    attach(changed(16, b"\1"), "version-too-new", field="required_features")
    attach(changed(73, b"\x20"), "corrupt-header", field="crc")
    attach(changed(4092, bytes(4)), "corrupt-header", field="crc")
    refused("no-such-channel", peer, "open", channel=name, name=name)
    refused("no-such-channel", peer, "open", channel=name, name=str(run.folder / "nowhere" / "x"))
    refused("no-such-channel", peer, "unlink", name=name)
    (run.folder / "folder.ring").mkdir()
    refused("not-a-channel", peer, "open", channel=name, name="folder")
    (run.folder / "text.ring").write_text("not to be removed")
    refused("not-a-channel", peer, "unlink", name="text")
    equal("text", (run.folder / "text.ring").read_text(), "not to be removed")
    (run.folder / "link.ring").symlink_to(ROOT / "spec" / "golden" / "1.0" / "one-message.ring")
    refused("not-a-channel", peer, "open", channel=name, name="link")
    os.mkfifo(run.folder / "pipe.ring")
    refused("not-a-channel", peer, "open", channel=name, name="pipe")


def bad_uses(run, language):
    """Invalid arguments, too large messages, and operations that are not allowed at the same time."""
    peer, name = run.peer(language), run.name()
    peer.call("create", channel=name, name=name, **OPTIONS)
    peer.call("publisher", channel=name, publisher=name)
    start = peer.call("positions", publisher=name)["position"]
    for op, fields in (
        ("offer", {"data": "00" * 1017, "type": 1}),
        ("claim", {"length": 1017, "type": 1}),
        ("offer_batch", {"data": ["00", "00" * 1017], "type": 1}),
    ):
        answer = refused("too-large", peer, op, publisher=name, **fields)
        equal("length and limit", (answer.get("length"), answer.get("limit")), (1017, 1016))
    for kind in (0, -1, -2, -(2**31)):
        refused("invalid-argument", peer, "offer", publisher=name, data="00", type=kind)
        refused("invalid-argument", peer, "claim", publisher=name, length=1, type=kind)
        refused("invalid-argument", peer, "offer_batch", publisher=name, data=["00"], type=kind)
    equal("nothing was published", peer.call("positions", publisher=name)["position"], start)
    peer.call("claim", publisher=name, length=10, type=1)
    refused("view-alive", peer, "claim", publisher=name, length=1, type=1)
    refused("view-alive", peer, "offer", publisher=name, data="00", type=1)
    refused("view-alive", peer, "offer_batch", publisher=name, data=["00"], type=1)
    peer.call("abort", publisher=name)

    refused("invalid-argument", peer, "publisher", channel=name, publisher="x", name="n" * 65)
    refused("invalid-argument", peer, "subscriber", channel=name, subscriber="x", name="n" * 65)
    refused("invalid-argument", peer, "subscriber", channel=name, subscriber="x", kept=True)
    refused("invalid-argument", peer, "subscriber", channel=name, subscriber="x", rings=[2])
    refused("invalid-argument", peer, "subscriber", channel=name, subscriber="x", rings=[-1])
    peer.call("publisher", channel=name, publisher=name + "2")
    refused("no-free-slot", peer, "publisher", channel=name, publisher="x")
    for i in range(2):
        peer.call("subscriber", channel=name, subscriber=f"{name}{i}")
    refused("no-free-slot", peer, "subscriber", channel=name, subscriber="x")

    refused("invalid-argument", peer, "counter_allocate", channel=name, label="l" * 381, type_id=0, key="")
    refused("invalid-argument", peer, "counter_allocate", channel=name, label="ü" * 191, type_id=0, key="")
    refused("invalid-argument", peer, "counter_allocate", channel=name, label="", type_id=0, key="00" * 113)
    for i in range(2):
        peer.call("counter_allocate", channel=name, label="l" * 380, type_id=0, key="00" * 112)
    refused("no-space", peer, "counter_allocate", channel=name, label="", type_id=0, key="")
    for counter in (-1, 2):
        refused("invalid-argument", peer, "counter_get", channel=name, counter=counter, order="plain")


def slots_taken_away(run, language):
    """The driver evicts by hand (channel.md 6.11): the next use is *slot lost*, and the subscriber stops gating."""
    peer, name = run.peer(language), run.name()
    peer.call("create", channel=name, name=name, **OPTIONS)
    peer.call("publisher", channel=name, publisher=name)
    slot = peer.call("subscriber", channel=name, subscriber=name)["slot"]
    peer.call("offer", publisher=name, data="00", type=1)
    with open(run.folder / (name + ".ring"), "r+b", buffering=0) as f:
        f.seek(4096 + 256 + 256 * 2 + 256 * slot)
        f.write(struct.pack("<q", 2))
        answer = refused("slot-lost", peer, "poll", subscriber=name, limit=1)
        equal("slot", answer.get("slot"), slot)
        refused("slot-lost", peer, "take", subscriber=name)
        header = os.pread(f.fileno(), 4096, 0)
        rings, capacity = struct.unpack_from("<q", header, 136)[0], 4096
        equal("gate", struct.unpack("<q", os.pread(f.fileno(), 8, rings + capacity + 384))[0], -1)
        f.seek(4096 + 256)
        f.write(struct.pack("<q", 2))
        refused("slot-lost", peer, "offer", publisher=name, data="00", type=1)
        refused("slot-lost", peer, "claim", publisher=name, length=1, type=1)


def bad_rings(run, language):
    """Invalid records are *corrupt ring*, with ring and position; other rings go on."""
    peer = run.peer(language)
    for length, kind in ((7, 1), (4096, 1), (2**31 - 1, 1), (12, 0), (12, -3), (8, -(2**31))):
        name = run.name()
        peer.call("create", channel=name, name=name, **OPTIONS)
        for n in "ab":
            peer.call("publisher", channel=name, publisher=name + n)
        peer.call("subscriber", channel=name, subscriber=name)
        end = [peer.call("offer", publisher=name + n, data="00", type=1)["position"] for n in "ab"][0]
        peer.call("offer", publisher=name + "a", data="01", type=1)
        with open(run.folder / (name + ".ring"), "r+b", buffering=0) as f:
            rings = struct.unpack("<q", os.pread(f.fileno(), 8, 136))[0]
            os.pwrite(f.fileno(), struct.pack("<ii", length, kind), rings + end)
        found = []
        for _ in range(2):
            try:
                found += peer.call("poll", subscriber=name, limit=10)["messages"]
            except Exception as e:  # the first poll may have handed out messages before; then the second one raises
                equal(f"{peer.label}: length {length}, type {kind} ({e})", getattr(e, "code", None), "corrupt-ring")
                equal("ring and position", (e.answer.get("ring"), e.answer.get("position")), (0, end))
                break
        else:
            raise Wrong(f"{peer.label}: length {length}, type {kind}: expected an error in two polls, found {found}")
        peer.call("offer", publisher=name + "b", data="02", type=1)
        after = peer.call("poll", subscriber=name, limit=10)["messages"]
        true(
            f"{peer.label}: the other ring goes on: its messages, 02 last",
            after and after[-1]["data"] == "02" and all(m["ring"] == 1 for m in after),
            after,
        )


def nothing_but_padding(run, language):
    """In a hostile ring full of padding, a poll ends, and also reads the other ring."""
    peer, name = run.peer(language), run.name()
    peer.call("create", channel=name, name=name, **OPTIONS)
    peer.call("publisher", channel=name, publisher=name + "a")
    peer.call("publisher", channel=name, publisher=name)
    peer.call("subscriber", channel=name, subscriber=name, rings=[0, 1])
    with open(run.folder / (name + ".ring"), "r+b", buffering=0) as f:
        rings = struct.unpack("<q", os.pread(f.fileno(), 8, 136))[0]
        os.pwrite(f.fileno(), struct.pack("<ii", 4096, -1), rings)
    peer.call("offer", publisher=name, data="0a", type=1)
    found = [m for _ in range(3) for m in peer.call("poll", subscriber=name, limit=10)["messages"]]
    equal("of the other ring", [(m["ring"], m["data"]) for m in found], [(1, "0a")])
    equal("taken", peer.call("take", subscriber=name)["message"], None)
