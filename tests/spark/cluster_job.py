"""What the tests have a Spark cluster do: a driver of its own, which is told what.

    python cluster_job.py MASTER

Reads lines: SCENARIO SERVERS FOLDER. Each has a session of its own, in one JVM, which is warm soon. The topic
`source` is copied to `target`, or read, while something happens to the executors: functions below, in the
middle of a task's rows, once in a life of FOLDER. Answers each with a line of JSON.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "600m",
    # As this driver's JVM (java_classes.py).
    "spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", ""),
    # Some batches of rows in each task.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.5",
}
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "3",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
    "spark.executor.cores": "1",
}
_LIMIT_S = 240

Step = Callable[[Path, int, int], None]
"""What happens in the middle of a task: the folder, the task's partition, and the number of its attempt."""


def once(folder: Path, what: str) -> bool:
    """Whether nobody has asked this before."""
    try:
        os.close(os.open(folder / what, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def await_that(what: str, holds: Callable[[], bool]) -> None:
    """Wait until something holds. Raises `AssertionError` where it takes minutes."""
    deadline = time.monotonic() + _LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, f"not seen: {what}"
        time.sleep(0.05)


def parent_of(pid: int) -> int:
    told = subprocess.run(
        ["ps", "-o", "ppid=", "-p", str(pid)], capture_output=True, text=True, check=True, timeout=60
    )
    return int(told.stdout)


def executor() -> int:
    """The process of the executor that this task runs in: Python is started by a Python that it started."""
    return parent_of(os.getppid())


def executor_dies(folder: Path, partition: int, attempt: int) -> None:
    """Of each of two tasks the executor is killed, and then a task fails."""
    if partition in (1, 2) and once(folder, f"executor-of-{partition}"):
        os.kill(executor(), signal.SIGKILL)
    if partition == 3 and once(folder, "task-failed"):
        raise RuntimeError("this task fails once")


def one_is_slow(folder: Path, partition: int, attempt: int) -> None:
    """A task waits in the middle until its other attempt, on another machine, is there as well."""
    if partition == 0:
        (folder / f"attempt-{attempt}").touch()
        await_that("a second attempt", (folder / "attempt-1").exists)


def all_wait_for_more(folder: Path, partition: int, attempt: int) -> None:
    """Tasks wait until two executors have some."""
    (folder / f"executor-{executor()}").touch()
    await_that("a second executor", lambda: len(list(folder.glob("executor-*"))) > 1)


def with_step(frame: Any, folder: Path, step: Step) -> Any:
    """The rows, with a step in the middle of each task."""

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for number, batch in enumerate(batches):
            if number == 2:
                step(folder, context.partitionId(), context.attemptNumber())
            yield batch

    return frame.mapInArrow(rows, frame.schema)


def source(spark: Any, servers: str, *, stream: bool) -> Any:
    reader = spark.readStream if stream else spark.read
    reader = reader.format("odradek").option("kafka.bootstrap.servers", servers)
    return reader.option("subscribe", "source").option("startingOffsets", "earliest").load()


def copy(spark: Any, servers: str, folder: Path, step: Step, guarantee: str) -> None:
    """Copy what is there now."""
    frame = source(spark, servers, stream=True).selectExpr("key", "value")
    query = (
        with_step(frame, folder, step)
        .writeStream.format("odradek")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", "target")
        .option("deliveryGuarantee", guarantee)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def read(spark: Any, servers: str, folder: Path) -> list[str]:
    frame = with_step(source(spark, servers, stream=False).select("value"), folder, executor_dies)
    return sorted(bytes(row.value).decode() for row in frame.collect())


def executors_of(spark: Any) -> int:
    """How many executors the driver has."""
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def dynamic(spark: Any, servers: str, folder: Path) -> list[int]:
    """Copy with as many executors as there is work for. Returns their numbers: idle, at work, idle again."""
    numbers = []
    await_that("one executor", lambda: executors_of(spark) == 1)
    numbers.append(1)
    copy(spark, servers, folder, all_wait_for_more, "exactly-once")
    numbers.append(len(list(folder.glob("executor-*"))))
    await_that("one executor again", lambda: executors_of(spark) == 1)
    numbers.append(1)
    return numbers


def secured(spark: Any, folder: Path) -> list[str]:
    """Write and read with the options in a file of the folder; the values read."""
    options = json.loads((folder / "options.json").read_text(encoding="utf-8"))
    rows = spark.range(20).selectExpr("CAST(id AS STRING) AS value").repartition(4)
    rows.write.format("odradek").mode("append").options(**options, topic="secured").save()
    found = spark.read.format("odradek").options(**options, subscribe="secured", minPartitions="4").load()
    return [bytes(row.value).decode() for row in found.collect()]


def endless(spark: Any, servers: str, folder: Path) -> None:
    """Copy at least once until it is killed; a query that failed is started again, as by whoever runs it."""
    from pyspark.errors import StreamingQueryException

    while True:
        query = (
            source(spark, servers, stream=True)
            .selectExpr("key", "value")
            .writeStream.format("odradek")
            .option("kafka.bootstrap.servers", servers)
            .option("topic", "target")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(processingTime="500 milliseconds")
            .start()
        )
        try:
            query.awaitTermination()
        except StreamingQueryException as problem:
            (folder / "failures").open("a", encoding="utf-8").write(f"{problem}\n\n")


def perform(scenario: str, master: str, servers: str, folder: Path) -> Any:
    """Do what is asked for. Returns what is to be told of it."""
    from odradek.spark import session

    more = {"one-is-slow": SPECULATION, "dynamic": DYNAMIC}
    conf = {**CONF, **next((more[name] for name in more if scenario.startswith(name)), {})}
    spark = session(scenario, master, conf=conf)
    try:
        if scenario == "read":
            return read(spark, servers, folder)
        if scenario == "dynamic":
            return dynamic(spark, servers, folder)
        if scenario == "secured":
            return secured(spark, folder)
        if scenario == "endless":
            return endless(spark, servers, folder)
        name, _, guarantee = scenario.partition(":")
        step = {"executor-dies": executor_dies, "one-is-slow": one_is_slow}[name]
        return copy(spark, servers, folder, step, guarantee)
    finally:
        spark.stop()


def main(master: str) -> None:
    for line in sys.stdin:
        scenario, servers, folder = line.split()
        told = json.dumps(perform(scenario, master, servers, Path(folder)))
        sys.stdout.write(f"{told}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
