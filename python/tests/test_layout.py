# SPDX-License-Identifier: Apache-2.0
"""Every constant and offset is that of spec/layout.toml, in Python and in the C core, and nothing else is there."""

from __future__ import annotations

import tomllib
from typing import Any

from conftest import SPEC
from flyring import _core, layout


def spec_values() -> dict[str, Any]:
    tables = tomllib.loads((SPEC / "layout.toml").read_text())
    values = {}
    for table, entries in tables.items():
        if isinstance(entries, dict):
            for key, value in entries.items():
                values[(key if table == "constants" else f"{table}_{key}").upper()] = value
    return values


def test_the_layout_file_is_that_of_the_spec() -> None:
    ours = {name: value for name, value in vars(layout).items() if name.isupper()}
    assert ours == spec_values()


def test_the_layout_of_the_c_core_is_that_of_the_spec() -> None:
    values = spec_values()
    assert len(_core.LAYOUT) > 30
    for name, value in _core.LAYOUT.items():
        assert value == values[name], name
