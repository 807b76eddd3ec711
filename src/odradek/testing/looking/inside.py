"""The sentences in which a test asks what is in a broker, or in a cluster."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from odradek.errors import (
    KafkaError,
    LeaderNotAvailableError,
    TopicExistsError,
    UnknownTopicOrPartitionError,
)
from odradek.testing.looking.aio import in_thread
from odradek.testing.looking.comparing import RecordLike, differences, lines_of, parts_of
from odradek.testing.looking.waiting import TIMEOUT_S, Told, WaitTimeoutError, wait_until

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self, Unpack

    from odradek.broker.services import BrokerServices
    from odradek.testing.faults.fault import WhichRequests
    from odradek.testing.faults.sentences import Apis
    from odradek.testing.looking.events import OnRequest
    from odradek.testing.looking.groups import CommittedOffset, Group, Topic
    from odradek.testing.looking.records import StoredRecord
    from odradek.testing.looking.requests import RecordedRequest, RequestRecorder

T = TypeVar("T")


_SHOWN_LINES = 30


class LookedAt(Told, Protocol):
    """A broker that is looked at: `odradek.testing.broker.Broker`."""

    @property
    def is_up(self) -> bool:
        """Return whether it runs."""
        ...

    def call(self, function: Callable[[Any], T]) -> T:
        """Run a function with the broker in its loop."""
        ...

    def listen_to_requests(self, on_request: OnRequest) -> None:
        """Call `on_request` in the broker's loop with each request from now on, in all of its lives."""
        ...

    def leave_requests(self, on_request: OnRequest) -> None:
        """Call it no more."""
        ...


class RecordedRequests:
    """The recording of requests, until the end of a `with` block, or `stop`. What was recorded stays."""

    def __init__(self, brokers: Sequence[LookedAt], recorder: RequestRecorder) -> None:
        self._brokers = brokers
        self._record = recorder.record
        self.recorder = recorder
        for broker in brokers:
            broker.listen_to_requests(self._record)

    def stop(self) -> None:
        """Record no more. Harmless twice."""
        for broker in self._brokers:
            broker.leave_requests(self._record)

    def __enter__(self) -> Self:
        """Go on."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record no more."""
        self.stop()


