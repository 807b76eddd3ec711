"""The base of the admin client: asking any broker, the controller, or a certain one, with retries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from odradek.client.aio.cluster import Cluster, check_loop
from odradek.client.aio.group_link import COORDINATOR, find_coordinators
from odradek.client.aio.offsets import by_leader, retry
from odradek.client.aio.unclosed import Unclosed
from odradek.client.config import AdminConfig, build
from odradek.client.core.keyed_answers import KeyedAnswers
from odradek.client.errors import ClientTimeoutError, ClosedError, left_out
from odradek.client.types import Node, TopicPartition
from odradek.errors import ErrorCode, KafkaError, error_for
from odradek.errors.codes import to_code
from odradek.wire.api import ApiKey

if TYPE_CHECKING:
    from typing import Self, Unpack

    from odradek.client.config_dicts import AdminConfigs

K = TypeVar("K")
T = TypeVar("T")

_QUOTA_EXCEEDED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def check(code: int, subject: str, message: str | None = None) -> None:
    """Check that a code is 0.

    Args:
        code: as a response has it.
        subject: what was asked about, or for: the error's text begins with it.
        message: the broker's; the code's own when None.

    Raises:
        KafkaError: it is another one; of the code's class.
    """
    if code:
        raise error_for(code, f"{subject}: {message or to_code(code).message}")


def failure(subject: object, code: int, message: str | None = None) -> KafkaError:
    """The error that a broker told of one thing."""
    return error_for(code, f"{subject}: {message or to_code(code).message}")


def failure_of(kind: str, name: str, code: int, message: str | None = None) -> KafkaError:
    """`failure` about a topic or another thing with a name, which brokers' messages have only sometimes."""
    if message and repr(name) in message:
        return error_for(code, message)
    return failure(f"{kind} {name!r}", code, message)


def listed(names: Iterable[str]) -> str:
    """Return names for a message, the first few of many."""
    quoted = [repr(name) for name in sorted(names)]
    return ", ".join(quoted) if len(quoted) <= 3 else f"{', '.join(quoted[:2])} and {len(quoted) - 2} others"


def problems_in(
    answers: Mapping[K, Any], expected: Iterable[K], name_of: Callable[[K], object] = lambda key: key
) -> dict[K, KafkaError]:
    """Return the errors for what an answer refuses, and for what it leaves out.

    Args:
        answers: the parts of the answer, by what each is about.
        expected: what had to be answered.
        name_of: names what is refused; the error's text begins with it.
    """
    refused = {
        key: failure(name_of(key), part.error_code, getattr(part, "error_message", None))
        for key, part in answers.items()
        if part.error_code
    }
    return refused | left_out(expected, answers)


async def problems_of(
    asks: Iterable[tuple[Iterable[K], Awaitable[Mapping[K, KafkaError]]]],
) -> dict[K, KafkaError]:
    """Ask several brokers at once; what one of them cannot be asked does not keep from asking the others.

    Args:
        asks: what a broker is asked for, and the asking, which gives the errors of some of that.

    Returns: the errors; that of asking itself stands for all that the broker was asked for.
    """

    async def ask(keys: Iterable[K], asking: Awaitable[Mapping[K, KafkaError]]) -> Mapping[K, KafkaError]:
        try:
            return await asking
        except KafkaError as problem:
            return dict.fromkeys(keys, problem)

    parts = await asyncio.gather(*(ask(keys, asking) for keys, asking in asks))
    return {key: problem for part in parts for key, problem in part.items()}


def not_controller(results: Iterable[Any]) -> int:
    """NOT_CONTROLLER if it is the error of any of `results`, else 0."""
    code = ErrorCode.NOT_CONTROLLER
    return code if any(result.error_code == code for result in results) else 0


def raise_first(problems: Mapping[Any, KafkaError]) -> None:
    """Raise the first of the errors, if any; its `errors` has all of them, by what they are about."""
    if problems:
        raise naming(next(iter(problems.values())), problems)


def naming(problem: KafkaError, problems: Mapping[Any, KafkaError]) -> KafkaError:
    """Return an error that has all those of its call in `errors`, by what they are about."""
    problem.errors = dict(problems)  # type: ignore[attr-defined]
    return problem


