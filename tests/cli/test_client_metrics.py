"""`odradek client-metrics`: subscriptions to the metrics of clients."""

from __future__ import annotations

import json

import pytest

from cli.conftest import RunTool


def described(tool: RunTool, name: str) -> str:
    return tool("client-metrics", "--describe", "--name", name).stdout


def test_the_life_of_a_subscription(tool: RunTool, name: str) -> None:
    def alter(*words: str) -> None:
        done = tool("client-metrics", "--alter", "--name", name, *words)
        assert done.stdout == f"Altered client metrics config for {name}.\n"

    absent = f"The client metric resource {name} doesn't exist and doesn't have dynamic config.\n"
    assert described(tool, name) == absent
    selectors = "client_software_name=apache.*,client_id=a[1-9]"
    alter("--metrics", "org.apache.kafka.producer,org.apache.kafka.consumer", "--interval", "30000",
          "--match", selectors)  # fmt: skip
    head = f"Client metrics configs for {name} are:\n"
    expected = (
        f"{head}  interval.ms=30000\n  match={selectors}\n"
        "  metrics=org.apache.kafka.producer,org.apache.kafka.consumer\n"
    )
    assert described(tool, name) == expected
    assert expected in tool("client-metrics", "--describe").stdout
    alter()  # nothing to change is no error
    alter("--interval", "", "--match", "", "--metrics", "a", "--metrics", "b")
    assert described(tool, name) == f"{head}  metrics=a,b\n"
    assert name in tool("client-metrics", "--list").stdout.splitlines()
    assert name in json.loads(tool("client-metrics", "--list", "--json").stdout)
    (document,) = json.loads(tool("client-metrics", "--describe", "--name", name, "--json").stdout)
    assert document == {"name": name, "configs": {"metrics": "a,b"}}
    deleted = tool("client-metrics", "--delete", "--name", name)
    assert deleted.stdout == f"Deleted client metrics config for {name}.\n"
    assert described(tool, name) == absent
    assert name not in tool("client-metrics", "--list").stdout.splitlines()


def test_a_name_is_made(tool: RunTool) -> None:
    done = tool("client-metrics", "--alter", "--generate-name", "--metrics", "*")
    made = done.stdout.removeprefix("Altered client metrics config for ").removesuffix(".\n")
    assert len(made) == 22
    assert described(tool, made) == f"Client metrics configs for {made} are:\n  metrics=*\n"
    tool("client-metrics", "--delete", "--name", made)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "Command must include exactly one action: --alter, --delete, --describe or --list."),
        (["--list", "--describe"], "Command must include exactly one action"),
        (["--alter"], "One of --name or --generate-name must be specified with --alter."),
        (["--alter", "--name", "n", "--generate-name"], "One of --name or --generate-name"),
        (["--delete"], "A client metrics resource name must be specified with --delete."),
        (["--list", "--name", "n"], 'Option "[list]" can\'t be used with option "[name]"'),
        (["--describe", "--generate-name"], 'can\'t be used with option "[generate-name]"'),
        (["--delete", "--name", "n", "--metrics", "m"], 'Option "[delete]" can\'t be used with'),
        (["--alter", "--name", "n", "--interval", "soon"], "Invalid interval value. Enter an integer"),
        (["--alter", "--name", "n", "--interval", "99999999999"], "Invalid interval value. Enter an integer"),
        (["--alter", "--name", "n", "--interval", "5"], "Invalid value 5 for interval.ms, interval must be"),
        (["--alter", "--name", "n", "--match", "colour=red"], "Illegal client matching pattern: colour=red"),
        (["--delete", "--name", "n", "--json"], "--json goes with what lists or describes"),
    ],
)  # fmt: skip
def test_client_metrics_refuses(tool: RunTool, words: list[str], complaint: str) -> None:
    refused = tool("client-metrics", *words, status=1)
    assert complaint in refused.stderr
    assert refused.stdout == ""
