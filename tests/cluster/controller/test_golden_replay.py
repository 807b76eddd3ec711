"""The transactions of real clusters, replayed: our tree must end as ZooKeeper's did, step by step."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.cluster.store.store import Check, Create, Delete, Op, SetData, StoreError
from odradek.util.clock import ManualClock

from ..golden import VERSIONS, lines, snapshots, step_ends


def _op(write: dict[str, Any]) -> Op:
    kind, path = write["write"], write["path"]
    data = None if write.get("data") is None else write["data"].encode()
    if kind == "create":
        return Create(path, data, ephemeral=write.get("ephemeral", False))
    if kind == "set":
        # The recording has the version after the set.
        return SetData(path, data, write["version"] - 1)
    if kind == "check":
        return Check(path, write["version"])
    assert kind == "delete", kind
    return Delete(path)


@pytest.mark.parametrize("version", VERSIONS)
def test_replayed_writes_give_the_recorded_trees(version: str) -> None:
    server = MemoryServer(ManualClock())
    sessions: dict[str, MemoryStore] = {}
    trees = snapshots(version)
    ends = step_ends(version)
    written: dict[str, int] = {}
    compared = 0
    for write in lines(f"writes-{version}"):
        while ends and write["time_ms"] > ends[0][1]:
            step, _ = ends.pop(0)
            if f"after {step}" in trees:
                _compare(server, trees[f"after {step}"], written)
                compared += 1
        if write["write"] == "create_session":
            sessions[write["session"]] = MemoryStore(server)
            continue
        session = sessions[write["session"]]
        if write["write"] == "close_session":
            session.close()
            continue
        ops = write.get("ops", [write])
        if any(op["write"] == "error" for op in ops):
            # A multi that ZooKeeper refused; the recording keeps only its beginning.
            continue
        try:
            session.multi([_op(op) for op in ops])
        except StoreError as error:
            raise AssertionError(f"{write}: {error}") from error
        for op in ops:
            written[op["path"]] = write["zxid"]
    assert compared >= 8


def _compare(server: MemoryServer, recorded: dict[str, dict[str, Any]], written: dict[str, int]) -> None:
    ours = server.tree.nodes
    assert set(ours) == set(recorded)
    late = 0
    for path, node in recorded.items():
        if path == "/":
            continue
        theirs = node["stat"]
        if theirs["mzxid"] < written[path] and theirs["version"] < ours[path].version:
            # The nodes were read one by one while the cluster went on: this one just before its next write.
            late += 1
            continue
        stat, data = ours[path].stat(), ours[path].data
        assert (None if data is None else data.decode()) == node["data"], path
        assert stat.version == theirs["version"], path
        assert stat.cversion == theirs["cversion"], path
        assert stat.num_children == theirs["numChildren"], path
        assert bool(stat.ephemeral_owner) == bool(theirs["ephemeralOwner"]), path
    assert late <= 2
