# SPDX-License-Identifier: Apache-2.0
"""Describes the machine for readers of the figures."""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from driver.contenders import ROOT
from driver.install import PYTHON_VENV, jdk

BUSY = 0.05  # share of the two cores used by others just before a run that is worth a warning
CPU = Path("/sys/devices/system/cpu")


def two_cores() -> tuple[int, int] | None:
    """Returns two allowed cores, on different physical cores if possible."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        return None
    mine = cores_of(read(CPU / f"cpu{allowed[0]}/topology/thread_siblings_list"))
    return allowed[0], next((c for c in allowed if c not in mine and c != allowed[0]), allowed[1])


def cores_of(text: str) -> set[int]:
    """Parses a list like 0-3,8."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        found |= set(range(int(low), int(high or low) + 1))
    return found


def busy(cores: tuple[int, int], seconds: float = 1.0) -> float:
    """Returns the share of the two cores that others use now, the hypervisor included."""

    def times() -> list[list[int]]:
        text = read("/proc/stat")
        lines = [re.search(rf"^cpu{c} (.*)$", text, re.M) for c in cores]
        return [[int(word) for word in line[1].split()] for line in lines if line]

    before = times()
    time.sleep(seconds)
    spent = [[a - b for a, b in zip(new, old, strict=True)] for new, old in zip(times(), before, strict=True)]
    idle = sum(s[3] + s[4] for s in spent)
    return 1 - idle / max(1, sum(map(sum, spent)))


def collect(cores: tuple[int, int], command: Sequence[str]) -> dict[str, Any]:
    load = busy(cores)
    cpu = cpu_info()
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": " ".join(command),
        "commit": output("git", "-C", str(ROOT), "rev-parse", "HEAD"),
        "dirty": bool(output("git", "-C", str(ROOT), "status", "--porcelain")),
        "cpu": cpu["model"],
        "cpu_details": cpu,
        "cpus": os.cpu_count(),
        "cores": [core(c) for c in cores],
        "cores_share": shared(cores),
        "isolated": read("/sys/devices/system/cpu/isolated") or "none",
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "virtualised": virtualised(),
        "kernel": platform.release(),
        "kernel_command_line": read("/proc/cmdline"),
        "system": system(),
        "governor": read(CPU / f"cpu{cores[0]}/cpufreq/scaling_governor") or "not visible",
        "boost": read(CPU / "cpufreq/boost") or "not visible",
        "clock_source": read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "huge_pages": {
            "transparent": read("/sys/kernel/mm/transparent_hugepage/enabled"),
            "shared_memory": read("/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
            "dev_shm": mounted("/dev/shm"),
            "reserved": read("/proc/sys/vm/nr_hugepages"),
        },
        "mitigations": {p.name: read(p) for p in sorted((CPU / "vulnerabilities").glob("*"))},
        "load_average": os.getloadavg(),
        "busy_before": round(load, 3),
        "compiler": first_line(output("c++", "--version")),
        "cmake": first_line(output("cmake", "--version")),
        "jdks": {str(v): jdk_text(v) for v in (17, 25)},
        "python": output(str(PYTHON_VENV / "bin/python"), "-VV") or platform.python_version(),
        "rust": output("rustc", "--version"),
        "libraries": libraries(),
        "driver": {name: metadata.version(name) for name in ("hdrhistogram", "matplotlib", "numpy")},
    }


def cpu_info() -> dict[str, str]:
    text = read("/proc/cpuinfo")

    def value(*names: str) -> str:
        for name in names:
            found = re.search(rf"^{name}\s*:\s*(.+)$", text, re.M)
            if found:
                return found[1].strip()
        return ""

    return {
        "model": value("model name", "Hardware", "CPU part") or platform.machine(),
        "vendor": value("vendor_id", "CPU implementer"),
        "family": value("cpu family", "CPU architecture"),
        "model_number": value("model", "CPU variant"),
        "stepping": value("stepping", "CPU revision"),
        "microcode": value("microcode"),
        "mhz": value("cpu MHz"),
        "architecture": platform.machine(),
    }


def core(number: int) -> dict[str, Any]:
    topology = CPU / f"cpu{number}/topology"
    caches = {}
    for index in sorted((CPU / f"cpu{number}/cache").glob("index*")):
        name = f"L{read(index / 'level')} {read(index / 'type').lower()}"
        caches[name] = f"{read(index / 'size')}, shared by {read(index / 'shared_cpu_list')}"
    names = {"package": "physical_package_id", "core": "core_id", "siblings": "thread_siblings_list"}
    return {"cpu": number, **{k: read(topology / v) for k, v in names.items()}, "caches": caches}


def shared(cores: tuple[int, int]) -> str:
    """Returns what the two cores share, by the system's information."""
    if cores[1] in cores_of(read(CPU / f"cpu{cores[0]}/topology/thread_siblings_list")):
        return "a core (two hardware threads)"
    for index in sorted((CPU / f"cpu{cores[0]}/cache").glob("index*")):
        if cores[1] in cores_of(read(index / "shared_cpu_list")):
            return f"L{read(index / 'level')} cache"
    return "no cache"


def virtualised() -> str:
    kind = output("systemd-detect-virt", "--vm")
    if kind and kind != "none":
        return kind
    if " hypervisor" in read("/proc/cpuinfo"):
        return first_line(read("/sys/class/dmi/id/sys_vendor")) or "yes (the CPU says so)"
    return "no"


def system() -> str:
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)', read("/etc/os-release"), re.M)
    return found[1] if found else platform.system()


def mounted(place: str) -> str:
    """Returns the options of a mount; "" if nothing is mounted there."""
    found = re.findall(rf"^\S+ {re.escape(place)} \S+ (\S+)", read("/proc/mounts"), re.M)
    return found[-1] if found else ""


def jdk_text(version: int) -> str:
    home = jdk(version)
    done = (
        subprocess.run([f"{home}/bin/java", "-version"], capture_output=True, text=True, check=False)
        if Path(home).is_dir()
        else None
    )
    return " / ".join(done.stderr.splitlines()) if done else "not there"


def libraries() -> dict[str, str]:
    """Returns the peers' libraries, as their build files pin them. run.json has what each contender reports itself."""
    found = {}
    for line in output(str(PYTHON_VENV / "bin/pip"), "freeze", "--disable-pip-version-check").splitlines():
        name, equal, version = line.partition("==")
        if equal:
            found[f"Python {name}"] = version
    for path in (ROOT / "java/pom.xml", ROOT / "bench/java/pom.xml"):
        for name, version in re.findall(r"<(\w+)\.version>([^<]+)<", read(path)):
            found[f"Java {name}"] = version
    boost = re.search(r'BOOST_LIB_VERSION "([^"]+)"', read("/usr/include/boost/version.hpp"))
    if boost:
        found["Boost"] = boost[1].replace("_", ".")
    zeromq = output("pkg-config", "--modversion", "libzmq")
    if zeromq:
        found["libzmq"] = zeromq
    for name, version in re.findall(r'name = "(iceoryx2)"\nversion = "([^"]+)"', read(ROOT / "bench/rust/Cargo.lock")):
        found[f"Rust {name}"] = version
    return found


def slug(environment: Mapping[str, Any]) -> str:
    """Returns <date>-<cpu>, for a folder's name."""
    name = re.sub(r"\((r|tm)\)|\b(cpu|processor|with)\b|@.*", " ", str(environment["cpu"]).lower())
    return str(environment["date"])[:10] + "-" + "-".join(re.findall(r"[a-z0-9]+", name)[:5])


def read(path: str | Path) -> str:
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


def output(*argv: str) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""
