"""The names of `ssl.*` configs, and the error of one that cannot be used."""

from __future__ import annotations

from odradek.errors import OdradekError

SSL_CONFIGS = frozenset(
    {
        "ssl.cipher.suites",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.key.password",
        "ssl.keymanager.algorithm",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Configs that clients and brokers have in common (Kafka's SslConfigs)."""


class TlsConfigError(OdradekError):
    """A key store, a trust store or another `ssl.*` config cannot be used.

    Attributes:
        config: the config's name, without a listener's prefix.
    """

    def __init__(self, config: str, problem: str) -> None:
        super().__init__(f"{config}: {problem}")
        self.config = config
