#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden files: NAME.ring, and NAME.json with the operations that make it and what a reader finds in it. The
layout version of the simulation has its own folder. newer/ and refused/ hold files as later versions may write them,
and dead/ the files that killed processes leave.

generate.py           write them all
generate.py --check   compare with the existing files; exit status 1 and one line per difference

Folders of other versions are never written, because their files document that version. They are only checked for files
of a wrong version and for incomplete ones."""

import pathlib
import re
import struct
import sys

import channel_files
import dead
import dead_queue
import dead_service
import foreign_files
import journal_files
import newer
import queue_files
import service_files
import table_files
from golden import Golden, dump, lines
from simulation import MAJOR, MINOR

HERE = pathlib.Path(__file__).resolve().parent
CURRENT = f"{MAJOR}.{MINOR}"


GOLDENS = (*channel_files.GOLDENS, *foreign_files.GOLDENS, *queue_files.GOLDENS, *service_files.GOLDENS)


def all_files():
    """Returns {path from here: content} of everything that this program may write."""
    assert MINOR < newer.MINOR
    files, made = {}, {}
    for golden in GOLDENS:
        made |= golden().files()
    for name, content in made.items():
        files[f"{CURRENT}/{name}"] = content
    for name, (ring, facts) in newer.files(made).items():
        files |= {name + ".ring": ring, name + ".json": dump(facts).encode()}
    for name, facts in (dead.files_of(Golden) | dead_queue.files_of(Golden) | dead_service.files_of(Golden)).items():
        files[name + ".json"] = lines(facts).encode()
    tables = table_files.files()
    for path, content in files.items():
        folder = path.split("/")[0]
        assert (
            folder in ("newer", "refused", "dead")
            or not path.endswith(".ring")
            or version(content) == folder == CURRENT
        )
    return files | tables | journal_files.files()


def version(ring):
    return "%d.%d" % struct.unpack_from("<HH", ring, 8)


def wrong_files(files):
    """Returns the errors in the existing files, a line each."""
    there = {str(p.relative_to(HERE)) for p in HERE.glob("*/*") if p.suffix in (".ring", ".json")}
    there |= {str(p.relative_to(HERE)) for p in HERE.glob("table/*/*")}
    there |= {str(p.relative_to(HERE)) for p in HERE.glob("journal/**/*") if p.is_file()}
    for name in sorted(there | set(files)):
        folder = name.split("/")[0]
        if folder in (CURRENT, "newer", "refused", "dead", "table", "journal"):
            if name not in files or name not in there or (HERE / name).read_bytes() != files[name]:
                yield f"{HERE / name}: not what generate.py makes; run spec/golden/generate.py, look at the difference"
        elif not re.fullmatch(r"\d+\.\d+", folder):
            yield f"{HERE / name}: in no version's folder"
        elif not {name[:-5] + ".ring", name[:-5] + ".json"} <= there:
            yield f"{HERE / name}: a .ring and a .json belong together"
        elif name.endswith(".ring") and version((HERE / name).read_bytes()) != folder:
            yield f"{HERE / name}: of another version than its folder"


def main():
    files = all_files()
    if sys.argv[1:] == ["--check"]:
        wrong = list(wrong_files(files))
        for line in wrong:
            print(line)
        print(f"{max(0, len(files) - len(wrong))} passed, {len(wrong)} failed")
        return 1 if wrong else 0
    if sys.argv[1:]:
        sys.exit(__doc__)
    for name, content in files.items():
        (HERE / name).parent.mkdir(exist_ok=True, parents=True)
        (HERE / name).write_bytes(content)
    print(f"{len(files)} files, {sum(map(len, files.values()))} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
