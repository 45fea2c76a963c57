# SPDX-License-Identifier: Apache-2.0
"""Mistakes in a channel, a queue, a service, a table or a journal, in one of the three bindings, each with the name of
the test that must find it. mutants.py runs them. The test runs on a copy of the binding: gtest for C++ (or a scenario
of ../steps), JUnit, pytest (or a scenario of ../steps)."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
STEPS = ROOT / "build" / "steps" / "steps"


class Named(NamedTuple):
    test: str  # "steps SCENARIO"; gtest's, JUnit's or pytest's own name of a test
    file: str  # in SOURCES of the language
    edits: tuple[str, ...]  # the right text, the mutant's text; and so on


SOURCES = {
    "C++": "cpp/include/flyring/detail",
    "Java": "java/flyring/src/main/java/io/flyring",
    "Python": "python",
}
# language and name: the mutant
NAMED = {
    "C++ readers: counted during a join": Named(
        "slots: Slots.readers_waits_for_a_join_that_is_under_way",
        "publisher_core.hpp",
        (
            "if (file.header.foreign == Foreign::none && !file.is_queue()) control.emplace(lock_.description(), file);",
            "",
        ),
    ),
    "Java readers: counted during a join": Named(
        "RingTest#readersWaitsForAJoinThatIsUnderWay",
        "Room.java",
        ("header.foreign != Foreign.NONE || queue) {", "header.foreign != Foreign.NONE || !queue) {"),
    ),
    "Python readers: counted during a join": Named(
        "test_ring.py::test_readers_waits_for_a_join_that_is_under_way",
        "src/flyring/publisher.py",
        ("with control_lock(self._lock, attached.path):", "if True:"),
    ),
    "C++ service: an answer is matched without the client's epoch": Named(
        "service_survivors: ServiceSurvivors.old_reply_never_reaches_the_next_client",
        "client_drain.hpp",
        ("prefix.client_epoch == low_bits(epoch_) ?", "true ?"),
    ),
    "C++ service: a request's prefix is written behind its length": Named(
        "steps service-call",
        "client_calls.hpp",
        (
            "    const bool published = writer_.try_publish(",
            "    std::byte* at = nullptr;\n    const bool published = writer_.try_publish(",
            "        write(to, prefix);\n",
            "        at = to;\n",
            "    if (!published) return false;\n    if (is_call) {",
            "    if (!published) return false;\n    write(at, prefix);\n    if (is_call) {",
        ),
    ),
    "C++ queue: a publish wakes no worker": Named(
        "queue_waiting: QueueWaiting.a_job_ends_the_wait_of_take_and_of_poll",
        "publisher_core.hpp",
        ("if (jobs_.is_due()) jobs_.wake_one();", ""),
    ),
    "Java queue: done is stored before the job is handed out": Named(
        "QueueTest#aJobInHandHoldsItsProducerBack",
        "Hand.java",
        (
            "        copied = false;\n        known = true;",
            "        copied = false;\n        known = true;\n        of.storeGate(Layout.NOT_GATING);",
        ),
    ),
    "Java queue: a release does not raise the attempts": Named(
        "QueueTest#releasedJobsGoToTheEndAndCarryTheirIdentity",
        "Returns.java",
        ("Adoption.moreAttempts(job.attempts(), 1)", "job.attempts()"),
    ),
    "Java service: a deadline that is over is not looked at": Named(
        "ServiceTest#deadlines",
        "Lane.java",
        ("if (request.deadline > 0 && server.now() >= request.deadline) {", "if (false) {"),
    ),
    "Java service: items are sent without credit": Named(
        "ServiceStreamTest#aStreamHasAtMostItsCreditUnderWayAndEnds",
        "ServerCore.java",
        ("request.item != null && request.credit > 0 &&", "request.item != null &&"),
    ),
    "Python queue: evict leaves the job in hand": Named(
        "test_queue_survivors.py::test_the_job_of_an_evicted_worker_goes_to_another",
        "src/flyring/slots.py",
        ("            memory.store32(slot + layout.SUBSCRIBER_SLOT_EVICTING, 1)  # pairs with adopt 1\n", ""),
    ),
    "Python service: a reply is sent twice": Named(
        "steps python-service-serve",
        "core/hand.c",
        (
            "    request->answered = true;\n    remove_from_hand(request); /* 4 */",
            "    server_send(self, side, request, status, 0, bytes, length, type);\n"
            "    request->answered = true;\n    remove_from_hand(request);",
        ),
    ),
    "C++ table: a dead writer's cell is not freed": Named(
        "golden_table: GoldenTable.the_next_owner_goes_on_after_a_writer_that_died_in_each_step",
        "table_changes.hpp",
        ("if (free != number + 1 && number < view_.fresh()) this->free(number);", "(void)free;"),
    ),
    "C++ table: a short miss does not compare the generation": Named(
        "table_copy: TableCopies.a_get_that_rebuilds_overtake_finds_its_key",
        "table_view.hpp",
        ("return FLYRING_LIKELY(load_relaxed(this->generation()) == generation) ? absent : no_cell;", "return absent;"),
    ),
    "Java table: a change wakes no process that waits for the table": Named(
        "TableWaitingTest#aSleeperIsWokenAndDoesNotWaitForTheCap",
        "TableChange.java",
        ("            data.wake(1);\n", ""),
    ),
    "Python table: a freed cell keeps its old body": Named(
        "test_table_recovery.py::test_freed_cell_has_no_old_body",
        "core/table_change.c",
        (
            "STORE64_RELAXED(body_at(map, at, ~version) + TABLE_BODY_SEQ, 0);",
            "(void)at, (void)version;",
        ),
    ),
    "C++ journal: what a recovery cannot read counts as missing": Named(
        "journal_survivors: JournalSurvivors.a_recovery_that_cannot_read_fails_and_removes_nothing",
        "journal_segment.hpp",
        ('    if (got < 0) throw_errno("pread", path);\n    if (got !=', "    if (got !="),
    ),
    "Java journal: a sync that fails does not end the writer": Named(
        "JournalSurvivorsTest#aSyncThatFailsEndsTheWriterWithItsErrorNumber",
        "JournalDurability.java",
        ("            file.fail(-result);\n", ""),
    ),
    "Python journal: a closed reader keeps a segment open": Named(
        "test_journal_survivors.py::test_closed_objects_hold_nothing",
        "core/journal_read.c",
        (
            "        if (self->walk->file != NULL)\n"
            "            file_shut(self->walk->file); /* a traceback may keep it */\n"
            "        journal_walk_forget(self->walk);\n",
            "",
        ),
    ),
    "Python service: a client that lives is retired": Named(
        "test_service_survivors.py::test_slow_client_delays_no_other",
        "core/slots.c",
        (
            "        if (!lock_try(lock, offset + CONTROL_SLOT_LOCK))\n            continue;",
            "        lock_try(lock, offset + CONTROL_SLOT_LOCK);",
        ),
    ),
}


def run(command, folder, **more):
    """Runs a command. Returns its exit status, -1 if it had to be killed, and what it printed."""
    try:
        ended = subprocess.run(
            list(map(str, command)), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more
        )
    except subprocess.TimeoutExpired as hung:
        return -1, (hung.stdout or b"").decode()
    return ended.returncode, ended.stdout


class Wrong(Exception):
    """The mutant or its test cannot be run."""


def built(command, folder):
    status, said = run(command, folder)
    if status:
        raise Wrong(f"it does not compile: {said}")


def copied(language, folder):
    """Copies the binding and what its build needs. Returns the folder of SOURCES in the copy."""
    top = SOURCES[language].split("/")[0]
    left_out = shutil.ignore_patterns("build", "*.egg-info", "__pycache__", "jcstress", "rings", "surefire-reports*")
    part = "cpp/include" if language == "C++" else top
    shutil.copytree(ROOT / part, folder / part, ignore=left_out)
    (folder / "spec").symlink_to(ROOT / "spec")
    return folder / SOURCES[language]


def of_steps(scenario, *more):
    status, said = run([STEPS, "--quick", "--only", scenario, *more], ROOT, timeout=300)
    counts = re.search(r"^(\d+) passed, (\d+) failed$", said, re.MULTILINE)
    if status >= 0 and (not counts or counts.groups() == ("0", "0")):
        raise Wrong(f"steps does not run: {said}")
    return status == 0


def passes_in_cpp(test, folder):
    include = f"-I{folder}/cpp/include"
    if test.startswith("steps "):
        child = sorted((ROOT / "interop-tests" / "steps").glob("child*.cpp"))
        built(["c++", "-std=c++17", "-O2", "-static", include, *child, "-o", folder / "child"], folder)
        return of_steps(test.removeprefix("steps "), "--child", folder / "child")
    tests, (base, name) = ROOT / "cpp" / "test", test.split(": ")
    sources = [
        tests / f"{base}_test.cpp",
        tests / "support.cpp",
        tests / "faults.cpp",
        "-lgtest",
        "-lgtest_main",
        "-ldl",
    ]
    spec = f'-DFLYRING_SPEC_DIR="{ROOT}/spec"'
    built(
        ["c++", "-std=c++17", "-O0", "-pthread", include, f"-I{tests}", spec, *sources, "-o", folder / "test"], folder
    )
    status, said = run([folder / "test", f"--gtest_filter={name}"], folder, timeout=60)
    if " 1 test from " not in said:
        raise Wrong(f"there is no test {name}: {said}")
    return status == 0


def passes_in_java(test, folder):
    # Only the changed file is compiled again; what ./dev built is in the copy.
    chosen = [f"-Dtest={test}", "-Dsurefire.failIfNoSpecifiedTests=false", "-Dcheckstyle.skip"]
    incremental = "-Dmaven.compiler.useIncrementalCompilation=false"
    command = ["mvn", "-B", "-f", folder / "java" / "pom.xml", "-pl", "flyring", incremental, *chosen, "test"]
    status, said = run(command, folder, timeout=200)
    if status > 0 and not re.search(r"Tests run: \d+, .*(Failures|Errors): [1-9]", said):
        raise Wrong(f"Java's tests do not run: {said}")
    if status == 0 and not re.search(r"Tests run: [1-9]", said):
        raise Wrong(f"there is no test {test}: {said}")
    return status == 0


def passes_in_python(test, folder):
    python = ROOT / "build" / "venv" / "bin" / "python"
    installed = folder / "installed"
    built([python, "-m", "pip", "install", "-q", "--no-deps", "--target", installed, folder / "python"], folder)
    environment = os.environ | {"PYTHONPATH": str(installed)}
    status, said = run([python, "-c", "import flyring; print(flyring.__file__)"], ROOT, env=environment)
    if not said.startswith(str(installed)):
        raise Wrong(f"another flyring is imported: {said}")
    if test.startswith("steps "):
        os.environ["PYTHONPATH"] = str(installed)
        try:
            return of_steps(test.removeprefix("steps "), "--python", python)
        finally:
            del os.environ["PYTHONPATH"]
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"python/tests/{test}"]
    status, said = run(command, ROOT, env=environment, timeout=100)
    if status > 1:
        raise Wrong(f"pytest does not run: {said}")
    return status == 0


PASSES = {"C++": passes_in_cpp, "Java": passes_in_java, "Python": passes_in_python}


def convict(name, folder, plant):
    """Returns the tests that fail with the mutant in the binding's copy, and that pass without it."""
    language, mutant = name.split()[0], NAMED[name]
    source = copied(language, folder)
    if not PASSES[language](mutant.test, folder):
        raise Wrong(f"{mutant.test} fails without the mutant")
    for right, wrong in zip(mutant.edits[::2], mutant.edits[1::2]):
        plant(name, source, mutant.file, right, wrong)
    if language == "Python":
        shutil.rmtree(folder / "installed")
    return [] if PASSES[language](mutant.test, folder) else [mutant.test]
