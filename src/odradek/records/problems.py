"""The problems that records of a batch can have: the numbers that the kernel returns, and their errors.

The kernel and its twin know numbers only, so that both can be held equal; the words are here.
"""

from __future__ import annotations

from typing import Final, NoReturn

from odradek.errors import InvalidRecordError, OdradekError

OK: Final = 0
TRUNCATED: Final = 1
LENGTH: Final = 2
STRUCTURE: Final = 3
MISMATCH: Final = 4
HEADER_COUNT: Final = 5
OFFSET_DELTA: Final = 6
TRAILING: Final = 7
TIMESTAMP_TOO_FAR: Final = 8
"""Of a column builder: in the unit that is asked for, the time needs more than 64 bits."""

LIMIT_REACHED: Final = -1
"""Not a problem: a column builder stopped because it is full; go on where it stopped."""

_WORDS = {
    TRUNCATED: "the records end before it",
    LENGTH: "its length is negative or runs past the end of the records",
    STRUCTURE: "its structure is invalid: a field does not end within the record",
    MISMATCH: "its fields do not fill its length",
    HEADER_COUNT: "its number of headers is negative or larger than the record",
    OFFSET_DELTA: "its offset delta is not the one that follows",
    TRAILING: "bytes remain after it, the last one by the batch's count",
}

# Why a well-formed record is refused by a topic.
MISSING_KEY: Final = 1
TIMESTAMP_RANGE: Final = 2


class TimestampRangeError(OdradekError):
    """A record's timestamp does not fit a column of microseconds.

    Kafka's timestamps are milliseconds, and brokers take any number for one: this one was most likely written
    in nanoseconds.

    Attributes:
        offset: the record's.
        timestamp: as it is in the record.
    """

    def __init__(self, offset: int, timestamp: int, where: str = "") -> None:
        super().__init__(
            f"{where}the timestamp {timestamp} of the record at offset {offset} is more milliseconds than a "
            "time in microseconds can hold; its producer probably wrote another unit than Kafka's, the "
            "millisecond"
        )
        self.offset = offset
        self.timestamp = timestamp

    def __reduce__(self) -> tuple[type[TimestampRangeError], tuple[int, int]]:
        return TimestampRangeError, (self.offset, self.timestamp)


def raise_for_problem(problem: int, index: int, base_offset: int) -> NoReturn:
    """Raise the error for a problem with record `index` of a batch.

    Raises:
        InvalidRecordError: always.
    """
    raise InvalidRecordError(
        f"record {index} of the record batch at offset {base_offset} is invalid: {_WORDS[problem]}"
    )
