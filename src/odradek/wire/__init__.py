"""Kafka's wire protocol, sans-I/O: bytes in, messages out, and back.

* `odradek.wire.api`: the API keys;
* `odradek.wire.messages`: one module per API, each a declaration (`odradek.wire.fields` is its language), and
  the way from a key to its message classes;
* `odradek.wire.schemas`: what is kept in topics and carried inside other messages;
* `odradek.wire.headers`, `odradek.wire.framing`: what stands in front of messages on a connection;
* `odradek.wire.fetch_session_handler`: what a Fetch need not say again, as consumers and followers share it;
* `odradek.wire.structs`, `decoder`, `encoder`, `codec`: how a struct becomes functions, one per version;
* `odradek.wire.message`: what is declared; it knows all of the above, and none of them knows it;
* `odradek.wire.jsonform`, `odradek.wire.check`: Kafka's JSON form, and the comparison with golden data.

No sockets, no clock, no asyncio. `docs/wire.md` is the long form of this page.
"""

from odradek.errors.base import ProtocolError
from odradek.wire.api import ApiKey
from odradek.wire.message import Message
from odradek.wire.messages import request_class, response_class
from odradek.wire.structs import Struct

__all__ = ["ApiKey", "Message", "ProtocolError", "Struct", "request_class", "response_class"]
