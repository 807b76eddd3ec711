"""The choice of a broker's id: its configs', its data folders', or one that the metadata store gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.config.broker_config import BrokerConfig
from odradek.cluster import paths
from odradek.cluster.configs.config_def import ConfigError
from odradek.cluster.store.store import ensure_path

if TYPE_CHECKING:
    from odradek.cluster.store.store import MetadataStore


def with_stored_id(config: BrokerConfig, stored: int | None) -> BrokerConfig:
    """The configs with the id that the data folders know, which know better than a default."""
    if stored is None or stored == config.broker_id or _is_given(config):
        return config
    return _with_id(config, stored)


def with_generated_id(config: BrokerConfig, stored: int | None, store: MetadataStore) -> BrokerConfig:
    """The configs with an id that the metadata store has given, for a broker that has none
    (`broker.id.generation.enable`).

    Raises:
        ConfigError: it has none, and is to be given none.
        StoreError: the store cannot be written.
    """
    if stored is not None or _is_given(config):
        return config
    if not config.broker_id_generation_enable:
        raise ConfigError(
            "broker.id is not given and broker.id.generation.enable is false. Give each broker of the "
            "cluster a broker.id of its own."
        )
    ensure_path(store, paths.BROKER_SEQUENCE)
    number = store.set(paths.BROKER_SEQUENCE, b"").version + config.reserved_broker_max_id
    return _with_id(config, number)


def _is_given(config: BrokerConfig) -> bool:
    return config.is_given("broker.id") or config.is_given("node.id")


def _with_id(config: BrokerConfig, broker_id: int) -> BrokerConfig:
    return BrokerConfig({**config.given, "broker.id": str(broker_id)})
