"""The roots of the exceptions."""

from __future__ import annotations

from typing import ClassVar

from odradek.errors.codes import ErrorCode

BY_CODE: dict[int, type[KafkaError]] = {}
"""The class of each code, once `odradek.errors.exceptions` has been imported; for `error_for`."""


class OdradekError(Exception):
    """Root of everything that odradek raises on purpose.

    Attributes:
        fatal: the transactional producer that raised it is of no use any more.
        requires_abort: its transaction must be aborted; then it can go on.
    """

    fatal: bool = False
    requires_abort: bool = False


class ProtocolError(OdradekError):
    """Bytes that are not what the protocol says: the peer's fault, and the end of its connection."""


class KafkaError(OdradekError):
    """A Kafka error code as an exception.

    Args:
        message: What happened here, for people; without it, the code's general sentence.
    """

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init_subclass__(cls, *, code: ErrorCode | None = None, **kwargs: object) -> None:
        """Give the subclass its code and make `error_for` find it."""
        super().__init_subclass__(**kwargs)
        if code is not None:
            cls.code = code
            BY_CODE[code] = cls

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message if message is not None else self.code.message)

    @property
    def message(self) -> str:
        """The event, for people."""
        return str(self.args[0])

    @property
    def retriable(self) -> bool:
        """Return whether the same request may succeed later."""
        return self.code.retriable

    @property
    def refreshes_metadata(self) -> bool:
        """Return whether the client should ask for the cluster's metadata before it tries again."""
        return self.code.refreshes_metadata
