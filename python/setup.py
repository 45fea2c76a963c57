# SPDX-License-Identifier: Apache-2.0
"""The C core; everything else stands in pyproject.toml."""

from pathlib import Path

from setuptools import Extension, setup

CORE = Path("core")

setup(
    ext_modules=[
        Extension(
            "flyring._core",
            sources=sorted(map(str, CORE.rglob("*.c"))),
            depends=sorted(map(str, CORE.rglob("*.h"))),
            include_dirs=[str(CORE)],
            define_macros=[("Py_LIMITED_API", "0x030b0000")],
            extra_compile_args=["-std=c11", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra"],
            py_limited_api=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
