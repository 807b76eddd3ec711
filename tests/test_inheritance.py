"""A class is made of parts that it is handed; who inherits implementation from another module is named here.

An import shows who knows whom. A call on `self` that lands in a class of another module shows nowhere: floors
of one class can call each other in a circle, though no file imports itself. So that no class grows floors
again, each that inherits methods from another module is listed with what it inherits them from, no chain is
longer than two, and no base calls what only its heirs have, but for the few that are named with why.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parent.parent / "src"
DEEPEST = 2

APART = ("odradek.wire", "odradek.errors")
"""Messages and exceptions are families by nature."""

LAYERS = {
    "log.partition.appending.AppendableLog": "one log: reads, gets to the disk, is cut, is written to",
    "log.partition.partition_log.PartitionLog": "the same, and whose it is",
    "log.partition.truncation.TruncatableLog": "the same, without writing",
    "replication.partition.Partition": "leads or follows, and is one replica all the same",
    "testing.cluster._Member": "a broker of a test, which a cluster can kill",
}
"""Longer chains, each of which is to be read from below to above."""

HEIRS = {
    "broker.config.table.ConfigAttributes": "BrokerConfig",
    "broker.coordination.response_future.ResponseFuture": "_OneMembersResponse _VersionedResponse",
    "broker.coordination.shell.CoordinatorShell": "GroupRuntime TransactionRuntime",
    "broker.quotas.client_quota_manager.ClientQuotaManager": "ControllerMutationQuotaManager",
    "cli.suggesting.SuggestingGroup": "ToolGroup",
    "cli.tool.Tool": "ConfigsTool",
    "client.aio.admin_base.AdminBase": "AccessAdmin AclAdmin ClusterAdmin ConfigAdmin GroupAdmin "
    "PlacementAdmin TokenAdmin TopicAdmin TransactionAdmin",
    "client.core.assignors.base.Assignor": "RangeAssignor RoundRobinAssignor StickyAssignor",
    "client.core.transactions.state_machine.TransactionStateMachine": "TransactionManager",
    "client.types.ConsumerRebalanceListener": "Listener _Listener",
    "cluster.store.local.LocalSession": "EmbeddedStore MemoryStore _Session",
    "log.partition.readable_log.ReadableLog": "SyncedLog",
    "log.storage.real_files.RealFileSystem": "Disk",
    "log.segments.index_file.IndexFile": "OffsetIndex TimeIndex",
    "log.segments.segment_files.SegmentFiles": "Segment",
    "replication.leadership.Leadership": "Following",
    "sasl.mechanisms.ClientMechanism": "GssapiClient OAuthBearerClient PlainClient ScramClient",
    "sasl.mechanisms.ServerMechanism": "GssapiServer OAuthBearerServer PlainServer ScramServer",
    "testing.faults.sentences.FaultSentences": "Broker Cluster ProcessCluster",
    "testing.in_block.InBlock": "Broker Cluster ProcessCluster",
    "testing.looking.inside.LookInside": "Broker Cluster",
}
"""By base, who adds methods to its own in another module. Rather hand a part in than grow this."""

UPWARD = {
    "broker.coordination.shell.CoordinatorShell": "_load",  # a coordinator's, when its partition is led
    "cli.suggesting.SuggestingGroup": "list_commands",  # click's
    "client.types.ConsumerRebalanceListener": "on_partitions_revoked",  # Kafka's default
    "cluster.store.local.LocalSession": "exists multi",  # the way to what a kind of store is kept in
    "log.storage.real_files.RealFileSystem": "fsync_dir",  # waits for no device where data goes with a test
    "testing.broker.Broker": "_make",
    "testing.faults.sentences.FaultSentences": "set_fault",
    "testing.in_block.InBlock": "__exit__ close start",
    "testing.looking.inside.LookInside": "_administrator _looked_at create_topic",
}
"""By base, what it calls on `self` that heirs in other modules have."""


class Found(NamedTuple):
    """A class by its module and name."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}".removeprefix("odradek.")


