# SPDX-License-Identifier: Apache-2.0
"""The percentile curve of ``flyring monitor``, from its file in the checkout, because the driver's libraries do not
include Flyring."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[2] / "python/src/flyring/cli/curve.py"


def load() -> Any:
    spec = importlib.util.spec_from_file_location("flyring_curve", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


_shared = load()
Pen, svg, text_curve = _shared.Pen, _shared.svg, _shared.text_curve
