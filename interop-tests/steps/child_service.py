# SPDX-License-Identifier: Apache-2.0
"""Operations of a service's server and client, both the child's: child_service.cpp, in Python. Behind the second mark
the child goes on, until each of its calls has ended, and a third mark. If its server or its client was evicted
meanwhile, it ends with SlotLostError instead."""

import mmap

from flyring import layout
from plan import MONOTONIC, SERVER_AT, mark, payload

SECOND = 1_000_000_000  # ns
ITEMS = [b"one", b"two", b"three"]


def answer(request):
    return b"answer to " + bytes(request)


class Talk:
    """A server and a client in one process."""

    def __init__(self, run):
        self.channel, self.sent = run.channel, run.sequence
        with open(run.path + ".done", "r+b") as file:
            self.begun = mmap.mmap(file.fileno(), 4096)
        self.asked = self.ended = 0
        self.kept = []
        self.server = self.client = None

    def start(self, length=30, timeout=None, credit=None):
        told = []

        def heard(call):
            while credit and not call.done and call.next(0) is not None:
                pass
            if call.done and not told:
                told.append(call)
                self.ended += 1

        data, kind = payload(self.sent, length), 1 + self.sent
        self.sent += 1
        self.asked += 1
        if credit:
            return self.client.stream(data, kind, credit, timeout, heard)
        return self.client.start(data, kind, timeout, heard)

    def handle(self, handler=answer, limit=256):
        """One poll, whose handler says in PATH.done what it is given."""
        return self.server.poll(self.saying(handler), limit)

    def saying(self, handler):
        begun, epoch = self.begun, self.server.epoch & 0xFF

        def says(request):
            kind = request.type
            begun[SERVER_AT + kind] = epoch
            begun[kind] += 1
            return handler(request)

        return says

    def keep(self, request):
        self.kept.append(request.keep())

    def exchange(self):
        self.start()
        self.handle()
        self.client.poll()

    def both(self):
        self.server = self.channel.server("second")
        self.client = self.channel.client("desk")
        self.exchange()

    def no_boundary(self):
        """Talks until the next request and reply note no boundary."""
        attached = self.channel._attached
        header, unit = attached.header, self.channel.alignment

        def crosses(ring, length):
            at = attached.memory.load64(header.trailer(ring) + layout.TRAILER_PUBLISHED)
            size = (8 + length + unit - 1) // unit * unit
            return at // 512 != (at + size) // 512

        while crosses(self.client.number, 24 + 30) or crosses(header.clients + self.client.number, 16 + 40):
            self.exchange()

    def set_clock(self, seconds):
        for one in (self.server, self.client):
            one._set_clock(MONOTONIC + seconds * SECOND)

    def go_on(self):
        """What the child does if it lives on."""

        def refuse(request):
            request.fail("it goes on")

        for _ in range(20):
            for request in self.kept:
                if not request.answered:
                    request.fail("it goes on")
            self.handle(refuse)
            self.client.poll()
        assert self.ended == self.asked, "a call has not ended"
        mark()

    # Calls

    def call(self):
        self.both()
        self.no_boundary()
        data, kind, start = payload(self.sent, 30), 1 + self.sent, self.client.start
        mark()
        start(data, kind)
        mark()
        self.go_on()

    def drain(self):
        self.both()
        for _ in range(3):
            self.start()
        assert self.handle(limit=2) == 2
        poll = self.client.poll
        mark()
        poll()
        mark()
        self.go_on()

    def cancel(self):
        self.both()
        stream = self.start(credit=2)
        self.handle(lambda request: request.stream(ITEMS))
        cancel = stream.cancel
        mark()
        cancel()
        mark()
        self.ended += 1  # a cancel calls no callback
        self.go_on()

    def credit(self):
        self.both()
        self.start(credit=2)
        self.handle(lambda request: request.stream(ITEMS))
        poll = self.client.poll
        mark()
        poll()
        mark()
        self.go_on()

    # The server

    def serves(self, handler=answer, asked=1, timeout=None, credit=None):
        self.both()
        if asked == 1:
            self.no_boundary()
        for _ in range(asked):
            self.start(timeout=timeout, credit=credit)
        self.set_clock(1)
        handler, poll = self.saying(handler), self.server.poll
        mark()
        poll(handler)
        mark()
        self.go_on()

    def serve(self):
        self.serves()

    def serve_three(self):
        self.serves(asked=3)

    def serve_kept(self):
        self.serves(self.keep)

    def serve_error(self):
        self.serves(lambda request: request.fail("it broke"))

    def serve_expired(self):
        self.serves(timeout=1)

    def serve_stream(self):
        self.serves(lambda request: request.stream(ITEMS[:2]), credit=1)

    def later_first(self):
        self.later(0)

    def later(self, which=1):
        self.both()
        for _ in range(3):
            self.start()
        assert self.handle(self.keep) == 3
        reply = self.kept[which].reply
        mark()
        reply(b"at last", 7)
        mark()
        self.go_on()

    # Places

    def close_client(self):
        self.both()
        self.start()
        close = self.client.close
        mark()
        close()
        mark()

    def close_server(self):
        self.both()
        self.start()
        self.handle(self.keep)
        close = self.server.close
        mark()
        close()
        mark()
