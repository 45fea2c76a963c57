# SPDX-License-Identifier: Apache-2.0
"""./dev demo: one table with the floors, and the ping-pong of every pair of languages."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile

import demos

COLUMNS = ("p50", "p90", "p99", "p99.9", "p99.99", "max", "mean", "count")


def round_trips(ping: str, pong: str, kind: list[str], options: list[str], cores: tuple[int, int]) -> dict[str, float]:
    """Runs one pair of demo programs. Returns ping's JSON result."""
    pong_process = subprocess.Popen(
        [*demos.command(pong), *kind, "pong", *options, "--core", str(cores[1])], stdout=subprocess.DEVNULL
    )
    try:
        result = subprocess.run(
            [*demos.command(ping), *kind, "ping", *options, "--core", str(cores[0]), "--json"],
            stdout=subprocess.PIPE,
            text=True,
            timeout=120,
        )
        if result.returncode != 0:
            raise RuntimeError(f"ping {ping} with pong {pong} ended with status {result.returncode}")
        if pong_process.wait(timeout=30) != 0:
            raise RuntimeError(f"pong {pong} ended with status {pong_process.returncode}")
    finally:
        if pong_process.poll() is None:
            pong_process.kill()
            pong_process.wait()
    answer: dict[str, float] = json.loads(result.stdout.strip().splitlines()[-1])
    return answer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000_000, help="round trips of each pair (default 1000000)")
    parser.add_argument("--size", type=int, default=32, help="message size in bytes (default 32)")
    parser.add_argument("--typed", action="store_true", help="SBE messages of 70 bytes instead, field by field")
    parser.add_argument("--only", nargs=2, metavar=("PING", "PONG"), help="only this pair of languages")
    arguments = parser.parse_args()
    cores = demos.two_cores()
    wait = "spin" if cores[0] >= 0 else "yield"
    rows = [("line cpp <-> cpp (floor)", "cpp", "cpp", ["line"])]
    rows += [(f"counter {a} <-> {a}", a, a, ["counter"]) for a in demos.LANGUAGES]
    rows += [(f"{a} <-> {b}", a, b, []) for a in demos.LANGUAGES for b in demos.LANGUAGES]
    if arguments.only:
        rows = [(f"{arguments.only[0]} <-> {arguments.only[1]}", *arguments.only, [])]
    size = "typed messages" if arguments.typed else f"{arguments.size} bytes"
    if arguments.typed:
        rows = [row for row in rows if not row[3]]
    print(f"round trips of {size} between two processes on cores {cores[0]} and {cores[1]}, wait {wait}; ns")
    print(f"{'ping <-> pong':<26}" + "".join(f"{c:>10}" for c in COLUMNS), flush=True)
    failures = 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        os.environ["FLYRING_DIR"] = folder
        for number, (title, ping, pong, kind) in enumerate(rows):
            options = ["--channel", f"demo{number}", "--count", str(arguments.count), "--wait", wait]
            options += ["--typed"] if arguments.typed else ["--size", str(arguments.size)]
            try:
                result = round_trips(ping, pong, kind, options, cores)
                print(f"{title:<26}" + "".join(f"{result[c]:>10.0f}" for c in COLUMNS), flush=True)
            except (RuntimeError, subprocess.TimeoutExpired) as problem:
                failures += 1
                print(f"{title:<26} FAILED: {problem}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
