"""The broker as its handlers see it, and the rooms of the broker that work for all of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from odradek.broker.apis.served_apis import ServedApis
    from odradek.broker.authorizer.acl_keeper import AclKeeper
    from odradek.broker.config.broker_config import BrokerConfig
    from odradek.broker.conversion.conversions import Conversions
    from odradek.broker.conversion.unpacking import Unpacking
    from odradek.broker.event_loop.slices import Slicer
    from odradek.broker.fetch.sessions import FetchSessionCache
    from odradek.broker.groups.runtime import GroupRuntime
    from odradek.broker.interbroker.channels import InterBrokerChannels
    from odradek.broker.membership.state_changes import StateChanges
    from odradek.broker.metadata.features import Features
    from odradek.broker.metadata.topic_descriptions import TopicDescriptions
    from odradek.broker.metrics.metrics import Metrics
    from odradek.broker.metrics.telemetry import ClientTelemetry
    from odradek.broker.network.request_log import RequestLog
    from odradek.broker.quotas.producer_id_throttle import ProducerIdThrottle
    from odradek.broker.quotas.quota_managers import QuotaManagers
    from odradek.broker.quotas.throttling import RequestThrottle
    from odradek.broker.replicas.replica_manager import ReplicaManager
    from odradek.broker.requests.authorizer import Authorizer
    from odradek.broker.sasl.token_keeper import TokenKeeper
    from odradek.broker.transactions.producer_ids import ProducerIds
    from odradek.broker.transactions.runtime import TransactionRuntime
    from odradek.broker.upkeep.log_starts import LogStarts
    from odradek.broker.upkeep.moving import Moving
    from odradek.cluster.controller.kafka_controller import KafkaController
    from odradek.cluster.image import ClusterImage
    from odradek.log.folders.log_manager import LogManager
    from odradek.replication.delayed import Purgatory
    from odradek.util.clock import Clock
    from odradek.util.timers import Timers


class BrokerServices(Protocol):
    """The broker as seen from within. `odradek.broker.app.Broker` puts it together.

    Attributes:
        config: its configs, dynamic ones included.
        clock, timers, loop: time, for everything in it.
        stopwatch, pauses: the machine's time, also where a test has the broker's in hand: for how long a
            request says that it waits, and for what is tried again after a while.
        controller: writes the cluster's metadata.
        state_changes: does what the controller of a cluster of several says; None for a broker that is alone.
        channels: to the other brokers of a cluster of several; None for a broker that is alone.
        logs: the logs on disk; `replicas` the partitions over them.
        purgatory: whatever waits.
        producer_id_throttle: how fast clients may have producer ids made.
        producer_ids, features, fetch_sessions, metrics: what the names say.
        quotas: what clients may take.
        request_throttle: counts what requests take; None while no quota asks for that.
        conversions: records on their way to another message format.
        unpacking: large batches on their way into a log.
        authorizer: who may do what; None allows everything.
        delegation_tokens: the tokens that one can log in by; None where there are none.
        scram_decoy_key: makes what SCRAM tells of names that are not known; empty where nobody logs in.
        acls: the ACLs that the authorizer asks, to be changed; None where there are none.
        slicer: runs work that takes long in slices.
        request_log: one line per request, when it is on.
    """

    config: BrokerConfig
    clock: Clock
    timers: Timers
    stopwatch: Clock
    pauses: Timers
    loop: asyncio.AbstractEventLoop
    controller: KafkaController
    state_changes: StateChanges | None
    channels: InterBrokerChannels | None
    logs: LogManager
    replicas: ReplicaManager
    purgatory: Purgatory
    producer_id_throttle: ProducerIdThrottle
    producer_ids: ProducerIds
    features: Features
    fetch_sessions: FetchSessionCache
    metrics: Metrics
    quotas: QuotaManagers
    request_throttle: RequestThrottle | None
    conversions: Conversions
    unpacking: Unpacking
    authorizer: Authorizer | None
    acls: AclKeeper | None
    delegation_tokens: TokenKeeper | None
    scram_decoy_key: bytes
    slicer: Slicer
    request_log: RequestLog | None

    def check_listener_configs(self, config: BrokerConfig) -> None:
        """Check that the listeners could go on with these configs.

        Raises:
            ConfigError: a listener could not; the message names it and the config.
        """
        ...

    @property
    def broker_id(self) -> int:
        """This broker's id."""
        ...

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        ...

    @property
    def image(self) -> ClusterImage:
        """The cluster as it is now."""
        ...

    @property
    def knows_cluster(self) -> bool:
        """Return whether this broker has been told of its cluster since it started."""
        ...

    @property
    def handlers(self) -> ServedApis:
        """The handlers of the APIs that are served."""
        ...

    @property
    def groups(self) -> GroupRuntime:
        """The group coordinator's binding."""
        ...

    @property
    def transactions(self) -> TransactionRuntime:
        """The transaction coordinator's binding."""
        ...

    @property
    def telemetry(self) -> ClientTelemetry:
        """The answers to clients that ask about their metrics."""
        ...

    @property
    def topic_descriptions(self) -> TopicDescriptions:
        """The partitions as Metadata describes them."""
        ...

    @property
    def moving(self) -> Moving | None:
        """Moves replicas between data folders; None while the broker does not run."""
        ...

    @property
    def log_starts(self) -> LogStarts:
        """Writes down what DeleteRecords has done."""
        ...
