"""Errors: the codes of the protocol, and the exceptions.

`OdradekError` is the root; below it `ProtocolError` (the peer sent nonsense) and `KafkaError` with one
subclass per code (`odradek.errors.exceptions`, imported when one of its names is first asked for here).
This package imports nothing of the others.
"""

from __future__ import annotations

from odradek.errors.base import KafkaError, OdradekError, ProtocolError
from odradek.errors.codes import ErrorCode
from odradek.errors.from_code import error_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from odradek.errors.exceptions import *  # noqa: F403

__all__ = ["ErrorCode", "KafkaError", "OdradekError", "ProtocolError", "error_for"]

if not TYPE_CHECKING:  # or type checkers would take any name for an error

    def __getattr__(name: str) -> type[KafkaError]:
        if name.startswith("__") or not name.endswith("Error"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from odradek.errors import exceptions

        found: type[KafkaError] = getattr(exceptions, name)
        globals()[name] = found
        return found
