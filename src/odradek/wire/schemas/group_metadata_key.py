"""__consumer_offsets: the key of a classic group."""

from __future__ import annotations

from odradek.wire.fields import string
from odradek.wire.message import Data, record_key


@record_key(record_type=2, versions="0")
class GroupMetadataKey(Data):
    """The group."""

    group: str = string()
