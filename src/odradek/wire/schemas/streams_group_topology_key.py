"""__consumer_offsets: the key of the topology of a streams group."""

from __future__ import annotations

from odradek.wire.fields import string
from odradek.wire.message import Data, record_key


@record_key(record_type=23, versions="0")
class StreamsGroupTopologyKey(Data):
    """The group."""

    group_id: str = string()
