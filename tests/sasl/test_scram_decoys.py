"""What SCRAM tells of names that are not known: the same everywhere, and like what it tells of users."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.sasl.starting import _decoys
from odradek.broker.sasl.token_keeper import _Kept
from odradek.cluster.access.scram import load_decoy_key
from odradek.cluster.paths import SCRAM_DECOYS
from odradek.cluster.store.memory import MemoryStore
from odradek.cluster.store.zookeeper_access import CREATOR_ALL, acl_of
from odradek.sasl.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from odradek.sasl.scram_credentials import ScramCredential
from odradek.sasl.scram_decoys import Shape, count_shapes, decoy
from odradek.testing import Broker, Security

KEY = bytes(32)
NAMES = [f"user-{number}" for number in range(1000)]
OURS, OFTEN, KAFKAS = Shape(), Shape(8192, 24), Shape(16384, 25, True)


def a_broker(store: MemoryStore, **configs: dict[str, str]) -> Any:
    image = SimpleNamespace(configs={f"users/{name}": config for name, config in configs.items()})
    return SimpleNamespace(image=image, scram_decoy_key=load_decoy_key(store))


def credential(iterations: int, salt: bytes = bytes(24)) -> str:
    return ScramCredential(salt, b"s" * 32, b"k" * 32, iterations).to_text()


def test_two_brokers_tell_the_same_and_so_does_a_later_one() -> None:
    store = MemoryStore()
    told = [_decoys(a_broker(store), SCRAM_SHA_256)("nobody", False) for _ in range(3)]
    assert told[0] == told[1] == told[2]
    other = _decoys(a_broker(MemoryStore()), SCRAM_SHA_256)("nobody", False)
    assert other != told[0]


def test_names_and_mechanisms_have_salts_of_their_own() -> None:
    salts = {decoy(KEY, mechanism, name, {}).salt for name in NAMES for mechanism in ("a", "b")}
    assert len(salts) == 2 * len(NAMES)


def test_who_cannot_read_the_key_cannot_make_them() -> None:
    assert decoy(KEY, SCRAM_SHA_256, "a", {}) != decoy(b"x" * 32, SCRAM_SHA_256, "a", {})
    assert acl_of(SCRAM_DECOYS, True) == (CREATOR_ALL,)


def test_they_are_spread_as_users_are() -> None:
    shapes = {OURS: 10, OFTEN: 70, KAFKAS: 20}
    found = [decoy(KEY, SCRAM_SHA_256, name, shapes) for name in NAMES]
    counts = {shape: sum(one.iterations == shape.iterations for one in found) for shape in shapes}
    assert 70 <= counts[OURS] <= 130 and 650 <= counts[OFTEN] <= 750 and 150 <= counts[KAFKAS] <= 250
    for one in found:
        assert Shape.of(ScramCredential(one.salt, b"", b"", one.iterations)) in shapes


def test_one_user_more_changes_few_of_them() -> None:
    before, after = {OURS: 50, OFTEN: 50}, {OURS: 50, OFTEN: 51, KAFKAS: 1}
    changed = [name for name in NAMES if decoy(KEY, "m", name, before) != decoy(KEY, "m", name, after)]
    assert len(changed) < 40


def test_a_broker_counts_the_users_of_the_mechanism() -> None:
    weak, broken = {"SCRAM-SHA-256": credential(10)}, {"SCRAM-SHA-256": "nonsense"}
    strong = {"SCRAM-SHA-256": credential(8192), "SCRAM-SHA-512": credential(16384, b"0a" * 10)}
    quota = {"producer_byte_rate": "1"}
    broker = a_broker(MemoryStore(), alice=strong, weak=weak, broken=broken, quota=quota)
    make = _decoys(broker, SCRAM_SHA_256)
    assert make("nobody", False).iterations == 8192
    other = _decoys(broker, SCRAM_SHA_512)("nobody", False)
    assert other.iterations == 16384 and len(other.salt) == 20 and other.salt.isalnum()
    # Tokens are all alike, whatever users are.
    assert make("nobody", True).iterations == 4096
    broker.image = SimpleNamespace(configs={"users/bob": {"SCRAM-SHA-256": credential(5000)}})
    assert make("nobody", False).iterations == 5000


def test_nobody_is_counted_who_cannot_log_in() -> None:
    assert count_shapes([ScramCredential(b"", b"", b"", 4095)]) == {}


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
def test_a_delegation_token_is_the_same_at_every_broker(mechanism: str) -> None:
    information: Any = None
    first, second = (_Kept(information, b"secret" * 8).credential(mechanism) for _ in range(2))
    assert first == second
    assert Shape.of(first) == Shape()
    assert _Kept(information, b"other" * 8).credential(mechanism).salt != first.salt


def test_the_key_outlives_the_broker() -> None:
    with Broker(security=Security(users={"alice": "secret"})) as broker:
        before = broker.call(lambda running: running.scram_decoy_key)
        broker.restart()
        assert broker.call(lambda running: running.scram_decoy_key) == before
        assert len(before) == 32
