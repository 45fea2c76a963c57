# SPDX-License-Identifier: Apache-2.0
"""Starts peers (PEER.md), sends requests to them and waits for the answers, never without a time limit. Everything said
lands in a folder of logs: NAME.log (requests and answers) and NAME.stderr."""

import json
import os
import pathlib
import queue
import signal
import subprocess
import threading
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent


class PeerFailed(Exception):
    """The peer is missing, died, was silent for too long, or said something that is no answer."""


class Refused(Exception):
    """The answer was `ok: false`; `answer` is all of it, `code` its error code."""

    def __init__(self, peer, request, answer):
        self.answer, self.code = answer, answer.get("error")
        super().__init__(
            f"{peer}: {request['op']} answered {answer.get('error')}: {answer.get('message')}"
            + "".join(f", {k} {answer[k]}" for k in ("ring", "sequence", "what", "counts") if k in answer)
        )


def commands():
    """Of peers.toml: {name: argv}. A word with a slash that names something in the checkout becomes a whole path."""
    with open(ROOT / "interop-tests" / "peers.toml", "rb") as f:
        peers = tomllib.load(f)
    return {
        name: [str(ROOT / word) if "/" in word and not word.startswith("/") else word for word in p["command"]]
        for name, p in peers.items()
    }


class Peer:
    """One peer process. `call` sends a request and returns its answer; `send` and `receive` do the halves of it, so
    that several peers can be busy at once."""

    def __init__(self, language, argv, logs, folder, label=None):
        self.language, self.label = language, label or language
        self.counter, self.pending = 0, []
        self.open_channels = []  # handles, for whoever tidies up
        self.log = open(logs / f"{self.label}.log", "a", buffering=1)
        self.stderr = open(logs / f"{self.label}.stderr", "ab")
        self.lines = queue.Queue()
        try:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.stderr,
                cwd=ROOT,
                env=os.environ | {"FLYRING_DIR": str(folder)},
                start_new_session=True,
            )
        except OSError as e:
            raise PeerFailed(f"{self.label}: cannot start {argv[0]}: {e.strerror}; build it first") from e
        self.reader = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self.reader.start()
        try:
            self.hello = self.call("hello", timeout=20)
            self.pid = self.hello["pid"]
        except (PeerFailed, Refused, KeyError):
            self.kill()
            raise

    def _read(self, stdout):
        for line in stdout:
            self.lines.put(line)
        self.lines.put(None)

    def send(self, op, **fields):
        self.counter += 1
        request = {"op": op, "id": self.counter} | fields
        self.send_line(json.dumps(request), request)

    def send_line(self, line, request):
        """A line as it is; `request` says what is expected back: its `op` for messages, its `id` if it has one."""
        self.pending.append(request)
        self._note("->", line)
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError as e:
            raise PeerFailed(f"{self.label}: ended before {request['op']}{self._last_words()}") from e

    def receive(self, timeout=10):
        """The answer to the oldest request that has none yet; Refused if it is an error."""
        request = self.pending.pop(0)
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            raise PeerFailed(f"{self.label}: no answer to {request['op']} within {timeout} s") from None
        if line is None:
            raise PeerFailed(f"{self.label}: ended during {request['op']}{self._last_words()}")
        self._note("<-", line.decode(errors="replace").rstrip("\n"))
        try:
            answer = json.loads(line)
            ok = answer["ok"]
        except (ValueError, KeyError, TypeError):
            raise PeerFailed(f"{self.label}: not an answer: {line[:200]!r}") from None
        if "id" in request and answer.get("id") != request["id"]:
            raise PeerFailed(f"{self.label}: answer {answer.get('id')} to request {request['id']}")
        if ok is not True:
            raise Refused(self.label, request, answer)
        if request["op"] in ("create", "open", "open_or_create", "replace"):
            self.open_channels.append(request["channel"])
        elif request["op"] == "close" and "channel" in request:
            self.open_channels.remove(request["channel"])
        return answer

    def call(self, op, timeout=10, **fields):
        self.send(op, **fields)
        return self.receive(timeout)

    def kill(self):
        """SIGKILL, and wait until the kernel has dropped its locks."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)
        self._tidy()

    def quit(self):
        """End of input; status 0 is expected. Killed if it does not end within 10 s."""
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            status = self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
            raise PeerFailed(f"{self.label}: did not end within 10 s of the end of its input") from None
        self._tidy()
        if status != 0:
            raise PeerFailed(f"{self.label}: ended with status {status}")

    def alive(self):
        return self.process.poll() is None

    def _tidy(self):
        self.reader.join(10)
        for f in (self.process.stdin, self.process.stdout, self.log, self.stderr):
            try:
                f.close()
            except OSError:
                pass

    def _note(self, direction, line):
        self.log.write(f"{time.monotonic():.6f} {direction} {line[:400]}\n")

    def _last_words(self):
        status = self.process.poll()
        with open(self.stderr.name, "rb") as f:
            f.seek(max(0, f.seek(0, 2) - 300))
            words = f.read().decode(errors="replace").strip()
        return f" (status {status}" + (f"; it said: {words})" if words else ")")


def both(*peers, timeout):
    """The answers of several busy peers, in order. All are awaited before the first error is raised."""
    answers, error = [], None
    for peer in peers:
        try:
            answers.append(peer.receive(timeout))
        except (PeerFailed, Refused) as e:
            error = error or e
    if error:
        raise error
    return answers
