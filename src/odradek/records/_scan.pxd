"""The structure of one record, for the compiled modules. Twin: `odradek.records._pyscan`, which has the layout.

Input comes from strangers: every read is behind a check against the end of the section or of the record.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    OK = 0
    TRUNCATED = 1
    LENGTH = 2
    STRUCTURE = 3
    MISMATCH = 4
    HEADER_COUNT = 5


cdef inline int read_varint32(const uint8_t *data, Py_ssize_t *position, Py_ssize_t end, int32_t *value) noexcept nogil:
    """0, -1 where the bytes end first, -2 where the varint is too long."""
    cdef Py_ssize_t at = position[0]
    cdef uint32_t raw = 0
    cdef uint8_t byte
    cdef int shift = 0
    while at < end:
        byte = data[at]
        at += 1
        raw |= (<uint32_t>(byte & 0x7F)) << shift
        if byte < 0x80:
            value[0] = <int32_t>((raw >> 1) ^ (~(raw & 1) + 1))
            position[0] = at
            return 0
        shift += 7
        if shift == 35:
            return -2
    return -1


cdef inline int read_varint64(const uint8_t *data, Py_ssize_t *position, Py_ssize_t end, int64_t *value) noexcept nogil:
    cdef Py_ssize_t at = position[0]
    cdef uint64_t raw = 0
    cdef uint8_t byte
    cdef int shift = 0
    while at < end:
        byte = data[at]
        at += 1
        raw |= (<uint64_t>(byte & 0x7F)) << shift
        if byte < 0x80:
            value[0] = <int64_t>((raw >> 1) ^ (~(raw & 1) + 1))
            position[0] = at
            return 0
        shift += 7
        if shift == 70:
            return -2
    return -1


cdef struct Scan:
    Py_ssize_t next
    int64_t timestamp_delta
    int32_t offset_delta
    Py_ssize_t key_at
    int32_t key_length
    Py_ssize_t value_at
    int32_t value_length
    Py_ssize_t headers_at
    int32_t header_count


cdef inline int scan(const uint8_t *data, Py_ssize_t position, Py_ssize_t size, Scan *found) noexcept nogil:
    """The record at `position`, whose section ends at `size`: a problem number, and where its fields are."""
    cdef int32_t length
    cdef int32_t number
    cdef Py_ssize_t end
    cdef int failed = read_varint32(data, &position, size, &length)
    if failed:
        return TRUNCATED if failed == -1 else STRUCTURE
    if length < 0 or length > size - position:
        return LENGTH
    end = position + length
    if length == 0:
        return STRUCTURE
    position += 1  # attributes
    if read_varint64(data, &position, end, &found.timestamp_delta):
        return STRUCTURE
    if read_varint32(data, &position, end, &found.offset_delta):
        return STRUCTURE

    if read_varint32(data, &position, end, &number) or number < -1 or number > end - position:
        return STRUCTURE
    found.key_at = position
    found.key_length = number
    if number > 0:
        position += number

    if read_varint32(data, &position, end, &number) or number < -1 or number > end - position:
        return STRUCTURE
    found.value_at = position
    found.value_length = number
    if number > 0:
        position += number

    if read_varint32(data, &position, end, &number):
        return STRUCTURE
    if number < 0 or number > end - position:
        return HEADER_COUNT
    found.headers_at = position
    found.header_count = number
    cdef int32_t left = number
    while left > 0:
        if read_varint32(data, &position, end, &number) or number < 0 or number > end - position:
            return STRUCTURE
        position += number
        if read_varint32(data, &position, end, &number) or number < -1 or number > end - position:
            return STRUCTURE
        if number > 0:
            position += number
        left -= 1
    if position != end:
        return MISMATCH
    found.next = end
    return OK
