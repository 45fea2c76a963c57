# SPDX-License-Identifier: Apache-2.0
"""Compares the instructions per message of C++ and of Python's C path, counted by callgrind, with instructions.toml.

Counts do not depend on the machine's load, so they reveal slow losses of speed. A count of more than 5 % above the
table's fails. The table has a section for each compiler; without one, nothing is compared.

    instructions.py            measure all and compare
    instructions.py --update   measure all and write this compiler's sections
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "micro"
TABLE = HERE / "instructions.toml"
FLAGS = ["-std=c++17", "-O2", "-g", "-DNDEBUG"]  # the flags of cpp/CMakeLists.txt, and never -march=native

TOLERANCE = 0.05
# 32-byte messages in 1 MiB of 64-byte records: once around the ring, so that two rounds differ by whole ones. (Typed
# messages: records of 128 bytes, twice.)
LOOP = 16384
CPP = ("offer", "claim", "poll", "batch", "typed_claim", "typed_poll")
PYTHON = ("offer", "claim", "batch", "take", "poll")


def compiler(command: str) -> str:
    """ "g++ 12.2" """
    text = subprocess.run([command, "--version"], check=True, capture_output=True, text=True).stdout
    if clang := re.search(r"clang version (\d+\.\d+)", text):
        return f"clang++ {clang[1]}"
    version = subprocess.run([command, "-dumpfullversion"], check=True, capture_output=True, text=True).stdout
    return "g++ " + ".".join(version.split(".")[:2])


def compiler_of(extension: Path) -> str:
    """Returns the compiler that the extension was built with, which may not be the current one: "gcc 12.2"."""
    content = extension.read_bytes()
    if clang := re.search(rb"clang version (\d+\.\d+)", content):
        name = f"clang {clang[1].decode()}"
    elif gcc := re.search(rb"GCC: \([^)]*\) (\d+\.\d+)", content):
        name = f"gcc {gcc[1].decode()}"
    else:
        name = "unknown compiler"
    # Python's own flags apply, too; some distributions add one that costs instructions.
    return name + (" -fstack-protector" if b"__stack_chk_fail" in content else "")


def run(command: list[str], **options: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def callgrind(name: str, program: list[str], *options: str) -> list[Path]:
    """Runs a program. Returns callgrind's files in the order in which they were written."""
    out = BUILD / f"callgrind.{name}"
    for old in BUILD.glob(f"{out.name}*"):
        old.unlink()
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    collect = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--compress-strings=no"]
    run([*collect, *options, *program], env=environment)
    return sorted(BUILD.glob(f"{out.name}.*"), key=lambda file: int(file.suffix[1:])) + [out]


def count(file: Path, object_file: Path | None = None) -> int:
    """Returns the instructions in a callgrind file, or in its functions of one object file."""
    total, here, call = 0, object_file is None, False
    for line in file.read_text().splitlines():
        if line.startswith("ob=") and object_file is not None:
            here = Path(line[3:]).resolve() == object_file
        elif line.startswith("calls="):
            call = True  # the next line has the cost of the called function
        elif line[:1].isdigit() or line[:1] in ("+", "-", "*"):
            if here and not call:
                total += int(line.split()[1])
            call = False
    if total == 0:
        sys.exit(f"nothing was counted in {file}: does {object_file or 'measured_*'} still exist?")
    return total


def measure_python(python: str, extension: Path) -> dict[str, float]:
    program = [python, str(HERE / "count.py"), *PYTHON, str(LOOP)]
    files = callgrind("python", program, "--dump-before=sched_yield")
    if len(files) != 2 * len(PYTHON) + 1:
        sys.exit(f"{len(files)} callgrind files, {2 * len(PYTHON) + 1} expected: who else calls sched_yield?")
    counts = {operation: count(files[2 * i + 1], extension) / LOOP for i, operation in enumerate(PYTHON)}
    return {name: n - counts["offer"] if name in ("take", "poll") else n for name, n in counts.items()}


