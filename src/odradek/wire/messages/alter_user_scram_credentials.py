"""AlterUserScramCredentials: set and remove SCRAM credentials (KIP-554)."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, blob, int8, int16, int32, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class ScramCredentialDeletion(Struct):
    """An element of `AlterUserScramCredentialsRequest.deletions`."""

    name: str = string()
    mechanism: int = int8()


@struct
class ScramCredentialUpsertion(Struct):
    """An element of `AlterUserScramCredentialsRequest.upsertions`."""

    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = blob()
    salted_password: bytes = blob()


@request(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest(Message):
    """The changes; the password comes salted."""

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


@struct
class AlterUserScramCredentialsResult(Struct):
    """An element of `AlterUserScramCredentialsResponse.results`."""

    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@response(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse(Message):
    """Per user, whether it was changed."""

    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
