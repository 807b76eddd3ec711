"""A module's logger has one name, `logger`: `log` is a partition's log here."""

from __future__ import annotations

import re
from pathlib import Path

import odradek

_GETS_A_LOGGER = re.compile(r"^(\w+)(?:: .*)? = logging\.getLogger\(", re.MULTILINE)
_ROOT = Path(odradek.__file__).parent


def test_the_logger_of_each_module_is_called_logger() -> None:
    names = {
        path.relative_to(_ROOT).as_posix(): found
        for path in sorted(_ROOT.rglob("*.py"))
        if (found := _GETS_A_LOGGER.findall(path.read_text(encoding="utf-8")))
    }
    assert len(names) > 100
    assert {path: found for path, found in names.items() if set(found) != {"logger"}} == {}
