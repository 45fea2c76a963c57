# SPDX-License-Identifier: Apache-2.0
"""Space in the ring, filled in place (spec/api.md)."""

from ._core import Claim

__all__ = ["Claim"]
