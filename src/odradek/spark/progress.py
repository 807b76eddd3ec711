"""How far a streaming query is behind its topics, from what Spark reports of its progress. Pure.

Spark's Kafka connector puts these figures into `metrics` of a source's progress. Spark (4.3) takes none from
a Python source, but it tells how far the source is, and how far it could be.
"""

import json
from collections.abc import Mapping
from typing import Any

from odradek.spark.offsets import SourceOffset, from_spark


def offsets_behind_latest(source_progress: Any) -> dict[str, str]:
    """min-, max- and avgOffsetsBehindLatest, under the connector's names and as texts, as it gives them.

    Args:
        source_progress: one of `query.lastProgress.sources`, or the same out of a progress's JSON.

    Returns: nothing ({}) if this source had no part in that trigger.
    """
    consumed, latest = (_offset(source_progress, name) for name in ("endOffset", "latestOffset"))
    if consumed is None or latest is None or not latest.offsets:
        return {}
    # A partition that no batch has reached yet is behind by all that is in it.
    behind = [end - consumed.offsets.get(tp, 0) for tp, end in latest.offsets.items()]
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
    }


def _offset(progress: Any, name: str) -> SourceOffset | None:
    value = progress.get(name) if isinstance(progress, Mapping) else getattr(progress, name)
    if isinstance(value, str):
        value = json.loads(value) if value != "null" else None
    return None if value is None else from_spark(value)
