"""SASL, ACLs and delegation tokens on a broker that knows none of them, at every version."""

from __future__ import annotations

import pytest

from odradek.broker.requests.authorization import Operation
from odradek.errors.codes import ErrorCode
from odradek.wire.messages import create_acls, delete_acls
from odradek.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from odradek.wire.messages.describe_acls import DescribeAclsRequest
from odradek.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from odradek.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from odradek.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest

from ..admin_world import Denying, World

NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.mark.parametrize("version", range(2))
def test_a_handshake_where_none_is_needed(version: int) -> None:
    answer = World().call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), version)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])


@pytest.mark.parametrize("version", range(3))
def test_authentication_where_none_is_needed(version: int) -> None:
    answer = World().call(SaslAuthenticateRequest(auth_bytes=b"\0user\0password"), version)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert answer.error_message == "SaslAuthenticate request received after successful authentication"
    assert (answer.auth_bytes, answer.session_lifetime_ms) == (b"", 0)


@pytest.mark.parametrize("version", range(4))
def test_acls_cannot_be_described(version: int) -> None:
    world = World()
    request = DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1)
    answer = world.call(request, version)
    assert answer.error_code == ErrorCode.SECURITY_DISABLED
    assert answer.error_message == "No Authorizer is configured on the broker"
    assert answer.resources == []
    world.authorizer = Denying((Operation.DESCRIBE, "kafka-cluster"))
    assert world.call(request, version).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", range(4))
def test_each_new_acl_is_refused(version: int) -> None:
    acl = create_acls.AclCreation(
        resource_type=2, resource_name="t", principal="User:a", host="*", operation=3, permission_type=3
    )
    world = World()
    request = create_acls.CreateAclsRequest(creations=[acl, acl])
    answer = world.call(request, version)
    assert [(one.error_code, one.error_message) for one in answer.results] == [
        (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    ] * 2
    world.authorizer = Denying((Operation.ALTER, "kafka-cluster"))
    codes = [one.error_code for one in world.call(request, version).results]
    assert codes == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2


@pytest.mark.parametrize("version", range(4))
def test_each_filter_of_a_deletion_is_refused(version: int) -> None:
    some = delete_acls.DeleteAclsFilter(resource_type_filter=1, operation=1, permission_type=1)
    answer = World().call(delete_acls.DeleteAclsRequest(filters=[some, some]), version)
    assert [(one.error_code, one.error_message) for one in answer.filter_results] == [
        (ErrorCode.SECURITY_DISABLED, "No Authorizer is configured.")
    ] * 2
    assert all(one.matching_acls == [] for one in answer.filter_results)


@pytest.mark.parametrize("version", range(4))
def test_no_tokens_are_given_out(version: int) -> None:
    answer = World().call(CreateDelegationTokenRequest(max_lifetime_ms=-1), version)
    assert (answer.error_code, answer.principal_type, answer.principal_name) == (
        NOT_ALLOWED,
        "User",
        "ANONYMOUS",
    )
    assert (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms) == (-1, -1, -1)
    assert (answer.token_id, answer.hmac) == ("", b"")


def test_a_refused_token_names_its_owner_and_who_asked() -> None:
    request = CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="bob")
    answer = World().call(request, 3)
    assert (answer.principal_name, answer.token_requester_principal_name) == ("bob", "ANONYMOUS")


@pytest.mark.parametrize("version", range(3))
def test_no_tokens_are_renewed_or_expired(version: int) -> None:
    for request in (RenewDelegationTokenRequest(hmac=b"h"), ExpireDelegationTokenRequest(hmac=b"h")):
        answer = World().call(request, version)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (NOT_ALLOWED, -1)


@pytest.mark.parametrize("version", range(4))
def test_no_tokens_are_described(version: int) -> None:
    answer = World().call(DescribeDelegationTokenRequest(owners=None), version)
    assert (answer.error_code, answer.tokens) == (NOT_ALLOWED, [])
