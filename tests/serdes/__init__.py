"""Clients of schema registries, and their serializers: against our registry, and beside confluent-kafka's."""
