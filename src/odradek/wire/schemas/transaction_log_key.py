"""__transaction_state: the key of a transactional id."""

from __future__ import annotations

from odradek.wire.fields import string
from odradek.wire.message import Data, record_key


@record_key(record_type=0, versions="0")
class TransactionLogKey(Data):
    """The transactional id."""

    transactional_id: str = string()
