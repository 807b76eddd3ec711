# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A produced batch that is in order is accepted in one call, compiled. Twin: `odradek.records._pyvalidate`,
whose docstrings are the contract; tests hold the two equal.

Input comes from strangers: every read is behind a check against the end of the batch, and nothing is allocated
by a number that the input merely claims.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from fastcrc.crc32 import iscsi

from odradek.records._batch cimport (
    ATTRIBUTES_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    CRC_AT,
    HEADER_BYTES,
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
)
from odradek.wire._frames cimport get16, get32, get64
from odradek.records._scan cimport OK, Scan, scan

from odradek.errors import KafkaError, RecordTooLargeError
from odradek.records.compression import decompress, unpack_pieces

cdef extern from *:
    """
    #if defined(__x86_64__) && defined(__GNUC__)
    #include <nmmintrin.h>
    // The instruction is a feature of its own to clang, which gcc's older releases do not know.
    #if defined(__clang__) && __clang_major__ >= 14
    #define ODRADEK_CRC32 "sse4.2,crc32"
    #else
    #define ODRADEK_CRC32 "sse4.2"
    #endif
    static int odradek_has_crc32(void) {
        __builtin_cpu_init();
        return __builtin_cpu_supports("sse4.2");
    }
    __attribute__((target(ODRADEK_CRC32)))
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
    CODEC = 0x07
    NOT_FROM_CLIENTS = 0x68  # LogAppendTime, control, a delete horizon
    OWN_CRC_BYTES = 4096  # beyond, the library's checksum, which goes over several stretches at once, is faster
    NOGIL_FROM_BYTES = 8192
    PIECES_FROM_BYTES = 1048576  # what may unpack to more is unpacked piece by piece, into memory that is used again

cdef bint HAS_CRC32 = odradek_has_crc32()


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


cdef bint is_in_order(
    const uint8_t *data, Py_ssize_t size, const uint8_t *batch, int64_t earliest, int64_t latest,
    bint require_key, int64_t *largest,
):
    """Whether the records of a batch are; without the interpreter's lock where it takes long."""
    cdef int64_t count = <int32_t>get32(batch + RECORD_COUNT_AT)
    cdef int64_t base = get64(batch + BASE_TIMESTAMP_AT)
    cdef bint good
    if size < NOGIL_FROM_BYTES:
        return walk(data, size, count, base, earliest, latest, require_key, largest)
    with nogil:
        good = walk(data, size, count, base, earliest, latest, require_key, largest)
    return good


# --- records that come piece by piece ------------------------------------------------------------------------

cdef enum:
    # What the next byte of the records belongs to.
    IN_LENGTH = 0
    IN_ATTRIBUTES = 1
    IN_TIMESTAMP = 2
    IN_OFFSET = 3
    IN_KEY = 4
    IN_VALUE = 5
    IN_HEADER_COUNT = 6
    IN_HEADER_NAME = 7
    IN_HEADER_VALUE = 8


cdef struct Stream:
    int state
    int shift  # of the varint under way
    uint64_t raw
    int64_t skip  # bytes of a key, a value or a header that are still to come
    int64_t left  # bytes that the record still has
    int64_t headers
    int64_t index
    int64_t largest


cdef bint walk_piece(
    Stream *s, const uint8_t *data, Py_ssize_t size, int64_t count, int64_t base, int64_t earliest, int64_t latest,
    bint require_key,
) noexcept nogil:
    """As `walk`, for the next bytes of the records, which may end anywhere. Whether all is in order so far.

    Keys and values are passed over: however large they are, no more than a piece is in memory.
    """
    cdef Py_ssize_t at = 0
    cdef int64_t value, timestamp
    cdef uint32_t raw
    cdef uint8_t byte
    while at < size:
        if s.skip > 0:
            value = s.skip if s.skip < size - at else size - at
            at += value
            s.skip -= value
            s.left -= value
            continue
        byte = data[at]
        at += 1
        if s.state == IN_LENGTH:
            if s.index == count:
                return False
        else:
            if s.left == 0:
                return False
            s.left -= 1
            if s.state == IN_ATTRIBUTES:
                s.state = IN_TIMESTAMP
                continue
        s.raw |= (<uint64_t>(byte & 0x7F)) << s.shift
        if byte >= 0x80:
            s.shift += 7
            if s.shift == (70 if s.state == IN_TIMESTAMP else 35):
                return False
            continue
        if s.state == IN_TIMESTAMP:
            value = <int64_t>((s.raw >> 1) ^ (~(s.raw & 1) + 1))
        else:
            raw = <uint32_t>s.raw
            value = <int32_t>((raw >> 1) ^ (~(raw & 1) + 1))
        s.raw = 0
        s.shift = 0
        if s.state == IN_LENGTH:
            if value <= 0:
                return False
            s.left = value
            s.state = IN_ATTRIBUTES
        elif s.state == IN_TIMESTAMP:
            timestamp = <int64_t>(<uint64_t>base + <uint64_t>value)
            if (timestamp < earliest or timestamp > latest) and timestamp != -1:
                return False
            if timestamp > s.largest:
                s.largest = timestamp
            s.state = IN_OFFSET
        elif s.state == IN_OFFSET:
            if value != s.index:
                return False
            s.state = IN_KEY
        elif s.state == IN_KEY or s.state == IN_VALUE:
            if value < -1 or value > s.left or (require_key and value < 0 and s.state == IN_KEY):
                return False
            s.skip = value if value > 0 else 0
            s.state += 1
        elif s.state == IN_HEADER_COUNT:
            if value < 0 or value > s.left or (value == 0 and s.left):
                return False
            s.headers = value
            s.state = IN_HEADER_NAME
        elif s.state == IN_HEADER_NAME:
            if value < 0 or value > s.left:
                return False
            s.skip = value
            s.state = IN_HEADER_VALUE
        else:
            if value < -1 or value > s.left:
                return False
            s.skip = value if value > 0 else 0
            s.headers -= 1
            s.state = IN_HEADER_NAME
            if s.headers == 0 and s.skip != s.left:
                return False
        if s.state == IN_HEADER_NAME and s.headers == 0:
            s.index += 1
            s.state = IN_LENGTH
    return True


