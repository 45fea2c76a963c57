# SPDX-License-Identifier: Apache-2.0
"""``flyring doctor``: each bad state is made, and must be told, with what to do."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Child
from flyring import Channel, Table, __version__, layout
from flyring.cli import main
from flyring.cli.doctor import Check, checks, doctor
from flyring.cli.doctor_machine import Machine
from flyring.table_file import CONTROL


def found(folder: object, machine: Machine | None = None) -> dict[str, list[Check]]:
    told: dict[str, list[Check]] = {}
    for one in checks(str(folder), machine or Machine()):
        assert one.do or one.verdict == "ok", one
        told.setdefault(one.name, []).append(one)
    return told


def first(folder: object, name: str, machine: Machine | None = None) -> Check:
    return found(folder, machine)[name][0]


@pytest.fixture
def fake(tmp_path: Path) -> Callable[..., Machine]:
    """Makes a machine whose /proc and /sys have these files only."""

    def make(**files: str) -> Machine:
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Machine(str(tmp_path))

    return make


def test_a_folder_that_suits(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Channel.create("fine", "inbox", capacity=4096):
        told = found(folder)
    for name in ("folder", "file system", "locks", "channels", "version", "kernel"):
        assert [one.verdict for one in told[name]] == ["ok"], name
    assert not any(one.verdict == "BAD" for part in told.values() for one in part)
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert f"this is Flyring {__version__}" in text
    assert main(["doctor", "--json", str(folder)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1
    assert {"name", "verdict", "what", "do"} == set(document["checks"][0])


def test_folders_that_cannot_be_used(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "file").write_bytes(b"")
    assert first(folder / "file", "folder").verdict == "BAD"
    assert first(folder / "none", "folder").verdict == "ok"  # the first channel makes it
    assert main(["doctor", str(folder / "file")]) == 1
    assert "-> " in capsys.readouterr().out
    locked = folder / "locked"
    locked.mkdir()
    os.chmod(folder, 0o755)
    os.chmod(locked, 0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        check = first(locked, "folder")
    finally:
        if root:
            os.seteuid(0)
    assert (check.verdict, "may not write" in check.what) == ("BAD", True)


def test_a_file_system_that_does_not_suit() -> None:
    check = first("/proc/self", "file system")
    assert check.verdict == "BAD" and "not known to work" in check.what


def test_locks_that_do_not_work(folder: Path) -> None:
    class NoLocks(Machine):
        def lock_problem(self, folder: str) -> str:
            return "its locks do not work"

    assert first(folder, "locks", NoLocks()).verdict == "BAD"
    assert list(folder.iterdir()) == []  # the real test left nothing


@pytest.mark.parametrize(
    ("total", "free", "verdict"), [(1 << 30, 1 << 29, "ok"), (1 << 30, 50 << 20, "note"), (1 << 30, 1 << 20, "BAD")]
)
def test_space(folder: Path, total: int, free: int, verdict: str) -> None:
    class Full(Machine):
        def space(self, place: str) -> tuple[int, int, int | None]:
            return total, free, 3 if verdict == "BAD" else None

    told = found(folder, Full())
    assert told["space"][0].verdict == verdict
    assert ("inodes" in told) == (verdict == "BAD")


def test_limits(folder: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        assert first(folder, "open files").verdict == "note"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert first(folder, "open files").verdict == "ok"
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
    code += "from flyring.cli import main; raise SystemExit(main(['doctor']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and "4 KiB (ulimit -f)" in done.stdout


def test_containers(folder: Path, fake: Callable[..., Machine]) -> None:
    assert "container" not in found(folder, fake(proc__1__cgroup="0::/init.scope"))
    check = first(folder, "container", fake(proc__1__cgroup="0::/docker/0123456789ab"))
    assert check.verdict == "note" and "volume" in check.do

    class Small(Machine):
        def space(self, place: str) -> tuple[int, int, int | None]:
            return 64 << 20, 60 << 20, None

    check = first(folder, "container", Small(fake().root))
    assert "--shm-size" in check.do and "64 MiB" in check.what


def test_calls_that_the_kernel_refuses(folder: Path) -> None:
    class Old(Machine):
        def has_membarrier(self) -> bool:
            return False

        def has_futex_waitv(self) -> bool:
            return False

    told = found(folder, Old())
    assert [told[name][0].verdict for name in ("membarrier", "futex_waitv")] == ["note", "note"]


def test_huge_pages_reclaim_and_swap(folder: Path, fake: Callable[..., Machine]) -> None:
    told = found(
        folder,
        fake(
            sys__kernel__mm__transparent_hugepage__enabled="[always] madvise never",
            proc__sys__vm__zone_reclaim_mode="1",
            proc__swaps="Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2",
        ),
    )
    assert [one.verdict for one in told["huge pages"]] == ["note"]
    assert (told["zone reclaim"][0].verdict, told["swap"][0].verdict) == ("note", "note")
    told = found(folder, Machine("/nothing"))
    assert (told["zone reclaim"][0].verdict, told["swap"][0].verdict) == ("ok", "ok")


def test_huge_pages_of_the_mount(folder: Path, fake: Callable[..., Machine], monkeypatch: pytest.MonkeyPatch) -> None:
    def mounted(
        options: str, over: str = "always within_size advise [never] deny force", kind: str = "tmpfs"
    ) -> Machine:
        point = Machine().mount(str(folder)).replace(" ", "\\040")
        return fake(
            proc__self__mounts=f"none /other tmpfs huge=always 0 0\nnone {point} {kind} {options} 0 0\n",
            sys__kernel__mm__transparent_hugepage__shmem_enabled=over,
        )

    def told(machine: Machine) -> list[str]:
        return [one.verdict for name in ("huge pages", "table") for one in found(folder, machine).get(name, [])]

    force, deny = (f"always within_size advise never {words}" for words in ("deny [force]", "[deny] force"))
    with Table.create("large", capacity=100, key="integer", value_bytes=8):
        # transparent_hugepage/enabled is ok each time; then the mount, and the table
        assert told(mounted("rw,relatime")) == ["ok", "ok"]  # the table is small
        monkeypatch.setattr("flyring.cli.doctor.LARGE_TABLE", 4096)
        assert told(mounted("rw,relatime")) == ["ok", "ok", "note"]
        note = found(folder, mounted("rw,size=1g,huge=never"))["table"][0]
        assert "large: it is large" in note.what and "table grow large 100" in note.do
        assert told(mounted("rw,huge=within_size,size=1g")) == ["ok", "ok"]
        assert told(mounted("rw,huge=within_size", deny)) == ["ok", "ok", "note"]
        assert told(mounted("rw,huge=always")) == told(mounted("rw", force)) == ["ok", "note"]
        assert told(mounted("rw", kind="ext4")) == ["ok"]
        assert told(Machine("/nothing")) == ["ok"]


def test_cores_governor_and_quota(folder: Path, fake: Callable[..., Machine]) -> None:
    core = sorted(os.sched_getaffinity(0))[0]
    governor = f"sys__devices__system__cpu__cpu{core}__cpufreq__scaling_governor"
    quota = {"proc__self__cgroup": "0::/a/b\n", "sys__fs__cgroup__a__cpu.max": "150000 100000"}
    machine = fake(**{governor: "powersave", **quota, "sys__devices__system__cpu__isolated": "2-3"})
    told = found(folder, machine)
    assert told["governor"][0].verdict == "note" and "powersave" in told["governor"][0].what
    assert "1.5 cores" in told["cpu limit"][0].what
    assert "cores 2-3 are isolated" in told["isolation"][0].what
    told = found(folder, fake(**{governor: "performance", "sys__fs__cgroup__a__cpu.max": "max 100000"}))
    assert told["governor"][0].what == "performance" and "cpu limit" not in told
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        assert first(folder, "cores").verdict == "note"
    finally:
        os.sched_setaffinity(0, before)


def test_leftovers_of_the_dead(folder: Path, child: Callable[..., Child]) -> None:
    with Channel.create("ticks", "broadcast", publishers=2, subscribers=2, capacity=4096) as channel:
        dead = child(
            """
            from flyring import Channel
            with Channel.open("ticks") as channel:
                publisher, reader = channel.publisher("feed"), channel.subscriber("ledger", kept=True)
                publisher.offer(b"x")
                print("there", flush=True)
                input()
            """
        )
        dead.line()
        assert found(folder)["channels"][0].verdict == "ok"
        dead.kill()
        told = found(folder)
        assert [one.verdict for one in told["channel"]] == ["note", "note"]
        assert "publisher 0 (feed)" in told["channel"][0].what
        assert told["channel"][0].do == "flyring recover ticks"
        assert told["channel"][1].do.endswith("flyring evict ticks 0")
        assert "channels" not in told
        assert main(["recover", "ticks"]) == 0
        channel.evict(0)
        assert found(folder)["channels"][0].verdict == "ok"


def test_files_that_are_no_channels_or_were_never_finished(folder: Path) -> None:
    (folder / "odd.ring").write_bytes(b"nothing")
    (folder / f".ticks.{'0' * 16}.tmp").write_bytes(b"")
    told = found(folder)
    assert told["channel"][0].verdict == "BAD" and "flyring check odd" in told["channel"][0].do
    assert ".ticks." in told["unfinished"][0].do


def test_versions_in_use(folder: Path) -> None:
    class Mixed(Machine):
        def libraries(self, pids: set[int]) -> dict[tuple[str, str], int]:
            assert pids == {os.getpid()}
            return {("0.0.9", "Java 0.0.9"): 2, (__version__, f"Python {__version__}"): 1}

    with Channel.create("ticks", "broadcast", publishers=1, capacity=4096) as channel, channel.publisher():
        check = first(folder, "in use", Mixed())
        assert check.verdict == "note" and "Java 0.0.9 in 2 processes" in check.what
        assert "Python" in first(folder, "in use").what  # what this process has mapped
    assert "in use" not in found(folder)


def test_jars_tell_their_version(tmp_path: Path) -> None:
    fds = tmp_path / "proc" / "7" / "fd"
    fds.mkdir(parents=True)
    os.symlink("/opt/app/lib/flyring-0.1.0.jar", fds / "4")
    assert Machine(str(tmp_path)).libraries({7}) == {("0.1.0", "Java 0.1.0"): 1}


def test_status_1_only_if_a_line_is_bad(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Old(Machine):
        def has_membarrier(self) -> bool:
            return False

    assert doctor(str(folder), False, Old()) == 0
    assert "note  membarrier" in capsys.readouterr().out


def test_tables(folder: Path) -> None:
    with Table.create("t", capacity=2, key="text", value_bytes=8, checked=True) as table:
        table["a"] = b"1"
        assert [(one.verdict, one.what) for one in found(folder)["tables"]] == [("ok", "1, without leftovers")]
        table["b"] = b"2"
        assert "flyring table grow t 4" in first(folder, "table").do
        del table["b"]
        stamp = CONTROL + layout.TABLE_CONTROL_STAMP
        table._memory.store64(stamp, table.version + 1)
        assert "died during a change" in first(folder, "table").what
        table["a"] = b"2"
        assert "table" not in found(folder)
        table._memory.write(CONTROL + layout.TABLE_CONTROL_BOOT_ID, bytes(16))
        told = first(folder, "table")
        assert (told.verdict, "needs recovery" in told.what, told.do) == ("note", True, "flyring table check t")
    with Table.replace("t", capacity=2, key="text", value_bytes=8) as table:
        table._memory.write(CONTROL + layout.TABLE_CONTROL_BOOT_ID, bytes(16))
        assert "flyring table rm t" in first(folder, "table").do
    (folder / "t.table").write_bytes(b"nonsense")
    assert first(folder, "table").verdict == "BAD"
