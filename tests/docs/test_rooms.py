"""ARCHITECTURE.md names each room of the sources and where to begin in it; each decision is in the list."""

from __future__ import annotations

import re

from .blocks import ROOT

SOURCE = ROOT / "src" / "odradek"
PAGE = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
_ROOM = re.compile(r"^\| `([\w/]+)/` \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)
ROOMS = dict(_ROOM.findall(PAGE.partition("\n## The rooms\n")[2].partition("\n## ")[0]))
DECISIONS = ROOT / "docs" / "decisions"


def test_each_room_is_on_the_page() -> None:
    packages = {str(file.parent.relative_to(SOURCE)) for file in SOURCE.rglob("*/__init__.py")}
    assert sorted(ROOMS) == sorted(packages)


def test_the_files_to_begin_with_are_there() -> None:
    named = [
        f"{room}/{file}" for room, begin in ROOMS.items() for file in re.findall(r"`([\w/]+\.py)`", begin)
    ]
    assert len(named) > 60
    assert [path for path in named if not (SOURCE / path).exists()] == []


def test_each_decision_is_in_the_list() -> None:
    listed = re.findall(
        r"^- \[.+\]\(([\w.-]+\.md)\)", (DECISIONS / "README.md").read_text("utf-8"), re.MULTILINE
    )
    assert sorted(listed) == sorted(page.name for page in DECISIONS.glob("*.md") if page.name != "README.md")
