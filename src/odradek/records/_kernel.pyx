# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The kernel, compiled: the loops over single records. Twin: `odradek.records._pykernel`.

The twin's docstrings are this module's contract; tests hold the two equal to the byte and to the error.
Input comes from strangers: every read is behind a check against the end of the section or of the record,
and nothing is allocated by a number that the input merely claims.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from odradek.records._arrow cimport check_offsets, check_validity, is_valid
from odradek.records._batch cimport HEADER_BYTES, LAST_OFFSET_DELTA_AT, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT
from odradek.wire._frames cimport get32, get64
from odradek.records._growing cimport Bytes, clear, leave, reserve, shrink
from odradek.records._inline cimport murmur2_hash, varint_size, write_bytes, write_varint
from odradek.records._refused cimport list_refused, refuse
from odradek.records._scan cimport (
    HEADER_COUNT,
    LENGTH,
    MISMATCH,
    OK,
    STRUCTURE,
    TRUNCATED,
    Scan,
    read_varint32,
    read_varint64,
    scan,
)

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object (*tp_new)(type, object, void *)
        object (*tp_alloc)(type, Py_ssize_t)
    void PyObject_GC_UnTrack(void *)
    void PyTuple_SET_ITEM(object, Py_ssize_t, object)
    void Py_INCREF(object)
    object PyUnicode_DecodeUTF8(const char *, Py_ssize_t, const char *)
    object PyByteArray_FromStringAndSize(const char *, Py_ssize_t)
    int PyByteArray_Resize(object, Py_ssize_t) except -1
    char *PyByteArray_AS_STRING(object)
    Py_ssize_t PyByteArray_GET_SIZE(object)
    const char *PyUnicode_AsUTF8AndSize(object, Py_ssize_t *) except NULL

cdef enum:
    OFFSET_DELTA = 6
    TRAILING = 7
    TIMESTAMP_TOO_FAR = 8
    LIMIT_REACHED = -1
    OUT_OF_MEMORY = -2

    MISSING_KEY = 1
    TIMESTAMP_RANGE = 2

    MIN_RECORD_BYTES = 7
    NOGIL_FROM_BYTES = 8192  # below, giving up the interpreter lock costs more than it gives

cdef int64_t INT32_MAX = 0x7FFFFFFF
cdef int64_t INT64_MAX = 0x7FFFFFFFFFFFFFFF


# --- entries of a log ------------------------------------------------------------------------------------


def whole_entries(data, Py_ssize_t most):
    cdef Py_buffer view
    cdef Py_ssize_t position = 0, end, limit
    cdef int64_t size = 0, base = 0, last = 0
    cdef const uint8_t *at
    cdef uint8_t magic
    cdef bint broken = False, known = False
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    end = view.len
    limit = min(most, end)
    while True:
        known = False
        at = <const uint8_t *>view.buf + position
        if end - position <= MAGIC_AT:
            break
        magic = at[MAGIC_AT]
        if magic == 2 and end - position < LAST_OFFSET_DELTA_AT + 4:
            break
        base = get64(at)
        size = <int64_t><int32_t>get32(at + LENGTH_AT) + LOG_OVERHEAD
        if magic == 2:
            last = <int64_t><int32_t>get32(at + LAST_OFFSET_DELTA_AT)
            broken = size < HEADER_BYTES or last < 0 or base > INT64_MAX - last
            if not broken:
                last += base
        else:
            last = base
            broken = magic > 2 or size < (LOG_OVERHEAD + 14 if magic == 0 else LOG_OVERHEAD + 22)
        if broken or base < 0:
            position = -1
            break
        known = True
        if size > limit - position:
            break
        position += size
    PyBuffer_Release(&view)
    if not known:
        return position, 0, 0, 0
    return position, size, base, last


# --- walk ------------------------------------------------------------------------------------------------

cdef struct Walk:
    int64_t index
    int64_t max_timestamp
    Bytes refused


cdef int walk_section(
    const uint8_t *data, Py_ssize_t size, int64_t count, int64_t base_timestamp, int64_t earliest,
    int64_t latest, bint require_key, int64_t max_refused, Walk *result,
) noexcept nogil:
    cdef Py_ssize_t position = 0
    cdef int64_t index = 0
    cdef int64_t timestamp
    cdef int64_t max_timestamp = -1
    cdef int problem
    cdef int why
    cdef Scan scanned
    while index < count:
        problem = scan(data, position, size, &scanned)
        if problem == OK and scanned.offset_delta != index:
            problem = OFFSET_DELTA
        if problem:
            result.index = index
            result.max_timestamp = max_timestamp
            return problem
        position = scanned.next
        timestamp = <int64_t>(<uint64_t>base_timestamp + <uint64_t>scanned.timestamp_delta)
        if timestamp > max_timestamp:
            max_timestamp = timestamp
        why = 0
        if require_key and scanned.key_length < 0:
            why = MISSING_KEY
        elif (timestamp < earliest or timestamp > latest) and timestamp != -1:
            why = TIMESTAMP_RANGE
        if why and refuse(&result.refused, max_refused, index, why, timestamp):
            return OUT_OF_MEMORY
        index += 1
    result.max_timestamp = max_timestamp
    if position != size:
        result.index = count - 1 if count > 0 else 0
        return TRAILING
    result.index = count
    return OK


