"""Which partition a key belongs to: the numbers of Kafka's own tests, and of another client."""

from __future__ import annotations

import importlib
import random
import warnings

import pytest

from odradek.records.partitioner import murmur2, partition_for_key

KAFKAS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("key", KAFKAS)
def test_kafkas_own_vectors(key: bytes) -> None:
    assert murmur2(key) == KAFKAS[key]
    assert murmur2(memoryview(bytearray(key))) == KAFKAS[key]


def test_another_clients_partitions() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            theirs = importlib.import_module("kafka.partitioner.default")
        except ImportError:
            pytest.skip("kafka-python is not installed")
    rng = random.Random(4)
    for _ in range(500):
        key = rng.randbytes(rng.randrange(40))
        assert murmur2(key) & 0x7FFFFFFF == theirs.murmur2(key) & 0x7FFFFFFF
        assert partition_for_key(key, 7) == (theirs.murmur2(key) & 0x7FFFFFFF) % 7


def test_partitions_are_in_range() -> None:
    assert {partition_for_key(b"%d" % i, 5) for i in range(200)} == set(range(5))
    assert partition_for_key(b"", 1) == 0
