"""The tables of docs/reference/errors.md: the codes from `odradek.errors`, and what a user can do about them.

`PYTHONPATH=tests python -m docs.error_table` writes them anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.errors import ErrorCode, error_for

from .blocks import ROOT

PAGE = ROOT / "docs" / "reference" / "errors.md"

REMEDIES = {
    "UNKNOWN_SERVER_ERROR": "Look into the broker's log: it has the trace.",
    "OFFSET_OUT_OF_RANGE": "Retention has removed the records. Set `auto_offset_reset`, or `seek`.",
    "CORRUPT_MESSAGE": "Give each record a key if the topic is compacted; otherwise check the network.",
    "UNKNOWN_TOPIC_OR_PARTITION": "Check the topic's name, or create the topic.",
    "REQUEST_TIMED_OUT": "Give the call more time, or look why the broker is slow.",
    "BROKER_NOT_AVAILABLE": "Start the broker, or check `bootstrap_servers`.",
    "MESSAGE_TOO_LARGE": "Raise the topic's `max.message.bytes`, or send smaller records.",
    "OFFSET_METADATA_TOO_LARGE": "Shorten the metadata, or raise `offset.metadata.max.bytes`.",
    "NOT_ENOUGH_REPLICAS": "Start the brokers that are down, or lower `min.insync.replicas`.",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "As for NOT_ENOUGH_REPLICAS.",
    "INVALID_TOPIC_EXCEPTION": "Name it of letters, digits, `.`, `_`, `-`; leave internal topics alone.",
    "RECORD_LIST_TOO_LARGE": "Lower `batch_size`, or raise the topic's `segment.bytes`.",
    "INCONSISTENT_GROUP_PROTOCOL": "Give all consumers of the group an assignor in common.",
    "INVALID_GROUP_ID": "Give a `group_id`.",
    "INVALID_SESSION_TIMEOUT": "Keep to the broker's `group.{min,max}.session.timeout.ms`.",
    "TOPIC_AUTHORIZATION_FAILED": "Add an ACL for the topic: `odradek acls --add … --topic NAME`.",
    "GROUP_AUTHORIZATION_FAILED": "Add an ACL for the group: `odradek acls --add … --group NAME`.",
    "CLUSTER_AUTHORIZATION_FAILED": "Add an ACL for the cluster: `odradek acls --add … --cluster`.",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "Add an ACL: `odradek acls --add … --transactional-id NAME`.",
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": "Add an ACL: `odradek acls --add … --delegation-token ID`.",
    "INVALID_TIMESTAMP": "Keep to the topic's `message.timestamp.{before,after}.max.ms`.",
    "UNSUPPORTED_SASL_MECHANISM": "Use one of the broker's `sasl.enabled.mechanisms`.",
    "SASL_AUTHENTICATION_FAILED": "Check the user and the password.",
    "UNSUPPORTED_VERSION": "Use a newer broker, or leave out what it does not have.",
    "TOPIC_ALREADY_EXISTS": "Use the topic that is there, or say `--if-not-exists`.",
    "INVALID_PARTITIONS": "Ask for more partitions than there are; their number never goes down.",
    "INVALID_REPLICATION_FACTOR": "Ask for at most as many replicas as there are brokers.",
    "INVALID_CONFIG": "The message names the config and what it can be.",
    "INVALID_REQUEST": "The message says what contradicts what.",
    "OUT_OF_ORDER_SEQUENCE_NUMBER": "Records were lost: abort the transaction, or make a new producer.",
    "INVALID_PRODUCER_EPOCH": "As for PRODUCER_FENCED.",
    "INVALID_TXN_STATE": "Begin a transaction before you send, and end it once.",
    "INVALID_TRANSACTION_TIMEOUT": "Lower `transaction_timeout_ms`.",
    "KAFKA_STORAGE_ERROR": "Look at the broker's disk, and restart the broker.",
    "NON_EMPTY_GROUP": "Stop the group's consumers first.",
    "GROUP_ID_NOT_FOUND": "Check the group's name: `odradek consumer-groups --list`.",
    "TOPIC_DELETION_DISABLED": "Set `delete.topic.enable=true`.",
    "GROUP_MAX_SIZE_REACHED": "Raise `group.max.size`, or run fewer consumers.",
    "FENCED_INSTANCE_ID": "Give each consumer a `group_instance_id` of its own.",
    "GROUP_SUBSCRIBED_TO_TOPIC": "Stop the consumers of the topic first.",
    "INVALID_RECORD": "The message says which record, and why.",
    "THROTTLING_QUOTA_EXCEEDED": "Wait, or raise the quota.",
    "PRODUCER_FENCED": "Close this producer: another one with its `transactional_id` runs.",
    "UNACCEPTABLE_CREDENTIAL": "Use 4,096 to 16,384 iterations, and a password.",
    "DELEGATION_TOKEN_EXPIRED": "Make a new token.",
    "DELEGATION_TOKEN_AUTH_DISABLED": "Set `delegation.token.secret.key` at the brokers.",
    "TRANSACTION_ABORTABLE": "Abort the transaction, and begin it again.",
    "TRANSACTIONAL_ID_NOT_FOUND": "Check the id: `odradek transactions list`.",
    "REASSIGNMENT_IN_PROGRESS": "Wait until the reassignment has ended, or cancel it.",
    "DUPLICATE_BROKER_REGISTRATION": "Give each broker a `broker.id` of its own.",
    "INCONSISTENT_CLUSTER_ID": "Give the broker the data folder of this cluster.",
    "POLICY_VIOLATION": "The message says which policy.",
}
"""What a user can do, by the name of the code."""

BEGIN, END = "<!-- made by tests/docs/error_table.py: {} -->\n", "<!-- end -->\n"


def _codes() -> list[ErrorCode]:
    return sorted((code for code in ErrorCode if code is not ErrorCode.NONE), key=lambda code: code.name)


def tables() -> dict[str, str]:
    """The tables of the page, by their names."""
    codes = _codes()
    rest = [code for code in codes if code.name not in REMEDIES]
    return {
        "remedies": _table(
            ("code", "what it means", "what to do"),
            ((code, REMEDIES[code.name]) for code in codes if code.name in REMEDIES),
        ),
        "retried": _table(("code", "what it means"), ((code, None) for code in rest if code.retriable)),
        "others": _table(("code", "what it means"), ((code, None) for code in rest if not code.retriable)),
    }


def _table(head: tuple[str, ...], rows: Iterable[tuple[ErrorCode, str | None]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for code, remedy in rows:
        name = f"{code.value} `{code.name}`<br>`{type(error_for(code)).__name__}`"
        lines.append(f"| {name} | {code.message} |" + (f" {remedy} |" if remedy else ""))
    return "".join(f"{line}\n" for line in lines)


def filled(text: str) -> str:
    """The text of the page with its tables as they have to be."""
    for name, table in tables().items():
        begin = BEGIN.format(name)
        whole = f"{begin}\n{table}\n{END}"
        head, _, rest = text.partition(begin)
        text = head + whole + rest.partition(END)[2]
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
