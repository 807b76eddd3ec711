"""The passwords among a broker's dynamic configs: encrypted in the metadata store, in clear here."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from odradek.broker.config.names import find_key
from odradek.broker.config.password_encoder import PasswordEncoder, PasswordNotDecoded
from odradek.cluster.configs.config_def import ConfigError

logger = logging.getLogger(__name__)

_MOST_KNOWN = 1000


class DynamicPasswords:
    """Encrypts and decrypts them with `password.encoder.secret`; decrypts with the old one, too.

    Args:
        encoder: by the secret of now; None where there is none, so that none can be kept.
        old: by the secret before.
    """

    def __init__(self, encoder: PasswordEncoder | None, old: PasswordEncoder | None = None) -> None:
        self._encoder = encoder
        self._decoders = [decoder for decoder in (encoder, old) if decoder is not None]
        self._known: dict[str, str] = {}
        """Texts of the store that have been decrypted, which takes milliseconds each."""

    def check(self, name: str) -> None:
        """Check that a password can be kept in the store.

        Raises:
            ConfigError: there is no `password.encoder.secret` to encrypt it with.
        """
        if self._encoder is None:
            raise ConfigError(
                f"Passwords cannot be kept in the metadata store: set {name} statically, or give "
                "password.encoder.secret, which encrypts them there"
            )

    def decode(self, configs: Mapping[str, str]) -> dict[str, str]:
        """Configs out of the store with their passwords in clear; those that cannot be read are left out."""
        decoded: dict[str, str] = {}
        for name, text in configs.items():
            if not _is_password(name):
                decoded[name] = text
                continue
            try:
                decoded[name] = self._decode(text)
            except PasswordNotDecoded as error:
                logger.error("a dynamic config is passed over name=%s: %s", name, error)
        return decoded

    def _decode(self, text: str) -> str:
        decoded = self._known.get(text)
        if decoded is not None:
            return decoded
        failure = PasswordNotDecoded("there is no password.encoder.secret to decode it with")
        for encoder in self._decoders:
            try:
                password = encoder.decode(text)
            except PasswordNotDecoded as error:
                failure = error
                continue
            self._remember(text, password)
            return password
        raise failure

    def encode(self, configs: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
        """Configs as they go into the store.

        Args:
            configs: with passwords in clear.
            present: what is there now; a password that stays is not encrypted anew.

        Raises:
            ConfigError: there is no secret, or the algorithms are not known here.
        """
        encoded: dict[str, str] = {}
        for name, value in configs.items():
            if not _is_password(name):
                encoded[name] = value
                continue
            text = present.get(name)
            if text is None or self._known.get(text) != value:
                self.check(name)
                assert self._encoder is not None
                text = self._encoder.encode(value)
                self._remember(text, value)
            encoded[name] = text
        return encoded

    def _remember(self, text: str, password: str) -> None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[text] = password


def _is_password(name: str) -> bool:
    key = find_key(name)
    return key is not None and key.is_sensitive
