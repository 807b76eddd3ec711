"""docs/reference/errors.md has each code of `odradek.errors` once, as it is declared."""

from __future__ import annotations

import re

from odradek.errors import ErrorCode

from .error_table import PAGE, REMEDIES, filled

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page_is_what_the_declarations_say() -> None:
    assert filled(TEXT) == TEXT, "run it anew: PYTHONPATH=tests python -m docs.error_table"


def test_each_code_is_there_once() -> None:
    listed = re.findall(r"^\| -?\d+ `(\w+)`", TEXT, re.MULTILINE)
    assert sorted(listed) == sorted(code.name for code in ErrorCode if code is not ErrorCode.NONE)
    assert set(REMEDIES) <= set(listed)
