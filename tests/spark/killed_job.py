"""A streaming copy that is written exactly once, to be killed at any step of a batch.

    python killed_job.py SERVERS SOURCE TARGET FOLDER MASTER [option=value…]

Its data source is `odradek`'s, which stops at named steps to look for a file `FOLDER/kill/<step>`. The
process that finds one takes it away and does what is in it, all by SIGKILL:

    self      this Python process dies: a task's, or the one in which Spark's driver commits
    workers   the Python processes in which tasks ran, idle or not
    driver    the driver and its JVM
    broker    the broker
    executor  of a cluster: the JVM that runs this task, or else any that runs tasks
    machine   of a cluster: all of the worker where this task runs, or else of any; `FOLDER/machines` has the
              processes that stand for machines

A file `FOLDER/finish` has it copy what is there, and end.
"""

import fcntl
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

STEPS = (
    "task looks",
    "task has written",
    "task has prepared",
    "driver takes over",
    "driver decides",
    "decision is sent",
    "driver has decided",
    "one is committed",
    "all are committed",
)


def reached(step: str) -> None:
    """Die here, or have something else die, if somebody wants it."""
    folder = Path(os.environ["KILL_FOLDER"])
    wanted = folder / "kill" / step.replace(" ", "-")
    taken = wanted.with_name(f"taken-{wanted.name}")
    try:
        wanted.rename(taken)
    except FileNotFoundError:
        return
    whom = taken.read_text(encoding="utf-8")
    if whom == "driver":
        os.killpg(int((folder / "driver.pid").read_text(encoding="utf-8")), signal.SIGKILL)
    if whom == "broker":
        os.kill(int((folder / "broker.pid").read_text(encoding="utf-8")), signal.SIGKILL)
    elif whom in ("executor", "machine"):
        kill_on_cluster(whom, [int(pid) for pid in (folder / "machines").read_text(encoding="utf-8").split()])
    elif whom == "workers":
        for pid in sorted(living(folder / "workers"), key=os.getpid().__eq__):
            os.kill(pid, signal.SIGKILL)
    else:
        os.kill(os.getpid(), signal.SIGKILL)


def kill_on_cluster(whom: str, machines: list[int]) -> None:
    """Kill an executor, or a machine with all that runs on it: those of this process if it runs a task."""
    told = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True, timeout=60
    )
    parents = {int(pid): int(parent) for pid, parent in map(str.split, told.stdout.splitlines())}
    above = [os.getpid()]
    while above[-1] in parents:
        above.append(parents[above[-1]])
    executors = [pid for pid, parent in parents.items() if parent in machines]
    executor = next((pid for pid in (*above, *executors) if pid in executors), None)
    if whom == "executor":
        victims = [] if executor is None else [executor]
    else:
        victims = [parents[executor] if executor is not None else machines[0]]
        for one in victims:
            victims += [pid for pid, parent in parents.items() if parent == one]
    for pid in sorted(victims, key=os.getpid().__eq__):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def sign_in() -> None:
    """Make this process known as one that runs tasks: by a file that it holds locked while it lives."""
    file = os.open(Path(os.environ["KILL_FOLDER"]) / "workers" / str(os.getpid()), os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        # It did already. (No variable could say so: Spark's workers get this module anew with every query.)
        os.close(file)


def living(folder: Path) -> list[int]:
    """Those that signed in and have not died since: numbers of processes are used again."""
    found = []
    for path in folder.iterdir():
        with path.open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append(int(path.name))
            else:
                path.unlink()
    return found


def install() -> None:
    """Put the steps into what this process has of `odradek`."""
    from odradek.client import TransactionalWriter
    from odradek.spark.writing import coordinators
    from odradek.spark.writing.task_transaction import TaskTransaction

    if issubclass(coordinators.Coordinators, Stepping):
        return

    class Ledger(Stepping, coordinators.Coordinators):
        pass

    prepare, commit = TaskTransaction.prepare, TransactionalWriter.commit_transaction

    def stepping_prepare(self: TaskTransaction) -> Any:
        reached("task has written")
        prepared = prepare(self)
        reached("task has prepared")
        return prepared

    def stepping_commit(self: TransactionalWriter) -> None:
        reached("decision is sent")
        commit(self)

    vars(coordinators)["Coordinators"] = Ledger
    TaskTransaction.prepare = stepping_prepare  # type: ignore[method-assign]
    TransactionalWriter.commit_transaction = stepping_commit  # type: ignore[method-assign]


class Stepping:
    """The coordinators' methods, with steps before and after."""

    def read_decision(self, name: str) -> Any:
        reached("task looks")
        return super().read_decision(name)  # type: ignore[misc]

    def take_over(self, name: str, *, anew: bool) -> Any:
        reached("driver takes over")
        return super().take_over(name, anew=anew)  # type: ignore[misc]

    def decide(self, name: str, decision: Any) -> None:
        reached("driver decides")
        super().decide(name, decision)  # type: ignore[misc]
        reached("driver has decided")

    def end(self, transaction: Any, *, commit: bool) -> bool:
        ended: bool = super().end(transaction, commit=commit)  # type: ignore[misc]
        if commit:
            reached("one is committed")
        return ended


def killed_source() -> type:
    """Return `odradek`'s data source, whose stream writers have steps; Spark is imported for it alone."""
    from odradek.spark import OdradekDataSource

    class KilledSource(OdradekDataSource):
        @classmethod
        def name(cls) -> str:
            return "killed"

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: N802 (Spark's name)
            # Where batches are committed and aborted, the writer is made for each of them; before it asks
            # anybody anything, the steps must be in it: connections are kept, and those without steps would
            # be used on.
            install()
            return with_steps(super().streamWriter(schema, overwrite))

    return KilledSource


def with_steps(writer: Any) -> Any:
    """`writer`, of a class that is pickled whole: Spark's workers do not have this file."""

    class Writer(type(writer)):  # type: ignore[misc]
        def write(self, iterator: Any) -> Any:
            install()
            sign_in()
            return super().write(iterator)

        def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
            super().commit(messages, batchId)
            reached("all are committed")

    writer.__class__ = Writer
    return writer


def main(servers: str, source: str, target: str, folder: Path, master: str, *options: str) -> None:
    from pyspark.errors import StreamingQueryException

    from odradek.spark import session

    (folder / "driver.pid").write_text(str(os.getpid()), encoding="utf-8")
    os.environ["KILL_FOLDER"] = str(folder)
    # What the executors of a cluster are told; without one there are none but the driver.
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "600m",
        # As this driver's JVM (java_classes.py).
        "spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", ""),
        "spark.executorEnv.KILL_FOLDER": str(folder),
    }
    spark = session("killed", master, conf=conf, log_level="ERROR")
    spark.dataSource.register(killed_source())
    frame = (
        spark.readStream.format("odradek")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 500)
        .option("fetchOffset.numRetries", 30)
        .load()
    )
    copied = False
    while not copied:
        query = (
            frame.selectExpr("key", "value")
            .writeStream.format("killed")
            .option("kafka.bootstrap.servers", servers)
            .option("topic", target)
            .option("deliveryGuarantee", "exactly-once")
            .options(**dict(option.split("=", 1) for option in options))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(processingTime="0 seconds")
            .start()
        )
        try:
            while not (folder / "finish").exists():
                query.awaitTermination(0.2)
            query.processAllAvailable()
            copied = True
        except StreamingQueryException as problem:
            # A query that failed is started again, as whoever runs it would.
            (folder / "failures").open("a", encoding="utf-8").write(f"{problem}\n\n")
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:4], Path(sys.argv[4]), *sys.argv[5:])  # type: ignore[arg-type]
