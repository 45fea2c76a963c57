# SPDX-License-Identifier: Apache-2.0
"""Typed messages (spec/messages.md) between languages. In the demo programs' typed ping-pong, each side writes every
field with its own codec, and compares every field of the answer. Also `flyring tail` and `flyring publish`."""

import json
import os
import subprocess
import sys

from driver import ROOT
from harness import equal, true

sys.path.insert(0, str(ROOT / "bench"))
import demos  # noqa: E402

TYPED = ROOT / "spec" / "golden" / "1.0" / "typed"
PAYLOAD = 70  # bytes of a PriceUpdate with its header


def flyring(*arguments, given=None):
    """Runs `flyring ARGUMENTS`. Returns its output and status."""
    done = subprocess.run(
        [sys.executable, "-m", "flyring.cli", *arguments], input=given, capture_output=True, text=True, timeout=60
    )
    return done.stdout, done.returncode, done.stderr


def ping_pong(run, ping, pong, count):
    """Runs round trips of PriceUpdate between two demo programs."""
    common = [
        "--channel",
        str(run.folder / (run.name() + ".ring")),
        "--typed",
        "--count",
        str(count),
        "--warmup",
        "100",
    ]
    with subprocess.Popen(
        [*demos.command(pong), "pong", *common], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as other:
        try:
            done = subprocess.run(
                [*demos.command(ping), "ping", *common, "--json"], capture_output=True, text=True, timeout=90
            )
            equal(f"ping of {ping}: {done.stderr[-300:]}", done.returncode, 0)
            _, words = other.communicate(timeout=30)
            equal(f"pong of {pong}: {words[-300:]}", other.returncode, 0)
        finally:
            other.kill()
    answer = json.loads(done.stdout.splitlines()[-1])
    equal("result", (answer["count"], answer["size"], answer["typed"]), (count, PAYLOAD, True))


def wrong_answers(run, ping):
    """Each ping notices a pong without the schema, and counts no round trip."""
    name = str(run.folder / (run.name() + ".ring"))
    untyped = ["--channel", name, "--count", "10", "--warmup", "0", "--timeout", "5"]
    with subprocess.Popen(
        [*demos.command("python"), "pong", *untyped], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as other:
        try:
            while not os.path.exists(name):
                equal("status of pong, which waits", other.poll(), None)
            done = subprocess.run(
                [*demos.command(ping), "ping", *untyped, "--typed"], capture_output=True, text=True, timeout=60
            )
        finally:
            other.kill()
    equal("status", done.returncode, 1)
    true(f'{ping}\'s error says "schema"', "schema" in done.stderr, done.stderr[-300:])


def tail_of_golden(run):
    """tail prints the golden file's JSON, and publish makes the same bytes of it."""
    with open(f"{TYPED}.json", encoding="utf-8") as file:
        golden = json.load(file)
    wanted = [each for each in golden["typed"] if each["message"]]
    out, status, words = flyring("tail", f"{TYPED}.ring", "--since-start", "--count", str(len(golden["typed"])))
    equal(f"status of tail: {words}", status, 0)
    lines = [json.loads(line) for line in out.splitlines()]
    typed = [line for line in lines if line.get("message")]
    equal("bodies", [(line["position"], line["message"], line["body"]) for line in typed],
          [(each["position"], each["message"], each["body"]) for each in wanted])  # fmt: skip
    equal("sender", {(line["ring"], line["sender"]) for line in lines}, {(0, "prices")})
    equal("raw", [line.get("text", line.get("data")) for line in lines if not line.get("message")], ["raw"])
    name, peer = run.name(), run.peer("cpp", 1)
    options = {key: golden["create"][key] for key in ("schema", "schema_id", "schema_version")}
    made = peer.call("create", channel=name, name=name, kind="inbox", counters=0, **options)
    path = made.get("info", made)["path"]
    out, status, words = flyring("publish", path, given="\n".join(json.dumps(line) for line in typed) + "\n")
    equal(f"status of publish: {words}", status, 0)
    peer.call("subscriber", channel=name, subscriber=name)
    got = peer.call("poll", subscriber=name, limit=100)["messages"]
    equal("types", [m["type"] for m in got], [{"PriceUpdate": 1, "Trade": 2, "Book": 3}[m["message"]] for m in typed])
    offers = [bytes.fromhex(o["data"]) for o in golden["operations"] if o["op"] == "offer"][: len(typed)]
    for message, offered in zip(got, offers):
        data = bytes.fromhex(message["data"])
        version = int.from_bytes(offered[6:8], "little")
        if version == golden["create"]["schema_version"]:  # others get this schema's version
            equal("bytes", data, offered[: len(data)])
        true(f"at most {len(offered)} bytes", len(data) <= len(offered) or version == 0, len(data))


def tests(languages, count):
    for a in languages:
        for b in languages:
            yield f"typed ping-pong of {a} and {b}", ping_pong, a, b, count
    for a in languages:
        yield f"typed ping of {a}, raw pong", wrong_answers, a
    yield "tail and publish of the golden messages", tail_of_golden
