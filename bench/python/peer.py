# SPDX-License-Identifier: Apache-2.0
"""The Python bench peer (bench/PEER.md): all contenders of this language, one of them per process."""

from __future__ import annotations

import argparse
import importlib
import sys

import map_runner
import recovery
from harness import BenchError, Contender, Runner, Setup

PACED = {  # the contenders of scenario paced
    "flyring-block": "paced.Flyring",
    "flyring-async": "paced.FlyringAsync",
    "pyzmq-sub": "paced.Zeromq",
    "pyzmq-sub-async": "paced.ZeromqAsync",
}

MAPS = {  # the contenders of scenario map
    "flyring-table": "maps.FlyringTable",
    "flyring-table-entry": "maps.FlyringEntries",
    "flyring-table-server": "maps.FlyringServer",
    "heap-map": "maps.Dict",
    "lmdb": "stores.Lmdb",
    "sqlite": "stores.Sqlite",
    "redis-map": "stores.Redis",
    "manager-dict": "stores.ManagerDict",
    "shared-memory-dict": "stores.SharedMemoryDict",
}

CONTENDERS = {
    "flyring": "flyring_channel.OfferTake",
    "flyring-block": "flyring_channel.SendTake",
    "flyring-poll": "flyring_channel.OfferPoll",
    "flyring-claim": "flyring_channel.ClaimTake",
    "flyring-batch": "flyring_channel.Batch",
    "flyring-numpy": "flyring_channel.Numpy",
    "flyring-clock": "flyring_journal.Clock",
    "flyring-journal": "flyring_journal.JournalPoll",
    "flyring-journal-take": "flyring_journal.Journal",
    "flyring-journal-batch": "flyring_journal.JournalBatch",
    "mcap": "mcap_files.Mcap",
    "flyring-queue": "flyring_queue.Queue",
    "flyring-queue-take": "flyring_queue.Take",
    "flyring-service": "flyring_service.Service",
    "flyring-typed-arrays": "flyring_channel.TypedArrays",
    "memoryview-ring": "memoryviews.Ring",
    "memoryview-line": "memoryviews.Line",
    "mp-pipe": "standard.Pipe",
    "mp-queue": "standard.Queue",
    "mp-simplequeue": "standard.SimpleQueue",
    "mp-jobs": "standard.Jobs",
    "faster-fifo": "fifo.FasterFifo",
    "faster-fifo-many": "fifo.FasterFifoMany",
    "pyzmq": "zeromq.PushPull",
    "pyzmq-jobs": "zeromq.Jobs",
    "pyzmq-req": "zeromq.ReqRep",
    "grpc": "grpc_calls.Grpc",
    "http-server": "http_calls.Http",
    "redis-list": "redis_lists.List",
    "redis-move": "redis_lists.Move",
    "iceoryx2": "iceoryx.PublishSubscribe",
    "iceoryx2-event": "iceoryx.PublishSubscribeEvent",
    "iceoryx2-request": "iceoryx_request.RequestResponse",
    "iceoryx2-request-event": "iceoryx_request.RequestResponseEvent",
}


def parse() -> Setup:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--contender", required=True, choices=[*CONTENDERS, *PACED, *MAPS, "journal-recovery"])
    parser.add_argument("--side", required=True, choices=("a", "b", "a2", "b2"))
    parser.add_argument(
        "--scenario",
        required=True,
        choices=("rtt", "schedule", "stream", "idle", "paced", "jobs", "burst", "append", "replay", "map"),
    )
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--mode", choices=("write", "look"), default="write")
    parser.add_argument("--wait", choices=("spin", "block"), default="spin")
    parser.add_argument("--core", type=int, default=-1)
    parser.add_argument("--dir", required=True)
    parser.add_argument("--sides", type=int, default=2)
    parser.add_argument("--rate", type=float, default=0)
    parser.add_argument("--time-slice", type=float, default=0.15)
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE")
    values = vars(parser.parse_args())
    pairs = [word.partition("=") for word in values.pop("option")]
    return Setup(**values, options={key: value for key, _, value in pairs})


def main() -> int:
    setup = parse()
    if setup.contender == "journal-recovery":
        recovery.run(setup)
        return 0
    try:
        paced = setup.scenario == "paced"
        known = PACED if paced else MAPS if setup.scenario == "map" else CONTENDERS
        if setup.contender not in known:
            raise BenchError(f"cannot: {setup.contender} has no scenario {setup.scenario}")
        module, _, name = known[setup.contender].partition(".")
        found = getattr(importlib.import_module(module), name)
        if paced:
            found(setup).run()
        elif setup.scenario == "map":
            map_runner.MapRunner(setup, found).run()
        else:
            contender: type[Contender] = found
            Runner(setup, contender).run()
    except BenchError as error:
        print(f"peer.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
