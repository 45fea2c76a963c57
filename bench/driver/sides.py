# SPDX-License-Identifier: Apache-2.0
"""Starts, controls, watches and ends the processes of one contender (bench/PEER.md)."""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from driver import keys
from driver.contenders import ROOT, Contender, Table

SHARED_LENGTH, SPEEDS, SPEEDS_KEPT = 4096, 1024, 255  # constants of probe/probe.h
MOST_FILES = 8 << 30  # the most bytes that a contender may have in its folder
MEMORY_FOLDER = "/dev/shm"
DISK_FOLDER = ROOT / "build"
PROBE = "build/bench-cpp/probe/libflyring_probe.so"  # relative to the tree whose programs run
PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):
    """A contender ended, hung, or gave an invalid answer. The text is for the report."""


class Cannot(Failure):
    """The peer reports that it does not support this combination."""


def die_with_parent() -> None:
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """A process that answers lines of JSON on standard output. Its standard error goes to a file."""

    def __init__(self, name: str, argv: Sequence[str], env: Mapping[str, str], errors: Path, root: Path = ROOT) -> None:
        self.name = name
        self.errors = errors
        with open(errors, "wb") as file:
            self.popen = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                cwd=root,
                env=dict(env),
                start_new_session=True,  # so that only the driver gets Ctrl-C, and the whole group can be ended
                preexec_fn=die_with_parent,
            )
        assert self.popen.stdin and self.popen.stdout
        self.input, self.output = self.popen.stdin, self.popen.stdout
        self.pending = b""

    def write(self, line: str) -> None:
        try:
            self.input.write(line.encode() + b"\n")
            self.input.flush()
        except BrokenPipeError:
            pass  # reading its answer reports the reason

    def signal(self, number: int) -> None:
        try:
            os.killpg(self.popen.pid, number)
        except ProcessLookupError:
            pass

    def last_words(self) -> str:
        lines = self.errors.read_text(errors="replace").strip().splitlines()
        return "\n".join(line[:300] for line in lines[-5:])

    def close(self, patience: float) -> None:
        """Ends the process: end of input, then SIGTERM, then SIGKILL."""
        try:
            self.input.close()
        except BrokenPipeError:
            pass
        for number in (signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
            self.signal(number)
            try:
                self.popen.wait(patience)
                break
            except subprocess.TimeoutExpired:
                pass
        self.signal(signal.SIGKILL)  # also kills children that it left
        self.output.close()


def answers(processes: Sequence[Process], silence: float) -> list[dict[str, Any]]:
    """Returns the next line of each process. Failure if one ends or is silent for too long."""
    got: dict[Process, dict[str, Any]] = {}
    deadline = time.monotonic() + silence
    while len(got) < len(processes):
        waiting = {p.output.fileno(): p for p in processes if p not in got}
        ready, _, _ = select.select(list(waiting), [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            names = ", ".join(p.name for p in waiting.values())
            words = "".join("\n" + p.last_words() for p in waiting.values()).rstrip()
            raise Failure(f"side {names} was silent for {silence:g} s{words}")
        for fd in ready:
            process = waiting[fd]
            data = os.read(fd, 1 << 20)
            if not data:
                raise ended(process)
            line, newline, process.pending = (process.pending + data).partition(b"\n")
            if not newline:
                process.pending = line
                continue
            try:
                got[process] = json.loads(line)
            except ValueError:
                raise Failure(f"side {process.name} answered {line[:200]!r}") from None
    return [got[p] for p in processes]


def ended(process: Process) -> Failure:
    """Returns the error for a process whose output ended."""
    try:
        status = process.popen.wait(2)
    except subprocess.TimeoutExpired:
        return Failure(f"side {process.name} closed its output\n{process.last_words()}")
    words = process.last_words()
    for line in words.splitlines():
        _, found, reason = line.partition("cannot: ")
        if found:
            return Cannot(reason)
    what = f"status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
    return Failure(f"side {process.name} ended with {what}\n{words}".rstrip())


def thread_times(pid: int) -> dict[str, tuple[int, int]]:
    """Returns for each thread the nanoseconds that it ran, and that it was runnable but waited for its core."""
    found = {}
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            ran, waited, _ = path.read_text().split()
        except (OSError, ValueError):
            continue  # the thread has ended, or this kernel has no such counts
        found[path.parent.name] = int(ran), int(waited)
    return found


def waited_ns(before: Mapping[str, tuple[int, int]], after: Mapping[str, tuple[int, int]]) -> int:
    """Returns how long others used the core of the thread that ran most, which is the measured one."""
    times = [(ran - before.get(t, (0, 0))[0], waited - before.get(t, (0, 0))[1]) for t, (ran, waited) in after.items()]
    return max(0, max(times, default=(0, 0))[1])


def own_memory(session: int) -> int:
    """Returns the bytes of memory that the processes of a session have to themselves (RssAnon)."""
    size = 0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if int((path / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                lines = (path / "status").read_text().splitlines()
                size += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:"))
        except OSError:
            pass  # it has ended
    return size


def files_in(folder: str) -> int:
    """Returns the bytes that the files in a folder occupy, except for those of keys.py."""
    size = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                if name not in (keys.FILL, keys.SEQUENCE):
                    size += os.lstat(os.path.join(where, name)).st_blocks * 512
            except FileNotFoundError:
                pass  # the contender has just removed it
    return size


class Group:
    """All sides of one contender in one table, with their extra processes. They are parked between their turns."""

    def __init__(
        self,
        contender: Contender,
        table: Table,
        cores: tuple[int, int],
        time_slice: float,
        fill_in: Callable[[Sequence[str], Contender, Mapping[str, str]], list[str]],
        env: Mapping[str, str],
    ) -> None:
        self.contender = contender
        self.table = table
        self.opened: dict[str, dict[str, Any]] = {}
        self.sides: dict[str, Process] = {}
        self.extras: list[Process] = []
        self.waited = 0  # nanoseconds in the last turn: see waited_ns
        self.bytes_a_key = 0.0  # that the filled map takes, in its processes and files
        self.folder = tempfile.mkdtemp(prefix="flyring-bench-", dir=MEMORY_FOLDER)
        self.logs = tempfile.mkdtemp(prefix="flyring-bench-log-")
        self.disk = ""  # a folder on a disk, for a contender whose options name {disk}
        try:
            Path(self.folder, "shared").write_bytes(bytes(SHARED_LENGTH))
            env = {**env, "FLYRING_BENCH_PROBE": str(contender.root / PROBE)}
            for extra in contender.extras:
                argv = fill_in(extra.argv, contender, {"dir": self.folder, "core": str(cores[1])})
                process = Process(extra.name, argv, env, Path(self.logs, extra.name), contender.root)
                self.extras.append(process)
                answers([process], contender.silence)
            if any("{disk}" in value for value in contender.options.values()):
                DISK_FOLDER.mkdir(exist_ok=True)
                self.disk = tempfile.mkdtemp(prefix="bench-disk-", dir=DISK_FOLDER)
            options = {key: value.replace("{disk}", self.disk) for key, value in contender.options.items()}
            options |= {"producers": str(table.producers)} if table.producers > 1 else {}
            options |= {"consumers": str(table.consumers)} if table.consumers > 1 else {}
            options |= {"job": str(table.job)} if table.scenario == "jobs" else {}
            options |= {"keys": str(table.keys)} if table.keys else {}
            options |= {} if table.hits else {"misses": "1"}
            sides = table.sides(contender)
            if table.keys:
                keys.write(self.folder, table)
            for side in sides:
                producer = side[0] == "a"
                program, name = contender.a if producer else contender.b
                # The second worker has the producer's core.
                core = cores[0 if producer or table.scenario == "jobs" and side == "b2" else 1]
                argv = [
                    *fill_in(program.argv, contender, {}),
                    *("--contender", name, "--side", side.partition("/")[0], "--scenario", table.scenario),
                    *("--size", str(table.size)),
                    *("--mode", table.mode, "--wait", contender.wait_in(table), "--core", str(core)),
                    *("--dir", self.folder, "--sides", str(len(sides)), "--rate", f"{table.rate:g}"),
                    *("--time-slice", f"{time_slice:g}"),
                    *(word for key, value in options.items() for word in ("--option", f"{key}={value}")),
                ]
                log = Path(self.logs, side.replace("/", "-"))
                self.sides[side] = Process(side, argv, env, log, contender.root)
                self.opened[side] = answers([self.sides[side]], contender.silence)[0]
            before = self.memory() if table.keys else {}
            connected = self.tell("connect")
            if table.keys:
                keys.remove(self.folder)
                more = {what: size - before[what] for what, size in self.memory().items()}
                more["a"] = connected["a"].get("heap", more["a"])  # a JVM's own account: what it keeps is more
                more["files"] += before["files"]  # some have their length from the start
                gets = not contender.options.keys() & {"operation", "outstanding", "beside"}
                self.bytes_a_key = sum(more.values()) / table.keys if gets else 0.0  # others keep more than the map
            self.signal_extras(signal.SIGSTOP)
        except BaseException:
            self.kill()
            raise

    def tell(self, line: str) -> dict[str, dict[str, Any]]:
        for process in self.sides.values():
            process.write(line)
        return dict(zip(self.sides, answers(list(self.sides.values()), self.contender.silence), strict=True))

    def signal_extras(self, number: int) -> None:
        for process in self.extras:
            process.signal(number)

    def turn(self, slices: int, kind: str) -> dict[str, dict[str, Any]]:
        """Does one turn. Returns the answers of all sides."""
        self.signal_extras(signal.SIGCONT)
        before = {s: thread_times(p.popen.pid) for s, p in self.sides.items()}
        try:
            return self.tell(f"turn {slices} {kind}")
        finally:
            self.signal_extras(signal.SIGSTOP)
            after = {s: thread_times(p.popen.pid) for s, p in self.sides.items()}
            # The own wait: sides that share a core wait for each other, and a sleeper waits for its core at each
            # wake-up.
            own = len(self.sides) > 2 or self.contender.wait_in(self.table) == "block"
            self.waited = 0 if own else max(waited_ns(before[s], after[s]) for s in self.sides)

    def memory(self) -> dict[str, int]:
        """Returns the bytes that each side and extra process, with its children, has to itself, and those of the
        files."""
        found = {name: own_memory(p.popen.pid) for name, p in self.sides.items()}
        found |= {f"extra {p.name}": own_memory(p.popen.pid) for p in self.extras}
        return found | {"files": files_in(self.folder)}

    def speeds(self, probes: int) -> list[tuple[float, float]]:
        """Returns the speed of the two cores at each of the last `probes` probes, in instructions per nanosecond."""
        page = Path(self.folder, "shared").read_bytes()
        sides = []
        for at in (SPEEDS, 2 * SPEEDS):
            (noted,) = struct.unpack_from("=I", page, at)
            ring = struct.unpack_from(f"={SPEEDS_KEPT}f", page, at + 4)
            if noted < probes:
                raise Failure(f"{probes} probes, of {noted} of which the core's speed is known")
            sides.append([ring[i % SPEEDS_KEPT] for i in range(noted - probes, noted)])
        return list(zip(*sides, strict=True))

    def check_files(self) -> None:
        size = files_in(self.folder) + (files_in(self.disk) if self.disk else 0)
        if size > MOST_FILES:
            raise Failure(f"its files grew to {size / 2**30:.1f} GiB")

    def close(self) -> None:
        """Ends all sides properly, and then the extra processes."""
        self.signal_extras(signal.SIGCONT)
        for process in self.sides.values():
            try:
                process.input.close()
            except BrokenPipeError:
                pass
        self.end(5.0)

    def kill(self) -> None:
        for process in (*self.sides.values(), *self.extras):
            process.signal(signal.SIGKILL)
        self.end(5.0)

    def end(self, patience: float) -> None:
        for process in self.sides.values():
            process.close(patience)
        for process in self.extras:
            process.close(patience)
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.disk:
            shutil.rmtree(self.disk, ignore_errors=True)
        for before in ("", "sm_"):  # those with own namespaces; shared-memory-dict puts this before its names
            for left in Path(MEMORY_FOLDER).glob(f"{before}{Path(self.folder).name}*"):
                left.unlink(missing_ok=True)
        shutil.rmtree(self.logs, ignore_errors=True)
