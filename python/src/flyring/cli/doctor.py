# SPDX-License-Identifier: Apache-2.0
"""``flyring doctor``: whether this machine, this folder and what is in it suit Flyring, and what to do if not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from .. import layout
from ..errors import FlyringError
from ..system import default_folder
from ..table_stats import TableStats
from . import journal_show
from .doctor_journals import left_of_journal
from .doctor_machine import Machine
from .image import open_image
from .ls import SUFFIX, TABLES, entries
from .report import print_json, printable, size_text
from .table_image import open_table

Verdict = Literal["ok", "note", "BAD"]
VERSION = 1
DEFAULT_CHANNEL = 4 * layout.DEFAULT_CAPACITY
"""About what a channel of default dimensions takes, in bytes."""
LARGE_TABLE = 64 << 20
"""Bytes of a table's file from which its reads gain much from huge pages (docs/performance.md)."""


@dataclass(frozen=True)
class Check:
    """One line. ``note``: it works, and something may cost time or surprise. ``BAD``: something does not work."""

    name: str
    verdict: Verdict
    what: str
    do: str = ""


def doctor(folder: str | None, as_json: bool, machine: Machine | None = None) -> int:
    """Runs the command. Returns status 1 if a line is BAD."""
    found = list(checks(folder or os.environ.get("FLYRING_DIR") or default_folder(), machine or Machine()))
    if as_json:
        print_json({"version": VERSION, "checks": [asdict(one) for one in found]})
    else:
        width = max(len(one.name) for one in found)
        for one in found:
            print(f"{one.verdict:4}  {one.name:{width}}  {printable(one.what)}")
            if one.do:
                print(f"      {'':{width}}  -> {printable(one.do)}")
    return 1 if any(one.verdict == "BAD" for one in found) else 0


def checks(folder: str, machine: Machine) -> Iterator[Check]:
    parts: tuple[Callable[[str, Machine], Iterator[Check]], ...] = (
        of_the_folder,
        of_the_space,
        of_the_limits,
        of_the_container,
        of_the_kernel,
        of_the_memory,
        of_the_cores,
        of_the_channels,
        of_the_tables,
        of_the_journals,
        of_the_versions,
    )
    for part in parts:
        yield from part(folder, machine)


def of_the_folder(folder: str, machine: Machine) -> Iterator[Check]:
    there = os.path.isdir(folder)
    if problem := machine.folder_problem(folder):
        yield Check("folder", "BAD", problem, "follow the text above, or set FLYRING_DIR to a folder of your own")
    elif not there:
        yield Check("folder", "ok", f"{folder} is not there; the first channel makes it")
    else:
        status = os.stat(folder)
        what = f"{folder}, of user {status.st_uid}, mode {status.st_mode & 0o7777:o}"
        if not machine.may_write(folder):
            yield Check("folder", "BAD", f"{what}: this user may not write there", "set FLYRING_DIR, or its rights")
        else:
            yield Check("folder", "ok", what)
    place = folder if there else os.path.dirname(folder)
    if problem := machine.file_system_problem(place):
        yield Check("file system", "BAD", problem, "use a folder in /dev/shm, or any tmpfs, ext4 or xfs")
    else:
        yield Check("file system", "ok", f"{place} suits")
    if there and machine.may_write(folder):
        if problem := machine.lock_problem(folder):
            yield Check("locks", "BAD", problem, "put the channels on another file system")
        else:
            yield Check("locks", "ok", "a lock of one file description is seen by another")


def of_the_space(folder: str, machine: Machine) -> Iterator[Check]:
    place = folder if os.path.isdir(folder) else os.path.dirname(folder)
    total, free, inodes = machine.space(place)
    what = f"{size_text(free)} of {size_text(total)} free"
    more = f"remove channels (flyring ls, flyring rm), or enlarge it: mount -o remount,size=... {machine.mount(place)}"
    if total and free < DEFAULT_CHANNEL:
        yield Check("space", "BAD", f"{what}: less than one channel of default size takes", more)
    elif total and free < total // 10:
        yield Check("space", "note", f"{what}: less than a tenth", more)
    else:
        yield Check("space", "ok", what)
    if inodes is not None and inodes < 10:
        yield Check("inodes", "BAD", f"only {inodes} more files fit", "remove files, or mount it with nr_inodes=...")


