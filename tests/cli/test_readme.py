"""The tools and targets that README.md and docs/developing.md name are there; tests/docs runs them."""

from __future__ import annotations

import re
from pathlib import Path

from odradek.cli.main import TOOLS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DEVELOPING = (ROOT / "docs" / "developing.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_every_tool_and_target_named_is_there() -> None:
    section = README.split("## Tools")[1].split("##")[0]
    named = re.findall(r"`(?:odradek )?([a-z]+(?:-[a-z]+)*)`", section)
    assert len(named) >= 12
    assert set(named) <= set(TOOLS)
    pages = README + DEVELOPING
    targets = set(re.findall(r"\bmake ([a-z-]+)", " ".join(re.findall(r"`(make [^`]*)`", pages))))
    targets |= set(re.findall(r"^make ([a-z-]+)", pages, re.MULTILINE))
    assert targets >= {"demo", "docs", "test", "interop"}
    assert targets <= set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
