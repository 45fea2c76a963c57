#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants mistakes, one after the other, in a copy of a binding; a test must find each. Of C++'s headers, MUTANTS are
found by the golden files of the dead or by driven.py, WAITS by C++'s own tests of waits, ASLEEP by driven.py or, for
lost wake-ups, by sleeping.py, and QUEUE by ../steps, also by its comparison with the files of the dead. NAMED are in
all three bindings, and each names its test (mutants_named.py).

mutants.py [--only PREFIX] [--check]

--only: the mutants whose name begins so. --check: only looks whether each mutant's text is in the sources. Every run
does so first, since a nightly run that ends at a text that has changed tests nothing behind it. The last line is
"N passed, N failed"."""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from mutants_named import NAMED, SOURCES, Wrong, convict

ROOT = Path(__file__).resolve().parents[2]
COMMIT = "        RingWriter::commit(to, length + header_length);\n"  # in offer
ADVANCE = (
    "        const auto new_end = static_cast<std::int64_t>(end);\n"
    "        writer_.advance(ring, new_end, wrapping_add(writer_.count, 1));\n"
)

# name: (header, the right text, the mutant's text)
MUTANTS = {
    "recover: no zero at q": ("ring.hpp", "store_relaxed(ring.length_at(q), 0);", ""),
    "recover: the count is always messages_begun": (
        "ring.hpp",
        "auto count = load_acquire(ring.messages_done());",
        "auto count = load_acquire(ring.messages_begun());",
    ),
    "join: in one pass": (
        "subscriber_core.hpp",
        "if (!consistent_count(words, found)) {",
        "found = {load_relaxed(words.gate(slot)), load_relaxed(words.messages_done())};\n        if (false) {",
    ),
    "lossy: no lap test where it looks empty": (
        "lossy_core.hpp",
        "if (lapped(reader) && jump(reader, turn)) continue;",
        "if (false) continue;",
    ),
    "resume: although the slot is evicting": (
        "subscriber_core.hpp",
        "(kept_ && gating && load_acquire(words.evicting()) == 0)",
        "(kept_ && gating)",
    ),
    "evict: the victim does not take its gates back": (
        "subscriber_core.hpp",
        "    stop_gating(state_->file, slot_);\n}",
        "}",
    ),
    "publish: claimed behind the zeroes": (
        "ring_writer.hpp",
        "        store_relaxed(ring.length_at(to), 0);              // publish 4",
        "        store_relaxed(ring.length_at(to), 0);\n        store_relaxed(ring.claimed(), to);",
        "        store_relaxed(ring.claimed(), to);                 // publish 3",
        "        // publish 3",
    ),
    "publish: length behind published": (
        "publisher_core.hpp",
        COMMIT + ADVANCE,
        ADVANCE + COMMIT,
    ),
    "retire: without the lock": (
        "held_back.hpp",
        "if (try_lock_byte(description, lock) != 0) continue;",
        "(void)try_lock_byte(description, lock);",
    ),
}
WAITS = {
    "wait: the waker leaves the bits": (
        "waiting.hpp",
        "__atomic_fetch_and(words_.asleep, ~bit, __ATOMIC_RELAXED);",
        "",
    ),
    "wait: the waker leaves the sequence": (
        "waiting.hpp",
        "__atomic_fetch_add(words_.sequence, 1, __ATOMIC_RELEASE);   // wake 2; pairs with sleep 1",
        "",
    ),
    "wait: a new owner wakes nobody": ("publisher_core.hpp", "        wake_all(file.data());\n", ""),
    "wait: the cap is as if all publishers woke": ("wait_for.hpp", "load_relaxed(slot.wakes()) == epoch;", "true;"),
}
BITS = "        __atomic_fetch_and(words_.asleep, ~bit, __ATOMIC_RELAXED);  // wake 1\n"
BUMP = "        __atomic_fetch_add(words_.sequence, 1, __ATOMIC_RELEASE);   // wake 2; pairs with sleep 1\n"
LOAD = "    const std::uint32_t sequence = load_acquire(words.sequence);  // sleep 1; pairs with wake 2\n"
SAY_SO = """    bool reached = false;
    if (writable) {
        __atomic_fetch_or(words.asleep, mask, __ATOMIC_RELAXED);  // sleep 2
        reached = reach_wakers();                                 // sleep 3
    }
