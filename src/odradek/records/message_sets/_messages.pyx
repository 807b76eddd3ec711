# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The loops over messages of magic 0 and 1, compiled. Twin: `odradek.records.message_sets._pymessages`.

The twin's docstrings are this module's contract; tests hold the two equal. What is written is measured
first, so that it is written once, into its place, without the interpreter's lock: what is read must not change
meanwhile.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from odradek.records._growing cimport Bytes, clear, leave
from odradek.records._inline cimport varint_size, write_bytes, write_varint
from odradek.records._refused cimport list_refused, refuse
from odradek.records._scan cimport Scan, scan

NATIVE = True

OUTPUT_FULL = -1

# The problems of `records.message_problems`.
cdef enum:
    FINE = 0
    CUT_OFF = 1
    TOO_SHORT = 2
    TOO_LARGE = 3
    MAGIC = 4
    CRC = 5
    FIELDS = 6
    COMPRESSED = 7

cdef enum:
    MISSING_KEY = 1
    TIMESTAMP_RANGE = 2
    APPEND_TIME = 3

cdef enum:
    FULL = -1
    OUT_OF_MEMORY = -2
    OVERHEAD_V0 = 26
    OVERHEAD_V1 = 34


# --- CRC-32 (IEEE 802.3), eight bytes at a time ------------------------------------------------------------

cdef uint32_t tables[8][256]


cdef void fill_tables() noexcept:
    cdef uint32_t value
    cdef int i, k
    for i in range(256):
        value = <uint32_t>i
        for k in range(8):
            value = (value >> 1) ^ (<uint32_t>0xEDB88320 if value & 1 else 0)
        tables[0][i] = value
    for i in range(256):
        for k in range(1, 8):
            tables[k][i] = (tables[k - 1][i] >> 8) ^ tables[0][tables[k - 1][i] & 0xFF]


fill_tables()


cdef uint32_t crc32(const uint8_t *data, Py_ssize_t length) noexcept nogil:
    cdef uint32_t value = <uint32_t>0xFFFFFFFF
    while length >= 8:
        value ^= (<uint32_t>data[0] | <uint32_t>data[1] << 8 | <uint32_t>data[2] << 16 | <uint32_t>data[3] << 24)
        value = (tables[7][value & 0xFF] ^ tables[6][value >> 8 & 0xFF] ^ tables[5][value >> 16 & 0xFF]
                 ^ tables[4][value >> 24] ^ tables[3][data[4]] ^ tables[2][data[5]] ^ tables[1][data[6]]
                 ^ tables[0][data[7]])
        data += 8
        length -= 8
    while length:
        value = value >> 8 ^ tables[0][(value ^ data[0]) & 0xFF]
        data += 1
        length -= 1
    return ~value


# --- integers ----------------------------------------------------------------------------------------------

cdef inline uint32_t read32(const uint8_t *p) noexcept nogil:
    return <uint32_t>p[0] << 24 | <uint32_t>p[1] << 16 | <uint32_t>p[2] << 8 | p[3]


cdef inline int64_t read64(const uint8_t *p) noexcept nogil:
    return <int64_t>(<uint64_t>read32(p) << 32 | read32(p + 4))


cdef inline uint8_t *write32(uint8_t *p, uint32_t value) noexcept nogil:
    p[0] = <uint8_t>(value >> 24)
    p[1] = <uint8_t>(value >> 16)
    p[2] = <uint8_t>(value >> 8)
    p[3] = <uint8_t>value
    return p + 4


cdef inline uint8_t *write64(uint8_t *p, uint64_t value) noexcept nogil:
    return write32(write32(p, <uint32_t>(value >> 32)), <uint32_t>value)


cdef inline uint8_t *write_field(uint8_t *p, const uint8_t *data, int32_t length) noexcept nogil:
    p = write32(p, <uint32_t>length)
    if length > 0:
        memcpy(p, data, length)
        p += length
    return p


