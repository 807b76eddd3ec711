"""The page of who may do what: ACLs, SCRAM users and quotas; and what changes them."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

from starlette.responses import Response

from odradek.client.aio.admin_access import MECHANISMS
from odradek.console.forms import FormError, refusing
from odradek.console.views.access import (
    OPERATIONS,
    QUOTAS,
    RESOURCE_TYPES,
    binding_fields,
    entity_fields,
    entity_text,
    parse_binding,
    parse_entity,
)
from odradek.console.views.paging import page_of
from odradek.console.visit import Visit
from odradek.errors import KafkaError
from odradek.util.acl import AccessControlEntryFilter, AclBinding, AclBindingFilter, ResourcePatternFilter

T = TypeVar("T")


async def access_page(visit: Visit) -> Response:
    """Show all ACLs, users and quotas; a part that the cluster does not tell is told as such."""
    acls, acls_problem = await _told(visit.admin.describe_acls())
    users, users_problem = await _told(visit.admin.describe_user_scram_credentials())
    quotas, quotas_problem = await _told(visit.admin.describe_client_quotas())
    text = visit.query("filter").lower()
    rows = [binding_fields(binding) for binding in sorted(acls or ())]
    chosen = [row for row in rows if text in " ".join(row.values()).lower()]
    context = {
        "acls": page_of(chosen, visit.page_number),
        "acls_problem": acls_problem,
        "users": sorted((users or {}).items()),
        "users_problem": users_problem,
        "quotas": [
            (entity_text(entity), entity_fields(entity), values)
            for entity, values in sorted((quotas or {}).items(), key=lambda item: entity_text(item[0]))
        ],
        "quotas_problem": quotas_problem,
        "resource_types": RESOURCE_TYPES,
        "operations": OPERATIONS,
        "quota_names": QUOTAS,
        "mechanisms": list(MECHANISMS),
    }
    return visit.page("access.html", context)


async def confirm_page(visit: Visit) -> Response:
    """Ask whether an ACL, a user's password or a quota is to be taken away."""
    fields = dict(visit.request.query_params)
    kind = fields.pop("what", "")
    lines = visit.command_lines
    if kind == "acl":
        binding = _binding(fields)
        question = f"Delete the ACL: {binding.entry} of {binding.pattern}?"
        line = lines.remove_acl(binding)
    elif kind == "user":
        user, mechanism = fields.get("user", ""), fields.get("mechanism", "")
        question = f"Take away the {mechanism} password of {user}? Nobody can log in by it any more."
        line = lines.delete_user(user, mechanism)
    elif kind == "quota":
        entity = _entity(fields)
        question = f"Take away the quota {fields.get('quota', '')} of {entity_text(entity)}?"
        line = lines.set_quota(entity, fields.get("quota", ""), None)
    else:
        raise FormError("There is nothing to confirm.")
    context = {"question": question, "line": line, "fields": fields, "action": f"/access/{kind}/delete"}
    return visit.page("confirm.html", {**context, "back": "/access"})


async def create_acl(visit: Visit) -> Response:
    """Create an ACL."""
    binding = _binding(visit.form)
    await visit.admin.create_acls([binding])
    return visit.done(f"Created: {binding.entry} of {binding.pattern}.", "/access")


async def delete_acl(visit: Visit) -> Response:
    """Delete exactly one ACL."""
    binding = _binding(visit.form)
    pattern, entry = binding
    exact = AclBindingFilter(ResourcePatternFilter(*pattern), AccessControlEntryFilter(*entry))
    (deleted,) = await visit.admin.delete_acls([exact])
    if not deleted:
        raise FormError("There is no such ACL any more.", 404)
    return visit.done(f"Deleted: {entry} of {pattern}.", "/access")


async def set_user(visit: Visit) -> Response:
    """Give a user a password; a user that does not exist comes to be by it."""
    user, mechanism = visit.form.text("user"), visit.form.text("mechanism")
    password = visit.form.get("password", "")
    if not user or not password:
        raise FormError("A user needs a name and a password.")
    await visit.admin.alter_user_scram_credentials({(user, mechanism): password})
    return visit.done(f"{user} has a {mechanism} password now.", "/access")


async def delete_user(visit: Visit) -> Response:
    """Take away a user's password."""
    user, mechanism = visit.form.get("user", ""), visit.form.text("mechanism")
    await visit.admin.alter_user_scram_credentials({(user, mechanism): None})
    return visit.done(f"{user} has no {mechanism} password any more.", "/access")


async def set_quota(visit: Visit) -> Response:
    """Set a quota."""
    entity = _entity(visit.form)
    name, text = visit.form.text("quota"), visit.form.text("value")
    try:
        value = float(text)
    except ValueError:
        raise FormError(f"Value: {text!r} is not a number.") from None
    await visit.admin.alter_client_quotas({entity: {name: value}})
    return visit.done(f"{name} of {entity_text(entity)} is {value:g} now.", "/access")


async def delete_quota(visit: Visit) -> Response:
    """Take away a quota."""
    entity = _entity(visit.form)
    name = visit.form.text("quota")
    await visit.admin.alter_client_quotas({entity: {name: None}})
    return visit.done(f"{entity_text(entity)} has no {name} any more.", "/access")


async def _told(asking: Awaitable[T]) -> tuple[T | None, str]:
    """An answer, or why there is none: a cluster without ACLs has users all the same."""
    try:
        return await asking, ""
    except KafkaError as error:
        return None, str(error)


def _binding(fields: Any) -> AclBinding:
    with refusing():
        return parse_binding(fields)


def _entity(fields: Any) -> tuple[tuple[str, str | None], ...]:
    with refusing():
        return parse_entity(fields)
