"""ACLs, delegation tokens and the key of SCRAM's decoys of a start, as far as the configs ask for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.broker.authorizer.acl_keeper import AclKeeper
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.membership.lone_membership import LoneMembership
    from odradek.broker.membership.membership import Membership
    from odradek.broker.sasl.token_keeper import TokenKeeper
    from odradek.broker.upkeep.housekeeping import Housekeeping
    from odradek.cluster.controller.kafka_controller import KafkaController
    from odradek.util.clock import Clock
    from odradek.util.undo import Undo

_LOOK_AGAIN_MS = 1_000


async def open_security(
    config: BrokerConfig,
    controller: KafkaController,
    clock: Clock,
    undo: Undo,
    membership: Membership | LoneMembership,
) -> tuple[AclKeeper | None, TokenKeeper | None, bytes]:
    """Load ACLs, delegation tokens and the key of decoys, before anybody can ask anything; None for what
    there is not, and an empty key where nobody logs in.

    Raises:
        ConfigError: see `make_authorizer`.
        StoreError: they cannot be loaded.
    """
    acls = tokens = None
    if config.authorizer_class_name:
        from odradek.broker.authorizer.acl_keeper import make_authorizer

        acls = make_authorizer(config, controller, clock)
        await _load("ACLs", acls, undo, membership)
    if config.delegation_token_secret_key or config.delegation_token_master_key:
        from odradek.broker.sasl.token_keeper import make_delegation_tokens

        tokens = make_delegation_tokens(config, controller, clock)
        await _load("delegation tokens", tokens, undo, membership)
    decoy_key = b""
    if any(endpoint.security_protocol.startswith("SASL") for endpoint in config.listener_endpoints):
        from odradek.cluster.access.scram import load_decoy_key

        decoy_key = await membership.ask_until_answered(load_decoy_key)
    return acls, tokens, decoy_key


def keep_up_security(
    housekeeping: Housekeeping,
    config: BrokerConfig,
    controller: KafkaController,
    acls: AclKeeper | None,
    tokens: TokenKeeper | None,
) -> None:
    """Look again by the clock at what could not be loaded, and remove delegation tokens that have expired."""
    if tokens is not None:

        def remove_expired() -> None:
            if controller.is_active:  # for all brokers
                controller.event_queue.post(tokens.remove_expired)

        housekeeping.every("tokens", _LOOK_AGAIN_MS, tokens.look_again)
        interval_ms = config.delegation_token_expiry_check_interval_ms
        housekeeping.every("expired tokens", interval_ms, remove_expired)
    if acls is not None:
        housekeeping.every("ACLs", _LOOK_AGAIN_MS, acls.look_again)


async def _load(
    name: str,
    keeper: AclKeeper | TokenKeeper | None,
    undo: Undo,
    membership: Membership | LoneMembership,
) -> None:
    if keeper is None:
        return
    undo.push(name, keeper.stop)
    load = keeper.load
    await membership.ask_until_answered(lambda _: load())
    # A new session with the store has heard of nothing.
    membership.on_session.append(load)
