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
    "wait",
    "publisher",
    "offer",
    "batch",
    "claim",
    "subscriber",
    "poll",
)

setup(
    ext_modules=[
        Extension(
            "flyring._core",
            sources=[f"core/{name}.c" for name in SOURCES],
            depends=["core/core.h", "core/layout.h", "core/publisher.h", "core/ring.h", "core/subscriber.h"],
            define_macros=[("Py_LIMITED_API", "0x030b0000")],
            extra_compile_args=["-std=c11", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra"],
            py_limited_api=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
