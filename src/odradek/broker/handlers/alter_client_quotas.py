"""AlterClientQuotas 0-1: set and remove quotas of users, client ids, both, or addresses (KIP-546).

They are kept where Kafka keeps them. Each entity for itself: INVALID_REQUEST for one that cannot be, for a
quota that it does not have and for a value that is not of the quota's type; NOT_CONTROLLER,
KAFKA_STORAGE_ERROR. Of an entity that stands there twice each is done in turn, and the last is told. With
`validate_only` nothing is changed.
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

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.broker.requests.handler_types import Refused


def _error_response(refused: Refused[AlterClientQuotasRequest]) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(
                error_code=int(refused.error), error_message=refused.message, entity=entry.entity
            )
            for entry in refused.request.entries
        ]
    )


@handler(ApiKey.ALTER_CLIENT_QUOTAS, versions=range(2), error_response=_error_response)
@on_controller_thread
def handle(context: RequestContext, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    """Change the quotas of each entity."""
    if not context.authorize(Operation.ALTER_CONFIGS, CLUSTER):
        raise ClusterAuthorizationError
    results: dict[tuple[tuple[str, str | None], ...], ResponseEntryData] = {}
    for entry in request.entries:
        entity = {one.entity_type: one.entity_name for one in entry.entity}
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
