"""The problems that records of a batch can have: the numbers that the kernel returns, and their errors.

The kernel and its twin know numbers only, so that both can be held equal; the words are here.
"""

from __future__ import annotations

from typing import Final, NoReturn

from odradek.errors import InvalidRecordError

OK: Final = 0
TRUNCATED: Final = 1
LENGTH: Final = 2
STRUCTURE: Final = 3
MISMATCH: Final = 4
HEADER_COUNT: Final = 5
OFFSET_DELTA: Final = 6
TRAILING: Final = 7

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


def raise_for_problem(problem: int, index: int, base_offset: int) -> NoReturn:
    """Raise the `KafkaError` INVALID_RECORD for a problem with record `index` of a batch."""
    raise InvalidRecordError(
        f"record {index} of the record batch at offset {base_offset} is invalid: {_WORDS[problem]}"
    )
