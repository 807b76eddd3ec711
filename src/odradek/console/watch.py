"""Looks at a cluster again and again while the console runs, so that pages can show how it was.

Only what somebody has looked at is watched, with the client of whoever has: nobody sees a history that his
own rights would not have given.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from odradek.client.types import TopicPartition
from odradek.console.group_asking import ask_ends, ask_group_offsets
from odradek.console.views.groups import GroupOffsets
from odradek.console.views.history import History
from odradek.errors import OdradekError

if TYPE_CHECKING:
    from odradek.client.aio.admin import AsyncAdmin
    from odradek.util.clock import Clock

logger = logging.getLogger(__name__)

EVERY_S = 10.0
#: As long as a history is: later, nothing is left of what somebody has seen.
IDLE_MS = 3_600_000
MOST_GROUPS = 100
MOST_TOPICS = 50
TOTAL = TopicPartition("", -1)
"""The key of a group's whole lag among those of its partitions."""


class Watch:
    """The histories of what has been looked at; nothing is asked once nobody has looked for an hour.

    Args:
        admin: asks; whoever has made it closes it.
        clock: tells the times of the values.
    """

    def __init__(self, admin: AsyncAdmin, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        # The last one looked at stands last.
        self._groups: dict[str, History[TopicPartition]] = {}
        self._topics: dict[str, History[str]] = {}
        self._partitions: dict[str, tuple[TopicPartition, ...]] = {}
        self._task: asyncio.Task[None] | None = None
        self._seen_ms = clock.monotonic_ms()
        self._closed = False

    def groups_seen(self, offsets: Mapping[str, GroupOffsets]) -> None:
        """Begin to watch groups that somebody looks at, and keep what the page has asked for."""
        for group in offsets:
            self._groups[group] = self._groups.pop(group) if group in self._groups else History()
        while len(self._groups) > MOST_GROUPS:
            del self._groups[next(iter(self._groups))]
        self._keep(offsets)
        self._begin()

    def topic_seen(self, topic: str, partitions: Iterable[TopicPartition], count: int | None) -> None:
        """Begin to watch a topic that somebody looks at.

        Args:
            topic: its name.
            partitions: all of it.
            count: the sum of the offsets of their ends; None where whoever looks does not know it.
        """
        self._topics[topic] = self._topics.pop(topic) if topic in self._topics else History(most_keys=1)
        self._partitions[topic] = tuple(partitions)
        while len(self._topics) > MOST_TOPICS:
            gone = next(iter(self._topics))
            del self._topics[gone], self._partitions[gone]
        if count is not None:
            self._keep_topic(topic, count)
        self._begin()

    def topic(self, topic: str) -> History[str]:
        """Return the history of a topic: the sum of its ends, by its name."""
        return self._topics.get(topic) or History()

    def _begin(self) -> None:
        self._seen_ms = self._clock.monotonic_ms()
        # A page that was on its way as the session ended begins nothing that nobody would end.
        if self._closed or not (self._groups or self._topics):
            return
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="odradek-console-watch")

    def group(self, group_id: str) -> History[TopicPartition]:
        """Return the history of a group: the lag of its partitions, and `TOTAL`."""
        return self._groups.get(group_id) or History()

    async def sample(self) -> None:
        """Look at everything that is watched, once."""
        self._keep(await ask_group_offsets(self._admin, list(self._groups)))
        ends, _, _ = await ask_ends(self._admin, {tp for tps in self._partitions.values() for tp in tps})
        for topic, partitions in list(self._partitions.items()):
            is_known = all(tp in ends for tp in partitions)
            self._keep_topic(topic, sum(ends[tp] for tp in partitions) if is_known else None)

    async def close(self) -> None:
        """Stop looking, for good."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _keep(self, offsets: Mapping[str, GroupOffsets]) -> None:
        now_ms = self._clock.now_ms()
        for group, known in offsets.items():
            history = self._groups.get(group)
            if history is not None and _is_due(history.last_ms, now_ms):
                lags = {tp: known.lag(tp) for tp in sorted(known.committed)}
                history.add(now_ms, {TOTAL: known.total, **lags})

    def _keep_topic(self, topic: str, count: int | None) -> None:
        history, now_ms = self._topics.get(topic), self._clock.now_ms()
        if history is not None and _is_due(history.last_ms, now_ms):
            history.add(now_ms, {topic: count})

    async def _run(self) -> None:
        while self._clock.monotonic_ms() - self._seen_ms < IDLE_MS:
            await asyncio.sleep(EVERY_S)
            try:
                await self.sample()
            except OdradekError as error:
                logger.warning("the watched groups are not known now: %s", error)
            except Exception:
                # One look that fails is a gap in the plots, and not their end.
                logger.exception("what is watched could not be looked at")


def _is_due(last_ms: int | None, now_ms: int) -> bool:
    # Pages that are loaded often would push the past out.
    return last_ms is None or now_ms - last_ms >= EVERY_S * 500
