"""The packages that odradek's extras bring, and the command that installs them.

odradek is in no registry: `pip install 'odradek[tls]'` finds nothing there, or a stranger's package. So
messages and `odradek doctor` name the packages themselves, with the pip of the Python that runs.
"""

from __future__ import annotations

import re
import shlex
import sys
from typing import NamedTuple


class Extra(NamedTuple):
    """An extra of pyproject.toml.

    Attributes:
        package: the one of its packages that the others are there for.
        gain: what there is with it.
    """

    package: str
    gain: str


EXTRAS = {
    "arrow": Extra("pyarrow", "poll_arrow, send_arrow, Spark"),
    "spark": Extra("pyspark", "the Spark pipeline"),
    "avro": Extra("fastavro", "serializers of Avro, and Avro written from typed columns"),
    "json": Extra("jsonschema", "serializers of JSON Schema"),
    "protobuf": Extra("protobuf", "serializers of protobuf, and typed columns of it in Spark"),
    "registry": Extra("grpcio-tools", "protobuf's schemas as text, as in odradek schema-registry"),
    "metrics": Extra("prometheus-client", "metrics of Spark's queries for Prometheus"),
    "console": Extra("starlette", "the web console, odradek console"),
    "otel": Extra("opentelemetry-api", "spans of what clients send and read, by odradek.client.tracing"),
    "tls": Extra(
        "cryptography", "PKCS12 stores, client certificates at a broker, passwords in dynamic configs"
    ),
    "oauth": Extra("pyjwt", "logins by OAUTHBEARER"),
    "kerberos": Extra("gssapi", "logins by GSSAPI"),
    "zookeeper": Extra("kazoo", "brokers that share a ZooKeeper: a cluster"),
}

FOR_DEVELOPMENT = frozenset({"test", "dev", "docs"})
"""Extras for those who work on odradek itself, in a checkout."""


def requirements(extra: str | None) -> list[str]:
    """Return what odradek requires, always or for an extra, as pip takes it; nothing where it is not
    installed.
    """
    # Here, as it takes a while, and is asked for when something is missing.
    import importlib.metadata

    try:
        requirement_texts = importlib.metadata.requires("odradek") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    wanted = []
    for text in requirement_texts:
        requirement, _, marker = (part.strip() for part in text.partition(";"))
        of_extra = re.search(r"""extra\s*==\s*["']([\w-]+)["']""", marker)
        if (of_extra[1] if of_extra else None) == extra:
            wanted.append(requirement)
    return wanted


def pip(*words: str) -> str:
    """A command line of the pip that belongs to this Python."""
    return shlex.join([sys.executable or "python", "-m", "pip", *words])


def install(extra: str) -> str:
    """Return the command that installs the packages of one of `EXTRAS`."""
    return pip("install", *(requirements(extra) or [EXTRAS[extra].package]))
