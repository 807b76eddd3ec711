"""One module per API, named after it: its request, its response, and the structs inside them.

Modules are imported when somebody asks for them: by name, or by key, with `request_class` and
`response_class`. Struct names are those of Kafka's definitions; where a request and a response of one API
have different structs of one name, the response's begins with "Response".
"""

from __future__ import annotations

from importlib import import_module

from odradek.wire.api import ApiKey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from odradek.wire.message import Message


def request_class(key: int) -> type[Message]:
    """The class of an API's requests; its module is imported when first asked for.

    Raises:
        ValueError: no such key.
    """
    return _messages(key)[0]


def response_class(key: int) -> type[Message]:
    """The class of an API's responses.

    Raises:
        ValueError: no such key.
    """
    return _messages(key)[1]


_loaded: dict[int, tuple[type[Message], type[Message]]] = {}


def _messages(key: int) -> tuple[type[Message], type[Message]]:
    pair = _loaded.get(key)
    if pair is None:
        api = ApiKey(key)
        module = import_module(f"odradek.wire.messages.{api.module}")
        pair = getattr(module, api.api_name + "Request"), getattr(module, api.api_name + "Response")
        _loaded[key] = pair
    return pair
