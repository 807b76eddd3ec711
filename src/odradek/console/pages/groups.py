"""The pages of groups: the table, one group, the preview of a reset; and what changes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlencode

from starlette.responses import Response

from odradek.client.core.fetch_requests import EARLIEST, LATEST
from odradek.client.types import GroupDescription, TopicPartition
from odradek.console.asking import ask_those_there
from odradek.console.forms import Form, FormError, refusing
from odradek.console.group_asking import ask_group_offsets
from odradek.console.views.groups import (
    STATES,
    UNUSED_STATES,
    GroupOffsets,
    chosen_groups,
    group_rows,
    lag_rows,
)
from odradek.console.views.messages import parse_time
from odradek.console.views.paging import page_of
from odradek.console.views.plots import Plot, plot
from odradek.console.views.resets import (
    TARGETS,
    Bounds,
    Reset,
    ResetRow,
    parse_plan,
    plan_text,
    reset_rows,
)
from odradek.console.visit import Visit
from odradek.console.watch import TOTAL
from odradek.errors import KafkaError

SMALL = {"width": 120, "height": 24}
MOST_OFFSET = 2**63 - 1


def group_path(group_id: str, page: str = "one") -> str:
    """Return the path of a group's page: ids have any signs, so they stand in the query."""
    return f"/groups/{page}?{urlencode({'id': group_id})}"


async def groups_page(visit: Visit) -> Response:
    """Show all groups that a filter lets through."""
    listed = await visit.admin.list_groups()
    chosen = chosen_groups(listed, text=visit.query("filter"), state=visit.query("state"))
    table = page_of(chosen, visit.page_number)
    names = [group.group_id for group in table.rows]
    described = await _described(visit, names)
    offsets = await ask_group_offsets(visit.admin, names, described)
    visit.watch.groups_seen(offsets)
    context = {
        "table": table,
        "rows": group_rows(table.rows, described, offsets),
        "all_groups": len(listed),
        "states": sorted({*STATES, *(group.state for group in listed if group.state)}),
        "plots": {name: _plot(visit, name, TOTAL, **SMALL) for name in names},
    }
    return visit.page("groups.html", context)


async def group_page(visit: Visit) -> Response:
    """Show one group: its members, and its lag by partition, now and before."""
    group = await _group(visit)
    if group is None:
        return _no_such_group(visit)
    offsets = (await ask_group_offsets(visit.admin, [group.group_id], {group.group_id: group}))[
        group.group_id
    ]
    visit.watch.groups_seen({group.group_id: offsets})
    table = page_of(lag_rows(group, offsets), visit.page_number)
    context = {
        "group": group,
        "offsets": offsets,
        "table": table,
        "plot": _plot(visit, group.group_id, TOTAL),
        "plots": {row.tp: _plot(visit, group.group_id, row.tp, **SMALL) for row in table.rows},
        "topics": sorted({tp.topic for tp in offsets.committed}),
        "is_unused": group.state in UNUSED_STATES,
    }
    return visit.page("group.html", context)


async def reset_page(visit: Visit) -> Response:
    """Show what a reset would do: nothing is done yet."""
    group = await _group(visit)
    if group is None:
        return _no_such_group(visit)
    reset = reset_of(Form(visit.request.query_params))
    offsets = (await ask_group_offsets(visit.admin, [group.group_id]))[group.group_id]
    if offsets.problem:
        raise FormError(f"The group's offsets are not known: {offsets.problem}", 502)
    with refusing():
        rows = await _reset_rows(visit, reset, offsets)
    context = {
        "group": group,
        "rows": rows,
        "plan": plan_text(rows),
        "is_unused": group.state in UNUSED_STATES,
        "line": visit.command_lines.reset_offsets(group.group_id, reset),
    }
    return visit.page("reset.html", context)


async def reset(visit: Visit) -> Response:
    """Set a group's offsets as the preview has shown it, unless they have moved since."""
    group_id = visit.form.get("id", "")
    with refusing():
        plan = parse_plan(visit.form.get("plan", ""))
    # Offsets that cannot be asked for are not offsets that are not there: the error is the answer.
    offsets = await visit.admin.list_group_offsets(group_id)
    now = {tp: at.offset for tp, at in offsets.items() if at.offset >= 0}
    moved = [str(tp) for tp, (shown, _) in plan.items() if now.get(tp) != shown]
    if moved:
        raise FormError(f"The group has committed since the preview: {', '.join(moved[:10])}.", 409)
    await visit.admin.alter_group_offsets(group_id, {tp: new for tp, (_, new) in plan.items()})
    return visit.done(f"{len(plan)} offsets of the group {group_id} have been set.", group_path(group_id))