# --- checking ----------------------------------------------------------------------------------------------

cdef struct Walk:
    int64_t index
    int64_t max_timestamp
    int64_t max_index
    bint consecutive
    Bytes refused


cdef int walk(
    const uint8_t *data, Py_ssize_t size, int magic, bint nested, int64_t largest, int64_t earliest,
    int64_t latest, bint require_key, int64_t max_refused, Walk *result,
) noexcept nogil:
    cdef Py_ssize_t position = 0
    cdef Py_ssize_t end, at
    cdef int32_t length, key_length, value_length
    cdef int64_t timestamp
    cdef int why
    cdef int fields_at = 26 if magic else 18
    cdef int min_length = 22 if magic else 14
    if earliest < 0:
        earliest = 0
    result.index = 0
    result.max_timestamp = result.max_index = -1
    result.consecutive = True
    while position < size:
        if size - position < 18:
            return CUT_OFF
        length = <int32_t>read32(data + position + 8)
        if length < 14:
            return TOO_SHORT
        if <int64_t>length + 12 > size - position:
            return CUT_OFF
        if <int64_t>length + 12 > largest:
            return TOO_LARGE
        if crc32(data + position + 16, length - 4) != read32(data + position + 12):
            return CRC
        if <int8_t>data[position + 16] != magic:
            return MAGIC
        if length < min_length:
            return TOO_SHORT
        if data[position + 17] & 0x07:
            return COMPRESSED
        end = position + 12 + length
        key_length = <int32_t>read32(data + position + fields_at)
        at = position + fields_at + 4
        if key_length < -1 or key_length > end - at:
            return FIELDS
        if key_length > 0:
            at += key_length
        if end - at < 4:
            return FIELDS
        value_length = <int32_t>read32(data + at)
        at += 4
        if value_length < -1 or (value_length if value_length > 0 else 0) != end - at:
            return FIELDS
        if read64(data + position) != result.index:
            result.consecutive = False
        timestamp = -1
        if magic:
            timestamp = read64(data + position + 18)
            if timestamp > result.max_timestamp:
                result.max_timestamp = timestamp
                result.max_index = result.index
        why = 0
        if require_key and key_length < 0:
            why = MISSING_KEY
        elif timestamp != -1 and (timestamp < earliest or timestamp > latest):
            why = TIMESTAMP_RANGE
        elif magic and not nested and data[position + 17] & 0x08:
            why = APPEND_TIME
        if why and refuse(&result.refused, max_refused, result.index, why, timestamp):
            return OUT_OF_MEMORY
        position = end
        result.index += 1
    return FINE


def walk_messages(messages, int magic, bint nested, int64_t largest, int64_t earliest, int64_t latest,
                  bint require_key, int64_t max_refused):
    """See the twin."""
    cdef Py_buffer view
    cdef Walk result
    cdef int problem
    leave(&result.refused)
    try:
        PyObject_GetBuffer(messages, &view, PyBUF_SIMPLE)
        with nogil:
            problem = walk(<const uint8_t *>view.buf, view.len, magic, nested, largest, earliest, latest,
                           require_key, max_refused, &result)
        PyBuffer_Release(&view)
        if problem == OUT_OF_MEMORY:
            raise MemoryError
        if problem:
            return problem, result.index, 0, -1, -1, False, []
        refused = list_refused(&result.refused)
        return 0, 0, result.index, result.max_timestamp, result.max_index, bool(result.consecutive), refused
    finally:
        clear(&result.refused)


# --- messages to records -----------------------------------------------------------------------------------

cdef inline Py_ssize_t field_size(int32_t length) noexcept nogil:
    return varint_size(length) + (length if length > 0 else 0)


