# SPDX-License-Identifier: Apache-2.0
"""sbe-tool in one JVM for a whole run (src/main/java/sbetool/Server.java has the protocol)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

JAR = "sbe-tool-server.jar"
# The JVM's warnings, as of a full code cache after thousands of generated classes, must not mix with the answers.
COMMAND = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable", "-Xlog:all=warning:stderr"]


class SbeToolError(Exception):
    """An exception of sbe-tool, or of a codec that it generated."""


class Server:
    def __init__(self, jar: Path, folder: Path) -> None:
        self._process = subprocess.Popen(
            [*COMMAND, "-jar", str(jar), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=open(folder / "sbe-tool.log", "w"),  # noqa: SIM115 - the child's, for as long as it lives
            encoding="utf-8",
        )

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        pipes = self._process
        assert pipes.stdin is not None and pipes.stdout is not None
        pipes.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        pipes.stdin.flush()
        line = pipes.stdout.readline()
        if not line:
            raise RuntimeError(f"the JVM ended with status {pipes.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise SbeToolError(answer["error"])
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
