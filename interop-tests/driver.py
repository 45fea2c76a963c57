# SPDX-License-Identifier: Apache-2.0
"""Starts peers (PEER.md), or accepts them through Unix sockets. Sends requests, and waits for the answers with a time
limit. Logs everything in a folder: NAME.log has requests and answers, NAME.stderr standard error."""

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
KINDS = ("channel", "table", "journal")  # of what a handle can stand for that is opened and closed


class PeerFailed(Exception):
    """The peer is missing, died, was silent for too long, or sent an invalid answer."""


class Refused(Exception):
    """The answer was `ok: false`; `answer` is all of it, `code` its error code."""

    def __init__(self, peer, request, answer):
        self.answer, self.code = answer, answer.get("error")
        super().__init__(
            f"{peer}: {request['op']} answered {answer.get('error')}: {answer.get('message')}"
            + "".join(f", {k} {answer[k]}" for k in ("ring", "sequence", "what", "counts") if k in answer)
        )


def commands(file=ROOT / "interop-tests" / "peers.toml"):
    """Returns {name: argv} from peers.toml. A word with a slash that names a file in the checkout becomes a full
    path."""
    with open(file, "rb") as f:
        peers = tomllib.load(f)
    return {
        name: [str(ROOT / word) if "/" in word and not word.startswith("/") else word for word in p["command"]]
        for name, p in peers.items()
    }


class Conversation:
    """Requests to a peer, and its answers. `call` sends a request and returns its answer; `send` and `receive` do these
    separately, so that several peers can be busy at once."""

    deadline = math.inf  # by time.monotonic(): the limit for all answers

    def __init__(self, language, label, logs, stderr, source, sink):
        self.language, self.label, self.source, self.sink = language, label, source, sink
        self.counter, self.pending, self.ended, self.died = 0, [], False, False  # died: on request
        self.open_handles = []  # (channel, table or journal; handle) of what is to be closed after the test
        self.log = open(logs / f"{label}.log", "a", buffering=1)
        self.stderr = stderr  # path of its standard error
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
        except (OSError, ValueError):  # the connection was reset, or closed here
            pass
        self.ended = True
        self.lines.put(None)

    def send(self, op, **fields):
        self.counter += 1
        request = {"op": op, "id": self.counter} | fields
        self.send_line(json.dumps(request), request)

    def send_line(self, line, request):
        """Sends a line unchanged. `request` describes it: its `op` for error texts, and its `id`, if any."""
        self.pending.append(request)
        self._note("->", line)
        try:
            self.sink.write(line.encode() + b"\n")
            self.sink.flush()
        except (OSError, ValueError) as e:
            raise PeerFailed(f"{self.label}: ended before {request['op']}{self._last_words()}") from e

    def receive(self, timeout=10):
        """Returns the answer to the oldest unanswered request. Raises Refused if it is an error."""
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
        handle = next(((kind, request[kind]) for kind in KINDS if kind in request), None)
        if request["op"] in ("create", "open", "open_or_create", "replace"):
            self.open_handles.append(handle)
        elif request["op"] == "close" and handle:
            self.open_handles.remove(handle)
        return answer

    def call(self, op, within=10, **fields):
        """Sends a request and returns its answer. `within`: seconds; `timeout` would be a field of the request."""
        self.send(op, **fields)
        return self.receive(within)

    def dies(self, timeout=10):
        """Waits for the death of a peer whose oldest request is `die` or `die_at`."""
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
        """Returns {log file: size} as of now."""
        return {
            path: os.path.getsize(path) if os.path.exists(path) else 0 for path in (self.log.name, str(self.stderr))
        }

    def _note(self, direction, line):
        self.log.write(f"{time.monotonic():.6f} {direction} {line[:400]}\n")

    def _last_words(self):
        words = tail(self.stderr, 300)
        return f" (it said: {words})" if words else ""


class Peer(Conversation):
    """A peer that this program starts, and that uses standard input and output."""

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
        """Kills the peer by SIGKILL, and waits until the kernel has released its locks."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)
        self._tidy()

    def quit(self):
        """Ends its input, and expects status 0. Kills it if it does not end within 10 s."""
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
            raise PeerFailed(f"{self.label}: ended with an error{self._last_words()}")

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
    """A peer that another program started, and that has connected to a socket of this program. Its process is not
    known: only its connection can be closed, and identifies it."""

    def __init__(self, language, connection, logs, label, stderr):
        self.connection = connection
        super().__init__(language, label, logs, stderr, connection.makefile("rb"), connection.makefile("wb"))

    def kill(self):
        """Closes the connection. A busy peer notices that after its request."""
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._tidy()
        self.connection.close()

    def quit(self):
        """Ends its input, and waits until the peer closes the connection."""
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
    """The sockets at which peers of other containers connect, one for each: FOLDER/LANGUAGE-N.sock. FOLDER/done tells
    the programs that start them to end."""

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
                listener.settimeout(60)  # time for a container to start, or for a peer to abandon its last request

    def accept(self, language, n, logs):
        """Accepts the next peer."""
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
    """Returns the end of a file: at most `size` bytes behind `begin`."""
    try:
        with open(path, "rb") as f:
            f.seek(max(begin, f.seek(0, 2) - size))
            return f.read().decode(errors="replace").strip()
    except FileNotFoundError:
        return ""


def both(*peers, timeout):
    """Returns the answers of several busy peers, in order. The first error of any peer ends the wait."""
    answers, late = {}, min(time.monotonic() + timeout, *(peer.deadline for peer in peers))
    while len(answers) < len(peers):
        for i, peer in enumerate(peers):
            if i not in answers and not peer.lines.empty():
                answers[i] = peer.receive()
            elif i not in answers and time.monotonic() > late:
                raise PeerFailed(f"{peer.label}: no answer to {peer.pending[0]['op']} in time")
        time.sleep(0.001)
    return [answers[i] for i in range(len(peers))]
