"""The files by which docs/deploying.md runs brokers say what the server and the tools take."""

from __future__ import annotations

import configparser
from typing import Any

import click
import pytest
import yaml

from odradek.broker.process.options import read_config
from odradek.cli.main import main

from .blocks import ROOT

COMPOSE = ROOT / "image/compose"
SERVICES: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text(encoding="utf-8"))["services"]
WORKFLOW = yaml.safe_load((ROOT / "image/workflow.yml").read_text(encoding="utf-8"))
BROKERS = ["broker-1", "broker-2", "broker-3"]


def parsed(words: list[str]) -> dict[str, Any]:
    """Return the options of a command as the tool takes them."""
    assert words[0] == "odradek"
    command = main.get_command(click.Context(main), words[1])
    assert command is not None, words
    return command.make_context(words[1], words[2:], resilient_parsing=True).params


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_brokers_configs_are_taken(number: int) -> None:
    service = SERVICES[f"broker-{number}"]
    words = [word for word in service["command"] if word != "/etc/odradek/cluster.properties"]
    overrides = dict(setting.split("=", 1) for setting in parsed(words)["settings"])
    config = read_config(COMPOSE / "cluster.properties", overrides)
    assert config.broker_id == number
    assert config.zookeeper_connect == "zookeeper:2181"
    advertised = {str(endpoint.listener): endpoint for endpoint in config.advertised_endpoints}
    assert (advertised["INSIDE"].host, advertised["INSIDE"].port) == (f"broker-{number}", 19092)
    # A client outside comes back by the port that is published.
    outside = advertised["OUTSIDE"]
    assert service["ports"] == [f"127.0.0.1:{outside.port}:9092"]


def test_the_console_asks_all_brokers() -> None:
    service = SERVICES["console"]
    options = parsed(service["command"])
    assert options["bootstrap_server"] == ",".join(f"{name}:19092" for name in BROKERS)
    assert service["ports"] == [f"127.0.0.1:8090:{options['port']}"]


def test_prometheus_reads_all_brokers() -> None:
    config = yaml.safe_load((COMPOSE / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = config["scrape_configs"]
    (static,) = job["static_configs"]
    assert static["targets"] == [f"{name}:9404" for name in BROKERS]
    own = {"advertised.listeners": "INSIDE://broker-1:19092"}
    assert read_config(COMPOSE / "cluster.properties", own).odradek_metrics_port == 9404


def test_what_is_mounted_is_there() -> None:
    mounted = [
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", ())
        if volume.startswith(".")
    ]
    assert mounted
    for path in mounted:
        assert (COMPOSE / path).exists(), path


def test_nothing_is_published_beyond_this_machine() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_unit_starts_a_server_that_says_when_it_is_ready() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(ROOT / "packaging/odradek.service", encoding="utf-8")
    service = unit["Service"]
    assert service["ExecStart"] == "/opt/odradek/bin/odradek server /etc/odradek/server.properties"
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "main")


def test_the_workflow_runs_a_mock_with_its_options() -> None:
    steps = WORKFLOW["jobs"]["other-languages"]["steps"]
    (script,) = [step["run"] for step in steps if "odradek mock" in step.get("run", "")]
    (line,) = [line for line in script.splitlines() if "odradek mock" in line]
    options = parsed(line.partition(">")[0].split())
    assert (options["port"], options["control_port"]) == (9092, 8082)
