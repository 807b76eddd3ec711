"""A Spark job that reads topics by the connector and by our source, and tells where they differ.

Run by `test_spark_odd_input` in a process of its own: BOOTSTRAP JAR[,JAR…] READS
READS is JSON: a list of [topics, options, options of the connector alone]. Prints one JSON object for each:
rows, and which only one has.
"""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

from odradek.spark import session


def plain(row: Any) -> list[Any]:
    """A row as JSON can have it, but for what is known to differ."""
    return [
        None if row.key is None else bytes(row.key).hex(),
        None
        if row.value is None
        else (bytes(row.value).hex() if len(row.value) < 1000 else _brief(row.value)),
        row.topic,
        row.partition,
        row.offset,
        row.micros,
        row.timestampType,
        # The connector has null where there are none, we have an empty array.
        [[h.key, None if h.value is None else bytes(h.value).hex()] for h in row.headers or ()],
    ]


def _brief(value: Any) -> str:
    if len(value) < 1000:
        return bytes(value).hex()
    return f"{len(value)} bytes, {hashlib.sha256(bytes(value)).hexdigest()}"


def main(bootstrap: str, jars: str, reads: str) -> None:
    """The whole job."""
    spark = session("odd input", "local[2]", large_records=True, **{"spark.jars": jars})

    def rows(source: str, topics: str, options: dict[str, str]) -> list[Any]:
        reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap)
        chosen = {} if "assign" in options else {"subscribe": topics}
        reader = reader.option("includeHeaders", "true").options(**chosen, **options)
        frame = reader.load().selectExpr("*", "unix_micros(timestamp) AS micros")
        return sorted(map(plain, frame.collect()), key=repr)

    for topics, options, of_connector in json.loads(reads):
        theirs, ours = rows("kafka", topics, options | of_connector), rows("odradek", topics, options)
        seen = {
            "rows": len(ours),
            "only connector": [row for row in theirs if row not in ours][:5],
            "only odradek": [row for row in ours if row not in theirs][:5],
            "same": theirs == ours,
        }
        print(json.dumps(seen), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
