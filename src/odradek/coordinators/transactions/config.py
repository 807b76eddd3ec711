"""The broker's settings that transactions obey, under Kafka's names in snake case."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """The configs of a transaction coordinator; times in milliseconds.

    Defaults as in Kafka's `TransactionStateManagerConfig`.

    Attributes:
        transaction_version: the level of the feature `transaction.version`: 0 writes records that every
            Kafka since 0.11 reads, 1 flexible ones, 2 is KIP-890's (an epoch per transaction).
        marker_retry_backoff_ms: before markers that could not be written are given out again.
    """

    transaction_max_timeout_ms: int = 15 * 60 * 1000
    transactional_id_expiration_ms: int = 7 * 24 * 60 * 60 * 1000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 60 * 60 * 1000
    transaction_two_phase_commit_enable: bool = False
    transaction_version: int = 0
    marker_retry_backoff_ms: int = 100
    commit_timeout_ms: int = 5_000
