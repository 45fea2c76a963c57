# SPDX-License-Identifier: Apache-2.0
"""Measures the time that a virtual machine's host takes away. One real-time process per core only sleeps for half a
millisecond at a time, and reports late wake-ups. As a real-time process (root), nothing in this machine delays it;
without root, the workers' own use of the core counts as well.

    canary.py CORE    prints begin and end of each gap, CLOCK_MONOTONIC in ns, until it is killed"""

import contextlib
import os
import subprocess
import sys
import time

from parent import die_with_parent

SLEEP, LATE = 500_000, 1_000_000  # ns


class Canaries:
    """A canary on each allowed core; a context manager."""

    def __init__(self, folder):
        self.files = [folder / f"canary-{core}" for core in sorted(os.sched_getaffinity(0))]
        self.processes = []

    def __enter__(self):
        for path in self.files:
            with open(path, "wb") as file:
                core = path.name.rpartition("-")[2]
                command = [sys.executable, __file__, core]
                self.processes.append(subprocess.Popen(command, stdout=file, preexec_fn=die_with_parent))
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()

    def gaps(self):
        """Returns (begin, end) of each gap, merged over the cores."""
        lines = [line.split() for path in self.files for line in path.read_text().splitlines()]
        merged = []
        for begin, end in sorted((int(line[0]), int(line[1])) for line in lines if len(line) == 2):
            if merged and begin <= merged[-1][1]:
                merged[-1] = merged[-1][0], max(merged[-1][1], end)
            else:
                merged.append((begin, end))
        return merged


def main():
    os.sched_setaffinity(0, {int(sys.argv[1])})
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    while True:
        begin = time.monotonic_ns() + SLEEP
        time.sleep(SLEEP / 1e9)
        end = time.monotonic_ns()
        if end - begin > LATE:
            print(begin, end, flush=True)


if __name__ == "__main__":
    main()
