# cython: cdivision=True
"""A tree of growing Arrow columns, and what decoders put into it.

A node is one column: its values, one byte for each row that says whether there is a value, and the columns below
it. Rows are pushed in order. What a record that turns out to be malformed has pushed is taken back by `truncate`.
`spark/formats/tree.py` makes the description of a tree, and arrays of what `Tree.finish` hands out.
"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from odradek.records._arrow cimport is_valid
from odradek.records._growing cimport Bytes, reserve

cdef extern from *:
    """
    typedef __int128 odradek_int128;
    """
    ctypedef long long int128 "odradek_int128"

cdef enum:
    # Kinds of columns: `spark/formats/kinds.py` has the same.
    BOOL = 1
    INT8 = 2
    INT16 = 3
    INT32 = 4
    INT64 = 5
    FLOAT = 6
    DOUBLE = 7
    DECIMAL = 8
    DATE = 9
    TIMESTAMP = 10
    DURATION = 11
    STRING = 12
    BINARY = 13
    STRUCT = 14
    LIST = 15
    MAP = 16

cdef enum:
    # Why a record is malformed: `spark/formats/kinds.py` has the same, and the words.
    OUT_OF_MEMORY = -1
    TRUNCATED = 1
    TRAILING = 2
    SYNTAX = 3
    WRONG_KIND = 4
    OUT_OF_RANGE = 5
    NOT_UTF8 = 6
    BAD_TIME = 7
    BAD_NUMBER = 8
    TOO_DEEP = 9
    TOO_LARGE = 10
    BAD_BASE64 = 11
    BAD_SYMBOL = 12
    BAD_LENGTH = 13
    BAD_BRANCH = 14
    BAD_TAG = 15
    MISSING_FIELD = 16
    BAD_MAGIC = 17
    UNRESOLVED = 19

cdef enum:
    DEEPEST = 100
    LARGEST = 0x7FFFFFFF

cdef struct Node:
    int kind
    int width
    int precision
    int scale
    int64_t factor
    int number
    int count
    Node **children
    const uint8_t *name
    Py_ssize_t name_length
    int64_t rows
    int64_t nulls
    Bytes valid
    Bytes values
    Bytes offsets
    # The message that was decoded last into the row being built (protobuf, which merges two of them).
    const uint8_t *span
    Py_ssize_t span_length

cdef class Tree:
    cdef Node *root
    cdef Node **nodes
    cdef int node_count
    cdef list names

    cdef Node *build(self, description) except NULL

cdef class Records:
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

    cdef inline bint is_null(self, int64_t row) noexcept:
        return not is_valid(self.validity, self.first + row)

    cdef inline const uint8_t *start(self, int64_t row) noexcept:
        return self.data + self.offsets[self.first + row]

    cdef inline const uint8_t *end(self, int64_t row) noexcept:
        return self.data + self.offsets[self.first + row + 1]


cdef inline int mark(Node *node, uint8_t valid) noexcept nogil:
    """One more row, whose value is there."""
    if reserve(&node.valid, 1):
        return OUT_OF_MEMORY
    node.valid.memory[node.valid.size] = valid
    node.valid.size += 1
    node.rows += 1
    if not valid:
        node.nulls += 1
    return 0


cdef inline int push_fixed(Node *node, const void *value, Py_ssize_t width) noexcept nogil:
    """One more row, whose value has so many bytes."""
    if reserve(&node.values, width):
        return OUT_OF_MEMORY
    memcpy(node.values.memory + node.values.size, value, width)
    node.values.size += width
    return mark(node, 1)


cdef inline int push_int8(Node *node, int8_t value) noexcept nogil:
    return push_fixed(node, &value, 1)


cdef inline int push_int16(Node *node, int16_t value) noexcept nogil:
    return push_fixed(node, &value, 2)


cdef inline int push_int32(Node *node, int32_t value) noexcept nogil:
    return push_fixed(node, &value, 4)


cdef inline int push_int64(Node *node, int64_t value) noexcept nogil:
    return push_fixed(node, &value, 8)


cdef inline int push_float(Node *node, float value) noexcept nogil:
    return push_fixed(node, &value, 4)


cdef inline int push_double(Node *node, double value) noexcept nogil:
    return push_fixed(node, &value, 8)


cdef inline int128 power10(int exponent) noexcept nogil:
    cdef int128 value = 1
    while exponent > 0:
        value *= 10
        exponent -= 1
    return value


cdef inline int push_int128(Node *node, int128 value) noexcept nogil:
    """A decimal, unscaled."""
    cdef int128 limit = power10(node.precision)
    if value >= limit or value <= -limit:
        return OUT_OF_RANGE
    return push_fixed(node, &value, 16)


cdef inline int push_scaled(Node *node, int64_t value, int64_t factor, int64_t divisor) noexcept nogil:
    """A time in another unit: `value` * `factor` / `divisor`, towards the past."""
    cdef int128 scaled = <int128>value * factor
    cdef int128 whole
    if divisor != 1:
        whole = scaled // divisor if scaled >= 0 else -((divisor - 1 - scaled) // divisor)
        scaled = whole
    if scaled != <int64_t>scaled:
        return OUT_OF_RANGE
    return push_int64(node, <int64_t>scaled)


cdef inline int push_integer(Node *node, int64_t value) noexcept nogil:
    """A whole number into a column of any kind of number."""
    cdef int kind = node.kind
    if kind == INT64:
        return push_int64(node, value)
    if kind == INT32 or kind == DATE:
        return push_int32(node, <int32_t>value) if value == <int32_t>value else OUT_OF_RANGE
    if kind == TIMESTAMP or kind == DURATION:
        return push_scaled(node, value, node.factor, 1)
    if kind == DOUBLE:
        return push_double(node, <double>value)
    if kind == FLOAT:
        return push_float(node, <float>value)
    if kind == INT16:
        return push_int16(node, <int16_t>value) if value == <int16_t>value else OUT_OF_RANGE
    if kind == INT8:
        return push_int8(node, <int8_t>value) if value == <int8_t>value else OUT_OF_RANGE
    if kind == DECIMAL:
        return push_decimal(node, value, 0)
    return WRONG_KIND


cdef inline int push_decimal(Node *node, int128 value, int scale) noexcept nogil:
    """`value` * 10**-`scale`, rounded half up to what the column holds."""
    cdef int128 factor
    cdef int128 whole
    cdef int128 rest
    cdef int128 limit
    if scale > node.scale:
        if scale - node.scale > 38:
            return push_int128(node, 0)
        factor = power10(scale - node.scale)
        whole = value // factor
        rest = value - whole * factor
        # Of what is left, not of the value: the least number has no opposite.
        if rest < 0:
            rest = -rest
        if rest >= factor - rest:
            whole += 1 if value > 0 else -1
        return push_int128(node, whole)
    if value == 0:
        return push_int128(node, 0)
    if node.scale - scale > 38:
        return OUT_OF_RANGE
    factor = power10(node.scale - scale)
    limit = power10(38) // factor
    if value > limit or value < -limit:
        return OUT_OF_RANGE
    return push_int128(node, value * factor)


cdef inline int push_end(Node *node, int64_t end, uint8_t valid) noexcept nogil:
    """One more row, which ends there in `values` or in the children."""
    if end > LARGEST:
        return TOO_LARGE
    if reserve(&node.offsets, 4):
        return OUT_OF_MEMORY
    (<int32_t *>(node.offsets.memory + node.offsets.size))[0] = <int32_t>end
    node.offsets.size += 4
    return mark(node, valid)


cdef inline int end_bytes(Node *node) noexcept nogil:
    """One more row, whose bytes are in `values` already."""
    return push_end(node, node.values.size, 1)


cdef inline int push_bytes(Node *node, const uint8_t *data, Py_ssize_t length) noexcept nogil:
    if reserve(&node.values, length):
        return OUT_OF_MEMORY
    if length:
        memcpy(node.values.memory + node.values.size, data, length)
        node.values.size += length
    return end_bytes(node)


cdef inline int push_text(Node *node, const uint8_t *data, Py_ssize_t length) noexcept nogil:
    """Characters, which have to be UTF-8."""
    if not is_utf8(data, length):
        return NOT_UTF8
    return push_bytes(node, data, length)


cdef inline int end_list(Node *node) noexcept nogil:
    """One more row of a list or a map, whose elements are in the children already."""
    return push_end(node, node.children[0].rows, 1)


cdef inline int push_null(Node *node) noexcept nogil:
    cdef int i
    if node.width:
        if reserve(&node.values, node.width):
            return OUT_OF_MEMORY
        memset(node.values.memory + node.values.size, 0, node.width)
        node.values.size += node.width
    elif node.kind == STRUCT:
        for i in range(node.count):
            if push_null(node.children[i]):
                return OUT_OF_MEMORY
    else:
        return push_end(node, (<int32_t *>(node.offsets.memory + node.offsets.size - 4))[0], 0)
    return mark(node, 0)


cdef inline void truncate(Node *node, int64_t rows) noexcept nogil:
    """Take back all rows from `rows` on, those below included that no row has yet."""
    cdef int64_t row
    cdef int64_t end
    cdef int i
    if node.rows > rows:
        if node.nulls:
            for row in range(rows, node.rows):
                if not node.valid.memory[row]:
                    node.nulls -= 1
        node.valid.size = rows
        node.rows = rows
    if node.width:
        node.values.size = rows * node.width
        return
    if node.kind == STRUCT:
        for i in range(node.count):
            truncate(node.children[i], rows)
        return
    node.offsets.size = 4 * (rows + 1)
    end = (<int32_t *>node.offsets.memory)[rows]
    if node.kind == STRING or node.kind == BINARY:
        node.values.size = end
        return
    for i in range(node.count):
        truncate(node.children[i], end)


cdef inline int make_null(Node *root, int64_t rows, int problem) except -1:
    """Take back what a malformed record has pushed, and make its row, the one after `rows`, null."""
    if problem == OUT_OF_MEMORY:
        raise MemoryError
    truncate(root, rows)
    if push_null(root):
        raise MemoryError
    return 0


cdef inline bint is_utf8(const uint8_t *data, Py_ssize_t length) noexcept nogil:
    """Whether the bytes are UTF-8 (RFC 3629: no surrogates, nothing longer than it needs to be)."""
    cdef const uint8_t *end = data + length
    cdef uint64_t word
    cdef uint8_t first
    cdef uint8_t second
    while data < end:
        while end - data >= 8:
            memcpy(&word, data, 8)
            if word & <uint64_t>0x8080808080808080:
                break
            data += 8
        if data == end:
            return True
        first = data[0]
        if first < 0x80:
            data += 1
            continue
        if first < 0xC2 or first > 0xF4 or end - data < 2:
            return False
        second = data[1]
        if second & 0xC0 != 0x80:
            return False
        if first < 0xE0:
            data += 2
            continue
        if end - data < 3 or data[2] & 0xC0 != 0x80:
            return False
        if first < 0xF0:
            if (first == 0xE0 and second < 0xA0) or (first == 0xED and second >= 0xA0):
                return False
            data += 3
            continue
        if end - data < 4 or data[3] & 0xC0 != 0x80:
            return False
        if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second >= 0x90):
            return False
        data += 4
    return True
