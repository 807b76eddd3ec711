"""The steps of docs/howto that change a machine: done in a folder of the test's."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from odradek import Consumer, Producer
from odradek.testing import Broker
from waiting import WITHIN_S

from .blocks import ROOT, blocks
from .running import run, script

HOWTO = ROOT / "docs" / "howto"
READER: dict[str, Any] = {
    "group_id": "readers",
    "auto_offset_reset": "earliest",
    "enable_auto_commit": False,
}


def _blocks(page: str, *languages: str) -> list[str]:
    """Return the blocks of a page in these languages, as they stand there."""
    text = (HOWTO / page).read_text(encoding="utf-8")
    return [block.code for block in blocks(page, text) if block.language in languages]


@contextmanager
def _server(command: str, folder: Path) -> Iterator[str]:
    """The port of a broker that is started by a command of a page."""
    with (folder / "server.log").open("wb") as log:
        child = subprocess.Popen(
            ["bash", "-c", f"exec {command}".replace("exec odradek", f"exec {script('odradek')}")],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert child.stdout is not None
    try:
        ready = child.stdout.readline()
        assert ready.startswith("ready "), (folder / "server.log").read_text(encoding="utf-8")
        yield ready.strip().rpartition(":")[2]
    finally:
        child.terminate()
        child.wait(WITHIN_S)
        child.stdout.close()


def test_secure(tmp_path: Path) -> None:
    certificate, start, admin = _blocks("secure.md", "")
    server_properties, admin_properties = _blocks("secure.md", "properties")
    (program,) = _blocks("secure.md", "python")
    run(["bash", "-ec", certificate], tmp_path, None)
    (tmp_path / "server.properties").write_text(server_properties.replace(":9093", ":0"), encoding="utf-8")
    (tmp_path / "admin.properties").write_text(admin_properties, encoding="utf-8")
    with _server(start, tmp_path) as port:
        run(["bash", "-ec", admin.replace("9093", port)], tmp_path, None)
        (tmp_path / "program.py").write_text(program.replace("9093", port), encoding="utf-8")
        run([sys.executable, "program.py"], tmp_path, None)
        stranger = program.replace("9093", port).replace("alice-secret", "guessed")
        (tmp_path / "stranger.py").write_text(stranger, encoding="utf-8")
        refused = subprocess.run(
            [sys.executable, "stranger.py"], cwd=tmp_path, capture_output=True, text=True, timeout=WITHIN_S
        )
        assert "SaslAuthenticationError" in refused.stderr


def test_backup(tmp_path: Path) -> None:
    copy, restore = _blocks("backup.md", "")
    *unpack, start = restore.splitlines()
    with (
        Broker(data=tmp_path / "data") as broker,
        Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        broker.create_topic("clicks", configs={"retention.ms": "-1"})
        for value in (b"a", b"b"):
            producer.send("clicks", value).result(WITHIN_S)
        with Consumer("clicks", bootstrap_servers=broker.bootstrap_servers, **READER) as consumer:
            assert next(iter(consumer)).value == b"a"
            consumer.commit()
    run(["bash", "-ec", copy], tmp_path, None)
    run(["bash", "-ec", "\n".join(unpack)], tmp_path, None)
    with (
        _server(start.replace("9092", "0"), tmp_path) as port,
        Consumer("clicks", bootstrap_servers=f"127.0.0.1:{port}", **READER) as consumer,
    ):
        assert next(iter(consumer)).value == b"b"


def test_metrics_of_the_rules_are_there() -> None:
    (rules,) = _blocks("monitor.md", "yaml")
    named = re.findall(r"expr: sum\((\w+)\)", rules)
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert len(named) == 3
    assert [name for name in named if f"`{name}`" not in page] == []
