"""The coordinators of one broker: each is made when it is first spoken of, so that a start is quick."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.wire.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from odradek.broker.groups.runtime import GroupRuntime
    from odradek.broker.metadata.metadata_cache import MetadataCache
    from odradek.broker.transactions.runtime import TransactionRuntime
    from odradek.cluster.image import ClusterDelta, ClusterImage


class Coordinators:
    """The group and the transaction coordinator of a broker, which runs."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        metadata: MetadataCache,
        make_groups: Callable[[], GroupRuntime],
        make_transactions: Callable[[], TransactionRuntime],
    ) -> None:
        """
        Args:
            loop: in which they run.
            metadata: the image that they begin with.
            make_groups, make_transactions: make them; their modules are not imported before.
        """
        self._loop = loop
        self._metadata = metadata
        self._make_groups = make_groups
        self._make_transactions = make_transactions
        self._groups: GroupRuntime | None = None
        self._transactions: TransactionRuntime | None = None
        self._is_stopped = False

    @property
    def groups(self) -> GroupRuntime:
        """The group coordinator's binding, in step with the image."""
        groups = self._groups
        if groups is None:
            groups = self._make_groups()
            groups.follow(self._metadata.image)
            self._groups = groups
        return groups

    @property
    def transactions(self) -> TransactionRuntime:
        """The transaction coordinator's binding, in step with the image."""
        transactions = self._transactions
        if transactions is None:
            transactions = self._make_transactions()
            transactions.follow(self._metadata.image)
            self._transactions = transactions
        return transactions

    def load(self) -> None:
        """Take up what this broker coordinates, soon."""
        image = self._metadata.image
        if image.topic(GROUP_METADATA_TOPIC) is not None:
            # After the first connections, which need not wait until all groups have been read.
            self._loop.call_soon(self._load_groups)
        if image.topic(TRANSACTION_STATE_TOPIC) is not None:
            # What was decided before the last stop is completed, also if nobody asks.
            self._loop.call_soon(self._load_transactions)

    def _load_groups(self) -> None:
        if not self._is_stopped:
            _ = self.groups

    def _load_transactions(self) -> None:
        if not self._is_stopped:
            _ = self.transactions

    def follow(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Hand a new image to the coordinators that there are."""
        if self._groups is not None:
            self._groups.follow(image, delta)
        if self._transactions is not None:
            self._transactions.follow(image, delta)

    def follow_leaders(self, topics: set[str]) -> None:
        """This broker has begun or ceased to lead partitions of these topics."""
        # A coordinator is made when it is first needed, and completes what it finds decided.
        if GROUP_METADATA_TOPIC in topics:
            self.groups.follow_leaders(topics)
        if TRANSACTION_STATE_TOPIC in topics:
            self.transactions.follow_leaders(topics)

    def cancel_loading(self) -> None:
        """Load nothing any more: the broker stops."""
        self._is_stopped = True

    def stop(self) -> None:
        """Answer whoever waits; whoever asks from now on makes new ones."""
        self.cancel_loading()
        if self._transactions is not None:
            self._transactions.stop()
            self._transactions = None
        if self._groups is not None:
            self._groups.stop()
            self._groups = None
