"""What clients make of `security.protocol`, `ssl.*` and `sasl.*`."""

from __future__ import annotations

import pickle

import pytest

from odradek.client.config import AdminConfig, ConsumerConfig, ProducerConfig, build
from odradek.client.errors import ConfigError
from odradek.testing.certificates import CertificateAuthority

CA = CertificateAuthority()


def test_plaintext_is_the_default() -> None:
    security = build(AdminConfig, {"bootstrap_servers": "localhost"}).security
    assert (security.protocol, security.uses_tls, security.uses_sasl) == ("PLAINTEXT", False, False)
    assert security.ssl_context() is None


@pytest.mark.parametrize("config_class", [ProducerConfig, ConsumerConfig, AdminConfig])
def test_ssl_under_both_kinds_of_names(config_class: type) -> None:
    alice = CA.issue("alice")
    dotted = {"security.protocol": "ssl", **CA.trust(), **alice.configs()}
    underscored = {name.replace(".", "_"): text for name, text in dotted.items()}
    for configs in (dotted, underscored):
        config = build(config_class, {"bootstrap_servers": "SSL://localhost:9093", **configs})
        assert config.bootstrap_servers == (("localhost", 9093),)
        security = config.security
        assert security.protocol == "SSL" and security.uses_tls
        context = security.ssl_context()
        assert context is not None and context.check_hostname
        assert security.ssl_context() is context
        assert alice.key not in repr(config)


def test_a_config_travels_to_another_process() -> None:
    config = build(AdminConfig, {"bootstrap_servers": "x", "security_protocol": "SSL", **CA.trust()})
    there = pickle.loads(pickle.dumps(config))
    assert there == config
    assert there.security.ssl_context() is not config.security.ssl_context()


@pytest.mark.parametrize(
    ("configs", "complaint"),
    [
        ({"security.protocol": "TLS"}, "must be one of PLAINTEXT, SSL"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/nowhere"}, "No such file"),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldaps"},
            "is neither https|https or empty",
        ),
        ({"ssl.trust": "all"}, "no such config of TLS"),
    ],
)
def test_what_is_refused(configs: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        build(AdminConfig, {"bootstrap_servers": "localhost", **configs})
