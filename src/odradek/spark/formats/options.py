"""The options of typed columns: `value.format`, `value.schema`, …, the same for `key`, `headers.format`,
`mode`.

Every complaint is a `ValueError` that names the option and says what to write instead. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from odradek.security.ssl_configs import SSL_CONFIGS
from odradek.serdes.registry_config import RegistryConfig
from odradek.spark.option_values import Given
from odradek.util.java_text import java_trim

SIDES = ("key", "value")
PERMISSIVE = "permissive"
DROPMALFORMED = "dropmalformed"
FAILFAST = "failfast"

SCALARS = {
    "string": "string",
    "uuid": "string",
    "boolean": "boolean",
    "short": "smallint",
    "int": "int",
    "integer": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
}
"""Kafka's serdes of single values, as it names them, with the DDL of their columns."""
WIDTHS = {"boolean": 1, "short": 2, "int": 4, "integer": 4, "long": 8, "float": 4, "double": 8}
STRUCTURED = ("json", "avro", "protobuf")
FORMATS = ("binary", "bytes", *SCALARS, *STRUCTURED)
UNITS_US = {"s": 1_000_000, "ms": 1000, "us": 1}

_REGISTRY_SSL = tuple(f"schema.registry.{name}" for name in sorted(SSL_CONFIGS))
_SHARED = ("schema.registry.url", "schema.registry.basic.auth.user.info", *_REGISTRY_SSL)
_OF_A_SIDE = ("format", "schema", "schema.message", "schema.subject", *_SHARED)
SOURCE_OPTIONS = (
    *(f"{side}.{name}" for side in SIDES for name in (*_OF_A_SIDE, "schema.version", "timestamp.unit")),
    *_SHARED,
    "headers.format",
    "mode",
    "deadLetterTopic",
)
SINK_OPTIONS = (
    *(f"{side}.{name}" for side in SIDES for name in (*_OF_A_SIDE, "schema.register")),
    *_SHARED,
)


@dataclass(frozen=True)
class SideOptions:
    """The options of the key or of the value.

    Attributes:
        side: key or value.
        format: one of `FORMATS`, not binary.
        schema: the text of the schema, or empty.
        descriptors: the bytes of a protobuf descriptor file, or empty.
        message: the protobuf message's name, or empty.
        registry: where schemas are registered; None: records have no id of a schema.
        subject: under which they are; empty: the topic's name and "-key" or "-value".
        version: of the subject, or "latest".
        unit_us: microseconds in a plain number that is a timestamp.
        register: whether a writer may register its schema.
    """

    side: str
    format: str
    schema: str = ""
    descriptors: bytes = b""
    message: str = ""
    registry: RegistryConfig | None = None
    subject: str = ""
    version: str = "latest"
    unit_us: int = 1_000_000
    register: bool = True


@dataclass(frozen=True)
class Malformed:
    """The treatment of records that do not have the format.

    Attributes:
        mode: permissive, dropmalformed or failfast.
        dead_letter_topic: where they are written to as well, or None.
    """

    mode: str = PERMISSIVE
    dead_letter_topic: str | None = None


def wants_types(given: Given) -> bool:
    """Return whether any option asks for typed columns."""
    return any(f"{side}.format" in given for side in SIDES) or "headers.format" in given


def source_sides(given: Given) -> dict[str, SideOptions]:
    """The sides that a read decodes.

    Raises:
        ValueError: an option cannot be used.
    """
    sides = {side: options for side in SIDES if (options := _side(given, side)) is not None}
    for name in ("mode", "deadLetterTopic"):
        if name in given and not sides:
            raise ValueError(f"{name} is for malformed records: it needs value.format or key.format")
    return sides


def sink_sides(given: Given) -> dict[str, SideOptions]:
    """The sides that a write encodes.

    Raises:
        ValueError: an option cannot be used.
    """
    return {side: options for side in SIDES if (options := _side(given, side)) is not None}


def headers_as_map(given: Given) -> bool:
    """`headers.format`.

    Raises:
        ValueError: it is neither `array` nor `map`.
    """
    return "headers.format" in given and given.choice("headers.format", ("array", "map")) == "map"


