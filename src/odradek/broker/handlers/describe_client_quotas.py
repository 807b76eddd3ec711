"""DescribeClientQuotas 0-1: the quotas of users, client ids, both, and addresses (KIP-546).

A filter names types of entities, each with a name, the default or any; with `strict` an entity has nothing
else. One that names a type twice or none, or addresses beside others, is INVALID_REQUEST; a type that does
not exist UNSUPPORTED_VERSION. An error leaves the entries null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.cluster.access import quotas
from odradek.errors import ClusterAuthorizationError
from odradek.wire.api import ApiKey
from odradek.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused


def _error_response(refused: Refused[DescribeClientQuotasRequest]) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        error_code=int(refused.error), error_message=refused.message, entries=None
    )


@handler(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=range(2), error_response=_error_response)
def handle(context: RequestContext, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Describe the entities that the filter lets through."""
    if not context.authorize(Operation.DESCRIBE_CONFIGS, CLUSTER):
        raise ClusterAuthorizationError
    # Read no further than the first that cannot be: a filter names each of three types once.
    components = (quotas.Component(one.entity_type, one.match_type, one.match) for one in request.components)
    found = quotas.describe(context.broker.image, components, request.strict)
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
                values=[ValueData(key=key, value=value) for key, value in values.items()],
            )
            for entity, values in found
        ],
    )
