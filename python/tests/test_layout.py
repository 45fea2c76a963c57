# SPDX-License-Identifier: Apache-2.0
"""layout.py has the constants and offsets of spec/layout.toml, and no others. The spec suite compares the C core's
file, which is generated from the same page."""

from __future__ import annotations

import tomllib
from typing import Any

from conftest import SPEC
from flyring import layout


def spec_values() -> dict[str, Any]:
    tables = tomllib.loads((SPEC / "layout.toml").read_text())
    values = {}
    for table, entries in tables.items():
        if isinstance(entries, dict):
            for key, value in entries.items():
                name = (key if table == "constants" else f"{table}_{key}").upper()
                values[name] = value["offset"] if isinstance(value, dict) else value
    return values


def test_the_layout_file_is_that_of_the_spec() -> None:
    ours = {name: value for name, value in vars(layout).items() if name.isupper() and name != "FIELDS"}
    assert ours == spec_values()
