"""A job for executors whose Python has no odradek of its own: writes a topic, reads it, says what it saw.

    spark-submit … packaged_job.py SERVERS [register]

With `register` it makes the data source known itself, as it has to where odradek comes by `--py-files`: it
says by which error Spark told that it had not found it.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession


def seen(_: int) -> dict[str, Any]:
    """What an executor has."""
    import odradek
    from odradek.records.kernel import NATIVE

    return {"python": sys.executable, "package": odradek.__file__, "native": NATIVE}


def main(servers: str, *words: str) -> None:
    spark = SparkSession.builder.appName("packaged").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    error = None
    if "register" in words:
        try:
            spark.read.format("odradek").load()
        except Exception as problem:
            error = str(problem)
        from pyspark_probe import DefaultSource

        from odradek.spark import OdradekDataSource

        spark.dataSource.register(OdradekDataSource)
        spark.dataSource.register(DefaultSource)
    at = {"kafka.bootstrap.servers": servers}
    rows = spark.range(1000).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("odradek").options(**at, topic="numbers").mode("append").save()
    numbers = spark.read.format("odradek").options(**at, subscribe="numbers").load()
    found = numbers.selectExpr("sum(CAST(CAST(value AS STRING) AS BIGINT)) AS sum").collect()[0].sum
    executors = spark.sparkContext.parallelize([0], 1).map(seen).collect()
    source = spark.read.format("probe").load().collect()[0].asDict()
    sys.stdout.write(json.dumps({"sum": found, "error": error, "source": source, **executors[0]}) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
