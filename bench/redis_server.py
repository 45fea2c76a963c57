# SPDX-License-Identifier: Apache-2.0
"""Runs a Redis server for the contenders of one group (an extra in contenders.toml): on a Unix socket in their folder,
without persistence. It ends at the end of standard input."""

from __future__ import annotations

import argparse
import ctypes
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

PATIENCE = 10  # seconds


def answers(path: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(str(path))
            connection.sendall(b"PING\r\n")
            return connection.recv(100) == b"+PONG\r\n"
    except OSError:
        return False


def end_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, required=True)
    path = parser.parse_args().dir / "redis.sock"
    command = ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", "", "--appendonly", "no"]
    with subprocess.Popen(
        [*command, "--dir", str(path.parent), "--daemonize", "no"],
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr,
        preexec_fn=end_with_parent,
    ) as server:
        try:
            late = time.monotonic() + PATIENCE
            while not answers(path):
                if server.poll() is not None or time.monotonic() > late:
                    print(f"redis-server does not answer at {path}", file=sys.stderr)
                    return 1
                time.sleep(0.01)
            print('{"opened": true}', flush=True)
            sys.stdin.read()
        finally:
            server.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())