class LookInside(ABC):
    """A look into a broker, or into the brokers of a cluster: `records`, `requests`, `groups`, `topics`.

    And waits for these, and `seed`. `aio` has all of it for tasks. Waits are woken by the broker, with each
    request, append, commit and change of a group.
    """

    _recorded: RecordedRequests | None = None

    @abstractmethod
    def _looked_at(self) -> Sequence[LookedAt]:
        """The brokers, also those that do not run now."""

    @abstractmethod
    def _administrator(self) -> dict[str, Any]:
        """The configs of a client that may do everything."""

    @abstractmethod
    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic without a client."""

    @cached_property
    def aio(self) -> AsyncInside:
        """The same for tasks: `await broker.aio.wait_for_records("orders", 3)`."""
        return AsyncInside(self)

    def _up(self) -> list[LookedAt]:
        return [broker for broker in self._looked_at() if broker.is_up]

    # ------------------------------------------------------------------ records

    def records(
        self, topic: str, partition: int | None = None, *, committed: bool = False
    ) -> list[StoredRecord]:
        """Return the records of a topic, from the logs of its leaders, by partition and offset.

        With what consumers do not see: records of aborted and of open transactions, and markers; `state`
        says so.

        Args:
            topic: its name; also an internal one.
            partition: of one partition alone.
            committed: what a consumer with isolation.level=read_committed is given, and nothing else.

        Raises:
            KafkaError: there is no such topic or partition, or no leader of it.
        """
        from odradek.testing.looking.records import read_records

        return [
            record
            for index in self._partitions(topic, partition)
            for record in read_records(self._leader(topic, index).call, topic, index, committed=committed)
        ]

    def _partitions(self, topic: str, partition: int | None) -> list[int]:
        if partition is not None:
            return [partition]
        for broker in self._up():
            image = broker.call(lambda services: services.image.topic(topic))
            if image is not None:
                return sorted(image.partitions)
        raise UnknownTopicOrPartitionError(f"there is no topic {topic}")

    def _leader(self, topic: str, index: int) -> LookedAt:
        leaders: list[tuple[int, LookedAt]] = []
        is_known = False
        for broker in self._up():
            epoch, knows = broker.call(lambda services: _led_in(services, topic, index))
            is_known |= knows
            if epoch is not None:
                leaders.append((epoch, broker))
        if not leaders:
            if is_known:
                raise LeaderNotAvailableError(f"nobody leads {topic}-{index}")
            raise UnknownTopicOrPartitionError(f"there is no partition {topic}-{index}")
        return max(leaders, key=lambda pair: pair[0])[1]

    def wait_for_records(
        self,
        topic: str,
        count: int = 1,
        *,
        partition: int | None = None,
        committed: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> list[StoredRecord]:
        """Wait until a topic has so many records, markers not counted, and return all that are there.

        Args:
            topic, partition, committed: see `records`.
            count: how many at least.
            timeout_s: how long to wait, in seconds.

        Raises:
            WaitTimeoutError: they have not come; the message has those that have.
        """

        def look() -> list[StoredRecord]:
            bounds = self._bounds()
            ends = [bounds.get((topic, index), (0, 0)) for index in self._partitions(topic, partition)]
            if sum(end - start for start, end in ends) < count and not committed:
                return []  # nothing to be read for
            records = self.records(topic, partition, committed=committed)
            return [record for record in records if not record.is_control]

        return wait_until(
            self._looked_at(),
            look,
            holds=lambda records: len(records) >= count,
            awaited=f"{count} records of {topic}",
            instead=lambda _, problem: _shown(problem, self._lines_of(topic, partition, committed=committed)),
            timeout_s=timeout_s,
        )

    def assert_records(
        self,
        topic: str,
        expected: Iterable[RecordLike],
        *,
        partition: int | None = None,
        committed: bool = False,
        in_any_order: bool = False,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Check that a topic has these records and no others; wait until there are as many.

        A topic that is not there has none.

        A record is expected by its value; by a key and a value, as a tuple; or by a dict of some of the
        attributes of `StoredRecord`. What is not named is not looked at. Text stands for its UTF-8.

        Args:
            topic, partition, committed: see `records`; markers are not looked at.
            expected: the records, by partition and offset.
            in_any_order: whatever their order.
            timeout_s: how long to wait for them, in seconds.

        Raises:
            AssertionError: there are others; the message has the differences.
            TypeError: what is expected is no record.
        """
        wanted = [parts_of(record) for record in expected]
        stored: list[StoredRecord] = []

        def look() -> list[StoredRecord]:
            try:
                there = self.records(topic, partition, committed=committed)
            except UnknownTopicOrPartitionError:
                there = []
            stored[:] = [record for record in there if not record.is_control]
            return stored

        with suppress(WaitTimeoutError):
            wait_until(
                self._looked_at(),
                look,
                holds=lambda records: len(records) >= len(wanted),
                awaited="",
                instead=lambda *_: "",
                timeout_s=timeout_s,
            )
        text = differences(stored, wanted, in_any_order=in_any_order)
        if text is not None:
            there = _shown(None, self._lines_of(topic, partition, committed=committed))
            raise AssertionError(
                f"{topic} has other records than expected (- expected, + there):\n{text}\n{there}"
            )

    def _lines_of(self, topic: str, partition: int | None, *, committed: bool) -> list[str]:
        try:
            return lines_of(self.records(topic, partition, committed=committed))
        except KafkaError as error:
            return [str(error)]

    def seed(
        self,
        topic: str,
        records: Iterable[RecordLike],
        *,
        partition: int | None = None,
        partitions: int = 1,
        transaction: Literal["committed", "aborted"] | None = None,
    ) -> int:
        """Put records into a topic, which is made if it is not there; return how many, when all are written.

        They are sent by a producer of the kit's own, which meets no faults and is not recorded.

        Args:
            topic: its name.
            records: each a value; a key and a value, as a tuple; or a dict of `key`, `value`, `headers`,
                `timestamp_ms` and `partition`. Text is sent as UTF-8.
            partition: of all that name none; None for the producer's choice.
            partitions: how many the topic gets if it is made.
            transaction: send them in one transaction, which ends so.

        Raises:
            KafkaError: a record was refused.
            TypeError: it is no record.
        """
        from odradek.testing.looking.seeding import seed

        with suppress(TopicExistsError):
            self.create_topic(topic, partitions)
        return seed(self._administrator(), topic, records, partition=partition, transaction=transaction)

    # ------------------------------------------------------------------ topics and groups

    def topics(self) -> dict[str, Topic]:
        """Return the topics by name, the brokers' own left out, with the offsets of their partitions."""
        from odradek.testing.looking.groups import Topic, topics_of

        known: dict[str, tuple[list[int], dict[str, str]]] = {}
        for broker in self._up():
            known |= broker.call(topics_of)
        bounds = self._bounds()
        return {
            name: Topic(
                name, {index: bounds[name, index] for index in indexes if (name, index) in bounds}, configs
            )
            for name, (indexes, configs) in sorted(known.items())
        }

    def groups(self) -> dict[str, Group]:
        """Return the groups by name, with members, assignments, committed offsets and lags.

        Raises:
            KafkaError: COORDINATOR_LOAD_IN_PROGRESS while a broker that has started loads its groups.
        """
        from odradek.testing.looking.groups import groups_of, with_lags

        groups = {group.group_id: group for broker in self._up() for group in broker.call(groups_of)}
        bounds = self._bounds()
        return {name: with_lags(group, bounds) for name, group in sorted(groups.items())}

    def _bounds(self) -> dict[tuple[str, int], tuple[int, int]]:
        from odradek.testing.looking.groups import bounds_of

        bounds: dict[tuple[str, int], tuple[int, int]] = {}
        for broker in self._up():
            bounds |= broker.call(bounds_of)
        return bounds

    def wait_for_group(
        self,
        group: str,
        *,
        members: int | None = None,
        state: str | None = "Stable",
        timeout_s: float = TIMEOUT_S,
    ) -> Group:
        """Wait until a group is in a state, and has so many members; return it.

        Args:
            group: its name.
            members: how many; None for any number.
            state: see `Group`; None for any.
            timeout_s: how long to wait, in seconds.

        Raises:
            WaitTimeoutError: it is not; the message has the groups that there are.
        """
        words = "" if members is None else f" with {members} members"
        settled = wait_until(
            self._looked_at(),
            lambda: self.groups().get(group),
            holds=lambda there: (
                there is not None
                and (state is None or there.state == state)
                and (members is None or len(there.members) == members)
            ),
            awaited=f"group {group}{'' if state is None else f' in state {state}'}{words}",
            instead=lambda _, problem: _shown(problem, self._lines_of_groups()),
            timeout_s=timeout_s,
        )
        assert settled is not None
        return settled

    def wait_for_commit(
        self,
        group: str,
        topic: str,
        partition: int = 0,
        *,
        offset: int = 0,
        timeout_s: float = TIMEOUT_S,
    ) -> CommittedOffset:
        """Wait until a group has committed an offset of a partition, this one or a later one; return it.

        Args:
            group, topic, partition: whose, and of what.
            offset: at least.
            timeout_s: how long to wait, in seconds.

        Raises:
            WaitTimeoutError: it has not; the message has the groups that there are.
        """

        def look() -> CommittedOffset | None:
            there = self.groups().get(group)
            return None if there is None else there.offsets.get((topic, partition))

        committed_offset = wait_until(
            self._looked_at(),
            look,
            holds=lambda committed: committed is not None and committed.offset >= offset,
            awaited=f"group {group} to commit {offset} of {topic}-{partition}",
            instead=lambda _, problem: _shown(problem, self._lines_of_groups()),
            timeout_s=timeout_s,
        )
        assert committed_offset is not None
        return committed_offset

    def _lines_of_groups(self) -> list[str]:
        try:
            groups = self.groups().values()
        except KafkaError as error:
            return [str(error)]
        return [
            f"group {group.group_id} is {group.state}: members "
            + (", ".join(f"{m.client_id} {list(m.assignment)}" for m in group.members) or "none")
            + "; committed "
            + (", ".join(f"{t}-{p} {c.offset}" for (t, p), c in group.offsets.items()) or "nothing")
            for group in groups
        ]

    # ------------------------------------------------------------------ requests

    def record_requests(self, most: int | None = None) -> RecordedRequests:
        """Record the requests that come from now on, for `requests`, until the end of a `with` block.

        What is recorded stays until it is asked for anew; so does what the brokers are asked while they
        restart. Logins are not among it: they are answered before any handler is asked.

        Args:
            most: how many are kept, the newest; None for 10,000. Of their bytes 64 MiB are kept.
        """
        from odradek.testing.looking.requests import MOST_REQUESTS, RequestRecorder

        self.forget_requests()
        recorder = RequestRecorder(MOST_REQUESTS if most is None else most)
        self._recorded = RecordedRequests(self._looked_at(), recorder)
        return self._recorded

    def forget_requests(self) -> None:
        """Record no more, and let go of what was recorded."""
        if self._recorded is not None:
            self._recorded.stop()
            self._recorded = None

    def requests(self, apis: Apis = "*", **which: Unpack[WhichRequests]) -> list[RecordedRequest]:
        """Return the requests that were recorded, in the order in which they came.

        Args:
            apis: names or keys of APIs, as of `fail`; "*" for all.
            which: the keywords of faults that say which requests are meant: `topic`, `partition`, `group`,
                `transactional_id`, `client_id`, `listener`, `versions`; `between_brokers` for what brokers
                ask of each other in place of what clients ask.

        Raises:
            RuntimeError: nothing was recorded, see `record_requests`.
            FaultRefusedError: there is no such API.
            TypeError: there is no such keyword.
        """
        from odradek.testing.looking.requests import RequestFilter

        return self._recorder().of(RequestFilter(apis, which))

    @property
    def recorder(self) -> RequestRecorder | None:
        """The requests that were recorded; None where none were."""
        return None if self._recorded is None else self._recorded.recorder

    def _recorder(self) -> RequestRecorder:
        recorder = self.recorder
        if recorder is None:
            raise RuntimeError("no requests are recorded: say record_requests() before they come")
        return recorder

    def wait_for_request(
        self,
        apis: Apis = "*",
        *,
        times: int = 1,
        timeout_s: float = TIMEOUT_S,
        **which: Unpack[WhichRequests],
    ) -> list[RecordedRequest]:
        """Wait until so many requests have come since `record_requests`, and return them.

        Args:
            apis, which: see `requests`.
            times: how many at least.
            timeout_s: how long to wait, in seconds.

        Raises:
            RuntimeError, FaultRefusedError, TypeError: as `requests`.
            WaitTimeoutError: they have not come; the message tells of those that have.
        """
        from odradek.testing.looking.requests import RequestFilter

        recorder, wanted = self._recorder(), RequestFilter(apis, which)
        return wait_until(
            self._looked_at(),
            lambda: recorder.of(wanted),
            holds=lambda requests: len(requests) >= times,
            awaited=f"{times} requests: {wanted}",
            instead=lambda requests, _: _shown(None, [*map(repr, requests or ()), recorder.summary()]),
            timeout_s=timeout_s,
        )

    # ------------------------------------------------------------------ anything

    def wait_for(
        self, predicate: Callable[[], T], awaited: str | None = None, *, timeout_s: float = TIMEOUT_S
    ) -> T:
        """Wait until something holds, and return what the predicate gave.

        It is called at once, and again with each event of a broker: a request, also when it has been worked
        on, an append, a commit, a change of a group.

        Args:
            predicate: called in this thread; a `KafkaError` of it counts as not yet.
            awaited: in words, for the message; the predicate's source if None.
            timeout_s: how long to wait, in seconds.

        Raises:
            WaitTimeoutError: it did not hold in time; the message has what the predicate gave last.
        """
        return wait_until(
            self._looked_at(),
            predicate,
            holds=bool,
            awaited=_source(predicate) if awaited is None else awaited,
            instead=lambda value, problem: f"  there is {value!r}" if problem is None else f"  {problem!r}",
            timeout_s=timeout_s,
        )


