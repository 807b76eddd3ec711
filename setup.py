"""Builds the optional kernel; everything else is in pyproject.toml.

Without a C compiler the build goes on without it (`optional=True`): the pure-Python twin serves, and
`odradek doctor` says so.
"""

from pathlib import Path

from setuptools import Extension, setup

KERNEL = Path("src/odradek/_kernel.pyx")


def extensions() -> list[Extension]:
    """The kernel as an optional extension, or nothing where Cython is absent."""
    if not KERNEL.exists():
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    kernel = Extension("odradek._kernel", [str(KERNEL)], extra_compile_args=["-O3"], optional=True)
    return cythonize([kernel], language_level=3)


setup(ext_modules=extensions())
