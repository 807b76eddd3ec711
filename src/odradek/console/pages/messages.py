"""The page of a topic's messages."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from starlette.responses import Response

from odradek.client.core.fetch_requests import EARLIEST, LATEST
from odradek.client.types import TopicPartition
from odradek.console.forms import Form, FormError, refusing
from odradek.console.scanning import MOST_RECORDS, Range, scan
from odradek.console.views.messages import STARTS, MessageFilter, parse_time
from odradek.console.visit import Visit

SHOWN = 50


@dataclass(frozen=True)
class Question:
    """A visitor's wish.

    Attributes:
        start: one of `STARTS`.
        at: the offset, or the time in milliseconds, of such a start.
        partition: None for all.
    """

    start: str
    at: int
    partition: int | None
    wanted: MessageFilter
    isolation_level: str


def question_of(query: Form) -> Question:
    """Return what the fields of a query ask for.

    Raises:
        FormError: a field cannot be understood.
    """
    start = query.text("start") if query.text("start") in STARTS else "latest"
    at = 0
    if start == "offset":
        at = query.number("offset", "Offset", least=0, most=2**63 - 1)
    elif start == "time":
        with refusing():
            at = parse_time(query.text("time"))
    wanted = MessageFilter(query.text("key"), query.text("value"), query.text("header"))
    partition = query.optional_number("partition", "Partition", least=0)
    committed = query.text("isolation") == "read_committed"
    return Question(start, at, partition, wanted, "read_committed" if committed else "read_uncommitted")


async def messages_page(visit: Visit) -> Response:
    """Show records of a topic: the latest, or from somewhere on."""
    name = visit.request.path_params["name"]
    query = Form(visit.request.query_params)
    context = {"name": name, "query": query, "rows": [], "read": 0, "bound": "", "problem": "", "line": ""}
    try:
        question = question_of(query)
        partitions = await partitions_of(visit, name, question)
    except FormError as error:
        return visit.page("messages.html", {**context, "problem": str(error)}, error.status)
    ranges = await _ranges(visit, partitions, question)
    is_latest = question.start == "latest"
    scanned = await scan(
        visit.session.client_configs,
        ranges,
        question.wanted,
        enough=None if is_latest else SHOWN,
        isolation_level=question.isolation_level,
    )
    records = scanned.records
    if is_latest:
        records = sorted(records, key=lambda r: (r.timestamp, r.offset), reverse=True)[:SHOWN]
    context |= {
        "rows": await visit.decoder.rows(records),
        "read": scanned.read,
        "bound": scanned.bound,
        "line": visit.command_lines.records(
            name,
            question.partition,
            question.at if question.start == "offset" else None,
            question.isolation_level,
            SHOWN,
        )
        if not question.wanted.is_set and question.start in ("earliest", "offset")
        else "",
    }
    return visit.page("messages.html", context)


async def partitions_of(visit: Visit, name: str, question: Question) -> list[TopicPartition]:
    """Return the partitions of a topic that a question means.

    Raises:
        FormError: there is none.
        KafkaError: there is no such topic, and the like.
    """
    topic = (await visit.admin.describe_topics([name]))[name]
    partitions = [
        TopicPartition(name, p.partition)
        for p in topic.partitions
        if question.partition in (None, p.partition)
    ]
    if not partitions:
        raise FormError(f"Partition: {name} has no partition {question.partition}.", 404)
    return partitions


async def _ranges(
    visit: Visit, partitions: Collection[TopicPartition], question: Question
) -> dict[TopicPartition, Range]:
    """The offsets to read of each partition."""
    level = question.isolation_level
    first = await visit.admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    end = await visit.admin.list_offsets(dict.fromkeys(partitions, LATEST), isolation_level=level)
    starts = {tp: first[tp].offset for tp in partitions}
    if question.start == "offset":
        starts = dict.fromkeys(partitions, question.at)
    elif question.start == "time":
        by_time = await visit.admin.list_offsets(dict.fromkeys(partitions, question.at))
        # An offset of -1: no record is as late.
        starts = {tp: end[tp].offset if by_time[tp].offset < 0 else by_time[tp].offset for tp in partitions}
    elif question.start == "latest":
        window = max(1, MOST_RECORDS // len(partitions)) if question.wanted.is_set else SHOWN
        starts = {tp: end[tp].offset - window for tp in partitions}
    return {tp: Range(max(first[tp].offset, starts[tp]), end[tp].offset) for tp in partitions}
