"""Which of many releases `make interop` meets: those at the ends; `make compatibility` meets all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def ends(releases: Sequence[str], *also: str) -> list[Any]:
    """Return the releases as parameters; those that not every run meets are marked `between`.

    Args:
        releases: the oldest first, the newest last: every run meets these two.
        also: those between that every run meets as well.
    """
    always = (releases[0], releases[-1], *also)
    between = pytest.mark.between
    return [pytest.param(release, marks=() if release in always else between) for release in releases]
