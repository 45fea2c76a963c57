# SPDX-License-Identifier: Apache-2.0
"""The commands of the demo programs (bench/DEMOS.md), and the choice of cores."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = ("cpp", "java", "python")


def command(language: str) -> list[str]:
    """Returns the argv that starts the demo program of a language."""
    if language == "cpp":
        return [str(ROOT / "build/cpp/demo/flyring-demo")]
    if language == "java":
        jars = [p for p in (ROOT / "java/demo/target").glob("flyring-demo-*.jar") if "original" not in p.name]
        if not jars:
            sys.exit("java/demo is not built: run ./dev demo")
        java = str(Path(os.environ["JAVA_HOME"]) / "bin/java") if "JAVA_HOME" in os.environ else "java"
        return [java, "-cp", str(jars[0]), "io.flyring.demo.Demo"]
    return [sys.executable, "-m", "flyring.demo"]


def two_cores() -> tuple[int, int]:
    """Returns two allowed cores, on different physical cores if possible; (-1, -1) on a machine with one core."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        return -1, -1
    first = allowed[0]
    siblings = Path(f"/sys/devices/system/cpu/cpu{first}/topology/thread_siblings_list")
    mine: set[int] = {first}
    if siblings.exists():
        for part in siblings.read_text().strip().split(","):
            low, _, high = part.partition("-")
            mine |= set(range(int(low), int(high or low) + 1))
    return first, next((c for c in allowed if c not in mine), allowed[1])
