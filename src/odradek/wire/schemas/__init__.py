"""What Kafka keeps in topics, in files and inside other messages: one module per schema, named after it.

Keys and values of `__consumer_offsets`, `__transaction_state` and `__share_group_state`, control records, the
consumer protocol inside JoinGroup and SyncGroup, the assignors' user data, and the transaction index's entry.
"""


def module_name(name: str) -> str:
    """The module of a schema.

    Args:
        name: Kafka's name (``"OffsetCommitKey"``); the module of that is ``offset_commit_key``.
    """
    return "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).lstrip("_")
