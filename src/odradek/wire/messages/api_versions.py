"""ApiVersions: which APIs a broker serves, in which versions.

A broker that does not know the version asked for answers in version 0 with UNSUPPORTED_VERSION (KIP-511).
Version 3 names the client's software, 4 lets a feature's lowest version be 0, 5 checks which cluster and
node is meant (KIP-1242).
"""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, int16, int32, int64, string
from odradek.wire.message import Message, Struct, request, response, struct


@request(ApiKey.API_VERSIONS, versions="0-5", flexible="3+")
class ApiVersionsRequest(Message):
    """The client software that asks."""

    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)
    cluster_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    node_id: int = int32("5+", default=-1, ignorable=True)


@struct
class ApiVersion(Struct):
    """An element of `ApiVersionsResponse.api_keys`."""

    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@struct
class SupportedFeatureKey(Struct):
    """An element of `ApiVersionsResponse.supported_features`."""

    name: str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


@struct
class FinalizedFeatureKey(Struct):
    """An element of `ApiVersionsResponse.finalized_features`."""

    name: str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")


@response(ApiKey.API_VERSIONS, versions="0-5", flexible="3+")
class ApiVersionsResponse(Message):
    """API keys with their versions, and the cluster's features (KIP-584)."""

    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", ignorable=True, tag=0)
    finalized_features_epoch: int = int64("3+", default=-1, ignorable=True, tag=1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", ignorable=True, tag=2)
    zk_migration_ready: bool = boolean("3+", ignorable=True, tag=3)
