"""`odradek wire`: protocol messages between their bytes and Kafka's JSON form.

Bytes are read and written in hex, so that they can be pasted from a debugger or a packet dump: white space
and colons in the input do not matter.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from odradek.cli.suggesting import SuggestingGroup
from odradek.cli.tool import Tool, bootstrap_option
from odradek.errors import OdradekError, ProtocolError
from odradek.wire.api import ApiKey, response_header_version
from odradek.wire.check import check_line, message_class, read_golden, unknown_tags
from odradek.wire.headers import (
    RequestHeader,
    ResponseHeader,
    decode_request_header,
    encode_request,
    encode_response,
)
from odradek.wire.message import Data, Message
from odradek.wire.messages import request_class, response_class

KINDS = ["request", "response", "data"]


def parse_key(text: str) -> ApiKey:
    """Read an API key: its number, or its name in any case.

    Raises:
        click.BadParameter: no such key.
    """
    if text.lstrip("-").isdigit():
        if int(text) in set(ApiKey):
            return ApiKey(int(text))
    else:
        plain = text.replace("_", "").replace("-", "").lower()
        for key in ApiKey:
            if key.api_name.lower() == plain:
                return key
    raise click.BadParameter(f"there is no API key {text!r} (see `odradek wire list`)", param_hint="--key")


def pick_class(kind: str, key: str | None, name: str | None) -> type[Message]:
    """The class that the options name.

    Raises:
        click.UsageError: the options do not go together, or name nothing.
    """
    if kind == "data":
        if name is None:
            raise click.UsageError("--kind data needs --name, for example --name OffsetCommitValue")
        try:
            return message_class(None, name, "data")
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    if key is None:
        raise click.UsageError(f"--kind {kind} needs --key")
    return (request_class if kind == "request" else response_class)(parse_key(key))


def pick_version(cls: type[Message], version: int | None) -> int:
    """The version that is asked for, the newest if none is.

    Raises:
        click.BadParameter: the message has no such version.
    """
    if version is None:
        return cls.VERSIONS[-1]
    if version not in cls.VERSIONS:
        versions = f"{cls.VERSIONS[0]} to {cls.VERSIONS[-1]}"
        raise click.BadParameter(
            f"{cls.__name__} has no version {version} (known: {versions})", param_hint="--version"
        )
    return version


def read_hex(text: str) -> bytes:
    """Read hex digits with white space, colons or a leading 0x.

    Raises:
        click.ClickException: something else is in it.
    """
    digits = "".join(text.split()).replace(":", "").removeprefix("0x")
    try:
        return bytes.fromhex(digits)
    except ValueError as error:
        raise click.ClickException(f"standard input is not hex: {error}") from None


_shared = [
    click.option("--key", help="API key: a number or a name (0, Produce)."),
    click.option("--version", type=int, help="The message's version; the newest if left out."),
    click.option("--kind", type=click.Choice(KINDS), default="request", show_default=True),
    click.option("--name", help="With --kind data: the schema (OffsetCommitValue, …)."),
    click.option(
        "--with-header",
        is_flag=True,
        help="The header stands in front (of data: the two bytes of version or record type).",
    ),
]


def shared_options(function: Any) -> Any:
    """Add the options that decode and encode have in common."""
    for option in reversed(_shared):
        function = option(function)
    return function


@click.group(cls=SuggestingGroup, context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Decode, encode and check protocol messages."""


@command.command()
@shared_options
@click.option("--compact", is_flag=True, help="Print the JSON on one line.")
@click.argument("source", type=click.File("r"), default="-")
def decode(
    key: str | None,
    version: int | None,
    kind: str,
    name: str | None,
    with_header: bool,
    compact: bool,
    source: Any,
) -> None:
    """Turn hex on standard input into Kafka's JSON.

    Of a request with its header, --key and --version may be left out: the header names them.
    """
    data = read_hex(source.read())
    try:
        if with_header and kind != "data":
            message, document = _decode_framed(data, key, version, kind)
        elif with_header:
            cls = pick_class(kind, key, name)
            if not issubclass(cls, Data):
                raise click.UsageError(f"nothing stands in front of {cls.__name__}")
            message = cls.decode_prefixed(data)
            document = message.to_json(cls.VERSIONS[-1] if cls.RECORD_TYPE is not None else _version_of(data))
        else:
            cls = pick_class(kind, key, name)
            version = pick_version(cls, version)
            message = cls.decode(data, version)
            document = message.to_json(version)
    except OdradekError as error:
        raise click.ClickException(str(error)) from None
    click.echo(json.dumps(document, ensure_ascii=False, indent=None if compact else 2))
    for tag in unknown_tags(message):
        click.echo(f"unknown tagged field at {tag['path'] or '/'}: {tag['tag']} = {tag['hex']}", err=True)


def _version_of(data: bytes) -> int:
    return int.from_bytes(data[:2], "big", signed=True)


def _decode_framed(
    data: bytes, key: str | None, version: int | None, kind: str
) -> tuple[Message, dict[str, Any]]:
    """Decode a header and the message behind it."""
    if kind == "request":
        header, start = decode_request_header(data)
        cls = request_class(header.api_key)
        if header.api_version not in cls.VERSIONS:
            raise ProtocolError(f"the header names version {header.api_version} of {cls.__name__}")
        message, end = cls.decode_from(data, header.api_version, start)
        version = header.api_version
        shown = header.to_json(2)
    else:
        cls = pick_class(kind, key, None)
        version = pick_version(cls, version)
        header_version = response_header_version(cls.API_KEY, version)
        answer, start = ResponseHeader.decode_from(data, header_version)
        message, end = cls.decode_from(data, version, start)
        shown = answer.to_json(header_version)
    if end != len(data):
        raise ProtocolError(f"{cls.__name__} v{version}: {len(data) - end} bytes left over")
    return message, {"header": shown, "body": message.to_json(version)}