cdef Py_ssize_t put_records(const uint8_t *data, Py_ssize_t size, int magic, uint8_t *out, int64_t *count,
                            int64_t *base, int64_t *largest) noexcept nogil:
    """How many bytes the records take; they are written unless `out` is NULL. -1: not well-formed."""
    cdef Py_ssize_t position = 0
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t end, key_at, value_at, body
    cdef int32_t length, key_length, value_length
    cdef int64_t timestamp = -1
    cdef int64_t delta
    cdef int fields_at = 26 if magic else 18
    cdef int min_length = 22 if magic else 14
    count[0] = 0
    base[0] = largest[0] = -1
    while position < size:
        if size - position < fields_at:
            return -1
        length = <int32_t>read32(data + position + 8)
        if length < min_length or <int64_t>length + 12 > size - position:
            return -1
        end = position + 12 + length
        if magic:
            timestamp = read64(data + position + 18)
            if count[0] == 0:
                base[0] = timestamp
            if timestamp > largest[0]:
                largest[0] = timestamp
        key_length = <int32_t>read32(data + position + fields_at)
        key_at = value_at = position + fields_at + 4
        if key_length < -1 or key_length > end - key_at:
            return -1
        if key_length > 0:
            value_at += key_length
        if end - value_at < 4:
            return -1
        value_length = <int32_t>read32(data + value_at)
        value_at += 4
        if value_length < -1 or (value_length if value_length > 0 else 0) != end - value_at:
            return -1
        delta = <int64_t>(<uint64_t>timestamp - <uint64_t>base[0])
        body = (2 + varint_size(delta) + varint_size(count[0]) + field_size(key_length)
                + field_size(value_length))
        total += varint_size(body) + body
        if out != NULL:
            out = write_varint(out, body)
            out[0] = 0
            out = write_varint(out + 1, delta)
            out = write_varint(out, count[0])
            out = write_bytes(out, data + key_at, key_length)
            out = write_bytes(out, data + value_at, value_length)
            out[0] = 0
            out += 1
        position = end
        count[0] += 1
    return total


def messages_to_records(messages, int magic, bytearray out not None):
    """See the twin."""
    cdef Py_buffer view
    cdef int64_t count, base, largest
    cdef Py_ssize_t size
    cdef Py_ssize_t start = PyByteArray_GET_SIZE(out)
    cdef uint8_t *target
    PyObject_GetBuffer(messages, &view, PyBUF_SIMPLE)
    try:
        with nogil:
            size = put_records(<const uint8_t *>view.buf, view.len, magic, NULL, &count, &base, &largest)
        if size < 0:
            raise ValueError("messages that walk_messages has not accepted")
        PyByteArray_Resize(out, start + size)
        target = <uint8_t *>PyByteArray_AS_STRING(out) + start
        with nogil:
            put_records(<const uint8_t *>view.buf, view.len, magic, target, &count, &base, &largest)
    finally:
        PyBuffer_Release(&view)
    return count, base, largest


# --- records to messages -----------------------------------------------------------------------------------

cdef struct Conversion:
    int64_t count
    int64_t base_offset
    int64_t base_timestamp
    int64_t append_time
    int magic
    int attributes
    bint relative
    int64_t from_offset
    int64_t max_bytes
    int64_t index
    int64_t written
    int64_t first
    int64_t last
    int64_t max_timestamp
    int64_t with_headers
    int64_t total


