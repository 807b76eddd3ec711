"""How the tests start Spark's JVMs: without the second compiler, and with their classes from an archive.

    python tests/spark/java_classes.py      make the archive

Most of them run for seconds: they end before the second compiler has paid for itself, and half of what is
left is the reading and checking of some 20,000 classes. Java reads these much sooner from an archive
(`-XX:SharedArchiveFile`), which it ignores where it does not fit. A run of many tests makes one beside the
first of them, in `build/`, where the next run finds it.
"""

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def archive() -> Path:
    """Where the archive is, or will be, of this Spark on this Java."""
    pyspark = importlib.util.find_spec("pyspark")
    java = Path(shutil.which("java") or ".").resolve()
    words = [pyspark and pyspark.origin, os.environ.get("JAVA_HOME"), java, java.stat().st_mtime_ns]
    if pyspark is not None and pyspark.origin is not None:
        words.append(Path(pyspark.origin).stat().st_mtime_ns)
    key = hashlib.sha256(repr(words).encode()).hexdigest()[:16]
    return _ROOT / "build" / f"spark-classes-{key}.jsa"


def options() -> str:
    """Java's options for a JVM of Spark's that lives for seconds; a missing archive is passed over."""
    return f"{_SHORT_LIVED} -XX:SharedArchiveFile={archive()} -Xlog:disable"


def use() -> None:
    """Have all Sparks that this process starts, and those that its children start, start quickly."""
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", _SHORT_LIVED)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", options())


def begin() -> "subprocess.Popen[bytes] | None":
    """Begin to make the archive in a process of its own, if it is not there."""
    if archive().exists():
        return None
    archive().parent.mkdir(exist_ok=True)
    with archive().with_suffix(".log").open("wb") as log:
        return subprocess.Popen([sys.executable, __file__], stdout=log, stderr=log, start_new_session=True)


def make() -> None:
    """Make the archive, unless it is there or somebody makes it."""
    path = archive()
    path.parent.mkdir(exist_ok=True)
    with path.with_suffix(".lock").open("w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if path.exists():
            return
        aside = path.with_suffix(".new")
        aside.unlink(missing_ok=True)
        os.environ["SPARK_SUBMIT_OPTS"] = f"{_SHORT_LIVED} -XX:ArchiveClassesAtExit={aside} -Xlog:disable"
        with tempfile.TemporaryDirectory() as folder:
            _use_spark(Path(folder))
        # Java may end without writing it, on a machine that is too busy; nothing but time is lost then.
        if aside.exists():
            aside.rename(path)


def _use_spark(folder: Path) -> None:
    """Do what tests do, so that its classes are loaded; return when the JVM, and all it writes, is done."""
    from pyspark.sql import functions as f

    from odradek.spark import session
    from odradek.testing import Broker

    with Broker() as broker:
        servers = {"kafka.bootstrap.servers": broker.bootstrap_servers}
        spark = session("classes", "local[2]", log_level="OFF", conf={"spark.sql.warehouse.dir": str(folder)})
        rows = spark.range(10).select(
            f.lit("source").alias("topic"), f.col("id").cast("string").alias("value")
        )
        rows.write.format("odradek").options(**servers).mode("append").save()

        def keep(batch: Any, number: int) -> None:
            batch.write.mode("append").parquet(str(folder / "rows"))
            batch.collect()

        reader = spark.readStream.format("odradek").options(**servers, startingOffsets="earliest")
        frame = reader.option("subscribe", "source").load()
        counts = frame.groupBy(f.window("timestamp", "1 minute")).count()
        for name, rows in (("rows", frame), ("counts", counts)):
            query = rows.writeStream.foreachBatch(keep).outputMode("update").trigger(availableNow=True)
            query.option("checkpointLocation", str(folder / f"checkpoint-{name}")).start().awaitTermination()
        gateway = spark.sparkContext._gateway
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(300)


if __name__ == "__main__":
    make()
