"""Records that are converted between message formats: whose turn it is, partition by partition.

Converting takes long where it concerns megabytes (decompress, rewrite, compress), and the loops over records
are compiled and leave the interpreter's lock alone: so they run beside the event loop, in the threads of
`odradek.broker.conversion.unpacking`. What is produced is converted right before it is appended
(`odradek.broker.conversion.preparation`), what is fetched piece by piece while it is sent
(`odradek.broker.conversion.lazy_records`).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.broker.event_loop.slices import Steps
    from odradek.util.topic_partition import TopicPartition


class Conversions:
    """Gives turns to the conversions of one broker. All methods are called from the event loop.

    Attributes:
        latest: of each partition for which records are converted, and have not been appended yet, what ends
            with that; of topics of an older format only, as there what is converted has its offsets.
    """

    def __init__(self) -> None:
        self._turns = 0
        self.latest: dict[TopicPartition, asyncio.Future[None]] = {}

    def next_turn(self) -> int:
        """Return a number that is another one each time."""
        self._turns += 1
        return self._turns

    def come(self, key: TopicPartition) -> Steps[None]:
        """Wait until nothing is converted for a partition."""
        while True:
            running = self.latest.get(key)
            if running is None:
                return
            yield running

    def take_turn(self, key: TopicPartition) -> None:
        """Make all others wait in `come` until `give_turn` is called for the same partition."""
        assert key not in self.latest, key
        self.latest[key] = asyncio.get_running_loop().create_future()

    def give_turn(self, key: TopicPartition) -> None:
        """Let the next one come."""
        turn = self.latest.pop(key)
        # Steps that nobody takes any more end with the process, when there is no loop to tell.
        if not turn.get_loop().is_closed():
            turn.set_result(None)
