"""The unreadiness of one broker, or of the brokers of a cluster, by one seed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.testing.unready.checks import PRODUCER_IDS
from odradek.testing.unready.early_request import State
from odradek.testing.unready.ended_transactions import EndedTransactions
from odradek.testing.unready.handlers import UnreadyHandlers
from odradek.testing.unready.lagging_metadata import LaggingMetadata
from odradek.testing.unready.seed import default_seed
from odradek.testing.unready.unreadiness import Unreadiness

if TYPE_CHECKING:
    from odradek.broker.apis.registry import Handlers
    from odradek.broker.services import BrokerServices


class Unready:
    """The unreadiness that the brokers of one cluster have in common.

    Attributes:
        seed: of the numbers of answers.
    """

    def __init__(self, seed: int | None = None) -> None:
        """
        Args:
            seed: see the attributes; `default_seed` if None.
        """
        self.seed = default_seed() if seed is None else seed
        self._transactions = EndedTransactions(Unreadiness(self.seed))

    def __str__(self) -> str:
        """The keywords that say it."""
        return f"unready=True, seed={self.seed}"

    def install(self, broker: BrokerServices, handlers: Handlers) -> UnreadyHandlers:
        """Put what is not ready around a broker's handlers, before it starts.

        Args:
            broker: one life of it.
            handlers: its own.
        """
        unreadiness = Unreadiness(self.seed, f"{broker.config.broker_id}")
        unreadiness.appeared(PRODUCER_IDS)
        state = State(broker, unreadiness, LaggingMetadata(unreadiness), self._transactions)
        return UnreadyHandlers(state, handlers)
