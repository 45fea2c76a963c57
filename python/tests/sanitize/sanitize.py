# SPDX-License-Identifier: Apache-2.0
"""The Python tests against an extension built with AddressSanitizer and UndefinedBehaviorSanitizer (gcc's).

Usage: PYTHON sanitize.py WORK-FOLDER [PYTEST-ARGUMENT ...], where PYTHON has the packages that the tests need. The
extension is built into WORK-FOLDER/site, which comes before PYTHON's installed packages. WORK-FOLDER/python runs
Python with it; the tests of pairs start their peer that way.

- The interpreter is not instrumented, so the runtime is preloaded, and PYTHONMALLOC=malloc makes its objects visible.
- Leak detection is off, because CPython does not free its static types and interned strings at exit.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[2]
SANITIZE = "-fsanitize=address,undefined -fno-sanitize-recover=undefined"
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:handle_sigbus=0",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "PYTHONMALLOC": "malloc",
}
# Reads 32 bytes behind an allocation, which must fail if the runtime is active.
OVER_READ = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.memcpy(ctypes.create_string_buffer(64), ctypes.c_void_p(libc.malloc(64) + 32), 64)
"""


def build(work: Path) -> Path:
    source, site = work / "source", work / "site"  # a copy, because setuptools builds in its source folder
    for folder in (source, site):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(PYTHON, source, ignore=shutil.ignore_patterns("build", "*.so", "*.egg-info", "__pycache__", ".*"))
    flags = {"CC": "gcc", "CFLAGS": f"{SANITIZE} -O1 -g -fno-omit-frame-pointer", "LDFLAGS": SANITIZE}
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--no-cache-dir"]
    subprocess.run([*pip, "--target", str(site), str(source), str(source / "peer")], check=True, env=os.environ | flags)
    for extension in (site / "flyring").glob("*.so"):
        if b"__asan_report_load" in extension.read_bytes():
            return site
    raise SystemExit("FAILED: the extension was built without AddressSanitizer")


def runtime(name: str) -> str:
    command = ["gcc", f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main(work: Path, arguments: list[str]) -> int:
    site = build(work)
    preload = f"{runtime('libasan.so')} {runtime('libubsan.so')}"
    own = OPTIONS | {"LD_PRELOAD": preload, "PYTHONPATH": str(site)}
    environment = os.environ | own
    launcher = work / "python"
    words = shlex.join([*(f"{name}={value}" for name, value in own.items()), sys.executable])
    launcher.write_text(f'#!/bin/sh\nexec env {words} "$@"\n')
    launcher.chmod(0o755)
    seeded = subprocess.run([sys.executable, "-c", OVER_READ], env=environment, capture_output=True, text=True)
    if "heap-buffer-overflow" not in seeded.stderr:
        print(f"FAILED: a seeded over-read was not seen:\n{seeded.stdout}{seeded.stderr}")
        return 1
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(PYTHON / "tests"), *arguments]
    return subprocess.run(tests, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))