class Classes:
    """The classes of some sources, and what they inherit.

    Args:
        sources: by module.

    Attributes:
        classes: all that there are.
    """

    def __init__(self, sources: dict[str, str]) -> None:
        trees = {module: ast.parse(source) for module, source in sources.items()}
        self._imported = {module: dict(_imports(tree)) for module, tree in trees.items()}
        self.classes = {
            Found(module, node.name): node
            for module, tree in trees.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
        }

    @cached_property
    def floors(self) -> dict[Found, int]:
        """How many modules have methods of a class, its own and those of its bases, by class."""
        floors: dict[Found, int] = {}

        def count(found: Found) -> int:
            if found not in floors:
                own = int(self._has_methods(found))
                below = ((base, count(base)) for base in self._bases(found))
                counted = (most + own * (base.module != found.module) for base, most in below)
                floors[found] = max(counted, default=0) or own
            return floors[found]

        for found in self.classes:
            count(found)
        return floors

    @cached_property
    def heirs(self) -> dict[Found, set[Found]]:
        """Who adds methods to those of a class of another module, by that class."""
        heirs: dict[Found, set[Found]] = {}
        for found in filter(self._has_methods, self.classes):
            for base in self._bases(found):
                if base.module != found.module and self.floors[base]:
                    heirs.setdefault(base, set()).add(found)
        return heirs

    @property
    def upward(self) -> dict[Found, set[str]]:
        """The methods of heirs in other modules that a class calls on `self`, by class."""
        upward: dict[Found, set[str]] = {}
        for found in self.classes:
            methods = set(self._methods(found))
            for base in self._ancestors(found):
                if base.module != found.module and methods & self._called_on_self(base):
                    upward.setdefault(base, set()).update(methods & self._called_on_self(base))
        return upward

    def _ancestors(self, found: Found) -> Iterator[Found]:
        for base in self._bases(found):
            yield base
            yield from self._ancestors(base)

    def _bases(self, found: Found) -> Iterator[Found]:
        for base in self.classes[found].bases:
            named = base.value if isinstance(base, ast.Subscript) else base
            resolved = self._resolve(found.module, ast.unparse(named))
            if resolved is not None:
                yield resolved

    def _resolve(self, module: str, name: str) -> Found | None:
        first, _, rest = name.partition(".")
        if Found(module, name) in self.classes:
            return Found(module, name)
        source = self._imported.get(module, {}).get(first)
        if source is None:
            return None
        if rest:
            return self._resolve(source, rest)
        module, _, name = source.rpartition(".")
        return self._resolve(module, name)

    def _methods(self, found: Found) -> dict[str, ast.FunctionDef | ast.AsyncFunctionDef]:
        body = self.classes[found].body
        return {one.name: one for one in body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}

    def _has_methods(self, found: Found) -> bool:
        kinds = {ast.unparse(base).partition("[")[0] for base in self.classes[found].bases}
        if kinds & {"Protocol", "NamedTuple", "TypedDict"}:
            return False
        return not all(map(_does_nothing, self._methods(found).values()))

    def _called_on_self(self, found: Found) -> set[str]:
        return {
            node.attr
            for method in self._methods(found).values()
            for node in ast.walk(method)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        }


def _does_nothing(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a method only says what heirs have to do."""
    statements = [
        one for one in method.body if not isinstance(one, ast.Expr) or not isinstance(one.value, ast.Constant)
    ]
    return all(isinstance(one, ast.Raise) for one in statements)


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names that a module imports, and what they stand for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield one.asname or one.name, one.name
        if isinstance(node, ast.ImportFrom) and not node.level:
            for one in node.names:
                yield one.asname or one.name, f"{node.module}.{one.name}"


@pytest.fixture(scope="module")
def ours() -> Classes:
    """What is in our own sources, but messages and exceptions."""
    sources = {}
    for file in sorted(SOURCE.rglob("*.py")):
        module = ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        if not module.startswith(APART):
            sources[module] = file.read_text("utf-8")
    return Classes(sources)


def test_who_inherits_methods_from_another_module_is_named(ours: Classes) -> None:
    heirs = {
        str(base): " ".join(sorted({one.name for one in found if str(one) not in LAYERS}))
        for base, found in ours.heirs.items()
    }
    assert {base: names for base, names in heirs.items() if names} == HEIRS


def test_no_chain_is_longer_than_two(ours: Classes) -> None:
    assert {str(one) for one, floors in ours.floors.items() if floors > DEEPEST} == set(LAYERS)


def test_no_base_calls_what_its_heirs_have(ours: Classes) -> None:
    assert {str(base): " ".join(sorted(names)) for base, names in ours.upward.items()} == UPWARD


LOW = """
class Low:
    def begin(self):
        self.end()
    def end(self):
        raise NotImplementedError
"""
MIDDLE = """
from a import Low
class Middle(Low):
    def middle(self):
        return 1
"""
HIGH = """
from b import Middle as M
class High(M):
    def end(self):
        return self.middle()
"""
NAMED = """
import c
class Named(c.High):
    pass
"""


def test_floors_and_calls_upwards_are_found() -> None:
    found = Classes({"a": LOW, "b": MIDDLE, "c": HIGH, "d": NAMED})
    floors = {str(one): number for one, number in found.floors.items()}
    assert floors == {"a.Low": 1, "b.Middle": 2, "c.High": 3, "d.Named": 3}
    heirs = {str(base): {str(one) for one in heirs} for base, heirs in found.heirs.items()}
    assert heirs == {"a.Low": {"b.Middle"}, "b.Middle": {"c.High"}}
    assert {str(base): names for base, names in found.upward.items()} == {"a.Low": {"end"}}
