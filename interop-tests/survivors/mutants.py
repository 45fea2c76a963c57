#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mistakes that a binding can make, planted in a copy of C++'s headers one after the other. The golden files of the
dead or driven.py must convict each of MUTANTS; C++'s own tests of waits those of WAITS; driven.py, and sleeping.py if
wake-ups are lost, those of ASLEEP.

mutants.py [--only PREFIX]   The last line is "N passed, N failed"."""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMIT = "        RingWriter::commit(to, length + header_length);\n"  # of offer
ADVANCE = (
    "        const auto new_end = static_cast<std::int64_t>(end);\n"
    "        writer_.advance(ring, new_end, wrapping_add(writer_.count, 1));\n"
)

# name: (header, what stands there, what the mutant has there)
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
        "__atomic_fetch_add(words_.sequence, 1, __ATOMIC_RELEASE);",
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
LOSES = ("sleep: no membarrier", "sleep: no look behind the bits", "wake: nobody is called")  # wake-ups
LOOKED_FOR = 100_000  # waits of sleeping.py
NONE, LOST = "no mistake", "lost wake-ups"

FIRST_STORE = "        store_relaxed(ring.claimed(), to);                 // publish 3"  # goes, in "claimed behind ..."


def run(command, folder, timeout=None):
    """What is left of the process; status -1 if it had to be killed: a reader of a ring without an end never stops."""
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired as hung:
        return subprocess.CompletedProcess(command, -1, (hung.stdout or b"").decode(), "")


def compile_all(name, folder):
    """What is to convict a mutant, against the headers in `folder`: the golden files' test, the peer, the test of
    waits. Empty, or what the compiler says."""
    test, peer = ROOT / "cpp" / "test", ROOT / "cpp" / "peer"
    common = ["c++", "-std=c++17", "-O1", "-pthread", f"-I{folder}/include", f'-DFLYRING_SPEC_DIR="{ROOT}/spec"']
    golden = [test / "golden_test.cpp", test / "support.cpp", "-lgtest", "-lgtest_main"]
    waits = [
        test / f"{part}.cpp"
        for part in ("waiting_test", "wait_survivors_test", "wait_machine_test", "support", "faults", "agrona")
    ]
    sources = [file for file in sorted(peer.glob("*.cpp")) if not file.name.startswith("torture")]
    builds = []
    if name not in WAITS:
        builds += [[*common, f"-I{peer}", '-DFLYRING_VERSION="mutant"', *sources, "-o", folder / "peer"]]
    if name in (*MUTANTS, NONE):
        builds += [[*common, f"-I{test}", *golden, "-o", folder / "golden"]]
    if name in (*WAITS, NONE):
        builds += [[*common, f"-I{test}", *waits, "-lgtest", "-lgtest_main", "-ldl", "-o", folder / "waits"]]
    said = [run(list(map(str, one)), folder) for one in builds]
    return "".join(one.stderr for one in said if one.returncode)


def failures(*command):
    """What a suite of ours says has failed."""
    suite = run([sys.executable, *command], ROOT, timeout=300)
    if not re.search(r"^\d+ passed, \d+ failed$", suite.stdout, re.MULTILINE) and suite.returncode >= 0:
        sys.exit(f"{command[0]} does not run: {suite.stderr}")
    return [line for line in suite.stdout.splitlines() if line.startswith("FAIL")]


def convicted_by(name, folder):
    """The names of what fails."""
    found, here = [], Path(__file__).resolve().parent
    if name in (*WAITS, NONE):
        said = run([folder / "waits", "--gtest_brief=1"], folder, timeout=120)
        failed = re.findall(r"^\[  FAILED  \] Wait\w+\.(\w+) ", said.stdout, re.MULTILINE)
        found += failed or (["it hangs"] if said.returncode else [])
    if (
        name in (*MUTANTS, NONE)
        and run([folder / "golden", "--gtest_filter=*dead*", "--gtest_brief=1"], folder, 60).returncode
    ):
        found.append("golden files of the dead")
    if name not in WAITS:
        driven = failures(here / "driven.py", "--language", "cpp", "--peer", folder / "peer")
        found += [line.split(":", 2)[1].strip() for line in driven]
    if name in (*LOSES, NONE):
        peer = ("--languages", "cpp", "--peer", f"cpp={folder / 'peer'}", "--waits", str(LOOKED_FOR))
        found += [LOST for _ in failures(here.parent / "sleeping.py", *peer)]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    passed = failed = 0
    plan = {NONE: ("ring.hpp", "", ""), **MUTANTS, **WAITS, **ASLEEP}
    chosen = {name: what for name, what in plan.items() if name.startswith(options.only)}
    if not chosen:
        sys.exit(f"--only: no mutant begins with {options.only!r}; there are: {', '.join(plan)}")
    for name, (header, right, wrong) in chosen.items():
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            shutil.copytree(ROOT / "cpp" / "include", folder / "include")
            file = folder / "include" / "flyring" / "detail" / header
            text = file.read_text()
            if right and text.count(right) != 1:
                sys.exit(f"{name}: {header} has {text.count(right)} times {right!r}")
            text = text.replace(right, wrong) if right else text
            if name.startswith("publish: claimed"):
                text = text.replace(FIRST_STORE, "        // ")
            file.write_text(text)
            wrong_build = compile_all(name, folder)
            found = ["it does not compile: " + wrong_build] if wrong_build else convicted_by(name, folder)
        fine = bool(found) == bool(right) and not wrong_build and (LOST in found or name not in LOSES)
        passed, failed = passed + fine, failed + (not fine)
        print(f"{'ok   ' if fine else 'FAIL '} {name}: {', '.join(found) or 'not convicted'}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
