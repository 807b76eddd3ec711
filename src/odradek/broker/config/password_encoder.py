"""Passwords in dynamic configs, encrypted as Kafka keeps them in the metadata store (KIP-226).

A text of pairs: `keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,
initializationVector:…,keyLength:128,salt:…,iterations:4096,encryptedPassword:…,passwordLength:8`, bytes in
base64. The key is made of `password.encoder.secret`; how, stands with each password, so that what was
encrypted otherwise before can be read on.
"""

from __future__ import annotations

import hashlib
import secrets
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, NamedTuple

from odradek.cluster.configs.config_def import ConfigError
from odradek.util.extras import install

MAX_ITERATIONS = 10_000_000
"""What stands in the store does not make the broker work for hours."""

_PBKDF2 = "PBKDF2WithHmac"
_HASHES = {"SHA1": "sha1", "SHA224": "sha224", "SHA256": "sha256", "SHA384": "sha384", "SHA512": "sha512"}
_TAG_BITS = 128
_SALT_BYTES = 256


class PasswordNotDecoded(ConfigError):
    """A password of a dynamic config cannot be read: it is none, or of another secret."""


class PasswordEncoder(NamedTuple):
    """Encrypts and decrypts passwords.

    Attributes:
        secret: `password.encoder.secret`.
        key_factory: `password.encoder.keyfactory.algorithm`.
        cipher: `password.encoder.cipher.algorithm`: AES in the modes CBC and GCM.
        key_bits: `password.encoder.key.length`.
        iterations: `password.encoder.iterations`.
    """

    secret: str
    key_factory: str = "PBKDF2WithHmacSHA512"
    cipher: str = "AES/CBC/PKCS5Padding"
    key_bits: int = 128
    iterations: int = 4096

    def __repr__(self) -> str:
        """Say nothing of the secret."""
        return f"PasswordEncoder({self.key_factory}, {self.cipher})"

    def encode(self, password: str) -> str:
        """Encrypt a password.

        Raises:
            ConfigError: the algorithms are not known here, or the package `cryptography` is missing.
        """
        salt = secrets.token_bytes(_SALT_BYTES)
        key = _key(self.secret, self.key_factory, self.key_bits, self.iterations, salt)
        mode = _mode(self.cipher)
        fields: dict[str, Any] = {
            "keyFactoryAlgorithm": self.key_factory,
            "cipherAlgorithm": self.cipher,
            "keyLength": self.key_bits,
            "salt": _text(salt),
            "iterations": self.iterations,
            "passwordLength": _java_length(password),
        }
        ciphers = _ciphers()
        if mode == "GCM":
            iv = secrets.token_bytes(12)
            encrypted = ciphers.aead.AESGCM(key).encrypt(iv, password.encode(), None)
            fields["authenticationTagLength"] = _TAG_BITS
        else:
            iv = secrets.token_bytes(16)
            padder = ciphers.padding.PKCS7(128).padder()
            padded = padder.update(password.encode()) + padder.finalize()
            encryptor = ciphers.cipher.Cipher(
                ciphers.cipher.algorithms.AES(key), ciphers.cipher.modes.CBC(iv)
            ).encryptor()
            encrypted = encryptor.update(padded) + encryptor.finalize()
        fields |= {"initializationVector": _text(iv), "encryptedPassword": _text(encrypted)}
        return ",".join(f"{name}:{value}" for name, value in fields.items())

    def decode(self, text: str) -> str:
        """Decrypt a password, in whatever way it was encrypted.

        Raises:
            PasswordNotDecoded: it is none, or of another secret.
        """
        try:
            password = self._decode(dict(_pair(pair) for pair in text.split(",")))
        except ConfigError as error:
            raise PasswordNotDecoded(str(error)) from error
        except Exception as error:
            raise PasswordNotDecoded(f"Password could not be decoded: {type(error).__name__}") from None
        return password

    def _decode(self, fields: Mapping[str, str]) -> str:
        salt, iv, encrypted = (
            b64decode(fields[name], validate=True)
            for name in ("salt", "initializationVector", "encryptedPassword")
        )
        key = _key(
            self.secret,
            fields["keyFactoryAlgorithm"],
            int(fields["keyLength"]),
            int(fields["iterations"]),
            salt,
        )
        ciphers = _ciphers()
        if _mode(fields["cipherAlgorithm"]) == "GCM":
            if int(fields["authenticationTagLength"]) != _TAG_BITS:
                raise ConfigError("an authentication tag of another length than 128 bits")
            decrypted = ciphers.aead.AESGCM(key).decrypt(iv, encrypted, None)
        else:
            decryptor = ciphers.cipher.Cipher(
                ciphers.cipher.algorithms.AES(key), ciphers.cipher.modes.CBC(iv)
            ).decryptor()
            padded = decryptor.update(encrypted) + decryptor.finalize()
            unpadder = ciphers.padding.PKCS7(128).unpadder()
            decrypted = unpadder.update(padded) + unpadder.finalize()
        password: str = decrypted.decode()
        if _java_length(password) != int(fields["passwordLength"]):
            raise ConfigError("Password could not be decoded, sanity check of length failed")
        return password


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition(":")
    return name.strip(), value.strip()


def _java_length(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _key(secret: str, factory: str, bits: int, iterations: int, salt: bytes) -> bytes:
    hash_name = _HASHES.get(factory.removeprefix(_PBKDF2)) if factory.startswith(_PBKDF2) else None
    if hash_name is None:
        raise ConfigError(f"{factory} is not known here: PBKDF2WithHmacSHA512 and its like are")
    if bits not in (128, 192, 256) or not 0 < iterations <= MAX_ITERATIONS:
        raise ConfigError("a key of AES has 128, 192 or 256 bits")
    return hashlib.pbkdf2_hmac(hash_name, secret.encode(), salt, iterations, bits // 8)


def _mode(cipher: str) -> str:
    algorithm, _, rest = cipher.partition("/")
    mode, _, padding = rest.partition("/")
    if algorithm != "AES" or (mode, padding) not in (("CBC", "PKCS5Padding"), ("GCM", "NoPadding")):
        raise ConfigError(f"{cipher} is not known here: AES/CBC/PKCS5Padding and AES/GCM/NoPadding are")
    return mode


class _Ciphers(NamedTuple):
    """The parts of the package `cryptography`."""

    aead: Any
    cipher: Any
    padding: Any


def _ciphers() -> _Ciphers:
    try:
        from cryptography.hazmat.primitives import ciphers, padding
        from cryptography.hazmat.primitives.ciphers import aead
    except ImportError as error:
        raise ConfigError(
            f"passwords in dynamic configs need the package cryptography: {install('tls')}"
        ) from error
    return _Ciphers(aead, ciphers, padding)
