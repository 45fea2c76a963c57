# SPDX-License-Identifier: Apache-2.0
"""Builds the programs of examples/ as users do: a copy of each folder, with its own project files, against an installed
Flyring. No relative path of the copy leads into the source tree. `./dev` runs it before the examples suite."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from readme import maven_repository

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/examples"
INSTALLED = BUILD / "installed"
EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/pyproject.toml"))
LANGUAGES = ("python", "cpp", "java")
DEPENDENCY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"


def commands(example: str) -> dict[str, list[str]]:
    """The program of an example in each language. It runs in the folder of the example."""
    folder, name = BUILD / example, example.replace("-", "_")
    if not (folder / "build" / name).exists():
        sys.exit(f"{folder} is not built: run ./dev test examples")
    java = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{folder}/target/classes:{INSTALLED}/java/*"]
    return {
        "python": [sys.executable, str(folder / f"{name}.py")],
        "cpp": [str(folder / "build" / name)],
        "java": [*java, name.title().replace("_", "")],
    }


def run(*command: object, **environment: str) -> None:
    subprocess.run([*map(str, command)], check=True, env=os.environ | environment)


def build() -> None:
    built = shutil.ignore_patterns("build", "target", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "examples", BUILD, dirs_exist_ok=True, ignore=built)

    run("cmake", "--install", ROOT / "build/cpp", "--prefix", INSTALLED)
    sbe_jar = ROOT / "build/cpp/flyring-sbe/sbe-all-1.38.1.jar"
    prefix = f"-DCMAKE_PREFIX_PATH={INSTALLED}"
    run("cmake", "-S", BUILD, "-B", BUILD / "cmake", prefix, f"-DFLYRING_SBE_JAR={sbe_jar}")
    run("cmake", "--build", BUILD / "cmake", "--parallel", "2")

    shutil.rmtree(BUILD / "maven", ignore_errors=True)
    maven_repository(BUILD / "maven")
    options = f"-Dmaven.repo.local={BUILD}/maven -XX:TieredStopAtLevel=1"
    dependencies = [f"{DEPENDENCY}:copy-dependencies", f"-DoutputDirectory={INSTALLED}/java"]
    run("mvn", "-B", "-q", "-f", BUILD / "pom.xml", "compile", *dependencies, MAVEN_OPTS=options)

    folders = [BUILD / example for example in EXAMPLES]
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    run(*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", BUILD / "wheels", *folders)


if __name__ == "__main__":
    build()
