# SPDX-License-Identifier: Apache-2.0
"""./dev bench --against COMMIT --with COMMAND: runs a command that looks at the channels of this tree's side only. So
the ratio shows what it costs a channel if the command looks at it. The command's own time on a core takes from both
sides alike."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from driver.sides import Failure

PATIENCE = 5.0  # seconds that the command may take to end


class Beside:
    """Runs the command for a ``with`` block. Its FLYRING_DIR is a link to the folder of the side that runs now."""

    def __init__(self, command: str, env: Mapping[str, str], log: Path) -> None:
        self.words, self.log = shlex.split(command), log
        self.home = tempfile.TemporaryDirectory(prefix="flyring-bench-with-")
        self.link = Path(self.home.name, "folder")
        self.env = {**env, "FLYRING_DIR": str(self.link)}
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Beside:
        self.point(Path(self.home.name, "none"))
        (Path(self.home.name) / "none").mkdir()
        try:
            with self.log.open("wb") as log:
                self.process = subprocess.Popen(
                    self.words, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
        except OSError as error:
            self.home.cleanup()
            raise Failure(f"--with {shlex.join(self.words)}: {error}") from error
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.home.cleanup()

    def point(self, folder: str | Path) -> None:
        """Shows the command another folder. Raises Failure if the command has ended: nothing looks then."""
        if self.process is not None and (status := self.process.poll()) is not None:
            said = self.log.read_text("utf-8", "replace").splitlines()[-3:]
            raise Failure(f"--with {shlex.join(self.words)} ended with status {status}: {' / '.join(said)}")
        new = self.link.with_name("new")
        new.symlink_to(folder)
        new.replace(self.link)