cdef int put_messages(const uint8_t *data, Py_ssize_t size, Conversion *work, uint8_t *out) noexcept nogil:
    """Measures, or with `out` writes, into `total`; a problem, of which `index` tells the place."""
    cdef Py_ssize_t position = 0
    cdef Scan found
    cdef int problem
    cdef int64_t offset, timestamp, length
    cdef uint8_t *start
    cdef int overhead = OVERHEAD_V1 if work.magic else OVERHEAD_V0
    work.written = work.with_headers = 0
    work.total = 0
    work.first = work.last = work.max_timestamp = -1
    work.index = 0
    while work.index < work.count:
        problem = scan(data, position, size, &found)
        if problem:
            return problem
        position = found.next
        offset = <int64_t>(<uint64_t>work.base_offset + <uint64_t><int64_t>found.offset_delta)
        work.index += 1
        if offset < work.from_offset:
            continue
        if found.header_count:
            work.with_headers += 1
        length = (overhead + (found.key_length if found.key_length > 0 else 0)
                  + (found.value_length if found.value_length > 0 else 0))
        if work.total + length > work.max_bytes:
            work.index -= 1
            return FULL
        work.total += length
        timestamp = work.append_time
        if timestamp < 0:
            timestamp = <int64_t>(<uint64_t>work.base_timestamp + <uint64_t>found.timestamp_delta)
            if timestamp < -1:
                timestamp = -1
        if work.first < 0:
            work.first = offset
        if out != NULL:
            start = out
            out = write64(out, <uint64_t>offset - <uint64_t>(work.first if work.relative else 0))
            out = write32(out, <uint32_t>(length - 12)) + 4
            out[0] = <uint8_t>work.magic
            out[1] = <uint8_t>work.attributes
            out += 2
            if work.magic:
                out = write64(out, <uint64_t>timestamp)
            out = write_field(out, data + found.key_at, found.key_length)
            out = write_field(out, data + found.value_at, found.value_length)
            write32(start + 12, crc32(start + 16, length - 16))
        work.last = offset
        if work.magic and timestamp > work.max_timestamp:
            work.max_timestamp = timestamp
        work.written += 1
    return FINE


def records_to_messages(section, int64_t count, int64_t base_offset, int64_t base_timestamp,
                        int64_t append_time, int magic, int attributes, bint relative, int64_t from_offset,
                        int64_t max_bytes, bytearray out not None):
    """See the twin."""
    cdef Py_buffer view
    cdef Conversion work
    cdef int problem
    cdef Py_ssize_t start = PyByteArray_GET_SIZE(out)
    cdef uint8_t *target
    work.count = count
    work.base_offset = base_offset
    work.base_timestamp = base_timestamp
    work.append_time = append_time
    work.magic = magic
    work.attributes = attributes
    work.relative = relative
    work.from_offset = from_offset
    work.max_bytes = max_bytes - start
    PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
    try:
        with nogil:
            problem = put_messages(<const uint8_t *>view.buf, view.len, &work, NULL)
        if problem:
            return problem, work.index, 0, -1, -1, -1, 0
        PyByteArray_Resize(out, start + work.total)
        target = <uint8_t *>PyByteArray_AS_STRING(out) + start
        with nogil:
            put_messages(<const uint8_t *>view.buf, view.len, &work, target)
    finally:
        PyBuffer_Release(&view)
    return 0, 0, work.written, work.first, work.last, work.max_timestamp, work.with_headers


# --- messages as they are read ---------------------------------------------------------------------------

cdef struct Taken:
    Py_ssize_t position
    int64_t count
    int64_t first
    int64_t last
    int64_t base
    int64_t largest
    Py_ssize_t total


