"""__consumer_offsets: a member of a share group."""

from __future__ import annotations

from odradek.wire.fields import array, string
from odradek.wire.message import Data, record_value


@record_value(versions="0", flexible="0+")
class ShareGroupMemberMetadataValue(Data):
    """What the member said of itself."""

    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
