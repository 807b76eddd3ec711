"""The types of keys and values: what serializers take and deserializers give.

`Consumer[K, V]`, `AsyncConsumer[K, V]` and `ConsumerRecord[K, V]` read keys of type K, `Producer[K, V]` and
`AsyncProducer[K, V]` write them. Type checkers infer both from the serializers and deserializers that are
given as keywords. Without any, a consumer gives bytes, and a producer takes bytes and text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

Serialized: TypeAlias = bytes | str | bytearray | memoryview
"""What a producer takes without a serializer, and what a serializer may give. Text becomes UTF-8."""

if TYPE_CHECKING:
    # Python's own have no default before 3.13; `Consumer` alone is `Consumer[bytes, bytes]`.
    from typing_extensions import TypeVar

    K_co = TypeVar("K_co", covariant=True, default=bytes)
    V_co = TypeVar("V_co", covariant=True, default=bytes)
    K_contra = TypeVar("K_contra", contravariant=True, default=Serialized)
    V_contra = TypeVar("V_contra", contravariant=True, default=Serialized)
else:
    from typing import TypeVar

    K_co = TypeVar("K_co", covariant=True)
    V_co = TypeVar("V_co", covariant=True)
    K_contra = TypeVar("K_contra", contravariant=True)
    V_contra = TypeVar("V_contra", contravariant=True)

Data = TypeVar("Data")
Data_co = TypeVar("Data_co", covariant=True)
Data_contra = TypeVar("Data_contra", contravariant=True)


class HasSerialize(Protocol[Data_contra]):
    """Kafka's `Serializer`, by its method."""

    def serialize(self, topic: str, data: Data_contra, /) -> Serialized | None:
        """Return the bytes."""
        ...


class HasDeserialize(Protocol[Data_co]):
    """Kafka's `Deserializer`, by its method."""

    def deserialize(self, topic: str, data: bytes, /) -> Data_co:
        """Return the key or value."""
        ...


class HasToken(Protocol):
    """A provider of OAuth tokens that is an object."""

    def token(self) -> str:
        """Return a token."""
        ...


Serializer: TypeAlias = (
    Callable[[Data], Serialized | None] | Callable[[str, Data], Serialized | None] | HasSerialize[Data]
)
"""A function of the data, or of topic and data; or an object."""

Deserializer: TypeAlias = Callable[[bytes], Data] | Callable[[str, bytes], Data] | HasDeserialize[Data]
"""A function of the bytes, or of topic and bytes; or an object."""
