"""Precedence and throttle times: those of Kafka 3.9.1's own quota managers (interop/QuotaTables.java)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.quotas.client_quota_manager import (
    ClientQuotaManager,
    ClientRequestQuotaManager,
    QuotaType,
    Windows,
)
from odradek.broker.quotas.controller_mutation_quota_manager import ControllerMutationQuotaManager
from odradek.broker.quotas.precedence import DEFAULT, QuotaEntity, Quotas
from odradek.errors import ThrottlingQuotaExceededError
from odradek.util.clock import ManualClock

GOLDEN = Path(__file__).parents[2] / "golden" / "quotas" / "3.9.1.jsonl.gz"
LINES: list[dict[str, Any]] = [json.loads(line) for line in gzip.decompress(GOLDEN.read_bytes()).splitlines()]

LEVELS = (
    QuotaEntity(True, True, "alice", "app"),
    QuotaEntity(True, True, "alice", DEFAULT),
    QuotaEntity(True, False, "alice"),
    QuotaEntity(True, True, DEFAULT, "app"),
    QuotaEntity(True, True, DEFAULT, DEFAULT),
    QuotaEntity(True, False, DEFAULT),
    QuotaEntity(False, True, client="app"),
    QuotaEntity(False, True, client=DEFAULT),
)


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [line for line in LINES if line["kind"] == kind]


def test_every_set_of_levels_has_the_quotas_and_the_sharing_that_kafka_has() -> None:
    tables = of_kind("precedence")
    assert len(tables) == 2 ** len(LEVELS)
    for table in tables:
        quotas = Quotas()
        for level, entity in enumerate(LEVELS):
            if table["present"] & 1 << level:
                quotas.set(entity, 1000.0 * (level + 1))
        for user, client, user_tag, client_tag, bound in table["clients"]:
            assert quotas.of(user, client) == ((user_tag, client_tag), bound), (
                table["present"],
                user,
                client,
            )


@pytest.mark.parametrize("line", of_kind("rate") + of_kind("request"))
def test_throttle_times_are_kafkas(line: dict[str, Any]) -> None:
    clock, windows = ManualClock(), Windows(line["windows"][0], 1000 * line["windows"][1])
    manager: ClientQuotaManager
    if line["kind"] == "request":
        manager = ClientRequestQuotaManager(clock, windows)
    else:
        manager = ClientQuotaManager(QuotaType.FETCH, clock, windows)
    manager.update_quota(QuotaEntity(False, True, client="app"), line["bound"])
    assert manager.most_at_once("User:alice", "app") == line["most_at_once"]
    at = 0
    throttled = 0
    for now_ms, value, throttle_ms, undone in line["events"]:
        clock.advance(now_ms - at)
        at = now_ms
        assert manager.record("User:alice", "app", value) == throttle_ms, now_ms
        throttled += throttle_ms > 0
        if undone:
            manager.record_no_throttle("User:alice", "app", -value)
    assert throttled > 10


@pytest.mark.parametrize("line", of_kind("strict") + of_kind("permissive"))
def test_buckets_are_kafkas(line: dict[str, Any]) -> None:
    clock, windows = ManualClock(), Windows(line["windows"][0], 1000 * line["windows"][1])
    manager = ControllerMutationQuotaManager(clock, windows)
    manager.update_quota(QuotaEntity(True, False, "alice"), line["bound"])
    at = 0
    for now_ms, partitions, throttle_ms, refused, waited_ms, left_ms in line["events"]:
        clock.advance(now_ms - at)
        quota = manager.quota_of("User:alice", "app", strict=line["kind"] == "strict")
        assert quota is not None
        try:
            quota.record(partitions)
            was_refused = False
        except ThrottlingQuotaExceededError:
            was_refused = True
        assert (was_refused, quota.throttle_ms) == (refused, throttle_ms), now_ms
        clock.advance(waited_ms)
        at = now_ms + waited_ms
        assert quota.throttle_ms == left_ms
