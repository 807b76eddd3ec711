"""`odradek console`: the web console.

Standard output carries one line, `ready URL`, when the console answers. With a login by token a second line,
`login URL`, has the token in the part of the address that browsers keep to themselves.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
import threading
from typing import Any

import click

from odradek.cli.tool import Tool, bootstrap_option, client_configs, command_config_option
from odradek.errors import OdradekError

#: A person waits for a page: brokers that do not answer are reported sooner than by other tools.
UNREACHABLE_AFTER_MS = 8_000
LEAST_TOKEN = 16
TOKEN_VARIABLE = "ODRADEK_CONSOLE_TOKEN"
BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@click.command(cls=Tool, name="console")
@bootstrap_option()
@command_config_option()
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="The address to listen at; 0.0.0.0: at all."
)
@click.option("--port", type=click.IntRange(0, 65535), default=8090, show_default=True, help="0: a free one.")
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A name by which browsers call the console, beside localhost and addresses; repeatable.",
)
@click.option(
    "--login",
    type=click.Choice(["token", "sasl"]),
    default="token",
    show_default=True,
    help="By a token, or as a SASL user of the cluster, whose ACLs hold then.",
)
@click.option(
    "--schema-registry",
    metavar="URL",
    help="Read keys and values by the schemas of this registry.",
)
@click.option(
    "--metrics-url",
    "metrics_urls",
    multiple=True,
    metavar="URL",
    help="The metrics port of a broker of odradek, such as http://127.0.0.1:9404; it tells who produces and "
    "consumes what. Repeatable, once for each broker.",
)
@click.option("--until-stdin-ends", is_flag=True, hidden=True)
@click.option("--read-only", is_flag=True, help="Change nothing in the cluster.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    show_default=True,
)
def command(
    bootstrap_server: str,
    config_file: str | None,
    host: str,
    port: int,
    allowed_hosts: tuple[str, ...],
    login: str,
    schema_registry: str | None,
    metrics_urls: tuple[str, ...],
    until_stdin_ends: bool,
    read_only: bool,
    log_level: str,
) -> None:
    """Show a cluster in a browser: any Kafka's. The token of the login is made at the start, or that of the
    variable ODRADEK_CONSOLE_TOKEN."""
    configs = client_configs(
        bootstrap_server,
        config_file,
        client_id="odradek-console",
        default_api_timeout_ms=UNREACHABLE_AFTER_MS,
    )
    token = _token() if login == "token" else None
    if token is None:
        _check_sasl(configs)
    try:
        from odradek.console.server import ConsoleServer, is_loopback
        from odradek.console.settings import ConsoleSettings
    except ModuleNotFoundError as error:
        from odradek.util.extras import install

        raise OdradekError(
            f"the console needs the package {error.name}, which is not there: {install('console')}"
        ) from error

    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for url in metrics_urls:
        if not url.startswith(("http://", "https://")):
            raise click.UsageError(f"--metrics-url: {url} does not begin with http:// or https://")
    registry = None if schema_registry is None else {"url": schema_registry}
    names = frozenset(name.lower() for name in (*allowed_hosts, host))
    settings = ConsoleSettings(configs, token, read_only, names, config_file, registry, metrics_urls)
    if not is_loopback(host):
        click.echo(
            "WARNING: the console speaks HTTP, and others can reach it: put a proxy with TLS before it",
            err=True,
        )
    with ConsoleServer(settings, host, port) as server:
        click.echo(f"ready {server.url}")
        if token is not None:
            click.echo(f"login {server.url}/login#{token}")
        try:
            if until_stdin_ends:
                sys.stdin.buffer.read()
            else:
                threading.Event().wait()
        except KeyboardInterrupt:
            # SIGTERM too comes as one (`ends_by_sigterm`).
            logging.getLogger(__name__).info("stopping")


def _token() -> str:
    """The token of the environment, or a new one.

    Raises:
        OdradekError: that of the environment is easily guessed.
    """
    given = os.environ.get(TOKEN_VARIABLE)
    if given is None:
        return secrets.token_urlsafe(24)
    if len(given) < LEAST_TOKEN:
        raise OdradekError(f"{TOKEN_VARIABLE} is shorter than {LEAST_TOKEN} signs: easily guessed")
    return given


def _check_sasl(configs: dict[str, Any]) -> None:
    """Check that users can log in by name and password.

    Raises:
        click.UsageError: the configs do not say how.
    """
    protocol = str(configs.get("security_protocol", "PLAINTEXT")).upper()
    mechanism = str(configs.get("sasl_mechanism", "GSSAPI")).upper()
    if not protocol.startswith("SASL_") or mechanism not in BY_PASSWORD:
        raise click.UsageError(
            "--login sasl: the file of --command-config has to have security.protocol=SASL_SSL (or "
            f"SASL_PLAINTEXT) and sasl.mechanism, one of {', '.join(BY_PASSWORD)}"
        )
