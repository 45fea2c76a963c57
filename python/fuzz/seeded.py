# SPDX-License-Identifier: Apache-2.0
"""Shows that the fuzzer finds a read outside of the mapping: it must fail on a core that does not check the length of
a record. ``python python/fuzz/seeded.py``; a C compiler is needed."""

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
CHECK = "(ring->cursor & self->base.mask) + n > self->base.capacity"  # 6.9, 2, in poll.c
SECONDS = 60


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="flyring-seeded-") as folder:
        build(Path(folder))
        command = [sys.executable, str(Path(__file__).parent), "--seconds", str(SECONDS), "--keep", folder]
        done = subprocess.run(
            command, env=os.environ | {"PYTHONPATH": folder}, capture_output=True, text=True, timeout=4 * SECONDS
        )
    found = done.returncode == 1 and "ended with SIGSEGV" in done.stdout
    if not found:
        print(
            f"FAILED: the over-read was not found: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    print(f"{int(found)} passed, {int(not found)} failed")
    return int(not found)


def build(folder: Path) -> None:
    """The package with a core that hands out records of any length."""
    package, core = folder / "flyring", folder / "core"
    shutil.copytree(Path(flyring.__file__).parent, package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copytree(CORE, core)
    text = (core / "poll.c").read_text("utf-8")
    if text.count(CHECK) != 1:
        raise SystemExit(f"poll.c does not hold {CHECK!r} once any more: mend this program")
    (core / "poll.c").write_text(text.replace(CHECK, "false"), "utf-8")
    compiler = shlex.split(os.environ.get("CC", "cc"))
    flags = ["-shared", "-fPIC", "-std=c11", "-O2", "-DPy_LIMITED_API=0x030b0000"]
    flags += [f"-I{sysconfig.get_path('include')}", f"-I{core}"]
    sources = [str(source) for source in sorted(core.rglob("*.c"))]
    subprocess.run([*compiler, *flags, "-o", str(package / "_core.abi3.so"), *sources], check=True)


if __name__ == "__main__":
    sys.exit(main())
