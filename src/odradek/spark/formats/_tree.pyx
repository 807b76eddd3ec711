# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The tree of Arrow columns of `_tree.pxd` as Python sees it. Twin: `odradek.spark.formats._pytree`, whose docstrings
are the contract; tests hold the two equal.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, realloc

from odradek.records._arrow cimport check_offsets, check_validity
from odradek.records._growing cimport Bytes, clear, leave, reserve, shrink

cdef dict WIDTHS = {
    BOOL: 1, INT8: 1, INT16: 2, INT32: 4, INT64: 8, FLOAT: 4, DOUBLE: 8, DECIMAL: 16, DATE: 4, TIMESTAMP: 8,
    DURATION: 8,
}


cdef class Owned:
    """Memory that was filled here and is read elsewhere, through the buffer protocol."""

    cdef void *memory
    cdef Py_ssize_t size

    def __dealloc__(self):
        free(self.memory)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.memory if self.memory != NULL else <void *>"", self.size, 1, flags)

    def __len__(self):
        return self.size


cdef Owned take(Bytes *buffer):
    """The bytes as an object; the buffer is empty afterwards."""
    cdef Owned owned = Owned()
    shrink(buffer)
    owned.memory = buffer.memory
    owned.size = buffer.size
    leave(buffer)
    return owned


cdef Owned take_bits(Bytes *buffer):
    """One bit for each byte, as Arrow has booleans; the buffer is empty, and keeps its memory."""
    cdef Owned owned = Owned()
    cdef Py_ssize_t rows = buffer.size
    cdef Py_ssize_t i
    cdef uint8_t *bits
    owned.size = (rows + 7) >> 3
    owned.memory = calloc(owned.size + 1, 1)
    if owned.memory == NULL:
        raise MemoryError
    bits = <uint8_t *>owned.memory
    for i in range(rows):
        bits[i >> 3] |= <uint8_t>((buffer.memory[i] != 0) << (i & 7))
    buffer.size = 0
    return owned


cdef int begin(Node *node) except -1:
    """An empty column."""
    node.rows = 0
    node.nulls = 0
    node.valid.size = 0
    node.values.size = 0
    node.offsets.size = 0
    if not node.width and node.kind != STRUCT:
        if reserve(&node.offsets, 4):
            raise MemoryError
        (<int32_t *>node.offsets.memory)[0] = 0
        node.offsets.size = 4
    return 0


cdef object finish_node(Node *node):
    cdef int i
    cdef Py_ssize_t values_before = node.values.size
    cdef Py_ssize_t offsets_before = node.offsets.size
    rows, nulls = node.rows, node.nulls
    validity = take_bits(&node.valid) if nulls else None
    offsets = values = None
    if node.kind == BOOL:
        values = take_bits(&node.values)
    elif node.width or node.kind == STRING or node.kind == BINARY:
        values = take(&node.values)
    if not node.width and node.kind != STRUCT:
        offsets = take(&node.offsets)
    children = [finish_node(node.children[i]) for i in range(node.count)]
    begin(node)
    # Room for as much again: growing costs more than filling.
    if values_before < (64 << 20) and (reserve(&node.values, values_before + (values_before >> 3))
                                       or reserve(&node.offsets, offsets_before)):
        raise MemoryError
    return rows, nulls, validity, offsets, values, children


