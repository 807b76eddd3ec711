"""The nodes of real clusters, read and written again: equal as objects, whatever the order of keys."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from odradek.cluster import nodes, paths
from odradek.cluster.image import ClusterImage
from odradek.cluster.loading import full_delta, load_image
from odradek.cluster.nodes import BrokerRegistration, Endpoint, NodeFormatError
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.util.clock import ManualClock

from .golden import VERSIONS, cluster_lines, data_of, snapshots


def _again(path: str, data: bytes, version: str) -> bytes | None:
    """The data decoded and encoded; None for nodes that are not read here."""
    if path.startswith(f"{paths.BROKER_IDS}/"):
        return nodes.encode_registration(nodes.decode_registration(path, data))
    if re.fullmatch(r"/brokers/topics/[^/]+", path):
        return nodes.encode_topic(nodes.decode_topic(path, data))
    if path.endswith("/state"):
        return nodes.encode_partition_state(nodes.decode_partition_state(path, data))
    if path == paths.CONTROLLER:
        return nodes.encode_controller(nodes.decode_controller(path, data))
    if path == paths.CONTROLLER_EPOCH:
        return nodes.encode_epoch(nodes.decode_epoch(path, data))
    if path == paths.CLUSTER_ID:
        return nodes.encode_cluster_id(nodes.decode_cluster_id(path, data))
    if path == paths.PRODUCER_ID_BLOCK:
        block = nodes.decode_producer_id_block(path, data)
        assert block is not None
        return nodes.encode_producer_id_block(block)
    if path.startswith(f"{paths.CONFIG_CHANGES}/"):
        return nodes.encode_config_change(nodes.decode_config_change(path, data))
    if path.startswith(f"{paths.CONFIG}/"):
        return nodes.encode_config(nodes.decode_config(path, data))
    return None


@pytest.mark.parametrize("version", VERSIONS)
def test_every_node_of_a_real_cluster_comes_back_equal(version: str) -> None:
    kinds: dict[str, int] = {}
    for tree in snapshots(version).values():
        for path, node in tree.items():
            data = data_of(node)
            if not data:
                continue
            again = _again(path, data, version)
            if again is None:
                continue
            ours, theirs = json.loads(again), json.loads(data)
            if isinstance(theirs, dict):
                ours, theirs = _comparable(path, ours), _comparable(path, theirs)
            assert ours == theirs, (path, node["when"])
            kind = re.sub(r"/[^/]+$", "/*", path) if path.count("/") > 1 else path
            kinds[kind] = kinds.get(kind, 0) + 1
    assert {"/brokers/ids/*", "/brokers/topics/*", "/controller", "/config/topics/*"} <= kinds.keys()


def _comparable(path: str, value: dict[str, Any]) -> dict[str, Any]:
    """Without the differences that are meant: the newest version of a node is written."""
    value = dict(value)
    if path == paths.CONTROLLER:
        value.pop("version")
        value.setdefault("kraftControllerEpoch", -1)
    if re.fullmatch(r"/brokers/topics/[^/]+", path) and value["version"] < 3:
        value.pop("version")
        value.setdefault("adding_replicas", {})
        value.setdefault("removing_replicas", {})
    return value


@pytest.mark.parametrize("version", VERSIONS)
def test_every_recorded_cluster_loads_as_an_image(version: str) -> None:
    for when, tree in snapshots(version).items():
        store = MemoryStore(MemoryServer(ManualClock()))
        for path in sorted(tree):
            if path != "/":
                store.create(path, data_of(tree[path]))
        image = load_image(store)
        topics = {p.rpartition("/")[2] for p in tree if re.fullmatch(r"/brokers/topics/[^/]+", p)}
        assert set(image.topics) == topics, when
        assert {str(b) for b in image.brokers} == {
            p.rpartition("/")[2] for p in tree if re.fullmatch(r"/brokers/ids/[^/]+", p)
        }
        for topic in image.topics.values():
            for index, partition in topic.partitions.items():
                node = tree[f"/brokers/topics/{topic.name}/partitions/{index}/state"]
                state = json.loads(node["data"])
                assert (partition.leader, list(partition.isr)) == (state["leader"], state["isr"])
                assert partition.leader_epoch == state["leader_epoch"]
            if version == "3.9.1":
                assert image.topic_names[topic.topic_id] == topic.name
        assert ClusterImage(cluster_id=image.cluster_id).apply(full_delta(image)) == image


def test_configs_of_every_kind_of_entity_are_loaded() -> None:
    tree = snapshots("3.9.1")["after configs users quotas acls token"]
    store = MemoryStore(MemoryServer(ManualClock()))
    for path in sorted(tree):
        if path != "/":
            store.create(path, data_of(tree[path]))
    configs = load_image(store).configs
    assert configs["brokers/<default>"]["message.max.bytes"] == "2000000"
    assert configs["users/bob/clients/app-1"] == {"producer_byte_rate": "1024"}
    assert configs["users/<default>/clients/<default>"] == {"consumer_byte_rate": "4096"}
    assert configs["ips/127.0.0.7"] == {"connection_creation_rate": "50"}
    assert "SCRAM-SHA-256" in configs["users/alice"]
    assert "topics/moving" not in configs, "an entity without configs has none"


def test_registrations_of_old_brokers_are_read() -> None:
    one = b'{"jmx_port":-1,"timestamp":"1","host":"h","version":1,"port":39116}'
    assert nodes.decode_registration("/x", one).endpoints == (Endpoint("PLAINTEXT", "h", 39116),)
    two = b'{"endpoints":["SSL://h:1"],"jmx_port":9,"host":null,"timestamp":"2","port":-1,"version":2}'
    assert nodes.decode_registration("/x", two) == BrokerRegistration(
        (Endpoint("SSL", "h", 1, "SSL"),), jmx_port=9, timestamp_ms=2, version=2
    )
    four = (
        b'{"listener_security_protocol_map":{"IN":"PLAINTEXT"},"endpoints":["IN://[::1]:5"],"rack":"r",'
        b'"jmx_port":-1,"host":"::1","timestamp":"2","port":5,"version":4}'
    )
    decoded = nodes.decode_registration("/x", four)
    assert decoded.endpoints == (Endpoint("IN", "::1", 5),)
    assert json.loads(nodes.encode_registration(decoded)) == json.loads(four)


def test_a_recovering_leader_is_written_and_others_are_not() -> None:
    state = nodes.PartitionState(1, 2, (1,), 3, nodes.LEADER_RECOVERING)
    data = nodes.encode_partition_state(state)
    assert json.loads(data)["leader_recovery_state"] == 1
    assert nodes.decode_partition_state("/x", data) == state
    recovered = nodes.encode_partition_state(state._replace(leader_recovery_state=0))
    assert "leader_recovery_state" not in json.loads(recovered)


DECODERS = (
    nodes.decode_registration,
    nodes.decode_topic,
    nodes.decode_partition_state,
    nodes.decode_controller,
    nodes.decode_cluster_id,
    nodes.decode_config_change,
)


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"{",
        b"[]",
        b"7",
        b"{}",
        b'{"version":0}',
        b'{"version":2,"endpoints":["x"],"entity_path":3}',
        b'{"version":1,"partitions":{"a":[1]}}',
        b'{"leader":"x","isr":3}',
        b"\xff\xfe",
    ],
)
def test_what_kafka_would_not_write_is_an_error_that_names_the_node(decode: Any, data: bytes | None) -> None:
    with pytest.raises(NodeFormatError, match="/some/node"):
        decode("/some/node", data)


@pytest.mark.parametrize("data", [b"", b"x", b"1.5"])
def test_an_epoch_is_a_number(data: bytes) -> None:
    with pytest.raises(NodeFormatError):
        nodes.decode_epoch("/e", data)


def test_configs_must_be_text() -> None:
    assert nodes.decode_config("/c", None) == {}
    for data in (b'{"config":{"a":1}}', b'{"config":[]}', b"[]"):
        with pytest.raises(NodeFormatError):
            nodes.decode_config("/c", data)
    with pytest.raises(NodeFormatError):
        nodes.decode_producer_id_block("/p", b'{"broker":1}')
    assert nodes.decode_producer_id_block("/p", None) is None


def test_topic_ids_are_22_characters() -> None:
    text = "7Pc9-3UeQNGQl2NPPkzHPw"
    assert nodes.topic_id_to_text(nodes.topic_id_from_text(text)) == text
    for bad in ("", "x", text + "A", "!" * 22):
        with pytest.raises(ValueError, match="not a topic id"):
            nodes.topic_id_from_text(bad)


def test_names_are_sanitized_as_kafka_does() -> None:
    for name, node_name in cluster_lines("sanitize"):
        assert paths.sanitize(name) == node_name
        assert paths.desanitize(node_name) == name
