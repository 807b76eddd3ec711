"""The recorded ZooKeeper data of real Kafka clusters, 2.2.2 and 3.9.1."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "golden" / "zookeeper"
VERSIONS = ("2.2.2", "3.9.1")

Znode = dict[str, Any]


def lines(name: str) -> Iterator[dict[str, Any]]:
    """The objects of a `.jsonl.gz`."""
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def snapshots(version: str) -> dict[str, dict[str, Znode]]:
    """Per moment the nodes by path, without ZooKeeper's own."""
    found: dict[str, dict[str, Znode]] = {}
    for node in lines(f"tree-{version}"):
        if not node["path"].startswith("/zookeeper"):
            found.setdefault(node["when"], {})[node["path"]] = node
    return found


def data_of(node: Znode) -> bytes | None:
    """A node's data."""
    return None if node["data"] is None else node["data"].encode()


def step_ends(version: str) -> list[tuple[str, int]]:
    """The recorded steps in order, each with the moment (epoch ms) at which it ended."""
    steps = json.loads((FOLDER / f"steps-{version}.json").read_text(encoding="utf-8"))
    return [(step["step"], step["ended_ms"]) for step in steps]


def cluster_lines(name: str) -> Iterator[Any]:
    """The objects of a file in golden/cluster, packed or not."""
    path = FOLDER.parent / "cluster" / f"{name}.jsonl"
    if path.exists():
        yield from map(json.loads, path.read_text(encoding="utf-8").splitlines())
        return
    with gzip.open(path.with_suffix(".jsonl.gz"), "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)
