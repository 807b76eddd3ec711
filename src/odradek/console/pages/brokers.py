"""The pages of brokers: the table, and one broker."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from odradek.client.types import ClusterDescription, FeatureMetadata
from odradek.console.asking import ask_log_dirs
from odradek.console.views.brokers import broker_rows, log_dir_rows
from odradek.console.views.topics import config_rows
from odradek.console.visit import Visit
from odradek.errors import KafkaError


async def brokers_page(visit: Visit) -> Response:
    """Show all brokers, those too that are gone but have replicas."""
    cluster, topics = await asyncio.gather(visit.admin.describe_cluster(), visit.admin.describe_topics())
    log_dirs, features = await asyncio.gather(
        ask_log_dirs(visit.admin, [node.id for node in cluster.nodes]), _features(visit)
    )
    context = {
        "cluster": cluster,
        "rows": broker_rows(cluster, topics.values(), log_dirs.folders),
        "problems": log_dirs.problems,
        "features": features,
    }
    return visit.page("brokers.html", context)


async def broker_page(visit: Visit) -> Response:
    """Show one broker: its log dirs, configs and API versions."""
    broker = visit.request.path_params["broker"]
    cluster, topics = await asyncio.gather(visit.admin.describe_cluster(), visit.admin.describe_topics())
    log_dirs = await ask_log_dirs(visit.admin, [broker] if broker in _ids(cluster) else [])
    rows = [row for row in broker_rows(cluster, topics.values(), log_dirs.folders) if row.broker == broker]
    if not rows or not rows[0].is_alive:
        there = ", ".join(map(str, _ids(cluster)))
        message = f"There is no broker {broker} now; there are {there}."
        return visit.page("problem.html", {"title": "No such broker", "message": message, "remedy": ""}, 404)
    described, versions = await asyncio.gather(
        visit.admin.describe_configs([("broker", broker)], synonyms=True, documentation=True),
        visit.admin.api_versions(broker),
    )
    context = {
        "row": rows[0],
        "log_dirs": log_dir_rows(log_dirs.folders.get(broker, {})),
        "problems": log_dirs.problems,
        "configs": config_rows(
            described[("broker", broker)],
            text=visit.query("config"),
            set_only=visit.query("configs") != "all" and not visit.query("config"),
        ),
        "versions": versions,
    }
    return visit.page("broker.html", context)


def _ids(cluster: ClusterDescription) -> list[int]:
    return [node.id for node in cluster.nodes]


async def _features(visit: Visit) -> FeatureMetadata | None:
    """The cluster's features; None from brokers before Kafka 2.4."""
    try:
        return await visit.admin.describe_features()
    except KafkaError:
        return None