async def delete(visit: Visit) -> Response:
    """Delete a group whose id has been typed."""
    group_id = visit.form.get("id", "")
    if visit.form.text("typed") != group_id.strip():
        raise FormError(f"Nothing was deleted: type the group's id, {group_id}, to confirm.")
    await visit.admin.delete_groups([group_id])
    return visit.done(f"The group {group_id} has been deleted.", "/groups")


def reset_of(query: Form) -> Reset:
    """Return what the fields of a query wish.

    Raises:
        FormError: a field cannot be understood.
    """
    target = query.text("target")
    number = 0
    if target == "time":
        with refusing():
            number = parse_time(query.text("time"))
    elif target == "shift":
        number = query.number("number", "Offset, or how far", least=-MOST_OFFSET, most=MOST_OFFSET)
    elif target == "offset":
        number = query.number("number", "Offset, or how far", least=0, most=MOST_OFFSET)
    elif target not in TARGETS:
        raise FormError(f"To: {target!r} is none of {', '.join(TARGETS)}.")
    topic = query.text("topic")
    words = query.text("partitions").replace(",", " ").split()
    if words and not topic:
        raise FormError("Partitions: they are of one topic, and none is named.")
    if not all(word.isascii() and word.isdecimal() and len(word) < 10 for word in words):
        raise FormError(f"Partitions: {' '.join(words)!r} are not numbers with commas between.")
    return Reset(target, number, topic, tuple(sorted({int(word) for word in words})))


async def _reset_rows(visit: Visit, reset: Reset, offsets: GroupOffsets) -> list[ResetRow]:
    partitions = await _reset_partitions(visit, reset, offsets)
    first = await visit.admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    untold = [tp for tp in partitions if tp not in offsets.ends]
    told = await visit.admin.list_offsets(dict.fromkeys(untold, LATEST)) if untold else {}
    ends = {**offsets.ends, **{tp: end.offset for tp, end in told.items()}}
    by_time = {}
    if reset.target == "time":
        by_time = await visit.admin.list_offsets(dict.fromkeys(partitions, reset.number))
    bounds = {
        tp: Bounds(first[tp].offset, ends[tp], by_time[tp].offset if tp in by_time else -1)
        for tp in partitions
    }
    return reset_rows(reset, offsets.committed, bounds)


async def _reset_partitions(visit: Visit, reset: Reset, offsets: GroupOffsets) -> list[TopicPartition]:
    """The partitions that a reset means.

    Raises:
        FormError: one does not exist, or there is none.
    """
    if not reset.topic:
        partitions = [tp for tp in offsets.committed if tp not in offsets.gone]
        if not partitions:
            raise FormError("The group has committed no offset: name the topic.")
        return partitions
    topic = (await visit.admin.describe_topics([reset.topic]))[reset.topic]
    there = {p.partition for p in topic.partitions}
    absent = set(reset.partitions) - there
    if absent:
        raise FormError(f"Partitions: {reset.topic} has no {', '.join(map(str, sorted(absent)))}.")
    return [TopicPartition(reset.topic, number) for number in sorted(reset.partitions or there)]


async def _described(visit: Visit, names: Iterable[str]) -> Mapping[str, GroupDescription]:
    """The groups that can be described; of others only their names are known."""
    try:
        return await ask_those_there(visit.admin.describe_groups, names)
    except KafkaError:
        return {}


async def _group(visit: Visit) -> GroupDescription | None:
    """The group that is asked for; None where there is none."""
    group_id = visit.request.query_params.get("id", "")
    group = (await visit.admin.describe_groups([group_id]))[group_id]
    if group.state != "Dead":
        return group
    # A group of the new protocol (KIP-848) is dead to who asks for its description in the old way.
    listed = {listing.group_id: listing for listing in await visit.admin.list_groups()}
    if group_id not in listed:
        return None
    listing = listed[group_id]
    return GroupDescription(group_id, listing.state, listing.type or listing.protocol_type, "", (), None)


def _no_such_group(visit: Visit) -> Response:
    name = visit.request.query_params.get("id", "")
    context = {"title": "No such group", "message": f"There is no group {name!r}.", "remedy": ""}
    return visit.page("problem.html", context, 404)


def _plot(visit: Visit, group_id: str, key: TopicPartition, **size: int) -> Plot | None:
    noun = "Lag" if key == TOTAL else f"Lag of {key}"
    return plot(visit.watch.group(group_id).points(key), noun, **size)
