"""Batch writers of other Python clients, for comparison; tests that need them are skipped without."""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType

import pytest

WRITERS = {
    "kafka-python": "kafka.record.default_records",
    "aiokafka": "aiokafka.record.default_records",
}


def writer_module(name: str) -> ModuleType:
    """The module of a peer's record batches."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a peer's own deprecations are not ours
        try:
            return importlib.import_module(WRITERS[name])
        except ImportError:
            pytest.skip(f"{name} is not installed")
