"""Typed columns beside Spark's own `from_avro`: the same types, the same rows, and what we write it reads."""

from __future__ import annotations

import datetime
import io
import json
import random
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from interop import kafka_peer
from odradek.testing import Broker

from .test_spark_connector import connector_jars

AVRO = [("org.apache.spark", "spark-avro_2.13", "4.2.0")]
INNER = {"type": "record", "name": "In", "fields": [{"name": "x", "type": ["null", "string"]}]}
TYPES: dict[str, Any] = {
    "a": "boolean", "b": "int", "c": "long", "d": "float", "e": "double", "f": "bytes", "g": "string",
    "h": {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "i": {"type": "fixed", "name": "F", "size": 4},
    "j": {"type": "array", "items": ["null", "long"]}, "k": {"type": "map", "values": INNER},
    "l": {"type": "int", "logicalType": "date"}, "m": {"type": "long", "logicalType": "timestamp-millis"},
    "n": {"type": "long", "logicalType": "timestamp-micros"},
    "o": {"type": "long", "logicalType": "local-timestamp-micros"},
    "p": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
    "q": ["int", "long"], "r": ["float", "double", "null"], "s": ["null", "string", "int", "In"],
    "t": ["null", {"type": "array", "items": "In"}],
}  # fmt: skip
SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [{"name": name, "type": one} for name, one in TYPES.items()],
}


def values(rng: random.Random) -> dict[str, Any]:
    inner = {"x": rng.choice([None, "é"])}
    moment = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(
        milliseconds=rng.randrange(2**39)
    )
    return {
        "a": rng.random() < 0.5, "b": rng.randrange(-(2**31), 2**31), "c": rng.randrange(-(2**63), 2**63),
        "d": float(rng.randrange(1000)) / 8, "e": rng.random(), "f": rng.randbytes(rng.randrange(5)),
        "g": "text é"[: rng.randrange(7)], "h": rng.choice("AB"), "i": rng.randbytes(4),
        "j": [rng.choice([None, 1, 2**40]) for _ in range(rng.randrange(4))],
        "k": {str(number): inner for number in range(rng.randrange(3))},
        "l": datetime.date(1970, 1, 1) + datetime.timedelta(days=rng.randrange(-9999, 30000)),
        "m": moment, "n": moment + datetime.timedelta(microseconds=7),
        "o": (moment + datetime.timedelta(microseconds=9)).replace(tzinfo=None),
        "p": Decimal(rng.randrange(-(10**12) + 1, 10**12)).scaleb(-3),
        "q": rng.choice([1, 2**40]), "r": rng.choice([0.5, None]), "s": rng.choice([None, "s", 3, inner]),
        "t": rng.choice([None, [inner, inner]]),
    }  # fmt: skip


@pytest.mark.interop
@pytest.mark.spark
@pytest.mark.usefixtures("kafka_toolchain")
def test_the_same_as_from_avro(tmp_path: Path) -> None:
    fastavro = pytest.importorskip("fastavro")
    from odradek.client import Producer

    parsed = fastavro.parse_schema(SCHEMA)
    rng = random.Random(7)
    jars = kafka_peer.resolve("spark-avro", AVRO, transitive=False).glob("*.jar")
    schema_file = tmp_path / "schema.avsc"
    schema_file.write_text(json.dumps(SCHEMA), encoding="utf-8")
    with Broker(num_partitions=1) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for _ in range(300):
                out = io.BytesIO()
                fastavro.schemaless_writer(out, parsed, values(rng))
                producer.send("typed", out.getvalue())
        job = Path(__file__).with_name("spark_typed_job.py")
        words = [
            broker.bootstrap_servers,
            "typed",
            str(schema_file),
            ",".join([connector_jars(), *map(str, jars)]),
        ]
        done = subprocess.run(
            [sys.executable, str(job), *words], capture_output=True, text=True, timeout=240, check=False
        )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["different"] == []
    assert found["rows"] == 300
    assert found["types"][0] == found["types"][1]
    assert found["written"]
