# SPDX-License-Identifier: Apache-2.0
"""The programs in README.md work when pasted: each prints what all three sent, bytes or typed messages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import flyring

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "spec" / "sbe" / "prices.xml"
PROGRAMS = {"hello": ("hello.py", "hello.cpp", "Hello.java"), "prices": ("prices.py", "prices.cpp", "Prices.java")}
LANGUAGES = ("python", "cpp", "java")
CMAKE = """cmake_minimum_required(VERSION 3.16)
project(readme LANGUAGES CXX)
set(FLYRING_BUILD_DEMOS OFF)
add_subdirectory({root}/cpp flyring)
add_compile_options(-Wall -Wextra)
add_executable(hello hello.cpp)
target_link_libraries(hello flyring::flyring)
add_executable(prices prices.cpp)
target_link_libraries(prices flyring::flyring)
flyring_sbe_generate(TARGET prices SCHEMA prices.xml)
"""


def snippets() -> dict[str, str]:
    """{file name: text}: the first program of each language is hello, the second prices."""
    found = re.findall(r"^```(python|cpp|java)\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M)
    texts = {language: [text for other, text in found if other == language] for language in LANGUAGES}
    if [len(texts[language]) for language in LANGUAGES] != [len(PROGRAMS)] * len(LANGUAGES):
        sys.exit(f"README.md should hold {len(PROGRAMS)} programs per language, not {[each for each, _ in found]}")
    return {
        file: texts[language][number]
        for number, files in enumerate(PROGRAMS.values())
        for language, file in zip(LANGUAGES, files)
    }


def fill(path: str) -> None:
    """Each ring, so that nothing fits any more."""
    with flyring.Channel.open(path) as channel:
        for _ in range(channel.publishers):
            publisher = channel.publisher()
            for length in (publisher.max_message_length, 0):
                while publisher.offer(bytes(length)):
                    pass


def main() -> int:
    jars = [p for p in (ROOT / "java/demo/target").glob("flyring-demo-*.jar") if "original" not in p.name]
    if not jars:
        sys.exit("java/demo is not built: run ./dev demo")
    passed = failed = 0
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory(dir="/dev/shm") as channels:
        folder = Path(name)
        shutil.copy(SCHEMA, folder)
        for file, text in snippets().items():
            (folder / file).write_text(text)
        (folder / "CMakeLists.txt").write_text(CMAKE.format(root=ROOT))

        def build(*command: str) -> None:
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)

        build("cmake", "-S", ".", "-B", "build")
        build("cmake", "--build", "build", "--target", "hello", "prices", "--parallel", "2")
        build("javac", "-cp", str(jars[0]), "Hello.java", "Prices.java")
        environment = os.environ | {"FLYRING_DIR": channels}

        def run(argv: list[str], *arguments: str) -> str:
            return subprocess.run(
                [*argv, *arguments],
                cwd=folder,
                env=environment,
                check=True,
                timeout=60,
                stdout=subprocess.PIPE,
                text=True,
            ).stdout

        for program, (python, _, java) in PROGRAMS.items():
            commands = {
                "python": [sys.executable, python],
                "cpp": [f"build/{program}"],
                "java": ["java", "-cp", f"{jars[0]}:.", java.removesuffix(".java")],
            }
            typed = program == "prices"
            for reader in LANGUAGES:
                sent = [f"{sender[0]}2{reader[0]}" for sender in LANGUAGES]  # a symbol has 8 characters
                for sender, message in zip(LANGUAGES, sent):
                    run(commands[sender], message)
                expected = [f"{message} 100 101" if typed else message for message in sent]
                got = run(commands[reader]).splitlines()
                if sorted(got) == sorted(expected) and run(commands[reader]) == "":
                    passed += 1
                    print(f"ok: {program} in {reader} printed {got}")
                else:
                    failed += 1
                    print(f"FAILED: {program} in {reader} printed {got}, not {expected}")
            fill(f"{channels}/{program}.ring")
            for sender in LANGUAGES:
                ended = subprocess.run(
                    [*commands[sender], "full"], cwd=folder, env=environment, timeout=60, capture_output=True, text=True
                )
                says = "full" in ended.stderr or "back-pressured" in ended.stderr or "room" in ended.stderr
                if ended.returncode > 0 and says:
                    passed += 1
                    print(f"ok: {program} in {sender} says that the ring is full")
                else:
                    failed += 1
                    print(f"FAILED: {program} in {sender} ended with {ended.returncode} on a full ring: {ended.stderr}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
