"""The tables of brokers and their log dirs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.client.types import ClusterDescription, LogDirDescription, TopicDescription


@dataclass(frozen=True)
class BrokerRow:
    """A line of the table of brokers.

    Attributes:
        is_alive: whether it is there; one that is gone is known from the replicas that it has.
        leaders, replicas: how many partitions it leads, and has.
        in_sync: how many of its replicas are in sync.
        log_dirs: how many folders it has; None where it has not told.
        failed_log_dirs: how many of them have failed.
        size: bytes of all replicas in them; None where it has not told.
    """

    broker: int
    address: str
    rack: str
    is_alive: bool
    is_controller: bool
    leaders: int
    replicas: int
    in_sync: int
    log_dirs: int | None
    failed_log_dirs: int
    size: int | None


def broker_rows(
    cluster: ClusterDescription,
    topics: Iterable[TopicDescription],
    log_dirs: Mapping[int, Mapping[str, LogDirDescription]],
) -> list[BrokerRow]:
    """Return a row for each broker that is there, or has replicas.

    Args:
        cluster: as described.
        topics: all.
        log_dirs: broker → path → folder, of the brokers that have answered.
    """
    leaders: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    in_sync: Counter[int] = Counter()
    for partition in (partition for topic in topics for partition in topic.partitions):
        leaders[partition.leader] += 1
        replicas.update(partition.replicas)
        in_sync.update(partition.in_sync_replicas)
    nodes = {node.id: node for node in cluster.nodes}
    controller = None if cluster.controller is None else cluster.controller.id
    rows = []
    for broker in sorted(nodes.keys() | replicas.keys()):
        node = nodes.get(broker)
        folders = log_dirs.get(broker)
        rows.append(
            BrokerRow(
                broker,
                "" if node is None else f"{node.host}:{node.port}",
                "" if node is None else node.rack or "",
                node is not None,
                broker == controller,
                leaders[broker],
                replicas[broker],
                in_sync[broker],
                None if folders is None else len(folders),
                0 if folders is None else sum(folder.error is not None for folder in folders.values()),
                None if folders is None else sum(map(_size, folders.values())),
            )
        )
    return rows


@dataclass(frozen=True)
class LogDirRow:
    """A log dir of a broker.

    Attributes:
        error: why it has failed; '' where it has not.
        size: bytes of the replicas in it.
        moving: how many replicas are moving into it.
        total, usable: bytes of its file system, None from brokers before Kafka 3.3 (KIP-827).
    """

    path: str
    error: str
    replicas: int
    moving: int
    size: int
    total: int | None
    usable: int | None


def log_dir_rows(folders: Mapping[str, LogDirDescription]) -> list[LogDirRow]:
    """Return a row for each log dir."""
    return [
        LogDirRow(
            path,
            "" if folder.error is None else str(folder.error),
            sum(not replica.is_future for replica in folder.replicas.values()),
            sum(replica.is_future for replica in folder.replicas.values()),
            _size(folder),
            _known(folder.total_bytes),
            _known(folder.usable_bytes),
        )
        for path, folder in sorted(folders.items())
    ]


def _size(folder: LogDirDescription) -> int:
    return sum(replica.size for replica in folder.replicas.values())


def _known(size: int) -> int | None:
    return None if size < 0 else size
