"""What goes wrong in the pipeline beside wrong options (`ValueError`) and the client's own errors.

Spark passes an exception of a Python source on as text, class name included; so the names tell what happened.
"""

from odradek.errors import OdradekError

_HOW_TO_GO_ON = (
    "Some data may have been lost because they are not available in Kafka any more; either the data was aged "
    "out by Kafka or the topic may have been deleted before all the data in the topic was processed. If you "
    "don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false. "
    "Reason: "
)


class DataLossError(OdradekError):
    """Offsets that a query has yet to read are gone, and `failOnDataLoss` is true."""

    def __init__(self, reason: str) -> None:
        super().__init__(_HOW_TO_GO_ON + reason)
        self.reason = reason

    def __reduce__(self) -> tuple[type["DataLossError"], tuple[str]]:
        return DataLossError, (self.reason,)


class UnknownTopicError(OdradekError):
    """A topic or partition that the query names does not exist."""


class ReadError(OdradekError):
    """A task could not read its offsets; the message says which and why."""


class FencedDriverError(OdradekError):
    """Another driver of the same query took over."""


class WriteError(OdradekError):
    """Rows could not be written; the cause is in the message."""
