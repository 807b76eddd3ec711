"""A broker of a cluster: how it joins, and what keeps it away."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from odradek.broker.app import StartError
from odradek.broker.interbroker.channel import ChannelBroken
from odradek.broker.interbroker.presence import WATCH
from odradek.broker.membership import controller_watch, membership
from odradek.broker.membership.unclean_return import look_for_doubts
from odradek.cluster import paths
from odradek.cluster.controller.topic_manager import NewTopic
from odradek.cluster.nodes import (
    PartitionState,
    ReplicaAssignment,
    TopicNode,
    encode_partition_state,
    encode_topic,
)
from odradek.cluster.store.memory import MemoryServer, MemoryStore
from odradek.cluster.store.store import StoreUnavailable, ensure_path
from odradek.errors.codes import ErrorCode
from odradek.wire.messages.api_versions import ApiVersionsRequest
from odradek.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
)
from ports import free_port

from .member import WAIT_S, Member, in_member, run, until

pytestmark = pytest.mark.usefixtures("short_pauses")


@pytest.mark.parametrize(("protocol", "version"), [("3.9", 5), ("2.7", 5), ("2.6", 4), ("0.9.0", 2)])
def test_a_broker_registers_in_the_form_that_its_protocol_has(
    tmp_path: Path, protocol: str, version: int
) -> None:
    async def use(member: Member) -> None:
        looking = MemoryStore(member.server)
        data, _ = looking.get(paths.broker_id(0))
        looking.close()
        assert json.loads(data or b"")["version"] == version

    in_member(tmp_path, use, inter_broker_protocol_version=protocol)


@pytest.mark.parametrize(("socket", "gives_up"), [("", True), ("/a/socket", False)])
def test_a_broker_of_a_cluster_gives_up_what_it_could_not_sync(
    tmp_path: Path, socket: str, gives_up: bool
) -> None:
    """Also a worker, whose full disk alone is not given up."""

    async def use(member: Member) -> None:
        logs = member.broker.logs
        assert logs.directories.gives_up_failed_syncs and logs.directories.gives_up_full_disks is gives_up

    in_member(tmp_path, use, **({"odradek_store_socket": socket} if socket else {}))


def test_a_topic_that_goes_while_the_broker_joins_leaves_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a topic that there was in the store before, and is no more, no controller will ever tell."""
    found = [{"deleted-meanwhile"}, {"deleted-meanwhile"}]
    monkeypatch.setattr(membership, "_topics", lambda store: found.pop() if found else set())
    monkeypatch.setattr(membership, "_KNOWN_WITHIN_S", 0.05)
    monkeypatch.setattr(membership, "_LOOK_AGAIN_MS", 100)

    async def use(member: Member) -> None:
        assert not member.broker.knows_cluster
        await until(lambda: member.broker.knows_cluster)

    in_member(tmp_path, use)
    assert not found


def test_a_second_broker_of_the_same_id_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    async def use(member: Member) -> None:
        second = Member(tmp_path / "second", member.server, broker_id="0")
        with pytest.raises(StartError, match="a broker with id 0 is registered already"):
            await second.broker.start()
        assert member.is_member() and member.open_sessions == 1

    in_member(tmp_path / "first", use)


def test_a_broker_whose_id_another_one_has_taken_leads_nothing_any_more(tmp_path: Path) -> None:
    """Its session ended while it stood still, and another one was started in its place."""
    reasons: list[str] = []
    other: list[MemoryStore] = []

    async def scenario() -> None:
        member = Member(tmp_path, broker_id="0")
        broker = member.broker
        broker.on_fatal = reasons.append
        await broker.start()
        await until(member.is_member)
        await broker.controller.event_queue.run(lambda: broker.controller.create_topic(NewTopic("t", 1, 1)))
        await until(lambda: broker.replicas.leader_count == 1)

        def take() -> None:
            if not other:
                other.append(MemoryStore(member.server))
                other[0].create(paths.broker_id(0), b"{}", ephemeral=True)

        member.before_open = take
        member.sessions[0].expire()
        await until(lambda: reasons)
        assert "a broker with id 0 is registered already" in reasons[0]
        assert broker.replicas.leader_count == 0
        await broker.stop()
        assert other[0].exists(paths.broker_id(0)) is not None
        other[0].close()

    run(scenario())


