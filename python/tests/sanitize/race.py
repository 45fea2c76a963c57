# SPDX-License-Identifier: Apache-2.0
"""Runs the C core under ThreadSanitizer, and mutants that it must find: publish and poll of a ring (publish.c), and
objects of a queue, a service, a journal and a table (objects.c).

Needs clang, Python's headers and its shared library. Usage: race.py [--part K/N]: only every N-th mutant, from number K
on. The last line is "N passed, M failed".
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
FLAGS = ["-std=gnu11", "-O1", "-g", "-fsanitize=thread", "-DPy_LIMITED_API=0x030b0000"]
FLAGS += ["-Wno-gnu-variable-sized-type-not-at-end"]
LIMIT = 120  # s for a run, which takes about one
CLANG = os.environ.get("CLANG", "clang")
OWN = {"publish": ("publish.c", "poll.c")}  # the files of a run's program, instead of objects.c
RUNS = ("publish", "queue", "service", "journal", "table")  # but for publish, arguments of objects
INCLUDED = ("batch.c", "claim.c", "offer.c", "poll.c", "reserve.c", "writer.c")  # in publish.c and poll.c

# name: run, file of the core, the line's comment (or none), the text there, the text in the mutant
MUTANTS = {
    "commit-relaxed": ("publish", "ring.h", r"6: pairs with poll 1", "STORE32_RELEASE", "STORE32_RELAXED"),
    "length-relaxed": ("publish", "poll.c", r"6\.9, 1: once; pairs", "LOAD32_ACQUIRE", "LOAD32_RELAXED"),
    "gate-relaxed": ("publish", "subscriber.h", r"after the last read below it", "STORE64_RELEASE", "STORE64_RELAXED"),
    "recompute-relaxed": (
        "publish", "ring.h", r"pairs with poll 4, join 2 and 4", "LOAD64_ACQUIRE", "LOAD64_RELAXED",
    ),
    "queue-length-relaxed": ("queue", "take.c", r"channel 6\.9, 1: once", "LOAD32_ACQUIRE", "LOAD32_RELAXED"),
    "queue-done-relaxed": ("queue", "take.c", r"5: gives its bytes back", "STORE64_RELEASE", "STORE64_RELAXED"),
    "queue-next-relaxed": ("queue", "take.c", r"as above", "STORE64_RELEASE", "STORE64_RELAXED"),
    "service-drain-relaxed": ("service", "drain.c", r"6\.9, 1: once; pairs", "LOAD32_ACQUIRE", "LOAD32_RELAXED"),
    "service-poll-relaxed": ("service", "serve.c", r"publish 6", "LOAD32_ACQUIRE", "LOAD32_RELAXED"),
    "journal-commit-relaxed": (
        "journal", "journal_append.c", r"append 5; pairs with", "STORE32_RELEASE", "STORE32_RELAXED",
    ),
    "journal-length-relaxed": (
        "journal", "journal_read.c", r"once; pairs with append 5", "LOAD32_ACQUIRE", "LOAD32_RELAXED",
    ),
    "table-plain-copy": (
        "table", "atomics.h", "", "int64_t word = LOAD64_RELAXED(from + at);\n        memcpy(to + at, &word, 8)",
        "memcpy(to + at, from + at, 8)",
    ),
    "table-plain-words": (
        "table", "table_change.c", "", "STORE64_RELAXED(to + at, word);\n    }\n    if",
        "memcpy(to + at, &word, 8);\n    }\n    if",
    ),
}  # fmt: skip


def copy(name: str, work: Path) -> Path:
    """A copy of core and of this folder, so that a mutant is a change to the copy."""
    tree = work / name
    shutil.copytree(CORE, tree / "core")
    shutil.copytree(HERE, tree / "tests" / "sanitize")
    if name in MUTANTS:
        _, file, comment, right, wrong = MUTANTS[name]
        text = (tree / "core" / file).read_text()
        # The comment may be on the line after the access.
        where = rf"{right}(?=[^;]*;?[^;]*/\* {comment})" if comment else re.escape(right)
        mutant, changes = re.subn(where, wrong, text)
        if changes != 1:
            raise SystemExit(f"the mutant {name} changes {file} in {changes} places")
        (tree / "core" / file).write_text(mutant)
    return tree


def compiled(tree: Path, source: Path) -> Path:
    target = source.with_suffix(".o")
    include = [f"-I{sysconfig.get_path('include')}", f"-I{tree / 'core'}"]
    subprocess.run([CLANG, *FLAGS, *include, "-c", str(source), "-o", str(target)], check=True)
    return target


def sources(tree: Path, own: tuple[str, ...]) -> list[Path]:
    """The files of a program: its own, and those of the core that it does not include."""
    included = [tree / "core" / name for name in INCLUDED] if "publish.c" in own else []
    core = [file for file in sorted((tree / "core").rglob("*.c")) if file not in included]
    return core + [tree / "tests" / "sanitize" / name for name in own]


def link(run: str, name: str, work: Path) -> list[str]:
    """Builds a program. Returns the command. A mutant of a .c file has the right one's objects of the others."""
    tree, right, objects = work / name, work / "right", []
    changed = MUTANTS[name][1] if name in MUTANTS else "none.c"
    for source in sources(tree, OWN.get(run, ("objects.c",))):
        same = changed.endswith(".c") and source.name != changed and source.parent.name != "sanitize"
        object_ = (right if same or name == "right" else tree) / source.relative_to(tree).with_suffix(".o")
        objects.append(object_ if object_.exists() else compiled(tree, source))
    program = tree / ("race" if run in OWN else "objects")
    if not program.exists():
        wrap = [] if run in OWN else ["-Wl,--wrap=mmap64,--wrap=munmap"]
        library = [f"-L{sysconfig.get_config_var('LIBDIR')}", f"-l{LIBRARY}", "-lpthread"]
        subprocess.run([CLANG, *FLAGS, *map(str, objects), "-o", str(program), *wrap, *library], check=True)
    return [str(program)] if run in OWN else [str(program), str(HERE / "objects.py"), run]


