#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the states of real processes that `steps --states FOLDER` recorded with the files of the dead
(spec/golden: dead, table/dead, journal/dead), which the simulation made; of journals, that `--keep FOLDER` recorded.
Each of these must be reached, in the same order. A state between two of them must consist of bytes of these two: the
spec does not order all stores, and copies are made in portions.

    dead.py FOLDER [PREFIX]    only names with this prefix (journal-: those of journals, which are none of the others);
                               the last line is `N passed, N failed`"""

import json
import pathlib
import sys

BY_HAND = {"evict-late-gate"}  # a stepped process does not store in this order
OF_TABLES = {
    "recovery",
    "rebuild-begins",
    "finish-insert",
    "finish-insert-moving",
    "finish-remove",
}  # another beginning
JOURNALS_ONLY_FULL = {  # only steps --full has these
    f"journal-{name}"
    for name in (
        "append-roll-found",
        "close",
        "push-roll",
        "recovery-again",
        "recovery-whole",
        "resume",
        "resume-batch",
        "resume-committed",
        "resume-roll",
    )
}
GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "spec" / "golden"


def changed(data, runs):
    data = bytearray(data)
    for at, text in runs:
        data[at : at + len(text) // 2] = bytes.fromhex(text)
    return bytes(data)


def reached(stem):
    """Yields the contents of the file, one after another."""
    states = [stem.with_suffix(".ring").read_bytes()]
    for line in stem.with_suffix(".stores").read_text().splitlines():
        at, text = line.split()
        states.append(changed(states[-1], [(int(at), text)]))
    return states


def changed_files(files, changes):
    """The files of a journal with changes: null: the file is gone."""
    files = dict(files)
    for name, change in changes.items():
        if change is None:
            del files[name]
        else:
            files[name] = changed(files.get(name, bytes(change["length"])), change["runs"])
    return files


def reached_files(stem):
    """As reached, of a journal: yields its files by name."""
    files = {}
    for line in stem.with_suffix(".states").read_text().splitlines():
        files = changed_files(files, json.loads(line))
        yield files


def dead_files(path):
    golden = json.loads(path.read_text())
    base, points = changed_files({}, golden["base"]), []
    for point in golden["dead"]:
        files = changed_files(base, point["left"])
        if not points or files != points[-1][1]:
            points.append((point["last_store"], files))
    return points


def dead(path):
    golden = json.loads(path.read_text())
    base = changed(bytes(golden["file_length"]), golden["base"])
    points = {changed(base, point["left"]): point["last_store"] for point in golden["dead"]}
    return [(store, data) for data, store in points.items()]


def different(one, other):
    if isinstance(one, dict):
        if one.keys() != other.keys():
            return f"the files {sorted(one)} were expected, {sorted(other)} found"
        name = next(name for name in one if one[name] != other[name])
        return f"{name} {different(one[name], other[name])}"
    at = next(i for i, (a, b) in enumerate(zip(one, other)) if a != b)
    return f"at {at} {one[at : at + 8].hex()} was expected, {other[at : at + 8].hex()} found"


def between(state, old, new):
    """Whether each byte is that of the one or of the other, and so is each file of a journal."""
    if isinstance(state, dict):
        return state.keys() in (old.keys(), new.keys()) and all(
            between(data, old.get(name, data), new.get(name, data)) for name, data in state.items()
        )
    return state in (old, new) or all(byte in (a, b) for byte, a, b in zip(state, old, new))


def compare(points, states):
    """Returns what is wrong, or nothing."""
    states = iter(states)
    first = next(states)
    if points[0][1] != first:
        return f"the file before the operation: {different(points[0][1], first)}"
    n = 0
    for state in states:
        if n + 1 < len(points) and state == points[n + 1][1]:
            n += 1
            continue
        old, new = points[n][1], points[min(n + 1, len(points) - 1)][1]
        if not between(state, old, new):
            return f"after {points[n][0]!r}: {different(new, state)}"
    return f"never reached: {points[n + 1][0]!r}" if n + 1 < len(points) else ""


def main():
    folder, failed = pathlib.Path(sys.argv[1]), 0
    prefix = sys.argv[2] if len(sys.argv) > 2 else ""
    paths = {path.stem: path for path in (GOLDEN / "dead").glob("*.json") if path.stem not in BY_HAND}
    paths |= {
        f"table-{path.stem}": path for path in (GOLDEN / "table" / "dead").glob("*.json") if path.stem not in OF_TABLES
    }
    if prefix.startswith("journal-"):
        of_journals = (GOLDEN / "journal" / "dead").glob("*.json")
        paths = {f"journal-{path.stem}": path for path in of_journals}
    paths = {name: path for name, path in sorted(paths.items()) if name.startswith(prefix)}
    skipped = {name for name in JOURNALS_ONLY_FULL & set(paths) if not (folder / f"{name}.states").exists()}
    for name, path in paths.items():
        stem = folder / name
        if name in skipped:
            print(f"skip  {name}: only steps --full has it")
            continue
        if stem.with_suffix(".states").exists():
            wrong = compare(dead_files(path), reached_files(stem))
        elif stem.with_suffix(".ring").exists():
            wrong = compare(dead(path), reached(stem))
        else:
            wrong = "no scenario of steps"
        failed += bool(wrong)
        print(f"{'FAIL ' if wrong else 'ok   '} {name}{': ' if wrong else ''}{wrong}")
    print(f"{len(paths) - len(skipped) - failed} passed, {failed} failed")
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
