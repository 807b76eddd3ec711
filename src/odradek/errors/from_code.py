"""The way from an error code to its exception."""

from __future__ import annotations

from odradek.errors.base import BY_CODE, KafkaError


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
        import odradek.errors.exceptions  # noqa: F401 - fills the table

    error_class = BY_CODE.get(code)
    if error_class is None:
        return BY_CODE[-1](message or f"error code {code}, which this release does not know")
    return error_class(message)
