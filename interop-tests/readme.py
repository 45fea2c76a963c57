# SPDX-License-Identifier: Apache-2.0
"""Tests README.md and the pages of docs/. Their programs and commands run and print what the page shows, programs in
three languages exchange messages, each error code has its line, and links are valid. pages.py describes the marks on
pages. With names of pages (README, queue ...) only those run. The last line is `N passed, N failed`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import flyring
import pages
from pages import LANGUAGES, Page

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "spec" / "sbe" / "prices.xml"
JAR = ROOT / "java/demo/target/flyring-demo-all.jar"
VERSION = flyring.__version__
PATIENCE = 120  # seconds
COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # Maven prints them even without other output
CMAKE = """cmake_minimum_required(VERSION 3.16)
project(pages LANGUAGES CXX)
set(FLYRING_BUILD_DEMOS OFF)
add_subdirectory({root}/cpp flyring)
add_compile_options(-Wall -Wextra)
"""


class Suite:
    def __init__(self) -> None:
        self.passed = self.failed = 0

    def says(self, what: str, wrong: str | None) -> None:
        if wrong is None:
            self.passed += 1
            print(f"ok: {what}", flush=True)
        else:
            self.failed += 1
            print(f"FAILED: {what}: {wrong}", flush=True)


def scratch_of(page: Page) -> str:
    """Returns the name of the page's folders. A page finds another page's files in ../README.md and so on."""
    return str(page.path.relative_to(ROOT)).replace("/", "-")


def maven_repository(folder: Path) -> Path:
    """Makes a Maven repository for the page: links to the contents of the user's repository, and Flyring as `mvn
    install` would add it. The user's repository stays unchanged."""
    own = Path.home() / ".m2/repository"
    (folder / "io").mkdir(parents=True)
    for path in [*own.glob("*"), *own.glob("io/*")]:
        if path.name not in ("io", "flyring"):
            (folder / path.relative_to(own)).symlink_to(path)
    for artifact, build in (("flyring", ROOT / "java/flyring/target"), ("flyring-parent", ROOT / "java/target")):
        into = folder / "io/flyring" / artifact / VERSION
        into.mkdir(parents=True)
        shutil.copy(build / ".flattened-pom.xml", into / f"{artifact}-{VERSION}.pom")
        if artifact == "flyring":
            shutil.copy(build / f"{artifact}-{VERSION}.jar", into)
    return folder


def environment(folder: Path, channels: str, maven: Path) -> dict[str, str]:
    """Installs for the page: Python's package and command, C++'s headers, Java's jar, a Maven repository."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return os.environ | {
        "FLYRING_DIR": channels,
        "FLYRING_ROOT": str(ROOT),
        "PATH": path,
        "CLASSPATH": f"{JAR}:.",
        "CPLUS_INCLUDE_PATH": str(ROOT / "cpp/include"),
        "MAVEN_OPTS": f"-Dmaven.repo.local={maven} -XX:TieredStopAtLevel=1",
        "TMPDIR": str(folder),
    }


def run_commands(suite: Suite, page: Page, folder: Path, env: dict[str, str]) -> None:
    """Runs a page's commands one after the other, in its folder. A command that ends with & runs in the background."""
    beside: list[tuple[pages.Command, subprocess.Popen[str]]] = []
    for command in page.commands:
        text = command.text.removesuffix("&").rstrip()
        process = subprocess.Popen(
            ["bash", "-c", text], cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if text != command.text:
            beside.append((command, process))
        else:
            suite.says(f"{page.path.name}:{command.line}: {text}", wrong_with(command, process))
    for command, process in beside:
        suite.says(f"{page.path.name}:{command.line}: {command.text}", wrong_with(command, process))


def wrong_with(command: pages.Command, process: subprocess.Popen[str]) -> str | None:
    try:
        printed = COLOURS.sub("", process.communicate(timeout=PATIENCE)[0]).splitlines()
    except subprocess.TimeoutExpired:
        process.kill()
        return f"no end after {PATIENCE} s: {process.communicate()[0]}"
    if process.returncode != 0:
        return f"status {process.returncode}: {printed}"
    return None if pages.matches(command.output, printed) else f"printed {printed}, not {command.output}"


def fill(path: str) -> None:
    """Fills each ring, so that no message fits any more."""
    with flyring.Channel.open(path) as channel:
        for _ in range(channel.publishers):
            publisher = channel.publisher()
            for length in (publisher.max_message_length, 0):
                while publisher.offer(bytes(length)):
                    pass


def build_exchanges(exchanges: list[tuple[Page, str]], folder: Path) -> None:
    """Builds all programs in one folder: C++ by CMake, Java by javac."""
    lists = CMAKE.format(root=ROOT)
    java = []
    for page, name in exchanges:
        files = [f"{name}.py", f"{name}.cpp", f"{name.capitalize()}.java"]
        if missing := [file for file in files if file not in page.files]:
            sys.exit(f"{page.path}: the exchange {name} lacks {missing}")
        for file in files:
            (folder / file).write_text(page.files[file])
        java.append(files[2])
        lists += f"add_executable({name} {name}.cpp)\ntarget_link_libraries({name} flyring::flyring)\n"
        if "flyring/sbe.hpp" in page.files[files[1]]:
            lists += f"flyring_sbe_generate(TARGET {name} SCHEMA {name}.xml)\n"
    (folder / "CMakeLists.txt").write_text(lists)
    for command in (
        ["cmake", "-S", ".", "-B", "build"],
        ["cmake", "--build", "build", "--parallel", "2"],
        ["javac", "-cp", str(JAR), *java],
    ):
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def exchange(suite: Suite, name: str, pattern: str, folder: Path, channels: str) -> None:
    """Checks that each language prints the messages of all three, and reports a full ring."""
    env = os.environ | {"FLYRING_DIR": channels}
    programs = {
        "python": [sys.executable, f"{name}.py"],
        "cpp": [f"build/{name}"],
        "java": ["java", "-cp", f"{JAR}:.", name.capitalize()],
    }

    def run(language: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*programs[language], *arguments], cwd=folder, env=env, timeout=PATIENCE, capture_output=True, text=True
        )

    for reader in LANGUAGES:
        sent = [f"{sender[0]}2{reader[0]}" for sender in LANGUAGES]  # a symbol in prices.xml has at most 8 characters
        ended = [run(sender, message) for sender, message in zip(LANGUAGES, sent, strict=True)]
        got, rest = run(reader), run(reader)
        expected = sorted(pattern.replace("{}", message) for message in sent)
        wrong = None
        if failures := [each.stderr for each in [*ended, got, rest] if each.returncode != 0]:
            wrong = "".join(failures)
        elif sorted(got.stdout.splitlines()) != expected or rest.stdout:
            wrong = f"printed {got.stdout!r}, then {rest.stdout!r}, not {expected}"
        suite.says(f"{name} in {reader} prints what all three sent", wrong)
    fill(f"{channels}/{name}.ring")
    for sender in LANGUAGES:
        refused = run(sender, "full")
        told = re.search("full|back-pressured|room", refused.stderr)
        wrong = None if refused.returncode > 0 and told else f"ended with {refused.returncode}: {refused.stderr}"
        suite.says(f"{name} in {sender} says that the ring is full", wrong)


def codes_without_a_line() -> Iterator[str]:
    """Yields error codes of spec/api.md that the troubleshooting page does not have."""
    table = (ROOT / "spec/api.md").read_text("utf-8").partition("\n## Errors\n")[2]
    codes = re.findall(r"^\| `([a-z-]+)` \|", table, re.M)
    assert len(codes) > 20, "the table of errors in spec/api.md has moved"
    lines = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
    yield from (code for code in codes if f"| `{code}` |" not in lines)


def main() -> int:
    if not JAR.exists():
        sys.exit("java/demo is not built: run ./dev demo")
    suite = Suite()
    every = [pages.read(path) for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]]
    chosen = [page for page in every if not sys.argv[1:] or page.path.stem in sys.argv[1:]]
    built = {"build", "results", "target", ".pytest_cache"}
    texts = [path for path in sorted(ROOT.rglob("*.md")) if not built & set(path.relative_to(ROOT).parts)]
    for path in texts:
        suite.says(f"links of {path.relative_to(ROOT)}", "; ".join(pages.broken_links(pages.read(path), ROOT)) or None)
    for page in every:
        suite.says(f"marks of {page.path.name}", "; ".join(page.faults) or None)
    suite.says("each error code is explained", ", ".join(codes_without_a_line()) or None)
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory(dir="/dev/shm") as channels:
        exchanges = [(page, each) for page in chosen for each in page.exchanges]
        if exchanges:
            together = Path(name) / "exchanges"
            together.mkdir()
            shutil.copy(SCHEMA, together)
            build_exchanges(exchanges, together)
            for page, each in exchanges:
                exchange(suite, each, page.exchanges[each], together, channels)
        for page in every:
            scratch = scratch_of(page)
            folder, own = Path(name) / scratch, Path(channels) / scratch
            folder.mkdir()
            own.mkdir(mode=0o700)
            shutil.copy(SCHEMA, folder)
            for file, text in page.files.items():
                (folder / file).write_text(text)
        maven = maven_repository(Path(name) / "maven")
        for page in chosen:
            scratch = scratch_of(page)
            run_commands(suite, page, Path(name) / scratch, environment(Path(name), f"{channels}/{scratch}", maven))
            shutil.rmtree(f"{channels}/{scratch}")  # a container's /dev/shm has no room for the channels of all pages
    print(f"{suite.passed} passed, {suite.failed} failed")
    return 1 if suite.failed else 0


if __name__ == "__main__":
    sys.exit(main())
