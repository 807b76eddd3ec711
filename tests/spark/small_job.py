"""What Spark does with an exactly-once sink, without Spark: quick enough to be killed hundreds of times.

    python small_job.py SERVERS SOURCE TARGET FOLDER [option=value…]

A driver; for each batch two tasks, each in a process of its own, which are tried again; a process that
commits; a checkpoint of the last batch that is done. The steps to be killed at are those of `killed_job`.
Rows are made of their batch's number, so SOURCE is not read. The driver's tasks may outlive it, as zombies.
"""

import os
import pickle
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from odradek.client import TransactionalWriter
from odradek.spark.options import SinkOptions, parse_sink
from odradek.spark.writing.coordinators import Coordinators
from odradek.spark.writing.decisions import Report
from odradek.spark.writing.exactly_once import Batch, abort_batch, commit_batch, write_task
from odradek.spark.writing.task_transaction import TaskTransaction, begin
from spark.killed_job import Stepping, reached

TASKS = 2
_ATTEMPTS = 4


class Ledger(Stepping, Coordinators):
    """With steps."""


class Task(TaskTransaction):
    """With steps."""

    def prepare(self) -> Any:
        reached("task has written")
        prepared = super().prepare()
        reached("task has prepared")
        return prepared


class Owner(TransactionalWriter):
    """With a step."""

    def commit_transaction(self) -> None:
        reached("decision is sent")
        super().commit_transaction()


def rows_of(batch: int) -> list[str]:
    """The rows of a batch."""
    return [f"{batch}.{task}.{number}" for task in range(TASKS) for number in range(10)]


class Process:
    """A forked process, and what it returns: None if it dies."""

    def __init__(self, body: Callable[[], Any]) -> None:
        self._read, write = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(write)
            return
        status = 1
        try:
            answer = pickle.dumps(body())
            os.write(write, answer)
            status = 0
        except Exception as problem:
            sys.stderr.write(f"{problem!r}\n")
        finally:
            os._exit(status)

    def result(self) -> Any:
        with os.fdopen(self._read, "rb") as pipe:
            answer = pipe.read()
        os.waitpid(self.pid, 0)
        return pickle.loads(answer) if answer else None


def write(options: SinkOptions, batch: Batch, task: int, attempt: int) -> Report:
    ledger = Ledger(options.client)

    def rows() -> Iterator[pa.RecordBatch]:
        mine = [row for row in rows_of(batch.number) if row.split(".")[1] == str(task)]
        # An array made of a list has Arrow import pandas: half a second of CPU for each task.
        column = pa.lib.StringBuilder()
        column.append_values(mine)
        values = column.finish()
        yield pa.record_batch([values, values], ["key", "value"])

    def opened(decided: int) -> TaskTransaction:
        transaction = begin(options, batch, decided)
        transaction.__class__ = Task
        return transaction

    return write_task(ledger, batch, task, attempt, rows(), opened)


def commit(options: SinkOptions, batch: Batch, reports: list[Report]) -> bool:
    commit_batch(Ledger(options.client), batch, reports)
    reached("all are committed")
    return True


def abort(options: SinkOptions, batch: Batch, reports: list[Report]) -> bool:
    abort_batch(Coordinators(options.client), batch, reports)
    return True


def main(servers: str, source: str, target: str, folder: Path, *options: str) -> None:
    import odradek.spark.writing.coordinators

    vars(odradek.spark.writing.coordinators)["TransactionalWriter"] = Owner
    (folder / "driver.pid").write_text(str(os.getpid()), encoding="utf-8")
    os.environ["KILL_FOLDER"] = str(folder)
    sink = parse_sink(
        {
            "kafka.bootstrap.servers": servers,
            "topic": target,
            "deliveryGuarantee": "exactly-once",
            **dict(option.split("=", 1) for option in options),
        }
    )
    done = folder / "done"
    number = int(done.read_text(encoding="utf-8")) + 1 if done.exists() else 0
    run = os.urandom(8).hex()
    finished = False
    while not finished:
        batch = Batch("odradek-spark-small", number, run)
        reports: list[Report | None] = [None] * TASKS
        for attempt in range(_ATTEMPTS):
            running = {
                task: Process(partial(write, sink, batch, task, attempt))
                for task in range(TASKS)
                if reports[task] is None
            }
            for task, process in running.items():
                reports[task] = process.result()
        wrote = [report for report in reports if report is not None]
        if len(wrote) < TASKS or not Process(partial(commit, sink, batch, wrote)).result():
            Process(partial(abort, sink, batch, wrote)).result()
            run = os.urandom(8).hex()
            continue
        aside = done.with_name("done.new")
        aside.write_text(str(number), encoding="utf-8")
        aside.rename(done)
        number += 1
        # Only here: the batch that was not done when the driver before died is.
        finished = (folder / "finish").exists()


if __name__ == "__main__":
    main(*sys.argv[1:4], Path(sys.argv[4]), *sys.argv[5:])  # type: ignore[arg-type]
