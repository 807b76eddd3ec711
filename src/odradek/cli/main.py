"""`odradek <tool>`: the root of the command line.

Tools are modules of this package named after the tool (`console-producer` → `console_producer`), each
with a click `command`. A tool is imported only when it is called, so that none pays for another.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import click

from odradek import __version__
from odradek.cli.exits import by_kafkas_rule
from odradek.cli.suggesting import SuggestingGroup

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: Tool → the line that `odradek --help` shows for it, without importing it.
TOOLS = {
    "server": "Run a broker.",
    "server-stop": "Stop brokers of this machine.",
    "storage": "Look at data folders, give them a cluster's id; make ids.",
    "topics": "Create, list, describe, alter and delete topics.",
    "configs": "Show and change configs, quotas and SCRAM credentials.",
    "client-metrics": "Show and change subscriptions to the metrics of clients.",
    "console-producer": "Send lines from standard input to a topic.",
    "console-consumer": "Print the records of topics.",
    "cat": "Print, send and ask as kcat does.",
    "consumer-groups": "List, describe, delete groups; reset their offsets.",
    "lag": "Show how far groups are behind, live.",
    "groups": "List the groups of all types.",
    "cluster": "Show the cluster's id, and the addresses of its brokers.",
    "features": "Show and change the levels of the cluster's features.",
    "broker-api-versions": "Show the API versions that brokers serve.",
    "get-offsets": "Show the offsets of topic partitions.",
    "delete-records": "Delete the records of partitions before given offsets.",
    "delegation-tokens": "Create, renew, expire and describe delegation tokens.",
    "log-dirs": "Show brokers' data folders and the partitions in them.",
    "leader-election": "Have preferred or unclean leaders elected.",
    "reassign-partitions": "Move partitions to other brokers, and replicas to other folders.",
    "replica-verification": "Compare the replicas of partitions with each other.",
    "acls": "List, add and remove ACLs: who may do what.",
    "transactions": "Look at transactions; find those that hang, and abort them.",
    "dump-log": "Print what is in log and index files.",
    "producer-perf-test": "Measure producing.",
    "consumer-perf-test": "Measure consuming.",
    "e2e-latency": "Measure the time from a send until the record is read.",
    "verifiable-producer": "Send numbers, in transactions or not, and tell of each what became of it.",
    "verifiable-consumer": "Read a topic in a group, and tell of everything that happens.",
    "transactional-message-copier": "Copy records to another topic exactly once, and tell how far it is.",
    "mirror": "Copy topics and groups' offsets to another cluster, each record once.",
    "schema-registry": "Run a schema registry that speaks the REST interface of Confluent's.",
    "console": "Run the web console: a cluster in a browser.",
    "mock": "Run a broker for tests of other languages, told by HTTP to fail.",
    "wire": "Decode, encode and check protocol messages.",
    "shims": "Write Kafka's scripts (kafka-topics.sh, …) by these tools.",
    "completion": "Print what a shell needs to complete tools and options.",
    "doctor": "Say what this installation has, lacks, and what that costs.",
}


class ToolGroup(SuggestingGroup):
    """A group whose commands are modules, imported on first use."""

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        """Parse the words before the tool's name."""
        with by_kafkas_rule():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a tool."""
        with by_kafkas_rule():
            return super().invoke(ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a tool, importing none."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        # Here, as every tool begins sooner without.
        from click.shell_completion import CompletionItem

        return [
            CompletionItem(name, help=text) for name, text in TOOLS.items() if name.startswith(incomplete)
        ]

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The tools, in the order of the table."""
        return list(TOOLS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The tool's `command`, or None where there is no such tool."""
        if cmd_name not in TOOLS:
            return None
        module = importlib.import_module(f"odradek.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the tools from the table, importing none of them."""
        with formatter.section("Tools"):
            formatter.write_dl(list(TOOLS.items()))


@click.command(cls=ToolGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="odradek")
def main() -> None:
    """Apache Kafka's system in Python: the broker and its tools."""


if __name__ == "__main__":
    sys.exit(main())
