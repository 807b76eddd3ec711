"""ElectLeaders 0-2: have the preferred replicas lead (KIP-183) or, from version 1 on, anybody who is alive
where nobody leads (KIP-460).

Each partition for itself: ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE,
ELIGIBLE_LEADERS_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION (being deleted),
NOT_CONTROLLER. With null for the partitions all are asked, and those that need no election are not named in
the answer. Each topic is, also one of which nothing is said; not as a release with ZooKeeper. An election
type that does not exist is INVALID_REQUEST.

Version 0 comes from Kafka 2.2 and 2.3, which have no word for an election that is not needed: to them it is
one that was won, and is named.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.metadata.controller_thread import on_controller_thread
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.errors import ClusterAuthorizationError, InvalidRequestError, KafkaError
from odradek.errors.codes import ErrorCode
from odradek.wire.api import ApiKey
from odradek.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused

_PREFERRED, _UNCLEAN = 0, 1
_ERROR_ON_TOP_FROM = 1
_NOT_NEEDED_FROM = 1


def _error_response(refused: Refused[ElectLeadersRequest]) -> ElectLeadersResponse:
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[
                PartitionResult(
                    partition_id=index, error_code=int(refused.error), error_message=refused.message
                )
                for index in topic.partitions
            ],
        )
        for topic in refused.request.topic_partitions or ()
    ]
    response = ElectLeadersResponse(replica_election_results=results)
    if refused.version >= _ERROR_ON_TOP_FROM:
        response.error_code = int(refused.error)
    return response


@handler(ApiKey.ELECT_LEADERS, versions=range(3), error_response=_error_response)
@on_controller_thread
def handle(context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Elect what can be elected."""
    if not context.authorize(Operation.ALTER, CLUSTER):
        raise ClusterAuthorizationError
    context.broker.controller.check_active()
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        raise InvalidRequestError(f"Unknown election type {request.election_type}")
    unclean = request.election_type == _UNCLEAN
    results: list[ReplicaElectionResult] = []
    for topic, partitions in _wanted(context, request):
        elected = [_elect(context, topic, index, unclean) for index in partitions]
        if context.api_version < _NOT_NEEDED_FROM:
            for result in elected:
                if result.error_code == ErrorCode.ELECTION_NOT_NEEDED:
                    result.error_code, result.error_message = 0, None
        elif request.topic_partitions is None:
            elected = [result for result in elected if result.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        if elected or not context.broker.handlers.with_zookeeper:
            results.append(ReplicaElectionResult(topic=topic, partition_result=elected))
    return ElectLeadersResponse(replica_election_results=results)


def _wanted(context: RequestContext, request: ElectLeadersRequest) -> list[tuple[str, Iterable[int]]]:
    if request.topic_partitions is None:
        topics = context.broker.controller.image.topics
        return [(name, list(topic.partitions)) for name, topic in topics.items()]
    by_topic: dict[str, dict[int, None]] = {}
    for topic in request.topic_partitions:
        by_topic.setdefault(topic.topic, {}).update(dict.fromkeys(topic.partitions))
    return list(by_topic.items())


def _elect(context: RequestContext, topic: str, index: int, unclean: bool) -> PartitionResult:
    try:
        context.broker.controller.elect_leader(topic, index, unclean=unclean)
    except KafkaError as error:
        return PartitionResult(partition_id=index, error_code=int(error.code), error_message=error.message)
    return PartitionResult(partition_id=index, error_code=0, error_message=None)
