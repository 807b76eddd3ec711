# compiled: mypyc
"""The places that searches in segments have found, kept for the next reader of the same place, of all so
much.

A segment keeps some hundreds of answers, and a reader of all that there is comes by thousands of segments.
"""

from __future__ import annotations

from collections import deque
from typing import Any

TABLES = 2048
"""How many tables of answers are kept, of `segment.FOUND_ENTRIES` at most: 100 MB if all are full."""

_begun: deque[dict[Any, Any]] = deque()
"""Tables in the order in which their first answer came. One that was emptied may be in it twice."""


def keep(table: dict[Any, Any], place: Any, answer: Any) -> None:
    """Keep an answer in a table of a segment. The table that was begun first of all makes room for a new one.

    Args:
        table: which may be emptied at any time from now on, also by another thread.
        place, answer: what goes into it.
    """
    if not table:
        _begun.append(table)
        if len(_begun) > TABLES:
            _begun.popleft().clear()
    table[place] = answer
