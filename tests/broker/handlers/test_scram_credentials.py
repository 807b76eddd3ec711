"""DescribeUserScramCredentials and AlterUserScramCredentials, and what is kept for them."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode
from typing import Any

import pytest

from odradek.broker.requests.authorization import Operation
from odradek.cluster.access.scram import Mechanism, iterations_of
from odradek.errors.codes import ErrorCode
from odradek.wire.messages import alter_user_scram_credentials as altering
from odradek.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

from ..admin_world import Denying, World

SHA_256, SHA_512 = 1, 2


def upsert(name: str = "bob", mechanism: int = SHA_256, iterations: int = 4096) -> Any:
    return altering.ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"p" * 32
    )


def delete(name: str = "bob", mechanism: int = SHA_256) -> Any:
    return altering.ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(world: World, *changes: Any) -> dict[str, int]:
    request = altering.AlterUserScramCredentialsRequest(
        deletions=[one for one in changes if isinstance(one, altering.ScramCredentialDeletion)],
        upsertions=[one for one in changes if isinstance(one, altering.ScramCredentialUpsertion)],
    )
    answer = world.call(request, 0)
    for one in answer.results:
        assert bool(one.error_message) is bool(one.error_code)
    return {one.user: one.error_code for one in answer.results}


def describe(world: World, *names: str, everybody: bool = False) -> dict[str, Any]:
    users = None if everybody else [UserName(name=name) for name in names]
    answer = world.call(DescribeUserScramCredentialsRequest(users=users), 0)
    assert answer.error_code == 0
    return {
        one.user: one.error_code or [(info.mechanism, info.iterations) for info in one.credential_infos]
        for one in answer.results
    }


def test_a_credential_is_what_rfc_7677_says() -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    text = Mechanism.SHA_256.credential(salt, salted, 4096)
    assert iterations_of(text) == 4096
    fields = dict(token.split("=", 1) for token in text.split(","))
    assert b64decode(fields["salt"]) == salt
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    message = (
        f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}"
    ).encode()
    server = hmac.digest(b64decode(fields["server_key"]), message, "sha256")
    assert server == b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    signature = hmac.digest(b64decode(fields["stored_key"]), message, "sha256")
    proof = b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client_key = bytes(a ^ b for a, b in zip(signature, proof, strict=True))
    assert hashlib.sha256(client_key).digest() == b64decode(fields["stored_key"])


def test_a_larger_hash_has_larger_keys() -> None:
    text = Mechanism.SHA_512.credential(b"salt", b"p" * 64, 5000)
    fields = dict(token.split("=", 1) for token in text.split(","))
    assert len(b64decode(fields["stored_key"])) == len(b64decode(fields["server_key"])) == 64


@pytest.mark.parametrize("text", ["", "salt=a", "nonsense", "salt=a,stored_key=b,server_key=c,iterations=x"])
def test_what_is_no_credential(text: str) -> None:
    with pytest.raises(ValueError, match=r"SCRAM|invalid literal"):
        iterations_of(text)


def test_setting_describing_and_deleting() -> None:
    world = World()
    assert describe(world) == {}
    assert alter(world, upsert(), upsert(mechanism=SHA_512, iterations=8192), upsert("ann/ü")) == {
        "bob": 0,
        "ann/ü": 0,
    }
    everything = {"ann/ü": [(SHA_256, 4096)], "bob": [(SHA_256, 4096), (SHA_512, 8192)]}
    assert list(describe(world).items()) == list(everything.items())
    assert describe(world, everybody=True) == everything
    assert world.image.config("users/ann%2F%C3%BC").keys() == {"SCRAM-SHA-256"}
    assert alter(world, delete(mechanism=SHA_256), upsert(mechanism=SHA_512, iterations=16384)) == {"bob": 0}
    assert describe(world, "bob") == {"bob": [(SHA_512, 16384)]}
    assert alter(world, delete(mechanism=SHA_512)) == {"bob": 0}
    assert describe(world, "bob") == {"bob": ErrorCode.RESOURCE_NOT_FOUND}


def test_quotas_and_credentials_of_a_user_leave_each_other_alone() -> None:
    world = World()
    world.controller.alter_config("users/bob", {"producer_byte_rate": "5"})
    assert describe(world) == {}
    assert alter(world, upsert()) == {"bob": 0}
    assert world.image.config("users/bob").keys() == {"producer_byte_rate", "SCRAM-SHA-256"}


def test_whom_there_is_nothing_to_be_told_of() -> None:
    world = World()
    alter(world, upsert())
    assert describe(world, "bob", "bob", "", "eve") == {
        "bob": ErrorCode.DUPLICATE_RESOURCE,
        "": ErrorCode.RESOURCE_NOT_FOUND,
        "eve": ErrorCode.RESOURCE_NOT_FOUND,
    }
    world.controller.alter_config("users/bob", {"SCRAM-SHA-256": "nonsense"})
    assert describe(world) == {"bob": ErrorCode.UNKNOWN_SERVER_ERROR}


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([upsert("")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([delete("")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsert(iterations=4095)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsert(iterations=16385)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([upsert(mechanism=0)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([delete(mechanism=3)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([upsert(), upsert()], ErrorCode.DUPLICATE_RESOURCE),
        ([upsert(), delete()], ErrorCode.DUPLICATE_RESOURCE),
        ([delete()], ErrorCode.RESOURCE_NOT_FOUND),
        ([delete(mechanism=SHA_512), upsert()], ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_a_users_changes_are_made_together_or_not_at_all(changes: list[Any], error: ErrorCode) -> None:
    world = World()
    assert alter(world, *changes, upsert("ann")) == {changes[0].name: error, "ann": 0}
    assert describe(world) == {"ann": [(SHA_256, 4096)]}


def test_who_may() -> None:
    world = World()
    world.authorizer = Denying((Operation.ALTER, "kafka-cluster"), (Operation.DESCRIBE, "kafka-cluster"))
    assert alter(world, upsert()) == {"bob": ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    answer = world.call(DescribeUserScramCredentialsRequest(users=None), 0)
    assert (answer.error_code, answer.results) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
    world.controller.context.is_active = False
    assert alter(world, upsert()) == {"bob": ErrorCode.NOT_CONTROLLER}
