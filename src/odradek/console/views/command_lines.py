"""The command line of odradek's tools that does what a page does."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from odradek.client.types import TopicPartition
from odradek.console.views.access import Entity, acl_words, quota_words
from odradek.console.views.resets import Reset
from odradek.console.views.texts import time_text
from odradek.util.acl import AclBinding


@dataclass(frozen=True)
class CommandLines:
    """Makes command lines for one cluster, quoted for a shell.

    Args:
        bootstrap_servers: the brokers to ask first.
        config_file: a properties file of client configs.
    """

    bootstrap_servers: str
    config_file: str | None = None

    def topics(self) -> str:
        """List the topics with partitions and configs."""
        return self._line("topics", "--describe")

    def topic(self, name: str) -> str:
        """Describe a topic."""
        return self._line("topics", "--describe", "--topic", _literal(name))

    def create_topic(
        self, name: str, partitions: int | None, replicas: int | None, configs: Mapping[str, str]
    ) -> str:
        """Create a topic; numbers that are None are the cluster's defaults."""
        words = ["--create", "--topic", name]
        if partitions is not None:
            words += ["--partitions", str(partitions)]
        if replicas is not None:
            words += ["--replication-factor", str(replicas)]
        for key, value in configs.items():
            words += ["--config", f"{key}={value}"]
        return self._line("topics", *words)

    def add_partitions(self, name: str, partitions: int) -> str:
        """Raise a topic to a number of partitions."""
        return self._line("topics", "--alter", "--topic", _literal(name), "--partitions", str(partitions))

    def delete_topic(self, name: str) -> str:
        """Delete a topic."""
        return self._line("topics", "--delete", "--topic", _literal(name))

    def topic_configs(self, name: str) -> str:
        """Show all configs of a topic."""
        return self._line("configs", "--describe", "--all", "--topic", name)

    def set_topic_config(self, name: str, key: str, value: str | None) -> str:
        """Set a config of a topic; None takes it away."""
        if value is None:
            return self._line("configs", "--alter", "--topic", name, "--delete-config", key)
        grouped = f"[{value}]" if "," in value else value
        return self._line("configs", "--alter", "--topic", name, "--add-config", f"{key}={grouped}")

    def offsets(self, name: str) -> str:
        """Show the end offsets of a topic."""
        return self._line("get-offsets", "--topic", _literal(name))

    def records(
        self, name: str, partition: int | None, offset: int | None, isolation_level: str, most: int
    ) -> str:
        """Print records from an offset of a partition on, from the first without; '' where no tool can."""
        if partition is None and offset is not None:
            return ""
        words = ["--topic", name, "--max-messages", str(most), "--isolation-level", isolation_level]
        if partition is None:
            words.append("--from-beginning")
        else:
            words += [
                "--partition",
                str(partition),
                "--offset",
                "earliest" if offset is None else str(offset),
            ]
        return self._for_clients("consumer", *words, "--property", "print.key=true")

    def groups(self) -> str:
        """List the groups with their states."""
        return self._line("consumer-groups", "--list", "--state")

    def group(self, group_id: str) -> str:
        """Show a group's offsets and lag."""
        return self._line("consumer-groups", "--describe", "--group", group_id)

    def group_members(self, group_id: str) -> str:
        """Show a group's members."""
        return self._line("consumer-groups", "--describe", "--members", "--group", group_id)

    def delete_group(self, group_id: str) -> str:
        """Delete a group."""
        return self._line("consumer-groups", "--delete", "--group", group_id)

    def reset_offsets(self, group_id: str, reset: Reset) -> str:
        """Set a group's offsets."""
        partitions = ",".join(map(str, reset.partitions))
        scope = ["--topic", f"{reset.topic}:{partitions}" if partitions else reset.topic]
        words = ["--group", group_id, "--reset-offsets", *(scope if reset.topic else ["--all-topics"])]
        words += {
            "time": ["--to-datetime", time_text(reset.number).replace(" ", "T")],
            "shift": ["--shift-by", str(reset.number)],
            "offset": ["--to-offset", str(reset.number)],
        }.get(reset.target, [f"--to-{reset.target}"])
        return self._line("consumer-groups", *words, "--execute")

    def tail(self, name: str, partition: str, committed: bool) -> str:
        """Print records as they come."""
        words = ["--topic", name, *(["--partition", partition] if partition else [])]
        level = ["--isolation-level", "read_committed"] if committed else []
        return self._for_clients("consumer", *words, *level, "--property", "print.key=true")

    def produce(self, name: str) -> str:
        """Produce records from lines, a key before a tab in each."""
        return self._for_clients("producer", "--topic", name, "--property", "parse.key=true")

    def brokers(self) -> str:
        """Show the API versions of all brokers."""
        return self._line("broker-api-versions")

    def log_dirs(self, broker: int | None = None) -> str:
        """Show the log dirs of a broker, or of all."""
        words = [] if broker is None else ["--broker-list", str(broker)]
        return self._line("log-dirs", "--describe", *words)

    def broker_configs(self, broker: int) -> str:
        """Show all configs of a broker."""
        return self._line("configs", "--describe", "--all", "--broker", str(broker))

    def acls(self) -> str:
        """List the ACLs."""
        return self._line("acls", "--list")

    def remove_acl(self, binding: AclBinding) -> str:
        """Delete an ACL; '' where the tool has no words for it."""
        words = acl_words(binding)
        return self._line("acls", "--remove", *words, "--force") if words else ""

    def users(self) -> str:
        """List the users that have passwords for SCRAM."""
        return self._line("configs", "--describe", "--entity-type", "users")

    def set_user(self) -> str:
        """Give a user a password; the names are examples."""
        return self._line(
            "configs", "--alter", "--user", "alice", "--add-config", "SCRAM-SHA-256=[password=…]"
        )

    def delete_user(self, user: str, mechanism: str) -> str:
        """Take away a user's password."""
        return self._line("configs", "--alter", "--user", user, "--delete-config", mechanism)

    def quotas(self) -> str:
        """List the quotas of client ids; those of users and addresses are listed likewise."""
        return self._line("configs", "--describe", "--entity-type", "clients")

    def set_quota(self, entity: Entity, quota: str, value: str | None) -> str:
        """Set a quota; None takes it away."""
        change = ["--delete-config", quota] if value is None else ["--add-config", f"{quota}={value}"]
        return self._line("configs", "--alter", *quota_words(entity), *change)

    def transactions(self) -> str:
        """List the transactional ids."""
        return self._line("transactions", "list")

    def abort(self, tp: TopicPartition, start: int) -> str:
        """Abort a transaction that hangs."""
        words = ["abort", "--topic", tp.topic, "--partition", str(tp.partition), "--start-offset", str(start)]
        return self._line("transactions", *words)

    def _for_clients(self, role: str, *words: str) -> str:
        return self._line(f"console-{role}", *words, config_option=f"--{role}.config")

    def _line(self, tool: str, *words: str, config_option: str = "--command-config") -> str:
        config = [] if self.config_file is None else [config_option, self.config_file]
        return shlex.join(["odradek", tool, "--bootstrap-server", self.bootstrap_servers, *config, *words])


def _literal(name: str) -> str:
    """Return the regular expression that means one topic: the tools take expressions, and `.` is any sign."""
    return name.replace(".", r"\.")
