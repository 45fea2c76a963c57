# SPDX-License-Identifier: Apache-2.0
"""A key-value server: a service in front of a table on disk, so that any number of processes may write.

key_value.py serve FILE                           answers until SIGTERM or Ctrl-C; waits while another server runs
key_value.py get KEY
key_value.py put KEY VALUE
key_value.py compare-and-put KEY VERSION VALUE    puts if the key has this version (0: is not there)
key_value.py remove KEY
"""

import signal
import sys
import time
from pathlib import Path

import flyring
from flyring import sbe

schema = sbe.Schema.load(Path(__file__).with_name("keyvalue.xml"))
TIMEOUT = 2.0  # seconds


def open_service() -> flyring.Channel:
    return flyring.Channel.open_or_create("key-value", kind="service", schema=schema)


def message(name: str, **fields):
    """A message of the schema. Fields are given in its order."""
    room = sum(4 * len(value) for value in fields.values() if not isinstance(value, int))
    made = getattr(schema, name).encode(bytearray(64 + room))
    for field, value in fields.items():
        setattr(made, field, value)
    return made


class Store:
    """The one writer of the table. So nothing changes between its look at a version and its change."""

    def __init__(self, table: flyring.Table, writer: flyring.TableWriter) -> None:
        self.table, self.writer = table, writer

    def version_of(self, key: str) -> int:
        found = self.table.get_versioned(key)
        return found[1] if found else 0

    def get(self, get):
        value, version = self.table.get_versioned(get.key) or (b"", 0)
        return message("Value", version=version, value=value)

    def put(self, put):
        before = self.version_of(put.key)
        return message("Changed", before=before, version=self.writer.put(put.key, put.value))

    def compare_and_put(self, put):
        before = self.version_of(put.key)
        version = self.writer.compare_and_put(put.key, put.version, put.value)
        return message("Changed", before=before, version=version or before)

    def remove(self, remove):
        before = self.version_of(remove.key)
        wanted = remove.version in (0, before)
        removed = wanted and self.writer.remove(remove.key)
        return message("Changed", before=before, version=0 if removed else before)


def answer(handler):
    """A handler for a request, which answers what the table refuses by the error's code."""

    def handle(request, _):
        try:
            return handler(request)
        except flyring.FlyringError as error:
            return message("Refused", code=error.code, text=str(error))

    return handle


def serve(path: str) -> None:
    table = flyring.Table.open_or_create(path, key="text", key_bytes=200, value_bytes=8000, capacity=1000)
    with open_service() as service, service.server("key-value", timeout=None) as server:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: server.stop())
        store = Store(table, table.writer("key-value", timeout=None))
        server.on(schema.Get, answer(store.get)).on(schema.Put, answer(store.put))
        server.on(schema.CompareAndPut, answer(store.compare_and_put)).on(schema.Remove, answer(store.remove))
        print(f"{len(table)} keys", flush=True)
        server.serve()  # sleeps while there is no request
        while server.held != (0, 0):  # sends the answers that it still holds
            server.poll(limit=0)
            time.sleep(0.001)
        table.close(sync=True)  # everything is on the disk: no recovery is needed, even after a power loss


def call(request) -> None:
    with open_service() as service, service.client() as client:
        try:
            found = schema.decode(client.call(request, timeout=TIMEOUT))
        except flyring.FlyringError as error:
            sys.exit(f"no answer: {error}")
    match found.NAME:
        case "Value" if found.version:
            print(f"{found.value.decode()} (version {found.version})")
        case "Refused":
            sys.exit(f"refused: {found.code}: {found.text}")
        case "Changed" if found.version != found.before:
            print(f"version {found.version}" if found.version else "removed")
        case _:
            sys.exit(f"the key has version {found.version}" if found.version else "there is no such key")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", path]:
            serve(path)
        case ["get", key]:
            call(message("Get", key=key))
        case ["put", key, value]:
            call(message("Put", key=key, value=value.encode()))
        case ["compare-and-put", key, version, value]:
            call(message("CompareAndPut", version=int(version), key=key, value=value.encode()))
        case ["remove", key]:
            call(message("Remove", version=0, key=key))
        case _:
            sys.exit(__doc__)
