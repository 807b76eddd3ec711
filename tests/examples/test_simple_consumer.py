"""The example of the low-level consumer, on a broker of ours."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from odradek.client import Producer
from odradek.testing import Broker

EXAMPLE = Path(__file__).parents[2] / "examples" / "simple_consumer.py"


def test_it_prints_a_partition(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker:
        broker.create_topic("words", partitions=1)
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for word in ("one", "two", "three"):
                producer.send("words", word)
        arguments = ["--servers", broker.bootstrap_servers, "--topic", "words"]
        monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *arguments])
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert capsys.readouterr().out == "0: one\n1: two\n2: three\n"
