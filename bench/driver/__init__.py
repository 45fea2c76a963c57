# SPDX-License-Identifier: Apache-2.0
"""The driver of ./dev bench. Read run.py first, then sides.py and stats.py; the rest is data and presentation."""
