"""The offsets of groups, asked of a cluster; what a part of it does not tell is not known, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from odradek.client.core.fetch_requests import LATEST
from odradek.client.types import TopicPartition
from odradek.console.asking import ask_those_there
from odradek.console.views.groups import GroupOffsets
from odradek.errors import KafkaError

if TYPE_CHECKING:
    from odradek.client.aio.admin import AsyncAdmin
    from odradek.client.types import GroupDescription

WITHIN_S = 5.0
AT_ONCE = 16


async def ask_group_offsets(
    admin: AsyncAdmin, groups: Iterable[str], described: Mapping[str, GroupDescription] | None = None
) -> dict[str, GroupOffsets]:
    """Ask for the committed offsets of groups, and for the ends of their partitions.

    Args:
        admin: of whoever wants to know.
        groups: their ids.
        described: groups whose members' partitions are asked for, too.
    """
    turns = asyncio.Semaphore(AT_ONCE)
    committed: dict[str, dict[TopicPartition, int]] = {}
    problems: dict[str, str] = {}

    async def ask(group: str) -> None:
        try:
            async with turns, asyncio.timeout(WITHIN_S):
                offsets = await admin.list_group_offsets(group)
                committed[group] = {tp: o.offset for tp, o in offsets.items() if o.offset >= 0}
        except TimeoutError:
            problems[group] = f"its coordinator has not answered within {WITHIN_S:g} s"
        except KafkaError as error:
            problems[group] = str(error)

    names = list(dict.fromkeys(groups))
    await asyncio.gather(*map(ask, names))
    wanted = {name: committed.get(name, {}).keys() | _assigned((described or {}).get(name)) for name in names}
    ends, gone, problem = await ask_ends(admin, set().union(*wanted.values()))
    for name, partitions in wanted.items():
        # What is not known of another group's partitions is no problem of this one.
        if not partitions <= ends.keys() | gone:
            problems.setdefault(name, problem)
    return {name: GroupOffsets(committed.get(name, {}), ends, gone, problems.get(name, "")) for name in names}


def _assigned(group: GroupDescription | None) -> set[TopicPartition]:
    return set() if group is None else {tp for member in group.members for tp in member.assignment}


async def ask_ends(
    admin: AsyncAdmin, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, int], frozenset[TopicPartition], str]:
    """Ask leaders for the ends of partitions.

    Returns: partition → offset of the next record, as far as it is known; the partitions that do not
        exist; and why others are not known, '' where all are.
    """
    if not partitions:
        return {}, frozenset(), ""
    try:
        async with asyncio.timeout(WITHIN_S):
            topics = await ask_those_there(
                admin.describe_topics,
                {tp.topic for tp in partitions},
                lambda error: error.code.name == "UNKNOWN_TOPIC_OR_PARTITION",
            )
            there = {
                TopicPartition(p.topic, p.partition): p.leader
                for topic in topics.values()
                for p in topic.partitions
            }
            gone = frozenset(tp for tp in partitions if tp not in there)
            led = [tp for tp in partitions if there.get(tp, -1) >= 0]
            answers = await admin.list_offsets(dict.fromkeys(led, LATEST)) if led else {}
    except TimeoutError:
        return {}, frozenset(), f"leaders have not answered within {WITHIN_S:g} s"
    except KafkaError as error:
        return {}, frozenset(), str(error)
    problem = "" if len(led) + len(gone) == len(partitions) else "partitions have no leader now"
    return {tp: answer.offset for tp, answer in answers.items()}, gone, problem
