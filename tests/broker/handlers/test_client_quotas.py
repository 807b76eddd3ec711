"""DescribeClientQuotas and AlterClientQuotas at every version."""

from __future__ import annotations

import json
from typing import Any

import pytest

from odradek.broker.requests.authorization import Operation
from odradek.cluster.loading import load_configs
from odradek.errors.codes import ErrorCode
from odradek.wire.messages import alter_client_quotas as altering
from odradek.wire.messages import describe_client_quotas as describing

from ..admin_world import Denying, World

EXACT, DEFAULT, ANY = 0, 1, 2
VERSIONS = range(2)
BOB, APP, BOB_APP = {"user": "bob"}, {"client-id": "app"}, {"user": "bob", "client-id": "app"}
ALL_USERS, ADDRESS = {"user": None}, {"ip": "10.0.0.1"}


def alter(world: World, version: int, entity: dict[str, Any], ops: dict[str, Any], **fields: Any) -> int:
    """Set quotas, or remove those whose value is None; returns the error."""
    request = altering.AlterClientQuotasRequest(
        entries=[
            altering.EntryData(
                entity=[altering.EntityData(entity_type=k, entity_name=v) for k, v in entity.items()],
                ops=[altering.OpData(key=k, value=v or 0.0, remove=v is None) for k, v in ops.items()],
            )
        ],
        **fields,
    )
    (entry,) = world.call(request, version).entries
    assert {one.entity_type: one.entity_name for one in entry.entity} == entity
    assert bool(entry.error_message) is bool(entry.error_code)
    return int(entry.error_code)


def describe(
    world: World, version: int, *components: tuple[str, int, str | None], strict: bool = False
) -> list[tuple[dict[str, str | None], dict[str, float]]] | int:
    request = describing.DescribeClientQuotasRequest(
        components=[describing.ComponentData(entity_type=t, match_type=m, match=n) for t, m, n in components],
        strict=strict,
    )
    answer = world.call(request, version)
    if answer.error_code:
        assert answer.entries is None
        return int(answer.error_code)
    return [
        (
            {one.entity_type: one.entity_name for one in entry.entity},
            {one.key: one.value for one in entry.values},
        )
        for entry in answer.entries
    ]


