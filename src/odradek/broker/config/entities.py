"""Writing configs of entities whose nodes may have parents that are not there: users, clients, addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from odradek.cluster import paths
from odradek.cluster.store.store import StoreError, ensure_path, parent_of
from odradek.errors import KafkaStorageError

if TYPE_CHECKING:
    from odradek.broker.requests.context import RequestContext
    from odradek.cluster.image import EntityPath


def write_entity_config(context: RequestContext, entity: EntityPath, configs: Mapping[str, str]) -> None:
    """Give an entity these configs and no others.

    Raises:
        NotControllerError: this broker is not the active controller.
        KafkaStorageError: the store cannot be written.
    """
    controller = context.broker.controller
    controller.check_active()
    try:
        ensure_path(controller.store, parent_of(paths.entity_config(entity)))
        controller.alter_config(entity, configs)
    except StoreError as error:
        raise KafkaStorageError(str(error)) from error
