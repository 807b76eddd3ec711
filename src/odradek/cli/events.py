"""The events that the verifiable tools print: one a line, as JSON, in the words of Kafka's own."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import click


def random_aborts(seed: int | None) -> random.Random:
    """Return what decides about a tool's random aborts; its seed is told on standard error.

    Args:
        seed: None: a random one.
    """
    seed = random.SystemRandom().randrange(2**32) if seed is None else seed
    click.echo(f"--seed {seed}", err=True)
    return random.Random(seed)


class Events:
    """Prints events to standard output, from whatever thread; a line is whole and goes out at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def emit(self, name: str, **fields: Any) -> None:
        """Print one, with the time in epoch milliseconds and the name in front."""
        self.line({"timestamp": int(time.time() * 1000), "name": name, **fields})

    def line(self, event: Mapping[str, Any]) -> None:
        """Print an object as it is."""
        text = json.dumps(event, separators=(",", ":"), ensure_ascii=False) + "\n"
        with self._lock:
            sys.stdout.write(text)
            sys.stdout.flush()


def java_class(error: BaseException) -> str:
    """Return how Kafka's tools name the class of an error, for those who look for it."""
    return f"class org.apache.kafka.common.errors.{type(error).__name__.removesuffix('Error')}Exception"
