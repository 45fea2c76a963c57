#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the layout file of each language from layout.toml.

layout.py           write them all
layout.py --check   compare them with the existing files, the fields with each other, and with the tables of
                    channel.md, table.md and journal.md; exit status 1 and one line per difference"""

from __future__ import annotations

import pathlib
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
LAYOUT = tomllib.loads((HERE / "layout.toml").read_text())
GENERATED = "Generated from spec/layout.toml by spec/layout.py; do not edit."
SIZES = {"u8": 1, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8}
LENGTHS = {  # the number of bytes that the fields of a table may use
    "header": LAYOUT["constants"]["header_length"],
    "control": LAYOUT["control"]["slots"],
    "publisher_slot": LAYOUT["control"]["slot_length"],
    "subscriber_slot": LAYOUT["control"]["slot_length"],
    "record": LAYOUT["record"]["header_length"],
    "owner_record": LAYOUT["owner_record"]["name"],
    "released": LAYOUT["released"]["length"],
    "request": LAYOUT["request"]["length"],
    "reply": LAYOUT["reply"]["length"],
    "trailer": LAYOUT["trailer"]["length"],
    "gate": LAYOUT["trailer"]["gate_stride"],
    "counter_metadata": LAYOUT["counter_metadata"]["stride"],
    "counter_value": LAYOUT["counter_value"]["stride"],
    "table_header": LAYOUT["constants"]["header_length"],
    "table_control": LAYOUT["table_control"]["slot"],
    "table_cell": LAYOUT["table_cell"]["key"],
    "table_body": LAYOUT["table_body"]["value"],
    "journal_header": LAYOUT["constants"]["header_length"],
    "journal_control": LAYOUT["journal_control"]["slot"],
    "journal_consumer": LAYOUT["journal_consumer"]["size"],
    "journal_pair": LAYOUT["journal_pair"]["size"],
    "journal_segment": LAYOUT["constants"]["header_length"],
    "journal_record": LAYOUT["journal_record"]["payload"],
    "journal_check": LAYOUT["journal_check"]["size"],
    "journal_cut": LAYOUT["journal_cut"]["size"],
}


@dataclass(frozen=True)
class Value:
    """A name in layout.toml. Only fields of the file have a type."""

    table: str
    key: str
    value: int | str
    type: str | None = None
    count: int = 1
    stride: int = 0

    @property
    def name(self) -> str:
        return (
            self.key if self.table == "constants" else f"{self.table}_{self.key}"
        ).upper()

    @property
    def size(self) -> int:
        """The size of the field in bytes."""
        assert self.type is not None
        array = re.fullmatch(r"bytes\[(\d+)\]", self.type)
        return int(array[1]) if array else SIZES[self.type]

    def places(self) -> Iterator[range]:
        """Yields the ranges of bytes that the field occupies."""
        for i in range(self.count):
            start = int(self.value) + i * self.stride
            yield range(start, start + self.size)


def tables() -> dict[str, list[Value]]:
    found: dict[str, list[Value]] = {}
    for table, entries in LAYOUT.items():
        if isinstance(entries, dict):
            found[table] = [
                Value(
                    table,
                    key,
                    entry["offset"],
                    entry["type"],
                    entry.get("count", 1),
                    entry.get("stride", 0),
                )
                if isinstance(entry, dict)
                else Value(table, key, entry)
                for key, entry in entries.items()
            ]
    return found


# The text of a value in each language


def magic(text: str) -> str:
    return f"0x{int.from_bytes(bytes.fromhex(text), 'little'):016x}"


# Values that C++ needs as signed or 32-bit numbers. All others are offsets or lengths, and are u64.
CPP_TYPES = {
    "int32_t": "type_padding type_owner type_raw default_poll_limit lossy_tries successor_replaced successor_unlinked",
    "int64_t": "max_position max_epoch not_gating back_pressured count_unknown clear_ahead clear_ahead_divisor "
    "clear_ahead_records adopt_interval",
    "uint16_t": "major minor",
    "uint32_t": "min_capacity max_capacity max_publishers max_subscribers max_counters default_capacity "
    "default_publishers default_subscribers default_producers default_workers default_alignment default_counters "
    "kind_inbox kind_broadcast kind_queue kind_service inbox_subscribers min_queue_slots jobs_bit polls_to_look "
    "delivery_at_most_once delivery_at_least_once default_clients default_service_capacity default_max_outstanding "
    "max_clients highest_max_outstanding",
}


def cpp_type(value: Value) -> str:
    if value.table == "constants":
        for name, keys in CPP_TYPES.items():
            if value.key in keys.split():
                return name
    if value.table == "counter_metadata" and value.key.startswith("state_"):
        return "int32_t"
    if (value.table, value.key) in {
        ("table", "removed"),
        ("journal", "type_check"),
        ("journal", "type_cut"),
    }:
        return "int32_t"
    if (value.table, value.key) in {
        ("journal", "sync_never"),
        ("journal", "sync_each"),
    }:
        return "int64_t"
    if value.table == "reply" and value.key.startswith(("status_", "flag_")):
        return "int32_t"
    return "uint64_t"


def cpp() -> str:
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        f"// {GENERATED}",
        "#pragma once",
        "",
        "#include <cstdint>",
        "",
    ]
    lines += [
        "// Every constant and byte offset of the channel file.",
        "namespace flyring::layout {",
    ]
    numbers = {
        v.name
        for values in tables().values()
        for v in values
        if not isinstance(v.value, str)
    }
    for table, values in tables().items():
        lines += ["", f"// [{table}]"]
        for value in values:
            if isinstance(value.value, str):
                name = value.name.removesuffix("_HEX")
                if name in numbers:
                    name += "_WORD"
                number = f"std::uint64_t {name} = {magic(value.value)};  // {value.value}, read as a word"
            else:
                number = f"std::{cpp_type(value)} {value.name} = {value.value};"
            lines.append(f"inline constexpr {number}")
    return "\n".join([*lines, "", "}  // namespace flyring::layout", ""])


def c() -> str:
    lines = ["/* SPDX-License-Identifier: Apache-2.0 */", f"/* {GENERATED} */"]
    lines += [
        "#ifndef FLYRING_LAYOUT_H",
        "#define FLYRING_LAYOUT_H",
        "",
        "#include <stdint.h>",
        "",
    ]
    lines += ["/* Every constant and byte offset of the channel file. */"]
    lines += ["#define LAYOUT_VALUE static const int64_t __attribute__((unused))"]
    for table, values in tables().items():
        lines += ["", f"/* [{table}] */"]
        lines += [
            f"LAYOUT_VALUE {v.name} = {v.value};"
            for v in values
            if not isinstance(v.value, str)
        ]
    return "\n".join([*lines, "", "#undef LAYOUT_VALUE", "#endif", ""])


def java() -> str:
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        f"// {GENERATED}",
        "package io.flyring;",
        "",
    ]
    lines += [
        "/** Every constant and byte offset of the channel file. */",
        "final class Layout {",
    ]
    for table, values in tables().items():
        lines.append(f"    // [{table}]")
        for value in values:
            if isinstance(value.value, str):
                number = f'String {value.name} = "{value.value}";'
            elif abs(value.value) < 1 << 31:
                number = f"int {value.name} = {value.value};"
            else:
                number = f"long {value.name} = {value.value}L;"
            lines.append(f"    static final {number}")
        lines.append("")
    return "\n".join([*lines, "    private Layout() {", "    }", "}", ""])


def python() -> str:
    lines = ["# SPDX-License-Identifier: Apache-2.0", f"# {GENERATED}"]
    lines += [
        '"""Every constant and byte offset of the channel file."""',
        "",
        "from typing import Final",
    ]
    for table, values in tables().items():
        lines += ["", f"# [{table}]"]
        for value in values:
            number = f'"{value.value}"' if isinstance(value.value, str) else value.value
            lines.append(f"{value.name}: Final = {number}")
    lines += [
        "",
        "# The fields of each table: name, offset, type, how many there are, bytes from one to the next.",
    ]
    lines.append(
        "FIELDS: Final[dict[str, tuple[tuple[str, int, str, int, int], ...]]] = {"
    )
    for table, values in tables().items():
        fields = [value for value in values if value.type is not None]
        rows = [
            f'("{f.key}", {f.value}, "{f.type}", {f.count}, {f.stride}),'
            for f in fields
        ]
        if len(rows) == 1:  # as the formatter wants it
            lines.append(f'    "{table}": ({rows[0]}),')
        elif rows:
            lines.append(f'    "{table}": (')
            lines += [f"        {row}" for row in rows]
            lines.append("    ),")
    return "\n".join([*lines, "}", ""])


FILES: dict[str, Callable[[], str]] = {
    "cpp/include/flyring/detail/layout.hpp": cpp,
    "java/flyring/src/main/java/io/flyring/Layout.java": java,
    "python/core/layout.h": c,
    "python/src/flyring/layout.py": python,
}


# Checks


def overlaps(values: list[Value]) -> Iterator[str]:
    """Yields errors: fields that are not aligned, that overlap, or that exceed their table's bytes."""
    taken: dict[int, str] = {}
    for value in values:
        if value.type is None:
            continue
        for place in value.places():
            if value.type in SIZES and place.start % value.size:
                yield f"{value.table}.{value.key} at {place.start} is not aligned to {value.size}"
            if place.stop > LENGTHS[value.table]:
                yield f"{value.table}.{value.key} ends at {place.stop}, beyond {LENGTHS[value.table]}"
            for byte in place:
                if byte in taken:
                    yield f"{value.table}.{value.key} and {taken[byte]} share byte {byte}"
                    break
                taken[byte] = f"{value.table}.{value.key}"


