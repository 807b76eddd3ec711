"""A `SparkSession` with the settings that were measured to matter for small, quick batches on one machine.

Spark's defaults are for clusters and big data. On a laptop they cost 100–200 ms for every micro-batch of a
stateful query: 200 shuffle partitions, checkpoint files through Hadoop's `FileContext` (which starts a
process for each), TCP between the JVM and its Python workers.
"""

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from odradek.spark.option_values import text_of
from odradek.spark.sessions import worker_python
from odradek.spark.sessions.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHECKPOINT_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"

SETTINGS: dict[str, str] = {
    # Columns go to Python and back as Arrow, over Unix sockets where there are some.
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # No limit in bytes beside it. With one, Spark adds up the size of the whole batch for every single row on
    # its way to Python: a fifth of its CPU time.
    _BATCH_BYTES: "2147483647",
    "spark.python.worker.reuse": "true",
    # One rename on the file system itself for each checkpoint file.
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
    # As many state stores and shuffle tasks as there is work for on one machine.
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.coalescePartitions.enabled": "true",
    # A trigger without news costs nothing but a look; look often.
    "spark.sql.streaming.pollingDelay": "10",
    # `Trigger.AvailableNow` asks once more when its last batch is done, also a source without limits, as ours
    # is on PySpark 4.1: by that, `commitOffsetsToGroup` knows of the end.
    "spark.sql.streaming.triggerAvailableNowWrapper.enabled": "true",
    # Times are shown as they are stored.
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}


_IS_LOCAL = re.compile(r"local.*|spark://(?:127\.[\d.]+|localhost):\d+")
"""A master whose executors are on this machine."""


def session(
    app_name: str = "odradek",
    master: str | None = None,
    *,
    ui: bool = False,
    log_level: str = "ERROR",
    large_records: bool = False,
    conf: Mapping[str, Any] | None = None,
    **settings: Any,
) -> "SparkSession":
    """A session, or the one that is there already with these settings put on top.

    In a job of `spark-submit`, what that was told wins over the settings of this module.

    Args:
        app_name: shown in Spark's UI and logs.
        master: where to run; default: that of `spark-submit`, or of the variable MASTER, else all cores of
            this machine.
        ui: whether Spark serves its web page (port 4040).
        log_level: of Spark's own log: ALL, DEBUG, INFO, WARN, ERROR or OFF.
        large_records: whether records are so large (100 KB and more on average) that 10,000 of them do not
            fit into an Arrow column, which ends at 1 GiB in the JVM: batches then end at 64 MiB too.
        conf: Spark settings, winning over those here.
        settings: the same as keywords, `_` for `.`: `spark_executor_memory="2g"`.

    Raises:
        JavaNotFoundError: there is no Java to run Spark with.
    """
    given = {name: text_of(value) for name, value in (conf or {}).items()}
    given.update({name.replace("_", "."): text_of(value) for name, value in settings.items()})
    _prepare_environment(master or given.get("spark.master") or os.environ.get("MASTER"))
    from pyspark.sql import SparkSession

    configs = dict(SETTINGS)
    if large_records:
        configs[_BATCH_BYTES] = "64MB"
    configs["spark.ui.enabled"] = str(ui).lower()
    if hasattr(__import__("socket"), "AF_UNIX"):
        configs["spark.python.unix.domain.socket.enabled"] = "true"
    submitted = _submitted()
    configs = {name: value for name, value in configs.items() if name not in submitted} | given
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    elif "spark.master" not in (*configs, *submitted) and "MASTER" not in os.environ:
        builder = builder.master("local[*]")
    for name, value in configs.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(log_level)
    return spark


def _submitted() -> set[str]:
    """The names of what `spark-submit` was told, if that has started this process."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return set()
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return {name for name, _ in SparkConf(_jvm=SparkContext._jvm).getAll()}


def _prepare_environment(master: str | None) -> None:
    """Let Spark's scripts find a Java that works, and its workers this very Python."""
    if "SPARK_REMOTE" not in os.environ and "PYSPARK_GATEWAY_PORT" not in os.environ:
        os.environ["JAVA_HOME"] = str(find_java().home)
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    worker_python.choose(os.environ, master or ("" if submitted else "local[*]"))
    if master is None or _IS_LOCAL.fullmatch(master):
        # Spark names its host by its address; where that resolves to nothing it waits for a name server.
        # Executors on other machines would look for the driver on their own.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
