"""A Spark job that logs in, by Spark's own Kafka connector (`kafka`) or by `odradek`: write, and read back.

Run by `test_sasl.spark_copies` in a process of its own: SOURCE JAR[,JAR…] OPTIONS, the options of each login
as a list in JSON. Prints the values that it has read back with each, as JSON.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import functions as fn

from odradek.spark import session


def main(source: str, jars: str, logins: str) -> None:
    """The whole job."""
    spark = session(app_name="logins", master="local[2]", **({"spark.jars": jars} if jars else {}))
    found = []
    for number, options in enumerate(json.loads(logins)):
        topic = f"{source}-{number}"
        rows = spark.range(20).select(fn.col("id").cast("string").cast("binary").alias("value"))
        rows.write.format(source).options(**options).option("topic", topic).mode("append").save()
        read = spark.read.format(source).options(**options).option("subscribe", topic).load()
        found.append(sorted(int(bytes(row.value)) for row in read.select("value").collect()))
    print(json.dumps(found))


main(*sys.argv[1:])
