"""TLS of one listener: its context, made of its configs and made anew when they or their files change."""

from __future__ import annotations

import logging
import ssl

from odradek.broker.config.listener_overrides import CLIENT_AUTH, ListenerSsl
from odradek.broker.network.handshakes import Handshakes
from odradek.broker.network.tls import CIPHERTEXT_BYTES
from odradek.cluster.configs.config_def import ConfigError
from odradek.security.certificate_changes import check_renewal, own_certificate
from odradek.security.distinguished_names import subject_of
from odradek.security.key_stores import Stamps, stamps_of
from odradek.security.principal_mapping import MappingRuleError, SslPrincipalMapper
from odradek.security.ssl_configs import TlsConfigError
from odradek.security.ssl_contexts import server_context
from odradek.util.extras import install
from odradek.util.repeats import Repeats

logger = logging.getLogger(__name__)


class ListenerTls:
    """See `odradek.broker.network.tls.Encrypts`, whose attributes it has."""

    def __init__(self, listener_name: str, settings: ListenerSsl, handshakes: Handshakes) -> None:
        """
        Args:
            listener_name: the listener's.
            settings: its configs.
            handshakes: those of the broker.

        Raises:
            ConfigError: the configs cannot be used; the message names the listener and the config.
        """
        self.listener_name = listener_name
        self.handshakes = handshakes
        self.ciphertext = memoryview(bytearray(CIPHERTEXT_BYTES))
        self.repeats = Repeats(logger)
        self._settings = settings
        self._files = stamps_of(settings.configs)
        self._refused: tuple[ListenerSsl, Stamps] | None = None
        """What could not be taken over when it was tried last."""
        self.context, self._mapper = _make(listener_name, settings)
        self._certificate = _presented(listener_name, settings)

    def principal_of(self, session: ssl.SSLObject) -> str | None:
        """See `Encrypts.principal_of`. Called in a thread."""
        if not self._settings.names_principals:
            return None
        certificate = session.getpeercert(binary_form=True)
        if certificate is None:
            return None
        return f"User:{self._mapper.name_of(subject_of(certificate))}"

    def check(self, settings: ListenerSsl) -> None:
        """Check configs before they are taken over.

        Raises:
            ConfigError: they cannot be used, or not in place of those in use.
        """
        if settings == self._settings and stamps_of(settings.configs) == self._files:
            return
        _make(self.listener_name, settings)
        self._check_renewal(settings)

    def update(self, settings: ListenerSsl) -> bool:
        """Take over configs, or what has changed in the files that they name; return whether anything has.

        Connections that are open go on with what they have. What cannot be used is logged, and changes
        nothing.
        """
        stamps = stamps_of(settings.configs)
        if (settings == self._settings and stamps == self._files) or self._refused == (settings, stamps):
            return False
        try:
            certificate = self._check_renewal(settings)
            self.context, self._mapper = _make(self.listener_name, settings)
        except ConfigError as error:
            self._refused = settings, stamps
            logger.error("certificates not reloaded listener=%s: %s", self.listener_name, error)
            return False
        self._settings, self._files, self._certificate = settings, stamps, certificate
        self._refused = None
        logger.info("certificates reloaded listener=%s", self.listener_name)
        return True

    def _check_renewal(self, settings: ListenerSsl) -> str:
        """Return the new certificate."""
        new = _presented(self.listener_name, settings)
        try:
            check_renewal(
                self._certificate,
                new,
                allow_dn_changes=settings.allow_dn_changes,
                allow_san_changes=settings.allow_san_changes,
            )
        except TlsConfigError as error:
            raise ConfigError(f"listener {self.listener_name}: {error}") from error
        return new


def _make(listener_name: str, settings: ListenerSsl) -> tuple[ssl.SSLContext, SslPrincipalMapper]:
    if settings.names_principals and settings.configs.get(CLIENT_AUTH, "none").strip().lower() != "none":
        try:
            # Now, not in the first handshake: it takes a tenth of a second.
            import cryptography.x509  # noqa: F401
        except ImportError as error:
            raise ConfigError(
                f"listener {listener_name}: ssl.client.auth needs the package cryptography ({install('tls')})"
            ) from error
    try:
        return server_context(settings.configs), SslPrincipalMapper(settings.mapping_rules)
    except TlsConfigError as error:
        raise ConfigError(f"listener {listener_name}: {error}") from error
    except MappingRuleError as error:
        raise ConfigError(f"listener {listener_name}: ssl.principal.mapping.rules: {error}") from error


def _presented(listener_name: str, settings: ListenerSsl) -> str:
    """The own certificate, PEM."""
    try:
        return own_certificate(settings.configs)
    except TlsConfigError as error:
        raise ConfigError(f"listener {listener_name}: {error}") from error
