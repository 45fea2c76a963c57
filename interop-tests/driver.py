# SPDX-License-Identifier: Apache-2.0
"""Starts peers (PEER.md), or lets them in through Unix sockets, sends requests to them and waits for the answers, never
without a time limit. Everything said lands in a folder of logs: NAME.log (requests and answers) and NAME.stderr."""

import json
import math
import os
import pathlib
import queue
import signal
import socket
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


def commands(file=ROOT / "interop-tests" / "peers.toml"):
    """Of peers.toml: {name: argv}. A word with a slash that names something in the checkout becomes a whole path."""
    with open(file, "rb") as f:
        peers = tomllib.load(f)
    return {
        name: [str(ROOT / word) if "/" in word and not word.startswith("/") else word for word in p["command"]]
        for name, p in peers.items()
    }


class Conversation:
    """Requests to a peer and its answers. `call` sends a request and returns its answer; `send` and `receive` do the
    halves of it, so that several peers can be busy at once."""

    deadline = math.inf  # of time.monotonic(): no answer is waited for longer, whatever its own time limit

    def __init__(self, language, label, logs, stderr, source, sink):
        self.language, self.label, self.source, self.sink = language, label, source, sink
        self.counter, self.pending, self.ended, self.died = 0, [], False, False  # died: as it was told to
        self.open_channels = []  # handles, for whoever tidies up
        self.log = open(logs / f"{label}.log", "a", buffering=1)
        self.stderr = stderr  # path of what it says on standard error
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        try:
            self.hello = self.call("hello", within=20)
            self.pid = self.hello["pid"]
        except (PeerFailed, Refused, KeyError):
            self.kill()
            raise

    def _read(self):
        try:
            for line in self.source:
                self.lines.put(line)
        except (OSError, ValueError):  # the connection was reset, or closed by us
            pass
        self.ended = True
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
            self.sink.write(line.encode() + b"\n")
            self.sink.flush()
        except (OSError, ValueError) as e:
            raise PeerFailed(f"{self.label}: ended before {request['op']}{self._last_words()}") from e

    def receive(self, timeout=10):
        """The answer to the oldest request that has none yet; Refused if it is an error."""
        request = self.pending.pop(0)
        timeout = min(timeout, max(0, self.deadline - time.monotonic()))
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            raise PeerFailed(f"{self.label}: no answer to {request['op']} within {timeout:.3g} s") from None
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

    def call(self, op, within=10, **fields):
        """`within` seconds; `timeout` would be a field of the request."""
        self.send(op, **fields)
        return self.receive(within)

    def dies(self, timeout=10):
        """Waits for the end of a peer whose oldest request is one that it does not survive (`die`, `die_at`)."""
        op = self.pending.pop(0)["op"]
        timeout = min(timeout, max(0, self.deadline - time.monotonic()))
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            raise PeerFailed(f"{self.label}: still alive {timeout:.3g} s after {op}, which kills it") from None
        if line is not None:
            raise PeerFailed(f"{self.label}: answered {op}, which kills it: {line[:200]!r}")
        self._note("<-", "(dead)")
        self.died = True

    def alive(self):
        return not self.ended

    def _tidy(self):
        self.reader.join(10)
        for f in (self.source, self.sink, self.log):
            try:
                f.close()
            except OSError:
                pass

    def log_sizes(self):
        """{file: bytes} of what was written down about it until now."""
        return {
            path: os.path.getsize(path) if os.path.exists(path) else 0 for path in (self.log.name, str(self.stderr))
        }

    def _note(self, direction, line):
        self.log.write(f"{time.monotonic():.6f} {direction} {line[:400]}\n")

    def _last_words(self):
        words = tail(self.stderr, 300)
        return f" (it said: {words})" if words else ""