def of_the_limits(folder: str, machine: Machine) -> Iterator[Check]:
    size, files = machine.limits()
    if size is not None and size < DEFAULT_CHANNEL:
        what = f"files of this process may have {size_text(size)} (ulimit -f)"
        yield Check("file size", "BAD", what, "ulimit -f unlimited, or LimitFSIZE=infinity in the systemd unit")
    if files is not None and files < 256:
        what = f"{files} open files (ulimit -n); each channel takes one and each of its objects another"
        yield Check("open files", "note", what, "ulimit -n 4096, or LimitNOFILE=4096 in the systemd unit")
    else:
        yield Check("open files", "ok", f"up to {files if files is not None else 'any number'}")


def of_the_container(folder: str, machine: Machine) -> Iterator[Check]:
    if not machine.in_container():
        return
    total, _, _ = machine.space("/dev/shm") if os.path.isdir("/dev/shm") else (0, 0, None)
    private = os.path.realpath(folder).startswith("/dev/shm/") and not machine.is_mount(folder)
    share = "mount one volume into both containers, and set FLYRING_DIR to it (docs/containers.md)"
    if private and 0 < total <= 64 << 20:
        what = f"the container's own /dev/shm has {size_text(total)}"
        yield Check("container", "note", what, f"docker run --shm-size 1g; to share channels, {share}")
    elif private:
        yield Check("container", "note", "this /dev/shm may be the container's own; others do not see it", share)
    else:
        yield Check("container", "ok", "the folder is a mount, or outside /dev/shm")


def of_the_kernel(folder: str, machine: Machine) -> Iterator[Check]:
    yield Check("kernel", "ok", machine.release())
    slow = "nothing, or allow the call in the sandbox (seccomp): Flyring takes a slower way by itself"
    if machine.has_membarrier():
        yield Check("membarrier", "ok", "sleepers are woken without a fence in each publish")
    else:
        yield Check("membarrier", "note", "not there, or refused: sleepers nap for 1 ms at most", slow)
    if machine.has_futex_waitv():
        yield Check("futex_waitv", "ok", "a WaitSet sleeps until it is woken")
    else:
        yield Check("futex_waitv", "note", "not there, or refused (it came with Linux 5.16): a WaitSet naps", slow)


def of_the_memory(folder: str, machine: Machine) -> Iterator[Check]:
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    chosen = machine.chosen(path)
    what = f"transparent_hugepage/enabled is {chosen or 'not there'}"
    if chosen == "always":
        do = f"echo madvise > {path}, if single slow messages matter"
        yield Check("huge pages", "note", f"{what}: the kernel may stop a process to move its pages", do)
    else:
        yield Check("huge pages", "ok", what)
    option = machine.huge_pages(folder)
    if option is not None:
        place = machine.mount(folder)
        what = f"{place} is mounted with huge={option}"
        if option == "always":
            do = f"mount -o remount,huge=within_size {place}"
            yield Check("huge pages", "note", f"{what}: each file takes at least 2 MiB", do)
        else:
            yield Check("huge pages", "ok", what)
    mode = machine.text("/proc/sys/vm/zone_reclaim_mode")
    if mode not in ("", "0"):
        what = f"zone_reclaim_mode is {mode}: memory is searched for on one node while others have plenty"
        yield Check("zone reclaim", "note", what, "sysctl vm.zone_reclaim_mode=0")
    else:
        yield Check("zone reclaim", "ok", f"zone_reclaim_mode is {mode or 'not there'}")
    swaps = machine.text("/proc/swaps").splitlines()[1:]
    if swaps:
        what = f"{len(swaps)} swap area{'s' * (len(swaps) > 1)}: what is idle in /dev/shm may be written to a disk"
        yield Check(
            "swap", "note", what, "swapoff -a, or memory.swap.max=0, if the first message after a pause matters"
        )
    else:
        yield Check("swap", "ok", "none")


