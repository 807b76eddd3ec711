"""Key stores of a listener, changed by AlterConfigs while the broker runs (KIP-226): file, password, type."""

from __future__ import annotations

import json
import socket
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from odradek import Admin
from odradek.errors import InvalidRequestError
from odradek.testing import Broker, Security
from odradek.testing.certificates import CertificateAuthority, Issued

BROKER = ("broker", "0")
SECRET = {"password.encoder.secret": "master"}
HOSTS = ("localhost", "127.0.0.1")


@dataclass(frozen=True)
class FileSecurity(Security):
    """A broker whose key lies in a file of PKCS#12.

    Attributes:
        stores: `ssl.*` of the broker.
    """

    stores: dict[str, str] = field(default_factory=dict)

    def server_configs(self) -> dict[str, str]:
        return self.stores


def secured(folder: Path, **configs: str) -> tuple[FileSecurity, CertificateAuthority]:
    security = FileSecurity(tls=True, configs=configs)
    authority = security.authority
    key = authority.issue("broker", hosts=HOSTS).write_pkcs12(folder / "first.p12", "first-secret")
    security.stores.update(authority.trust())
    security.stores["ssl.keystore.type"] = "PKCS12"
    security.stores["ssl.keystore.location"] = str(key)
    security.stores["ssl.keystore.password"] = security.stores["ssl.key.password"] = "first-secret"
    return security, authority


def store(listener: str, path: Path, password: str) -> dict[str, Any]:
    prefix = f"listener.name.{listener}.ssl"
    return {
        f"{prefix}.keystore.type": "PKCS12",
        f"{prefix}.keystore.location": str(path),
        f"{prefix}.keystore.password": password,
        f"{prefix}.key.password": password,
    }


def shown(broker: Broker) -> str:
    """The certificate that a broker shows, PEM."""
    context = ssl.create_default_context(cadata=broker.security.authority.pem)  # type: ignore[union-attr]
    with (
        socket.create_connection(("127.0.0.1", broker.port), 60) as raw,
        context.wrap_socket(raw, server_hostname="127.0.0.1") as session,
    ):
        certificate = session.getpeercert(binary_form=True)
    assert certificate is not None
    return ssl.DER_cert_to_PEM_cert(certificate)


def is_shown(broker: Broker, issued: Issued) -> bool:
    return shown(broker).split() == issued.chain.split()


def test_a_key_store_is_changed_while_the_broker_runs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    security, authority = secured(tmp_path, **SECRET)
    second = authority.issue("broker", hosts=HOSTS)
    path = second.write_pkcs12(tmp_path / "second.p12", "second-secret")
    with Broker(security=security) as broker:
        first = shown(broker)
        with Admin(broker.client_configs()) as admin:
            # What cannot be opened, or is no renewal of what there is, changes nothing.
            for wrong in (
                store("ssl", path, "other-secret"),
                store("ssl", tmp_path / "none.p12", "second-secret"),
                {"listener.name.ssl.ssl.keystore.location": str(path)},  # with the password of the first
                store(
                    "ssl", authority.issue("mallory", hosts=HOSTS).write_pkcs12(tmp_path / "m.p12", "m"), "m"
                ),
            ):
                with pytest.raises(InvalidRequestError) as raised:
                    admin.incremental_alter_configs({BROKER: wrong})
                assert "secret" not in str(raised.value)
                assert shown(broker) == first
            with pytest.raises(InvalidRequestError):  # files are one broker's
                admin.incremental_alter_configs({("broker", ""): store("ssl", path, "second-secret")})
            admin.incremental_alter_configs({BROKER: store("ssl", path, "second-secret")})
            assert is_shown(broker, second)
            (described,) = admin.describe_configs([BROKER]).values()
            password = described["listener.name.ssl.ssl.keystore.password"]
            assert password.value is None and password.sensitive
            assert described["listener.name.ssl.ssl.keystore.location"].value == str(path)
        stored = broker.call(lambda one: dict(one.controller.image.config("brokers/0")))
        assert "second-secret" not in json.dumps(stored)
        assert stored["listener.name.ssl.ssl.keystore.password"].startswith("keyFactoryAlgorithm:")
        broker.restart()
        assert is_shown(broker, second)
        with Admin(broker.client_configs()) as admin:
            gone = dict.fromkeys(store("ssl", path, ""))
            admin.incremental_alter_configs({BROKER: gone})
        assert shown(broker) == first
    assert "second-secret" not in caplog.text
    assert "other-secret" not in caplog.text


def test_the_same_file_with_another_key_and_password(tmp_path: Path) -> None:
    """As Kafka's documentation has it: the file is replaced, and the broker is told."""
    security, authority = secured(tmp_path, **SECRET)
    path = Path(security.stores["ssl.keystore.location"])
    with Broker(security=security) as broker:
        second = authority.issue("broker", hosts=HOSTS)
        second.write_pkcs12(path, "second-secret")
        with Admin(broker.client_configs()) as admin:
            admin.incremental_alter_configs({BROKER: store("ssl", path, "second-secret")})
        assert is_shown(broker, second)
        third = authority.issue("broker", hosts=HOSTS)
        third.write_pkcs12(path, "second-secret")
        with Admin(broker.client_configs()) as admin:
            admin.incremental_alter_configs({BROKER: {"listener.name.ssl.ssl.keystore.location": str(path)}})
        assert is_shown(broker, third)


def test_without_a_secret_a_password_is_not_taken(tmp_path: Path) -> None:
    security, authority = secured(tmp_path)
    path = authority.issue("broker", hosts=HOSTS).write_pkcs12(tmp_path / "second.p12", "second-secret")
    with Broker(security=security) as broker:
        first = shown(broker)
        with (
            Admin(broker.client_configs()) as admin,
            pytest.raises(InvalidRequestError, match=r"give password\.encoder\.secret"),
        ):
            admin.incremental_alter_configs({BROKER: store("ssl", path, "second-secret")})
        assert shown(broker) == first
