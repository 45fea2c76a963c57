# SPDX-License-Identifier: Apache-2.0
"""The Python child's operations of a journal: those of child_journal.cpp with the same names."""

import flyring
from child_table import value_of
from plan import IDENTITY, mark


class Writing:
    def __init__(self, path):
        self.journal = flyring.Journal.open(path, _identity=IDENTITY)

    def append(self):
        self.writer = self.journal.writer("feed", helper=False)
        value, append = value_of(9), self.writer.append
        mark()
        append(value, 2)
        mark()

    def batch(self):
        self.writer = self.journal.writer("feed", helper=False)
        values, append_many = [value_of(9), value_of(10, 100), b""], self.writer.append_many
        mark()
        append_many(values, 2)
        mark()

    def consume(self):
        self.consumer = self.journal.consumer("orders")
        poll, numbers = self.consumer.poll, []

        def handler(message):
            numbers.append(message.number)

        mark()
        poll(handler, 3)
        mark()
        assert len(numbers) == 3