def malformed(given: Given) -> Malformed:
    """`mode` and `deadLetterTopic`.

    Raises:
        ValueError: one of them cannot be used, or the two do not go together.
    """
    mode = given.choice("mode", (PERMISSIVE, DROPMALFORMED, FAILFAST))
    topic = given.text("deadLetterTopic")
    if topic == "":
        raise ValueError("deadLetterTopic must name a topic, got an empty name")
    if topic is not None and mode == FAILFAST:
        raise ValueError(
            "deadLetterTopic collects malformed records, and mode FAILFAST stops at the first: say mode "
            "PERMISSIVE or DROPMALFORMED"
        )
    return Malformed(mode, topic)


def _side(given: Given, side: str) -> SideOptions | None:
    kind = given.text(f"{side}.format")
    if kind is None or kind.lower() in ("binary", "bytes"):
        for name in SOURCE_OPTIONS + SINK_OPTIONS:
            if name.startswith(f"{side}.") and name != f"{side}.format" and name in given:
                raise ValueError(f"{name} needs {side}.format: say which format, as in {side}.format 'json'")
        return None
    kind = kind.lower()
    if kind not in FORMATS:
        raise ValueError(f"{side}.format must be one of {', '.join(FORMATS)}; got '{kind}'")
    _refuse_what_is_not_of(given, side, kind)
    text = given.text(f"{side}.schema") or ""
    descriptors = b""
    if kind == "protobuf" and text:
        descriptors, text = _file(side, text, "a protobuf descriptor file"), ""
    elif kind == "avro" and text.endswith(".avsc"):
        text = _file(side, text, "an Avro schema").decode()
    unit = given.choice(f"{side}.timestamp.unit", ("s", "ms", "us"))
    return SideOptions(
        side,
        kind,
        text,
        descriptors,
        given.text(f"{side}.schema.message") or "",
        _registry(given, side) if kind in STRUCTURED else None,
        given.text(f"{side}.schema.subject") or "",
        given.text(f"{side}.schema.version") or "latest",
        UNITS_US[unit],
        given.boolean(f"{side}.schema.register", True),
    )


def _refuse_what_is_not_of(given: Given, side: str, kind: str) -> None:
    if kind not in STRUCTURED:
        for name in SOURCE_OPTIONS + SINK_OPTIONS:
            if name.startswith(f"{side}.") and name != f"{side}.format" and name in given:
                raise ValueError(
                    f"{name} has no meaning with {side}.format '{kind}'; it is for {', '.join(STRUCTURED)}"
                )
    if f"{side}.schema.message" in given and kind != "protobuf":
        raise ValueError(f"{side}.schema.message names a protobuf message, and {side}.format is '{kind}'")
    if f"{side}.schema.version" in given:
        version = given.text(f"{side}.schema.version") or ""
        if version != "latest" and not version.isdigit():
            raise ValueError(f"{side}.schema.version must be a number or 'latest', got '{version}'")


def _registry(given: Given, side: str) -> RegistryConfig | None:
    urls = given.text(f"{side}.schema.registry.url") or given.text("schema.registry.url")
    if not urls:
        for name in ("schema.subject", "schema.version", *_REGISTRY_SSL):
            if f"{side}.{name}" in given:
                raise ValueError(
                    f"{side}.{name} is for schemas of a registry: say where it is with "
                    f"{side}.schema.registry.url"
                )
        return None
    addresses = tuple(url.strip().rstrip("/") for url in urls.split(",") if url.strip())
    for url in addresses:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{side}.schema.registry.url must begin with http:// or https://, got '{url}'")
    name = "schema.registry.basic.auth.user.info"
    user_info = java_trim(given.text(f"{side}.{name}") or given.text(name) or "")
    if user_info and ":" not in user_info:
        raise ValueError(f"{side}.{name} must be user:password")
    ssl = _registry_ssl(given, side, addresses)
    return RegistryConfig(addresses, user_info, ssl=ssl, prefix=f"{side}.schema.registry.")


def _registry_ssl(given: Given, side: str, urls: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """The `ssl.*` configs of one side: its own, else the shared ones, each for itself."""
    configs = {}
    for name in _REGISTRY_SSL:
        value = given.text(f"{side}.{name}")
        if value is None:
            value = given.text(name)
        if value is not None:
            configs[name.removeprefix("schema.registry.")] = java_trim(value)
    if configs and not any(url.startswith("https://") for url in urls):
        raise ValueError(
            f"schema.registry.{next(iter(configs))} is for TLS: {side}.schema.registry.url must begin with "
            f"https://, got '{urls[0]}'"
        )
    return tuple(configs.items())


def _file(side: str, path: str, content: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise ValueError(
            f"{side}.schema must be the path of {content}; '{path}': {problem.strerror}"
        ) from None
