"""Tests go by public names: what is left of others is listed by file, and grows no more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT = {
    "broker/requests/test_sliced_requests.py": 1,
    "client/test_admin_placement.py": 1,
    "cluster/store/test_store_server.py": 2,
    "coordinators/test_pending_offsets.py": 2,
    "simulation/world.py": 1,
    "spark/sessions/test_java.py": 1,
    "testing/test_replication.py": 1,
}
"""How often each file uses a private name of src. Lower it where fewer are needed; a new file has none."""

NOT_PRIVATE = {"_replace", "_fields", "_exit", "_corrupt", "_NO_OFFSET"}
"""Named tuples', the system's, a column's of Spark, and an error's of librdkafka."""

_DEFINED = re.compile(
    r"(?:\bself\.|\bcls\.|\bdef |^\s*)(_[A-Za-z]\w*)(?=\s*(?:[:=(,]|\[.*\] =))", re.MULTILINE
)


def defined(text: str) -> set[str]:
    """The private names that a file defines."""
    return {name for name in _DEFINED.findall(text) if not name.startswith("__")}


def used(text: str) -> Iterator[str]:
    """The private names that a file takes from other objects than its own, and than asyncio's."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_"):
            continue
        if ast.unparse(node.value) not in ("self", "cls", "asyncio.Handle"):
            yield node.attr


def test_the_list_is_what_is_used() -> None:
    of_src: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        of_src |= defined(path.read_text(encoding="utf-8"))
    of_src -= NOT_PRIVATE
    left = {}
    for path in (ROOT / "tests").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        names = of_src - defined(text)
        if pokes := sum(name in names for name in used(text)):
            left[path.relative_to(ROOT / "tests").as_posix()] = pokes
    assert left == LEFT