cdef class Tree:
    """See the twin."""

    def __cinit__(self, description):
        self.root = NULL
        self.nodes = NULL
        self.node_count = 0
        self.names = []

    def __init__(self, description):
        if self.root != NULL:
            raise RuntimeError("a tree is described once")
        self.root = self.build(description)

    cdef Node *build(self, description) except NULL:
        cdef Node *node
        cdef void *grown
        cdef int i
        kind, name, precision, scale, factor, children = description
        if kind not in WIDTHS and kind not in (STRING, BINARY, STRUCT, LIST, MAP):
            raise ValueError(f"no kind {kind}")
        if (kind in (LIST, MAP)) != (len(children) > 0 and kind != STRUCT) or (
                kind == LIST and len(children) != 1) or (kind == MAP and len(children) != 2):
            raise ValueError(f"{len(children)} children of a column of kind {kind}")
        if not 0 <= precision <= 38 or not 0 <= scale <= 38:
            raise ValueError("a decimal has up to 38 digits")
        grown = realloc(self.nodes, (self.node_count + 1) * sizeof(Node *))
        if grown == NULL:
            raise MemoryError
        self.nodes = <Node **>grown
        node = <Node *>calloc(1, sizeof(Node))
        if node == NULL:
            raise MemoryError
        self.nodes[self.node_count] = node
        node.number = self.node_count
        self.node_count += 1
        node.kind = kind
        node.width = WIDTHS.get(kind, 0)
        node.precision = precision
        node.scale = scale
        node.factor = factor
        kept = bytes(name)
        self.names.append(kept)
        node.name = <const uint8_t *>PyBytes_AS_STRING(kept)
        node.name_length = PyBytes_GET_SIZE(kept)
        begin(node)
        if children:
            node.children = <Node **>calloc(len(children), sizeof(Node *))
            if node.children == NULL:
                raise MemoryError
            for i in range(len(children)):
                node.children[i] = self.build(children[i])
                node.count = i + 1
        return node

    def __dealloc__(self):
        cdef int i
        for i in range(self.node_count):
            clear(&self.nodes[i].valid)
            clear(&self.nodes[i].values)
            clear(&self.nodes[i].offsets)
            free(self.nodes[i].children)
            free(self.nodes[i])
        free(self.nodes)

    @property
    def rows(self):
        """See the twin."""
        return self.root.rows

    def finish(self):
        """See the twin."""
        return finish_node(self.root)


cdef class Records:
    """See the twin."""

    def __cinit__(self, validity, offsets, data, int64_t first, int64_t length):
        self.has_validity = self.has_offsets = self.has_data = False
        self.validity = NULL
        self.data = NULL
        self.first = first
        self.length = length
        if first < 0 or length < 0:
            raise ValueError("negative offset or length")
        PyObject_GetBuffer(offsets, &self.offsets_view, PyBUF_SIMPLE)
        self.has_offsets = True
        self.offsets = <const int32_t *>self.offsets_view.buf
        if validity is not None:
            PyObject_GetBuffer(validity, &self.validity_view, PyBUF_SIMPLE)
            self.has_validity = True
            self.validity = <const uint8_t *>self.validity_view.buf
            check_validity(&self.validity_view, first, length)
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

    def __len__(self):
        return self.length


def decode_fixed(Tree tree not None, Records records not None, int width):
    """See the twin."""
    cdef Node *node = tree.root
    cdef int64_t row
    cdef int i
    cdef int problem
    cdef uint64_t value
    cdef const uint8_t *data
    problems = []
    if width not in (1, 2, 4, 8) or node.width != width:
        raise ValueError(f"no number of {width} bytes for this column")
    for row in range(records.length):
        if records.is_null(row):
            problem = push_null(node)
        elif records.end(row) - records.start(row) != width:
            problems.append((row, BAD_LENGTH, 0, 0))
            problem = push_null(node)
        else:
            data = records.start(row)
            value = 0
            for i in range(width):
                value = value << 8 | data[i]
            if node.kind == DOUBLE:
                problem = push_int64(node, <int64_t>value)
            elif node.kind == FLOAT:
                problem = push_int32(node, <int32_t>value)
            elif node.kind == BOOL:
                if value > 1:
                    problems.append((row, WRONG_KIND, 0, 0))
                    problem = push_null(node)
                else:
                    problem = push_int8(node, <int8_t>value)
            elif width == 8:
                problem = push_int64(node, <int64_t>value)
            elif width == 4:
                problem = push_int32(node, <int32_t>value)
            elif width == 2:
                problem = push_int16(node, <int16_t>value)
            else:
                problem = push_int8(node, <int8_t>value)
        if problem:
            raise MemoryError
    return problems


def decode_text(Tree tree not None, Records records not None):
    """See the twin."""
    cdef Node *node = tree.root
    cdef int64_t row
    cdef int problem
    cdef const uint8_t *data
    problems = []
    if node.kind != STRING:
        raise ValueError("characters need a column of strings")
    for row in range(records.length):
        if records.is_null(row):
            problem = push_null(node)
        else:
            data = records.start(row)
            problem = push_text(node, data, records.end(row) - data)
            if problem > 0:
                problems.append((row, problem, 0, 0))
                problem = push_null(node)
        if problem:
            raise MemoryError
    return problems
