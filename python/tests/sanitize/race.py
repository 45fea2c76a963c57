# SPDX-License-Identifier: Apache-2.0
"""Runs publish and poll of the C core under ThreadSanitizer (see publish.c), and mutants that it must find.

Needs clang, Python's headers and its library. Usage: race.py [--part K/N]: only every N-th mutant, from number K on.
The last line is "N passed, M failed".
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORE = HERE.parents[1] / "core"
LIBRARY = f"python{sysconfig.get_config_var('LDVERSION')}"  # here: its first use is not thread-safe

# name: file of the core, the line's comment, the text there, the text in the mutant
MUTANTS = {
    "commit-relaxed": ("ring.h", r"6: pairs with poll 1", "STORE32_RELEASE", "STORE32_RELAXED"),
    "length-relaxed": ("poll.c", r"6\.9, 1: once; pairs", "LOAD32_ACQUIRE", "LOAD32_RELAXED"),
    "gate-relaxed": ("subscriber.h", r"after the last read below it", "STORE64_RELEASE", "STORE64_RELAXED"),
    "recompute-relaxed": ("ring.h", r"pairs with poll 4, join 2 and 4", "LOAD64_ACQUIRE", "LOAD64_RELAXED"),
}


def build(name: str, work: Path) -> Path:
    """A copy of core and of this folder, so that a mutant is a change to the copy."""
    tree = work / name
    shutil.copytree(CORE, tree / "core")
    shutil.copytree(HERE, tree / "tests" / "sanitize")
    if name in MUTANTS:
        file, comment, right, wrong = MUTANTS[name]
        text = (tree / "core" / file).read_text()
        # The comment may be on the line after the access.
        mutant, changes = re.subn(rf"{right}(?=[^;]*;?[^;]*/\* {comment})", wrong, text)
        if changes != 1:
            raise SystemExit(f"the mutant {name} changes {file} in {changes} places")
        (tree / "core" / file).write_text(mutant)
    program = tree / "race"
    own = [tree / "tests" / "sanitize" / "publish.c", tree / "tests" / "sanitize" / "poll.c"]
    included = [tree / "core" / name for name in ("batch.c", "claim.c", "offer.c", "poll.c", "reserve.c", "writer.c")]
    rest = [p for p in sorted((tree / "core").rglob("*.c")) if p not in included]
    subprocess.run(
        [
            os.environ.get("CLANG", "clang"),
            "-std=gnu11",
            "-O1",
            "-g",
            "-fsanitize=thread",
            "-DPy_LIMITED_API=0x030b0000",
        ]
        + [f"-I{sysconfig.get_path('include')}", f"-I{tree / 'core'}", *map(str, own + rest), "-o", str(program)]
        + [f"-L{sysconfig.get_config_var('LIBDIR')}", f"-l{LIBRARY}", "-lpthread"],
        check=True,
    )
    return program


def main() -> int:
    failed = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        first, _, step = (sys.argv[2] if sys.argv[1:2] == ["--part"] else "0/1").partition("/")
        names = ["right", *list(MUTANTS)[int(first) :: int(step)]]
        for name, program in zip(names, pool.map(lambda name: build(name, Path(folder)), names), strict=True):
            result = subprocess.run(
                [str(program)], env={**os.environ, "TSAN_OPTIONS": "halt_on_error=1"}, capture_output=True, text=True
            )
            race = "ThreadSanitizer: data race" in result.stderr
            good = race if name in MUTANTS else result.returncode == 0 and not result.stderr
            print(f"{name}: {'a race was found' if race else result.stdout.strip().replace(chr(10), '; ')}")
            if not good:
                failed += 1
                print(f"FAILED {name}, status {result.returncode}\n{result.stderr}")
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
