# SPDX-License-Identifier: Apache-2.0
"""The Python child's operations of a table: those of child_table.cpp with the same names."""

import flyring
from plan import IDENTITY, mark


def value_of(seed, length=20):
    return bytes((seed + 7 * i) & 255 for i in range(length))


class Held:
    """A table whose slot the child holds."""

    def __init__(self, path):
        self.table = flyring.Table.open(path, _identity=IDENTITY)

    def put(self, key, seed, length=20):
        self.writer = self.table.writer("feed")
        value, put = value_of(seed, length), self.writer.put
        mark()
        put(key, value)
        mark()

    def update(self):
        self.put(1, 1)

    def update_long(self):
        self.put(1, 1, 24)

    def insert(self):
        self.put(99, 99)

    def remove(self):
        self.writer = self.table.writer("feed")
        remove = self.writer.remove
        mark()
        remove(3)
        mark()

    def single(self):
        value, put = value_of(98), self.table.put
        mark()
        put(1, value)
        mark()
