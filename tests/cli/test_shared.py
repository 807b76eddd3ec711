"""What all tools have in common: help, exit codes, old flags, client configs, brokers that do not answer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cli.conftest import RunTool
from odradek.cli.completion import VARIABLE
from odradek.cli.exits import FAILED, INTERRUPTED, TERMINATED, Terminated
from odradek.cli.main import TOOLS, main
from odradek.cli.tool import key_values, matching, table
from odradek.util.properties import parse_properties

#: Words with which a tool would do something, if there were a broker.
CALLS = {
    "topics": ["--list"],
    "console-producer": ["--topic", "t", "--max-block-ms", "200"],
    "console-consumer": ["--topic", "t"],
    "consumer-groups": ["--list", "--timeout", "200"],
    "broker-api-versions": [],
    "get-offsets": [],
    "log-dirs": ["--describe"],
    "acls": ["--list"],
    "leader-election": ["--election-type", "preferred", "--all-topic-partitions"],
    "consumer-perf-test": ["--topic", "t", "--num-records", "1"],
    "producer-perf-test": ["--topic", "t", "--num-records", "1", "--record-size", "1", "--throughput", "-1"],
}
FILE_OPTION = {"console-producer": "--producer.config", "console-consumer": "--consumer.config"}


@pytest.mark.parametrize("name", TOOLS)
def test_help(run: RunTool, name: str) -> None:
    for flag in ("--help",) if name in ("server", "wire") else ("--help", "-h"):
        shown = run(name, flag)
        assert shown.exit_code == 0, shown.output
        assert shown.stdout.startswith(f"Usage: main {name}")


def test_help_of_all(run: RunTool) -> None:
    shown = run("--help").stdout
    assert all(name in shown for name in TOOLS)
    assert run("--version").stdout.startswith("odradek, version ")


def words_of_all(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words that call each tool, those within tools too."""
    if words:
        yield words
    if isinstance(command, click.Group):
        ctx = click.Context(command)
        if any(parameter.name == "bootstrap_server" for parameter in command.params):
            words += ("--bootstrap-server", "127.0.0.1:1")
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None
            yield from words_of_all(child, (*words, name))


def test_exit_codes_are_one_rule(run: RunTool) -> None:
    calls = list(words_of_all(main))
    assert {("features", "--bootstrap-server", "127.0.0.1:1", "describe"), ("wire", "list")} < set(calls)
    for words in calls:
        assert run(*words, "--help").exit_code == 0, words
        refused = run(*words, "--nosuchoption")
        assert (refused.exit_code, refused.stdout) == (FAILED, ""), words
        assert refused.stderr, words
    assert run("--nosuchoption").exit_code == run("nosuchtool").exit_code == FAILED


@pytest.mark.parametrize(
    ("error", "code"), [(KeyboardInterrupt(), INTERRUPTED), (Terminated(), TERMINATED)], ids=repr
)
def test_a_signal_ends_every_tool_alike(
    run: RunTool, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def end(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(click.Context, "invoke", end)
    assert run("wire", "list").exit_code == run("doctor").exit_code == code


def test_a_shell_completes_tools_and_options(run: RunTool, tmp_path: Path) -> None:
    def completed(*words: str) -> list[str]:
        line = {"COMP_WORDS": " ".join(["odradek", *words]), "COMP_CWORD": str(len(words))}
        answered = CliRunner(env={VARIABLE: "bash_complete", **line}).invoke(main, [], prog_name="odradek")
        return [line.removeprefix("plain,") for line in answered.stdout.split()]

    assert completed("consumer-") == ["consumer-groups", "consumer-perf-test"]
    assert completed("topics", "--under") == ["--under-replicated-partitions", "--under-min-isr-partitions"]
    script = tmp_path / "odradek"
    for shell in ("zsh", "fish", "bash"):
        printed = run("completion", shell)
        assert printed.exit_code == 0
        assert VARIABLE in printed.stdout
        script.write_text(printed.stdout, encoding="utf-8")
    sourced = ["bash", "-c", f"source {script} && complete -p odradek"]
    assert "odradek" in subprocess.run(sourced, capture_output=True, text=True, timeout=60, check=True).stdout


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["consol-producer"], "No such command 'consol-producer'. Did you mean 'console-producer'?"),
        (["topcis", "--list"], "Did you mean 'topics'?"),
        (["zzz"], "No such command 'zzz'. There are: server, server-stop, "),
        (["wire", "decod"], "No such command 'decod'. Did you mean 'decode'?"),
        (["transactions", "--bootstrap-server", "127.0.0.1:1", "lst"], "Did you mean 'list'?"),
    ],
)
def test_a_mistyped_command_is_told_with_the_nearest(run: RunTool, words: list[str], hint: str) -> None:
    ended = run(*words)
    assert ended.exit_code != 0
    assert hint in ended.stderr


