"""The authorizer that the configs ask for.

`super.users` and `allow.everyone.if.no.acl.found` are configs of the authorizer's, not of the broker's: in
Kafka, too, the class that is named reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.broker.authorizer.acl_authorizer import AclAuthorizer
from odradek.broker.authorizer.acl_index import super_users
from odradek.broker.authorizer.acl_keeper import AclKeeper
from odradek.broker.config.protection import AUTHORIZERS
from odradek.cluster.configs.config_def import ConfigError
from odradek.cluster.inter_broker_versions import at_least

if TYPE_CHECKING:
    from odradek.broker.authorizer.acl_keeper import StoreAccess
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.util.clock import Clock


def make_authorizer(config: BrokerConfig, access: StoreAccess, clock: Clock) -> AclKeeper | None:
    """The authorizer of `authorizer.class.name`, its ACLs not loaded yet; None where nothing is named.

    Args:
        config: the broker's configs.
        access: the controller, whose store has the ACLs.
        clock: wall-clock time.

    Raises:
        ConfigError: `super.users` or `allow.everyone.if.no.acl.found` is not what it must be.
    """
    if config.authorizer_class_name.strip() not in AUTHORIZERS:
        # Another one has been refused, unless `odradek.insecure` says that there need be none.
        return None
    everyone = config.given.get("allow.everyone.if.no.acl.found", "false").strip().lower()
    try:
        supers = super_users(config.given.get("super.users", ""))
    except ValueError as error:
        raise ConfigError(
            f"super.users: {error}. Separate principals such as User:admin by semicolons."
        ) from None
    return AclKeeper(
        AclAuthorizer(supers, everyone == "true"),
        access,
        clock,
        old_names=not at_least(config.inter_broker_protocol_version, "2.4-IV0"),
    )
