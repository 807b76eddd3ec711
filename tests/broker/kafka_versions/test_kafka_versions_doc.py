"""The table in docs/kafka_versions.md is computed: this keeps it so. `UPDATE_DOCS=1` writes it anew."""

from __future__ import annotations

import os
from pathlib import Path

from odradek.broker.apis.registry import SERVED
from odradek.broker.kafka_versions.report import table

DOC = Path(__file__).parents[3] / "docs" / "kafka_versions.md"
BEGIN, END = "<!-- table -->\n", "<!-- end -->\n"


def test_what_is_missing_is_in_the_doc() -> None:
    text = DOC.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    computed = table({key: entry.versions for key, entry in SERVED.items()})
    wanted = f"{before}{BEGIN}\n{computed}\n\n{END}{after}"
    if os.environ.get("UPDATE_DOCS"):
        DOC.write_text(wanted, encoding="utf-8")
    assert DOC.read_text(encoding="utf-8") == wanted, "run it with UPDATE_DOCS=1"
