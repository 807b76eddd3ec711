"""WriteTxnMarkers: the transaction coordinator has markers written to partitions."""

from __future__ import annotations

from odradek.wire.api import ApiKey
from odradek.wire.fields import array, boolean, int8, int16, int32, int64, string
from odradek.wire.message import Message, Struct, request, response, struct


@struct
class WritableTxnMarkerTopic(Struct):
    """An element of `WritableTxnMarker.topics`."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


@struct
class WritableTxnMarker(Struct):
    """An element of `WriteTxnMarkersRequest.markers`."""

    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: list[WritableTxnMarkerTopic] = array(WritableTxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+", ignorable=True)


@request(ApiKey.WRITE_TXN_MARKERS, versions="0-2", flexible="1+")
class WriteTxnMarkersRequest(Message):
    """The markers."""

    markers: list[WritableTxnMarker] = array(WritableTxnMarker)


@struct
class WritableTxnMarkerPartitionResult(Struct):
    """An element of `WritableTxnMarkerTopicResult.partitions`."""

    partition_index: int = int32()
    error_code: int = int16()


@struct
class WritableTxnMarkerTopicResult(Struct):
    """An element of `WritableTxnMarkerResult.topics`."""

    name: str = string()
    partitions: list[WritableTxnMarkerPartitionResult] = array(WritableTxnMarkerPartitionResult)


@struct
class WritableTxnMarkerResult(Struct):
    """An element of `WriteTxnMarkersResponse.markers`."""

    producer_id: int = int64()
    topics: list[WritableTxnMarkerTopicResult] = array(WritableTxnMarkerTopicResult)


@response(ApiKey.WRITE_TXN_MARKERS, versions="0-2", flexible="1+")
class WriteTxnMarkersResponse(Message):
    """Per partition, whether it was written."""

    markers: list[WritableTxnMarkerResult] = array(WritableTxnMarkerResult)
