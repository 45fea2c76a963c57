# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/ work: a reader in each language prints what senders in each language sent. The last line is
`N passed, N failed`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
BUILD = ROOT / "build" / "examples"
LANGUAGES = ("python", "cpp", "java")
PATIENCE = 60  # seconds


def commands(example: str) -> dict[str, list[str]]:
    jars = [p for p in (ROOT / "java/demo/target").glob("flyring-demo-*.jar") if "original" not in p.name]
    if not jars:
        sys.exit("java/demo is not built: run ./dev demo")
    return {
        "python": [sys.executable, str(EXAMPLES / example / f"{example}.py")],
        "cpp": [str(BUILD / example)],
        "java": ["java", "-cp", str(jars[0]), str(EXAMPLES / example / f"{example.capitalize()}.java")],
    }


def waiting(reader: str) -> str | None:
    """What is wrong, if anything is."""
    programs = commands("waiting")
    with tempfile.TemporaryDirectory(prefix="flyring-examples-", dir="/dev/shm") as folder:
        environment = os.environ | {"FLYRING_DIR": folder}
        reading = subprocess.Popen(programs[reader], env=environment, stdout=subprocess.PIPE, text=True)
        assert reading.stdout is not None
        try:
            sent = []
            for sender in LANGUAGES:
                for channel in ("orders", "control"):
                    text = f"from {sender}"
                    subprocess.run([*programs[sender], channel, text], env=environment, check=True, timeout=PATIENCE)
                    sent.append(f"{channel}: {text}")
            subprocess.run([*programs["python"], "control", "stop"], env=environment, check=True, timeout=PATIENCE)
            printed = reading.communicate(timeout=PATIENCE)[0].splitlines()
        finally:
            reading.kill()
            reading.wait()
        # Each channel has its own order.
        for channel in ("orders", "control"):
            expected = [line for line in [*sent, "control: stop"] if line.startswith(channel)]
            got = [line for line in printed if line.startswith(channel)]
            if got != expected:
                return f"printed {got} of {channel}, not {expected}"
        if reading.returncode != 0:
            return f"ended with {reading.returncode}"
        refused = subprocess.run(
            [*programs[reader], "elsewhere", "text"], env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
        if refused.returncode == 0 or "orders" not in refused.stderr:
            return f"a wrong channel name ended with {refused.returncode}: {refused.stderr}"
    return None


def main() -> int:
    subprocess.run(["cmake", "-S", EXAMPLES, "-B", BUILD], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", BUILD, "--parallel", "2"], check=True, stdout=subprocess.DEVNULL)
    failed = 0
    for reader in LANGUAGES:
        wrong = waiting(reader)
        failed += wrong is not None
        print(f"FAILED: waiting in {reader}: {wrong}" if wrong else f"ok: waiting in {reader}")
    print(f"{len(LANGUAGES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