"""
ASLEEP = {
    "sleep: no membarrier": (
        "waiting.hpp",
        "reached = reach_wakers();                                 // sleep 3",
        "reached = true;",
    ),
    "sleep: no look behind the bits": (
        "waiting.hpp",
        "if (look()) return;                                        // sleep 4",
        "",
    ),
    "sleep: sequence behind the bits": ("waiting.hpp", LOAD + SAY_SO, SAY_SO + LOAD),
    "wake: sequence before the bits": ("waiting.hpp", BITS + BUMP, BUMP + BITS),
    "wake: nobody is called": (
        "waiting.hpp",
        "wake_sleepers(words_.sequence, bit);                        // wake 3",
        "",
    ),
}
SHARED = "store_release(shared, e), true"
ATTEMPTS = "const std::int32_t attempts = more_attempts(load_relaxed(attempts_beside(gate)), 1);\n"
OWN = "    store_relaxed(attempts_beside(own), attempts);  // adopt 5"
RELEASE = "const Released released ="
BEGIN, HAND = "store_release(taken_end_beside(gate), e);", "end = e;\n                return Found::jobs;"
GATE = "store_release(gate, p);"
# name: the right text in one of the headers, the mutant's text; and so on
QUEUE = {
    "queue take 2: the gate before taken_end": (
        BEGIN + "  // take 2; pairs with adopt 2\n            " + GATE,
        GATE + "\n" + BEGIN,
    ),
    "queue take 2: taken_end behind gate[0]": (BEGIN, "", HAND, BEGIN + HAND),
    "queue take 2: attempts are not set to 0": ("store_relaxed(attempts_beside(gate), 0);", ""),
    "queue take 3: gate[0] is stored, not compared": (
        "FLYRING_LIKELY(exchange_gate(shared, p, e))",
        f"({SHARED})",
    ),
    "queue take 3: no -1 where another one was faster": (
        "store_release(gate, layout::NOT_GATING);  // take 3",
        "// take 3",
    ),
    "queue take 4, done 5: the epoch is not compared": (
        "const bool good = usable();\n    if (FLYRING_LIKELY(good)) {",
        "const bool good = true;\n    if (good) {",
    ),
    "queue room 2c: handovers is not compared": ("if (load_acquire(handovers) != before) continue;", "(void)before;"),
    "queue adopt 1: the living too": (
        "if (lives && load_acquire(subscriber_slot(file, it).evicting()) == 0) return std::nullopt;",
        "",
        "if (!left) break;",
        "(void)left;",
    ),
    "queue adopt 4: where it was never taken": ("if (!is_taken(ring, p, e, g)) {  ", "if (false) {  "),
    "queue adopt 5: attempts are not raised": (ATTEMPTS + OWN, "const std::int32_t attempts = 0;\n" + OWN),
    "queue adopt 5: its gate first": (
        OWN,
        "store_release(gate, layout::NOT_GATING);\n" + OWN,
        "if (!exchange_gate(gate, p, layout::NOT_GATING)) {  // adopt 5",
        "if (false) {  // adopt 5",
    ),
    "queue adopt 5: handovers is not raised": ("store_release(file.handovers(),", "static_cast<void>("),
    "queue next owner: its predecessor's job is not looked at": (
        "if (found || !is_taken(ring, p, e, g)) {",
        "if (true) {",
    ),
    "queue evict: evicting before the epoch": (
        "    std::int64_t epoch = load_relaxed(words.epoch());\n    while (",
        "    store_release(words.evicting(), 1);\n    std::int64_t epoch = load_relaxed(words.epoch());\n    while (",
    ),
    "queue release: done before the commit": (
        RELEASE,
        "store_release(hand_.source->gate, layout::NOT_GATING); " + RELEASE,
    ),
    "queue release: attempts of the copy are not raised": ("more_attempts(job.attempts, 1)", "job.attempts"),
    "queue release: the returns ring's lock is kept": ("const SlotGuard guard(description, lock_);", ""),
}
LOSES = ("sleep: no membarrier", "sleep: no look behind the bits", "wake: nobody is called")  # lose wake-ups
LOOKED_FOR = 100_000  # the number of waits in sleeping.py
NONE, LOST = "no mistake", "lost wake-ups"


def run(command, folder, timeout=None):
    """Runs a command. Returns the ended process; status -1 if it had to be killed, as a mutant may never end."""
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired as hung:
        return subprocess.CompletedProcess(command, -1, (hung.stdout or b"").decode(), "")


def compile_all(name, folder):
    """Builds the tests against the headers in `folder`: the golden files' test, the peer, the test of waits. Returns
    the compiler's errors, or nothing."""
    test, peer = ROOT / "cpp" / "test", ROOT / "cpp" / "peer"
    common = ["c++", "-std=c++17", "-O1", "-pthread", f"-I{folder}/include", f'-DFLYRING_SPEC_DIR="{ROOT}/spec"']
    golden = [test / "golden_test.cpp", test / "support.cpp", "-lgtest", "-lgtest_main"]
    waits = [*sorted(test.glob("wait*_test.cpp")), *(test / f"{part}.cpp" for part in ("support", "faults", "agrona"))]
    sources = [file for file in sorted(peer.glob("*.cpp")) if not file.name.startswith("torture")]
    builds = []
    if name in (*QUEUE, NONE):
        child = sorted((ROOT / "interop-tests" / "steps").glob("child*.cpp"))
        builds += [["c++", "-std=c++17", "-O2", "-static", f"-I{folder}/include", *child, "-o", folder / "child"]]
    if name not in (*WAITS, *QUEUE):
        builds += [[*common, f"-I{peer}", '-DFLYRING_VERSION="mutant"', *sources, "-o", folder / "peer"]]
    if name in (*MUTANTS, NONE):
        builds += [[*common, f"-I{test}", *golden, "-o", folder / "golden"]]
    if name in (*WAITS, NONE):
        builds += [[*common, f"-I{test}", *waits, "-lgtest", "-lgtest_main", "-ldl", "-o", folder / "waits"]]
    said = [run(list(map(str, one)), folder) for one in builds]
    return "".join(one.stderr for one in said if one.returncode)


