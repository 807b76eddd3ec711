"""Builds what is compiled; everything else is in pyproject.toml.

- The kernel, one part per `_*.pyx`, which stands beside its twin in Python; where a part is missing, its twin
  serves.
- What every request passes, by mypyc from the same `.py` files, which begin with `# compiled: mypyc`; all of
  it or none (docs/decisions/the-walk-compiled.md). ODRADEK_COMPILE_WALK=0 in the environment leaves it out.

ODRADEK_COMPILE=0 leaves out both: the wheel is one for every machine then.

What does not compile, as without a C compiler, is left out, and `odradek doctor` says so. With
ODRADEK_COMPILE=1 the build fails instead.
"""

import os
import sys
from collections.abc import Sequence
from importlib import util
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

PACKAGE = Path("src/odradek")

# By its file: the package may not be importable yet.
_found = util.spec_from_file_location("stale", PACKAGE / "util/stale.py")
assert _found is not None
assert _found.loader is not None
stale = util.module_from_spec(_found)
_found.loader.exec_module(stale)

#: Commands that need not know what is compiled, which takes a while to find out.
BUILD_NOTHING = {"dist_info", "egg_info", "sdist"}

COMPILES = os.environ.get("ODRADEK_COMPILE") != "0"
IS_WHOLE = os.environ.get("ODRADEK_COMPILE") == "1"

#: What requests pass on their way, as mypyc takes it.
WALK = stale.walk(PACKAGE)

#: The kernel: its parts, and what they share.
KERNEL = stale.kernel(PACKAGE)


def module_of(source: str) -> str:
    """The module of a source, which is given by its path below the package."""
    return f"{PACKAGE.name}.{source.rpartition('.')[0].replace('/', '.')}"


def extensions() -> list[Extension]:
    """The kernel's parts as optional extensions, or nothing where Cython is absent."""
    if not COMPILES:
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        if IS_WHOLE:
            raise
        return []
    headers = [str(PACKAGE / name) for name in KERNEL if name.endswith(".pxd")]
    parts = [
        Extension(
            module_of(name),
            [str(PACKAGE / name)],
            depends=headers,
            # Behind CFLAGS, where it would overrule what those ask for.
            extra_compile_args=[] if "-O" in os.environ.get("CFLAGS", "") else ["-O3"],
        )
        for name in KERNEL
        if name.endswith(".pyx")
    ]
    built: list[Extension] = cythonize(parts, language_level=3)
    for part in built:
        # Here, as Cython does not hand it on: a part that does not compile is left out.
        part.optional = not IS_WHOLE
    return built


def walk() -> list[Extension]:
    """What the walk is: the library that has it all, then a module for each that is found in its place."""
    is_left_out = not COMPILES or os.environ.get("ODRADEK_COMPILE_WALK") == "0"
    if is_left_out or not BUILD_NOTHING.isdisjoint(sys.argv):
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        if IS_WHOLE:
            raise
        return []
    sources = [str(PACKAGE / name) for name in WALK]
    try:
        # More than -O1 takes twice as long to build, and gains nothing that can be measured. What CFLAGS ask
        # for stands before it.
        level = "0" if "-O0" in os.environ.get("CFLAGS", "") else "1"
        # Types elsewhere are the business of `make types`, which has the libraries that they come from.
        built: list[Extension] = mypycify(
            ["--follow-imports=silent", *sources], opt_level=level, debug_level="0", group_name="odradek"
        )
    except SystemExit as refused:
        if IS_WHOLE:
            raise
        print(f"what requests pass is left as it is: {refused}", file=sys.stderr)
        return []
    for one in built:
        one.optional = not IS_WHOLE
    return built


class BuildAll(build_ext):
    """Builds side by side, and leaves out modules whose library could not be built."""

    def build_extensions(self) -> None:
        """See `build_ext.build_extensions`."""
        self.parallel = self.parallel or os.cpu_count()
        super().build_extensions()
        whole = [one for one in self.extensions if one.name.endswith("__mypyc")]
        is_whole = all(Path(self.get_ext_fullpath(one.name)).exists() for one in whole)
        if not is_whole:
            for name in WALK:
                Path(self.get_ext_fullpath(module_of(name))).unlink(missing_ok=True)
        self._note_sources(WALK if whole and is_whole else ())

    def _note_sources(self, walk: Sequence[str]) -> None:
        """Write down what was compiled: nobody is to use it when it has changed since."""
        noted = stale.note(Path())
        noted.parent.mkdir(exist_ok=True)
        noted.write_text(
            "".join(f"{stale.digest(PACKAGE / name)}  {name}\n" for name in (*walk, *KERNEL)),
            encoding="utf-8",
        )


setup(ext_modules=extensions() + walk(), cmdclass={"build_ext": BuildAll})
