"""Errors of the pipeline, beside wrong options (`ValueError`) and the client's own errors.

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


def made_again(topic: str, old: str, new: str) -> str:
    """Says that a topic is not the one whose offsets a query has, and what to do."""
    return (
        f"Topic {topic} was deleted and made again: the query's offsets are those of topic id {old}, and the "
        f"topic has the id {new} now. What the query had yet to read of the old one is lost. With "
        "failOnDataLoss=false the query reads the new one from its beginning and goes on; it can be true "
        "again afterwards. A new checkpoint begins at startingOffsets."
    )


class UnknownTopicError(OdradekError):
    """A topic or partition that the query names does not exist."""


class UnreachableError(OdradekError):
    """No broker could be reached when a query began: the servers are wrong, or none of them runs."""


class ReadError(OdradekError):
    """A task could not read its offsets; the message says which and why."""


class FencedDriverError(OdradekError):
    """Another driver of the same query took over."""


class WriteError(OdradekError):
    """Rows could not be written; the cause is in the message."""