def walk(section, int64_t count, int64_t base_timestamp, int64_t earliest, int64_t latest, bint require_key,
         int64_t max_refused):
    """See the twin."""
    cdef Py_buffer view
    cdef Walk result
    cdef int problem
    leave(&result.refused)
    PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
    try:
        if view.len >= NOGIL_FROM_BYTES:
            with nogil:
                problem = walk_section(<const uint8_t *>view.buf, view.len, count, base_timestamp, earliest,
                                       latest, require_key, max_refused, &result)
        else:
            problem = walk_section(<const uint8_t *>view.buf, view.len, count, base_timestamp, earliest,
                                   latest, require_key, max_refused, &result)
        if problem == OUT_OF_MEMORY:
            raise MemoryError
        return problem, result.index, result.max_timestamp, list_refused(&result.refused)
    finally:
        clear(&result.refused)
        PyBuffer_Release(&view)


# --- records as objects ----------------------------------------------------------------------------------

cdef inline object header_name(const uint8_t *data, Py_ssize_t length):
    return PyUnicode_DecodeUTF8(<const char *>data, length, "replace")


cdef object read_headers(const uint8_t *data, Py_ssize_t position, Py_ssize_t end, int32_t count):
    cdef int32_t length = 0
    cdef list pairs = []
    for _ in range(count):
        read_varint32(data, &position, end, &length)
        name = header_name(data + position, length)
        position += length
        read_varint32(data, &position, end, &length)
        if length < 0:
            pairs.append((name, None))
        else:
            pairs.append((name, PyBytes_FromStringAndSize(<const char *>(data + position), length)))
            position += length
    return tuple(pairs)


def parse_records(section, int64_t count, int64_t base_offset, int64_t timestamp, timestamp_type,
                  type record_class):
    """See the twin."""
    cdef Py_buffer view
    cdef Scan scanned
    cdef int problem
    cdef Py_ssize_t position = 0
    cdef int64_t index = 0
    cdef list records = []
    cdef const uint8_t *data
    cdef bint append_time = bool(timestamp_type)
    cdef object append_timestamp = timestamp
    cdef tuple no_headers = ()
    PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
    try:
        data = <const uint8_t *>view.buf
        while index < count:
            problem = scan(data, position, view.len, &scanned)
            if problem:
                return problem, index, records
            fields = (
                <int64_t>(<uint64_t>base_offset + <uint64_t><int64_t>scanned.offset_delta),
                append_timestamp if append_time
                else <int64_t>(<uint64_t>timestamp + <uint64_t>scanned.timestamp_delta),
                timestamp_type,
                None if scanned.key_length < 0
                else PyBytes_FromStringAndSize(<const char *>(data + scanned.key_at), scanned.key_length),
                None if scanned.value_length < 0
                else PyBytes_FromStringAndSize(<const char *>(data + scanned.value_at), scanned.value_length),
                no_headers if scanned.header_count == 0
                else read_headers(data, scanned.headers_at, scanned.next, scanned.header_count),
            )
            # tuple.__new__: the named tuple's own would unpack and repack the fields.
            records.append((<PyTypeObject *>tuple).tp_new(record_class, (fields,), NULL))
            position = scanned.next
            index += 1
        if position != view.len:
            return TRAILING, max(count - 1, 0), records
        return OK, count, records
    finally:
        PyBuffer_Release(&view)


def parse_fetched(section, int64_t count, int64_t base_offset, int64_t timestamp, timestamp_type,
                  type record_class, topic, partition, leader_epoch, int64_t from_offset):
    """See the twin."""
    cdef Py_buffer view
    cdef Scan scanned
    cdef int problem
    cdef Py_ssize_t position = 0
    cdef int64_t index = 0
    cdef int64_t offset
    cdef list records = []
    cdef const uint8_t *data
    cdef bint append_time = bool(timestamp_type)
    cdef object append_timestamp = timestamp
    cdef tuple no_headers = ()
    cdef object last_timestamp = timestamp
    cdef int64_t last_value = timestamp
    cdef int64_t moment
    PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
    try:
        data = <const uint8_t *>view.buf
        while index < count:
            problem = scan(data, position, view.len, &scanned)
            if problem:
                return problem, index, records
            position = scanned.next
            index += 1
            offset = <int64_t>(<uint64_t>base_offset + <uint64_t><int64_t>scanned.offset_delta)
            if offset < from_offset:
                continue
            if not append_time:
                # Neighbours often have the same timestamp: one number serves them all.
                moment = <int64_t>(<uint64_t>timestamp + <uint64_t>scanned.timestamp_delta)
                if moment != last_value:
                    last_value = moment
                    last_timestamp = moment
            record = (<PyTypeObject *>record_class).tp_alloc(record_class, 9)
            give_item(record, 0, topic)
            give_item(record, 1, partition)
            give_item(record, 2, offset)
            give_item(record, 3, append_timestamp if append_time else last_timestamp)
            give_item(record, 4, timestamp_type)
            give_item(record, 5, None if scanned.key_length < 0
                      else PyBytes_FromStringAndSize(<const char *>(data + scanned.key_at), scanned.key_length))
            give_item(record, 6, None if scanned.value_length < 0
                      else PyBytes_FromStringAndSize(<const char *>(data + scanned.value_at), scanned.value_length))
            if scanned.header_count == 0:
                give_item(record, 7, no_headers)
                give_item(record, 8, leader_epoch)
                # Bytes and numbers hold nothing: the garbage collector need not look at this record.
                PyObject_GC_UnTrack(<void *>record)
            else:
                give_item(record, 7, read_headers(data, scanned.headers_at, scanned.next, scanned.header_count))
                give_item(record, 8, leader_epoch)
            records.append(record)
        if position != view.len:
            return TRAILING, max(count - 1, 0), records
        return OK, count, records
    finally:
        PyBuffer_Release(&view)


cdef inline void give_item(object items, Py_ssize_t at, object item):
    """Put an item into a tuple that nobody has seen yet."""
    Py_INCREF(item)
    PyTuple_SET_ITEM(items, at, item)


# --- one record from objects -----------------------------------------------------------------------------