@command.command()
@shared_options
@click.argument("source", type=click.File("r"), default="-")
def encode(
    key: str | None, version: int | None, kind: str, name: str | None, with_header: bool, source: Any
) -> None:
    """Turn Kafka's JSON on standard input into hex.

    With a header, the JSON is what `decode --with-header` prints: an object of `header` and `body`. The
    size in front of a frame is not written.
    """
    cls = pick_class(kind, key, name)
    version = pick_version(cls, version)
    try:
        document = json.load(source)
    except ValueError as error:
        raise click.ClickException(f"standard input is not JSON: {error}") from None
    try:
        if with_header and kind != "data":
            click.echo(_encode_framed(cls, version, kind, document).hex())
        elif with_header and issubclass(cls, Data):
            click.echo(cls.from_json(document, version).encode_prefixed(version).hex())
        else:
            click.echo(cls.from_json(document, version).encode(version).hex())
    except OdradekError as error:
        raise click.ClickException(str(error)) from None


def _encode_framed(cls: type[Message], version: int, kind: str, document: Any) -> bytes:
    """Encode a header and the message behind it, without the size."""
    if not isinstance(document, dict) or set(document) != {"header", "body"}:
        raise click.ClickException("an object of header and body is expected")
    message = cls.from_json(document["body"], version)
    if kind == "request":
        header = RequestHeader.from_json(document["header"], 2)
        if (header.api_key, header.api_version) != (cls.API_KEY, version):
            raise click.ClickException(
                f"the header names key {header.api_key} version {header.api_version}, "
                f"the options {int(cls.API_KEY)} version {version}"
            )
        parts = encode_request(cls.API_KEY, version, header.correlation_id, header.client_id, message)
    else:
        answer = ResponseHeader.from_json(document["header"], 0)
        parts = encode_response(cls.API_KEY, version, answer.correlation_id, message)
    return b"".join(parts)[4:]


@command.command("list")
def list_keys() -> None:
    """List the API keys with their versions."""
    for key in ApiKey:
        versions = request_class(key).VERSIONS
        flexible = "" if key.flexible_from is None else f"  flexible from {key.flexible_from}"
        click.echo(f"{int(key):3}  {key.api_name:38} {versions[0]} to {versions[-1]:2}{flexible}")


@command.command()
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--show", default=5, show_default=True, help="How many differences to print for each file.")
def check(files: tuple[Path, ...], show: int) -> None:
    """Compare the codec with golden files (.jsonl, .jsonl.gz): JSON beside Kafka's own bytes."""
    total = wrong = 0
    for path in files:
        count, differences = _check_file(path)
        click.echo(f"{path.name}: {count} messages, {len(differences)} differ")
        for difference in differences[:show]:
            click.echo(f"  {difference}")
        total += count
        wrong += len(differences)
    if len(files) > 1:
        click.echo(f"{len(files)} files: {total} messages, {wrong} differ")
    if wrong:
        raise SystemExit(1)


def _check_file(path: Path) -> tuple[int, list[str]]:
    """Check one file.

    Returns:
        How many messages it has, and what differs.

    Raises:
        click.ClickException: it is not a golden file.
    """
    count, differences = 0, []
    try:
        for line in read_golden(path):
            count += 1
            differing = check_line(line)
            if differing:
                message_name = (
                    f"{line['name']} {line['kind']} v{line['version']} {line.get('case', '')}".rstrip()
                )
                differences.append(f"line {count}, {message_name}: {'; '.join(differing)}")
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise click.ClickException(f"{path}, line {count + 1}: not a golden file ({reason})") from None
    return count, differences


_listen_options = [
    click.option(
        "--listen",
        "port",
        type=click.IntRange(0, 65535),
        default=0,
        help="The port for clients. [default: a free one]",
    ),
    click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on."),
]


def listen_options(function: Any) -> Any:
    """Add the options that `record` and `play` have in common."""
    for option in reversed(_listen_options):
        function = option(function)
    return function


@command.command(cls=Tool)
@listen_options
@bootstrap_option()
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The file of the transcript (.jsonl, .jsonl.gz).",
)
@click.option(
    "--mask",
    "kinds",
    metavar="KIND[,…]",
    default="",
    help="Hide keys, values, names, credentials, or all of these; what a login says is hidden always.",
)
def record(port: int, host: str, bootstrap_server: str, output: Path, kinds: str) -> None:
    """Stand between clients and brokers, and write down what they say.

    Clients connect to the address that is printed, `ready HOST:PORT`. Ctrl-C or SIGTERM ends it.
    """
    from odradek.cli.wire_transcripts import record

    record(port, host, bootstrap_server, output, kinds)


@command.command(cls=Tool)
@click.argument("transcript", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@listen_options
@click.option(
    "--loosely",
    is_flag=True,
    help="Tell requests by API and version alone, as those of a masked transcript.",
)
def play(transcript: Path, port: int, host: str, loosely: bool) -> None:
    """Serve clients from a transcript, and say where they depart from it.

    It ends when all of the transcript was asked for and the clients have gone, or by Ctrl-C or SIGTERM; with
    exit code 1 where a client has departed from it.
    """
    from odradek.cli.wire_transcripts import play

    if play(transcript, port, host, loosely=loosely):
        raise click.exceptions.Exit(1)
