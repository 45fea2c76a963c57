# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 over loopback by the standard library, http.server and http.client: a POST on a connection that stays. The
server handles its only connection request by request, in the side's own thread. A file tells the client the port."""

from __future__ import annotations

import http.client
import http.server
import platform
from pathlib import Path
from typing import Any

from harness import BenchError, Contender, Setup

POST = """
    request("POST", "/", message)
    response = respond()
    got = response.read()
"""


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection. The constructor only sets it up; each call of handle_one_request reads one request."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # header and body in one packet
    got = b""

    def handle(self) -> None:
        pass

    def finish(self) -> None:
        pass

    def do_POST(self) -> None:
        self.got = self.rfile.read(int(self.headers["Content-Length"]))

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Http(Contender):
    scenarios = ("rtt",)
    waits = ("block",)
    send = "answer(message)"
    receive = """
    read_request()
    got = handler.got
"""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.port = Path(setup.path("port"))
        self.server: http.server.HTTPServer | None = None
        self.connection: http.client.HTTPConnection | None = None
        self.handler: Handler | None = None
        if setup.producer:
            self.send, self.receive = POST, ""
            self.connection = http.client.HTTPConnection("127.0.0.1", int(self.port.read_text()))
            self.connection.connect()  # the server is listening, and accepts later
        else:
            self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
            self.port.write_text(str(self.server.server_port))

    def connect(self) -> None:
        if self.server:
            self.handler = Handler(*self.server.get_request(), self.server)

    def names(self) -> dict[str, Any]:
        if self.connection:
            return {"request": self.connection.request, "respond": self.connection.getresponse}
        if self.handler is None:
            raise BenchError("no client has come")
        return {"handler": self.handler, "read_request": self.handler.handle_one_request, "answer": self.handler.answer}

    def close(self) -> None:
        if self.connection:
            self.connection.close()
        if self.server:
            self.server.server_close()

    def version(self) -> str:
        return f"Python {platform.python_version()}"
