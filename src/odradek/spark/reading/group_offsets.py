"""The offsets of finished batches, committed to a consumer group so that lag shows where people look for it.

The truth is Spark's checkpoint; nothing here reads the group. Hence a commit that fails is a line in the
log, not the end of the query.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.client.types import OffsetAndMetadata, TopicPartition
from odradek.errors import OdradekError
from odradek.spark.connections import connecting
from odradek.spark.options import SourceOptions

if TYPE_CHECKING:
    from odradek.client import Admin

logger = logging.getLogger(__name__)

_TIMEOUT_MS = 10_000
"""A batch is not held up for longer than this."""


class GroupOffsets:
    """Commits to the group that `commitOffsetsToGroup` or `kafka.group.id` names, or to none."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._admin: Admin | None = None
        self._committed: Mapping[TopicPartition, int] = {}

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit `offsets`, if there is a group to commit them to, and unless they were committed last."""
        group_id = self._options.group_id
        if group_id is None or offsets == self._committed:
            return
        try:
            if self._admin is None:
                from odradek.client import Admin

                timeouts = {"default.api.timeout.ms": _TIMEOUT_MS, "request.timeout.ms": _TIMEOUT_MS}
                self._admin = Admin({**connecting(self._options.client), **timeouts})
            commits = {tp: OffsetAndMetadata(offset) for tp, offset in offsets.items()}
            self._admin.alter_group_offsets(group_id, commits)
            self._committed = dict(offsets)
        except (OdradekError, OSError) as error:
            logger.warning("offsets were not committed to group %s: %s", group_id, error)
            self.close()

    def close(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()
