"""Looks at a cluster again and again while the console runs, so that pages can show how it was.

Only what somebody has looked at is watched, with the client of whoever has: nobody sees a history that his
own rights would not have given.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from odradek.client.types import TopicPartition
from odradek.console.group_asking import ask_group_offsets
from odradek.console.views.groups import GroupOffsets
from odradek.console.views.history import History
from odradek.errors import OdradekError

if TYPE_CHECKING:
    from odradek.client.aio.admin import AsyncAdmin
    from odradek.util.clock import Clock

logger = logging.getLogger(__name__)

EVERY_S = 10.0
MOST_GROUPS = 100
TOTAL = TopicPartition("", -1)
"""The key of a group's whole lag among those of its partitions."""


class Watch:
    """The histories of what has been looked at.

    Args:
        admin: asks; whoever has made it closes it.
        clock: tells the times of the values.
    """

    def __init__(self, admin: AsyncAdmin, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        # The last one looked at stands last.
        self._groups: dict[str, History[TopicPartition]] = {}
        self._task: asyncio.Task[None] | None = None

    def groups_seen(self, offsets: Mapping[str, GroupOffsets]) -> None:
        """Begin to watch groups that somebody looks at, and keep what the page has asked for."""
        for group in offsets:
            self._groups[group] = self._groups.pop(group) if group in self._groups else History()
        while len(self._groups) > MOST_GROUPS:
            del self._groups[next(iter(self._groups))]
        self._keep(offsets)
        if self._task is None and self._groups:
            self._task = asyncio.create_task(self._run(), name="odradek-console-watch")

    def group(self, group_id: str) -> History[TopicPartition]:
        """Return the history of a group: the lag of its partitions, and `TOTAL`."""
        return self._groups.get(group_id) or History()

    async def sample(self) -> None:
        """Look at everything that is watched, once."""
        self._keep(await ask_group_offsets(self._admin, list(self._groups)))

    async def close(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _keep(self, offsets: Mapping[str, GroupOffsets]) -> None:
        now_ms = self._clock.now_ms()
        for group, known in offsets.items():
            history = self._groups.get(group)
            if history is None or (
                # Pages that are loaded often would push the past out.
                history.last_ms is not None and now_ms - history.last_ms < EVERY_S * 500
            ):
                continue
            lags = {tp: known.lag(tp) for tp in sorted(known.committed)}
            history.add(now_ms, {TOTAL: known.total, **lags})

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                await self.sample()
            except OdradekError as error:
                logger.warning("the watched groups are not known now: %s", error)
