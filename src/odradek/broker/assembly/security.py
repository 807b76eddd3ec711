"""ACLs and delegation tokens of a start, as far as the configs ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.broker.authorizer.acl_keeper import AclKeeper
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.membership.membership import Membership
    from odradek.broker.sasl.token_keeper import TokenKeeper
    from odradek.cluster.controller.controller import Controller
    from odradek.util.clock import Clock
    from odradek.util.undo import Undo


def open_security(
    config: BrokerConfig, controller: Controller, clock: Clock, undo: Undo, membership: Membership | None
) -> tuple[AclKeeper | None, TokenKeeper | None]:
    """Load ACLs and delegation tokens, before anybody can ask anything; None for what there is not.

    Raises:
        ConfigError, StoreError: see `open_authorizer` and `open_delegation_tokens`.
    """
    acls = tokens = None
    if config.authorizer_class_name:
        from odradek.broker.authorizer.opening import open_authorizer

        acls = open_authorizer(config, controller, clock)
        _follow_store("ACLs", acls, undo, membership)
    if config.delegation_token_secret_key or config.delegation_token_master_key:
        from odradek.broker.sasl.token_keeper import open_delegation_tokens

        tokens = open_delegation_tokens(config, controller, clock)
        _follow_store("delegation tokens", tokens, undo, membership)
    return acls, tokens


def _follow_store(
    name: str, keeper: AclKeeper | TokenKeeper | None, undo: Undo, membership: Membership | None
) -> None:
    if keeper is None:
        return
    undo.push(name, keeper.stop)
    if membership is not None:
        # A new session with the store has heard of nothing.
        membership.on_session.append(keeper.load)
