"""What scripted brokers answer to the driver of an exactly-once write."""

from __future__ import annotations

from typing import Any

import pytest

from client.scripted import ScriptedBroker
from odradek.errors import ErrorCode
from odradek.spark.writing.coordinators import Coordinators
from odradek.spark.writing.decisions import Transaction
from odradek.wire.api import ApiKey
from odradek.wire.messages.describe_transactions import DescribeTransactionsResponse
from odradek.wire.messages.describe_transactions import TransactionState as DescribedTransaction
from odradek.wire.messages.list_transactions import ListTransactionsResponse
from odradek.wire.messages.list_transactions import TransactionState as ListedTransaction
from odradek.wire.messages.metadata import MetadataResponse, MetadataResponseBroker


def test_open_transactions_of_one_broker_are_found_while_another_loads_its(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What was not listed may be open all the same, which is told."""
    brokers: list[ScriptedBroker] = []

    def metadata(request: Any, version: int) -> MetadataResponse:
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node, host="127.0.0.1", port=broker.port)
                for node, broker in enumerate(brokers)
            ]
        )

    def loading(request: Any, version: int) -> ListTransactionsResponse:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def listed(request: Any, version: int) -> ListTransactionsResponse:
        state = ListedTransaction(transactional_id="q:w:0", producer_id=7, transaction_state="Ongoing")
        return ListTransactionsResponse(transaction_states=[state])

    def described(request: Any, version: int) -> DescribeTransactionsResponse:
        state = DescribedTransaction(
            transactional_id="q:w:0", transaction_state="Ongoing", producer_id=7, producer_epoch=1
        )
        return DescribeTransactionsResponse(transaction_states=[state])

    for answer in (loading, listed):
        answers: dict[int, Any] = {
            ApiKey.METADATA: metadata,
            ApiKey.LIST_TRANSACTIONS: answer,
            ApiKey.DESCRIBE_TRANSACTIONS: described,
        }
        versions = dict.fromkeys(answers, (0, 0))
        versions[ApiKey.METADATA] = (1, 1)
        brokers.append(ScriptedBroker(answers, versions))
    with brokers[0], brokers[1]:
        coordinators = Coordinators({"bootstrap.servers": brokers[0].at})
        try:
            assert coordinators.open_transactions("q") == [Transaction("q:w:0", 7, 1)]
        finally:
            coordinators.close()
    assert "open transactions of q were not all found" in caplog.text
