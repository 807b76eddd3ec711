"""DescribeTransactions and ListTransactions where nobody coordinates transactions."""

from __future__ import annotations

import pytest

from odradek.broker.authorization import Operation
from odradek.cluster.admin import NewTopic
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.describe_transactions import DescribeTransactionsRequest
from odradek.wire.messages.list_transactions import ListTransactionsRequest

from .admin_world import Denying, World


def test_none_can_be_described() -> None:
    world = World()
    world.authorizer = Denying((Operation.DESCRIBE, "secret"))
    answer = world.call(DescribeTransactionsRequest(transactional_ids=["a", "", "secret"]), 0)
    assert [(one.transactional_id, one.error_code) for one in answer.transaction_states] == [
        ("a", ErrorCode.NOT_COORDINATOR),
        ("", ErrorCode.INVALID_REQUEST),
        ("secret", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ]


@pytest.mark.parametrize("version", range(3))
def test_none_are_listed(version: int) -> None:
    world = World()
    request = ListTransactionsRequest(state_filters=["Ongoing", "Odd", "Odd"], producer_id_filters=[1])
    if version >= 1:
        request.duration_filter = 10
    if version >= 2:
        request.transactional_id_pattern = "a.*"
    answer = world.call(request, version)
    assert (answer.error_code, answer.unknown_state_filters, answer.transaction_states) == (0, ["Odd"], [])
    world.controller.create_topic(NewTopic("__transaction_state", 1, 1))
    assert world.call(request, version).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
