"""A Spark job on Spark's own Kafka connector that logs in: write, and read back.

Run by `test_sasl` in a process of its own: JAR[,JAR…] OPTIONS, the options of each login as a list in JSON.
Prints the values that it has read back with each, as JSON.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import functions as fn

from odradek.spark import session


def main(jars: str, logins: str) -> None:
    """The whole job."""
    spark = session(app_name="logins", master="local[2]", **{"spark.jars": jars})
    found = []
    for number, options in enumerate(json.loads(logins)):
        topic = f"connector-{number}"
        rows = spark.range(20).select(fn.col("id").cast("string").cast("binary").alias("value"))
        rows.write.format("kafka").options(**options).option("topic", topic).save()
        read = spark.read.format("kafka").options(**options).option("subscribe", topic).load()
        found.append(sorted(int(bytes(row.value)) for row in read.select("value").collect()))
    print(json.dumps(found))


main(*sys.argv[1:])
