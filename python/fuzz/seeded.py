# SPDX-License-Identifier: Apache-2.0
"""Shows that the fuzzer finds reads and writes outside of the mapping. It must fail on each core with a planted
mistake: one does not check the length of a subscriber's record, others that of a dead worker's job, of a value of a
table or of a journal's record, or the cell on top of the stack of a table. ``python python/fuzz/seeded.py``; a C
compiler is needed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import flyring

CORE = Path(__file__).parents[1] / "core"
MISTAKES = (
    ("channel", "poll.c", "(ring->cursor & self->base.mask) + n > self->base.capacity", "false"),  # 6.9, 2
    (
        "channel",
        "adopt.c",
        "*length >= RECORD_HEADER_LENGTH && offset + worker_record_size(self, *length) <= self->base.capacity",
        "*length >= RECORD_HEADER_LENGTH",
    ),  # queue.md 5, 7
    (
        "table",
        "table_reading.h",
        "length >= 0 && length <= map->value_bytes)) {",
        "length >= 0)) {",
    ),  # table.md 6, read 3
    (
        "journal",
        "journal_read.c",
        "UNLIKELY(!journal_is_sound(self->size, offset, length, type))",
        "false",
    ),  # journal.md 6
    ("table", "table_change.c", "top > fresh || fresh > map->cells || !cell_is_usable(map, top - 1)", "false"),  # 10
)
SECONDS = 60


def main() -> int:
    found = [finds(*mistake) for mistake in MISTAKES]
    print(f"{sum(found)} passed, {len(found) - sum(found)} failed")
    return int(not all(found))


def finds(kind: str, name: str, check: str, mistake: str) -> bool:
    """Returns whether the fuzzer fails on a core with this mistake."""
    with tempfile.TemporaryDirectory(prefix="flyring-seeded-") as folder:
        build(Path(folder), name, check, mistake)
        command = [sys.executable, str(Path(__file__).parent), "--seconds", str(SECONDS), "--keep", folder]
        command += ["--kind", kind]
        done = subprocess.run(
            command, env=os.environ | {"PYTHONPATH": folder}, capture_output=True, text=True, timeout=5 * SECONDS
        )
    died = "ended with SIGSEGV" in done.stdout or "SystemError: Negative size" in done.stderr
    found = done.returncode == 1 and died
    if not found:
        print(f"FAILED: the over-read in {name} was not found: status {done.returncode}")
        print(f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return found


def build(folder: Path, name: str, check: str, mistake: str) -> None:
    """Builds the package with a core in which the mistake replaces the check."""
    package, core = folder / "flyring", folder / "core"
    shutil.copytree(Path(flyring.__file__).parent, package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copytree(CORE, core)
    text = (core / name).read_text("utf-8")
    if text.count(check) != 1:
        raise SystemExit(f"{name} does not hold {check!r} once any more: mend this program")
    (core / name).write_text(text.replace(check, mistake), "utf-8")
    compiler = shlex.split(os.environ.get("CC", "cc"))
    flags = ["-shared", "-fPIC", "-std=c11", "-O1", "-DPy_LIMITED_API=0x030b0000"]
    flags += [f"-I{sysconfig.get_path('include')}", f"-I{core}"]
    sources = [str(source) for source in sorted(core.rglob("*.c"))]
    subprocess.run([*compiler, *flags, "-o", str(package / "_core.abi3.so"), *sources], check=True)


if __name__ == "__main__":
    sys.exit(main())
