"""Typed columns and the client of schema registries, with a registry that others have made."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop import apicurio
from odradek.testing import Broker

pytestmark = [pytest.mark.interop, pytest.mark.spark]
PROTO = 'syntax = "proto3";\nmessage Sale { optional int64 id = 1; optional string name = 2; }\n'


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if (reason := apicurio.missing()) is not None:
        pytest.skip(reason)
    with apicurio.running(tmp_path_factory.mktemp("apicurio")) as url:
        yield url


def test_the_client(registry: str) -> None:
    from odradek.serdes.errors import UnknownSchemaError
    from odradek.serdes.schema_registry_client import SchemaRegistryClient
    from odradek.serdes.schemas import Schema

    asked = SchemaRegistryClient(url=registry)
    first = asked.register_schema("a/b-value", Schema('"long"'))
    assert asked.register_schema("a/b-value", Schema('"long"')) == first
    second = asked.register_schema("a/b-value", Schema('"string"'))
    assert asked.get_versions("a/b-value") == [1, 2]
    newest = asked.get_latest_version("a/b-value")
    assert (newest.schema_id, newest.schema.schema_str, newest.version) == (second, '"string"', 2)
    assert asked.get_schema(first) == Schema('"long"')
    draft = "http://json-schema.org/draft-07/schema#"
    json_schema = Schema(json.dumps({"$schema": draft, "type": "object"}), "JSON")
    document = asked.register_schema("json-value", json_schema)
    assert asked.get_schema(document).schema_type == "JSON"
    for question in (lambda: asked.get_schema(999_999), lambda: asked.get_versions("none")):
        with pytest.raises(UnknownSchemaError):
            question()


def test_written_and_read_by_its_schemas(registry: str, tmp_path: Path) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc")
    from odradek.serdes.schema_registry_client import SchemaRegistryClient
    from odradek.serdes.schemas import Schema

    (tmp_path / "sale.proto").write_text(PROTO, encoding="utf-8")
    descriptor = tmp_path / "sale.desc"
    words = [f"-I{tmp_path}", "--include_imports", f"--descriptor_set_out={descriptor}", "sale.proto"]
    assert not protoc.main(["protoc", *words])
    SchemaRegistryClient(url=registry).register_schema("prototext-value", Schema(PROTO, "PROTOBUF"))
    job = Path(__file__).with_name("spark_registry_job.py")
    with Broker(num_partitions=1) as broker:
        words = [sys.executable, str(job), broker.bootstrap_servers, registry, str(descriptor)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found == {"avro": True, "protobuf": True, "prototext": True}
