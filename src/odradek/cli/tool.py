"""What the tools share: how they end on an error, how they name a cluster, how they read client configs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from odradek.errors import OdradekError
from odradek.util.properties import load_properties

F = TypeVar("F", bound=Callable[..., Any])
#: A person waits: brokers that cannot be reached are reported sooner than a program's client would.
UNREACHABLE_AFTER_MS = 15_000


class Tool(click.Command):
    """A command whose expected failures end in one line on standard error and exit code 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; turn an error of ours, or of the system, into a message."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of our output has gone, as `head` does. Nothing is wrong, and nobody can be told.
            os._exit(1)
        except (OdradekError, OSError) as error:
            raise click.ClickException(str(error) or type(error).__name__) from error


def bootstrap_option(*more_names: str, required: bool = True) -> Callable[[F], F]:
    """`--bootstrap-server`, with older names that mean the same."""
    return click.option(
        "--bootstrap-server",
        *more_names,
        "bootstrap_server",
        required=required,
        metavar="HOST:PORT[,…]",
        help="The brokers to ask first.",
    )


def command_config_option(*names: str) -> Callable[[F], F]:
    """A properties file of client configs, by default `--command-config`."""
    return click.option(
        *(names or ("--command-config",)),
        "config_file",
        type=click.Path(exists=True, dir_okay=False),
        help="A properties file with client configs.",
    )


def key_values(pairs: Iterable[str], option: str) -> dict[str, str]:
    """`("a=1", "b=2")` → `{"a": "1", "b": "2"}`.

    Raises:
        click.BadParameter: a word without `=`.
    """
    out: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{pair!r} is not key=value", param_hint=option)
        out[key.strip()] = value
    return out


def client_configs(
    bootstrap_server: str,
    config_file: str | None = None,
    properties: Iterable[str] = (),
    option: str = "--property",
    **ours: object,
) -> dict[str, Any]:
    """Configs for a client: the tool's own, then the file's, then `key=value` words; the last wins."""
    configs: dict[str, Any] = {"default_api_timeout_ms": UNREACHABLE_AFTER_MS}
    configs |= {key: value for key, value in ours.items() if value is not None}
    if config_file is not None:
        configs |= {key.replace(".", "_"): value for key, value in load_properties(config_file).items()}
    configs |= {key.replace(".", "_"): value for key, value in key_values(properties, option).items()}
    return configs | {"bootstrap_servers": bootstrap_server}


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a Kafka topic expression means: a regular expression, with `,` for "or"; sorted.

    Raises:
        click.BadParameter: it is not a regular expression.
    """
    import re

    try:
        expression = re.compile(pattern.strip().strip("\"'").replace(",", "|").replace(" ", ""))
    except re.error as error:
        raise click.BadParameter(f"{pattern!r} is not a regular expression: {error}") from error
    return sorted(name for name in names if expression.fullmatch(name))


def table(rows: list[list[str]], widths: Iterable[int]) -> Iterable[str]:
    """Rows as Kafka's tools print them: left-justified, each column at least so wide, one blank between.

    The last column is not padded.
    """
    least = list(widths)
    columns = [max(w, *(len(row[i]) for row in rows)) if w else 0 for i, w in enumerate(least)]
    for row in rows:
        yield " ".join(
            f"{cell:<{width}}" if width else cell for cell, width in zip(row, columns, strict=True)
        )
