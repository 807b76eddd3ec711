"""What a client's work came to, told from facts: what it told its caller, what is in the log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

ALL = list(range(10))


@dataclass(frozen=True)
class Facts:
    """What is known when a piece of work is over.

    Attributes:
        is_ended: the program has answered; else it was ended by force.
        is_met: each fault was met by a request.
        failed: the error that ended the work, in the library's own name; nothing where there was none.
        told: errors that the caller saw and after which it went on.
        acknowledged: the numbers that the client took for written, or for read and committed.
        there: the numbers that are in the log, or were read, in order.
        wanted: the numbers that there should be.
    """

    is_ended: bool = True
    is_met: bool = True
    failed: str = ""
    told: Sequence[str] = ()
    acknowledged: Sequence[int] = ()
    there: Sequence[int] = ()
    wanted: Sequence[int] = field(default_factory=lambda: list(ALL))


_TIMEOUT = re.compile("time_?d?_?out|deadline", re.IGNORECASE)


def outcome(facts: Facts) -> str:
    """The words for it.

    `not met`, `lost N`, `hung`, `timed out: NAME`, `failed: NAME`, `recovered`; behind a comma what is to be
    known besides: `yet done` (the caller was told of a failure, and all is there), `N duplicates`,
    `out of order`, `told NAME` (the caller had to deal with an error on the way).
    """
    distinct = set(facts.there)
    lost = len(set(facts.acknowledged) - distinct)
    missing = set(facts.wanted) - distinct
    words = []
    if not facts.is_met:
        words.append("not met")
    elif lost:
        words.append(f"lost {lost}")
    elif not facts.is_ended:
        words.append("hung")
    elif facts.failed:
        words.append(f"{'timed out' if _TIMEOUT.search(facts.failed) else 'failed'}: {facts.failed}")
        if distinct - set(facts.acknowledged):
            words.append("yet done")
    elif missing:
        words.append("hung")
    else:
        words.append("recovered")
    duplicates = len(facts.there) - len(distinct)
    if duplicates:
        words.append(f"{duplicates} duplicate{'s' if duplicates > 1 else ''}")
    if list(dict.fromkeys(facts.there)) != sorted(distinct):
        words.append("out of order")
    if facts.told:
        words.append("told " + " and ".join(facts.told))
    return ", ".join(words)
