"""Log lines as text and as JSON, and that no message of the broker hides a field."""

from __future__ import annotations

import ast
import json
import logging
import sys
from pathlib import Path

import pytest

import odradek
from odradek.broker.process.logging import (
    MOST_LINES,
    RESERVED,
    Flood,
    JsonFormatter,
    TextFormatter,
    fields,
)


def record(message: object, *args: object, level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord("odradek.broker.x", level, "x.py", 1, message, args, None)


@pytest.mark.parametrize(
    ("message", "args", "facts"),
    [
        ("ready host=%s port=%d", ("::1", 9092), {"host": "::1", "port": 9092}),
        ("closing peer=%s:%d reason=%s", ("1.2.3.4", 5, "a b=c"), {"peer": "1.2.3.4:5", "reason": "a b=c"}),
        ("%s could not be created: %s", ("t", "why"), {}),
        ("failed topic=%s partition=%d: %s", ("t", 0, "why"), {"topic": "t", "partition": 0}),
        ("%d of %d took_ms=%.2f all=%s", (1, 2, 1.239, True), {"took_ms": 1.24, "all": True}),
        ("client_id=%s share=%d%% of=%5d", (None, 7, 8), {"client_id": None, "share": "7%", "of": "    8"}),
        ("level=%d message=%s", (3, "x"), {"level_": 3, "message_": "x"}),
        ("error=%r", (ValueError("x"),), {"error": "ValueError('x')"}),
        ("nothing=here", (), {}),
        (ValueError("no text"), (), {}),
    ],
)
def test_facts_are_fields(message: object, args: tuple[object, ...], facts: dict[str, object]) -> None:
    assert fields(record(message, *args)) == facts
    entry = json.loads(JsonFormatter().format(record(message, *args)))
    assert entry == {
        **{name: entry[name] for name in ("time",)},
        "level": "INFO",
        "logger": "odradek.broker.x",
        "message": record(message, *args).getMessage(),
        **facts,
    }


def test_a_mapping_for_arguments_is_left_alone() -> None:
    assert fields(record("a=%(b)s", {"b": 1})) == {}


def test_text_has_no_lines_of_strangers() -> None:
    line = TextFormatter().format(record("client_id=%s", "a\nERROR forged", level=logging.WARNING))
    assert line.endswith(" WARN broker.x client_id=a\\nERROR forged")
    assert "\n" not in line


def test_a_workers_lines_have_its_number() -> None:
    try:
        raise ValueError("why")
    except ValueError:
        broken = record("broken topic=%s", "t")
        broken.exc_info = sys.exc_info()
    lines = TextFormatter(worker=1).format(broken).splitlines()
    assert lines[0].endswith(" INFO broker.x broken topic=t")
    assert len(lines) > 1
    assert all(line.startswith("[worker 1] ") for line in lines)
    entry = json.loads(JsonFormatter(worker=0).format(record("worker=%s", "x")))
    assert (entry["worker"], entry["worker_"]) == (0, "x")


def test_no_fact_has_a_reserved_name() -> None:
    """Else its field would have an underscore that nobody expects."""
    found = []
    for path in Path(odradek.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found += [(path.name, node.value) for name in RESERVED if f" {name}=%" in f" {node.value}"]
    assert found == []


def test_no_place_writes_more_than_so_many_lines_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    flood = Flood(lambda: now[0])
    # A start may say what it likes.
    assert all(flood.filter(record("starting")) for _ in range(2 * MOST_LINES))
    flood.begin()
    passed = [flood.filter(record("group %s", number)) for number in range(MOST_LINES + 7)]
    assert passed == [True] * MOST_LINES + [False] * 7
    assert all(flood.filter(record("x", level=logging.DEBUG)) for _ in range(10))
    other = record("other")
    other.lineno = 2
    assert flood.filter(other)
    monkeypatch.setattr(logging.getLogger("odradek"), "propagate", True)
    flood.tell_counts()
    flood.tell_counts()
    (line,) = caplog.records
    assert fields(line) == {"count": 7, "of": "odradek.broker.x", "last": f"group {MOST_LINES + 6}"}
    now[0] += 60
    assert flood.filter(record("again"))
