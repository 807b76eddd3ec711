"""What a session of ours is in a job of `spark-submit`: `spark-submit … submitted_job.py`, prints JSON."""

import json
import sys

from odradek.spark import session

if __name__ == "__main__":
    spark = session("submitted")
    names = ("spark.master", "spark.sql.shuffle.partitions", "spark.sql.streaming.pollingDelay")
    told = {name: spark.conf.get(name) for name in names}
    told["executors"] = spark.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect()
    sys.stdout.write(json.dumps(told) + "\n")
    spark.stop()
