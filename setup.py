"""Builds the optional kernel; everything else is in pyproject.toml.

Without a C compiler the build goes on without it (`optional=True`): the pure-Python twin serves, and
`odradek doctor` says so.
"""

from pathlib import Path

from setuptools import Extension, setup

SOURCES = {
    "odradek._kernel": Path("src/odradek/_kernel.pyx"),
    "odradek._cleaner": Path("src/odradek/_cleaner.pyx"),
    "odradek._fetch": Path("src/odradek/_fetch.pyx"),
    "odradek._client": Path("src/odradek/_client.pyx"),
}


def extensions() -> list[Extension]:
    """The kernel's parts as optional extensions, or nothing where Cython is absent."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    kernel = [
        Extension(name, [str(source)], extra_compile_args=["-O3"], optional=True)
        for name, source in SOURCES.items()
        if source.exists()
    ]
    return cythonize(kernel, language_level=3)


setup(ext_modules=extensions())
