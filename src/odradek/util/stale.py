"""Sources of a checkout that have changed since they were compiled.

What is compiled takes the place of its source without asking: after a `git pull` alone, old code would work
beside new, and agree about less than either believes. `setup.py` writes down what it compiled; an installed
package has no such list, and nothing in it changes.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).parents[3]
"""The checkout, if this is one."""


MARK = "# compiled: mypyc\n"
"""The first line of a source that mypyc compiles."""


class OutdatedError(ImportError):
    """A compiled module is older than its source; the message says what to do."""


def kernel(package: Path) -> list[str]:
    """Sources of the kernel, parts (`.pyx`) and what they share (`.pxd`): paths below a package's folder."""
    sources = (source for kind in ("pxd", "pyx") for source in package.rglob(f"_*.{kind}"))
    return sorted(source.relative_to(package).as_posix() for source in sources)


def walk(package: Path) -> list[str]:
    """The files of a package that mypyc compiles: paths below its folder, by name."""
    sources = []
    for source in package.rglob("*.py"):
        with source.open(encoding="utf-8") as file:
            if file.readline() == MARK:
                sources.append(source.relative_to(package).as_posix())
    return sorted(sources)


def note(root: Path) -> Path:
    """The list of what was compiled for this Python: a line for each source, its digest first."""
    return root / "build" / f"compiled{sysconfig.get_config_var('EXT_SUFFIX')}.sha256"


def digest(source: Path) -> str:
    """The digest of a source, as the list has it."""
    return sha256(source.read_bytes()).hexdigest()


def is_stale(name: str, root: Path = ROOT) -> bool:
    """Return whether a source (its path below `src/odradek`) was compiled and has changed since.

    For a part of the kernel, a change of any `.pxd` counts too: parts share those.
    """
    noted = _noted(root)
    if name not in noted or not (root / "src/odradek" / name).exists():
        return False
    headers = [other for other in noted if other.endswith(".pxd")] if name.endswith(".pyx") else []
    return any(_has_changed(source, noted[source], root) for source in (name, *headers))


def _has_changed(name: str, noted: str, root: Path) -> bool:
    source = root / "src/odradek" / name
    return not source.exists() or digest(source) != noted


def stale_walk(root: Path = ROOT) -> Iterator[str]:
    """Sources of what requests pass, where that is compiled, that have changed since."""
    library = f"odradek__mypyc{sysconfig.get_config_var('EXT_SUFFIX')}"
    if (root / "src" / library).exists():
        yield from (name for name in _noted(root) if name.endswith(".py") and is_stale(name, root))


def check_walk(root: Path = ROOT) -> None:
    """Begin no broker of old code and new.

    Raises:
        OutdatedError: a source of what requests pass has changed since it was compiled.
    """
    if changed := next(stale_walk(root), None):
        raise OutdatedError(
            f"{changed} has changed since it was compiled, and old code would work beside new: "
            f"`pip install -e {root}` compiles it again, `make interpreted` goes on without"
        )


@cache
def _noted(root: Path) -> dict[str, str]:
    try:
        lines = note(root).read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {name: digest for digest, name in map(str.split, lines)}
