"""What README.md and docs/client.md show, done: their code runs, their commands are there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from odradek import Admin
from odradek.cli.main import TOOLS

from .conftest import RunTool

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


CODE = [
    pytest.param(code, id=f"{page}-{number}")
    for page in ("README.md", "docs/client.md")
    for number, code in enumerate(blocks((ROOT / page).read_text(), "python"))
]


@pytest.mark.parametrize("code", CODE)
def test_code_runs(code: str, servers: str, admin: Admin, name: str) -> None:
    if "odradek.spark" in code or "for record in consumer:" in code:
        compile(code, "page", "exec")  # needs Spark, or reads for ever
        return
    names = dict.fromkeys(re.findall(r'"(clicks|bills|audit|invoices|ledger|events)"', code))
    for topic in names:
        admin.create_topics([f"{name}-{topic}"])
        code = code.replace(f'"{topic}"', f'"{name}-{topic}"')
    code = code.replace("127.0.0.1:9092", servers).replace('"readers"', f'"{name}"')
    exec(compile(code.replace("billing-1", name), "page", "exec"), {})


def test_lines_of_the_shell(run: RunTool) -> None:
    lines = re.findall(r"^\$ echo (\S+) \| odradek (.*)$", README, re.MULTILINE)
    assert lines
    for piped, words in lines:
        result = run(*shlex.split(words), stdin=f"{piped}\n".encode())
        assert result.exit_code == 0, (words, result.output)


def test_every_tool_and_target_named_is_there() -> None:
    section = README.split("## Tools")[1].split("##")[0]
    named = re.findall(r"`(?:odradek )?([a-z]+(?:-[a-z]+)*)`", section)
    assert len(named) >= 12
    assert set(named) <= set(TOOLS)
    targets = set(re.findall(r"\bmake ([a-z]+)", " ".join(re.findall(r"`(make [^`]*)`", README))))
    targets |= set(re.findall(r"^make ([a-z]+)", README, re.MULTILINE))
    assert targets >= {"demo", "test", "interop"}
    assert targets <= set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))
