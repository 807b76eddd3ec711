"""A schema registry that is put together: registry, store, HTTP."""

from __future__ import annotations

import ssl

from odradek.schema_registry.registry import Registry
from odradek.schema_registry.server_configs import ServerConfig
from odradek.schema_registry.service import CONTENT_TYPE, MemoryStore, Replay, Service, Store
from odradek.util.http_server import HttpServer


class SchemaRegistryServer:
    """A running registry.

    Args:
        config: how it is.

    Attributes:
        url: where it is.

    Raises:
        TlsConfigError: the listener's key cannot be used.
        SchemasTopicError: the topic will not do.
        OdradekError: the brokers cannot be reached.
        OSError: the port is taken.
    """

    def __init__(self, config: ServerConfig) -> None:
        registry = Registry(config.level, are_modes_mutable=config.are_modes_mutable)
        context = _context(config)
        self._service = Service(registry, lambda replay: _store(config, replay))
        try:
            self._http = HttpServer(
                config.host,
                config.port,
                self._service.handle,
                content_type=CONTENT_TYPE,
                context=context,
                user_info=config.user_info,
            )
        except BaseException:
            self._service.close()
            raise
        self.url = self._http.url

    def close(self) -> None:
        """Stop: no further request is taken up."""
        self._http.close()
        self._service.close()


def _context(config: ServerConfig) -> ssl.SSLContext | None:
    if not config.is_https:
        return None
    from odradek.security.ssl_contexts import server_context

    return server_context(config.ssl)


def _store(config: ServerConfig, replay: Replay) -> Store:
    if not config.store:
        return MemoryStore(replay)
    # Imported here: in memory it needs no client.
    from odradek.schema_registry.kafka_store import KafkaStore

    return KafkaStore(
        replay,
        config.store,
        config.topic,
        replication_factor=config.replication_factor,
        timeout_s=config.timeout_s,
        init_timeout_s=config.init_timeout_s,
    )