def failures(*command):
    """Runs a test suite. Returns the failures that it prints."""
    suite = run([sys.executable, *command], ROOT, timeout=300)
    if not re.search(r"^\d+ passed, \d+ failed$", suite.stdout, re.MULTILINE) and suite.returncode >= 0:
        sys.exit(f"{command[0]} does not run: {suite.stderr}")
    return [line for line in suite.stdout.splitlines() if line.startswith("FAIL")]


def of_steps(folder):
    """Runs the steps of a queue's operations, and the comparison with its files of the dead, on the child in
    `folder`."""
    steps, dead = ROOT / "build" / "steps" / "steps", ROOT / "interop-tests" / "steps" / "dead.py"
    command = [steps, "--child", folder / "child", "--only", "queue-"]
    said = [run([*command, "--quick"], folder, 300)]
    run([*command, "--states", folder / "states"], folder, 60)
    said.append(run([sys.executable, dead, folder / "states", "queue-"], folder, 60))
    if not all(re.search(r"^\d+ passed, \d+ failed$", one.stdout, re.MULTILINE) or one.returncode < 0 for one in said):
        sys.exit(f"steps does not run: {said}")
    found = [f"steps {name}" for name in re.findall(r"^(\S+) +FAILED", said[0].stdout, re.MULTILINE)]
    return found + [f"the dead {name}" for name in re.findall(r"^FAIL  (\S+):", said[1].stdout, re.MULTILINE)]