class AsyncInside:
    """The methods of `LookInside` as coroutines. A predicate of `wait_for` is called in another thread."""

    def __init__(self, inside: LookInside) -> None:
        """
        Args:
            inside: a broker or a cluster.
        """
        self.records = in_thread(inside.records)
        self.topics = in_thread(inside.topics)
        self.groups = in_thread(inside.groups)
        self.seed = in_thread(inside.seed)
        self.assert_records = in_thread(inside.assert_records)
        self.wait_for = in_thread(inside.wait_for)
        self.wait_for_records = in_thread(inside.wait_for_records)
        self.wait_for_group = in_thread(inside.wait_for_group)
        self.wait_for_commit = in_thread(inside.wait_for_commit)
        self.wait_for_request = in_thread(inside.wait_for_request)


def _led_in(broker: BrokerServices, topic: str, index: int) -> tuple[int | None, bool]:
    """Return in which epoch a broker leads a partition, None where it does not; and whether there is one."""
    partition = broker.replicas.find(topic, index)
    epoch = partition.leader_epoch if partition is not None and partition.is_leader else None
    return epoch, partition is not None or broker.image.partition(topic, index) is not None


def _shown(problem: KafkaError | None, lines: Sequence[str]) -> str:
    shown = list(lines)
    if len(shown) > _SHOWN_LINES:
        shown = [f"… {len(shown) - _SHOWN_LINES} before", *shown[-_SHOWN_LINES:]]
    if problem is not None:
        shown.append(f"the last look failed: {problem}")
    return "there is\n" + "\n".join(f"  {line}" for line in shown or ["nothing"])


def _source(predicate: Callable[[], object]) -> str:
    try:
        return " ".join(inspect.getsource(predicate).split())
    except (OSError, TypeError):
        return repr(predicate)
