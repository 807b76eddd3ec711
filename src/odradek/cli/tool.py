"""The ground that the tools share: how they end, name a cluster, read client configs, and print.

`exits` has their exit codes. Errors are one line on standard error; standard output has nothing but what was
asked for.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click

from odradek import __version__
from odradek.cli.exits import INTERRUPTED, TERMINATED, Terminated, by_kafkas_rule
from odradek.errors import OdradekError

if TYPE_CHECKING:
    from odradek.client.types import MetricName

F = TypeVar("F", bound=Callable[..., Any])
#: The value of an option that was not given, by its kind.
NOT_GIVEN = (None, False, ())
#: A person waits: brokers that cannot be reached are reported sooner than a program's client would.
UNREACHABLE_AFTER_MS = 15_000


class Tool(click.Command):
    """A command whose expected failures end in one line on standard error and exit code 1.

    Long options may have one dash (`-topic`), as the option parser of Kafka's tools has it.
    """

    def __init__(self, *args: Any, **attributes: Any) -> None:
        attributes.setdefault("context_settings", {"help_option_names": ["-h", "--help"]})
        super().__init__(*args, **attributes)
        click.version_option(__version__, prog_name="odradek")(self)

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        """Parse the words of the command line; a wrong one exits with 1, as with Kafka's tools."""
        with by_kafkas_rule():
            return super().make_context(*args, **more)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse, `-topic` as `--topic`."""
        long = {name for p in self.get_params(ctx) for name in p.opts if name.startswith("--")}
        words = []
        for i, word in enumerate(args):
            if word == "--":
                words += args[i:]
                break
            words.append("-" + word if "-" + word.split("=")[0] in long else word)
        return super().parse_args(ctx, words)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it; turn an error of ours, or of the system, into a message."""
        try:
            with by_kafkas_rule(), ends_by_sigterm(), warnings.catch_warnings():
                warnings.showwarning = _show_warning
                warnings.simplefilter("always", UserWarning)
                result = super().invoke(ctx)
                _flush_output()
                return result
        except BrokenPipeError:
            # The reader of our output has gone, as `head` does. Nothing is wrong, and nobody can be told;
            # what is still in buffers must not be tried again when the interpreter ends.
            os._exit(0)
        except (OdradekError, OSError) as error:
            with suppress(OSError):
                _flush_output()
            raise click.ClickException(str(error) or type(error).__name__) from error


def _flush_output() -> None:
    """Write what is left in the buffer of standard output.

    Raises:
        OSError: it cannot be written, as on a full disk. It is given up, since the interpreter's end would
            try again and fail with a code of its own.
    """
    if sys.stdout is None:  # closed by whoever started the program
        return
    try:
        sys.stdout.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        raise


@contextmanager
def ends_by_sigterm() -> Iterator[None]:
    """Within, SIGTERM comes as the exception `Terminated`: records are sent, groups are left."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_: int, __: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class NotedSignals:
    """While entered, Ctrl-C and SIGTERM are noted, for a program to end where it can; a second ends at once.

    Attributes:
        ended_by: the number of the signal that came.
    """

    def __init__(self) -> None:
        self.ended_by: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> NotedSignals:
        self._before = {
            number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: object) -> None:
        if self.ended_by is not None:
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
        self.ended_by = number

    def leave(self) -> None:
        """End the tool as the signal would have, if one came."""
        if self.ended_by is not None:
            raise click.exceptions.Exit(TERMINATED if self.ended_by == signal.SIGTERM else INTERRUPTED)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning of the client, as of a config that it does not know, is a line for a person."""
    click.echo(f"WARNING: {message}", err=True)


