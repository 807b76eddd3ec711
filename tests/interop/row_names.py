"""Which row of `docs/compatibility.md` a client's test speaks for: family, client, release, registry."""

from __future__ import annotations

import importlib.metadata
import json
import re
import tomllib

from interop import programs

RowName = tuple[str, str, str, str]

REGISTRIES = {"Go": "Go modules", "Node": "npm", "Rust": "crates.io", "Python": "PyPI"}
FRANZ = ("go.mod", "github.com/twmb/franz-go")
KAFKAJS = ("package-lock.json", "kafkajs")


def release(family: str, file: str, name: str) -> str:
    """The release that is built: a module of Go's, a crate, a package of npm's, or one that is installed.

    Args:
        family: `Go`, `Rust`, `Node` or `Python`.
        file: where it stands: a file of modules, a lock file; nothing for what is installed.
        name: of the module, crate or package.
    """
    if family == "Python":
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return "?"
    if file.endswith(".json"):
        lock = json.loads((programs.SOURCES / "node" / file).read_text(encoding="utf-8"))
        return str(lock["packages"][f"node_modules/{name}"]["version"])
    if file == "Cargo.lock":
        crates = tomllib.loads((programs.SOURCES / "rust" / file).read_text(encoding="utf-8"))["package"]
        return str(next(crate["version"] for crate in crates if crate["name"] == name))
    text = (programs.SOURCES / "go" / file).read_text(encoding="utf-8")
    found = re.search(rf"{re.escape(name)} v(\S+)", text)
    assert found is not None, name
    return found[1]


def library(family: str, client: str, released: tuple[str, str]) -> RowName:
    """A library of another language; `released` as `release` has it."""
    return family, client, release(family, *released), REGISTRIES[family]


def java(version: str) -> RowName:
    """Kafka's own clients, its tools among them."""
    return "Java", "Kafka's Java clients", version, "Maven Central"


def kafkas_own(program: str, version: str) -> RowName:
    """A program that Kafka brings and that lives on a Kafka: Streams, Connect, MirrorMaker 2."""
    return "Programs of Kafka's own house", program, version, "Maven Central"


def spark(version: str, connector: str) -> RowName:
    """Spark with its own connector."""
    return "Engines", f"Spark {version}: spark-sql-kafka-0-10", connector, "Maven Central"


def python(distribution: str) -> RowName:
    """A package of PyPI's."""
    return library("Python", distribution, ("", distribution))


SECURED = {
    "franzsecured": library("Go", "franz-go", FRANZ),
    "kafkajssecured": library("Node", "kafkajs", KAFKAJS),
}
"""Of the programs of `secured_programs`."""
