# SPDX-License-Identifier: Apache-2.0
"""Controls one worker process of the torture: starts it, sends its orders, stops, continues and kills it."""

import contextlib
import os
import select
import signal
import subprocess
import time

from parent import die_with_parent
from side import WORD_COUNTED, WORD_COUNTING, Life, Phase, Side


class Worker:
    """One process, which waits for its orders or works."""

    def __init__(self, language, argv, folder, number):
        self.language, self.label = language, f"{language}-{number}"
        self.side, self.actor, self.stops, self.stopped = Side(folder / self.label), None, [], 0
        self.killed = self.ended = 0
        self.final = False  # whether the publishers had ended when it was told to end
        self.stderr_path = folder / f"{self.label}.stderr"
        with open(self.stderr_path, "wb") as stderr:
            self.process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        os.setpriority(os.PRIO_PROCESS, self.process.pid, os.nice(0) + 5)  # the driver, which aims, must be faster

    def ready(self):
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def order(self, actor, **orders):
        self.actor, self.begun = actor, time.monotonic_ns()
        line = " ".join(f"{k}={v}" for k, v in orders.items())
        with contextlib.suppress(BrokenPipeError):  # its status tells why
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()

    def phase(self):
        return Phase(self.side.phase()).name if self.side.phase() else ""

    def alive(self):
        return self.process.poll() is None

    def stop(self):
        """Sends SIGSTOP. Returns True once the process is stopped, False if it had ended."""
        self.stopped = time.monotonic_ns()
        os.kill(self.process.pid, signal.SIGSTOP)
        status = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if status.si_code != os.CLD_STOPPED:
            self.stopped = 0
        return self.stopped != 0

    def go_on(self):
        if self.stopped and self.alive():
            os.kill(self.process.pid, signal.SIGCONT)
            os.waitid(os.P_PID, self.process.pid, os.WCONTINUED | os.WEXITED | os.WNOWAIT)
            self.stops.append((self.stopped, time.monotonic_ns()))
        self.stopped = 0

    def kill(self):
        self.killed = time.monotonic_ns()
        self.process.kill()
        self.reap()

    def reap(self):
        self.process.wait(10)
        self.ended = time.monotonic_ns()
        if self.stopped:
            self.stops.append((self.stopped, self.ended))
        if self.process.returncode != -signal.SIGKILL:
            self.killed = 0  # it ended before the signal
        with contextlib.suppress(BrokenPipeError):  # orders that it never read
            self.process.stdin.close()
        self.process.stdout.close()

    def life(self):
        actor = self.actor
        return Life(
            f"{self.label} as {actor.role} {actor.name}",
            actor.role,
            self.language,
            actor.channel,
            self.side.entries(),
            self.side.attempted(),
            self.side.phase(),
            self.side.words[WORD_COUNTING],
            self.side.words[WORD_COUNTED],
            self.killed,
            self.ended,
            tuple(self.stops),
            self.final,
        )
