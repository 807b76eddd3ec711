"""What the compiled modules share: varints written, and Kafka's murmur2."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef inline Py_ssize_t varint_size(int64_t value) noexcept nogil:
    cdef uint64_t raw = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    cdef Py_ssize_t size = 1
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


cdef inline uint8_t *write_varint(uint8_t *out, int64_t value) noexcept nogil:
    cdef uint64_t raw = (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)
    while raw >= 0x80:
        out[0] = <uint8_t>(raw | 0x80)
        out += 1
        raw >>= 7
    out[0] = <uint8_t>raw
    return out + 1


cdef inline uint8_t *write_bytes(uint8_t *out, const void *data, Py_ssize_t length) noexcept nogil:
    """The length as a varint, and the bytes; length -1 is null."""
    out = write_varint(out, length)
    if length > 0:
        memcpy(out, data, length)
        out += length
    return out


cdef inline int32_t murmur2_hash(const uint8_t *data, Py_ssize_t length) noexcept nogil:
    cdef uint32_t m = 0x5BD1E995
    cdef uint32_t value = <uint32_t>0x9747B28C ^ <uint32_t>length
    cdef uint32_t word
    cdef Py_ssize_t words = length >> 2
    cdef Py_ssize_t i
    cdef const uint8_t *tail
    for i in range(words):
        word = (<uint32_t>data[4 * i] | (<uint32_t>data[4 * i + 1] << 8)
                | (<uint32_t>data[4 * i + 2] << 16) | (<uint32_t>data[4 * i + 3] << 24))
        word = word * m
        word ^= word >> 24
        word = word * m
        value = (value * m) ^ word
    tail = data + 4 * words
    if length & 3:
        if length & 3 == 3:
            value ^= <uint32_t>tail[2] << 16
        if length & 3 >= 2:
            value ^= <uint32_t>tail[1] << 8
        value ^= <uint32_t>tail[0]
        value = value * m
    value ^= value >> 13
    value = value * m
    value ^= value >> 15
    return <int32_t>value
