"""The page of transactions: ids with their states, and those that hang, which are aborted."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

import pytest

from cli.hanging import LOST_ID, hang, unverified
from odradek import Admin, Producer
from odradek.client.aio.admin import AsyncAdmin
from odradek.client.aio.admin_base import naming
from odradek.client.errors import ClientTimeoutError
from odradek.client.types import TransactionDescription
from odradek.testing import Broker
from waiting import WITHIN_S

from .conftest import Visitor
from .test_topics import row


def test_transactional_ids(broker: Broker, visitor: Visitor) -> None:
    broker.create_topic("in-transactions")
    with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="<b>shop") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("in-transactions", b"x").result(WITHIN_S)
        page = visitor.get("/transactions?filter=SHOP")
        cells = row(page, "<b>shop")
        assert (cells[1], cells[3], cells[5]) == ("0", "Ongoing", "in-transactions-0")
        assert cells[4].endswith(" s")
        assert "<b>shop" not in page
        # Its coordinator is going to end it: it does not hang.
        page = visitor.get("/transactions?hanging=1&minutes=0")
        assert '<td class="number">0</td><td class="number">0</td>' not in page
        producer.abort_transaction()
    assert "No transactional id is so" in visitor.get("/transactions?filter=shop&state=Ongoing")


def test_a_transaction_that_hangs_is_found_and_aborted(broker: Broker, visitor: Visitor) -> None:
    broker.create_topic("hung")
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        with unverified(admin):
            hang(broker.bootstrap_servers, "hung", 1_700_000_000_000)
        page = visitor.get("/transactions?hanging=1")
        assert row(page, "hung")[1:5] == ["0", "0", str(LOST_ID), "0"]
        link = re.search(r'href="(/transactions/confirm[^"]+)"', page)
        assert link is not None
        confirm = html.unescape(link[1])
        fields = {"topic": "hung", "partition": "0", "start": "0"}
        assert "abort --topic hung --partition 0 --start-offset 0" in visitor.get(confirm)
        page = visitor.post(confirm, "/transactions/abort", **fields)
        assert "has been aborted" in page
        assert "None hangs" in page
        again = visitor.post("/transactions", "/transactions/abort", 409, **fields)
        assert "is open any more" in again


def test_ids_are_described_together(
    broker: Broker, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id that cannot be described costs one more call, and has its line."""
    servers = broker.bootstrap_servers
    for n in range(3):
        with Producer(bootstrap_servers=servers, transactional_id=f"together-{n}") as producer:
            producer.init_transactions()
    asked = []
    describe = AsyncAdmin.describe_transactions

    async def refusing_one(
        admin: AsyncAdmin, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription]:
        asked.append(names := list(transactional_ids))
        if "together-1" in names:
            raise naming(ClientTimeoutError("no coordinator"), {"together-1": ClientTimeoutError("gone")})
        return await describe(admin, names)

    monkeypatch.setattr(AsyncAdmin, "describe_transactions", refusing_one)
    page = visitor.get("/transactions?filter=together")
    assert asked == [["together-0", "together-1", "together-2"], ["together-0", "together-2"]]
    assert [row(page, f"together-{n}")[3] for n in range(3)] == ["Empty"] * 3
