"""`odradek mirror`: another cluster as a copy, each record once; the work is in `mirroring`."""

from __future__ import annotations

import re
import time

import click

from odradek.cli.tool import NotedSignals, Tool, client_configs, regular_expression

#: As MirrorMaker's `DefaultTopicFilter` and `DefaultGroupFilter`.
TOPICS_EXCLUDED = r".*[\-\.]internal, .*\.replica, __.*"
GROUPS_EXCLUDED = "console-consumer-.*, connect-.*, __.*"
_FILE = click.Path(exists=True, dir_okay=False)


@click.command(cls=Tool, name="mirror")
@click.option("--source", required=True, metavar="HOST:PORT[,…]", help="Brokers of the cluster to copy.")
@click.option("--target", required=True, metavar="HOST:PORT[,…]", help="Brokers of the cluster to write to.")
@click.option("--source-config", type=_FILE, help="A properties file with client configs for the source.")
@click.option("--target-config", type=_FILE, help="A properties file with client configs for the target.")
@click.option(
    "--name",
    default="default",
    show_default=True,
    help="The mirror's name. One that is started with the name of another ends that one, and goes on for it.",
)
@click.option("--topics", default=".*", show_default=True, help="Topics: regular expressions, with commas.")
@click.option("--topics-exclude", default=TOPICS_EXCLUDED, show_default=True, help="But not these.")
@click.option("--groups", default=".*", show_default=True, help="Groups whose offsets are translated.")
@click.option("--groups-exclude", default=GROUPS_EXCLUDED, show_default=True, help="But not these.")
@click.option(
    "--topic-prefix", default="", help="Put before the names in the target, as MirrorMaker's `west.`."
)
@click.option(
    "--replication-factor",
    type=int,
    default=-1,
    help="Of topics that are made in the target; its default if left out.",
)
@click.option(
    "--max-records",
    type=click.IntRange(1),
    default=5000,
    show_default=True,
    help="How many records one transaction copies at most.",
)
@click.option(
    "--refresh-ms",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="How often to look for new topics, partitions and configs, and to translate groups' offsets.",
)
@click.option("--once", is_flag=True, help="End when what is there now is copied.")
def command(
    source: str,
    target: str,
    source_config: str | None,
    target_config: str | None,
    name: str,
    topics: str,
    topics_exclude: str,
    groups: str,
    groups_exclude: str,
    topic_prefix: str,
    replication_factor: int,
    max_records: int,
    refresh_ms: int,
    once: bool,
) -> None:
    """Copy topics, their configs and the offsets of groups to another cluster, each record exactly once.

    What was copied, and how far, is one transaction in the target: a mirror that dies and is started again
    copies nothing twice. Readers of the copy set isolation.level=read_committed.
    """
    if not re.fullmatch(r"[a-zA-Z0-9._-]+", name):
        raise click.BadParameter("letters, digits, '.', '_' and '-' make a name", param_hint="--name")
    from odradek.cli.mirroring import Choice, Mirror

    mirror = Mirror(
        name,
        client_configs(source, source_config, client_id="odradek-mirror"),
        client_configs(target, target_config, client_id="odradek-mirror"),
        topics=Choice(_expression(topics), _expression(topics_exclude)),
        groups=Choice(_expression(groups), _expression(groups_exclude)),
        prefix=topic_prefix,
        replication_factor=replication_factor,
        max_records=max_records,
        tell=click.echo,
    )
    with NotedSignals() as signals:
        try:
            mirror.start()
            mirror.refresh_topics()
            ends = mirror.end_offsets() if once else {}
            refreshed = time.monotonic()
            while signals.ended_by is None and (not once or mirror.is_behind(ends)):
                mirror.step()
                if time.monotonic() - refreshed >= refresh_ms / 1000:
                    mirror.translate_groups()
                    mirror.refresh_topics()
                    refreshed = time.monotonic()
            mirror.translate_groups()
        finally:
            mirror.close()
        click.echo(f"copied records: {mirror.copied}, translated groups: {mirror.translated}")
    signals.leave()


def _expression(text: str) -> re.Pattern[str]:
    """Regular expressions with commas between; none fits nothing.

    Raises:
        click.BadParameter: it is not a regular expression.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return regular_expression("|".join(parts)) if parts else re.compile(r"(?!)")