def _zookeeper(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise click.UsageError(
            "--zookeeper: the tools ask brokers, no longer ZooKeeper; "
            "give --bootstrap-server HOST:PORT instead"
        )


def _controller(_ctx: click.Context, _parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise click.UsageError(
            "--bootstrap-controller: the tools ask brokers, which know the controller and ask it in turn; "
            "give --bootstrap-server HOST:PORT instead"
        )


def bootstrap_option(*more_names: str, required: bool = True) -> Callable[[F], F]:
    """`--bootstrap-server`, with older names that mean the same; `--zookeeper` and `--bootstrap-controller`
    (KIP-919) with the remedy."""

    def decorate(function: F) -> F:
        for other, remedy in (("--zookeeper", _zookeeper), ("--bootstrap-controller", _controller)):
            function = click.option(other, hidden=True, is_eager=True, expose_value=False, callback=remedy)(
                function
            )
        return click.option(
            "--bootstrap-server",
            *more_names,
            "bootstrap_server",
            required=required,
            metavar="HOST:PORT[,…]",
            help="The brokers to ask first.",
        )(function)

    return decorate


def command_config_option(*names: str) -> Callable[[F], F]:
    """A properties file of client configs, by default `--command-config`."""
    return click.option(
        *(names or ("--command-config",)),
        "config_file",
        type=click.Path(exists=True, dir_okay=False),
        help="A properties file with client configs.",
    )


def ignored_option(name: str, why: str, *, is_flag: bool = False) -> Callable[[F], F]:
    """An old option that changes nothing any more; it is taken, and a line says so."""

    def note(_ctx: click.Context, _parameter: click.Parameter, value: Any) -> None:
        if value is not None and value is not False:
            click.echo(f"WARNING: {name} has no effect: {why}", err=True)

    return click.option(
        name,
        hidden=True,
        expose_value=False,
        callback=note,
        is_flag=is_flag,
        default=None if not is_flag else False,
    )


def key_values(pairs: Iterable[str], option: str) -> dict[str, str]:
    """`("a=1", "b=2")` → `{"a": "1", "b": "2"}`.

    Raises:
        click.BadParameter: a word without `=`.
    """
    out: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{pair!r} is not key=value", param_hint=option)
        out[key.strip()] = value
    return out


def read_properties(path: str | None) -> dict[str, str]:
    """A properties file, variables of its `config.providers` replaced; empty for None.

    Raises:
        click.ClickException: it cannot be read, or is no properties file.
    """
    if path is None:
        return {}
    from odradek.util.config_providers import resolve
    from odradek.util.properties import load_properties

    try:
        return resolve(load_properties(path))
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{path}: {error}") from error


def python_names(configs: dict[str, str]) -> dict[str, str]:
    """`linger.ms` → `linger_ms`. Serializers are Java's classes, and the tools move bytes: left out."""
    return {
        key.replace(".", "_"): value
        for key, value in configs.items()
        if not key.replace("_", ".").endswith((".serializer", ".deserializer"))
    }


def client_configs(
    bootstrap_server: str,
    config_file: str | None = None,
    properties: Iterable[str] = (),
    option: str = "--command-property",
    **ours: object,
) -> dict[str, Any]:
    """Configs for a client: the tool's own, then the file's, then `key=value` words; the last wins."""
    configs: dict[str, Any] = {"default_api_timeout_ms": UNREACHABLE_AFTER_MS}
    configs |= {key: value for key, value in ours.items() if value is not None}
    configs |= python_names(read_properties(config_file))
    configs |= python_names(key_values(properties, option))
    return configs | {"bootstrap_servers": bootstrap_server}


def matching(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a Kafka topic expression means: a regular expression, with `,` for "or"; sorted.

    As Kafka's TopicFilter.

    Raises:
        click.BadParameter: it is not a regular expression.
    """
    expression = regular_expression(pattern.strip().strip("\"'").replace(",", "|").replace(" ", ""))
    return sorted(name for name in names if expression.fullmatch(name))


def regular_expression(text: str) -> re.Pattern[str]:
    """Compile an expression that Kafka's tool would hand to Java's engine.

    Raises:
        click.BadParameter: it is not a regular expression.
    """
    from odradek.util.java_regex import JavaPatternError, compile_java

    try:
        return compile_java(text)
    except JavaPatternError as error:
        raise click.BadParameter(f"{text!r} is not a regular expression of Java's: {error}") from error


def table(rows: list[list[str]], widths: Iterable[int]) -> Iterable[str]:
    """Rows as Kafka's tools print them: left-justified, each column at least so wide, one blank between.

    A width of 0 means that the column is not padded.
    """
    least = list(widths)
    columns = [max(w, *(len(row[i]) for row in rows)) if w else 0 for i, w in enumerate(least)]
    for row in rows:
        yield " ".join(
            f"{cell:<{width}}" if width else cell for cell, width in zip(row, columns, strict=True)
        )


def metric_lines(metrics: Mapping[MetricName, float]) -> list[str]:
    """Return a client's metrics as Kafka's tools write them: `group:name:{tag=value, …} : value`."""
    texts = {
        f"{name.group}:{name.name}:{{{', '.join('='.join(tag) for tag in name.tags)}}}": value
        for name, value in metrics.items()
    }
    width = max(map(len, texts), default=0)
    lines = [f"{text:<{width}} : {value:.3f}" for text, value in sorted(texts.items())]
    return ["", f"{'Metric Name':<{width}}   Value", *lines]


def json_option() -> Callable[[F], F]:
    """`--json`: what is listed or described, as one JSON document for programs."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document for programs.")


def one_action(options: Mapping[str, Any], actions: Iterable[str], said: str) -> str:
    """Return the one action that is asked for, by an option `do_<action>`.

    Args:
        said: the flags of the actions, as the message has them.

    Raises:
        click.UsageError: none is asked for, or several.
    """
    asked = [action for action in actions if options[f"do_{action}"] not in NOT_GIVEN]
    if len(asked) != 1:
        raise click.UsageError(f"Command must include exactly one action: {said}")
    return asked[0]


def misplaced(
    options: Mapping[str, Any], belongs_to: Mapping[str, Container[str]], action: str
) -> str | None:
    """Return the first option that is given and does not belong to the action; None if all do."""
    return next(
        (
            option
            for option, actions in belongs_to.items()
            if options[option] not in NOT_GIVEN and action not in actions
        ),
        None,
    )


def check_json(as_json: bool, *, lists: bool) -> None:
    """Check that `--json` goes with something that lists or describes.

    Raises:
        click.UsageError: it does not.
    """
    if as_json and not lists:
        raise click.UsageError("--json goes with what lists or describes")


def echo_json(document: object) -> None:
    """One JSON document to standard output: on a terminal indented, else one line."""
    indent = 2 if sys.stdout.isatty() else None
    echo_lines([json.dumps(document, ensure_ascii=False, indent=indent)])


def echo_lines(lines: Iterable[str]) -> None:
    """Lines to standard output, in one write."""
    text = "".join(line + "\n" for line in lines)
    if text:
        sys.stdout.write(text)
        sys.stdout.flush()


def random_id() -> str:
    """Return a new id in Kafka's text form (`Uuid.randomUuid`): 22 characters."""
    from uuid import uuid4

    from odradek.wire.primitives import uuid_to_text

    while True:
        text = uuid_to_text(uuid4().bytes)
        # One that begins with a dash would be taken for an option by the next tool.
        if not text.startswith("-"):
            return text
