# SPDX-License-Identifier: Apache-2.0
"""A process that is a member of a mesh, whose members watch each other.

mesh_member.py NAME SECONDS    is a member of that name for so long
"""

import os
import sys
import time

import flyring


def main(name: str, seconds: float) -> None:
    with flyring.Channel.open_or_create("mesh", kind="broadcast", publishers=8, subscribers=0, capacity=65536) as mesh:
        with flyring.Mesh(mesh, name) as member:  # a thread beats, and notes the beats of the others
            print(f"{name} is process {os.getpid()}", flush=True)
            time.sleep(seconds)  # instead of work
            print(f"{name} leaves {'after some' if member.beats else 'without'} beats", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("Use mesh_member.py NAME SECONDS.")
    main(sys.argv[1], float(sys.argv[2]))