cdef void take(const uint8_t *data, Py_ssize_t size, int magic, bint nested, bint append_time, bint fixed,
               int64_t fixed_time, bint check_crcs, int64_t max_bytes, int64_t max_count, uint8_t *out,
               Taken *taken) noexcept nogil:
    """Measures the records from `taken.position` on, and with `out` writes them."""
    cdef Py_ssize_t position = taken.position
    cdef Py_ssize_t end, key_at, value_at, body
    cdef int32_t length, key_length, value_length
    cdef int64_t offset, delta
    cdef int64_t timestamp = -1
    cdef uint8_t attributes
    cdef int fields_at = 26 if magic else 18
    cdef int min_length = 22 if magic else 14
    taken.count = taken.total = 0
    taken.first = taken.last = taken.base = taken.largest = -1
    while taken.count < max_count and not (taken.count and taken.total >= max_bytes):
        if size - position < fields_at:
            break
        length = <int32_t>read32(data + position + 8)
        if length < min_length or <int64_t>length + 12 > size - position:
            break
        attributes = data[position + 17]
        if <int8_t>data[position + 16] != magic or attributes & 0x07:
            break
        if magic and not nested and ((attributes & 0x08) != 0) != append_time:
            break
        if check_crcs and crc32(data + position + 16, length - 4) != read32(data + position + 12):
            break
        end = position + 12 + length
        key_length = <int32_t>read32(data + position + fields_at)
        key_at = value_at = position + fields_at + 4
        if key_length < 0:
            key_length = -1
        else:
            if key_length > end - key_at:
                break
            value_at += key_length
        if end - value_at < 4:
            break
        value_length = <int32_t>read32(data + value_at)
        value_at += 4
        if value_length < 0:
            value_length = -1
        elif value_length > end - value_at:
            break
        offset = read64(data + position)
        if fixed:
            timestamp = fixed_time
        elif magic:
            timestamp = read64(data + position + 18)
        if taken.count == 0:
            taken.first = offset
            taken.base = taken.largest = timestamp
        else:
            if offset <= taken.last or <uint64_t>offset - <uint64_t>taken.first > <uint64_t>0x7FFFFFFF:
                break
            if append_time and timestamp != taken.base:
                break
            if timestamp > taken.largest:
                taken.largest = timestamp
        delta = <int64_t>(<uint64_t>timestamp - <uint64_t>taken.base)
        body = (2 + varint_size(delta) + varint_size(offset - taken.first) + field_size(key_length)
                + field_size(value_length))
        taken.total += varint_size(body) + body
        if out != NULL:
            out = write_varint(out, body)
            out[0] = 0
            out = write_varint(out + 1, delta)
            out = write_varint(out, offset - taken.first)
            out = write_bytes(out, data + key_at, key_length)
            out = write_bytes(out, data + value_at, value_length)
            out[0] = 0
            out += 1
        taken.last = offset
        taken.count += 1
        position = end
    taken.position = position


def take_messages(messages, Py_ssize_t position, int magic, bint nested, bint append_time, fixed_time,
                  bint check_crcs, int64_t max_bytes, bytearray out not None):
    """See the twin."""
    cdef Py_buffer view
    cdef Taken taken
    cdef Py_ssize_t start = PyByteArray_GET_SIZE(out)
    cdef uint8_t *target
    cdef bint fixed = fixed_time is not None
    cdef int64_t moment = fixed_time if fixed else -1
    taken.position = position
    PyObject_GetBuffer(messages, &view, PyBUF_SIMPLE)
    try:
        with nogil:
            take(<const uint8_t *>view.buf, view.len, magic, nested, append_time, fixed, moment, check_crcs,
                 max_bytes, <int64_t>0x7FFFFFFF, NULL, &taken)
        if taken.count:
            PyByteArray_Resize(out, start + taken.total)
            target = <uint8_t *>PyByteArray_AS_STRING(out) + start
            taken.position = position
            with nogil:
                take(<const uint8_t *>view.buf, view.len, magic, nested, append_time, fixed, moment, False,
                     max_bytes, taken.count, target, &taken)
    finally:
        PyBuffer_Release(&view)
    return taken.position, taken.count, taken.first, taken.last, taken.base, taken.largest


def skim_messages(messages, Py_ssize_t position):
    """See the twin."""
    cdef Py_buffer view
    cdef const uint8_t *data
    cdef int64_t largest = -1
    cdef int64_t offset
    cdef int32_t length
    cdef uint8_t magic
    PyObject_GetBuffer(messages, &view, PyBUF_SIMPLE)
    data = <const uint8_t *>view.buf
    with nogil:
        while view.len - position >= 26:
            magic = data[position + 16]
            length = <int32_t>read32(data + position + 8)
            if magic > 1 or length < (22 if magic else 14) or <int64_t>length + 12 > view.len - position:
                break
            offset = read64(data + position)
            if offset > largest:
                largest = offset
            position += 12 + length
    PyBuffer_Release(&view)
    return position, largest
