#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the states of real processes that `steps --states FOLDER` recorded with the files of the dead
(spec/golden/dead), which the simulation made. Each of these must be reached, in the same order. A state between two of
them must consist of bytes of these two: the spec does not order all stores, and copies are made in portions.

    dead.py FOLDER [PREFIX]    only names with this prefix; the last line is `N passed, N failed`"""

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


def dead(path):
    golden = json.loads(path.read_text())
    base = changed(bytes(golden["file_length"]), golden["base"])
    points = {changed(base, point["left"]): point["last_store"] for point in golden["dead"]}
    return [(store, data) for data, store in points.items()]


def different(one, other):
    at = next(i for i, (a, b) in enumerate(zip(one, other)) if a != b)
    return f"at {at} {one[at : at + 8].hex()} was expected, {other[at : at + 8].hex()} found"


def compare(points, states):
    """Returns what is wrong, or nothing."""
    if points[0][1] != states[0]:
        return f"the file before the operation: {different(points[0][1], states[0])}"
    n = 0
    for state in states[1:]:
        if n + 1 < len(points) and state == points[n + 1][1]:
            n += 1
            continue
        old, new = points[n][1], points[min(n + 1, len(points) - 1)][1]
        if any(byte != a and byte != b for byte, a, b in zip(state, old, new)):
            return f"after {points[n][0]!r}: {different(new, state)}"
    return f"never reached: {points[n + 1][0]!r}" if n + 1 < len(points) else ""


def main():
    folder, failed = pathlib.Path(sys.argv[1]), 0
    prefix = sys.argv[2] if len(sys.argv) > 2 else ""
    paths = {path.stem: path for path in (GOLDEN / "dead").glob("*.json") if path.stem not in BY_HAND}
    paths |= {
        f"table-{path.stem}": path for path in (GOLDEN / "table" / "dead").glob("*.json") if path.stem not in OF_TABLES
    }
    paths = {name: path for name, path in sorted(paths.items()) if name.startswith(prefix)}
    for name, path in paths.items():
        stem = folder / name
        wrong = compare(dead(path), reached(stem)) if stem.with_suffix(".ring").exists() else "no scenario of steps"
        failed += bool(wrong)
        print(f"{'FAIL ' if wrong else 'ok   '} {name}{': ' if wrong else ''}{wrong}")
    print(f"{len(paths) - failed} passed, {failed} failed")
    return 1 if failed or not paths else 0


if __name__ == "__main__":
    sys.exit(main())
