"""FindCoordinator, in the versions that know one key and in those that take many (KIP-699)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from odradek.client.core.metadata import MetadataCache
from odradek.client.types import Node
from odradek.errors import ErrorCode, error_for
from odradek.errors.codes import to_code
from odradek.wire.messages.find_coordinator import FindCoordinatorRequest

_MANY_FROM = 4


def find_coordinator_request(key: str, key_type: int, version: int) -> FindCoordinatorRequest:
    """Ask who coordinates a group (`key_type` 0) or a transactional id (1)."""
    if version >= _MANY_FROM:
        return FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
    return FindCoordinatorRequest(key=key, key_type=key_type)


def find_coordinator_requests(
    keys: Sequence[str], key_type: int, version: int
) -> list[FindCoordinatorRequest]:
    """Ask for the coordinators of several keys, at once in versions that can."""
    if version >= _MANY_FROM:
        return [FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type)]
    return [FindCoordinatorRequest(key=key, key_type=key_type) for key in keys]


def coordinators_in(request: FindCoordinatorRequest, response: Any) -> dict[str, Any]:
    """Return the answers by key, each as that of `coordinator_in`."""
    if request.coordinator_keys:
        return {answer.key: answer for answer in response.coordinators}
    return {request.key: response}


def coordinator_in(response: Any) -> Any:
    """The answer for the one key, of either form, with `error_code`, `node_id`, `host` and `port`."""
    return response.coordinators[0] if response.coordinators else response


def refusal_in(answer: Any) -> ErrorCode:
    """The error of an answer for one key, else NONE; a coordinator without a host is not available."""
    code = to_code(answer.error_code)
    return code if code or answer.host else ErrorCode.COORDINATOR_NOT_AVAILABLE


def learn_coordinator(metadata: MetadataCache, response: Any) -> Node:
    """The coordinator, which is among the known brokers then.

    Raises:
        KafkaError: the answer is an error.
    """
    return learn_answer(metadata, coordinator_in(response))


def learn_answer(metadata: MetadataCache, answer: Any) -> Node:
    """Return the coordinator that an answer for one key names; see `learn_coordinator`."""
    if code := refusal_in(answer):
        raise error_for(answer.error_code or code, answer.error_message or None)
    return metadata.learn(answer.node_id, answer.host, answer.port)
