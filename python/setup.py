# SPDX-License-Identifier: Apache-2.0
"""The C core; everything else stands in pyproject.toml."""

from setuptools import Extension, setup

SOURCES = (
    "module",
    "arguments",
    "memory",
    "lock",
    "geometry",
    "message",
    "sender",
    "wait",
    "publisher",
    "offer",
    "batch",
    "offer_array",
    "claim",
    "reader",
    "subscriber",
    "poll",
    "poll_runs",
    "arrays",
    "lossy",
    "lossy_ring",
    "lossy_poll",
    "lossy_runs",
    "sbe",
    "sbe_field",
    "sbe_values",
    "sbe_text",
    "sbe_enums",
    "sbe_parts",
    "sbe_groups",
    "sbe_message",
    "sbe_claim",
    "sbe_dispatch",
)
HEADERS = (
    *("core", "layout", "publisher", "ring", "sender", "reader", "subscriber", "lossy"),
    *("arrays", "parts", "sbe", "sbe_parts"),
)

setup(
    ext_modules=[
        Extension(
            "flyring._core",
            sources=[f"core/{name}.c" for name in SOURCES],
            depends=[f"core/{name}.h" for name in HEADERS],
            define_macros=[("Py_LIMITED_API", "0x030b0000")],
            extra_compile_args=["-std=c11", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra"],
            py_limited_api=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