def of_the_cores(folder: str, machine: Machine) -> Iterator[Check]:
    cores = machine.cores()
    if len(cores) < 2:
        what = "this process may use one core: two processes that spin take turns"
        yield Check("cores", "note", what, "let readers and publishers sleep (wait block), or give them two cores")
    else:
        yield Check("cores", "ok", f"{len(cores)} for this process")
    slow = [core for core in cores if machine.governor(core) not in ("", "performance")]
    if slow:
        what = f"{len(slow)} cores have the governor {machine.governor(slow[0])}: an idle core wakes up slowly"
        yield Check("governor", "note", what, "cpupower frequency-set -g performance, if microseconds matter")
    elif any(machine.governor(core) for core in cores):
        yield Check("governor", "ok", "performance")
    else:
        yield Check("governor", "ok", "the machine does not tell; a virtual machine's host decides")
    quota = machine.quota()
    if quota is not None:
        what = f"the cgroup may use {quota:.3g} cores; beyond that the kernel stops it, for up to 100 ms"
        do = "take the limit off (cpu.max, --cpus), or let all readers and publishers sleep (wait block)"
        yield Check("cpu limit", "note", what, do)
    isolated = machine.text("/sys/devices/system/cpu/isolated")
    if isolated:
        yield Check("isolation", "ok", f"cores {isolated} are isolated; pin what spins there (taskset)")
    else:
        yield Check("isolation", "ok", "no core is isolated; that matters beyond the 99.9th percentile only")


def of_the_channels(folder: str, machine: Machine) -> Iterator[Check]:
    names = sorted(entries(folder, must_exist=False)) if os.path.isdir(folder) and os.access(folder, os.R_OK) else []
    good = True
    for name in names:
        path = os.path.join(folder, name)
        title = name.removesuffix(SUFFIX)
        try:
            with open_image(path) as image:
                look = image.look()
                if image.problem is not None or look is None:
                    raise image.problem or FlyringError(path)
                stats, old = look.stats(path), image.another_boot()
        except (FlyringError, OSError) as error:
            good = False
            yield Check("channel", "BAD", str(error), f"flyring check {title}, then make it again or remove the file")
            continue
        dead = [
            f"publisher {ring.slot} ({ring.name or 'no name'})"
            for ring in stats.publishers
            if ring.state == "away" and ring.claimed > ring.published
        ]
        dead += [
            f"worker {slot.slot} ({slot.name or 'no name'})"
            for slot in stats.subscribers
            if slot.state == "away" and slot.in_hand is not None
        ]
        if dead:
            good = False
            yield Check("channel", "note", f"{title}: left by the dead: {', '.join(dead)}", f"flyring recover {title}")
        for slot in stats.subscribers:
            lag = sum(gate.lag for gate in slot.gates)
            if slot.kept and slot.state == "away" and lag > 0 and stats.kind in ("inbox", "broadcast"):
                good = False
                what = f"{title}: subscriber {slot.slot} ({slot.name or 'no name'}) is kept, has no owner, and is "
                what += f"{size_text(lag)} of {size_text(stats.capacity)} behind"
                yield Check("channel", "note", what, f"start it, or flyring evict {title} {slot.slot}")
        if old:
            good = False
            yield Check(
                "channel", "note", f"{title}: last written before this boot", f"flyring rm {title}, if not needed"
            )
    if good:
        yield Check("channels", "ok", f"{len(names)}, without leftovers")
    left = machine.temporary(folder)
    if left:
        what = f"{len(left)} unfinished files of processes that died while they made a channel"
        yield Check("unfinished", "note", what, f"rm {' '.join(left[:4])}")


