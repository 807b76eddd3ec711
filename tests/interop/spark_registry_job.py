"""Writes and reads typed columns by a schema registry: whether what comes back is the same, as JSON.

python spark_registry_job.py SERVERS REGISTRY PROTO_DESCRIPTOR
"""

import json
import sys

from odradek.spark import session


def main() -> None:
    servers, registry, descriptor = sys.argv[1:]
    spark = session("registry", "local[1]", log_level="OFF")
    frame = spark.createDataFrame([(1, "é"), (2**40, "")], "id BIGINT, name STRING")
    protobuf = {"value.format": "protobuf", "value.schema.message": "Sale"}
    ways = {
        "avro": ({"value.format": "avro"}, {"value.format": "avro"}),
        "protobuf": ({**protobuf, "value.schema": descriptor}, protobuf),
        # Registered before as text.
        "prototext": ({**protobuf, "value.schema.register": "false"}, protobuf),
    }
    found = {}
    for topic, (writing, reading) in ways.items():
        address = {"kafka.bootstrap.servers": servers, "schema.registry.url": registry}
        writer = frame.coalesce(1).write.format("odradek").options(**address, topic=topic, **writing)
        writer.mode("append").save()
        reader = spark.read.format("odradek").options(**address, subscribe=topic, **reading)
        back = reader.option("columns", "value.*").load()
        found[topic] = back.collect() == frame.collect()
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
