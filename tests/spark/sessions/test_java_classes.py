"""What starts Spark's JVMs sooner in tests must not end them where it cannot be had."""

from pathlib import Path

import pytest

from spark import java_classes


def test_a_java_that_writes_no_archive_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that is too busy it may be killed, or give up, at its exit."""
    path = tmp_path / "classes.jsa"
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "as before")
    monkeypatch.setattr(java_classes, "archive", lambda: path)
    monkeypatch.setattr(java_classes, "_use_spark", lambda folder: None)
    java_classes.make()
    assert not path.exists()
    monkeypatch.setattr(java_classes, "_use_spark", lambda folder: path.with_suffix(".new").touch())
    java_classes.make()
    assert path.exists()
