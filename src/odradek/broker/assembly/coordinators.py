"""The coordinators of one broker: each is made when it is first spoken of, so that a start is quick."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.wire.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC

if TYPE_CHECKING:
    from odradek.broker.groups.runtime import GroupRuntime
    from odradek.broker.services import BrokerServices
    from odradek.broker.transactions.runtime import TransactionRuntime
    from odradek.cluster.image import ClusterDelta, ClusterImage


class Coordinators:
    """The group and the transaction coordinator of a broker, which runs."""

    def __init__(self, broker: BrokerServices) -> None:
        self._broker = broker
        self._groups: GroupRuntime | None = None
        self._transactions: TransactionRuntime | None = None
        self._is_stopped = False

    @property
    def groups(self) -> GroupRuntime:
        """The group coordinator's binding, in step with the image."""
        groups = self._groups
        if groups is None:
            from odradek.broker.groups.starting import start_groups

            groups = self._groups = start_groups(self._broker)
        return groups

    @property
    def transactions(self) -> TransactionRuntime:
        """The transaction coordinator's binding, in step with the image."""
        transactions = self._transactions
        if transactions is None:
            from odradek.broker.transactions.starting import start_transactions

            transactions = self._transactions = start_transactions(self._broker)
        return transactions

    def load(self) -> None:
        """Take up what this broker coordinates, soon."""
        broker = self._broker
        if broker.image.topic(GROUP_METADATA_TOPIC) is not None:
            # After the first connections, which need not wait until all groups have been read.
            broker.loop.call_soon(self._load_groups)
        if broker.image.topic(TRANSACTION_STATE_TOPIC) is not None:
            # What was decided before the last stop is completed, also if nobody asks.
            broker.loop.call_soon(self._load_transactions)

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
