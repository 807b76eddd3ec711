"""The problems that messages of a set can have: the numbers that the loops return, and their errors."""

from __future__ import annotations

from typing import Final, NoReturn

from odradek.errors import CorruptRecordError, InvalidRecordError, RecordTooLargeError

OK: Final = 0
CUT_OFF: Final = 1
TOO_SHORT: Final = 2
TOO_LARGE: Final = 3
MAGIC: Final = 4
CRC: Final = 5
FIELDS: Final = 6
COMPRESSED: Final = 7

_ERRORS = {
    CUT_OFF: (CorruptRecordError, "it is cut off"),
    TOO_SHORT: (CorruptRecordError, "its length is too short for any"),
    TOO_LARGE: (RecordTooLargeError, "it is larger than the topic takes"),
    MAGIC: (InvalidRecordError, "its magic is not that of the first, or of the message around it"),
    CRC: (CorruptRecordError, "its CRC is not that of its bytes"),
    FIELDS: (InvalidRecordError, "its key and value do not fill its length"),
    COMPRESSED: (InvalidRecordError, "it is compressed, which only the one message of a set may be"),
}

# Why a well-formed message is refused by a topic; the first two as in `problems`.
MISSING_KEY: Final = 1
TIMESTAMP_RANGE: Final = 2
APPEND_TIME: Final = 3


def raise_for_message(problem: int, index: int) -> NoReturn:
    """Raise the error for a problem with message `index` of a set.

    Raises:
        KafkaError: always.
    """
    error, words = _ERRORS[problem]
    raise error(f"message {index} of the message set is invalid: {words}")
