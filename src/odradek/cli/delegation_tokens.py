"""`odradek delegation-tokens`: kafka-delegation-tokens."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click

from odradek.cli.tool import (
    Tool,
    bootstrap_option,
    check_json,
    client_configs,
    command_config_option,
    echo_json,
    json_option,
)

if TYPE_CHECKING:
    from odradek import Admin
    from odradek.client.types import DelegationToken

_ROW = "{:<15} {:<30} {:<15} {:<15} {:<25} {:<15} {:<15} {:<15}"
_HEAD = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")


@click.command(cls=Tool, name="delegation-tokens")
@bootstrap_option()
@command_config_option()
@click.option("--create", "actions", flag_value="create", multiple=True, help="Have a token made.")
@click.option("--renew", "actions", flag_value="renew", multiple=True, help="Put a token's end off.")
@click.option("--expire", "actions", flag_value="expire", multiple=True, help="End a token.")
@click.option("--describe", "actions", flag_value="describe", multiple=True, help="List tokens.")
@click.option(
    "--owner-principal", multiple=True, metavar="TYPE:NAME", help="Whose tokens; whose it is to be."
)
@click.option("--renewer-principal", multiple=True, metavar="TYPE:NAME", help="Who may renew it.")
@click.option("--max-life-time-period", type=int, metavar="MS", help="Its longest life; -1: the brokers'.")
@click.option("--renew-time-period", type=int, metavar="MS", help="Until when, from now; -1: the brokers'.")
@click.option("--expiry-time-period", type=int, metavar="MS", help="When it ends, from now; -1: at once.")
@click.option("--hmac", metavar="BASE64", help="The token's HMAC.")
@json_option()
def command(
    bootstrap_server: str,
    config_file: str | None,
    actions: tuple[str, ...],
    owner_principal: tuple[str, ...],
    renewer_principal: tuple[str, ...],
    max_life_time_period: int | None,
    renew_time_period: int | None,
    expiry_time_period: int | None,
    hmac: str | None,
    as_json: bool,
) -> None:
    """Create, renew, expire and describe delegation tokens."""
    if len(actions) != 1:
        raise click.UsageError(
            "Command must include exactly one action: --create, --renew, --expire or --describe"
        )
    (action,) = actions
    check_json(as_json, lists=action == "describe")
    needs: dict[str, dict[str, object]] = {
        "create": {"--max-life-time-period": max_life_time_period},
        "renew": {"--hmac": hmac, "--renew-time-period": renew_time_period},
        "expire": {"--hmac": hmac, "--expiry-time-period": expiry_time_period},
    }
    for name, value in needs.get(action, {}).items():
        if value is None:
            raise click.UsageError(f"--{action} needs {name}")
    from odradek import Admin

    with Admin(
        **client_configs(bootstrap_server, config_file, client_id="odradek-delegation-tokens")
    ) as admin:
        if action == "create":
            _create(admin, owner_principal, renewer_principal, max_life_time_period)
        elif action == "describe":
            _describe(admin, owner_principal, as_json=as_json)
        elif action == "renew":
            _put_off(admin.renew_delegation_token, "renew", hmac, renew_time_period)
        else:
            _put_off(admin.expire_delegation_token, "expire", hmac, expiry_time_period)


def _create(
    admin: Admin, owner: tuple[str, ...], renewers: tuple[str, ...], max_life_time_period: int | None
) -> None:
    stripped = [renewer.strip() for renewer in renewers]
    click.echo(
        f"Calling create token operation with renewers :{_listed(stripped)} , "
        f"max-life-time-period :{max_life_time_period}"
    )
    token = admin.create_delegation_token(
        owner=owner[0].strip() if owner else None,
        renewers=stripped,
        max_lifetime_ms=-1 if max_life_time_period is None else max_life_time_period,
    )
    click.echo(f"Created delegation token with tokenId : {token.token_id}")
    _print([token])


def _describe(admin: Admin, owners: tuple[str, ...], *, as_json: bool) -> None:
    stripped = [owner.strip() for owner in owners]
    if as_json:
        echo_json([_as_object(token) for token in admin.describe_delegation_tokens(stripped or None)])
        return
    if stripped:
        click.echo(f"Calling describe token operation for owners: {_listed(stripped)}")
    else:
        click.echo("Calling describe token operation for current user.")
    tokens = admin.describe_delegation_tokens(stripped or None)
    click.echo(f"Total number of tokens : {len(tokens)}", nl=False)
    _print(tokens)


def _put_off(call: Callable[..., int], action: str, hmac: str | None, period: int | None) -> None:
    """Renew a token, or have it end; Kafka's tool speaks of both in the same words."""
    secret = _decoded(hmac or "")
    period_ms = -1 if period is None else period
    click.echo(f"Calling {action} token operation with hmac :{hmac} , {action}-time-period :{period_ms}")
    ends_ms = call(secret, period_ms=period_ms)
    click.echo(f"Completed {action} operation. New expiry date : {_date(ends_ms)}", nl=False)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise click.BadParameter("it is not base64", param_hint="--hmac") from error


def _print(tokens: Iterable[DelegationToken]) -> None:
    click.echo("\n" + _ROW.format(*_HEAD))
    for token in tokens:
        click.echo(
            "\n"
            + _ROW.format(
                token.token_id,
                base64.b64encode(token.hmac).decode(),
                token.owner,
                token.requester,
                _listed(token.renewers),
                _date(token.issue_timestamp_ms),
                _date(token.expiry_timestamp_ms),
                _date(token.max_timestamp_ms),
            )
        )


def _as_object(token: DelegationToken) -> dict[str, object]:
    return {
        "tokenId": token.token_id,
        "hmac": base64.b64encode(token.hmac).decode(),
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issueTimestampMs": token.issue_timestamp_ms,
        "expiryTimestampMs": token.expiry_timestamp_ms,
        "maxTimestampMs": token.max_timestamp_ms,
    }


def _listed(principals: Iterable[str]) -> str:
    return f"[{', '.join(principals)}]"


def _date(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M", time.localtime(ms / 1000))
