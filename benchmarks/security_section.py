"""What security costs: each part beside the same broker without it, on one machine, in turns."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import security_authorizer
from benchmarks.clusters import own_version
from benchmarks.results import Measure, Outcome
from benchmarks.sections import Context

PARTS: tuple[tuple[tuple[str, str], Callable[[Context], list[Measure]]], ...] = (
    (security_authorizer.CONTENDERS, security_authorizer.measure),
)
"""Of each part with what, and without; and what measures it."""


def run(name: str, context: Context) -> Outcome:
    """All parts, one after the other."""
    contenders: list[str] = []
    measures: list[Measure] = []
    for names, measure in PARTS:
        contenders += names
        measures += measure(context)
    settings = {"rounds": context.rounds, "seconds each": context.seconds}
    return Outcome(
        name, "What security costs", contenders, {"odradek": own_version()}, measures, settings, []
    )
