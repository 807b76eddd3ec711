"""`odradek schema-registry`: run a schema registry.

Standard output carries one line, `ready URL`, when the registry answers; everything else is logged on
standard error. SIGTERM and Ctrl-C stop it in good order. A start that fails says why, exit code 1.
"""

from __future__ import annotations

import logging
import threading
from contextlib import closing

import click

from odradek.cli.tool import Tool, key_values, read_properties
from odradek.util.stack_dumps import dumps_on_sigquit


@click.command(cls=Tool, name="schema-registry")
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False),
    help="A schema-registry.properties of Confluent's; options given here win.",
)
@click.option(
    "--listeners",
    metavar="URL",
    help="Where to listen: http://HOST:PORT or https://…; port 0 takes a free one. [default: "
    "http://127.0.0.1:8081]",
)
@click.option(
    "--kafkastore-bootstrap-servers",
    "--bootstrap-server",
    "bootstrap_servers",
    metavar="HOST:PORT[,…]",
    help="The brokers that keep the schemas (kafkastore.bootstrap.servers); without, memory does.",
)
@click.option("--kafkastore-topic", "topic", help="The topic of the schemas. [default: _schemas]")
@click.option(
    "--schema-compatibility-level",
    "level",
    help="The compatibility level where no config says one. [default: backward]",
)
@click.option(
    "--set", "settings", metavar="KEY=VALUE", multiple=True, help="A config by Confluent's name; repeatable."
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    show_default=True,
)
@dumps_on_sigquit()
def command(
    config_file: str | None,
    listeners: str | None,
    bootstrap_servers: str | None,
    topic: str | None,
    level: str | None,
    settings: tuple[str, ...],
    log_level: str,
) -> None:
    """Run a schema registry that speaks the REST interface of Confluent's."""
    from odradek.schema_registry.server import SchemaRegistryServer
    from odradek.schema_registry.server_configs import read_server_config

    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    options = {
        "listeners": listeners,
        "kafkastore.bootstrap.servers": bootstrap_servers,
        "kafkastore.topic": topic,
        "schema.compatibility.level": level,
    }
    properties = read_properties(config_file) | key_values(settings, "--set")
    properties |= {name: value for name, value in options.items() if value is not None}
    with closing(SchemaRegistryServer(read_server_config(properties))) as server:
        click.echo(f"ready {server.url}")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            # SIGTERM too comes as one (`ends_by_sigterm`).
            logging.getLogger(__name__).info("stopping")
