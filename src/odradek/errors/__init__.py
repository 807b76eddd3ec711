"""Errors: the codes of the protocol, and the exceptions.

`OdradekError` is the root; below it `ProtocolError` (the peer sent nonsense) and `KafkaError` with one
subclass per code (`odradek.errors.exceptions`, imported when one of its names is first asked for here).
This package imports nothing of the others.
"""

from __future__ import annotations

from odradek.errors.base import BY_CODE, KafkaError, OdradekError, ProtocolError
from odradek.errors.codes import ErrorCode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from odradek.errors.exceptions import *  # noqa: F403

__all__ = ["ErrorCode", "KafkaError", "OdradekError", "ProtocolError", "error_for"]

if not TYPE_CHECKING:  # or type checkers would take any name for an error

    def __getattr__(name: str) -> type[KafkaError]:
        if name.startswith("__") or not name.endswith("Error"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from odradek.errors import exceptions

        error_class: type[KafkaError] = getattr(exceptions, name)
        globals()[name] = error_class
        return error_class


def error_for(code: int, message: str | None = None) -> KafkaError:
    """Make the exception of an error code.

    Args:
        code: A code from a response. One that this release does not know becomes an `UnknownServerError`
            that names the number.
        message: The sentence that came with the code, if any.

    Raises:
        ValueError: `code` is 0, which is no error.
    """
    if code == 0:
        raise ValueError("error code 0 (NONE) is not an error")
    if not BY_CODE:
        from odradek.errors import exceptions  # noqa: F401 - fills the table

    error_class = BY_CODE.get(code)
    if error_class is None:
        return BY_CODE[-1](message or f"error code {code}, which this release does not know")
    return error_class(message)
