# SPDX-License-Identifier: Apache-2.0
"""Prepares a run: checks needs, installs with --peers, and builds the peer programs."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from driver.contenders import ROOT, Catalogue, Contender

LOGS = ROOT / "build/log"
PYTHON_VENV = ROOT / "build/bench-python"
HOW = "./dev bench --peers"


class BuildError(Exception):
    """A build or an installation failed. The text names it and the file with its output."""


@functools.cache
def jdk(version: int) -> str:
    """Returns the home of a JDK of this version, or a path that does not exist."""
    homes = [Path(os.environ["JAVA_HOME"])] if "JAVA_HOME" in os.environ else []
    homes += sorted(Path("/usr/lib/jvm").glob("*")) if Path("/usr/lib/jvm").is_dir() else []
    for home in homes:
        try:
            release = (home / "release").read_text()
        except OSError:
            continue
        found = re.search(r'JAVA_VERSION="(\d+)', release)
        if found and int(found[1]) == version and os.access(home / "bin/java", os.X_OK):
            return str(home.resolve())
    return f"no-jdk-{version}"


def fill_in(
    argv: Sequence[str], contender: Contender | None = None, more: Mapping[str, str] | None = None
) -> list[str]:
    """Puts paths and the contender's JVM flags into a command line of contenders.toml."""
    values = {"jdk17": jdk(17), "jdk25": jdk(25), "python": sys.executable, **(more or {})}
    flags: tuple[str, ...] = ()
    if contender is not None:
        flags = contender.flags
        for program in contender.programs:
            if program.jdk:
                values.setdefault("java", f"{jdk(program.jdk)}/bin/java")
    words: list[str] = []
    for word in argv:
        if word == "{flags}":
            words += flags
        else:
            words.append(re.sub(r"\{(\w+)\}", lambda m: values.get(m[1], m[0]), word))
    return words


def environment() -> dict[str, str]:
    """Returns the environment of the peers, without JVM options from outside. Each group gets the path of the probe
    itself."""
    foreign = ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "PYTHONPATH", "LD_PRELOAD")
    return {k: v for k, v in os.environ.items() if k not in foreign}


