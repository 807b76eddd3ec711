"""What the tests of client libraries make of what a reader's program tells."""

from __future__ import annotations

import json
import sys

import pytest

from interop.programs import Program
from interop.transactors import Workbench

pytestmark = pytest.mark.interop

READ = [(0, 7, "a"), (0, 8, "a"), (1, 0, "b"), (0, 7, "a"), (0, 8, "a"), (1, 0, "b"), (1, 1, "end")]
"""Partition, offset and value. The group has committed nothing: a member that it threw out begins anew."""


def test_what_is_read_again_counts_once() -> None:
    lines = "\n".join(
        json.dumps({"partition": partition, "offset": offset, "key": "", "value": value, "header": ""})
        for partition, offset, value in READ
    )
    told = f"import sys; print({lines!r}, flush=True); sys.stdin.read()"
    work = Workbench(Program((sys.executable, "-c", told)), "127.0.0.1:1")
    try:
        assert work.committed("topic", {"end"}, "group") == ["a", "a", "b"]
    finally:
        work.close()
