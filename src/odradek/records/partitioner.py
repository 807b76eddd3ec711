"""The partition that a key belongs to: Kafka's default partitioner for records with a key."""

from __future__ import annotations

from odradek.records.kernel import kernel


def murmur2(data: bytes | bytearray | memoryview) -> int:
    """The 32-bit murmur2 hash of `data` as Kafka computes it: signed, with Kafka's seed."""
    result: int = kernel.murmur2(data)
    return result


def partition_for_key(key: bytes | bytearray | memoryview, partitions: int) -> int:
    """The partition of `key` among `partitions` (at least 1): its hash without the sign, modulo."""
    result: int = (kernel.murmur2(key) & 0x7FFF_FFFF) % partitions
    return result
