"""Typed columns beside Spark's connector with `from_json` and `from_avro`: the sections spark-json and
spark-avro.

    python -m benchmarks.spark_typed json|avro [--rows 2000000] [--runs 3]

One topic of records with eight fields; each contender reads it, decodes all eight, and groups by one of
them, with an aggregate of every other, so that nothing can be left out. Avro has Confluent's frame, whose
five bytes are cut off for `from_avro`, and a registry of the test kit's. Contenders as in `spark_peers`, in
turns in one session.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import statistics
from importlib.metadata import version
from typing import Any

from benchmarks.results import Measure, Outcome
from benchmarks.sections import Context
from benchmarks.spark_load import CONNECTOR, BrokerProcess, make_topics
from benchmarks.spark_peers import PARTITIONS, SOURCE, Bench, Compared
from benchmarks.spark_section import CONTENDERS, missing

TITLES = {
    "spark-json": "Spark: JSON of eight fields to typed columns, grouped",
    "spark-avro": "Spark: Avro with a registry's ids to typed columns, grouped",
}
DDL = (
    "id BIGINT, user STRING, country STRING, amount DOUBLE, quantity INT, active BOOLEAN, at TIMESTAMP, "
    "note STRING"
)
FIELDS = [
    ("id", "long"),
    ("user", "string"),
    ("country", "string"),
    ("amount", "double"),
    ("quantity", "int"),
    ("active", "boolean"),
    ("at", {"type": "long", "logicalType": "timestamp-millis"}),
    ("note", "string"),
]
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": name, "type": kind} for name, kind in FIELDS],
}
COUNTRIES = ["DE", "FR", "PL", "CZ", "AT", "CH", "NL", "BE"]


def orders(rows: int) -> Any:
    """The records, always the same."""
    rng = random.Random(1)
    for number in range(rows):
        yield {
            "id": number,
            "user": f"user-{rng.randrange(100_000)}",
            "country": COUNTRIES[rng.randrange(8)],
            "amount": rng.randrange(100_000) / 100,
            "quantity": rng.randrange(10),
            "active": rng.random() < 0.5,
            "at": 1_764_000_000_000 + number,
            "note": "the quick brown fox jumps"[: rng.randrange(26)],
        }


def as_json(order: dict[str, Any]) -> bytes:
    """A document, with its time as text."""
    at = order["at"]
    text = f"2025-11-24T16:{at // 60_000 % 60:02}:{at // 1000 % 60:02}.{at % 1000:03}Z"
    return json.dumps({**order, "at": text}).encode()


def as_avro(order: dict[str, Any], schema: Any, schema_id: int) -> bytes:
    """A record in Confluent's frame."""
    import fastavro

    out = io.BytesIO()
    out.write(b"\x00" + schema_id.to_bytes(4, "big"))
    fastavro.schemaless_writer(out, schema, order)
    return out.getvalue()


def fill(servers: str, rows: int, encode: Any) -> None:
    """Write the records, round the partitions."""
    import pyarrow as pa

    from odradek.client import RawWriter

    made = [encode(order) for order in orders(min(rows, 200_000))]
    step = 20_000
    with RawWriter(servers, {"max.request.size": "1000000"}) as writer:
        for first in range(0, rows, step):
            numbers = range(first, min(first + step, rows))
            columns = {
                "value": pa.array([made[number % len(made)] for number in numbers], pa.binary()),
                "partition": pa.array([number % PARTITIONS for number in numbers], pa.int32()),
            }
            writer.write_columns(pa.record_batch(columns), SOURCE)


def grouped(frame: Any) -> list[Any]:
    """One aggregate of each field, by country; the rows.

    None of a string: with those Spark sorts all rows, which takes longer than all the rest.
    """
    from pyspark.sql import functions as fn

    made = frame.groupBy("country").agg(
        fn.count("*"),
        fn.sum("id"),
        fn.sum(fn.length("user")),
        fn.sum("amount"),
        fn.sum("quantity"),
        fn.sum(fn.col("active").cast("int")),
        fn.max("at"),
        fn.sum(fn.length("note")),
    )
    return sorted(tuple(row) for row in made.collect())


