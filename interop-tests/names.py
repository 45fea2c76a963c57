#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that tests of one subject have the same file name in the three languages. SUBJECTS lists each subject's base
name, and the languages that have a test file of that name. Other test files must be in OWN, which lists subjects that
exist in one language only. The last line is `N passed, N failed`."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# language: (folders, pattern of a test file's name, whose group is the base name)
FILES = {
    "cpp": (("cpp/test", "cpp/test/sbe"), r"(\w+)_test\.cpp"),
    "java": (("java/flyring/src/test/java/io/flyring",), r"(\w+)Test\.java"),
    "python": (("python/tests",), r"test_(\w+)\.py"),
}
ALL = ("cpp", "java", "python")

# base name: the subject, the languages
SUBJECTS = {
    "allocation": ("the hot path allocates nothing", ALL),
    "attach": ("headers that are cut, flipped, wrong; what attach refuses", ALL),
    "counters": ("counters", ALL),
    "create": ("options, no space, replace, unlink, open_or_create, paths, the folder", ALL),
    "death": ("killed owners, recovery", ALL),
    "evict": ("evict, max_lag, retire", ALL),
    "foreign": ("channels with a foreign end", ALL),
    "foreign_publisher": ("stock Agrona's bytes as the publisher", ALL),
    "foreign_subscriber": ("stock Agrona's bytes as the subscriber", ALL),
    "golden": ("the golden files", ALL),
    "golden_journal": ("the golden files of journals", ALL),
    "golden_table": ("the golden files of tables", ALL),
    "golden_typed": ("the golden files of messages", ALL),
    "heartbeat": ("counters by which threads show that they run", ALL),
    "hostile": ("broken and hostile memory", ALL),
    "journal": ("journals: verbs, options, errors, bytes of records", ALL),
    "journal_consumer": ("named consumers: gates, pairs, forget", ALL),
    "journal_hostile": ("a journal whose words or records are wrong", ALL),
    "journal_push": ("what a push does without a helper: syncs and trims", ALL),
    "journal_read": ("readers of a journal: tail, cold, seek, damage", ALL),
    "journal_recovery": ("a journal after a power loss, and after a sync that failed", ALL),
    "journal_survivors": (
        "what is left of a journal's writer that is killed or stopped, of what is closed, of calls that fail",
        ALL,
    ),
    "journal_trim": ("trims, and what holds them back", ALL),
    "journal_typed": ("messages of a journal that are of a schema", ALL),
    "journal_waiting": ("sleeping until a journal has a message", ALL),
    "layout": ("offsets against spec/layout.toml", ALL),
    "lifetime": ("close, fork, two threads, views that outlive their object", ALL),
    "lossy": ("reading without a slot", ALL),
    "mesh": ("members that beat by messages and note receipts", ALL),
    "queue": ("jobs: take, done, release, order, limits, options, errors, stats", ALL),
    "queue_hostile": ("a queue whose words, records or prefixes are wrong", ("cpp", "java")),
    "queue_survivors": ("what is left of a worker that dies, is evicted, throws or is disturbed", ALL),
    "queue_waiting": ("workers that sleep, a job wakes one of them, ended(), drain()", ALL),
    "read_only": ("read-only attach", ALL),
    "replaced": ("a replaced channel is noticed", ALL),
    "ring": ("publish, claim, batch, poll, wrap, limits", ALL),
    "schema": ("schema text in the file, compatibility", ALL),
    "sender": ("the sender of a message, and whether more can come", ALL),
    "service": ("calls, answers, streams, deadlines, cancel, limits, options, stats", ALL),
    "service_survivors": ("failures that other libraries had; death, eviction, hostile memory, fork", ALL),
    "service_waiting": ("servers and clients that sleep, and what ends their waits", ALL),
    "slots": ("names, kept, take, give back, no free slot", ALL),
    "stats": ("stats(): readers of a ring, what it costs", ALL),
    "survivors": ("what an operation leaves behind when it fails or is disturbed, in one process", ALL),
    "table": ("tables: verbs, options, errors, the index and its rebuild", ALL),
    "table_copy": ("snapshot and grow", ALL),
    "table_hostile": ("a table whose words are wrong", ALL),
    "table_recovery": ("a table after a power loss; synced close", ALL),
    "table_survivors": ("what is left of a table's writer that is killed or stopped", ALL),
    "table_typed": ("values of a table that are messages of a schema", ALL),
    "table_waiting": ("sleeping until a key or a table has changed", ALL),
    "typed": ("typed messages on a channel", ALL),
    "typed_service": ("requests and answers that are messages of a schema", ALL),
    "wait": ("wait strategies", ALL),
    "wait_cap": ("how long a sleep may last, and what is checked after it", ("cpp", "java")),
    "wait_machine": ("waits where calls are refused, with many sleepers, with hostile words", ALL),
    "wait_survivors": ("what ends or disturbs a wait: close, evict, fork, the dead", ALL),
    "wait_set": ("waiting for many subscribers and publishers", ALL),
    "waiting": ("sleeping until a message or room is there, and being woken", ALL),
    "watchdog": ("what runs late is named: heartbeats, stretches of code, the watchdog itself", ALL),
}

# language: base names, as regular expressions, of subjects that only this language has
OWN = {
    "cpp": r"golden_service|span|versions|wait_time_out",
    "java": r"channel_metrics|fuzz\w*|jar|journal_writer|liveness|queue_kill|race|store_by_store\w*|memory\w*|"
    r"payload_buffer\w*|no_flag|machine|nap|prefetch|room_rest|service_stream|stats_bean|table_read|typed_random|"
    r"wait_end",
    "python": r"sbe_\w+|cli(_\w+)?|demo|loops|metrics|monitor|peer(_\w+)?|queue_jobs|service_async|typing",
}


def base_names(language):
    """Returns {base name: file}."""
    folders, pattern = FILES[language]
    found = {}
    for folder in folders:
        for path in sorted((ROOT / folder).iterdir()):
            if match := re.fullmatch(pattern, path.name):
                words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", match[1]).lower()  # ForeignPublisher: foreign_publisher
                found[words] = path.relative_to(ROOT)
    return found


def main():
    passed, failures = 0, []
    for language in ALL:
        found = base_names(language)
        wanted = {name for name, (_, languages) in SUBJECTS.items() if language in languages}
        for name in sorted(wanted | set(found)):
            if name not in found:
                failures.append(f"{language}: expected a file for {name} ({SUBJECTS[name][0]}), found none")
            elif name not in wanted and not re.fullmatch(OWN[language], name):
                failures.append(
                    f"{found[name]}: expected a name of SUBJECTS or OWN of interop-tests/names.py, found {name}"
                )
            else:
                passed += 1
    for failure in failures:
        print(f"FAIL  {failure}")
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