def test_a_broker_that_stops_moves_nothing_away_from_the_one_that_has_taken_its_id(tmp_path: Path) -> None:
    """Between two tries to register anew it has no epoch that would tell the controller who asks."""
    tried = 0

    async def scenario() -> None:
        server = MemoryServer()
        controlling = Member(tmp_path / "0", server, broker_id="0")
        await controlling.broker.start()
        await until(controlling.is_member)
        controller = controlling.broker.controller
        member = Member(
            tmp_path / "1", server, broker_id="1", zookeeper_session_timeout_ms=str(1000 * WAIT_S)
        )
        broker = member.broker
        await broker.start()
        topic = NewTopic("t", assignment={0: [1, 0]})
        await controller.event_queue.run(lambda: controller.create_topic(topic))
        await until(lambda: broker.replicas.leader_count == 1)
        other = MemoryStore(server)
        registered, _ = other.get(paths.broker_id(1))

        def take() -> None:
            nonlocal tried
            tried += 1
            if tried == 1:
                other.create(paths.broker_id(1), registered, ephemeral=True)

        member.before_open = take
        member.sessions[0].expire()
        # In the second try the first has come to its end.
        await until(lambda: tried > 1 and 1 in controller.image.brokers)
        await broker.stop()
        assert controller.shutting_down == {}
        other.close()
        await controlling.broker.stop()

    run(scenario())


def test_a_broker_waits_for_the_session_of_its_life_before(tmp_path: Path) -> None:
    async def scenario() -> None:
        before = Member(tmp_path, broker_id="0")
        await before.broker.start()
        await until(before.is_member)
        before.broker.abandon()
        again = Member(tmp_path, before.server, broker_id="0", zookeeper_session_timeout_ms="60000")
        starting = asyncio.ensure_future(again.broker.start())
        await until(lambda: again.sessions)
        before.sessions[0].expire()
        await starting
        await until(again.is_member)
        await again.broker.stop()

    run(scenario())


class Others:
    """A topic of three replicas and its other brokers, as a controller would write them."""

    def __init__(self, server: MemoryServer, *, isr: tuple[int, ...], live: tuple[int, ...]) -> None:
        self.store = MemoryStore(server)
        for path in (paths.TOPICS, paths.BROKER_IDS, paths.DELETE_TOPICS):
            ensure_path(self.store, path)
        for broker in live:
            self.store.create(paths.broker_id(broker), b"{}", ephemeral=True)
        topic = TopicNode({0: ReplicaAssignment((0, 1, 2))}, b"t" * 16)
        self.store.create(paths.topic("t"), encode_topic(topic))
        ensure_path(self.store, paths.partition("t", 0))
        self.state = PartitionState(1, 3, isr, 1)
        self.store.create(paths.partition_state("t", 0), encode_partition_state(self.state))

    def shrink(self, *isr: int) -> None:
        state = self.state._replace(isr=isr)
        self.store.set(paths.partition_state("t", 0), encode_partition_state(state))