def json_case(bench: Bench, who: str) -> Any:
    from pyspark.sql import functions as fn

    if who == "odradek":
        return bench.source(who, **{"value.format": "json", "value.schema": DDL, "columns": "value.*"})
    parsed = fn.from_json(fn.col("value").cast("string"), DDL).alias("v")
    return bench.source(who).select(parsed).select("v.*")


def avro_case(bench: Bench, who: str, url: str) -> Any:
    from pyspark.sql import functions as fn
    from pyspark.sql.avro.functions import from_avro

    if who == "odradek":
        options = {"value.format": "avro", "value.schema.registry.url": url, "columns": "value.*"}
        return bench.source(who, **options)
    stripped = fn.expr("substring(value, 6, length(value) - 5)")
    return bench.source(who).select(from_avro(stripped, json.dumps(SCHEMA)).alias("v")).select("v.*")


def same(found: dict[str, list[Any]]) -> bool:
    """Whether all say the same; sums of doubles differ by the order in which they were added."""
    rounded = [
        [tuple(round(one, 1) if isinstance(one, float) else one for one in row) for row in rows]
        for rows in found.values()
    ]
    return all(one == rounded[0] for one in rounded)


def measure(scenario: str, rows: int, runs: int) -> Compared:
    """Run a scenario on a broker and a session of its own."""
    import fastavro

    from odradek.testing import SchemaRegistry

    with BrokerProcess() as broker, SchemaRegistry() as registry:
        make_topics(broker.servers, [SOURCE], PARTITIONS)
        if scenario == "json":
            fill(broker.servers, rows, as_json)
        else:
            number = registry.register(f"{SOURCE}-value", json.dumps(SCHEMA))
            parsed = fastavro.parse_schema(SCHEMA)
            fill(broker.servers, rows, lambda order: as_avro(order, parsed, number))
        bench = Bench(argparse.Namespace(plain=False, runs=runs), broker)
        try:
            found: dict[str, list[Any]] = {}

            def case(who: str) -> None:
                if scenario == "json":
                    found[who] = grouped(json_case(bench, who))
                else:
                    found[who] = grouped(avro_case(bench, who, registry.url))

            compared = bench.compare(
                TITLES[f"spark-{scenario}"], {who: lambda who=who: case(who) for who in CONTENDERS}, rows
            )
        finally:
            bench.spark.stop()
    if not same(found):
        raise RuntimeError(f"the contenders do not agree: {found}")
    return compared


def run(name: str, context: Context) -> Outcome:
    """A section."""
    versions = {"odradek": version("odradek"), "connector": CONNECTOR[0][2], "pyspark": version("pyspark")}
    versions["connector, tuned"] = versions["connector"]
    skipped = missing()
    if skipped:
        return Outcome(name, TITLES[name], CONTENDERS, versions, [], skipped={"connector": skipped})
    rows = 300_000 if context.quick else 2_000_000
    found = measure(name.removeprefix("spark-"), rows, context.rounds)
    cpu_bars = {"connector": 0.5} if name == "spark-json" else {}
    measures = [
        Measure("eight fields", "rows/s", found.rates, bars={"connector": 2.0}),
        Measure("eight fields", "CPU s per 1,000,000 rows", found.cpu, less_is_better=True, bars=cpu_bars),
    ]
    for one in measures:
        shown = {who: f"{statistics.median(values):,.2f}" for who, values in one.values.items()}
        context.say(f"{one.name}: {shown}")
    settings = {"partitions": PARTITIONS, "master": "local[2]", "rows": rows, "rounds": context.rounds}
    return Outcome(name, TITLES[name], CONTENDERS, versions, measures, settings)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenario", choices=["json", "avro"])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    measure(args.scenario, args.rows, args.runs)


if __name__ == "__main__":
    main()
