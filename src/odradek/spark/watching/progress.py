"""The state of a streaming query, from what Spark reports of its progress. Pure.

Spark's Kafka connector puts figures of how far it is behind into `metrics` of a source's progress. Spark
(4.3) takes none from a Python source, but it tells how far the source is, and how far it could be.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odradek.client.types import TopicPartition
from odradek.spark.offsets import SourceOffset, from_spark


@dataclass(frozen=True)
class Sight:
    """One progress report of a query.

    Attributes:
        name: of the query, or its id where it has none.
        rows: taken in by the batch.
        rows_per_second_in, rows_per_second_done: how many come and how many are got through, as Spark works
            them out; 0 where it does not.
        step_ms: how long each step of the trigger took, `triggerExecution` the whole of it.
        behind: records (offsets) that are in a partition and in no batch yet.
        sink_rows: written by the batch; None where the sink does not say.
    """

    name: str
    batch_id: int
    rows: int
    rows_per_second_in: float
    rows_per_second_done: float
    step_ms: Mapping[str, int]
    behind: Mapping[TopicPartition, int]
    sink_rows: int | None = None

    @property
    def took_ms(self) -> int:
        """The time that the whole trigger took."""
        return self.step_ms.get("triggerExecution", 0)

    @property
    def rates(self) -> str:
        """Rows that come and are got through, for people."""
        return f"{self.rows_per_second_in:,.0f} rows/s come, {self.rows_per_second_done:,.0f} rows/s done"

    @property
    def most_behind(self) -> tuple[TopicPartition, int] | None:
        """The partition that is furthest behind."""
        return max(self.behind.items(), key=lambda item: (item[1], item[0]), default=None)


def sight_of(progress: Any) -> Sight:
    """Return a report in our words.

    Args:
        progress: `query.lastProgress`, one of `query.recentProgress`, `event.progress` of a listener, or
            one's JSON as text or dict.
    """
    report = _as_dict(progress)
    behind: dict[TopicPartition, int] = {}
    for source in report.get("sources", ()):
        behind |= lag_by_partition(source)
    written = report.get("sink", {}).get("numOutputRows", -1)
    return Sight(
        name=report.get("name") or str(report.get("id")),
        batch_id=report.get("batchId", -1),
        rows=report.get("numInputRows", 0),
        rows_per_second_in=report.get("inputRowsPerSecond") or 0.0,
        rows_per_second_done=report.get("processedRowsPerSecond") or 0.0,
        step_ms=dict(report.get("durationMs", {})),
        behind=behind,
        sink_rows=written if written is not None and written >= 0 else None,
    )


def lag_by_partition(source_progress: Any) -> dict[TopicPartition, int]:
    """Return how many offsets each partition has that no batch took yet.

    Args:
        source_progress: one of `query.lastProgress.sources`, or the same out of a progress's JSON.

    Returns: nothing ({}) if this source had no part in that trigger, or does not read from Kafka.
    """
    report = _as_dict(source_progress)
    consumed, latest = _offset(report.get("endOffset")), _offset(report.get("latestOffset"))
    if consumed is None or latest is None:
        return {}
    # A partition that no batch has reached yet is behind by all that is in it.
    return {tp: end - consumed.offsets.get(tp, 0) for tp, end in latest.offsets.items()}


def offsets_behind_latest(source_progress: Any) -> dict[str, str]:
    """min-, max- and avgOffsetsBehindLatest, under the connector's names and as texts, as it gives them.

    Args and what it returns: as `lag_by_partition`.
    """
    behind = list(lag_by_partition(source_progress).values())
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
    }


def line_of(sight: Sight) -> str:
    """Return a report as a line for a log."""
    parts = [
        f"{sight.name} batch {sight.batch_id}: {sight.rows:,} rows in {sight.took_ms:,} ms",
        sight.rates,
    ]
    most = sight.most_behind
    if most is not None:
        total = sum(sight.behind.values())
        parts.append(f"behind {total:,}" + (f" ({most[0]} {most[1]:,})" if total else ""))
    return ", ".join(parts)


def _as_dict(progress: Any) -> Mapping[str, Any]:
    """Return a progress as its JSON has it: PySpark 4.1's attributes have offsets as a Python dict's text."""
    text = progress if isinstance(progress, str) else getattr(progress, "json", None)
    if isinstance(text, str):
        progress = json.loads(text)
    return progress if isinstance(progress, Mapping) else vars(progress)


def _offset(value: Any) -> SourceOffset | None:
    try:
        if isinstance(value, str):
            value = json.loads(value)
        return None if value is None else from_spark(value)
    except (ValueError, AttributeError, TypeError):
        # The offsets of another kind of source.
        return None
