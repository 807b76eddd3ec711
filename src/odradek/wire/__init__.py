"""Kafka's wire protocol, sans-I/O: bytes in, messages out, and back.

* `odradek.wire.api`: the API keys, and the way from a key to its message classes;
* `odradek.wire.messages`: one module per API, each a declaration (`odradek.wire.fields` is its language);
* `odradek.wire.schemas`: what is kept in topics and carried inside other messages;
* `odradek.wire.headers`, `odradek.wire.framing`: what stands in front of messages on a connection;
* `odradek.wire.message`, `decoder`, `encoder`: how a declaration becomes functions, one per version;
* `odradek.wire.jsonform`, `odradek.wire.check`: Kafka's JSON form, and the comparison with golden data.

No sockets, no clock, no asyncio. `docs/wire.md` is the long form of this page.
"""

from odradek.errors.base import ProtocolError
from odradek.wire.api import ApiKey, request_class, response_class
from odradek.wire.message import Message, Struct

__all__ = ["ApiKey", "Message", "ProtocolError", "Struct", "request_class", "response_class"]