cdef object are_in_order(
    pieces, const uint8_t *batch, int64_t earliest, int64_t latest, bint require_key, int64_t *largest
):
    """How many bytes the pieces of a batch's records are; None where they are not in order.

    Raises what making the pieces raises.
    """
    cdef Stream s
    cdef Py_buffer view
    cdef int64_t count = <int32_t>get32(batch + RECORD_COUNT_AT)
    cdef int64_t base = get64(batch + BASE_TIMESTAMP_AT)
    cdef Py_ssize_t size = 0
    cdef bint good = True
    s.state, s.shift, s.raw, s.skip, s.left, s.headers, s.index, s.largest = IN_LENGTH, 0, 0, 0, 0, 0, 0, -1
    for piece in pieces:
        PyObject_GetBuffer(piece, &view, PyBUF_SIMPLE)
        size += view.len
        if good:
            with nogil:
                good = walk_piece(
                    &s, <const uint8_t *>view.buf, view.len, count, base, earliest, latest, require_key
                )
        PyBuffer_Release(&view)
        if not good:
            return None
    largest[0] = s.largest
    return size if s.index == count and s.state == IN_LENGTH and s.shift == 0 and s.skip == 0 else None


cdef bint may_be_sent(const uint8_t *batch, Py_ssize_t size, int32_t newest_codec) noexcept nogil:
    """Whether a header is one that clients send."""
    cdef int32_t last_delta = <int32_t>get32(batch + LAST_OFFSET_DELTA_AT)
    cdef int32_t count = <int32_t>get32(batch + RECORD_COUNT_AT)
    cdef uint8_t attributes = batch[ATTRIBUTES_AT + 1]
    return (
        batch[MAGIC_AT] == 2
        and get64(batch) == 0
        and <int32_t>get32(batch + LENGTH_AT) == size - LOG_OVERHEAD
        and not attributes & NOT_FROM_CLIENTS
        and (attributes & CODEC) <= newest_codec
        and count >= 1
        and count == <int64_t>last_delta + 1
        and (get64(batch + PRODUCER_ID_AT) < 0 or <int32_t>get32(batch + BASE_SEQUENCE_AT) >= 0)
    )


def accept_batch(
    buffer, int64_t max_bytes, int64_t earliest, int64_t latest, bint require_key, int32_t newest_codec,
    int64_t max_unpacked,
):
    """See the twin."""
    cdef Py_buffer view
    cdef Py_buffer section
    cdef const uint8_t *batch
    cdef Py_ssize_t size
    cdef Py_ssize_t unpacked_bytes = 0
    cdef int64_t largest = -1
    cdef uint32_t crc
    cdef bint good
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        size = view.len
        batch = <const uint8_t *>view.buf
        if size < HEADER_BYTES or size > max_bytes or not may_be_sent(batch, size, newest_codec):
            return None
        if HAS_CRC32 and size <= OWN_CRC_BYTES:
            crc = odradek_crc32c(batch + ATTRIBUTES_AT, size - ATTRIBUTES_AT)
        else:
            crc = iscsi(memoryview(buffer)[ATTRIBUTES_AT:])
        if crc != get32(batch + CRC_AT):
            return None
        if batch[ATTRIBUTES_AT + 1] & CODEC:
            try:
                if max_unpacked > PIECES_FROM_BYTES:
                    found = are_in_order(
                        unpack_pieces(
                            batch[ATTRIBUTES_AT + 1] & CODEC, memoryview(buffer)[HEADER_BYTES:], max_unpacked
                        ),
                        batch, earliest, latest, require_key, &largest,
                    )
                    return None if found is None else facts_of(batch, largest, found)
                unpacked = decompress(
                    batch[ATTRIBUTES_AT + 1] & CODEC, memoryview(buffer)[HEADER_BYTES:], max_unpacked
                )
            except RecordTooLargeError:
                return False
            except KafkaError:
                return None
            PyObject_GetBuffer(unpacked, &section, PyBUF_SIMPLE)
            unpacked_bytes = section.len
            try:
                good = is_in_order(
                    <const uint8_t *>section.buf, section.len, batch, earliest, latest, require_key, &largest
                )
            finally:
                PyBuffer_Release(&section)
        else:
            good = is_in_order(
                batch + HEADER_BYTES, size - HEADER_BYTES, batch, earliest, latest, require_key, &largest
            )
        return facts_of(batch, largest, unpacked_bytes) if good else None
    finally:
        PyBuffer_Release(&view)


cdef object facts_of(const uint8_t *batch, int64_t largest, Py_ssize_t unpacked_bytes):
    return (
        <int32_t>get32(batch + LAST_OFFSET_DELTA_AT),
        largest,
        get64(batch + MAX_TIMESTAMP_AT) == largest,
        get16(batch + ATTRIBUTES_AT),
        get64(batch + PRODUCER_ID_AT),
        get16(batch + PRODUCER_EPOCH_AT),
        <int32_t>get32(batch + BASE_SEQUENCE_AT),
        unpacked_bytes,
    )
