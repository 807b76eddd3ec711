"""The page that produces a record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from odradek.client.aio.producer import AsyncProducer
from odradek.console.forms import Form, FormError, name_values
from odradek.console.pages.topics import topic_path
from odradek.console.visit import Visit
from odradek.errors import OdradekError
from odradek.serdes.subject_names import SerializationContext

FORMS = ("text", "json", "hex", "schema", "null")
TIMEOUT_MS = 8_000


async def produce_page(visit: Visit) -> Response:
    """Show the form."""
    name = visit.request.path_params["name"]
    await visit.admin.describe_topics([name])
    return _form(visit, name, {}, "")


async def produce(visit: Visit) -> Response:
    """Produce a record, and tell where it is; the form stays as it was, for the next one."""
    name = visit.request.path_params["name"]
    form = visit.form
    try:
        key = await _data(visit, name, "key")
        value = await _data(visit, name, "value")
        headers = [
            (header, data.encode("utf-8")) for header, data in name_values(form.get("headers", ""), "Headers")
        ]
        partition = form.optional_number("partition", "Partition", least=0)
        async with AsyncProducer(_configs(visit.session.client_configs)) as producer:
            done = await producer.send_and_wait(name, value, key, partition, headers=headers)
    except (ValueError, OdradekError) as error:
        return _form(visit, name, form, str(error))
    visit.session.notices.append(("done", f"Produced: partition {done.partition}, offset {done.offset}."))
    return _form(visit, name, form, "")


def _form(visit: Visit, name: str, values: Mapping[str, str], problem: str) -> Response:
    context = {
        "name": name,
        "path": topic_path(name),
        "values": values,
        "problem": problem,
        "forms": [form for form in FORMS if form != "schema" or visit.decoder.registry is not None],
        "line": visit.command_lines.produce(name),
    }
    return visit.page("produce.html", context, 400 if problem else 200)


def _configs(configs: Mapping[str, Any]) -> dict[str, Any]:
    """The configs of a producer, which waits no longer than a person does."""
    kept = {name: value for name, value in configs.items() if name != "default_api_timeout_ms"}
    bounds = {
        "max_block_ms": TIMEOUT_MS,
        "delivery_timeout_ms": TIMEOUT_MS,
        "request_timeout_ms": TIMEOUT_MS - 1000,
    }
    return {**kept, **bounds}


async def _data(visit: Visit, topic: str, field: str) -> bytes | None:
    """The bytes of a key or a value.

    Raises:
        FormError: the text is not of its form.
        OdradekError: the registry cannot be asked, or the schema refuses the value.
    """
    form: Form = visit.form
    kind, text = form.text(f"{field}_form"), form.get(field, "").replace("\r\n", "\n")
    label = field.capitalize()
    if kind == "null":
        return None
    if kind == "hex":
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise FormError(f"{label}: it is not in hex, like 00 ff 1a.") from None
    if kind in ("json", "schema"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise FormError(f"{label}: it is not JSON: {error}") from error
        if kind == "schema":
            return await asyncio.to_thread(_by_schema, visit, SerializationContext(topic, field), value)
    elif kind != "text":
        raise FormError(f"{label}: its form, {kind!r}, is none of {', '.join(FORMS)}.")
    return text.encode("utf-8")


def _by_schema(visit: Visit, context: SerializationContext, value: Any) -> bytes | None:
    """A value by the newest schema of the topic's subject.

    Raises:
        FormError: there is no way to write it here.
        OdradekError: the registry cannot be asked, or the schema refuses the value.
    """
    from odradek.serdes.avro import AvroSerializer
    from odradek.serdes.json_schema import JSONSerializer

    registry = visit.decoder.registry
    if registry is None:
        raise FormError("The console was started without --schema-registry.")
    newest = registry.get_latest_version(f"{context.topic}-{context.field}").schema.schema_type
    conf = {"auto.register.schemas": False, "use.latest.version": True}
    if newest == "AVRO":
        return AvroSerializer(registry, conf=conf)(value, context)
    if newest == "JSON":
        return JSONSerializer(None, registry, conf=conf)(value, context)
    raise FormError(f"{context.field.capitalize()}: {newest} schemas can be read here, but not written by.")
