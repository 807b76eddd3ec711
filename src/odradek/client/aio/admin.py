"""`AsyncAdmin`: topics, configs, groups, offsets, placement, quotas, credentials, ACLs, transactions, the
cluster.

Calls about several things return a dictionary and raise the first error after all were asked; `errors` on the
exception has the others. A request that may go to any broker does; one for the controller, a
leader or a coordinator goes there, and is tried again where these have moved.
"""

from __future__ import annotations

from odradek.client.aio.admin_access import AccessAdmin
from odradek.client.aio.admin_acls import AclAdmin
from odradek.client.aio.admin_cluster import ClusterAdmin
from odradek.client.aio.admin_configs import ConfigAdmin
from odradek.client.aio.admin_groups import GroupAdmin
from odradek.client.aio.admin_placement import PlacementAdmin
from odradek.client.aio.admin_tokens import TokenAdmin
from odradek.client.aio.admin_topics import TopicAdmin
from odradek.client.aio.admin_transactions import TransactionAdmin


class AsyncAdmin(
    TopicAdmin,
    ConfigAdmin,
    GroupAdmin,
    PlacementAdmin,
    AccessAdmin,
    AclAdmin,
    TokenAdmin,
    TransactionAdmin,
    ClusterAdmin,
):
    """The administrator, for coroutines.

        async with AsyncAdmin(bootstrap_servers="127.0.0.1:9092") as admin:
            await admin.create_topics([NewTopic("events", num_partitions=6)])

    Every call takes at most `default_api_timeout_ms`. Where one call names several things and some fail, the
    others are done; the exception is that of the first, with all of them in its attribute `errors`.

    Args:
        config, configs: Kafka's admin configs under Python's names or, in a mapping, Kafka's.

    Raises:
        ConfigError: a config that cannot be used.
        KafkaError: by every call that fails; `ClientTimeoutError` after that time.
    """
