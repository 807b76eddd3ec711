"""Every API asks for what the table says, and docs/security.md shows the table. `UPDATE_DOCS=1` writes it."""

from __future__ import annotations

import os
import re
from itertools import zip_longest
from pathlib import Path

from odradek.broker.apis.registry import SERVED
from odradek.broker.authorizer.requirements import REQUIREMENTS, Requirement
from odradek.wire.api import ApiKey

DOC = Path(__file__).parents[3] / "docs" / "security.md"
LONGEST_CELL = 120
_TABLE = re.compile(r"(<!-- requirements -->\n).*?(<!-- end -->\n)", re.DOTALL)


def _told(one: Requirement) -> str:
    text = f"{one.operation.pascal_name} {one.resource_type.pascal_name}"
    details = ", ".join(filter(None, (one.when, "else hidden" if one.hides else "")))
    return f"{text} ({details})" if details else text


def render() -> str:
    """The table of the page."""
    rows = []
    for key, needs in sorted(REQUIREMENTS.items()):
        told = "; ".join(map(_told, needs)) or "–"
        # Many requirements take a row each.
        cells = [told] if len(told) <= LONGEST_CELL else list(map(_told, needs))
        first = f"{key} {ApiKey(key).api_name}"
        rows += [f"| {api} | {cell} |" for api, cell in zip_longest([first], cells, fillvalue="")]
    return "| API | asks for |\n|---|---|\n" + "\n".join(rows) + "\n"


def test_every_api_is_in_the_table() -> None:
    assert set(SERVED) <= set(REQUIREMENTS)


def test_the_page_shows_the_table() -> None:
    page = DOC.read_text(encoding="utf-8")
    wanted = _TABLE.sub(lambda found: found[1] + render() + found[2], page)
    if os.environ.get("UPDATE_DOCS"):
        DOC.write_text(wanted, encoding="utf-8")
    assert _TABLE.search(page)
    assert DOC.read_text(encoding="utf-8") == wanted, "run with UPDATE_DOCS=1"
