"""Counters under Kafka's names, and what clients are told about theirs."""
