"""Builds the optional kernel, one part per `_*.pyx`; everything else is in pyproject.toml.

Without a C compiler the build goes on without it (`optional=True`): the pure-Python twin serves, and
`odradek doctor` says so.
"""

import os
from pathlib import Path

from setuptools import Extension, setup

PACKAGE = Path("src/odradek")


def extensions() -> list[Extension]:
    """The kernel's parts as optional extensions, or nothing where Cython is absent."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    headers = [str(one) for one in sorted(PACKAGE.glob("_*.pxd"))]
    parts = [
        Extension(
            f"odradek.{source.stem}",
            [str(source)],
            depends=headers,
            # Behind CFLAGS, where it would overrule what those ask for.
            extra_compile_args=[] if "-O" in os.environ.get("CFLAGS", "") else ["-O3"],
        )
        for source in sorted(PACKAGE.glob("_*.pyx"))
    ]
    built: list[Extension] = cythonize(parts, language_level=3)
    for part in built:
        # Here, as Cython does not hand it on: a part that does not compile is left out.
        part.optional = True
    return built


setup(ext_modules=extensions())