class AdminBase:
    """Connections, metadata and retries of an admin client."""

    def __init__(
        self, config: Mapping[str, object] | None = None, /, **configs: Unpack[AdminConfigs]
    ) -> None:
        self._config = build(AdminConfig, {**(config or {}), **configs})
        self._cluster: Cluster | None = None
        self._unclosed: Unclosed | None = None
        self._closed = False

    @property
    def config(self) -> AdminConfig:
        """The configs in effect."""
        return self._config

    async def close(self) -> None:
        """Close the connections."""
        self._closed = True
        if self._cluster is not None:
            check_loop(self._cluster)
            if self._unclosed is not None:
                await self._unclosed.closed()
            await self._cluster.close()

    def __del__(self) -> None:
        unclosed = getattr(self, "_unclosed", None)
        if unclosed is not None:
            unclosed.let_go()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    def _started(self) -> Cluster:
        if self._closed:
            raise ClosedError("the admin client is closed")
        if self._cluster is None:
            self._cluster = cluster = Cluster(self._config, allow_auto_create=False)
            client_name = f"admin client {self._config.client_id!r}"
            self._unclosed = Unclosed(client_name, cluster.close, cluster.close)
        else:
            check_loop(self._cluster)
        return self._cluster

    async def _retry(
        self, action: str, step: Callable[[], Awaitable[T]], also: frozenset[ErrorCode] = frozenset()
    ) -> T:
        try:
            return await retry(self._started(), action, self._config.default_api_timeout_ms, step, also=also)
        except ClientTimeoutError as problem:
            # What the last answer has not named is done.
            if problems := getattr(problem.__cause__, "errors", None):
                naming(problem, problems)
            raise

    async def _leaders(
        self,
        action: str,
        partitions: Iterable[TopicPartition],
        ask: Callable[[int, list[TopicPartition]], Awaitable[Mapping[TopicPartition, T | KafkaError]]],
        broker_id: int | None = None,
    ) -> dict[TopicPartition, T]:
        """Ask the leaders of partitions; again about those whose error may pass.

        Args:
            action: what is done, for messages.
            ask: asks a broker about some partitions, and gives what it says of each.
            broker_id: the replica to ask in place of the leaders; what it refuses stays refused.

        Raises:
            KafkaError: the first; its `errors` has those of all partitions of which there is no answer.
        """
        answered: KeyedAnswers[TopicPartition, T] = KeyedAnswers(partitions)

        async def ask_one(node: int, part: list[TopicPartition]) -> None:
            try:
                answered.take(part, await ask(node, part), may_pass=broker_id is None)
            except KafkaError as problem:
                # Of this broker alone: the others are asked.
                answered.take(part, dict.fromkeys(part, problem), may_pass=True)

        async def step() -> None:
            asks = self._by_leader(answered, broker_id).items()
            await asyncio.gather(*(ask_one(node, part) for node, part in asks))
            answered.raise_passing()

        return await self._all_of(answered, action, step)

    async def _coordinators(
        self,
        action: str,
        names: Iterable[str],
        ask: Callable[[Node, Any, list[str]], Awaitable[Mapping[str, T | KafkaError]]],
        key_type: int = 0,
    ) -> dict[str, T]:
        """Ask the coordinators of groups or transactional ids, each once; again about those whose error may
        pass: a coordinator moves.

        Args:
            action: what is done, for messages.
            ask: asks a coordinator, over a connection to it, about some of the names.
            key_type: 0: they are group ids; 1: transactional ids.

        Raises:
            KafkaError: the first; its `errors` has those of all names of which there is no answer.
        """
        cluster = self._started()
        answered: KeyedAnswers[str, T] = KeyedAnswers(names)

        async def ask_one(node: Node, part: list[str]) -> None:
            try:
                connection = await cluster.connection(node.id, COORDINATOR)
                answered.take(part, await ask(node, connection, part), may_pass=True)
            except KafkaError as problem:
                # Of this coordinator alone: the others are asked.
                answered.take(part, dict.fromkeys(part, problem), may_pass=True)

        async def step() -> None:
            left = list(answered.left)
            coordinators = await find_coordinators(cluster, left, key_type)
            by_node: dict[Node, list[str]] = {}
            for name in left:
                node = coordinators.get(name)
                if isinstance(node, Node):
                    by_node.setdefault(node, []).append(name)
                else:
                    answered.take([name], {} if node is None else {name: node}, may_pass=True)
            await asyncio.gather(*(ask_one(node, part) for node, part in by_node.items()))
            answered.raise_passing()

        return await self._all_of(answered, action, step)

    async def _all_of(
        self, answered: KeyedAnswers[K, T], action: str, step: Callable[[], Awaitable[None]]
    ) -> dict[K, T]:
        """Take `step` until nothing is left that may pass; see `_leaders`."""
        try:
            if answered.left:
                await self._retry(action, step)
        except KafkaError as problem:
            naming(problem, answered.problems(problem))
            raise
        raise_first(answered.problems())
        return answered.answers

    def _by_leader(
        self, answered: KeyedAnswers[TopicPartition, Any], broker_id: int | None
    ) -> dict[int, list[TopicPartition]]:
        """Sort what is left to ask about by the broker to ask; without a known leader it is not asked now."""
        if broker_id is not None:
            return {broker_id: list(answered.left)}
        by_node: dict[int, list[TopicPartition]] = {}
        for tp in list(answered.left):
            try:
                (node,) = by_leader(self._started(), {tp: None})
            except KafkaError as problem:
                answered.take([tp], {tp: problem}, may_pass=True)
            else:
                by_node.setdefault(node, []).append(tp)
        return by_node

    async def _any(self, action: str, message: Callable[[int], Any], key: ApiKey) -> Any:
        """Ask any broker; `message(version)` makes the request."""

        async def step() -> Any:
            connection = await self._started().any_connection()
            version = connection.pick(key)
            return await connection.send(message(version), version)

        return await self._retry(action, step)

    async def _controller(
        self, action: str, message: Any, failed: Callable[[Any], int], at_least: int | None = None
    ) -> Any:
        """Ask the controller; once more where `failed(response)` says that it is not the controller any
        more.
        """
        cluster = self._started()

        async def step() -> Any:
            if cluster.metadata.controller_id not in cluster.metadata.brokers:
                await cluster.wait_update(self._config.request_timeout_ms)
            node = cluster.metadata.controller_id
            # Brokers of a KRaft cluster name any broker as controller, and forward.
            response = await cluster.request(
                node if node in cluster.metadata.brokers else None, message, at_least=at_least
            )
            if failed(response) == ErrorCode.NOT_CONTROLLER:
                cluster.metadata.controller_id = -1
                raise error_for(ErrorCode.NOT_CONTROLLER)
            return response

        return await self._retry(action, step)

    async def _within_quota(
        self,
        names: Iterable[str],
        ask: Callable[[set[str]], Awaitable[Any]],
        rows: Callable[[Any], Iterable[Any]],
        retry_on_quota_violation: bool,
    ) -> list[Any]:
        """Ask for changes of topics, again for those that a quota has no room for now (KIP-599).

        Args:
            names: of the topics.
            ask: asks the controller about some of them.
            rows: the topics of an answer, each with `name` and `error_code`.
            retry_on_quota_violation: whether to wait for the quota, as long as a call may take.

        Returns: a row for each topic of which an answer has said anything, the last that was said of it.
        """
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._config.default_api_timeout_ms / 1000
        row_of: dict[str, Any] = {}
        left = set(names)
        while True:
            try:
                response = await ask(left)
            except KafkaError as problem:
                answered = {name: row for name, row in row_of.items() if name not in left}
                refused = problems_in(answered, answered, lambda name: f"topic {name!r}")
                naming(problem, refused | dict.fromkeys(left, problem))
                raise
            row_of |= {row.name: row for row in rows(response)}
            left = {name for name in left if name in row_of and row_of[name].error_code == _QUOTA_EXCEEDED}
            wait_s = response.throttle_time_ms / 1000
            if not left or not retry_on_quota_violation or loop.time() + wait_s > until_s:
                return list(row_of.values())
            # A broker that told no time has others to wait for.
            await asyncio.sleep(max(wait_s, self._config.retry_backoff_ms / 1000))

    async def _known_controller(self, cluster: Cluster) -> None:
        if cluster.metadata.controller_id not in cluster.metadata.brokers:
            await cluster.wait_update(self._config.request_timeout_ms)

    async def _to_controller(self, cluster: Cluster) -> Any:
        node = cluster.metadata.controller_id
        return await (
            cluster.connection(node) if node in cluster.metadata.brokers else cluster.any_connection()
        )

    async def _connection_to(self, node: int | None) -> Any:
        cluster = self._started()
        if node is None:
            return await cluster.any_connection()
        if node not in cluster.metadata.brokers:
            await cluster.wait_update(self._config.request_timeout_ms)
            if node not in cluster.metadata.brokers:
                broker_ids = ", ".join(map(str, sorted(cluster.metadata.brokers)))
                raise error_for(
                    ErrorCode.INVALID_REQUEST, f"there is no broker {node}: the cluster has {broker_ids}"
                )
        return await cluster.connection(node)
