# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The usual Produce request read and checked, and its response written, compiled. Twin:
`odradek.broker.fast._pyproduce`, whose docstrings are the contract; tests hold the two equal.

Input comes from strangers: every read is behind a check against the end of the frame, and nothing is allocated
by a number that the input merely claims.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from fastcrc.crc32 import iscsi

from odradek._frames cimport (
    Reader,
    put32,
    put64,
    put_uvarint,
    read16,
    read32,
    read_compact,
    read_count,
    read_no_tags,
    read_uvarint,
    skip_ascii,
)
from odradek._scan cimport OK, Scan, scan

cdef extern from "Python.h":
    object PyUnicode_DecodeASCII(const char *, Py_ssize_t, const char *)
    const char *PyUnicode_AsUTF8AndSize(object, Py_ssize_t *) except NULL

cdef extern from *:
    """
    #if defined(__x86_64__) && defined(__GNUC__)
    #include <nmmintrin.h>
    static int odradek_has_crc32(void) {
        __builtin_cpu_init();
        return __builtin_cpu_supports("sse4.2");
    }
    __attribute__((target("sse4.2")))
    static uint32_t odradek_crc32c(const uint8_t *data, Py_ssize_t length) {
        uint64_t crc = 0xFFFFFFFFu;
        uint64_t word;
        while (length >= 8) {
            memcpy(&word, data, 8);
            crc = _mm_crc32_u64(crc, word);
            data += 8;
            length -= 8;
        }
        while (length-- > 0)
            crc = _mm_crc32_u8((uint32_t)crc, *data++);
        return (uint32_t)crc ^ 0xFFFFFFFFu;
    }
    #else
    static int odradek_has_crc32(void) { return 0; }
    static uint32_t odradek_crc32c(const uint8_t *data, Py_ssize_t length) { return 0; }
    #endif
    """
    int odradek_has_crc32() nogil
    uint32_t odradek_crc32c(const uint8_t *, Py_ssize_t) nogil

cdef enum:
    PRODUCE = 0
    HEADER_BYTES = 61
    LOG_OVERHEAD = 12
    LENGTH_AT = 8
    MAGIC_AT = 16
    CRC_AT = 17
    ATTRIBUTES_AT = 21
    LAST_OFFSET_DELTA_AT = 23
    BASE_TIMESTAMP_AT = 27
    MAX_TIMESTAMP_AT = 35
    PRODUCER_ID_AT = 43
    PRODUCER_EPOCH_AT = 51
    BASE_SEQUENCE_AT = 53
    RECORD_COUNT_AT = 57

    TRANSACTIONAL = 0x10
    UNUSUAL_ATTRIBUTES = 0x6F  # a codec, LogAppendTime, control, a delete horizon
    OWN_CRC_BYTES = 4096  # beyond, the library's checksum, which goes over several stretches at once, is faster
    NOGIL_FROM_BYTES = 8192

cdef bint HAS_CRC32 = odradek_has_crc32()


# --- reading ---------------------------------------------------------------------------------------------

