# SPDX-License-Identifier: Apache-2.0
"""./dev speed: mean round trips of each pair as ratios to a raw cache-line ping-pong, interleaved in one run.

Every contender is a pair of processes that stays alive for the whole run, pinned to the same two cores, stopped (SIGSTOP)
while it is not its turn. A round is: floor, contender, floor, contender, ..., floor, in slices of about 0.15 s without clock
reads. A slice counts only if the floors before and after it agree within 15 %, because a virtual machine moves its cores.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile

import demos

SLICE = 0.15  # seconds


class Pair:
    """A ping and a pong process, both stopped unless a slice runs."""

    def __init__(self, title: str, ping: str, pong: str, kind: list[str], size: int, cores: tuple[int, int]) -> None:
        self.title = title
        options = ["--channel", title.replace(" ", "").replace("<->", "-"), "--timeout", "600", "--size", str(size)]
        self.pong = subprocess.Popen(
            [*demos.command(pong), *kind, "pong", *options, "--core", str(cores[1])], stdout=subprocess.DEVNULL
        )
        self.ping = subprocess.Popen(
            [*demos.command(ping), *kind, "ping", *options, "--core", str(cores[0]), "--slices"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.trips = 20_000
        self.run()
        for _ in range(3):  # compilers and caches
            self.run()
        self.signal(signal.SIGSTOP)

    def signal(self, number: int) -> None:
        for process in (self.ping, self.pong):
            os.kill(process.pid, number)

    def run(self) -> float:
        """One slice: the mean round trip in nanoseconds."""
        assert self.ping.stdin and self.ping.stdout
        self.ping.stdin.write(f"{self.trips}\n")
        self.ping.stdin.flush()
        line = self.ping.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.title}: ping ended")
        mean = float(line)
        self.trips = max(1000, int(SLICE * 1e9 / mean))
        return mean

    def slice(self) -> float:
        self.signal(signal.SIGCONT)
        try:
            return self.run()
        finally:
            self.signal(signal.SIGSTOP)

    def close(self) -> None:
        self.signal(signal.SIGCONT)
        if self.ping.stdin:
            self.ping.stdin.close()
        for process in (self.ping, self.pong):
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()


def placement(floor: float) -> str:
    return "smt" if floor < 75 else "near" if floor < 220 else "far"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--pairs", nargs="*", default=["cpp-cpp", "java-java", "python-python"], metavar="PING-PONG")
    parser.add_argument("--all", action="store_true", help="all nine pairs")
    arguments = parser.parse_args()
    if arguments.all:
        arguments.pairs = [f"{a}-{b}" for a in demos.LANGUAGES for b in demos.LANGUAGES]
    cores = demos.two_cores()
    if cores[0] < 0:
        sys.exit("two cores are needed")
    samples: dict[str, list[tuple[str, float, float]]] = {}
    dropped: dict[str, int] = {}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.environ["FLYRING_DIR"] = folder
        floor = Pair("line", "cpp", "cpp", ["line"], arguments.size, cores)
        pairs = []
        try:
            for name in arguments.pairs:
                ping, pong = name.split("-")
                pairs.append(Pair(f"{ping} <-> {pong}", ping, pong, [], arguments.size, cores))
            for number in range(arguments.rounds):
                before = floor.slice()
                for pair in pairs:
                    mean = pair.slice()
                    after = floor.slice()
                    if max(before, after) <= 1.15 * min(before, after):
                        level = (before + after) / 2
                        samples.setdefault(pair.title, []).append((placement(level), level, mean))
                    else:
                        dropped[pair.title] = dropped.get(pair.title, 0) + 1
                    before = after
                print(f"round {number + 1} of {arguments.rounds}, floor {before:.0f} ns", file=sys.stderr)
        finally:
            for pair in [floor, *pairs]:
                pair.close()
    print(
        f"{'pair':<22}{'placement':>10}{'rounds':>8}{'floor ns':>10}{'mean ns':>10}{'ratio':>8}{'spread':>14}{'above floor ns':>16}"
    )
    for pair in pairs:
        for level in ("smt", "near", "far"):
            mine = [(f, m) for p, f, m in samples.get(pair.title, []) if p == level]
            if not mine:
                continue
            ratios = sorted(m / f for f, m in mine)
            over = statistics.median(m - f for f, m in mine)
            print(
                f"{pair.title:<22}{level:>10}{len(mine):>8}{statistics.median(f for f, _ in mine):>10.0f}"
                f"{statistics.median(m for _, m in mine):>10.0f}{statistics.median(ratios):>8.2f}"
                f"{f'{ratios[0]:.2f}-{ratios[-1]:.2f}':>14}{over:>16.0f}"
                + ("" if len(mine) >= 5 else "   (fewer than five rounds: not shown)")
            )
        if dropped.get(pair.title):
            print(f"{pair.title:<22}{dropped[pair.title]:>18} slices dropped: their floors before and after differ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
