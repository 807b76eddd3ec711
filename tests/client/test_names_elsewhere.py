"""Configs that other clients know by other names: each is told with what does the same here."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import aiokafka
import aiokafka.admin
import confluent_kafka
import pytest

from odradek.client.config import (
    AdminConfig,
    ConsumerConfig,
    ProducerConfig,
    UnknownConfigWarning,
    build,
    is_config,
    kafka_name,
    python_name,
)
from odradek.client.errors import ConfigError
from odradek.client.names_elsewhere import AIOKAFKA, ELSEWHERE, FAUST, KAFKA_PYTHON, LIBRDKAFKA

SERVERS = {"bootstrap.servers": "a:1"}


def not_told(names: set[str]) -> list[str]:
    return sorted(name for name in names if not is_config(name) and python_name(name) not in ELSEWHERE)


@pytest.mark.parametrize("name", [*LIBRDKAFKA, *KAFKA_PYTHON, *AIOKAFKA, *FAUST])
def test_a_hint_names_a_config_that_exists(name: str) -> None:
    here = ELSEWHERE[python_name(name)]
    assert not is_config(name), "it works as it is"
    assert is_config(here.config) if here.config else here.remark
    if here.config:
        assert kafka_name(python_name(here.config)) == here.config


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_all_of_kafka_python_is_told() -> None:
    import kafka

    clients = (kafka.KafkaProducer, kafka.KafkaConsumer, kafka.KafkaAdminClient)
    assert not_told({name for client in clients for name in client.DEFAULT_CONFIG}) == []


def test_all_of_aiokafka_is_told() -> None:
    clients = (aiokafka.AIOKafkaProducer, aiokafka.AIOKafkaConsumer, aiokafka.admin.AIOKafkaAdminClient)
    names = {name for client in clients for name in inspect.signature(client.__init__).parameters}
    assert not_told(names - {"self", "topics"}) == []


def test_no_name_means_two_things() -> None:
    names = [python_name(name) for of in (LIBRDKAFKA, KAFKA_PYTHON, AIOKAFKA, FAUST) for name in of]
    assert sorted(names) == sorted(ELSEWHERE)


SHOW = """
import ctypes, sys
standard = ctypes.CDLL(None)
show = ctypes.CDLL(sys.argv[1]).rd_kafka_conf_properties_show
show.argtypes = [ctypes.c_void_p]
show(ctypes.c_void_p.in_dll(standard, "stdout"))
standard.fflush(None)
"""


def librdkafka_properties() -> list[tuple[str, str]]:
    """The name and default of each config of the librdkafka that confluent-kafka brings; skips without."""
    if sys.platform != "linux":
        pytest.skip("the library is found where wheels for Linux have it")
    folder = Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs"
    libraries = sorted(folder.glob("librdkafka*"))
    if not libraries:
        pytest.skip("confluent-kafka was built for this machine, and has the system's library")
    shown = subprocess.run(
        [sys.executable, "-c", SHOW, libraries[0]], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    # Name, producer or consumer, range, default.
    return re.findall(r"^([a-z][\w.]+) +\| [^|]*\|[^|]*\| *([^|]*?) *\|", shown, re.MULTILINE)


def test_all_of_librdkafka_is_told() -> None:
    names = {name for name, _ in librdkafka_properties()}
    assert "message.timeout.ms" in names and len(names) > 150
    assert not_told(names) == []


@pytest.mark.parametrize(
    ("config", "given", "hint"),
    [
        (ProducerConfig, "message.timeout.ms", "did you mean 'delivery.timeout.ms'?"),
        (ProducerConfig, "queue.buffering.max.ms", "did you mean 'linger.ms'?"),
        (ProducerConfig, "queue.buffering.max.kbytes", "did you mean 'buffer.memory'? (in bytes)"),
        (ProducerConfig, "max_batch_size", "did you mean 'batch_size'?"),
        (ProducerConfig, "partitioner_cb", "did you mean 'partitioner'? (a function, too)"),
        (ConsumerConfig, "fetch.wait.max.ms", "did you mean 'fetch.max.wait.ms'?"),
        (ConsumerConfig, "consumer_timeout_ms", "returns an empty list when nothing has come"),
        (ConsumerConfig, "enable.partition.eof", "; position and end_offsets say where the end is"),
        (
            ConsumerConfig,
            "broker_session_timeout",
            "did you mean 'session_timeout_ms'? (in milliseconds, there in seconds)",
        ),
        (AdminConfig, "socket.timeout.ms", "did you mean 'request.timeout.ms'?"),
        (AdminConfig, "topic.blacklist", "; there is nothing like it here"),
    ],
)
def test_a_name_of_another_client_is_told(config: type[AdminConfig], given: str, hint: str) -> None:
    with pytest.warns(UnknownConfigWarning) as caught:
        build(config, {**SERVERS, given: 1})
    assert str(caught[0].message).endswith(hint)


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("ssl_cafile", "; did you mean 'ssl_truststore_location'? (with ssl.truststore.type=PEM)"),
        ("ssl.ca.location", "; did you mean 'ssl.truststore.location'? (with ssl.truststore.type=PEM)"),
        ("ssl.crl.location", "; there is nothing like it here"),
        ("sasl.oauthbearer.client.id", "'sasl.oauthbearer.client.credentials.client.id'?"),
        ("ssl.trustore.location", "; did you mean 'ssl.truststore.location'?"),
        ("sasl_machanism", "; did you mean 'sasl_mechanism'?"),
        ("ssl.x", "ssl.x: no such config of TLS is known"),
    ],
)
def test_a_name_of_security_is_refused_with_the_right_one(given: str, hint: str) -> None:
    for config in (ProducerConfig, ConsumerConfig, AdminConfig):
        with pytest.raises(ConfigError) as raised:
            build(config, {**SERVERS, given: "x"})
        assert str(raised.value).endswith(hint)


def test_a_client_without_servers_is_told_the_name() -> None:
    with (
        pytest.warns(UnknownConfigWarning, match=r"did you mean 'bootstrap\.servers'\?"),
        pytest.raises(ConfigError, match=r"^bootstrap\.servers is empty"),
    ):
        build(AdminConfig, {"metadata.broker.list": "a:1"})