def parse_produce(frame):
    cdef Py_buffer view
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        return _parse(<const uint8_t *>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


cdef object _parse(const uint8_t *data, Py_ssize_t size):
    cdef Reader reader
    cdef Reader *r = &reader
    cdef int32_t version, correlation_id, length, acks, timeout_ms, topics, partitions, index
    cdef int64_t records
    cdef Py_ssize_t start
    cdef bint flexible, transactional
    r.data, r.at, r.end, r.failed = data, 0, size, False
    if read16(r) != PRODUCE:
        return None
    version = read16(r)
    if version < 3 or version > 13:
        return None
    flexible = version >= 9
    correlation_id = <int32_t>read32(r)
    length = read16(r)
    if length > 0:
        skip_ascii(r, length)
    elif length < -1:
        return None
    if flexible:
        read_no_tags(r)
        length = read_compact(r)
    else:
        length = read16(r)
    if length > 0:
        skip_ascii(r, length)
    elif length < -1:
        return None
    transactional = length != -1
    acks = read16(r)
    timeout_ms = <int32_t>read32(r)
    topics = read_count(r, flexible)
    if r.failed or acks < -1 or acks > 1:
        return None
    found = []
    while topics > 0:
        topics -= 1
        if version >= 13:
            start = r.at
            length = 16
            if r.end - r.at < 16:
                return None
            r.at += 16
            topic = PyBytes_FromStringAndSize(<const char *>data + start, 16)
        else:
            length = read_compact(r) if flexible else read16(r)
            start = skip_ascii(r, length)
            if r.failed:
                return None
            topic = PyUnicode_DecodeASCII(<const char *>data + start, length, NULL)
        partitions = read_count(r, flexible)
        if r.failed:
            return None
        parts = []
        while partitions > 0:
            partitions -= 1
            index = <int32_t>read32(r)
            records = read_uvarint(r) - 1 if flexible else <int32_t>read32(r)
            if r.failed or records < 0 or records > r.end - r.at:
                return None
            parts.append((index, r.at, r.at + records))
            r.at += records
            if flexible:
                read_no_tags(r)
                if r.failed:
                    return None
        if flexible:
            read_no_tags(r)
        found.append((topic, parts))
    if flexible:
        read_no_tags(r)
    if r.failed:
        return None
    return version, correlation_id, acks, timeout_ms, found, transactional


# --- checking --------------------------------------------------------------------------------------------

cdef inline uint32_t get32(const uint8_t *p) noexcept nogil:
    return (<uint32_t>p[0]) << 24 | (<uint32_t>p[1]) << 16 | (<uint32_t>p[2]) << 8 | p[3]


cdef inline int64_t get64(const uint8_t *p) noexcept nogil:
    return <int64_t>((<uint64_t>get32(p)) << 32 | get32(p + 4))


cdef inline int32_t get16(const uint8_t *p) noexcept nogil:
    return <int16_t>(<uint16_t>((<uint32_t>p[0]) << 8 | p[1]))


cdef bint walk(
    const uint8_t *data, Py_ssize_t size, int64_t count, int64_t base, int64_t earliest, int64_t latest,
    bint require_key, int64_t *largest,
) noexcept nogil:
    """Whether all records are in order, and their largest timestamp."""
    cdef Scan found
    cdef Py_ssize_t position = 0
    cdef int64_t index, timestamp
    cdef int64_t most = -1
    for index in range(count):
        if scan(data, position, size, &found) != OK or found.offset_delta != index:
            return False
        position = found.next
        timestamp = <int64_t>(<uint64_t>base + <uint64_t>found.timestamp_delta)
        if (timestamp < earliest or timestamp > latest) and timestamp != -1:
            return False
        if require_key and found.key_length < 0:
            return False
        if timestamp > most:
            most = timestamp
    largest[0] = most
    return position == size


def check_batch(
    frame, Py_ssize_t start, Py_ssize_t end, int64_t max_bytes, int64_t earliest, int64_t latest, bint require_key
):
    cdef Py_buffer view
    cdef const uint8_t *batch
    cdef Py_ssize_t size = end - start
    cdef int64_t count, largest = -1
    cdef int32_t last_delta
    cdef uint32_t crc
    cdef bint good
    if size < HEADER_BYTES or size > max_bytes:
        return None
    PyObject_GetBuffer(frame, &view, PyBUF_SIMPLE)
    try:
        if start < 0 or end > view.len:
            return None
        batch = <const uint8_t *>view.buf + start
        last_delta = <int32_t>get32(batch + LAST_OFFSET_DELTA_AT)
        count = <int32_t>get32(batch + RECORD_COUNT_AT)
        if (
            batch[MAGIC_AT] != 2
            or get64(batch) != 0
            or <int32_t>get32(batch + LENGTH_AT) != size - LOG_OVERHEAD
            or batch[ATTRIBUTES_AT + 1] & UNUSUAL_ATTRIBUTES
            or count < 1
            or count != <int64_t>last_delta + 1
            or (get64(batch + PRODUCER_ID_AT) > -1 and <int32_t>get32(batch + BASE_SEQUENCE_AT) < 0)
            or (batch[ATTRIBUTES_AT + 1] & TRANSACTIONAL and get64(batch + PRODUCER_ID_AT) < 0)
        ):
            return None
        if HAS_CRC32 and size <= OWN_CRC_BYTES:
            crc = odradek_crc32c(batch + ATTRIBUTES_AT, size - ATTRIBUTES_AT)
        else:
            crc = iscsi(memoryview(frame)[start + ATTRIBUTES_AT : end])
        if crc != get32(batch + CRC_AT):
            return None
        if size >= NOGIL_FROM_BYTES:
            with nogil:
                good = walk(
                    batch + HEADER_BYTES, size - HEADER_BYTES, count, get64(batch + BASE_TIMESTAMP_AT),
                    earliest, latest, require_key, &largest,
                )
        else:
            good = walk(
                batch + HEADER_BYTES, size - HEADER_BYTES, count, get64(batch + BASE_TIMESTAMP_AT),
                earliest, latest, require_key, &largest,
            )
        if not good or largest != get64(batch + MAX_TIMESTAMP_AT):
            return None
        return last_delta, largest, get64(batch + PRODUCER_ID_AT)
    finally:
        PyBuffer_Release(&view)


# --- writing ---------------------------------------------------------------------------------------------

def encode_produce(int32_t version, int32_t correlation_id, list topics):
    cdef bint flexible = version >= 9
    cdef Py_ssize_t size = 64
    cdef Py_ssize_t length
    cdef const char *text
    cdef uint8_t *start
    cdef uint8_t *out
    cdef list parts
    for topic, parts in topics:
        size += (16 if version >= 13 else 3 * len(topic)) + 32 + 64 * len(parts)
    buffer = PyBytes_FromStringAndSize(NULL, size)
    start = <uint8_t *>PyBytes_AS_STRING(buffer)
    out = put32(start + 4, <uint32_t>correlation_id)
    if flexible:
        out[0] = 0
        out = put_uvarint(out + 1, <uint32_t>len(topics) + 1)
    else:
        out = put32(out, <uint32_t>len(topics))
    for topic, parts in topics:
        if version >= 13:
            memcpy(out, PyBytes_AS_STRING(topic), 16)
            out += 16
        else:
            text = PyUnicode_AsUTF8AndSize(topic, &length)
            if flexible:
                out = put_uvarint(out, <uint32_t>length + 1)
            else:
                out[0] = <uint8_t>(length >> 8)
                out[1] = <uint8_t>length
                out += 2
            memcpy(out, text, length)
            out += length
        if flexible:
            out = put_uvarint(out, <uint32_t>len(parts) + 1)
        else:
            out = put32(out, <uint32_t>len(parts))
        for index, base_offset, log_start in parts:
            out = put32(out, <uint32_t>(<int32_t>index))
            out[0] = out[1] = 0  # no error
            out = put64(out + 2, base_offset)
            out = put64(out, -1)  # the sender's timestamps
            if version >= 5:
                out = put64(out, log_start)
            if flexible:
                # No record errors, no message, no tags.
                out[0], out[1], out[2] = 1, 0, 0
                out += 3
            elif version == 8:
                out = put32(out, 0)
                out[0] = out[1] = 0xFF
                out += 2
        if flexible:
            out[0] = 0
            out += 1
    out = put32(out, 0)  # throttle_time_ms
    if flexible:
        out[0] = 0
        out += 1
    put32(start, <uint32_t>(out - start - 4))
    return buffer[: out - start]
