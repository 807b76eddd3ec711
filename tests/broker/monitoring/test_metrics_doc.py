"""docs/metrics.md is made from the declarations: this keeps it so. `UPDATE_DOCS=1` writes it anew."""

from __future__ import annotations

import os
from collections import Counter
from itertools import groupby
from pathlib import Path

from odradek.broker.monitoring.declarations import DECLARATIONS, MetricDeclaration
from odradek.broker.monitoring.names import constant_labels, family, label

DOC = Path(__file__).parents[3] / "docs" / "metrics.md"
_BEGIN = "<!-- Made by tests/broker/monitoring/test_metrics_doc.py; UPDATE_DOCS=1 writes it. -->\n"


def _labels(declared: MetricDeclaration) -> str:
    labels = [label(tag) for tag in declared.tags]
    constant = constant_labels(declared)
    return "{" + ", ".join([*labels, *([constant] if constant else [])]) + "}" if labels or constant else ""


def _tables() -> str:
    lines = []
    for kind, of_kind in groupby(DECLARATIONS.values(), lambda declared: declared.kind):
        lines += [
            f"### {kind.replace(':', ':type=')}",
            "",
            "| JMX | Prometheus | type | unit | what it says |",
        ]
        lines.append("|---|---|---|---|---|")
        for declared in of_kind:
            shown = f"`{family(declared).sample}{_labels(declared)}`"
            lines.append(
                f"| `{declared.bean}` | {shown} | {declared.type.value} | {declared.unit} | {declared.doc} |"
            )
        lines.append("")
    return "\n".join(lines)


def test_the_page_lists_what_is_declared() -> None:
    written = DOC.read_text(encoding="utf-8")
    expected = written.partition(_BEGIN)[0] + _BEGIN + "\n" + _tables()
    if os.environ.get("UPDATE_DOCS"):
        DOC.write_text(expected, encoding="utf-8")
    assert DOC.read_text(encoding="utf-8") == expected


def test_no_two_metrics_have_one_name() -> None:
    names = Counter((family(declared).name, constant_labels(declared)) for declared in DECLARATIONS.values())
    assert [name for name, count in names.items() if count > 1] == []