def measure_cpp(include: Path, codecs: Path) -> dict[str, float]:
    program = BUILD / "flyring-count"
    folders = ["-I", str(include), "-isystem", str(codecs)]
    run([CXX, *FLAGS, *folders, str(HERE / "count.cpp"), "-o", str(program), "-lpthread"])

    def total(operation: str, n: int) -> int:
        (file,) = callgrind("cpp", [str(program), operation, str(n)], f"--toggle-collect=measured_{operation}")
        return count(file)

    return {operation: (total(operation, 2 * LOOP) - total(operation, LOOP)) / LOOP for operation in CPP}


def write_table(table: dict[str, dict[str, float]]) -> None:
    lines = [
        "# SPDX-License-Identifier: Apache-2.0",
        "# Instructions per message of 32 bytes (typed: 70), by compiler. Written by instructions.py --update; see there.",
    ]
    for section in sorted(table):
        lines += ["", f'["{section}"]', *(f"{operation} = {n:.3f}" for operation, n in table[section].items())]
    TABLE.write_text("\n".join(lines) + "\n")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--update", action="store_true", help="write what was measured into instructions.toml")
    options.add_argument(
        "--python", default=str(ROOT / "build" / "venv" / "bin" / "python"), help="one that has flyring"
    )
    options.add_argument("--include", type=Path, default=ROOT / "cpp" / "include", help="of the C++ headers")
    options.add_argument(
        "--codecs",
        type=Path,
        default=ROOT / "build" / "cpp" / "demo" / "flyring-sbe" / "prices",
        help="the folder with prices/PriceUpdate.h, made by flyring_sbe_generate",
    )
    options.add_argument("--language", choices=("C++", "Python"), help="this one only")
    arguments = options.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is needed to count instructions. Install it: sudo apt-get install valgrind")
    if shutil.which(CXX) is None:
        sys.exit(f"{CXX} is needed. Install it: sudo apt-get install g++")
    if shutil.which(arguments.python) is None:
        sys.exit(f"there is no {arguments.python}: ./dev test builds it, --python names another one that has flyring")
    if not (arguments.codecs / "prices" / "PriceUpdate.h").exists():
        sys.exit(f"there are no codecs in {arguments.codecs}: ./dev test builds them, --codecs names another folder")
    BUILD.mkdir(parents=True, exist_ok=True)

    find = "import flyring._core as core; print(core.__file__)"
    extension = Path(run([arguments.python, "-c", find], cwd="/").strip()).resolve()
    machine = platform.machine()
    sections = {"C++": f"{compiler(CXX)}, {machine}", "Python": f"{compiler_of(extension)}, {machine}, Python"}
    measured = {}
    if arguments.language in (None, "C++"):
        measured["C++"] = measure_cpp(arguments.include, arguments.codecs)
    if arguments.language in (None, "Python"):
        measured["Python"] = measure_python(arguments.python, extension)

    table = tomllib.loads(TABLE.read_text()) if TABLE.exists() else {}
    if arguments.update:
        write_table({**table, **{sections[language]: measured[language] for language in measured}})

    passed = failed = skipped = 0
    print(f"{'instructions per message':26}{'measured':>10}{'table':>10}")
    for language, operations in measured.items():
        known = table.get(sections[language], {})
        print(f"{language} ({sections[language]})")
        for operation, now in operations.items():
            before = known.get(operation)
            if arguments.update:
                verdict = "written" if before is None else f"written, was {before:.1f}"
            elif before is None:
                skipped += 1
                verdict = "SKIPPED"
            elif now > before * (1 + TOLERANCE):
                failed += 1
                verdict = f"FAILED: {language} {operation} takes {now:.1f} instructions, the table says {before:.1f}"
                verdict += f" ({(now / before - 1) * 100:+.1f} %)"
            else:
                passed += 1
                verdict = "improved: update with --update" if now < before * (1 - TOLERANCE) else ""
            table_says = "-" if before is None else f"{before:.1f}"
            print(f"  {operation:24}{now:10.1f}{table_says:>10}  {verdict}".rstrip())
        if not known and not arguments.update:
            print(f'  NOT COMPARED: no table for this compiler ("{sections[language]}"), add it with --update')
    if arguments.update:
        print(f"{TABLE.name} is written")
        return 0
    if skipped:
        print(f"{skipped} SKIPPED: nothing to compare with")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


CXX = os.environ.get("CXX", "c++")

if __name__ == "__main__":
    sys.exit(main())
