"""The registry of a Spark source or sink, by its options, against the one of the test kit."""

from __future__ import annotations

from pathlib import Path

import pytest

from odradek.serdes.errors import RegistryError
from odradek.serdes.resolved_schemas import ResolvedSchemas
from odradek.spark.formats.options import source_sides
from odradek.spark.formats.registry import schemas_of
from odradek.spark.option_values import Given
from odradek.testing import SchemaRegistry, Security

LONG = '"long"'


def asked_by(options: dict[str, str]) -> ResolvedSchemas:
    """What the options of a Spark source ask."""
    sides = source_sides(Given({"value.format": "avro", **options}))
    registry = sides["value"].registry
    assert registry is not None
    assert "PRIVATE KEY" not in repr(registry)
    return schemas_of(registry)


def test_an_id_is_asked_for_once_in_a_process() -> None:
    with SchemaRegistry() as registry:
        number = registry.register("t-value", LONG)
        for _ in range(3):
            assert asked_by(registry.options()).by_id(number).text == LONG
        assert len(registry.requests) == 1


def test_what_one_login_was_shown_is_not_shown_to_another() -> None:
    with SchemaRegistry("me:secret") as registry:
        number = registry.register("t-value", LONG)
        assert asked_by(registry.options()).by_id(number).text == LONG
        address = {"schema.registry.url": registry.url}
        for other in ({}, {"schema.registry.basic.auth.user.info": "me:wrong"}):
            with pytest.raises(RegistryError, match=r"HTTP 401.*value\.schema\.registry\.basic\.auth"):
                asked_by({**address, **other}).by_id(number)


def test_behind_tls_with_an_authority_of_its_own() -> None:
    with SchemaRegistry("me:secret", Security(tls=True)) as registry:
        assert registry.url.startswith("https://")
        number = registry.register("t-value", LONG)
        assert asked_by(registry.options()).by_id(number).text == LONG
        with pytest.raises(RegistryError, match=r"HTTP 401"):
            options = {**registry.options(), "value.schema.registry.basic.auth.user.info": "me:wrong"}
            asked_by(options).version("t-value", 1)


def test_it_may_want_certificates_of_clients(tmp_path: Path) -> None:
    security = Security(client_auth="required")
    with SchemaRegistry(security=security) as registry:
        registry.register("t-value", LONG)
        assert asked_by(registry.options("alice")).version("t-value", 1).text == LONG
        stores = {
            "value.schema.registry.ssl.keystore.type": "PKCS12",
            "value.schema.registry.ssl.keystore.location": str(
                security.certificate("bob").write_pkcs12(tmp_path / "bob.p12", "changeit")
            ),
            "value.schema.registry.ssl.keystore.password": "changeit",
        }
        assert asked_by({**registry.options(), **stores}).version("t-value", 1).text == LONG


def test_certificates_that_cannot_be_read_are_told_by_the_option() -> None:
    options = {
        "value.schema.registry.url": "https://127.0.0.1:1",
        "value.schema.registry.ssl.truststore.type": "PEM",
        "value.schema.registry.ssl.truststore.location": "/does/not/exist.pem",
    }
    with pytest.raises(
        RegistryError, match=r"value\.schema\.registry\.ssl\.truststore\.location: /does/not/exist"
    ):
        asked_by(options).version("t-value", 1)
