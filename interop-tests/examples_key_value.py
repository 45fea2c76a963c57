# SPDX-License-Identifier: Apache-2.0
"""The example examples/key-value: servers, clients and web servers in mixed languages. The server is killed, ended and
started again in another language, with all keys and versions."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import flyring
from examples_build import BUILD, LANGUAGES
from examples_streams import PATIENCE, Programs, first_line, other, programs_of

GONE = (503, 504)  # 504: the web server waits for a server; 503: it has just noticed that the last one died


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def wait_for_port(port: int) -> None:
    late = time.monotonic() + PATIENCE
    while True:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        if time.monotonic() > late:
            raise TimeoutError("the web server did not come")
        time.sleep(0.05)


class Web:
    """A web server in front of the key-value server."""

    def __init__(self, programs: Programs, language: str) -> None:
        self.port = free_port()
        if language == "python":
            command = [sys.executable, str(programs.folder / "web.py")]
        else:
            command = [*programs.commands["java"][:-1], "Web"]
        programs.commands[f"web-{language}"] = command
        programs.start(f"web-{language}", self.port)
        wait_for_port(self.port)

    def __call__(self, method: str, key: str, body: bytes | None = None, **headers: str) -> tuple[int, str, bytes]:
        """Status, ETag and body of an answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/keys/{key}", body, named, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.headers["ETag"] or "", answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers["ETag"] or "", error.read()


def etag(version: int) -> str:
    return f'"{version}"'


def web_answers(web: Web, other_web: Web) -> Iterator[str]:
    """Yields what is wrong with the answers of a web server. What it changes, another one sees."""

    def check(
        what: str, got: tuple[int, str, bytes], status: int, tag: str | None = "", body: bytes | None = None
    ) -> Iterator[str]:  # None: any
        if got[0] != status or tag is not None and got[1] != tag or body is not None and got[2] != body:
            yield f"{what}: {got}, not {(status, tag, body)}"

    key = "t%C3%A4ble%20a"
    yield from check("GET of no key", web("GET", key), 404)
    made = web("PUT", key, b"one")
    yield from check("PUT of a new key", made, 201, None)
    yield from check("GET", other_web("GET", key), 200, made[1], b"one")
    changed = other_web("PUT", key, b"two")
    yield from check("PUT", changed, 204, None)
    if changed[1] in ("", made[1]):
        yield f"the second ETag is {changed[1]}, the first one {made[1]}"
    yield from check("PUT of an old version", web("PUT", key, b"lost", If_Match=made[1]), 412, changed[1])
    yield from check("PUT of a key that is there", web("PUT", key, b"lost", If_None_Match="*"), 412, changed[1])
    yield from check("DELETE of an old version", web("DELETE", key, If_Match=made[1]), 412, changed[1])
    yield from check("GET of what these left", web("GET", key), 200, changed[1], b"two")
    third = web("PUT", key, bytes(range(256)), If_Match=changed[1])
    yield from check("PUT of the version", third, 204, None)
    yield from check("GET of bytes", other_web("GET", key), 200, third[1], bytes(range(256)))
    yield from check("DELETE of the version", web("DELETE", key, If_Match=third[1]), 204)
    yield from check("GET of a deleted key", web("GET", key), 404)
    yield from check("DELETE of a deleted key", web("DELETE", key), 404)
    yield from check("conditional DELETE of a deleted key", web("DELETE", key, If_Match=third[1]), 412)
    yield from check("PUT of a deleted key's version", web("PUT", key, b"lost", If_Match=third[1]), 412)
    again = web("PUT", key, b"again", If_None_Match="*")
    yield from check("PUT of a key that must be new", again, 201, None)
    if again[1] in (made[1], changed[1], third[1]):
        yield f"the ETag {again[1]} was used before"
    yield from check("DELETE", web("DELETE", key), 204)
    yield from check("PUT of a value that is too large", web("PUT", key, bytes(8001)), 413)
    yield from check("PUT of a body that is too large", web("PUT", key, bytes(20_000)), 413)
    yield from check("PUT of a key that is too long", web("PUT", "k" * 201, b""), 413)
    yield from check("PUT with several ETags", web("PUT", key, b"", If_Match='"1", "2"'), 501)
    yield from check("POST", web("POST", key, b""), 405)
    yield from check("GET of what was refused", web("GET", key), 404)
    yield from check("PUT of an empty value", web("PUT", key, b""), 201, None)
    yield from check("GET of an empty value", web("GET", key), 200, None, b"")