def test_after_an_unclean_stop_a_broker_waits_until_it_is_in_no_isr_with_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its log may have lost what was not synced (KIP-966)."""
    caplog.set_level(logging.INFO)

    async def scenario() -> None:
        member = Member(tmp_path, broker_id="0", zookeeper_session_timeout_ms="600000")
        others = Others(member.server, isr=(1, 0), live=(1,))
        starting = asyncio.ensure_future(member.broker.start())
        await until(lambda: "waiting to be taken out of the ISRs of 1 partitions (t-0" in caplog.text)
        assert member.registered is None
        others.shrink(1)
        await until(lambda: member.registered)
        others.store.close()
        await starting
        await until(member.is_member)
        await member.broker.stop()

    run(scenario())


def test_a_controller_that_does_not_miss_a_broker_does_not_keep_it_away_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(membership, "_MISSED_WITHIN_SESSIONS", 0)

    async def scenario() -> None:
        member = Member(tmp_path, broker_id="0")
        others = Others(member.server, isr=(1, 0), live=(1,))
        starting = asyncio.ensure_future(member.broker.start())
        await until(lambda: member.registered)
        assert "no controller takes this broker out of the ISRs of 1 partitions (t-0" in caplog.text
        others.store.close()
        await starting
        await until(member.is_member)
        await member.broker.stop()

    run(scenario())


@pytest.mark.parametrize(
    ("isr", "live", "trusted", "deleted", "found"),
    [
        ((1, 0), (1,), False, False, True),
        ((1, 0), (0, 1), False, False, True),
        ((1, 0), (), False, False, False),
        ((1, 0), (2,), False, False, False),
        ((1, 0), (1,), True, False, False),
        ((1, 0), (1,), False, True, False),
        ((0,), (1, 2), False, False, False),
        ((1, 2), (1, 2), False, False, False),
    ],
)
def test_a_broker_is_missed_where_it_is_in_no_isr_with_one_that_lives(
    isr: tuple[int, ...], live: tuple[int, ...], trusted: bool, deleted: bool, found: bool
) -> None:
    others = Others(MemoryServer(), isr=isr, live=live)
    if deleted:
        others.store.create(paths.delete_topic("t"), None)
    partitions = {("t", 0)} if trusted else set()
    doubtful = look_for_doubts(others.store, 0, partitions, lambda *key: False).isrs
    assert [one for one, others_live in doubtful.items() if others_live] == ([("t", 0)] if found else [])
    others_are_away = len(isr) > 1 and 0 in isr and not (trusted or deleted or found)
    assert [one for one, others_live in doubtful.items() if not others_live] == [("t", 0)] * others_are_away


def test_states_that_cannot_be_read_keep_nobody_away(caplog: pytest.LogCaptureFixture) -> None:
    others = Others(MemoryServer(), isr=(1, 0), live=(1,))
    others.store.set(paths.partition_state("t", 0), b"{")
    assert look_for_doubts(others.store, 0, (), lambda *key: False) == ({}, [])
    others.store.set(paths.topic("t"), b"")
    assert look_for_doubts(others.store, 0, (), lambda *key: False) == ({}, [])
    assert caplog.text.count("whether this broker is in sync cannot be seen") == 2


def test_a_stop_while_joining_ends_the_start(tmp_path: Path) -> None:
    async def scenario() -> None:
        server = MemoryServer()
        other = Member(tmp_path / "other", server, broker_id="0")
        await other.broker.start()
        member = Member(tmp_path / "own", server, broker_id="0", zookeeper_session_timeout_ms="600000")
        starting = asyncio.ensure_future(member.broker.start())
        await until(lambda: member.broker.listeners and member.broker.channels is not None)
        await asyncio.sleep(0.02)
        await member.broker.stop()
        async with asyncio.timeout(WAIT_S):
            with pytest.raises(StartError, match="was stopped"):
                await starting
        assert not any(session in server.sessions.values() for session in member.sessions)
        await other.broker.stop()

    run(scenario())


def test_a_start_that_comes_to_nothing_closes_its_connections(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        server = MemoryServer()
        other = Member(tmp_path / "other", server, broker_id="0")
        await other.broker.start()
        member = Member(tmp_path / "own", server, broker_id="0", zookeeper_session_timeout_ms="600000")
        starting = asyncio.ensure_future(member.broker.start())
        await until(lambda: member.broker.channels is not None)
        broker = member.broker
        reader, writer = await asyncio.open_connection(broker.host, broker.port)
        await until(lambda: broker.listeners[0].connections)
        await broker.stop()
        with pytest.raises(StartError, match="was stopped"):
            await starting
        async with asyncio.timeout(WAIT_S):
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
        writer.close()
        await until(lambda: not broker.listeners[0].connections)
        await other.broker.stop()

    run(scenario())


def test_a_start_that_is_cancelled_lets_everything_go(tmp_path: Path) -> None:
    async def scenario() -> None:
        server = MemoryServer()
        other = Member(tmp_path / "other", server, broker_id="0")
        await other.broker.start()
        member = Member(tmp_path / "own", server, broker_id="0", zookeeper_session_timeout_ms="600000")
        starting = asyncio.ensure_future(member.broker.start())
        await until(lambda: member.broker.channels is not None)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not any(session in server.sessions.values() for session in member.sessions)
        await other.broker.stop()

    run(scenario())


def test_who_cannot_reach_the_store_does_not_start_and_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        member = Member(tmp_path, broker_id="0")

        def fail() -> None:
            raise StoreUnavailable("/", "the metadata store cannot be reached")

        member.before_open = fail
        with pytest.raises(StartError, match="the metadata store cannot be reached"):
            await member.broker.start()
        again = Member(tmp_path, member.server, broker_id="0")
        await again.broker.start()
        await again.broker.stop()

    run(scenario())


def test_a_session_is_closed_when_the_start_comes_to_nothing_right_after(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        member = Member(tmp_path, broker_id_generation_enable="false")
        with pytest.raises(StartError, match=r"broker\.id is not given"):
            await member.broker.start()
        assert len(member.sessions) == 1 and member.open_sessions == 0

    run(scenario())
    assert "could not be stopped in good order" not in caplog.text


def test_ids_are_generated_one_by_one_and_kept(tmp_path: Path) -> None:
    async def scenario() -> None:
        server = MemoryServer()
        found = []
        for folder in ("a", "b", "a"):
            member = Member(tmp_path / folder, server)
            await member.broker.start()
            found.append(member.broker.broker_id)
            await until(member.is_member)
            await member.broker.stop()
        assert found == [1001, 1002, 1001]

    run(scenario())


def test_the_folder_of_another_cluster_or_broker_is_not_used(tmp_path: Path) -> None:
    async def scenario() -> None:
        first = Member(tmp_path, broker_id="0")
        await first.broker.start()
        await first.broker.stop()
        others = Member(tmp_path / "others", broker_id="7")
        await others.broker.start()
        member = Member(tmp_path, others.server, broker_id="0")
        with pytest.raises(StartError, match="cluster"):
            await member.broker.start()
        member = Member(tmp_path, first.server, broker_id="1")
        with pytest.raises(StartError, match="broker"):
            await member.broker.start()
        assert others.open_sessions == 1 and first.open_sessions == 0
        await others.broker.stop()
        again = Member(tmp_path, first.server, broker_id="0")
        await again.broker.start()
        await again.broker.stop()

    run(scenario())


def test_a_controller_that_refuses_this_broker_alone_is_not_removed_again_and_again(tmp_path: Path) -> None:
    """Something between the two may refuse for it, while all others reach it and elect it again."""
    removed: list[int] = []

    async def use(member: Member) -> None:
        controller, changes = member.broker.controller, member.broker.state_changes
        assert changes is not None
        refused: list[int] = []
        note = controller.note_refused_controller

        def note_refused(controller_id: int) -> None:
            refused.append(controller_id)
            note(controller_id)

        controller.note_refused_controller = note_refused
        controller.remove_dead_controller = removed.append  # type: ignore[method-assign, assignment]
        closed = free_port()
        own = next(iter(member.broker.image.brokers.values()))
        epoch = 10

        def told(*live: int, controller: int) -> None:
            nonlocal epoch
            epoch += 1
            ports = {0: own.registration.endpoints[0].port, 9: closed}
            brokers = [
                UpdateMetadataBroker(
                    id=one,
                    endpoints=[
                        UpdateMetadataEndpoint(host="127.0.0.1", port=ports[one], listener="PLAINTEXT")
                    ],
                )
                for one in live
            ]
            update = UpdateMetadataRequest(
                controller_id=controller, controller_epoch=epoch, live_brokers=brokers
            )
            assert changes.update_metadata(update, 8) is ErrorCode.NONE

        told(0, 9, controller=9)
        await until(lambda: removed == [9])
        told(0, 9, controller=9)
        await until(lambda: refused == [9, 9])
        turn_is_over = asyncio.Event()
        loop = asyncio.get_running_loop()
        controller.event_queue.post(lambda: loop.call_soon_threadsafe(turn_is_over.set))
        await until(turn_is_over.is_set)
        assert removed == [9]
        # It was away, and is here again: this is another life, and another death.
        told(0, controller=0)
        told(0, 9, controller=9)
        await until(lambda: removed == [9, 9])

    in_member(tmp_path, use)


def test_a_controller_that_cannot_be_connected_to_is_watched_once_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something other than a refusal tells nothing of its life; it may last for a while, and be over."""
    monkeypatch.setattr(controller_watch, "_LOOK_ANEW_MS", 10)

    async def use(member: Member) -> None:
        changes, channels = member.broker.state_changes, member.broker.channels
        assert changes is not None and channels is not None
        connected: list[asyncio.BaseTransport] = []

        class Controller(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                connected.append(transport)

        server = await asyncio.get_running_loop().create_server(Controller, "127.0.0.1", 0)

        def told(port: int) -> None:
            listener = UpdateMetadataEndpoint(host="127.0.0.1", port=port, listener="PLAINTEXT")
            controller = UpdateMetadataBroker(id=9, endpoints=[listener])
            request = UpdateMetadataRequest(controller_id=9, controller_epoch=11, live_brokers=[controller])
            assert changes.update_metadata(request, 8) is ErrorCode.NONE

        told(2**31 - 1)  # no port
        with pytest.raises(ChannelBroken):
            await channels.to_broker(9, WATCH).send(ApiVersionsRequest(), 0)
        told(server.sockets[0].getsockname()[1])
        await until(lambda: connected)
        server.close()

    in_member(tmp_path, use)


def test_who_is_abandoned_leaves_no_thread_of_the_controller(tmp_path: Path) -> None:
    # Brokers of other tests may live beside this one, such as that of all tests of the tools.
    others = set(threading.enumerate())

    def threads() -> list[str]:
        own = set(threading.enumerate()) - others
        return [one.name for one in own if one.name.startswith("controller")]

    async def scenario() -> None:
        member = Member(tmp_path, broker_id="0")
        await member.broker.start()
        await until(member.is_member)
        assert threads()
        member.sessions[0].expire()
        member.broker.abandon()
        await until(lambda: not threads())
        for session in member.sessions:
            session.expire()

    run(scenario())
