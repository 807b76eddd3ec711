"""Reads a topic as typed columns and by Spark's own `from_avro`: what of it differs, as JSON.

python spark_typed_job.py SERVERS TOPIC SCHEMA_FILE JARS
"""

import json
import sys
from pathlib import Path

from odradek.spark import session


def main() -> None:
    servers, topic, schema_file, jars = sys.argv[1:]
    schema = Path(schema_file).read_text(encoding="utf-8")
    spark = session("typed", "local[1]", log_level="OFF", conf={"spark.jars": jars})
    from pyspark.sql.avro.functions import from_avro

    reader = (
        spark.read.format("odradek").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    )
    plain = reader.load().select(from_avro("value", schema).alias("v"), "offset")
    typed = reader.option("value.format", "avro").option("value.schema", schema).load()
    theirs = plain.orderBy("offset").collect()
    ours = typed.selectExpr("value AS v", "offset").orderBy("offset").collect()
    different = [(str(one), str(other)) for one, other in zip(ours, theirs, strict=True) if one != other]
    written = typed.select("value").where("value IS NOT NULL")
    writer = (
        written.write.format("odradek").option("kafka.bootstrap.servers", servers).option("topic", "again")
    )
    writer.option("value.format", "avro").option("value.schema", schema).mode("append").save()
    again = (
        spark.read.format("odradek").option("kafka.bootstrap.servers", servers).option("subscribe", "again")
    )
    back = again.load().select(from_avro("value", schema).alias("v"))
    found = {
        "rows": len(ours),
        "different": different,
        "types": [typed.schema["value"].dataType.simpleString(), plain.schema["v"].dataType.simpleString()],
        "written": sorted(map(str, back.collect()))
        == sorted(str(row) for row in plain.select("v").collect()),
    }
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
