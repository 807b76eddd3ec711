"""The validation of batches for a topic that is named by its limits alone."""

from __future__ import annotations

from typing import Any

from odradek.records.batch import BatchHeader
from odradek.records.compression import Buffer
from odradek.records.validate import BatchLimits


def validate_batches(
    buffer: Buffer,
    *,
    now_ms: int,
    from_client: bool = True,
    produce_version: int | None = None,
    **limits: Any,
) -> list[BatchHeader]:
    """See `BatchLimits`."""
    return BatchLimits(**limits).validate_batches(buffer, now_ms, from_client, produce_version)
