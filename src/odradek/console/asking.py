"""Questions to a cluster of which a page is shown also where a part of the answer does not come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from odradek.client.core.fetch_requests import EARLIEST, LATEST
from odradek.client.types import LogDirDescription, OffsetAndTimestamp, TopicPartition
from odradek.errors import KafkaError

if TYPE_CHECKING:
    from odradek.client.aio.admin import AsyncAdmin

T = TypeVar("T")

WITHIN_S = 3.0


async def ask_those_there(
    ask: Callable[[list[str]], Awaitable[Mapping[str, T]]],
    names: Iterable[str],
    is_absence: Callable[[KafkaError], bool] = lambda _: True,
) -> Mapping[str, T]:
    """Ask about all names at once, and again without those that are absent: such a one fails the whole call.

    Args:
        ask: a call of an admin client; the `errors` of what it raises tell what each name's is.
        names: what is asked about.
        is_absence: whether a name with this error is left out of the answer; without, any is.

    Raises:
        KafkaError: as `ask`, where no name is to blame, or where its error is no absence.
    """
    left = list(names)
    while left:
        try:
            return await ask(left)
        except KafkaError as error:
            problems: Mapping[str, KafkaError] = getattr(error, "errors", {})
            there = [name for name in left if name not in problems or not is_absence(problems[name])]
            if len(there) == len(left):
                raise
            left = there
    return {}


@dataclass(frozen=True)
class LogDirsAnswer:
    """The log dirs of brokers, as far as these have told.

    Attributes:
        folders: broker → path → folder.
        problems: broker → why it has told nothing.
    """

    folders: Mapping[int, Mapping[str, LogDirDescription]]
    problems: Mapping[int, str]


async def ask_log_dirs(admin: AsyncAdmin, brokers: Iterable[int]) -> LogDirsAnswer:
    """Ask each broker for its log dirs; one that does not answer soon is a problem, and no more."""
    folders: dict[int, Mapping[str, LogDirDescription]] = {}
    problems: dict[int, str] = {}

    async def ask(broker: int) -> None:
        try:
            async with asyncio.timeout(WITHIN_S):
                folders.update(await admin.describe_log_dirs([broker]))
        except TimeoutError:
            problems[broker] = f"it has not answered within {WITHIN_S:g} s"
        except KafkaError as error:
            problems[broker] = str(error)

    await asyncio.gather(*map(ask, brokers))
    return LogDirsAnswer(folders, problems)


@dataclass(frozen=True)
class OffsetsAnswer:
    """The first and the next offset of partitions.

    Attributes:
        bounds: partition → first offset, offset of the next record.
        problem: why those of some partitions are not known; '' where all are.
    """

    bounds: Mapping[TopicPartition, tuple[int, int]]
    problem: str = ""


async def ask_offsets(admin: AsyncAdmin, partitions: Iterable[TopicPartition]) -> OffsetsAnswer:
    """Ask the leaders of partitions for their offsets, those of all in one question to each leader."""
    asked = list(partitions)
    if not asked:
        return OffsetsAnswer({})
    try:
        async with asyncio.timeout(WITHIN_S):
            first, end = await asyncio.gather(
                admin.list_offsets(dict.fromkeys(asked, EARLIEST)),
                admin.list_offsets(dict.fromkeys(asked, LATEST)),
            )
    except TimeoutError:
        return OffsetsAnswer({}, f"leaders have not answered within {WITHIN_S:g} s")
    except KafkaError as error:
        return OffsetsAnswer({}, str(error))
    return OffsetsAnswer({tp: (_offset(first, tp), _offset(end, tp)) for tp in asked})


def _offset(answers: Mapping[TopicPartition, OffsetAndTimestamp], tp: TopicPartition) -> int:
    return answers[tp].offset
