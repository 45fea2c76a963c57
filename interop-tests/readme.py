# SPDX-License-Identifier: Apache-2.0
"""The programs in README.md work when pasted: each prints what all three sent."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIX = {"python": "hello.py", "cpp": "hello.cpp", "java": "Hello.java"}


def snippets() -> dict[str, str]:
    found = re.findall(r"^```(python|cpp|java)\n(.*?)^```", (ROOT / "README.md").read_text(), re.S | re.M)
    if sorted(language for language, _ in found) != ["cpp", "java", "python"]:
        sys.exit(f"README.md should hold one program per language, not {[language for language, _ in found]}")
    return dict(found)


def main() -> int:
    jars = [p for p in (ROOT / "java/demo/target").glob("flyring-demo-*.jar") if "original" not in p.name]
    if not jars:
        sys.exit("java/demo is not built: run ./dev demo")
    passed = failed = 0
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory(dir="/dev/shm") as channels:
        folder = Path(name)
        for language, text in snippets().items():
            (folder / SUFFIX[language]).write_text(text)
        cpp_flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-pthread", f"-I{ROOT / 'cpp/include'}"]
        subprocess.run(["c++", *cpp_flags, "hello.cpp", "-o", "hello"], cwd=folder, check=True)
        subprocess.run(["javac", "-cp", str(jars[0]), "Hello.java"], cwd=folder, check=True)
        commands = {
            "python": [sys.executable, "hello.py"],
            "cpp": ["./hello"],
            "java": ["java", "-cp", f"{jars[0]}:.", "Hello"],
        }
        environment = os.environ | {"FLYRING_DIR": channels}

        def run(language: str, *arguments: str) -> str:
            return subprocess.run(
                [*commands[language], *arguments],
                cwd=folder,
                env=environment,
                check=True,
                timeout=60,
                stdout=subprocess.PIPE,
                text=True,
            ).stdout

        for reader in commands:
            sent = [f"{sender} to {reader}" for sender in commands]
            for sender, message in zip(commands, sent):
                run(sender, message)
            got = run(reader).splitlines()
            if sorted(got) == sorted(sent) and run(reader) == "":
                passed += 1
                print(f"ok: {reader} printed {got}")
            else:
                failed += 1
                print(f"FAILED: {reader} printed {got}, not {sent}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