class Peer(Conversation):
    """A peer that is a process of ours, spoken to through its standard input and output."""

    def __init__(self, language, argv, logs, folder, label=None):
        label = label or language
        stderr = logs / f"{label}.stderr"
        try:
            with open(stderr, "ab") as errors:
                self.process = subprocess.Popen(
                    argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    cwd=ROOT,
                    env=os.environ | {"FLYRING_DIR": str(folder)},
                    start_new_session=True,
                )
        except OSError as e:
            raise PeerFailed(f"{label}: cannot start {argv[0]}: {e.strerror}; build it first") from e
        super().__init__(language, label, logs, stderr, self.process.stdout, self.process.stdin)

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

    def dies(self, timeout=10):
        super().dies(timeout)
        status = self.process.wait(10)
        self._tidy()
        if status != -signal.SIGKILL:
            raise PeerFailed(f"{self.label}: ended with status {status}, not by SIGKILL{self._last_words()}")

    def alive(self):
        return self.process.poll() is None

    def _last_words(self):
        return f" (status {self.process.poll()})" + super()._last_words()


class Caller(Conversation):
    """A peer that somebody else started, and that has connected to a socket of ours. Nothing is known of its process:
    it can only be hung up on, and told from its successor by the connection."""

    def __init__(self, language, connection, logs, label, stderr):
        self.connection = connection
        super().__init__(language, label, logs, stderr, connection.makefile("rb"), connection.makefile("wb"))

    def kill(self):
        """Hangs up. A peer that is busy finds out when it is done."""
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._tidy()
        self.connection.close()

    def quit(self):
        """End of input; it is waited for its end."""
        try:
            self.connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        self.reader.join(10)
        alive = self.alive()
        self.kill()
        if alive:
            raise PeerFailed(f"{self.label}: did not end within 10 s of the end of its input")

    def dies(self, timeout=10):
        super().dies(timeout)
        self.kill()


class Doors:
    """The sockets at which peers of other containers appear, one for each: FOLDER/LANGUAGE-N.sock. FOLDER/done tells
    those who start them that it is over."""

    def __init__(self, folder, languages, peers_each):
        self.folder, self.listeners = folder, {}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "done").unlink(missing_ok=True)
        for language in languages:
            for n in range(1, peers_each + 1):
                path = folder / f"{language}-{n}.sock"
                path.unlink(missing_ok=True)
                listener = self.listeners[language, n] = socket.socket(socket.AF_UNIX)
                listener.bind(str(path))
                listener.listen()
                listener.settimeout(60)  # a container may have to start first, or a peer to give up what it was told

    def accept(self, language, n, logs):
        """The next peer that comes."""
        try:
            connection, _ = self.listeners[language, n].accept()
        except TimeoutError:
            raise PeerFailed(f"{language}-{n}: nobody has come within 60 s") from None
        connection.settimeout(None)
        return Caller(language, connection, logs, f"{language}-{n}", self.folder / f"{language}-{n}.stderr")

    def close(self):
        (self.folder / "done").touch()
        for (language, n), listener in self.listeners.items():
            listener.close()
            (self.folder / f"{language}-{n}.sock").unlink(missing_ok=True)


def tail(path, size, begin=0):
    """The end of a file, at most `size` bytes of what stands behind `begin`."""
    try:
        with open(path, "rb") as f:
            f.seek(max(begin, f.seek(0, 2) - size))
            return f.read().decode(errors="replace").strip()
    except FileNotFoundError:
        return ""


def both(*peers, timeout):
    """The answers of several busy peers, in order. The first error, of whichever peer, ends the wait."""
    answers, late = {}, min(time.monotonic() + timeout, *(peer.deadline for peer in peers))
    while len(answers) < len(peers):
        for i, peer in enumerate(peers):
            if i not in answers and not peer.lines.empty():
                answers[i] = peer.receive()
            elif i not in answers and time.monotonic() > late:
                raise PeerFailed(f"{peer.label}: no answer to {peer.pending[0]['op']} in time")
        time.sleep(0.001)
    return [answers[i] for i in range(len(peers))]
