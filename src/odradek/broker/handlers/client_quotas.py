"""DescribeClientQuotas and AlterClientQuotas 0-1: quotas of users, client ids, both, or addresses (KIP-546).

DescribeClientQuotas: a filter names types of entities, each with a name, the default or any; with `strict` an
entity has nothing else. One that names a type twice or none, or addresses beside others, is INVALID_REQUEST;
a type that does not exist UNSUPPORTED_VERSION. An error leaves the entries null.

AlterClientQuotas sets and removes them; they are kept where Kafka keeps them. Each entity for itself:
INVALID_REQUEST for one that cannot be, for a quota that it does not have and for a value that is not of the
quota's type; NOT_CONTROLLER, KAFKA_STORAGE_ERROR. Of an entity that stands there twice each is done in turn,
and the last is told. With `validate_only` nothing is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.apis.registry import handler
from odradek.broker.config.entities import write_entity_config
from odradek.broker.metadata.controller_thread import on_controller_thread
from odradek.broker.requests.authorization import CLUSTER, Operation
from odradek.cluster.access import quotas
from odradek.errors import ClusterAuthorizationError, KafkaError
from odradek.wire.api import ApiKey
from odradek.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    ResponseEntryData,
)
from odradek.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    ValueData,
)
from odradek.wire.messages.describe_client_quotas import (
    EntityData as DescribedEntity,
)
from odradek.wire.messages.describe_client_quotas import (
    EntryData as DescribedEntry,
)

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused


def _undescribed(refused: Refused[DescribeClientQuotasRequest]) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        error_code=int(refused.error), error_message=refused.message, entries=None
    )


@handler(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions=range(2), error_response=_undescribed)
def describe(context: RequestContext, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """Describe the entities that the filter lets through."""
    if not context.authorize(Operation.DESCRIBE_CONFIGS, CLUSTER):
        raise ClusterAuthorizationError
    # Read no further than the first that cannot be: a filter names each of three types once.
    components = (
        quotas.Component(component.entity_type, component.match_type, component.match)
        for component in request.components
    )
    described = quotas.describe(context.broker.image, components, request.strict)
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            DescribedEntry(
                entity=[DescribedEntity(entity_type=kind, entity_name=name) for kind, name in entity.items()],
                values=[ValueData(key=key, value=value) for key, value in values.items()],
            )
            for entity, values in described
        ],
    )


def _unaltered(refused: Refused[AlterClientQuotasRequest]) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(
                error_code=int(refused.error), error_message=refused.message, entity=entry.entity
            )
            for entry in refused.request.entries
        ]
    )


@handler(ApiKey.ALTER_CLIENT_QUOTAS, versions=range(2), error_response=_unaltered)
@on_controller_thread
def alter(context: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Change the quotas of each entity."""
    if not context.authorize(Operation.ALTER_CONFIGS, CLUSTER):
        raise ClusterAuthorizationError
    results: dict[tuple[tuple[str, str | None], ...], ResponseEntryData] = {}
    for entry in request.entries:
        entity = {component.entity_type: component.entity_name for component in entry.entity}
        result = ResponseEntryData(
            error_code=0,
            error_message=None,
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        )
        try:
            _alter(context, entity, entry, request.validate_only)
        except KafkaError as error:
            result.error_code, result.error_message = int(error.code), error.message
        results[tuple(sorted(entity.items(), key=lambda item: item[0]))] = result
    return AlterClientQuotasResponse(entries=list(results.values()))


def _alter(context: RequestContext, entity: quotas.Entity, entry: EntryData, validate_only: bool) -> None:
    path = quotas.path_of(entity)
    changes = [quotas.QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops]
    configs = quotas.altered(entity, context.broker.controller.image.config(path), changes)
    if not validate_only:
        write_entity_config(context, path, configs)
