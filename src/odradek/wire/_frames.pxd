"""Fields read from a frame and written into one, for the compiled modules.

Every `read…` is behind a check against the end of the frame: one that does not fit sets `failed` and gives 0.
`get…` is for who has looked before.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef struct Reader:
    const uint8_t *data
    Py_ssize_t at
    Py_ssize_t end
    Py_ssize_t elements  # how many elements may still come, for who counts them: of arrays, and unknown tags
    bint passes_over  # whether tagged fields that nobody knows are passed over, for who decodes messages
    bint failed


cdef inline uint32_t get32(const uint8_t *p) noexcept nogil:
    return (<uint32_t>p[0]) << 24 | (<uint32_t>p[1]) << 16 | (<uint32_t>p[2]) << 8 | p[3]


cdef inline int64_t get64(const uint8_t *p) noexcept nogil:
    return <int64_t>((<uint64_t>get32(p)) << 32 | get32(p + 4))


cdef inline int32_t get16(const uint8_t *p) noexcept nogil:
    return <int16_t>(<uint16_t>((<uint32_t>p[0]) << 8 | p[1]))


cdef inline uint32_t read32(Reader *r) noexcept nogil:
    if r.end - r.at < 4:
        r.failed = True
        return 0
    r.at += 4
    return get32(r.data + r.at - 4)


cdef inline int64_t read64(Reader *r) noexcept nogil:
    cdef uint64_t high = read32(r)
    return <int64_t>(high << 32 | read32(r))


cdef inline int32_t read16(Reader *r) noexcept nogil:
    if r.end - r.at < 2:
        r.failed = True
        return 0
    r.at += 2
    return get16(r.data + r.at - 2)


cdef inline int32_t read8(Reader *r) noexcept nogil:
    if r.end - r.at < 1:
        r.failed = True
        return 0
    r.at += 1
    return <signed char>r.data[r.at - 1]


cdef inline int64_t read_uvarint(Reader *r) noexcept nogil:
    """An unsigned varint of at most five bytes."""
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef uint8_t byte
    while shift < 35:
        if r.at >= r.end:
            r.failed = True
            return 0
        byte = r.data[r.at]
        r.at += 1
        value |= (<uint64_t>(byte & 0x7F)) << shift
        if byte < 0x80:
            return <int64_t>value
        shift += 7
    r.failed = True
    return 0


cdef inline uint8_t *put32(uint8_t *out, uint32_t value) noexcept nogil:
    out[0] = <uint8_t>(value >> 24)
    out[1] = <uint8_t>(value >> 16)
    out[2] = <uint8_t>(value >> 8)
    out[3] = <uint8_t>value
    return out + 4


cdef inline uint8_t *put64(uint8_t *out, int64_t value) noexcept nogil:
    return put32(put32(out, <uint32_t>(<uint64_t>value >> 32)), <uint32_t>value)


cdef inline uint8_t *put_uvarint(uint8_t *out, uint32_t value) noexcept nogil:
    while value >= 0x80:
        out[0] = <uint8_t>(value | 0x80)
        out += 1
        value >>= 7
    out[0] = <uint8_t>value
    return out + 1
