"""The page of transactions: those that there are, and those that hang, which can be aborted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from starlette.responses import Response

from odradek.client.core.transactions.hanging import MINUTE_MS, MINUTES, OpenTransaction, abort_spec, open_at
from odradek.client.types import TopicPartition, TransactionDescription
from odradek.console.asking import ask_those_there
from odradek.console.forms import Form, FormError
from odradek.console.hanging_search import find_hanging
from odradek.console.views.paging import page_of
from odradek.console.visit import Visit
from odradek.errors import KafkaError


@dataclass(frozen=True)
class TransactionRow:
    """A line of the table of transactional ids.

    Attributes:
        age_ms: how long its transaction has been open; None where none is, or it is not known.
    """

    transactional_id: str
    coordinator: int
    producer_id: int
    state: str
    age_ms: int | None
    partitions: tuple[TopicPartition, ...]


async def transactions_page(visit: Visit) -> Response:
    """Show transactional ids, and on demand the transactions that hang."""
    listed = await visit.admin.list_transactions()
    now_ms = visit.clock.now_ms()
    text = visit.query("filter").lower()
    chosen = sorted(
        (item.transactional_id, broker, item.producer_id, item.state)
        for broker, part in listed.items()
        for item in part
        if text in item.transactional_id.lower() and visit.query("state") in ("", item.state)
    )
    table = page_of(chosen, visit.page_number)
    described = await _described(visit, [name for name, _, _, _ in table.rows])
    query = Form(visit.request.query_params)
    minutes = query.optional_number("minutes", "Minutes", least=0) if query.text("minutes") else MINUTES
    hung: list[OpenTransaction] = []
    problem = ""
    looks = visit.query("hanging") == "1"
    if looks:
        topics = await visit.admin.describe_topics()
        partitions = sorted(
            TopicPartition(p.topic, p.partition)
            for topic in topics.values()
            for p in topic.partitions
            if p.leader >= 0
        )
        hung, problem = await find_hanging(visit.admin, partitions, now_ms, (minutes or 0) * MINUTE_MS)
    context = {
        "table": table,
        "rows": [_row(now_ms, *row, described.get(row[0])) for row in table.rows],
        "states": sorted({item.state for part in listed.values() for item in part}),
        "looks": looks,
        "minutes": minutes,
        "hung": [(item.partition, item.producer, now_ms - item.producer.last_timestamp) for item in hung],
        "problem": problem,
    }
    return visit.page("transactions.html", context)


async def confirm_abort_page(visit: Visit) -> Response:
    """Ask whether a transaction that hangs is to be aborted."""
    query = Form(visit.request.query_params)
    tp, start = _place(query)
    question = f"Abort the transaction that begins at offset {start} of {tp}? Its records are not delivered."
    context = {
        "question": question,
        "line": visit.command_lines.abort(tp, start),
        "fields": {"topic": tp.topic, "partition": str(tp.partition), "start": str(start)},
        "action": "/transactions/abort",
        "back": "/transactions?hanging=1",
    }
    return visit.page("confirm.html", context)


async def abort(visit: Visit) -> Response:
    """Abort the transaction that is still open at the place that was confirmed."""
    tp, start = _place(visit.form)
    producers = (await visit.admin.describe_producers([tp]))[tp]
    producer = open_at(producers, start)
    if producer is None:
        raise FormError(f"No transaction is open any more at offset {start} of {tp}.", 409)
    spec = abort_spec(tp, producer.producer_id, producer.producer_epoch, producer.coordinator_epoch)
    await visit.admin.abort_transaction(spec)
    return visit.done(
        f"The transaction at offset {start} of {tp} has been aborted.", "/transactions?hanging=1"
    )


def _place(form: Form) -> tuple[TopicPartition, int]:
    partition = form.number("partition", "Partition", least=0)
    return TopicPartition(form.get("topic", ""), partition), form.number(
        "start", "Start offset", least=0, most=2**63 - 1
    )


async def _described(visit: Visit, names: Iterable[str]) -> Mapping[str, TransactionDescription]:
    """The ids that can be described: others have gone since, or may not be."""
    try:
        return await ask_those_there(visit.admin.describe_transactions, names)
    except KafkaError:
        return {}


def _row(
    now_ms: int,
    transactional_id: str,
    broker: int,
    producer_id: int,
    state: str,
    told: TransactionDescription | None,
) -> TransactionRow:
    """The row of an id; one that cannot be described has its line all the same."""
    if told is None:
        return TransactionRow(transactional_id, broker, producer_id, state, None, ())
    age_ms = None if told.start_time_ms is None else max(0, now_ms - told.start_time_ms)
    return TransactionRow(transactional_id, broker, producer_id, told.state, age_ms, told.partitions)
