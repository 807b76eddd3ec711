"""`odradek broker-api-versions`: kafka-broker-api-versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from odradek.cli.tool import (
    Tool,
    bootstrap_option,
    client_configs,
    command_config_option,
    echo_json,
    json_option,
)

if TYPE_CHECKING:
    from odradek.wire.api import ApiKey


@click.command(cls=Tool, name="broker-api-versions")
@bootstrap_option()
@command_config_option()
@json_option()
def command(bootstrap_server: str, config_file: str | None, as_json: bool) -> None:
    """Show the API versions that every broker of the cluster serves, as Kafka's own tool prints them."""
    from odradek import Admin
    from odradek.wire.api import ApiKey

    ours = {key.value: key for key in ApiKey}
    nodes = []
    with Admin(**client_configs(bootstrap_server, config_file, client_id="odradek-api-versions")) as admin:
        for node in sorted(admin.describe_cluster().nodes):
            theirs = {r.api_key: (r.min_version, r.max_version) for r in admin.api_versions(node.id)}
            if as_json:
                apis = [_as_object(key, *theirs[key], ours.get(key)) for key in sorted(theirs)]
                nodes.append(
                    {"id": node.id, "host": node.host, "port": node.port, "rack": node.rack, "apis": apis}
                )
                continue
            rows = [version_line(key, theirs.get(key), ours.get(key)) for key in sorted({*theirs, *ours})]
            rack = node.rack if node.rack is not None else "null"
            # DescribeCluster tells of fenced brokers only when asked for them: none here is.
            click.echo(f"{node.host}:{node.port} (id: {node.id} rack: {rack} isFenced: false) -> (")
            click.echo(",\n".join(f"\t{row}" for row in rows))
            click.echo(")")
    if as_json:
        echo_json(nodes)


def _as_object(key: int, least: int, most: int, ours: ApiKey | None) -> dict[str, object]:
    """One API that a broker serves; `usable` is None where odradek's client cannot ask it."""
    from odradek.wire.messages import request_class

    versions = () if ours is None else request_class(ours).VERSIONS
    usable = _usable(least, most, versions)
    name = None if ours is None else ours.api_name
    return {"apiKey": key, "name": name, "minVersion": least, "maxVersion": most, "usable": usable}


def version_line(key: int, theirs: tuple[int, int] | None, ours: object | None) -> str:
    """One API as Kafka's tool words it: `Fetch(1): 0 to 10 [usable: 10]`.

    Args:
        key: the API key.
        theirs: the broker's versions, from and to; None where it does not serve the API.
        ours: the `ApiKey`, None where this release does not know it.
    """
    from odradek.wire.api import ApiKey
    from odradek.wire.messages import request_class

    if ours is None:
        assert theirs is not None
        return f"UNKNOWN({key}): {_span(*theirs)}"
    api = ApiKey(key)
    name = f"{api.api_name}({key}): "
    if theirs is None:
        return f"{name}UNSUPPORTED"
    least, most = theirs
    versions = request_class(api).VERSIONS
    usable = _usable(least, most, versions)
    if usable is not None:
        said = f"usable: {usable}"
    else:
        said = f"unusable: node too {'new' if versions[-1] < least else 'old'}"
    return f"{name}{_span(least, most)} [{said}]"


def _usable(least: int, most: int, versions: Sequence[int]) -> int | None:
    """The newest version that a broker serves and the client (`versions`) asks; None: there is none."""
    if not versions or versions[-1] < least or most < versions[0]:
        return None
    return min(versions[-1], most)


def _span(least: int, most: int) -> str:
    return str(least) if least == most else f"{least} to {most}"