def of_the_tables(folder: str, machine: Machine) -> Iterator[Check]:
    readable = os.path.isdir(folder) and os.access(folder, os.R_OK)
    names = sorted(entries(folder, must_exist=False, suffix=TABLES)) if readable else []
    good = True
    for name in names:
        title = name.removesuffix(TABLES)
        try:
            with open_table(os.path.join(folder, name)) as image:
                stats, checked, length = image.stats(), image.header.checked, image.header.file_length
        except (FlyringError, OSError) as error:
            good = False
            yield Check("table", "BAD", str(error), "make it again from a snapshot, or remove the file")
            continue
        for what, do in left_of(title, stats, checked):
            good = False
            yield Check("table", "note", f"{title}: {what}", do)
        if length >= LARGE_TABLE and machine.huge_pages(folder) == "never":
            what = f"{title}: it is large ({size_text(length)}), and huge pages would make its reads faster"
            do = f"mount -o remount,huge=within_size {machine.mount(folder)}"
            yield Check("table", "note", what, f"{do}; then flyring table grow {title} {stats.capacity} copies it")
    if names and good:
        yield Check("tables", "ok", f"{len(names)}, without leftovers")


def of_the_journals(folder: str, machine: Machine) -> Iterator[Check]:
    if not (os.path.isdir(folder) and os.access(folder, os.R_OK)):
        return
    journals, others = journal_show.look(folder)
    for one in others:
        yield Check("journal", "BAD", one["reason"], "make it again from a copy, or remove the folder")
    good = not others
    for one in journals:
        for bad, what, do in left_of_journal(one, time.time_ns()):
            good = False
            yield Check("journal", "BAD" if bad else "note", f"{one['name']}: {what}", do)
    if journals and good:
        yield Check("journals", "ok", f"{len(journals)}, without leftovers")


def left_of(title: str, stats: TableStats, checked: bool) -> Iterator[tuple[str, str]]:
    """Yields what is to be done about a table, and how."""
    if stats.needs_recovery and checked:
        yield "needs recovery: readers are refused until a process writes", f"flyring table check {title}"
    elif stats.needs_recovery:
        yield "last written before this boot, without checksums: it cannot be read", f"flyring table rm {title}"
    if stats.unfinished:
        last = f"; the last TableWriter was {stats.writer or 'without a name'}" if stats.attached_at else ""
        yield f"a process died during a change, which the next writer completes{last}", f"flyring table check {title}"
    if stats.size >= stats.capacity:
        yield f"full: {stats.size} keys", f"flyring table grow {title} {2 * stats.capacity}, or remove keys"
    if stats.damaged:
        remedy = f"go back to a snapshot: copy it to {title} while no process has the table open"
        yield f"{stats.damaged} values were lost in the last recovery", remedy


def of_the_versions(folder: str, machine: Machine) -> Iterator[Check]:
    from .. import __version__

    yield Check("version", "ok", f"this is Flyring {__version__}, layout {layout.MAJOR}.{layout.MINOR}")
    found = machine.libraries(pids_of(folder))
    versions = {version for version, _ in found if version}
    text = ", ".join(f"{what} in {count} process{'es' * (count > 1)}" for (_, what), count in sorted(found.items()))
    if len(versions | {__version__}) > 1:
        do = "docs/upgrades.md says what may run together; upgrade readers of a file before its creator"
        yield Check("in use", "note", f"several versions: {text}", do)
    elif found:
        yield Check("in use", "ok", f"{text} (C++ programs do not tell their version)")


def pids_of(folder: str) -> set[int]:
    """Returns the pids of the owners of slots."""
    pids: set[int] = set()
    for name in entries(folder, must_exist=False) if os.path.isdir(folder) and os.access(folder, os.R_OK) else []:
        try:
            with open_image(os.path.join(folder, name)) as image:
                look = image.look()
                stats: Any = look.stats(image.path) if look and image.problem is None else None
        except (FlyringError, OSError):
            continue
        if stats is not None:
            pids |= {slot.pid for slot in (*stats.publishers, *stats.subscribers) if slot.state == "live"}
    return pids
