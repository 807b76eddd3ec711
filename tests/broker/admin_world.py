"""A controller with its configs and no sockets: what the handlers of topics and configs need of a broker."""

from __future__ import annotations

import random
from typing import Any

from cluster.scenario import Obedient, Posts
from odradek.broker.apis.registry import Handlers
from odradek.broker.config.broker_config import BrokerConfig
from odradek.broker.config.reconfiguration import update_dynamic
from odradek.broker.event_loop.slices import is_in_steps, take_all
from odradek.broker.kafka_versions.release import find
from odradek.broker.metadata.features import Features
from odradek.broker.metadata.topic_descriptions import TopicDescriptions
from odradek.broker.metrics.telemetry import ClientTelemetry
from odradek.broker.quotas.quota_managers import QuotaManagers
from odradek.broker.requests.action import Action
from odradek.broker.requests.authorization import Operation
from odradek.broker.requests.context import RequestContext
from odradek.broker.requests.handler_types import Refused
from odradek.broker.requests.peer import ANONYMOUS, Peer
from odradek.cluster.controller.kafka_controller import KafkaController
from odradek.cluster.features import read_features
from odradek.cluster.image import ClusterDelta, ClusterImage
from odradek.cluster.nodes import BrokerRegistration, Endpoint, encode_registration
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.errors import KafkaError
from odradek.util.clock import ManualClock
from odradek.wire.api import ApiKey
from odradek.wire.headers import RequestHeader
from odradek.wire.messages import request_class, response_class


class Denying:
    """An authorizer that denies some operations on some resources."""

    def __init__(self, *denied: tuple[Operation, str]) -> None:
        self.denied = set(denied)

    def authorize(self, context: object, action: Action) -> bool:
        return (action.operation, action.resource.name) not in self.denied

    def authorize_by_type(self, *asked: object) -> bool:
        return False

    def grants_of(self, *asked: object) -> None:
        return None


class World:
    """One broker's metadata, with further brokers that are only registered.

    Args:
        properties: configs of the broker.
        others: ids of further live brokers.
        broker_id: of this one.
    """

    def __init__(
        self,
        properties: dict[str, str] | None = None,
        others: tuple[int, ...] = (),
        broker_id: int = 0,
        host: str = "127.0.0.1",
        port: int = 9092,
    ) -> None:
        self.clock = ManualClock()
        self.state_changes = None
        self.channels = None
        self.server = MemoryServer(self.clock)
        self.config = BrokerConfig({"broker.id": str(broker_id), **(properties or {})})
        self.store = MemoryStore(self.server)
        self.controller = KafkaController(
            self.store, broker_id, self.config, self.clock, random.Random(7), alone=True
        )
        self.controller.event_queue = Posts()
        self.controller.add_control_listener(Obedient(self.controller))
        self.controller.add_listener(self._on_image)
        self.authorizer: Any = None
        self.acls: Any = None
        self.principal = ANONYMOUS
        self.quotas = QuotaManagers(self.config, self.clock)
        self.deltas: list[ClusterDelta] = []
        self.controller.open()
        self.controller.start(BrokerRegistration((Endpoint("PLAINTEXT", host, port),)))
        self.sessions = {other: self.add_broker(other) for other in others}
        version = self.config.odradek_kafka_version
        self.handlers = Handlers(release=None if version is None else find(version))
        self.features = Features(self.controller, self.handlers, read_features(self.controller.store))
        self.topic_descriptions = TopicDescriptions(self.controller)
        self.telemetry = ClientTelemetry(self.config.telemetry_max_bytes, lambda: self.image.configs)

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    @property
    def broker_id(self) -> int:
        return self.controller.broker_id

    @property
    def cluster_id(self) -> str:
        return self.controller.cluster_id

    def add_broker(self, broker_id: int, *endpoints: Endpoint, rack: str | None = None) -> MemoryStore:
        """Register another broker; it lives until its session is closed."""
        session = MemoryStore(self.server)
        registration = BrokerRegistration(
            endpoints or (Endpoint("PLAINTEXT", "127.0.0.1", 9092 + broker_id),), rack
        )
        session.create(f"/brokers/ids/{broker_id}", encode_registration(registration), ephemeral=True)
        return session

    def _on_image(self, image: ClusterImage, delta: ClusterDelta) -> None:
        self.deltas.append(delta)
        self.quotas.follow(delta.configs)
        if any(entity.startswith("brokers/") for entity in delta.configs):
            update_dynamic(
                self.config,
                image.config("brokers/<default>"),
                image.config(f"brokers/{self.controller.broker_id}"),
            )

    def call(self, request: Any, version: int, listener: str = "PLAINTEXT") -> Any:
        """Hand a request to its handler, both having gone over the wire."""
        key = ApiKey(request.API_KEY)
        decoded = request_class(key).decode(request.encode(version), version)
        header = RequestHeader(api_key=int(key), api_version=version, correlation_id=1, client_id="test")
        broker: Any = self
        peer = Peer("127.0.0.1", 0, "", listener)
        peer.principal = self.principal
        context = RequestContext(broker, header, peer, self.clock.now_ms())
        registration = self.handlers.get(int(key))
        assert registration is not None
        assert version in registration.versions
        try:
            response: Any = registration.function(context, decoded)
            if is_in_steps(response):
                response = take_all(response)
        except KafkaError as error:
            if registration.error_response is not None:
                response = registration.error_response(Refused(decoded, version, error.code, error.message))
            else:
                response = response_class(key)()
                response.error_code = int(error.code)
                if "error_message" in response.__slots__:
                    response.error_message = error.message
        return response_class(key).decode(response.encode(version), version)
