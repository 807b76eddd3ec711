"""The batches of aborted transactions, told while a log is read from its beginning.

A marker may go once no batch of its transaction is left, and then only after its delete horizon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from odradek.log.segments.txn_index import AbortedTxn
from odradek.records.batch import BatchHeader
from odradek.records.control import ControlType, EndTransactionMarker


class TransactionReader:
    """Follows the transactions of a log. Every batch is shown to it, in order.

    Attributes: `on_abort_kept`: called with each aborted transaction whose marker is met while batches of it
    are still there, so that the new segment's transaction index names it.
    """

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._to_come = sorted(aborted, key=lambda txn: txn.first_offset, reverse=True)
        self._ongoing_aborted: dict[int, tuple[AbortedTxn, bool]] = {}
        """By producer id: the transaction, and whether a batch of it was seen."""
        self._ongoing_committed: set[int] = set()
        self.on_abort_kept: Callable[[AbortedTxn], None] | None = None

    def on_data(self, header: BatchHeader) -> bool:
        """Return whether a data batch belongs to an aborted transaction, so that nobody will ever see it."""
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        entry = self._ongoing_aborted.get(header.producer_id)
        if entry is not None:
            txn, _ = entry
            self._ongoing_aborted[header.producer_id] = (txn, True)
            return True
        self._ongoing_committed.add(header.producer_id)
        return False

    def on_marker(self, header: BatchHeader, marker: EndTransactionMarker | None) -> bool:
        """Return whether a control batch has nothing left to say: no batch of its transaction is there any
        more.
        """
        self._begin_up_to(header.last_offset)
        if not header.record_count:
            return True
        if marker is None:
            return False
        producer_id = header.producer_id
        if marker.control_type is ControlType.COMMIT:
            seen = producer_id in self._ongoing_committed
            self._ongoing_committed.discard(producer_id)
            return not seen
        txn, seen = self._ongoing_aborted.pop(producer_id, (None, False))
        if txn is not None and seen and self.on_abort_kept is not None:
            self.on_abort_kept(txn)
        return not seen

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            txn = self._to_come.pop()
            self._ongoing_aborted.setdefault(txn.producer_id, (txn, False))
