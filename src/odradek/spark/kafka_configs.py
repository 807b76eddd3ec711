"""The `kafka.*` options that a source or a sink accepts. Pure.

Some would break what the pipeline promises (who keeps the offsets, what the columns hold), so they are
refused, as Spark's Kafka connector refuses them.
"""

from collections.abc import Mapping

BOOTSTRAP_SERVERS = "bootstrap.servers"

_REFUSED_FOR_SOURCES = {
    "auto.offset.reset": (
        "Kafka option 'auto.offset.reset' is not supported. Instead set the source option 'startingoffsets' "
        "to 'earliest' or 'latest' to say where to start. A streaming query keeps its offsets in its "
        "checkpoint, not in a consumer: 'startingoffsets' counts only when a new query starts, and a "
        "restarted one goes on where it left off."
    ),
    "key.deserializer": (
        "Kafka option 'key.deserializer' is not supported as keys are binary columns. Use DataFrame "
        "operations to deserialize the keys."
    ),
    "value.deserializer": (
        "Kafka option 'value.deserializer' is not supported as values are binary columns. Use DataFrame "
        "operations to deserialize the values."
    ),
    "enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported",
    "interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
}
_REFUSED_FOR_SINKS = {
    "key.serializer": (
        "Kafka option 'key.serializer' is not supported as keys are written as the bytes of the key column."
    ),
    "value.serializer": (
        "Kafka option 'value.serializer' is not supported as values are written as the bytes of the value "
        "column."
    ),
    "transactional.id": (
        "Kafka option 'transactional.id' is not supported: every task needs its own, or they would fence "
        "each other off. Say deliveryGuarantee 'exactly-once', and by transactionalIdPrefix what ids begin "
        "with."
    ),
    "transaction.two.phase.commit.enable": (
        "Kafka option 'transaction.two.phase.commit.enable' is not supported. Say twoPhaseCommit instead."
    ),
}
CUSTOM_GROUP_ID = (
    "Kafka option 'kafka.group.id' has been set on this query: the offsets of each finished batch are "
    "committed to that group, for monitoring only. Use one query per group id: two would overwrite each "
    "other's."
)


def check_source_configs(kafka: Mapping[str, str], *, group_id_prefix: bool) -> list[str]:
    """Check that a source can honour the configs; return what is worth a warning.

    Raises:
        ValueError: it cannot.
    """
    _check(kafka, _REFUSED_FOR_SOURCES, "consumer")
    notes = []
    if "group.id" in kafka:
        notes.append(CUSTOM_GROUP_ID)
        if group_id_prefix:
            notes.append("Option groupIdPrefix will be ignored as option kafka.group.id has been set.")
    return notes


def check_sink_configs(kafka: Mapping[str, str]) -> None:
    """Check that a sink can honour the configs.

    Raises:
        ValueError: it cannot.
    """
    _check(kafka, _REFUSED_FOR_SINKS, "producer")


def _check(kafka: Mapping[str, str], refused: Mapping[str, str], role: str) -> None:
    for name, why in refused.items():
        if name in kafka:
            raise ValueError(why)
    if not kafka.get(BOOTSTRAP_SERVERS, "").strip():
        raise ValueError(f"Option 'kafka.{BOOTSTRAP_SERVERS}' must be specified for configuring Kafka {role}")
