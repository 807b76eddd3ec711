"""Fetch 0 to 3: records in the format that the consumer knows.

What was read is converted down where it is newer (KIP-283): what is small at once, the rest in a thread; of
what is large only the first batch before the response begins, and the rest while it is sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from odradek.broker.conversion.lazy_records import LazyRecords
from odradek.errors import KafkaError
from odradek.errors.codes import ErrorCode
from odradek.log.storage.files import FileRange
from odradek.records.batch import MAGIC_V2
from odradek.records.conversion.down_conversion import PIECE_BYTES, Budget, DownConversion, overflow_message
from odradek.records.message_sets.message_set import iter_entries
from odradek.util.futures import then
from odradek.util.promise import Promise, promised
from odradek.util.repeats import Repeats
from odradek.wire.messages.fetch import PartitionData

if TYPE_CHECKING:
    from odradek.broker.conversion.unpacking import Unpacking
    from odradek.broker.requests.peer import Peer
    from odradek.broker.services import BrokerServices
    from odradek.replication.partition import Partition

logger = logging.getLogger(__name__)
repeats = Repeats(logger)

T = TypeVar("T")

AT_ONCE_BYTES = 4 * 1024
"""So much of the log is converted on the spot, where nothing of it is compressed."""

MOST_UNPACKED_BYTES = 32 * 1024 * 1024
"""How much the batches of one response may unpack to, and one batch more: the rest is asked for next."""

LOOKED_AT_BYTES = 16 * 1024
"""Up to here messages that are old enough are found by looking; beyond they go through the conversion, which
leaves them as they are."""

_OVERFLOW_BYTES = 12


class ToConvert(NamedTuple):
    """A partition's answer whose records are to be converted: from `offset` on, to `magic`."""

    answer: PartitionData
    partition: Partition
    offset: int
    magic: int


def magic_for(version: int) -> int:
    """The newest format that the consumers of a version of Fetch read."""
    return 0 if version <= 1 else 1


def is_as_old(records: Any, magic: int) -> bool:
    """Return whether nothing needs to be converted, as far as a short look tells.

    Raises:
        KafkaError: as `iter_entries`.
    """
    return len(records) <= LOOKED_AT_BYTES and all(
        getattr(header, "magic", MAGIC_V2) <= magic for header, _ in iter_entries(records)
    )


def cut_off(records: Any, size: int, converting: bool) -> Any:
    """Return what Fetch 0 to 2 answer where the first batch is larger than the consumer takes.

    Its beginning, or when it would have to be converted a message that claims to be longer than the
    response: from either a consumer learns that it must ask for more.
    """
    if converting:
        return overflow_message(_OVERFLOW_BYTES)[: min(size, _OVERFLOW_BYTES)]
    return records.pread(size, 0) if records.__class__ is FileRange else records[:size]


def convert_answers(
    broker: BrokerServices, peer: Peer, work: list[ToConvert], done: Callable[[], T]
) -> T | Promise[T]:
    """Convert the records of some answers to a peer, in place or as they will be sent; then return the result
    of `done`.

    Returns:
        The result, or a promise of it.
    """
    budget = Budget(MOST_UNPACKED_BYTES)
    if sum(len(conversion.answer.records) for conversion in work) <= AT_ONCE_BYTES and not any(
        map(_is_packed, work)
    ):
        for conversion in work:
            _convert(broker, conversion, budget)
        return done()
    # Each time another partition comes first, so that none is left out for ever.
    first = broker.conversions.next_turn() % len(work)

    threads = _ChargedThreads(broker.unpacking, peer, budget)

    def convert_all() -> None:
        for conversion in work[first:] + work[:first]:
            if budget.left > 0:
                _convert(broker, conversion, budget, threads)
            else:
                conversion.answer.records = b""

    return promised(then(threads.run(convert_all), lambda _: done()))


class _ChargedThreads:
    """Threads for the conversion of one response, whose peer they are charged to.

    Args:
        unpacking: whose threads they are.
        peer: who has asked.
        budget: what the conversions take from.
    """

    def __init__(self, unpacking: Unpacking, peer: Peer, budget: Budget) -> None:
        self._unpacking = unpacking
        self._peer = peer
        self._budget = budget
        self._left = budget.left

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run `work` in a thread, when its time has come; see `Unpacking.run`."""
        return self._unpacking.run(work, self._cost, self._peer)

    def _cost(self, _: object) -> int:
        """Return what has been taken from the budget since this was asked last."""
        before, self._left = self._left, self._budget.left
        return before - self._left


def _is_packed(conversion: ToConvert) -> bool:
    """Return whether anything of it is compressed, or cannot be read, which is told later."""
    records = conversion.answer.records
    try:
        read = records.read() if records.__class__ is FileRange else records
        return any(header.codec_id for header, _ in iter_entries(read))
    except (KafkaError, OSError):
        return True


def _convert(
    broker: BrokerServices, to_convert: ToConvert, budget: Budget, threads: _ChargedThreads | None = None
) -> None:
    """Convert an answer's records; where there are `threads`, the rest of what is large while it is sent."""
    answer, partition, offset, magic = to_convert
    records = answer.records
    source = (records.pread, len(records)) if records.__class__ is FileRange else records
    metrics = broker.metrics.topics

    def count() -> None:
        metrics.of(partition.topic).fetch_message_conversions += conversion.records
        metrics.all.fetch_message_conversions += conversion.records

    try:
        conversion = DownConversion(source, magic, first_offset=offset, budget=budget)
        if threads is not None and conversion.size > PIECE_BYTES:
            answer.records = LazyRecords(conversion.pieces(), conversion.size, threads, count)
        else:
            answer.records = b"".join(conversion.pieces())
            count()
    except KafkaError as error:
        logger.debug("records not converted topic=%s partition=%d: %s", *partition.key, error.message)
        _fail(answer, error.code)
    except OSError as error:
        repeats.log(
            logging.ERROR,
            partition.key,
            "records not converted topic=%s partition=%d: %s",
            *partition.key,
            error,
        )
        _fail(answer, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def _fail(answer: PartitionData, code: ErrorCode) -> None:
    answer.error_code = int(code)
    answer.high_watermark = -1
    answer.records = b""
