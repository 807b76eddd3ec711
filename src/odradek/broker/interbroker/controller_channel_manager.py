"""Carries the active controller's requests to the brokers, itself included: one channel and queue for each.

The rules are `cluster.controller.broker_queues`'s and `control_requests`'s; here are the channels, the timers
and what follows from answers. All of it runs in the event loop's thread; what the controller is to do is
posted to its event queue. Kafka: `ControllerChannelManager`, `RequestSendThread`.

A broker at whose address nobody listens is reported, and from then on tried from time to time: one that
counts as dead for it, but has kept its registration, is reported again when it can be connected to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from odradek.broker.interbroker.channel import ChannelBroken, InterBrokerChannel, InterBrokerTransport
from odradek.broker.interbroker.presence import pause_ms, watch_id
from odradek.cluster.controller.broker_queues import BrokerQueues
from odradek.cluster.controller.control_request_forms import ControlRequest, deleted_by
from odradek.cluster.controller.control_requests import ControlRequests, Requests
from odradek.cluster.image import ClusterImage
from odradek.errors import NotControllerError, OdradekError
from odradek.errors.codes import ErrorCode, error_name
from odradek.util.futures import error_of
from odradek.util.repeats import Repeats
from odradek.util.topic_partition import TopicPartition
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from odradek.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse

if TYPE_CHECKING:
    import asyncio

    from odradek.cluster.controller.kafka_controller import KafkaController
    from odradek.cluster.image import BrokerImage, ClusterDelta
    from odradek.cluster.nodes import Endpoint
    from odradek.util.timers import TimerHandle, Timers

logger = logging.getLogger(__name__)
repeats = Repeats(logger)

_REFUSES = "broker %d refuses connections of this one, the controller, and is connected to it: it lives"
_REACHED_BY_OTHERS = (
    "broker %d and this one, the controller, refuse each other's connections, and others reach it: it lives"
)

PROBE_INTERVAL_MS = 1_000
"""How often a broker is tried that refused to be connected to."""


class _Probe:
    """The looks at one broker that refuses, in one of its lives.

    Attributes:
        epoch: that life's broker epoch; another one has registered anew, and is told everything.
        endpoint: kept here, since a broker that counts as dead is not in the image any more.
        timer: until the next look; channel: made by the first.
    """

    def __init__(self, epoch: int, endpoint: Endpoint | None) -> None:
        self.epoch = epoch
        self.endpoint = endpoint
        self.timer: TimerHandle | None = None
        self.channel: InterBrokerChannel | None = None

    def end(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.channel is not None:
            self.channel.close()


class ControllerChannelManager:
    """A `cluster.controller.image_publisher.ControlListener`: `controller.add_control_listener(manager)`.

    Args:
        transport: makes the channels.
        ibp: `inter.broker.protocol.version`.
        timers: for what is tried again.
        listener_name: of the listener over which brokers reach each other.
        controller: this broker's, which is told what the answers say.
        request_timeout_ms: how long an answer may take before the channel counts as broken.
        retry_backoff_ms: the pause before a request is sent again.
        control_listener_name: of the listener that the controller itself reaches brokers by, if it is another
            one (`control.plane.listener.name`).
        is_connected: whether a broker has a connection to this one, and so lives, though it may refuse this
            one's; see `presence`.
        ask: asks others about a broker that refuses this one; see `Witnesses.ask`.
    """

    def __init__(
        self,
        transport: InterBrokerTransport,
        ibp: str,
        timers: Timers,
        listener_name: str,
        controller: KafkaController,
        *,
        request_timeout_ms: int = 30_000,
        retry_backoff_ms: int = 100,
        control_listener_name: str | None = None,
        is_connected: Callable[[int], bool] = lambda broker_id: False,
        ask: Callable[[int, Callable[[bool], object]], object] = lambda broker_id, then: then(False),
    ) -> None:
        self._transport = transport
        self._ibp = ibp
        self._timers = timers
        self._listener_name = listener_name
        self._control_listener_name = (control_listener_name or listener_name).upper()
        self._controller = controller
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._builder: ControlRequests | None = None
        """Makes the requests of one term, and so stands for it; None while another broker is the controller,
        and nothing is sent then."""
        self._image = ClusterImage()
        """What the brokers have been told, or will be by what is in the queues."""
        self._queues = BrokerQueues()
        """A queue for each broker of the image: see `_tell`."""
        self._channels: dict[int, InterBrokerChannel] = {}
        """For brokers with a queue alone, made with their first request."""
        self._pausing: dict[int, TimerHandle] = {}
        """Nothing is sent to these brokers until their timer has run out."""
        self._probes: dict[int, _Probe] = {}
        """Of brokers that count as refused, or will when the controller's turn comes to it."""
        self._is_connected = is_connected
        self._ask = ask
        self._doubted: dict[int, int] = {}
        """How often in a row a broker has refused that is connected to this one."""

    def unanswered(self, broker_id: int) -> int:
        """Return how many requests a broker has not answered yet."""
        return self._queues.length(broker_id)

    def start(self, image: ClusterImage) -> None:
        """Tell every broker everything: the controller of this one has taken over."""
        # What an earlier term has queued carries its epoch, and would be refused.
        self.stop()
        self._builder = ControlRequests(self._ibp, self._listener_name, self._controller.broker_id)
        self._image = image
        self._tell(self._builder.everything(image, self._controller.offline_replicas))

    def on_image(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Tell the brokers what has changed; nothing happens outside of a term."""
        if self._builder is None:
            return
        self._image = image
        offline, leaving = self._controller.offline_replicas, frozenset(self._controller.shutting_down)
        self._tell(self._builder.changes(image, delta, offline, leaving))

    def resend(self, broker_id: int) -> None:
        """Ask a broker for the state of all of its replicas, by LeaderAndIsr."""
        if self._builder is not None:
            self._tell(self._builder.resend(self._image, broker_id))

    def await_return(self, broker: BrokerImage) -> None:
        """Try a broker that counts as dead from time to time; it is in no image of this term yet."""
        self._begin_probe(broker.broker_id, broker.epoch, broker.endpoint(self._control_listener_name))

    def stop(self) -> None:
        """Send nothing more, and forget what was to be sent. Harmless when nothing was started."""
        self._builder = None
        self._queues = BrokerQueues()
        for timer in self._pausing.values():
            timer.cancel()
        self._pausing.clear()
        for probe in self._probes.values():
            probe.end()
        self._probes.clear()
        self._doubted.clear()
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.close()

    # --- sending ------------------------------------------------------------------------------------------

    def _tell(self, requests: Requests) -> None:
        epochs = {broker: broker_image.epoch for broker, broker_image in self._image.brokers.items()}
        # A broker that came back is another process: what was under way to the one before is over.
        for broker in self._queues.keep(epochs):
            channel = self._channels.pop(broker, None)
            if channel is not None:
                channel.close()
        for broker, new in requests.items():
            self._queues.add(broker, new)
        for broker in epochs:
            self._send(broker)

    def _send(self, broker: int) -> None:
        if broker in self._pausing:
            return
        # One at a time, and the next upon its answer: what leads and follows must not overtake itself.
        # Kafka's `RequestSendThread` waits likewise.
        request = self._queues.next(broker)
        if request is None:
            return
        channel = self._channels.get(broker)
        if channel is None:
            channel = self._channels[broker] = self._channel(broker, partial(self._endpoint, broker))
            channel.on_broken = partial(self._look, broker)
        future = channel.send(request.message, request.version)
        future.add_done_callback(partial(self._done, broker, request))

    def _channel(self, broker: int, endpoint: Callable[[], Endpoint | None]) -> InterBrokerChannel:
        # Kafka's is the id alone, as any client's may be. A connection that was silent for long is closed and
        # made again, and nothing may be said over it for hours: by this it is known whose it is all the same.
        client_id = watch_id(self._controller.broker_id)
        return self._transport.channel(broker, endpoint, client_id, self._request_timeout_ms)

    def _endpoint(self, broker: int) -> Endpoint | None:
        broker_image = self._image.brokers.get(broker)
        return None if broker_image is None else broker_image.endpoint(self._control_listener_name)

    def _done(self, broker: int, request: ControlRequest, future: asyncio.Future[Any]) -> None:
        error = ChannelBroken("given up") if future.cancelled() else future.exception()
        if error is not None:
            self._broken(broker, request, error)
            return
        # Of a broker that is gone meanwhile, or of an earlier term: nobody is to follow that any more.
        if not self._queues.on_response(broker, request):
            return
        self._doubted.pop(broker, None)
        probe = self._probes.pop(broker, None)
        if probe is not None:
            # It was reported as refused, and has answered before the controller came to give it up.
            probe.end()
            self._post(partial(self._controller.on_broker_reachable, broker))
        try:
            self._answered(broker, request, future.result())
        finally:
            # Whatever was wrong with the answer, the broker gets its next request.
            self._send(broker)

    def _broken(self, broker: int, request: ControlRequest, error: BaseException) -> None:
        if not self._queues.on_broken(broker, request):
            return
        name = type(request.message).__name__
        repeats.log(logging.WARNING, broker, "%s does not reach broker %d: %s", name, broker, error)
        if isinstance(error, ChannelBroken):
            if error.refused and self._refuses_one_alone(broker):
                return
            if error.refused:
                self._suspect(broker, request.broker_epoch)
                return
        else:
            # Bytes that are no answer: what comes after them is none either.
            self._channels[broker].reset("the answer could not be read")
        self._pause(broker)

    def _look(self, broker: int) -> None:
        """Connect again where a connection broke with nothing under way, to see whether anybody listens."""
        channel = self._channels.get(broker)
        if channel is not None and not self._queues.length(broker):
            channel.send(ApiVersionsRequest(), 0).add_done_callback(partial(self._looked, broker))

    def _looked(self, broker: int, future: asyncio.Future[Any]) -> None:
        error = error_of(future)
        live = self._image.brokers.get(broker)
        if error is None:
            self._doubted.pop(broker, None)
        elif isinstance(error, ChannelBroken) and error.refused and live is not None:
            if not self._refuses_one_alone(broker):
                self._suspect(broker, live.epoch)
        elif isinstance(error, ChannelBroken) and live is not None:
            # It listened, and hung up: the process may be about to end.
            self._pause(broker)

    def _refuses_one_alone(self, broker: int) -> bool:
        """Return whether a broker that refused this one lives, as it is connected here; it is tried again."""
        if not self._is_connected(broker):
            return False
        doubts = self._doubted.get(broker, 0)
        self._doubted[broker] = doubts + 1
        repeats.log(logging.WARNING, f"refuses {broker}", _REFUSES, broker)
        self._pause(broker, pause_ms(doubts))
        return True

    def _suspect(self, broker: int, epoch: int) -> None:
        """Ask others whether they reach a broker that refuses this one and is not connected here."""
        # Not again for one that has been reported: the controller's turn may take a while.
        if broker not in self._probes:
            self._ask(broker, partial(self._testified, broker, epoch, self._builder))
        # Whatever comes of it, or if nothing does, as it was asked in an earlier term.
        self._pause(broker, max(self._retry_backoff_ms, pause_ms(self._doubted.get(broker, 0))))

    def _testified(self, broker: int, epoch: int, term: ControlRequests | None, lives: bool) -> None:
        # What others have seen was another term's question, or about an earlier life of that broker.
        if self._builder is not term or self._queues.brokers.get(broker) != epoch:
            return
        if not lives:
            self._note_refused(broker, epoch)
            return
        self._doubted[broker] = self._doubted.get(broker, 0) + 1
        repeats.log(logging.WARNING, f"refuses {broker}", _REACHED_BY_OTHERS, broker)
        if self._doubted[broker] > 1:
            # Once may be a broker that has just been started again, and is about to register.
            self._post(partial(self._controller.give_way, broker, epoch))

    def _note_refused(self, broker: int, epoch: int) -> None:
        if broker not in self._probes:
            self._begin_probe(broker, epoch, self._endpoint(broker))
            self._post(partial(self._controller.on_broker_refused, broker, epoch))

    def _pause(self, broker: int, pause: float | None = None) -> None:
        """Send a broker nothing for a while. A pause that has begun counts for all that broke together."""
        if broker not in self._pausing:
            self._pausing[broker] = self._timers.call_later(
                self._retry_backoff_ms if pause is None else pause, partial(self._pause_over, broker)
            )

    def _pause_over(self, broker: int) -> None:
        del self._pausing[broker]
        if self._queues.length(broker):
            self._send(broker)
        else:
            self._look(broker)

    # --- brokers that refuse ------------------------------------------------------------------------------

    def _begin_probe(self, broker: int, epoch: int, endpoint: Endpoint | None) -> None:
        probe = self._probes[broker] = _Probe(epoch, endpoint)
        self._wait(broker, probe)

    def _wait(self, broker: int, probe: _Probe) -> None:
        probe.timer = self._timers.call_later(PROBE_INTERVAL_MS, partial(self._try, broker, probe))

    def _try(self, broker: int, probe: _Probe) -> None:
        live = self._image.brokers.get(broker)
        if live is not None and live.epoch == probe.epoch:
            # Not given up yet: what is queued for it is tried again and again.
            self._wait(broker, probe)
        elif live is not None or self._controller.refused.get(broker) != probe.epoch:
            # It has registered anew, or does not count as refused any more.
            del self._probes[broker]
            probe.end()
        else:
            if probe.channel is None:
                probe.channel = self._channel(broker, lambda: probe.endpoint)
            future = probe.channel.send(ApiVersionsRequest(), 0)
            future.add_done_callback(partial(self._tried, broker, probe))

    def _tried(self, broker: int, probe: _Probe, future: asyncio.Future[Any]) -> None:
        failed = error_of(future) is not None
        if self._probes.get(broker) is not probe:
            return
        if failed:
            self._wait(broker, probe)
            return
        # That it can be connected to is enough: the controller looks whether its registration is there.
        del self._probes[broker]
        probe.end()
        self._post(partial(self._controller.on_broker_reachable, broker))

    # --- answers ------------------------------------------------------------------------------------------

    def _answered(self, broker: int, request: ControlRequest, response: Any) -> None:
        if response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH:
            # The store says who it is: this one has not heard of its own end yet.
            logger.info("broker %d knows a newer controller", broker)
            self._post(self._controller.look_again)
            return
        if response.error_code:
            name, code = type(request.message).__name__, response.error_code
            remedy = ""
            if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                remedy = ": the principal of this broker has to be one of super.users there"
            logger.warning("broker %d answers %s with error %s%s", broker, name, error_name(code), remedy)
        message = request.message
        if isinstance(message, LeaderAndIsrRequest):
            offline = _offline(message, response)
            if offline:
                # With the life that it was said in: the next one may have its disk again.
                self._post(
                    partial(self._controller.note_offline, broker, offline, broker_epoch=request.broker_epoch)
                )
        elif isinstance(message, StopReplicaRequest) and not response.error_code:
            # Of those that were to be deleted; the nodes of a topic go when all of its replicas are gone.
            gone = deleted_by(message, request.version) & _stopped(response)
            if gone:
                self._post(partial(self._controller.note_deleted, broker, gone))

    def _post(self, work: Callable[[], object]) -> None:
        self._controller.event_queue.post(partial(_quietly, work))


def _quietly(work: Callable[[], object]) -> None:
    try:
        work()
    except NotControllerError:
        return
    except OdradekError as error:
        logger.warning("what a broker has answered could not be followed: %s", error)


def _offline(request: LeaderAndIsrRequest, response: LeaderAndIsrResponse) -> list[TopicPartition]:
    # Answers name topics up to version 4 of LeaderAndIsr, and from 5 on topic ids (KIP-516).
    names = {topic.topic_id: topic.topic_name for topic in request.topic_states}
    errors = [(topic_error.topic_name, topic_error) for topic_error in response.partition_errors]
    errors += [
        (names[topic.topic_id], topic_error)
        for topic in response.topics
        if topic.topic_id in names
        for topic_error in topic.partition_errors
    ]
    return [
        (name, topic_error.partition_index)
        for name, topic_error in errors
        if topic_error.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    ]


def _stopped(response: StopReplicaResponse) -> set[TopicPartition]:
    return {
        (partition_error.topic_name, partition_error.partition_index)
        for partition_error in response.partition_errors
        if not partition_error.error_code
    }