def append_record(bytearray batch not None, int64_t offset_delta, int64_t timestamp_delta, key, value, headers):
    """See the twin."""
    cdef Py_buffer key_view
    cdef Py_buffer value_view
    cdef Py_ssize_t key_length = -1
    cdef Py_ssize_t value_length = -1
    cdef Py_ssize_t body
    cdef Py_ssize_t before
    cdef uint8_t *out
    cdef bytes packed_headers = None
    cdef Py_ssize_t headers_length = 1
    if headers:
        packed_headers = pack_headers(headers)
        headers_length = PyBytes_GET_SIZE(packed_headers)
    if key is not None:
        PyObject_GetBuffer(key, &key_view, PyBUF_SIMPLE)
        key_length = key_view.len
    try:
        if value is not None:
            PyObject_GetBuffer(value, &value_view, PyBUF_SIMPLE)
            value_length = value_view.len
        try:
            body = (1 + varint_size(timestamp_delta) + varint_size(offset_delta)
                    + varint_size(key_length) + (key_length if key_length > 0 else 0)
                    + varint_size(value_length) + (value_length if value_length > 0 else 0)
                    + headers_length)
            if body > INT32_MAX:
                raise ValueError("a record of more than 2^31-1 bytes")
            before = PyByteArray_GET_SIZE(batch)
            PyByteArray_Resize(batch, before + varint_size(body) + body)
            out = <uint8_t *>PyByteArray_AS_STRING(batch) + before
            out = write_varint(out, body)
            out[0] = 0
            out = write_varint(out + 1, timestamp_delta)
            out = write_varint(out, offset_delta)
            out = write_bytes(out, key_view.buf if key_length > 0 else NULL, key_length)
            out = write_bytes(out, value_view.buf if value_length > 0 else NULL, value_length)
            if packed_headers is None:
                out[0] = 0
            else:
                memcpy(out, PyBytes_AS_STRING(packed_headers), headers_length)
        finally:
            if value_length >= 0:
                PyBuffer_Release(&value_view)
    finally:
        if key_length >= 0:
            PyBuffer_Release(&key_view)


cdef bytes pack_headers(headers):
    cdef list parts = [b""]
    cdef Py_ssize_t count = 0
    for name, payload in headers:
        encoded = (<str?>name).encode()
        parts.append(varint_bytes(len(encoded)))
        parts.append(encoded)
        if payload is None:
            parts.append(varint_bytes(-1))
        else:
            parts.append(varint_bytes(len(payload)))
            parts.append(payload)
        count += 1
    parts[0] = varint_bytes(count)
    return b"".join(parts)


cdef bytes varint_bytes(int64_t value):
    cdef uint8_t out[10]
    return PyBytes_FromStringAndSize(<char *>out, write_varint(out, value) - out)


# --- murmur2 ---------------------------------------------------------------------------------------------

def murmur2(data):
    """See the twin."""
    cdef Py_buffer view
    cdef int32_t result
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    result = murmur2_hash(<const uint8_t *>view.buf, view.len)
    PyBuffer_Release(&view)
    return result


# --- Arrow buffers ---------------------------------------------------------------------------------------

# Large blocks are kept for the next RecordBatch: fresh pages from the system cost more than filling them.
# Touched only with the interpreter lock held.

cdef enum:
    POOL_BLOCKS = 32
    POOL_BYTES = 67108864
    POOL_MIN_BYTES = 65536

cdef struct Block:
    void *memory
    Py_ssize_t capacity

cdef Block pool[POOL_BLOCKS]
cdef int pool_count = 0
cdef Py_ssize_t pool_bytes = 0


cdef void *pool_take(Py_ssize_t wanted, Py_ssize_t *capacity) noexcept:
    """A kept block of at least `wanted` bytes, and not many more; NULL where there is none."""
    global pool_count, pool_bytes
    cdef int best = -1
    cdef int i
    cdef void *memory
    for i in range(pool_count):
        if wanted <= pool[i].capacity <= wanted + (wanted >> 1) and (
                best < 0 or pool[i].capacity < pool[best].capacity):
            best = i
    if best < 0:
        return NULL
    memory = pool[best].memory
    capacity[0] = pool[best].capacity
    pool_bytes -= pool[best].capacity
    pool_count -= 1
    pool[best] = pool[pool_count]
    return memory


cdef void pool_give(void *memory, Py_ssize_t capacity) noexcept:
    """Keep a block, or free it."""
    global pool_count, pool_bytes
    if memory == NULL:
        return
    if capacity < POOL_MIN_BYTES or pool_count == POOL_BLOCKS or pool_bytes + capacity > POOL_BYTES:
        free(memory)
        return
    pool[pool_count].memory = memory
    pool[pool_count].capacity = capacity
    pool_count += 1
    pool_bytes += capacity


# Another class than `_tree.pyx` has: only RecordBatches of records are large enough for the pool.
cdef class Owned:
    """Memory that was filled here and is read elsewhere, through the buffer protocol."""

    cdef void *memory
    cdef Py_ssize_t size
    cdef Py_ssize_t capacity

    def __cinit__(self):
        self.memory = NULL
        self.size = 0
        self.capacity = 0

    def __dealloc__(self):
        pool_give(self.memory, self.capacity)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.memory if self.memory != NULL else <void *>"", self.size, 1, flags)

    def __len__(self):
        return self.size


cdef void prepare(Bytes *buffer, Py_ssize_t expected) noexcept:
    """Give an empty buffer room for what is expected, from the kept blocks if they have it."""
    if buffer.memory != NULL or expected < POOL_MIN_BYTES:
        return
    buffer.memory = <uint8_t *>pool_take(expected, &buffer.capacity)
    if buffer.memory == NULL:
        buffer.memory = <uint8_t *>malloc(expected)
        buffer.capacity = expected if buffer.memory != NULL else 0


