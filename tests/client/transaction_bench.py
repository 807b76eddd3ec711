"""The transactional producer's state machine beside a model of what it talks to, step by step."""

from __future__ import annotations

from typing import Any

from client.transaction_model import ModelCoordinator, versions
from odradek.client.core.transactions.requests import TxnRequest
from odradek.client.core.transactions.state_machine import TxnState
from odradek.client.core.transactions.transaction_manager import TransactionManager
from odradek.client.core.transactions.transactional_request_result import TransactionalRequestResult
from odradek.client.types import ConsumerGroupMetadata, TopicPartition
from odradek.wire.api import ApiKey

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP = ConsumerGroupMetadata("g", 3, "m", "i")
S = TxnState
Seen = list[tuple[ApiKey, Any]]


class Bench:
    """A manager beside a model of what it talks to."""

    def __init__(self, kind: str = "3.9", *, two_phase_commit: bool = False) -> None:
        self.kind = kind
        self.model = ModelCoordinator(kind)
        self.manager = TransactionManager("id", 60_000, two_phase_commit=two_phase_commit)
        self.seen: Seen = []
        self.manager.learned(v2=kind == "4.x")

    def ask(self, *, batches_left: bool = False) -> TxnRequest | None:
        return self.manager.next_request(batches_left=batches_left)

    def answer(self, request: TxnRequest, code: int = 0) -> None:
        message, response = self.model.answer(self.manager, request, code)
        self.seen.append((request.api, message))
        self.manager.answered(request, response, versions(self.kind).highest(ApiKey.INIT_PRODUCER_ID))

    def run(self, *, until: ApiKey | None = None) -> TxnRequest | None:
        """Answer what is asked, until nothing is, or up to a request of that kind."""
        while (request := self.ask()) is not None:
            if request.api is until:
                return request
            self.answer(request)
        assert until is None, f"{until} was never asked"
        return None

    def done(self, call: TransactionalRequestResult) -> None:
        self.run()
        call.outcome()

    def started(self) -> Bench:
        self.done(self.manager.init_transactions())
        self.manager.begin(v2=self.model.v2)
        return self

    def with_record(self) -> Bench:
        self.started()
        self.manager.add_partition(A)
        self.run()
        self.model.produced(self.manager, A)
        return self

    @property
    def apis(self) -> list[ApiKey]:
        return [api for api, _ in self.seen]
