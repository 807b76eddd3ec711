"""The pages of topics: the table, one topic, and the forms that create, change and delete."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from odradek.client.types import NewTopic, TopicPartition
from odradek.console.asking import ask_log_dirs, ask_offsets
from odradek.console.forms import FormError, name_values
from odradek.console.views.history import rates
from odradek.console.views.paging import page_of
from odradek.console.views.plots import plot
from odradek.console.views.topics import (
    ORDERS,
    PartitionRow,
    chosen_rows,
    config_rows,
    partition_rows,
    problem_counts,
    replica_sizes,
    topic_rows,
)
from odradek.console.visit import Visit
from odradek.errors import KafkaError

MOST_REPLICAS = 2**15 - 1


def topic_path(name: str) -> str:
    """Return the path of a topic's page."""
    return f"/topics/{quote(name, safe='')}"


async def topics_page(visit: Visit) -> Response:
    """Show all topics that a filter lets through."""
    cluster, topics = await asyncio.gather(visit.admin.describe_cluster(), visit.admin.describe_topics())
    live = {node.id for node in cluster.nodes}
    log_dirs = await ask_log_dirs(visit.admin, live)
    rows = topic_rows(topics.values(), replica_sizes(log_dirs.folders), live)
    order = visit.query("order") if visit.query("order") in ORDERS else "name"
    chosen = chosen_rows(
        rows, text=visit.query("filter"), internal=visit.query("internal") == "1", order=order
    )
    under_replicated, offline = problem_counts(rows)
    context = {
        "table": page_of(chosen, visit.page_number),
        "all_topics": len(rows),
        "under_replicated": under_replicated,
        "offline": offline,
        "order": order,
        "problems": log_dirs.problems,
    }
    return visit.page("topics.html", context)


async def topic_page(visit: Visit) -> Response:
    """Show one topic: its partitions, and its configs."""
    name = visit.request.path_params["name"]
    cluster, topics, described = await asyncio.gather(
        visit.admin.describe_cluster(),
        visit.admin.describe_topics([name]),
        visit.admin.describe_configs([("topic", name)], synonyms=True, documentation=True),
    )
    live = {node.id for node in cluster.nodes}
    topic = topics[name]
    log_dirs = await ask_log_dirs(visit.admin, live)
    sizes = replica_sizes(log_dirs.folders)
    problems_only = visit.query("problems") == "1"
    table = page_of(partition_rows(topic, sizes, live, problems_only=problems_only), visit.page_number)
    offsets = await ask_offsets(
        visit.admin, [TopicPartition(name, row.partition) for row in table.rows if row.leader is not None]
    )

    def with_offsets(row: PartitionRow) -> PartitionRow:
        first, end = offsets.bounds.get(TopicPartition(name, row.partition), (None, None))
        return replace(row, first=first, end=end)

    ends = [end for _, end in offsets.bounds.values()]
    partitions = [TopicPartition(name, p.partition) for p in topic.partitions]
    visit.watch.topic_seen(name, partitions, sum(ends) if len(ends) == len(partitions) else None)
    points = rates(visit.watch.topic(name).points(name))
    (summary,) = topic_rows([topic], sizes, live)
    context = {
        "topic": topic,
        "summary": summary,
        "table": replace(table, rows=[with_offsets(row) for row in table.rows]),
        "problems_only": problems_only,
        "plot": plot(points, "Records a second"),
        "configs": config_rows(
            described[("topic", name)],
            text=visit.query("config"),
            set_only=visit.query("configs") != "all" and not visit.query("config"),
        ),
        "problems": log_dirs.problems,
        "offsets_problem": offsets.problem,
    }
    return visit.page("topic.html", context)


async def create_page(visit: Visit) -> Response:
    """Show the form of a new topic."""
    return _create_form(visit, {}, "")


async def create(visit: Visit) -> Response:
    """Create a topic, or show what is wrong with it, or which command line would do it."""
    form = visit.form
    name = form.text("name")
    try:
        partitions = form.optional_number("partitions", "Partitions", least=1)
        replicas = form.optional_number("replicas", "Replication factor", least=1, most=MOST_REPLICAS)
        lines = name_values(form.text("configs"), "Configs")
        configs = {key: value.strip() for key, value in lines}
        topic = NewTopic(name, partitions or -1, replicas or -1, configs=configs)
        line = visit.command_lines.create_topic(name, partitions, replicas, configs)
        if "try" in form:
            await visit.admin.create_topics([topic], validate_only=True)
            return _create_form(visit, form, "", line)
        await visit.admin.create_topics([topic])
    except (ValueError, KafkaError) as error:
        return _create_form(visit, form, str(error))
    return visit.done(f"Topic {name} has been created.", topic_path(name))


def _create_form(visit: Visit, values: dict[str, str], problem: str, line: str = "") -> Response:
    context = {"values": values, "problem": problem, "line": line}
    return visit.page("create_topic.html", context, 400 if problem else 200)


async def add_partitions(visit: Visit) -> Response:
    """Raise a topic to a number of partitions."""
    name = visit.request.path_params["name"]
    count = visit.form.number("partitions", "Partitions", least=1)
    await visit.admin.create_partitions({name: count})
    return visit.done(f"Topic {name} has {count} partitions now.", topic_path(name))


async def change_config(visit: Visit) -> Response:
    """Set a config of a topic, or take it away."""
    name = visit.request.path_params["name"]
    key = visit.form.text("key")
    if not key:
        raise FormError("Name: the config to change is not named.")
    value = None if "remove" in visit.form else visit.form.text("value")
    await visit.admin.incremental_alter_configs({("topic", name): {key: value}})
    notice = f"{key} is {value} now." if value is not None else f"{key} is no config of the topic any more."
    return visit.done(notice, f"{topic_path(name)}#configs")


async def delete(visit: Visit) -> Response:
    """Delete a topic whose name has been typed."""
    name = visit.request.path_params["name"]
    if visit.form.text("typed") != name:
        raise FormError(f"Nothing was deleted: type the topic's name, {name}, to confirm.")
    await visit.admin.delete_topics([name])
    return visit.done(f"Topic {name} has been deleted.", "/topics")


async def home(visit: Visit) -> Response:  # noqa: ARG001
    """Go to the first page."""
    return RedirectResponse("/topics", 303)