cdef Owned take(Bytes *buffer):
    """Return the bytes as an object; the buffer is empty afterwards."""
    cdef Owned owned = Owned()
    shrink(buffer)
    owned.memory = buffer.memory
    owned.size = buffer.size
    owned.capacity = buffer.capacity
    leave(buffer)
    return owned


cdef struct Column:
    # An Arrow binary or string column that grows: validity bits (once there is a null), offsets, data.
    Bytes offsets
    Bytes data
    Bytes validity
    int64_t rows
    int64_t nulls


cdef inline int reserve_rows(Column *column, Py_ssize_t rows) noexcept nogil:
    """Make room for `rows` more offsets and validity bits."""
    if column.rows == 0 and column.offsets.size == 0:
        if reserve(&column.offsets, 4 * (rows + 1)):
            return OUT_OF_MEMORY
        (<int32_t *>column.offsets.memory)[0] = 0
        column.offsets.size = 4
    elif reserve(&column.offsets, 4 * rows):
        return OUT_OF_MEMORY
    if column.nulls and reserve(&column.validity, (column.rows + rows + 7) // 8 - column.validity.size):
        return OUT_OF_MEMORY
    return 0


cdef inline void push_valid(Column *column) noexcept nogil:
    """Add a row, whose bytes are in `data` already."""
    cdef int64_t row = column.rows
    (<int32_t *>column.offsets.memory)[row + 1] = <int32_t>column.data.size
    column.offsets.size += 4
    if column.nulls:
        if row & 7 == 0:
            column.validity.memory[row >> 3] = 0
            column.validity.size += 1
        column.validity.memory[row >> 3] |= <uint8_t>(1 << (row & 7))
    column.rows = row + 1


cdef int push_null(Column *column, Py_ssize_t rows_to_come) noexcept nogil:
    cdef int64_t row = column.rows
    cdef Py_ssize_t size
    if column.nulls == 0:
        # The first null: all rows before it are valid.
        size = (row + 7) // 8
        column.validity.size = 0
        if reserve(&column.validity, (row + rows_to_come + 7) // 8 + 1):
            return OUT_OF_MEMORY
        memset(column.validity.memory, 0xFF, size)
        if row & 7:
            column.validity.memory[size - 1] = <uint8_t>((1 << (row & 7)) - 1)
        column.validity.size = size
    if row & 7 == 0:
        column.validity.memory[row >> 3] = 0
        column.validity.size += 1
    column.nulls += 1
    (<int32_t *>column.offsets.memory)[row + 1] = <int32_t>column.data.size
    column.offsets.size += 4
    column.rows = row + 1
    return 0


cdef inline void push_bytes(Column *column, const uint8_t *data, int32_t length) noexcept nogil:
    """Add a row; there is room for its bytes."""
    if length:
        memcpy(column.data.memory + column.data.size, data, length)
        column.data.size += length
    push_valid(column)


cdef void take_back(Column *column, int64_t rows) noexcept nogil:
    """Keep so many rows, as if the others had not been pushed."""
    cdef int64_t row
    if column.rows <= rows:
        return
    if column.nulls:
        for row in range(rows, column.rows):
            if not is_valid(column.validity.memory, row):
                column.nulls -= 1
        if rows & 7:
            # Bits of rows to come are set where these are valid.
            column.validity.memory[rows >> 3] &= <uint8_t>((1 << (rows & 7)) - 1)
        column.validity.size = (rows + 7) // 8
    column.rows = rows
    column.offsets.size = 4 * (rows + 1)
    column.data.size = (<int32_t *>column.offsets.memory)[rows]


cdef void clear_column(Column *column) noexcept nogil:
    clear(&column.offsets)
    clear(&column.data)
    clear(&column.validity)
    column.rows = 0
    column.nulls = 0


cdef object take_column(Column *column):
    """(validity or None, number of nulls, offsets, data)"""
    if reserve_rows(column, 0):
        raise MemoryError
    nulls = column.nulls
    validity = take(&column.validity) if nulls else None
    result = (validity, nulls, take(&column.offsets), take(&column.data))
    clear_column(column)
    return result


cdef class ColumnBuilder:
    """See the twin."""

    cdef Column keys
    cdef Column values
    cdef Column names
    cdef Column payloads
    cdef Column lists  # its data stays empty, its offsets count headers
    cdef Bytes record_offsets
    cdef Bytes timestamps
    cdef Bytes types
    cdef int64_t row_count
    cdef bint with_headers
    cdef bint nullable_headers
    cdef int64_t factor
    cdef int64_t most_timestamp  # that can be multiplied by the factor
    cdef bint busy  # another thread is in `fill`, which works without the interpreter lock
    cdef Py_ssize_t expected[5]  # the last RecordBatch's: bytes of keys, values, names, payloads; rows

    def __cinit__(self, bint with_headers, bint nullable_headers, int64_t timestamp_factor):
        self.with_headers = with_headers
        self.nullable_headers = nullable_headers
        self.factor = timestamp_factor
        self.most_timestamp = INT64_MAX // timestamp_factor
        self.row_count = 0
        self.busy = False
        memset(self.expected, 0, sizeof(self.expected))

    def __dealloc__(self):
        self.clear()

    cdef void clear(self) noexcept:
        clear_column(&self.keys)
        clear_column(&self.values)
        clear_column(&self.names)
        clear_column(&self.payloads)
        clear_column(&self.lists)
        clear(&self.record_offsets)
        clear(&self.timestamps)
        clear(&self.types)
        self.row_count = 0

    @property
    def rows(self):
        """Return how many rows have been appended since the last `finish`."""
        return self.row_count

    @property
    def data_bytes(self):
        """Bytes in the largest of the columns' data."""
        return max(self.keys.data.size, self.values.data.size, self.names.data.size, self.payloads.data.size)

    def append(self, section, int64_t count, int64_t index, Py_ssize_t position, int64_t base_offset,
               int64_t timestamp, int timestamp_type, int64_t from_offset, int64_t until_offset,
               int64_t max_rows, int64_t max_bytes):
        """See the twin."""
        cdef Py_buffer view
        cdef int status
        if index < 0 or position < 0:
            raise ValueError("negative index or position")
        PyObject_GetBuffer(section, &view, PyBUF_SIMPLE)
        try:
            if position > view.len:
                raise ValueError("position after the end of the section")
            if self.busy:
                raise RuntimeError("a column builder belongs to one thread at a time")
            if self.row_count == 0:
                self.prepare()
            self.busy = True
            with nogil:
                status = self.fill(<const uint8_t *>view.buf, view.len, count, &index, &position, base_offset,
                                   timestamp, timestamp_type, from_offset, until_offset, max_rows, max_bytes)
            self.busy = False
        finally:
            PyBuffer_Release(&view)
        if status == OUT_OF_MEMORY:
            self.take_back_record()
            raise MemoryError
        return status, index, position

    cdef void take_back_record(self) noexcept:
        """Take back what has been pushed of a record for whose rest there was no memory: the rows before it are
        still to be had (`iter_columns`).
        """
        cdef int64_t header_count = 0
        take_back(&self.keys, self.row_count)
        take_back(&self.values, self.row_count)
        take_back(&self.lists, self.row_count)
        if self.lists.offsets.size:
            header_count = (<int32_t *>self.lists.offsets.memory)[self.lists.rows]
        take_back(&self.names, header_count)
        take_back(&self.payloads, header_count)

    cdef void prepare(self) noexcept:
        """Make room for a RecordBatch as large as the last."""
        cdef Py_ssize_t rows = self.expected[4]
        prepare(&self.keys.data, self.expected[0])
        prepare(&self.values.data, self.expected[1])
        prepare(&self.names.data, self.expected[2])
        prepare(&self.payloads.data, self.expected[3])
        prepare(&self.keys.offsets, 4 * (rows + 1))
        prepare(&self.values.offsets, 4 * (rows + 1))
        prepare(&self.record_offsets, 8 * rows)
        prepare(&self.timestamps, 8 * rows)
        prepare(&self.types, 4 * rows)
        if self.with_headers:
            prepare(&self.lists.offsets, 4 * (rows + 1))

    cdef int fill(self, const uint8_t *data, Py_ssize_t size, int64_t count, int64_t *index_at,
                  Py_ssize_t *position_at, int64_t base_offset, int64_t timestamp, int timestamp_type,
                  int64_t from_offset, int64_t until_offset, int64_t max_rows, int64_t max_bytes) noexcept nogil:
        cdef int64_t index = index_at[0]
        cdef Py_ssize_t position = position_at[0]
        cdef Py_ssize_t left = size - position
        cdef int64_t rows = left // MIN_RECORD_BYTES + 1
        cdef int64_t record_offset
        cdef int64_t row
        cdef int64_t record_timestamp
        cdef int problem
        cdef Scan scanned
        if rows > count - index:
            rows = count - index
        if rows < 0:
            rows = 0
        if rows > max_rows - self.row_count:
            rows = max_rows - self.row_count if max_rows > self.row_count else 0
        if (reserve_rows(&self.keys, rows) or reserve_rows(&self.values, rows)
                or reserve(&self.record_offsets, 8 * rows) or reserve(&self.timestamps, 8 * rows)
                or reserve(&self.types, 4 * rows)):
            return OUT_OF_MEMORY
        if self.with_headers and reserve_rows(&self.lists, rows):
            return OUT_OF_MEMORY
        while index < count:
            problem = scan(data, position, size, &scanned)
            if problem:
                index_at[0] = index
                position_at[0] = position
                return problem
            record_offset = <int64_t>(<uint64_t>base_offset + <uint64_t><int64_t>scanned.offset_delta)
            if record_offset < from_offset or record_offset >= until_offset:
                position = scanned.next
                index += 1
                continue
            record_timestamp = timestamp
            if timestamp_type == 0:
                record_timestamp = <int64_t>(<uint64_t>timestamp + <uint64_t>scanned.timestamp_delta)
            if self.factor > 1 and (record_timestamp > self.most_timestamp
                                    or record_timestamp < -self.most_timestamp):
                index_at[0] = index
                position_at[0] = position
                return TIMESTAMP_TOO_FAR
            row = self.row_count
            if row >= max_rows or (row and self.is_full(&scanned, position, max_bytes)):
                index_at[0] = index
                position_at[0] = position
                return LIMIT_REACHED
            rows = max_rows - row
            if rows > count - index:
                rows = count - index
            if scanned.key_length < 0:
                if push_null(&self.keys, rows):
                    return OUT_OF_MEMORY
            else:
                if reserve(&self.keys.data, scanned.key_length):
                    return OUT_OF_MEMORY
                push_bytes(&self.keys, data + scanned.key_at, scanned.key_length)
            if scanned.value_length < 0:
                if push_null(&self.values, rows):
                    return OUT_OF_MEMORY
            else:
                if reserve(&self.values.data, scanned.value_length):
                    return OUT_OF_MEMORY
                push_bytes(&self.values, data + scanned.value_at, scanned.value_length)
            if self.with_headers:
                if scanned.header_count:
                    if self.push_headers(data, &scanned):
                        return OUT_OF_MEMORY
                elif self.nullable_headers:
                    if push_null(&self.lists, rows):
                        return OUT_OF_MEMORY
                    (<int32_t *>self.lists.offsets.memory)[row + 1] = <int32_t>self.names.rows
                else:
                    push_valid(&self.lists)
                    (<int32_t *>self.lists.offsets.memory)[row + 1] = <int32_t>self.names.rows
            (<int64_t *>self.record_offsets.memory)[row] = record_offset
            (<int64_t *>self.timestamps.memory)[row] = record_timestamp * self.factor
            (<int32_t *>self.types.memory)[row] = timestamp_type
            self.record_offsets.size += 8
            self.timestamps.size += 8
            self.types.size += 4
            self.row_count = row + 1
            position = scanned.next
            index += 1
        index_at[0] = index
        position_at[0] = position
        return TRAILING if position != size else OK

    cdef inline bint is_full(self, Scan *scanned, Py_ssize_t position, int64_t max_bytes) noexcept nogil:
        """Return whether a further record could make a column larger than `max_bytes`."""
        # A header name of n bytes that is not UTF-8 becomes at most 3n.
        return (self.keys.data.size + scanned.key_length > max_bytes
                or self.values.data.size + scanned.value_length > max_bytes
                or (self.with_headers and scanned.header_count
                    and (self.names.data.size + 3 * (scanned.next - scanned.headers_at) > max_bytes
                         or self.payloads.data.size + (scanned.next - scanned.headers_at) > max_bytes
                         or self.names.rows + scanned.header_count > INT32_MAX)))

    cdef int push_headers(self, const uint8_t *data, Scan *scanned) noexcept nogil:
        cdef Py_ssize_t position = scanned.headers_at
        cdef Py_ssize_t end = scanned.next
        cdef int32_t left = scanned.header_count
        cdef int32_t length = 0
        cdef Py_ssize_t i
        cdef bint ascii
        if (reserve_rows(&self.names, left) or reserve_rows(&self.payloads, left)
                or reserve(&self.names.data, end - position) or reserve(&self.payloads.data, end - position)):
            return OUT_OF_MEMORY
        while left:
            read_varint32(data, &position, end, &length)
            ascii = True
            for i in range(length):
                if data[position + i] >= 0x80:
                    ascii = False
                    break
            if ascii:
                if reserve(&self.names.data, length):
                    return OUT_OF_MEMORY
                push_bytes(&self.names, data + position, length)
            else:
                with gil:
                    if self.push_repaired_name(data + position, length):
                        return OUT_OF_MEMORY
            position += length
            read_varint32(data, &position, end, &length)
            if length < 0:
                if push_null(&self.payloads, left):
                    return OUT_OF_MEMORY
            else:
                push_bytes(&self.payloads, data + position, length)
                position += length
            left -= 1
        push_valid(&self.lists)
        (<int32_t *>self.lists.offsets.memory)[self.lists.rows] = <int32_t>self.names.rows
        return 0

    cdef int push_repaired_name(self, const uint8_t *data, int32_t length) noexcept:
        """Add a name that may not be UTF-8, which an Arrow string must be."""
        cdef bytes name
        try:
            name = header_name(data, length).encode()
        except MemoryError:
            return OUT_OF_MEMORY
        if reserve(&self.names.data, PyBytes_GET_SIZE(name)):
            return OUT_OF_MEMORY
        push_bytes(&self.names, <const uint8_t *>PyBytes_AS_STRING(name), <int32_t>PyBytes_GET_SIZE(name))
        return 0

    def finish(self):
        """See the twin."""
        if self.busy:
            raise RuntimeError("a column builder belongs to one thread at a time")
        rows = self.row_count
        self.row_count = 0
        self.expected[0] = self.keys.data.size + (self.keys.data.size >> 3)
        self.expected[1] = self.values.data.size + (self.values.data.size >> 3)
        self.expected[2] = self.names.data.size + (self.names.data.size >> 3)
        self.expected[3] = self.payloads.data.size + (self.payloads.data.size >> 3)
        self.expected[4] = rows
        headers = None
        keys = take_column(&self.keys)
        values = take_column(&self.values)
        if self.with_headers:
            lists = take_column(&self.lists)
            header_count = self.names.rows
            names = take_column(&self.names)
            payloads = take_column(&self.payloads)
            headers = (lists[:3], header_count, names, payloads)
        return (rows, keys, values, take(&self.record_offsets), take(&self.timestamps), take(&self.types), headers)


# --- from Arrow ------------------------------------------------------------------------------------------

cdef class BinaryInput:
    """An Arrow binary or string array: (validity or None, offsets, data or None, its offset) and its length."""

    cdef Py_buffer validity_view
    cdef Py_buffer offsets_view
    cdef Py_buffer data_view
    cdef bint has_validity
    cdef bint has_offsets
    cdef bint has_data
    cdef const uint8_t *validity
    cdef const int32_t *offsets
    cdef const uint8_t *data
    cdef int64_t first
    cdef int64_t length

    def __cinit__(self, parts, int64_t length):
        validity, offsets, data, first = parts
        self.has_validity = self.has_offsets = self.has_data = False
        self.first = first
        self.length = length
        self.validity = NULL
        self.data = NULL
        if first < 0 or length < 0:
            raise ValueError("negative offset or length")
        PyObject_GetBuffer(offsets, &self.offsets_view, PyBUF_SIMPLE)
        self.has_offsets = True
        self.offsets = <const int32_t *>self.offsets_view.buf
        if validity is not None:
            PyObject_GetBuffer(validity, &self.validity_view, PyBUF_SIMPLE)
            self.has_validity = True
            self.validity = <const uint8_t *>self.validity_view.buf
            check_validity(&self.validity_view, self.first, length)
        if data is not None:
            PyObject_GetBuffer(data, &self.data_view, PyBUF_SIMPLE)
            self.has_data = True
            self.data = <const uint8_t *>self.data_view.buf
        check_offsets(&self.offsets_view, first, length, self.data_view.len if self.has_data else 0)

    def __dealloc__(self):
        if self.has_validity:
            PyBuffer_Release(&self.validity_view)
        if self.has_offsets:
            PyBuffer_Release(&self.offsets_view)
        if self.has_data:
            PyBuffer_Release(&self.data_view)

    cdef inline int64_t size(self, int64_t row) noexcept nogil:
        """Bytes of a row, -1 for null."""
        cdef int64_t at = self.first + row
        if not is_valid(self.validity, at):
            return -1
        return <int64_t>self.offsets[at + 1] - self.offsets[at]

    cdef inline const uint8_t *start(self, int64_t row) noexcept nogil:
        return self.data + self.offsets[self.first + row]


cdef Owned new_owned(Py_ssize_t size):
    cdef Owned owned = Owned()
    owned.memory = malloc(size if size else 1)
    if owned.memory == NULL:
        raise MemoryError
    owned.size = size
    owned.capacity = size
    return owned


def murmur2_partitions(keys, int64_t rows, int32_t partitions, int32_t null_partition):
    """See the twin."""
    if partitions < 1:
        raise ValueError("a topic has at least one partition")
    cdef BinaryInput column = BinaryInput(keys, rows)
    cdef Owned result = new_owned(4 * rows)
    cdef int32_t *out = <int32_t *>result.memory
    cdef int64_t row
    cdef int64_t size
    with nogil:
        for row in range(rows):
            size = column.size(row)
            if size < 0:
                out[row] = null_partition
            else:
                out[row] = (murmur2_hash(column.start(row), size) & 0x7FFFFFFF) % partitions
    return result


def split(partition_ids, int64_t rows, int64_t partitions):
    """See the twin."""
    cdef Py_buffer view
    cdef const int32_t *ids
    cdef int64_t row
    cdef int64_t i
    cdef bint bad = False
    cdef Owned starts = None
    cdef Owned order = None
    cdef int64_t *start
    cdef int64_t *out
    PyObject_GetBuffer(partition_ids, &view, PyBUF_SIMPLE)
    try:
        if rows < 0 or partitions < 0 or view.len < 4 * rows:
            raise ValueError("fewer partition ids than rows")
        ids = <const int32_t *>view.buf
        starts = new_owned(8 * (partitions + 1))
        order = new_owned(8 * rows)
        start = <int64_t *>starts.memory
        out = <int64_t *>order.memory
        memset(start, 0, starts.size)
        with nogil:
            for row in range(rows):
                if ids[row] < 0 or ids[row] >= partitions:
                    bad = True
                    break
                start[ids[row] + 1] += 1
            if not bad:
                for i in range(partitions):
                    start[i + 1] += start[i]
                for row in range(rows):
                    out[start[ids[row]]] = row
                    start[ids[row]] += 1
                # Each partition's start has moved to the start of the next partition; move them back.
                for i in range(partitions, 0, -1):
                    start[i] = start[i - 1]
                start[0] = 0
        if bad:
            raise ValueError(f"row {row}: partition {ids[row]} of {partitions}")
        return order, starts
    finally:
        PyBuffer_Release(&view)


cdef class HeadersInput:
    """A list<struct<key: string, value: binary>> array; see the twin's `encode_records`."""

    cdef Py_buffer validity_view
    cdef Py_buffer offsets_view
    cdef bint has_validity
    cdef bint has_offsets
    cdef const uint8_t *validity
    cdef const int32_t *offsets
    cdef int64_t first
    cdef BinaryInput names
    cdef BinaryInput payloads

    def __cinit__(self, parts, int64_t length):
        validity, offsets, first, child_length, names, payloads = parts
        self.has_validity = self.has_offsets = False
        self.validity = NULL
        self.first = first
        if self.first < 0 or length < 0:
            raise ValueError("negative offset or length")
        PyObject_GetBuffer(offsets, &self.offsets_view, PyBUF_SIMPLE)
        self.has_offsets = True
        self.offsets = <const int32_t *>self.offsets_view.buf
        if validity is not None:
            PyObject_GetBuffer(validity, &self.validity_view, PyBUF_SIMPLE)
            self.has_validity = True
            self.validity = <const uint8_t *>self.validity_view.buf
            check_validity(&self.validity_view, self.first, length)
        check_offsets(&self.offsets_view, self.first, length, child_length)
        self.names = BinaryInput(names, child_length)
        self.payloads = BinaryInput(payloads, child_length)

    def __dealloc__(self):
        if self.has_validity:
            PyBuffer_Release(&self.validity_view)
        if self.has_offsets:
            PyBuffer_Release(&self.offsets_view)

    cdef inline int64_t count(self, int64_t row) noexcept nogil:
        cdef int64_t at = self.first + row
        if not is_valid(self.validity, at):
            return 0
        return <int64_t>self.offsets[at + 1] - self.offsets[at]

    cdef int64_t size(self, int64_t row) noexcept nogil:
        """Bytes of a row's headers, their count included; -1 when a name is null."""
        cdef int64_t left = self.count(row)
        cdef int64_t total = varint_size(left)
        cdef int64_t child = self.offsets[self.first + row]
        cdef int64_t length
        while left:
            length = self.names.size(child)
            if length < 0:
                return -1
            total += varint_size(length) + length
            length = self.payloads.size(child)
            total += varint_size(length) + (length if length > 0 else 0)
            child += 1
            left -= 1
        return total

    cdef uint8_t *write(self, uint8_t *out, int64_t row) noexcept nogil:
        cdef int64_t left = self.count(row)
        cdef int64_t child = self.offsets[self.first + row]
        out = write_varint(out, left)
        while left:
            out = write_bytes(out, self.names.start(child), self.names.size(child))
            out = write_bytes(out, self.payloads.start(child), self.payloads.size(child))
            child += 1
            left -= 1
        return out


cdef struct Encoding:
    int64_t stop  # the row after the last row that fits
    int64_t size
    int64_t max_timestamp
    int64_t bad_row
    int why


cdef enum:
    NEGATIVE_TIMESTAMP = 1
    NULL_HEADER_NAME = 2
    RECORD_TOO_LARGE = 3


cdef inline int64_t body_size(BinaryInput keys, BinaryInput values, HeadersInput headers, int64_t row,
                              int64_t delta, int64_t timestamp_delta, int64_t *header_bytes) noexcept nogil:
    cdef int64_t key_length = keys.size(row) if keys is not None else -1
    cdef int64_t value_length = values.size(row) if values is not None else -1
    header_bytes[0] = headers.size(row) if headers is not None else 1
    return (1 + varint_size(timestamp_delta) + varint_size(delta)
            + varint_size(key_length) + (key_length if key_length > 0 else 0)
            + varint_size(value_length) + (value_length if value_length > 0 else 0) + header_bytes[0])


cdef void measure(BinaryInput keys, BinaryInput values, HeadersInput headers, const int64_t *timestamps,
                  int64_t timestamp, int64_t start, int64_t rows, int64_t max_bytes,
                  Encoding *result) noexcept nogil:
    cdef int64_t row = start
    cdef int64_t base_timestamp = timestamps[start] if timestamps != NULL else timestamp
    cdef int64_t now = timestamp
    cdef int64_t body
    cdef int64_t header_bytes
    cdef int64_t record
    result.size = 0
    result.max_timestamp = -1
    result.why = 0
    while row < rows and row - start < INT32_MAX:
        if timestamps != NULL:
            now = timestamps[row]
        if now < -1:
            result.bad_row = row
            result.why = NEGATIVE_TIMESTAMP
            return
        body = body_size(keys, values, headers, row, row - start, now - base_timestamp, &header_bytes)
        if header_bytes < 0:
            result.bad_row = row
            result.why = NULL_HEADER_NAME
            return
        if body > INT32_MAX - 128:
            result.bad_row = row
            result.why = RECORD_TOO_LARGE
            return
        record = varint_size(body) + body
        if row > start and result.size + record > max_bytes:
            break
        if now > result.max_timestamp:
            result.max_timestamp = now
        result.size += record
        row += 1
    result.stop = row


cdef void write_rows(BinaryInput keys, BinaryInput values, HeadersInput headers, const int64_t *timestamps,
                     int64_t timestamp, int64_t start, int64_t stop, uint8_t *out) noexcept nogil:
    cdef int64_t row
    cdef int64_t base_timestamp = timestamps[start] if timestamps != NULL else timestamp
    cdef int64_t now = timestamp
    cdef int64_t header_bytes
    for row in range(start, stop):
        if timestamps != NULL:
            now = timestamps[row]
        out = write_varint(out, body_size(keys, values, headers, row, row - start, now - base_timestamp,
                                          &header_bytes))
        out[0] = 0
        out = write_varint(out + 1, now - base_timestamp)
        out = write_varint(out, row - start)
        if keys is not None:
            out = write_bytes(out, keys.start(row), keys.size(row))
        else:
            out = write_varint(out, -1)
        if values is not None:
            out = write_bytes(out, values.start(row), values.size(row))
        else:
            out = write_varint(out, -1)
        if headers is not None:
            out = headers.write(out, row)
        else:
            out[0] = 0
            out += 1


def encode_records(keys, values, headers, timestamps, int64_t timestamp, int64_t rows, int64_t max_bytes,
                   Py_ssize_t room):
    """See the twin."""
    cdef BinaryInput key_input = None if keys is None else BinaryInput(keys, rows)
    cdef BinaryInput value_input = None if values is None else BinaryInput(values, rows)
    cdef HeadersInput header_input = None if headers is None else HeadersInput(headers, rows)
    cdef Py_buffer view
    cdef const int64_t *times = NULL
    cdef Encoding result
    cdef uint8_t *out
    cdef int64_t start = 0
    cdef list sections = []
    if rows < 0 or room < 0:
        raise ValueError("negative number of rows or bytes")
    if timestamps is not None:
        PyObject_GetBuffer(timestamps, &view, PyBUF_SIMPLE)
    try:
        if timestamps is not None:
            if view.len < 8 * rows:
                raise ValueError("fewer timestamps than rows")
            times = <const int64_t *>view.buf
        while start < rows:
            with nogil:
                measure(key_input, value_input, header_input, times, timestamp, start, rows, max_bytes, &result)
            if result.why:
                raise ValueError(f"row {result.bad_row}: {BAD_ROW[result.why]}")
            section = PyByteArray_FromStringAndSize(NULL, room + result.size)
            out = <uint8_t *>PyByteArray_AS_STRING(section)
            memset(out, 0, room)
            with nogil:
                write_rows(key_input, value_input, header_input, times, timestamp, start, result.stop, out + room)
            sections.append((section, result.stop - start, times[start] if times != NULL else timestamp,
                             result.max_timestamp))
            start = result.stop
        return sections
    finally:
        if timestamps is not None:
            PyBuffer_Release(&view)


BAD_ROW = {
    NEGATIVE_TIMESTAMP: "a negative timestamp",
    NULL_HEADER_NAME: "a header without a key",
    RECORD_TOO_LARGE: "a record of more than 2^31-1 bytes",
}