@pytest.fixture
def world() -> World:
    world = World()
    for entity, rate in ((BOB, 1.0), (APP, 2.0), (BOB_APP, 3.0), (ALL_USERS, 4.0)):
        assert alter(world, 0, entity, {"producer_byte_rate": rate}) == 0
    assert alter(world, 0, ADDRESS, {"connection_creation_rate": 5.0}) == 0
    return world


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([], False, [BOB, APP, BOB_APP, ALL_USERS, ADDRESS]),
        ([], True, []),
        ([("user", EXACT, "bob")], False, [BOB, BOB_APP]),
        ([("user", EXACT, "bob")], True, [BOB]),
        ([("user", DEFAULT, None)], False, [ALL_USERS]),
        ([("user", ANY, None)], False, [BOB, BOB_APP, ALL_USERS]),
        ([("user", ANY, None)], True, [BOB, ALL_USERS]),
        ([("client-id", EXACT, "app")], True, [APP]),
        ([("client-id", DEFAULT, None)], False, []),
        ([("user", ANY, None), ("client-id", ANY, None)], True, [BOB_APP]),
        ([("user", EXACT, "eve")], False, []),
        ([("ip", EXACT, "10.0.0.1")], True, [ADDRESS]),
        ([("ip", ANY, None)], False, [ADDRESS]),
    ],
)
def test_filters(components: Any, strict: bool, expected: Any, version: int, world: World) -> None:
    found = describe(world, version, *components, strict=strict)
    assert isinstance(found, list)
    assert sorted((e for e, _ in found), key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([("user", EXACT, "a"), ("user", EXACT, "b")], ErrorCode.INVALID_REQUEST),
        ([("", EXACT, "a")], ErrorCode.INVALID_REQUEST),
        ([("planet", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION),
        ([("ip", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 9, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "bob")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_filters_that_cannot_be(components: Any, error: ErrorCode, version: int, world: World) -> None:
    assert describe(world, version, *components) == error


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_kept_and_where(version: int) -> None:
    world = World()
    rates = {"producer_byte_rate": 1e6, "request_percentage": 12.5, "consumer_byte_rate": 7.0000000001}
    odd = {"user": "ann/ü", "client-id": None}
    assert alter(world, version, odd, rates) == 0
    assert describe(world, version) == [
        (odd, {"producer_byte_rate": 1e6, "request_percentage": 12.5, "consumer_byte_rate": 7.0})
    ]
    data, _ = world.store.get("/config/users/ann%2F%C3%BC/clients/<default>")
    assert json.loads(data or b"") == {
        "version": 1,
        "config": {"producer_byte_rate": "1000000", "request_percentage": "12.5", "consumer_byte_rate": "7"},
    }
    (notice,) = world.store.children("/config/changes")
    data, _ = world.store.get(f"/config/changes/{notice}")
    assert json.loads(data or b"")["entity_path"] == "users/ann%2F%C3%BC/clients/<default>"
    # A restart finds the same.
    assert dict(load_configs(world.store)) == dict(world.image.configs)
    assert alter(world, version, odd, {"producer_byte_rate": None, "absent": None}) == 0
    (left,) = describe(world, version) or []  # type: ignore[misc]
    assert left[1].keys() == {"request_percentage", "consumer_byte_rate"}
    assert alter(world, version, odd, {"request_percentage": None, "consumer_byte_rate": None}) == 0
    assert describe(world, version) == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("entity", "ops"),
    [
        ({}, {"producer_byte_rate": 1.0}),
        ({"user": ""}, {"producer_byte_rate": 1.0}),
        ({"planet": "x"}, {"producer_byte_rate": 1.0}),
        ({"ip": "10.0.0.1", "user": "bob"}, {"connection_creation_rate": 1.0}),
        ({"ip": "not an address"}, {"connection_creation_rate": 1.0}),
        (ADDRESS, {"producer_byte_rate": 1.0}),
        (ADDRESS, {"connection_creation_rate": 2.0**31}),
        (BOB, {"connection_creation_rate": 1.0}),
        (BOB, {"SCRAM-SHA-256": 1.0}),
        (BOB, {"producer_byte_rate": 1.5}),
        (BOB, {"producer_byte_rate": 1e30}),
        (BOB, {"producer_byte_rate": float("inf")}),
        (BOB, {"request_percentage": float("nan")}),
        (BOB, {"request_percentage": 1.0, "unheard_of": 1.0}),
    ],
)
def test_quotas_that_cannot_be(entity: Any, ops: Any, version: int) -> None:
    world = World()
    before = world.image
    assert alter(world, version, entity, ops) == ErrorCode.INVALID_REQUEST
    assert world.image == before


@pytest.mark.parametrize("version", VERSIONS)
def test_only_checking(version: int) -> None:
    world = World()
    assert alter(world, version, BOB, {"producer_byte_rate": 1.0}, validate_only=True) == 0
    assert alter(world, version, BOB, {"x": 1.0}, validate_only=True) == ErrorCode.INVALID_REQUEST
    assert describe(world, version) == []


def test_what_others_have_written() -> None:
    world = World()
    world.controller.alter_config("clients/app", {"producer_byte_rate": "many"})
    assert describe(world, 1) == ErrorCode.UNKNOWN_SERVER_ERROR
    world.controller.alter_config("clients/app", {"unheard_of": "1"})
    assert describe(world, 1) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_who_may(version: int, world: World) -> None:
    world.authorizer = Denying(
        (Operation.DESCRIBE_CONFIGS, "kafka-cluster"), (Operation.ALTER_CONFIGS, "kafka-cluster")
    )
    assert describe(world, version) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert alter(world, version, BOB, {"producer_byte_rate": 9.0}) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    world.authorizer = None
    world.controller.context.is_active = False
    assert alter(world, version, BOB, {"producer_byte_rate": 9.0}) == ErrorCode.NOT_CONTROLLER