def key_value(server: str) -> str | None:
    """A server in one language, clients and web servers in all. It is killed and ended; a server in another language
    takes over, with all keys and versions."""
    with programs_of("key-value") as programs, tempfile.TemporaryDirectory(dir=BUILD) as on_disk:
        path = Path(on_disk, "keys.table")

        def run(language: str, *arguments: object) -> str:
            ended = subprocess.run(
                [*programs.commands[language], *map(str, arguments)],
                cwd=programs.folder,
                env=programs.environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
            return ("" if ended.returncode == 0 else f"status {ended.returncode}: ") + ended.stdout + ended.stderr

        def version_in(text: str) -> int:
            return int(text.removeprefix("version ")) if text.startswith("version ") else -1

        serving = programs.start(server, "serve", path)
        if (line := first_line(serving)) != "0 keys":
            return f"the server printed {line}"
        next_server = programs.start(other(server), "serve", path)  # waits
        versions: dict[str, int] = {}
        for language in LANGUAGES:
            if (version := version_in(got := run(language, "put", language, f"of {language}"))) < 1:
                return f"put in {language} printed {got}"
            got = run(language, "compare-and-put", language, version, f"ä of {language}")
            versions[language] = version_in(got)
            if versions[language] <= version:
                return f"compare-and-put in {language} printed {got}"
            got = run(language, "compare-and-put", language, version, "lost")
            if got != f"status 1: the key has version {versions[language]}\n":
                return f"compare-and-put of an old version in {language} printed {got}"
            if language != server:
                continue
            if (got := run(language, "remove", "nothing")) != "status 1: there is no such key\n":
                return f"remove of no key in {language} printed {got}"
            if not (got := run(language, "put", "k" * 201, "")).startswith("status 1: refused: too-large: "):
                return f"put of a long key in {language} printed {got}"
        web, other_web = (Web(programs, language) for language in ("python", "java"))
        for each, another in ((web, other_web), (other_web, web)):
            for wrong in web_answers(each, another):
                return f"the web server at port {each.port}: {wrong}"
            each("DELETE", "t%C3%A4ble%20a")

        def wrong_keys() -> str | None:
            for language in LANGUAGES:
                key = other(language)
                if (got := run(language, "get", key)) != f"ä of {key} (version {versions[key]})\n":
                    return f"get of {key} in {language} printed {got}"
            return None

        serving.send_signal(signal.SIGSTOP)
        for each in (web, other_web):
            if (late := each("GET", "cpp"))[0] != 504:
                return f"with a stopped server the web server answered {late}"
        serving.kill()
        serving.wait()
        if (line := first_line(next_server)) != f"{len(versions)} keys":
            return f"the next server in {other(server)} printed {line}"
        if wrong := wrong_keys():
            return f"after a kill {wrong}"
        for each in (web, other_web):
            if (got := each("GET", server)) != (200, etag(versions[server]), f"ä of {server}".encode()):
                return f"after a kill the web server answered {got}"
        last = web("PUT", "last", b"put")
        next_server.send_signal(signal.SIGTERM)
        ended = next_server.wait(PATIENCE)
        if ended != (143 if other(server) == "java" else 0):
            return f"the server in {other(server)} ended with {ended}"
        with flyring.Table.open(path) as table:  # not read-only: build/ may lie on overlay
            if not table.stats().clean:
                return f"the server in {other(server)} ended without a synced close"
        if (got := other_web("GET", "last"))[0] not in GONE:
            return f"without a server the web server answered {got}"
        # The file moved elsewhere, and a server in the third language.
        moved = path.rename(path.with_name("moved.table"))
        third = programs.start(other(server, 2), "serve", moved)
        if (line := first_line(third)) != f"{len(versions) + 1} keys":
            return f"the server in {other(server, 2)} printed {line}"
        if wrong := wrong_keys():
            return f"after an end {wrong}"
        if (got := web("GET", "last")) != (200, last[1], b"put"):
            return f"after an end the web server answered {got}"
        return full(programs, moved)


def full(programs: Programs, path: Path) -> str | None:
    """A table that is full is status 507, and its keys can still be changed."""
    with flyring.Table.open(path) as table:
        free = table.capacity - len(table)
    sys.path.insert(0, str(programs.folder))
    import key_value  # of the example

    name = programs.channels / "key-value.ring"
    with flyring.Channel.open(name) as service, service.client() as client:
        answers = [
            key_value.schema.decode(client.call(key_value.message("Put", key=f"k{n}", value=b"v"), timeout=PATIENCE))
            for n in range(free + 1)
        ]
        if [answer.NAME for answer in answers] != ["Changed"] * free + ["Refused"]:
            return f"{free} keys were free; the last answers are {answers[-2:]}"
        if answers[-1].code != "no-space":
            return f"a full table refused with {answers[-1].code}"
        for method in ("Put", "Remove"):
            fields = {"value": b"w"} if method == "Put" else {}
            version = {} if method == "Put" else {"version": 0}
            asked = key_value.message(method, **version, key="k0", **fields)
            if (answer := key_value.schema.decode(client.call(asked, timeout=PATIENCE))).NAME != "Changed":
                return f"{method} in a full table: {answer}"
    return None