def convicted_by(name, folder):
    """Returns the names of the failing tests."""
    found, here = [], Path(__file__).resolve().parent
    if name in (*QUEUE, NONE):
        found += of_steps(folder)
    if name in (*WAITS, NONE):
        said = run([folder / "waits", "--gtest_brief=1"], folder, timeout=120)
        failed = re.findall(r"^\[  FAILED  \] Wait\w*\.(\w+) ", said.stdout, re.MULTILINE)
        found += failed or (["it hangs"] if said.returncode else [])
    if (
        name in (*MUTANTS, NONE)
        and run([folder / "golden", "--gtest_filter=*dead*", "--gtest_brief=1"], folder, 60).returncode
    ):
        found.append("golden files of the dead")
    if name not in (*WAITS, *QUEUE):
        driven = failures(here / "driven.py", "--language", "cpp", "--peer", folder / "peer")
        found += [line.split(":", 2)[1].strip() for line in driven]
    if name in (*LOSES, NONE):
        peer = ("--languages", "cpp", "--peer", f"cpp={folder / 'peer'}", "--waits", str(LOOKED_FOR))
        found += [LOST for _ in failures(here.parent / "sleeping.py", *peer)]
    return found


def there(folder, files, right):
    """Returns the file that has this text, and its content. Raises Wrong unless the text is there once, in one file."""
    found = [(file, text) for file in sorted(folder.glob(files)) if right in (text := file.read_text())]
    if [text.count(right) for _, text in found] != [1]:
        raise Wrong(f"expected once in {files}, found in {[file.name for file, _ in found] or 'no file'}: {right!r}")
    return found[0]


def plant(name, folder, files, right, wrong):
    """Makes one edit. The text must appear once, in one file."""
    if right:
        file, text = there(folder, files, right)
        file.write_text(text.replace(right, wrong))


def is_planted(name, what):
    """Whether each text of a mutant is in the sources. An edit may change what an earlier one of the mutant wrote."""
    files, *edits = (what.file, *what.edits) if name in NAMED else what
    folder, written = ROOT / SOURCES[name.split()[0] if name in NAMED else "C++"], ""
    try:
        for right, wrong in zip(edits[::2], edits[1::2]):
            if right and right not in written:
                there(folder, files, right)
            written += wrong
    except Wrong as error:
        print(f"FAIL  {name}: {error}", flush=True)
        return False
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    passed = failed = 0
    queue = {name: ("*.hpp", *edits) for name, edits in QUEUE.items()}
    plan = {NONE: ("ring.hpp", "", ""), **MUTANTS, **WAITS, **ASLEEP, **queue, **NAMED}
    chosen = {name: what for name, what in plan.items() if name.startswith(options.only)}
    if not chosen:
        sys.exit(f"--only: no mutant begins with {options.only!r}; there are: {', '.join(plan)}")
    planted = sum(is_planted(name, what) for name, what in plan.items())
    if options.check or planted < len(plan):
        print(f"{planted} passed, {len(plan) - planted} failed")
        return 0 if planted == len(plan) else 1
    for name in [name for name in chosen if name in NAMED]:
        with tempfile.TemporaryDirectory() as temporary:
            try:
                found = ", ".join(convict(name, Path(temporary), plant))
            except Wrong as error:
                found = ""
                print(error)
        passed, failed = passed + bool(found), failed + (not found)
        print(f"{'ok   ' if found else 'FAIL '} {name}: {found or 'not convicted'}", flush=True)
    for name, (headers, *edits) in ((name, what) for name, what in chosen.items() if name not in NAMED):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            shutil.copytree(ROOT / "cpp" / "include", folder / "include")
            for right, wrong in zip(edits[::2], edits[1::2]):
                plant(name, folder / "include" / "flyring" / "detail", headers, right, wrong)
            right = edits[0]
            wrong_build = compile_all(name, folder)
            found = ["it does not compile: " + wrong_build] if wrong_build else convicted_by(name, folder)
        fine = bool(found) == bool(right) and not wrong_build and (LOST in found or name not in LOSES)
        passed, failed = passed + fine, failed + (not fine)
        print(f"{'ok   ' if fine else 'FAIL '} {name}: {', '.join(found) or 'not convicted'}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