@pytest.mark.parametrize("name", CALLS)
def test_a_broker_that_does_not_answer(run: RunTool, name: str, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("default.api.timeout.ms=200\nmax.block.ms=200\n", encoding="utf-8")
    words = [FILE_OPTION.get(name, "--command-config"), str(config), *CALLS[name]]
    ended = run(name, "--bootstrap-server", "127.0.0.1:1", *words, stdin=b"a line\n")
    assert ended.exit_code == 1
    assert "127.0.0.1:1" in ended.stderr
    assert "Connection refused" in ended.stderr
    assert "Traceback" not in ended.output
    errors = [line for line in ended.stderr.splitlines() if line.startswith("Error")]
    assert len(errors) == 1


def test_a_host_that_is_not_known(run: RunTool) -> None:
    ended = run("consumer-groups", "--bootstrap-server", "nowhere.invalid:9092", "--list", "--timeout", "200")
    assert ended.exit_code == 1
    assert "nowhere.invalid:9092" in ended.stderr


@pytest.mark.parametrize("name", [n for n in CALLS if n != "producer-perf-test"])
def test_zookeeper_gets_the_remedy(run: RunTool, name: str) -> None:
    ended = run(name, "--zookeeper", "127.0.0.1:2181", *CALLS[name])
    assert ended.exit_code == 1
    assert "give --bootstrap-server HOST:PORT instead" in ended.stderr


@pytest.mark.parametrize("name", [n for n in CALLS if n != "producer-perf-test"])
def test_the_broker_s_address_is_needed(run: RunTool, name: str) -> None:
    ended = run(name, *CALLS[name])
    assert ended.exit_code == 1
    assert "bootstrap-server" in ended.stderr


@pytest.mark.parametrize("name", CALLS)
def test_a_bad_address(run: RunTool, name: str) -> None:
    ended = run(name, "--bootstrap-server", "localhost:port", *CALLS[name], stdin=b"a line\n")
    assert ended.exit_code == 1
    assert "'localhost:port' is not host:port" in ended.stderr


def test_one_dash_will_do(run: RunTool, servers: str) -> None:
    assert run("topics", "-list", "-bootstrap-server", servers).exit_code == 0
    assert run("topics", "-list", f"-bootstrap-server={servers}").exit_code == 0


def test_old_flags_are_taken_with_a_word(tool: RunTool) -> None:
    listed = tool("consumer-groups", "--new-consumer", "--list")
    assert listed.stderr == "WARNING: --new-consumer has no effect: there is no other any more\n"
    assert tool("topics", "--list", "--force").stderr.startswith("WARNING: --force has no effect")


def test_config_files(tool: RunTool, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        "# a comment\nclient.id = somebody\nnosuch.config=1\nkey.serializer=org.example.S\n", encoding="utf-8"
    )
    listed = tool("topics", "--list", "--command-config", str(config))
    assert listed.stderr.count("WARNING") == 1
    assert "nosuch" in listed.stderr
    config.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n", encoding="utf-8")
    refused = tool("topics", "--list", "--command-config", str(config), status=1)
    assert "sasl.jaas.config" in refused.stderr
    config.write_text("request.timeout.ms=soon\n", encoding="utf-8")
    refused = tool("topics", "--list", "--command-config", str(config), status=1)
    assert "request.timeout.ms" in refused.stderr
    config.write_text("a=\\u12\n", encoding="utf-8")
    assert "line 1" in tool("topics", "--list", "--command-config", str(config), status=1).stderr
    absent = tool("topics", "--list", "--command-config", str(tmp_path / "absent"), status=1)
    assert "does not exist" in absent.stderr


def test_nothing_heavy_is_imported(servers: str) -> None:
    """A shell command pays for what it imports: no tables, columns, brokers or other tools."""
    code = (
        "import sys; from odradek.cli.main import main\n"
        f"try: main(['topics', '--list', '--bootstrap-server', {servers!r}])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "print(*sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(done.stderr.split())
    heavy = {"rich", "pyarrow", "pandas", "numpy", "pyspark", "kazoo", "sqlite3", "csv", "random", "email"}
    assert loaded & heavy <= {"random"}
    ours = {name for name in loaded if name.startswith("odradek.")}
    assert not {
        name for name in ours if name.startswith(("odradek.broker", "odradek.log", "odradek.cluster"))
    }
    assert {name for name in ours if name.startswith("odradek.cli.")} == {
        "odradek.cli.exits",
        "odradek.cli.main",
        "odradek.cli.suggesting",
        "odradek.cli.tool",
        "odradek.cli.topics",
    }


def test_key_values() -> None:
    assert key_values(["a=1", "b=x=y", "c="], "--p") == {"a": "1", "b": "x=y", "c": ""}
    for bad in ("a", "=1", " =1"):
        with pytest.raises(click.BadParameter):
            key_values([bad], "--p")


def test_matching() -> None:
    names = ["a", "a.b", "b", "ab"]
    assert matching("a.*", names) == ["a", "a.b", "ab"]
    assert matching("'a, b'", names) == ["a", "b"]
    assert matching("a", names) == ["a"]
    # In Java's language, as Kafka's tools read it.
    assert matching("[a-z&&[^b]].*", names) == ["a", "a.b", "ab"]


def test_table() -> None:
    rows = [["ONE", "TWO", "THREE"], ["a longer cell", "b", "c"]]
    assert list(table(rows, (5, 4, 0))) == ["ONE           TWO  THREE", "a longer cell b    c"]


def test_properties_of_the_shell_and_of_files_are_read_alike() -> None:
    assert parse_properties("a=1\nb=x=y\nc=") == key_values(["a=1", "b=x=y", "c="], "--p")
