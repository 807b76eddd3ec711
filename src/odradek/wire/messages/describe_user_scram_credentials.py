"""DescribeUserScramCredentials: which SCRAM credentials users have (KIP-554)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, int8, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class UserName(Struct):
    """An element of `DescribeUserScramCredentialsRequest.users`."""

    name: str = string()


@request(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest(Message):
    """The users, null for all."""

    MOST_ELEMENTS = 2_000

    users: list[UserName] | None = array(UserName, nullable="0+")


@struct
class CredentialInfo(Struct):
    """An element of `DescribeUserScramCredentialsResult.credential_infos`."""

    mechanism: int = int8()
    iterations: int = int32()


@struct
class DescribeUserScramCredentialsResult(Struct):
    """An element of `DescribeUserScramCredentialsResponse.results`."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


@response(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse(Message):
    """Mechanisms and iterations, never the secret."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)