# The page and the heading of each table of fields, and the table of layout.toml that it describes.
DOCUMENTED = {
    ("channel.md", "4.2"): "header",
    ("channel.md", "4.3"): "control",
    ("channel.md", "4.4"): "publisher_slot",
    ("channel.md", "4.5"): "subscriber_slot",
    ("channel.md", "4.6"): "record",
    ("channel.md", "4.7"): "trailer",
    ("channel.md", "4.7.1"): "gate",
    ("table.md", "2.1"): "table_header",
    ("table.md", "2.2"): "table_control",
    ("table.md", "2.3"): "table_cell",
    ("table.md", "2.3.1"): "table_body",
    ("journal.md", "2.1"): "journal_header",
    ("journal.md", "2.2"): "journal_control",
    ("journal.md", "2.2.1"): "journal_consumer",
    ("journal.md", "2.3"): "journal_segment",
    ("journal.md", "3.2"): "journal_check",
    ("journal.md", "7.1"): "journal_cut",
}
NO_FIELDS = {"payload", "key", "value"}  # rows with a variable length


def rows(page: str, section: str) -> Iterator[tuple[str, int, str]]:
    """Yields name, offset and type of each field with a fixed offset in a section's first table."""
    text = (HERE / page).read_text()
    part = re.search(rf"^####? {re.escape(section)} .*?(?=^##)", text, re.M | re.S)
    assert part is not None, (page, section)
    for row in re.findall(r"^\|(.*)\|$", part[0], re.M):
        offset, size, kind, name, *_ = (
            cell.strip().replace("\\", "") for cell in row.split("|")
        )
        name = re.sub(r"\[.*\]", "", name)
        repeated = re.fullmatch(r"16 e(?: \+ (\d+))?", offset)
        if repeated:
            offset = repeated[1] or "0"
        if offset.isdigit() and name and name not in NO_FIELDS:
            yield (
                name,
                int(offset),
                f"bytes[{size}]"
                if kind == "bytes"
                else kind or {"1": "u8"}.get(size, size),
            )


def undocumented() -> Iterator[tuple[str, list[str]]]:
    for (page, section), table in DOCUMENTED.items():
        told = set(rows(page, section))
        fields = {
            (v.key, int(v.value), v.type) for v in tables()[table] if v.type is not None
        }
        yield (
            f"{page} {section} and [{table}]",
            [f"only in {page}: {row}" for row in sorted(told - fields)]
            + [f"only in layout.toml: {field}" for field in sorted(fields - told)],
        )


def check() -> int:
    results = [
        (
            name,
            []
            if (ROOT / name).is_file() and (ROOT / name).read_text() == text()
            else ["run spec/layout.py"],
        )
        for name, text in FILES.items()
    ]
    results += [
        (f"fields of [{table}]", list(overlaps(values)))
        for table, values in tables().items()
    ]
    results += undocumented()
    failed = [(name, found) for name, found in results if found]
    for name, found in failed:
        for what in found:
            print(f"FAIL {name}: {what}")
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        return check()
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    for name, text in FILES.items():
        (ROOT / name).write_text(text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