class Installer:
    def __init__(self, catalogue: Catalogue, peers: bool) -> None:
        self.catalogue = catalogue
        self.peers = peers
        self.broken: dict[str, str] = {}  # failed builds, and why
        self.known: dict[str, bool] = {}  # needs that were checked
        self.apt_updated = False

    def met(self, need: str) -> bool:
        command = " ".join(fill_in([self.catalogue.needs[need].check]))
        return subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, check=False).returncode == 0

    def missing(self, contender: Contender) -> tuple[str, str] | None:
        """Returns state and reason if the contender cannot be started."""
        for need in dict.fromkeys((*(n for p in contender.programs for n in p.needs), *contender.needs)):
            if not self.met_cached(need):
                how = self.catalogue.needs[need].how
                return "not installed", f"{need} is missing ({how})" if how and self.peers else HOW
        for program in contender.programs:
            if program.build in self.broken:
                return "failed", self.broken[program.build]
        return None

    def met_cached(self, need: str) -> bool:
        if need not in self.known:
            self.known[need] = self.met(need)
        return self.known[need]

    def prepare(self, contenders: Iterable[Contender]) -> None:
        """Installs (with --peers) and builds what these contenders need; failures are kept for `missing`."""
        contenders = list(contenders)
        needs = dict.fromkeys(
            n for c in contenders for n in (*c.needs, *(n for p in c.programs for n in p.needs)) if not self.met(n)
        )
        if self.peers:
            for need in needs:
                self.apt(need)
        builds = dict.fromkeys(["cpp", *(p.build for c in contenders for p in c.programs)])  # the probe is in cpp
        for build in builds:
            programs = [p for p in self.catalogue.programs.values() if p.build == build]
            if not any(all(self.met(n) for n in p.needs) for p in programs):
                continue  # `missing` reports the need
            try:
                {"cpp": self.cpp, "java": self.java, "python": self.python, "rust": self.rust}[build]()
            except BuildError as error:
                say(str(error))
                self.broken[build] = f"does not build: {error}"
        self.known.clear()

    def apt(self, need: str) -> None:
        packages = self.catalogue.needs[need].apt
        if not packages:
            return
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            say(f"{need} is missing: sudo apt-get install {' '.join(packages)}")
            return
        try:
            if not self.apt_updated:
                quietly("apt-update", ["apt-get", "update", "-qq"], "looking for Debian packages")
                self.apt_updated = True
            command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
            quietly(
                f"apt-{need}", ["env", "DEBIAN_FRONTEND=noninteractive", *command], f"installing {' '.join(packages)}"
            )
        except BuildError as error:
            say(str(error))

    def cpp(self) -> None:
        folder = ["-S", "bench/cpp", "-B", "build/bench-cpp"]
        peers = ["-DBENCH_PEERS=ON"] if self.peers and self.met("boost") and self.met("zeromq") else []
        peers += ["-DBENCH_GRPC=ON"] if self.peers and self.met("grpc") else []
        peers += ["-DBENCH_DATABASES=ON"] if self.peers and self.met("databases") else []
        quietly("bench-cpp-configure", ["cmake", *folder, *peers], "building the C++ contenders")
        quietly("bench-cpp-build", ["cmake", "--build", "build/bench-cpp", "--parallel", str(os.cpu_count())])

    def java(self) -> None:
        if not newer("bench-java", "java", "bench/java"):
            return
        skip = ["-DskipTests", "-Dmaven.javadoc.skip=true", "-Dcheckstyle.skip=true"]
        command = ["mvn", "-B", "-q", "-f", "java/pom.xml", "-Pbench", "-pl", "../bench/java", "-am", *skip, "package"]
        if os.path.isdir(jdk(25)):  # the jar then holds Flyring's classes for Java 22 and newer, as a release does
            command = ["env", f"JAVA_HOME={jdk(25)}", *command]
        quietly("bench-java", command, "building the Java contenders")
        stamp("bench-java")

    def python(self) -> None:
        pip = [str(PYTHON_VENV / "bin/pip"), "install", "-q", "--disable-pip-version-check"]
        peers = ROOT / "bench/python/requirements-peers.txt"
        if not PYTHON_VENV.exists() or newer("bench-python", "python", str(peers)):
            say("building the Python contenders")
            if not PYTHON_VENV.exists():
                quietly("bench-python-venv", [sys.executable, "-m", "venv", str(PYTHON_VENV)])
            quietly("bench-python", [*pip, "--force-reinstall", "--no-deps", "./python"])
            quietly("bench-python-numpy", [*pip, "-c", str(peers), "numpy"])  # for flyring-numpy
            stamp("bench-python")
        marker = PYTHON_VENV / "peers.stamp"
        if self.peers and peers.exists() and (not marker.exists() or marker.stat().st_mtime < peers.stat().st_mtime):
            quietly("bench-python-peers", [*pip, "-r", str(peers)], "installing the Python contenders' libraries")
            marker.touch()

    def rust(self) -> None:
        if self.peers:
            command = shlex.split("cargo build --release --locked")
            quietly("bench-rust", command, "building the Rust contenders", ROOT / "bench/rust")


def say(text: str) -> None:
    print(f"== {text}", file=sys.stderr, flush=True)


def quietly(name: str, command: Sequence[str], text: str = "", folder: Path = ROOT) -> None:
    """Runs a command with its output in a log. Raises with the end of the log if it fails."""
    if text:
        say(text)
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{name}.log"
    with open(log, "wb") as file:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode != 0:
        print("\n".join(log.read_text(errors="replace").splitlines()[-20:]), file=sys.stderr)
        raise BuildError(f"{shlex.join(command)} failed (all of its output: build/log/{name}.log)")


def newer(name: str, *paths: str) -> bool:
    """Returns whether a file under the paths has changed since the stamp was made."""
    try:
        made = (ROOT / f"build/{name}.stamp").stat().st_mtime
    except FileNotFoundError:
        return True
    generated = {"target", "build", "__pycache__"}
    for path in paths:
        for folder, folders, names in os.walk(ROOT / path):
            folders[:] = [f for f in folders if f not in generated and not f.endswith(".egg-info") and f[0] != "."]
            for file in names:
                if not file.endswith(".so") and (Path(folder) / file).stat().st_mtime > made:
                    return True
        if (ROOT / path).is_file() and (ROOT / path).stat().st_mtime > made:
            return True
    return False


def stamp(name: str) -> None:
    (ROOT / f"build/{name}.stamp").touch()
