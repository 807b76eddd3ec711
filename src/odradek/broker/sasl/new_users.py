"""Users that are there from the start, in whose absence nobody could log in to make others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from odradek.cluster.paths import entity_config, sanitize
from odradek.cluster.store.store import ensure_path, parent_of

if TYPE_CHECKING:
    from odradek.cluster.controller.kafka_controller import KafkaController
    from odradek.sasl.scram_words import NewUser


def add_scram_users(controller: KafkaController, users: Iterable[NewUser]) -> None:
    """Write the credentials of users who have none for the mechanism; others keep theirs.

    Args:
        controller: it is active.
        users: who.

    Raises:
        StoreError: the store cannot be written.
    """
    for user in users:
        entity = f"users/{sanitize(user.name)}"
        present = dict(controller.image.config(entity))
        if user.mechanism not in present:
            present[user.mechanism] = user.credential.to_text()
            ensure_path(controller.store, parent_of(entity_config(entity)))
            controller.alter_config(entity, present)