def main() -> int:
    failed = 0
    shared = Path(sysconfig.get_config_var("LIBDIR")) / f"lib{LIBRARY}.so"
    if not shared.exists():
        raise SystemExit(f"there is no {shared}: ThreadSanitizer tells Python's locks by their library")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        work = Path(folder)
        first, _, step = (sys.argv[2] if sys.argv[1:2] == ["--part"] else "0/1").partition("/")
        right = copy("right", work)
        everything = sources(right, ("objects.c", "publish.c", "poll.c")) + sources(right, ())
        list(pool.map(lambda source: compiled(right, source), dict.fromkeys(everything)))
        names = list(MUTANTS)[int(first) :: int(step)]
        for name in names:
            copy(name, work)
        plan = [(run, "right") for run in RUNS] + [(MUTANTS[name][0], name) for name in names]
        for run, name in plan[: len(RUNS)]:
            link(run, name, work)
        commands = pool.map(lambda one: link(one[0], one[1], work), plan)
        for (run, name), command in zip(plan, commands, strict=True):
            environment = {**os.environ, "PYTHONPATH": str(HERE.parents[1] / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
            environment["TSAN_OPTIONS"] = "halt_on_error=1"
            environment["PYTHONMALLOC"] = "malloc"  # ThreadSanitizer knows that what it returns is new
            environment["LD_LIBRARY_PATH"] = str(sysconfig.get_config_var("LIBDIR"))
            with tempfile.TemporaryDirectory(prefix="flyring-race-", dir="/dev/shm") as files:
                environment["FLYRING_DIR"] = files
                command = ["timeout", "--signal=KILL", str(LIMIT), *command]
                result = subprocess.run(command, env=environment, capture_output=True, text=True)
            # Not an empty stderr: the symbolizer complains there of the name that /proc/self/maps has for a new file.
            race = "ThreadSanitizer: data race" in result.stderr
            good = race if name in MUTANTS else result.returncode == 0 and not race
            what = f"{run}, {name}"
            print(f"{what}: {'a race was found' if race else result.stdout.strip().replace(chr(10), '; ')}", flush=True)
            if not good:
                failed += 1
                print(f"FAILED {what}, status {result.returncode}\n{result.stderr}")
    print(f"{len(plan) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
