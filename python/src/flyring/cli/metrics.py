# SPDX-License-Identifier: Apache-2.0
"""``flyring metrics``: the statistics of channels, tables and journals for Prometheus (docs/metrics.md)."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import FlyringError, NoSuchChannelError
from ..journal import Journal
from ..stats import Stats
from ..system import channel_path, default_folder, failed, journal_path, table_path
from ..table_stats import TableStats
from .image import open_image
from .journal_show import described
from .ls import JOURNALS, SUFFIX, TABLES, entries
from .report import printable
from .table_image import is_table, open_table


@dataclass(frozen=True)
class Found:
    """What was found at a scrape. Without ``stats`` and ``journal`` it is missing or not valid; ``reason`` says why."""

    name: str
    """The value of the label ``channel`` or ``table``: its name, or its path if that was given."""
    stats: Stats | TableStats | None
    reason: str = ""
    missing: bool = False
    is_table: bool = False
    journal: dict[str, Any] | None = None
    """Of a journal: its statistics."""
    is_journal: bool = False

    @property
    def up(self) -> bool:
        return self.stats is not None or self.journal is not None


def add_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "names", metavar="NAME", nargs="*", help="channels, tables and journals; default: all of the folder"
    )
    where = command.add_mutually_exclusive_group()
    where.add_argument(
        "--textfile", metavar="FILE", help="write them to FILE, for the textfile collector of node_exporter"
    )
    where.add_argument(
        "--listen",
        metavar="[HOST:]PORT",
        type=address,
        help="serve them at http://HOST:PORT/metrics until Ctrl-C; HOST is 127.0.0.1 by default",
    )


def address(text: str) -> tuple[str, int]:
    """Parses ``9464``, ``0.0.0.0:9464`` or ``[::]:9464``."""
    host, colon, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65535 or (colon and not host):
        raise argparse.ArgumentTypeError(f"{text!r} is not an address; write 9464, 0.0.0.0:9464 or [::]:9464")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def metrics(options: argparse.Namespace) -> int:
    """Runs the command. Returns status 1 if a channel or a table is missing or not valid."""
    try:
        from prometheus_client import CollectorRegistry, start_http_server, write_to_textfile
        from prometheus_client.exposition import choose_encoder

        from .families import Channels
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("prometheus_client"):
            raise
        print(
            "flyring: metrics needs the library prometheus-client. Install it: pip install 'flyring[metrics]'",
            file=sys.stderr,
        )
        return 2
    names: list[str] = options.names
    for name in names:
        channel_path(name)  # refuses a name that is not valid
    registry = CollectorRegistry(support_collectors_without_names=True)
    if options.listen is not None:
        registry.register(Channels(lambda: look(names)))
        host, port = options.listen
        try:
            server, thread = start_http_server(port, host, registry)
        except OSError as error:
            print(f"flyring: cannot listen on {host}, port {port}: {error.strerror}", file=sys.stderr)
            return 2
        host = f"[{host}]" if ":" in host else host
        print(f"flyring: metrics at http://{host}:{server.server_port}/metrics; Ctrl-C ends", file=sys.stderr)
        with server:
            thread.join()
        return 0
    found = look(names)
    registry.register(Channels(lambda: found))
    if options.textfile is not None:
        try:
            write_to_textfile(options.textfile, registry)
        except OSError as error:
            raise failed("write", error, options.textfile) from error
    else:
        encode, _ = choose_encoder("application/openmetrics-text")
        sys.stdout.write(encode(registry).decode())
    for one in found:
        if not one.up:
            print(f"flyring: {printable(one.reason)}", file=sys.stderr)
    return int(any(not one.up for one in found))


def look(names: Sequence[str]) -> list[Found]:
    """Reads the statistics of these channels, tables and journals, or of all of the folder."""
    if names:
        return [look_at(name, name) for name in names]
    folder = os.environ.get("FLYRING_DIR") or default_folder()
    every = sorted(entries(folder, must_exist=False, suffix=(SUFFIX, TABLES, JOURNALS)))
    found = (look_at(name.rpartition(".")[0], os.path.join(folder, name)) for name in every)
    return [one for one in found if not one.missing]  # missing: unlinked meanwhile


def look_at(label: str, path: str) -> Found:
    label = printable(label)
    if journal := journal_of(path):
        return look_at_journal(label, journal)
    if table := table_of(path):
        return look_at_table(label, table)
    try:
        with open_image(path) as image:
            if image.problem is not None:
                return Found(label, None, str(image.problem))
            reader = image.look()
            return Found(label, reader.stats(image.path)) if reader else Found(label, None, f"{path} has no rings")
    except NoSuchChannelError as error:
        return Found(label, None, str(error), missing=True)
    except FlyringError as error:
        return Found(label, None, str(error))


def table_of(name: str) -> str:
    """Returns the path of the table that is meant; "" for a channel."""
    channel, table = channel_path(name), table_path(name)
    if channel.endswith(TABLES) or is_table(channel):
        return channel
    return table if os.path.exists(table) and not os.path.exists(channel) else ""


def look_at_table(label: str, path: str) -> Found:
    try:
        with open_table(path) as image:
            return Found(label, image.stats(), is_table=True)
    except NoSuchChannelError as error:
        return Found(label, None, str(error), missing=True, is_table=True)
    except FlyringError as error:
        return Found(label, None, str(error), is_table=True)


def journal_of(name: str) -> str:
    """Returns the path of the journal that is meant; "" for another file."""
    channel, table, journal = channel_path(name), table_path(name), journal_path(name)
    if channel.endswith(JOURNALS):
        return channel
    return journal if os.path.isdir(journal) and not os.path.exists(channel) and not os.path.exists(table) else ""


def look_at_journal(label: str, path: str) -> Found:
    try:
        with Journal.open(path, read_only=True, any_file_system=True) as one:
            return Found(label, None, journal=described(one), is_journal=True)
    except NoSuchChannelError as error:
        return Found(label, None, str(error), missing=True, is_journal=True)
    except FlyringError as error:
        return Found(label, None, str(error), is_journal=True)
