"""The compiled parts of the kernel and their twins, as parameters of tests."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import pytest

ABSENT = "the kernel is not compiled"


def twins(python: ModuleType, compiled: str) -> list[Any]:
    """The twin and the compiled module; where there is none, a parameter that is skipped for that reason."""
    try:
        native = pytest.param(importlib.import_module(compiled), id="native")
    except ImportError:
        native = pytest.param(None, id="native", marks=pytest.mark.skip(reason=ABSENT))
    return [pytest.param(python, id="python"), native]
