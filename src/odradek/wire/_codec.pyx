# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Messages decoded, encoded and constructed, compiled. Twin: the generated functions of `odradek.wire.decoder`,
`encoder` and `constructor`.

A `Program` is a struct's declaration for one version as a table of operations, one per field, each with the
place of the field's slot in the object. What is in order goes through here; whatever is not (a damaged message,
a value that does not fit, tagged fields that are set) gives `None`, and the twin says what is wrong with it, or
does it. So only the twin has errors, and only one place words them.

Input comes from strangers: every read is behind a check against the end of the buffer, and nothing is allocated
by a number that the input merely claims.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from odradek.wire._frames cimport Reader, put32, put64, put_uvarint, read16, read32, read64, read8, read_uvarint

cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX
    object PyUnicode_DecodeUTF8(const char *, Py_ssize_t, const char *)
    const char *PyUnicode_AsUTF8AndSize(object, Py_ssize_t *) except NULL
    int PyUnicode_CheckExact(object)
    int PyLong_Check(object)
    long long PyLong_AsLongLongAndOverflow(object, int *) except? -1
    object PyMemoryView_FromObject(object)
    Py_buffer *PyMemoryView_GET_BUFFER(object)
    Py_ssize_t PyObject_Size(object) except -1
    Py_ssize_t PyVectorcall_NARGS(size_t)
    PyTypeObject *Py_TYPE(PyObject *)

cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member

cdef extern from *:
    """
    #define odradek_alloc(type) ((type)->tp_alloc((type), 0))
    static void odradek_set_construct(PyTypeObject *type, void *function)
    {
        type->tp_vectorcall = (vectorcallfunc)function;
    }
    static PyObject *odradek_borrowed(PyObject *object, Py_ssize_t offset)
    {
        return *(PyObject **)((char *)object + offset);
    }
    /* Steals the value; the slot is empty. */
    static void odradek_put(PyObject *object, Py_ssize_t offset, PyObject *value)
    {
        *(PyObject **)((char *)object + offset) = value;
    }
    """
    PyObject *odradek_alloc(PyTypeObject *)
    void odradek_set_construct(PyTypeObject *, void *)
    PyObject *odradek_borrowed(PyObject *, Py_ssize_t)
    void odradek_put(PyObject *, Py_ssize_t, PyObject *)

cdef enum:
    # The kinds of `odradek.wire.programs`.
    BOOL = 0
    INT8 = 1
    INT16 = 2
    UINT16 = 3
    INT32 = 4
    UINT32 = 5
    INT64 = 6
    FLOAT64 = 7
    UUID = 8
    STRING = 9
    BYTES = 10
    RECORDS = 11
    ARRAY = 12
    STRUCT = 13

    MAX_STRING = 0x7FFF
    MAX_LENGTH = 0x7FFFFFFF  # of anything, and of a whole frame: Kafka's are signed
    INLINE_BYTES = 8192  # records up to here are copied into the message; beyond, they are buffers of their own


cdef struct Op:
    int kind
    bint nullable
    bint compact  # whether a length is a varint
    bint checked  # absent in this version: must have its default, as the version could not carry another value
    int tag
    Py_ssize_t offset
    Py_ssize_t smallest  # of an array: the fewest bytes that an element takes
    int element  # of an array: its elements' kind
    bint element_compact
    PyObject *default  # NULL: an empty list, or a struct of defaults
    PyObject *program  # of the struct, or of the elements


cdef class Program:
    """A struct in one version; see `odradek.wire.programs`, which fills it.

    `inline`, `tagged` and `absent` are tuples of tuples: (slot, kind, nullable, compact, tag, smallest, element
    kind, element compact, default, whether there is one, program, whether it is checked).
    """

    cdef PyTypeObject *type
    cdef Op *ops
    cdef int inline_count
    cdef int tagged_count
    cdef int absent_count
    cdef bint flexible
    cdef Py_ssize_t unknown_offset
    cdef object kept
    # The keywords of the last call that constructed such a struct, and the numbers of their operations: a call
    # in a loop brings the same tuple each time.
    cdef tuple last_names
    cdef int *last_places

    def __cinit__(self):
        self.ops = NULL
        self.last_places = NULL

    def __dealloc__(self):
        PyMem_Free(self.ops)
        PyMem_Free(self.last_places)

    def __init__(self, cls, unknown_slot, bint flexible, tuple inline, tuple tagged, tuple absent):
        cdef int index = 0
        cdef Op *op
        self.kept = (cls, inline, tagged, absent)
        self.type = <PyTypeObject *>cls
        self.flexible = flexible
        self.unknown_offset = (<PyMemberDescrObject *>unknown_slot).d_member.offset
        self.inline_count, self.tagged_count, self.absent_count = len(inline), len(tagged), len(absent)
        self.ops = <Op *>PyMem_Malloc((len(inline) + len(tagged) + len(absent) + 1) * sizeof(Op))
        if self.ops == NULL:
            raise MemoryError
        for slot, kind, nullable, compact, tag, smallest, element, element_compact, default, has, program, checked in (
            inline + tagged + absent
        ):
            op = self.ops + index
            if type(slot) is Lazy:
                slot = (<Lazy>slot).member
            elif not has:
                owner = slot.__objclass__
                setattr(owner, slot.__name__, Lazy(owner, slot, None if kind == ARRAY else program))
            op.offset = (<PyMemberDescrObject *>slot).d_member.offset
            op.kind, op.nullable, op.compact, op.tag = kind, nullable, compact, tag
            op.smallest, op.element, op.element_compact, op.checked = smallest, element, element_compact, checked
            op.default = <PyObject *>default if has else NULL
            op.program = <PyObject *>program
            index += 1


# --- defaults --------------------------------------------------------------------------------------------------

cdef inline void put_default(PyObject *made, Op *op) noexcept:
    """Give a new struct the default of a field. Lists and structs stay away until somebody asks: see `Lazy`."""
    if op.default != NULL:
        Py_INCREF(<object>op.default)
        odradek_put(made, op.offset, op.default)


cdef class Lazy:
    """A field whose default is a list or a struct of its own, made when it is first asked for.

    Most are in messages that are made, encoded and gone before anybody does.

    Args:
        cls: the struct's class.
        member: its slot.
        program: of the struct that is the default; None for an empty list.
    """

    cdef readonly object member
    cdef object cls
    cdef Py_ssize_t offset
    cdef object program

    def __init__(self, cls, member, program):
        self.cls, self.member, self.program = cls, member, program
        self.offset = (<PyMemberDescrObject *>member).d_member.offset

    def __get__(self, instance, owner):
        cdef PyObject *held
        cdef object made
        if instance is None:
            return self
        if not isinstance(instance, self.cls):
            return self.member.__get__(instance, owner)  # says that it is none
        held = odradek_borrowed(<PyObject *>instance, self.offset)
        if held != NULL:
            return <object>held
        made = [] if self.program is None else of_defaults(<Program>self.program)
        Py_INCREF(made)
        odradek_put(<PyObject *>instance, self.offset, <PyObject *>made)
        return made

    def __set__(self, instance, value):
        cdef PyObject *held
        if not isinstance(instance, self.cls):
            self.member.__set__(instance, value)
            return
        held = odradek_borrowed(<PyObject *>instance, self.offset)
        Py_INCREF(value)
        odradek_put(<PyObject *>instance, self.offset, <PyObject *>value)
        Py_XDECREF(held)

    def __delete__(self, instance):
        """Set the field back to its default."""
        self.member.__delete__(instance)


cdef object of_defaults(Program program):
    cdef PyObject *made = odradek_alloc(program.type)
    cdef object held
    cdef int index
    if made == NULL:
        raise MemoryError
    held = <object>made
    Py_XDECREF(made)
    for index in range(program.inline_count + program.tagged_count + program.absent_count):
        put_default(made, program.ops + index)
    Py_INCREF(None)
    odradek_put(made, program.unknown_offset, <PyObject *>None)
    return held


# --- decoding --------------------------------------------------------------------------------------------------

cdef inline double to_double(uint64_t raw) noexcept nogil:
    cdef double value
    memcpy(&value, &raw, 8)
    return value


cdef inline int64_t read_length(Reader *r, bint compact, bint short) noexcept:
    if compact:
        return read_uvarint(r) - 1
    return read16(r) if short else <int32_t>read32(r)


cdef object decode_struct(Program program, Reader *r, object view):
    """The struct; None, and the reader failed, where something is not in order or there are too many."""
    cdef PyObject *made = odradek_alloc(program.type)
    cdef object held, value
    cdef int index
    cdef int64_t count
    if made == NULL:
        raise MemoryError
    held = <object>made
    Py_XDECREF(made)
    cdef Op *op = program.ops
    for index in range(program.inline_count):
        value = decode_value(op, op.kind, op.nullable, op.compact, r, view, False)
        if r.failed:
            return None
        Py_INCREF(value)
        odradek_put(made, op.offset, <PyObject *>value)
        op += 1
    for index in range(program.tagged_count + program.absent_count):
        put_default(made, op)
        op += 1
    Py_INCREF(None)
    odradek_put(made, program.unknown_offset, <PyObject *>None)
    if program.flexible:
        count = read_uvarint(r)
        if count:
            decode_tags(program, made, count, r, view)
        if r.failed:
            return None
    return held


cdef int decode_tags(Program program, PyObject *made, int64_t count, Reader *r, object view) except -1:
    """The tagged fields that the version knows. Any other is passed over and counts as an element, or is left to
    the twin, which keeps it."""
    cdef int64_t tag, size, previous = -1
    cdef Py_ssize_t limit
    cdef Op *op
    cdef int index
    cdef object value
    cdef PyObject *old
    while count > 0:
        count -= 1
        tag = read_uvarint(r)
        size = read_uvarint(r)
        if r.failed or tag <= previous or size > r.end - r.at:
            r.failed = True
            return 0
        previous = tag
        limit = r.at + size
        for index in range(program.inline_count, program.inline_count + program.tagged_count):
            if program.ops[index].tag == tag:
                break
        else:
            if not r.passes_over or tag > 0x7FFFFFFF or is_of_other_versions(program, tag):
                r.failed = True
                return 0
            r.elements -= 1
            if r.elements < 0:
                r.failed = True
                return 0
            r.at = limit
            continue
        op = program.ops + index
        value = decode_value(op, op.kind, op.nullable, op.compact, r, view, True)
        if r.failed or r.at != limit:
            r.failed = True
            return 0
        old = odradek_borrowed(made, op.offset)
        Py_INCREF(value)
        odradek_put(made, op.offset, <PyObject *>value)
        Py_XDECREF(old)
    return 0


cdef bint is_of_other_versions(Program program, int64_t tag) noexcept:
    """Return whether a tag that this version does not have is declared for others: then it is an error here."""
    cdef int index
    for index in range(program.inline_count + program.tagged_count + program.absent_count):
        if program.ops[index].tag == tag:
            return True
    return False


cdef object decode_value(Op *op, int kind, bint nullable, bint compact, Reader *r, object view, bint in_tag):
    cdef int64_t length
    cdef Py_ssize_t start
    cdef PyObject *made
    cdef object items, item
    cdef Py_ssize_t index
    if kind == INT32:
        return <int32_t>read32(r)
    if kind == INT64:
        return read64(r)
    if kind == INT16:
        return read16(r)
    if kind == INT8:
        return read8(r)
    if kind == BOOL:
        return read8(r) != 0
    if kind == UINT16:
        return <uint16_t>read16(r)
    if kind == UINT32:
        return read32(r)
    if kind == FLOAT64:
        return to_double(<uint64_t>read64(r))
    if kind == UUID:
        if r.end - r.at < 16:
            r.failed = True
            return None
        r.at += 16
        return PyBytes_FromStringAndSize(<const char *>r.data + r.at - 16, 16)
    if kind == STRUCT:
        if nullable:
            length = read_uvarint(r) - 1 if in_tag else read8(r)
            if length > 0x7FFFFFFF:
                r.failed = True
            if r.failed or length < 0:
                return None
        return decode_struct(<Program>op.program, r, view)
    length = read_length(r, compact, kind == STRING)
    if r.failed:
        return None
    if length < 0:
        if not nullable:
            r.failed = True
        return None
    if kind == ARRAY:
        r.elements -= length
        if length * op.smallest > r.end - r.at or r.elements < 0:
            r.failed = True
            return None
        items = PyList_New(length)
        for index in range(length):
            if op.element == STRUCT:
                item = decode_struct(<Program>op.program, r, view)
            else:
                item = decode_value(op, op.element, False, op.element_compact, r, view, False)
            if r.failed:
                return None
            Py_INCREF(item)
            PyList_SET_ITEM(items, index, item)
        return items
    if length > r.end - r.at or (kind == STRING and length > MAX_STRING):
        r.failed = True
        return None
    start = r.at
    r.at += length
    if kind == STRING:
        try:
            return PyUnicode_DecodeUTF8(<const char *>r.data + start, length, NULL)
        except UnicodeDecodeError:
            r.failed = True
            return None
    if kind == BYTES:
        return PyBytes_FromStringAndSize(<const char *>r.data + start, length)
    return part_of(view, start, length)


cdef object part_of(object view, Py_ssize_t start, Py_ssize_t length):
    """Return `view[start : start + length]` of a view of bytes, without making the slice and its numbers."""
    cdef object made = PyMemoryView_FromObject(view)
    cdef Py_buffer *part = PyMemoryView_GET_BUFFER(made)
    part.buf = <char *>part.buf + start
    part.len = length
    part.shape[0] = length
    return made


# --- encoding --------------------------------------------------------------------------------------------------

cdef enum:
    FIRST_ROOM = 1024

# Not `records._growing.Bytes`: most messages fit into the stack, and nothing is allocated for those.
cdef struct Writer:
    uint8_t *data  # `first`, or memory that has been allocated
    Py_ssize_t room
    Py_ssize_t size
    Py_ssize_t cut  # how much of it is in parts already
    bint failed
    uint8_t first[FIRST_ROOM]


cdef inline void begin(Writer *w) noexcept:
    w.data, w.room, w.size, w.cut, w.failed = w.first, FIRST_ROOM, 0, 0, False


cdef inline void end(Writer *w) noexcept:
    if w.data != w.first:
        PyMem_Free(w.data)


cdef uint8_t *grow(Writer *w, Py_ssize_t more) except NULL:
    cdef Py_ssize_t wanted = 2 * (w.size + more)
    cdef uint8_t *grown
    if w.data == w.first:
        grown = <uint8_t *>PyMem_Malloc(wanted)
        if grown != NULL:
            memcpy(grown, w.first, w.size)
    else:
        grown = <uint8_t *>PyMem_Realloc(w.data, wanted)
    if grown == NULL:
        raise MemoryError
    w.data, w.room = grown, wanted
    return grown + w.size


cdef inline uint8_t *room(Writer *w, Py_ssize_t more) except NULL:
    """Return where the next bytes go, with room for them."""
    return w.data + w.size if w.room - w.size >= more else grow(w, more)


cdef inline int put_length(Writer *w, int64_t length, bint compact, bint short) except -1:
    """Write a length or count; -1 for null."""
    cdef uint8_t *out = room(w, 5)
    if length > MAX_LENGTH:
        w.failed = True
        return 0
    if compact:
        w.size += put_uvarint(out, <uint32_t>(length + 1)) - out
    elif short:
        out[0] = <uint8_t>(length >> 8)
        out[1] = <uint8_t>length
        w.size += 2
    else:
        put32(out, <uint32_t>length)
        w.size += 4
    return 0


cdef bint is_default(Op *op, PyObject *value) except -1:
    """Return whether a field has its default; False also where that is not quickly seen."""
    cdef Program program
    cdef int index
    cdef PyObject *inner
    if value == NULL:
        return op.default == NULL
    if value == op.default:
        return True
    if op.default != NULL:
        if op.default == <PyObject *>None or type(<object>value) is not type(<object>op.default):
            return False
        return type(<object>value) in (int, str, bytes) and <object>value == <object>op.default
    if op.kind == ARRAY:
        return type(<object>value) is list and PyList_GET_SIZE(<object>value) == 0
    program = <Program>op.program
    if Py_TYPE(value) != program.type:
        return False
    if odradek_borrowed(value, program.unknown_offset) != <PyObject *>None:
        return False
    for index in range(program.inline_count + program.tagged_count + program.absent_count):
        inner = odradek_borrowed(value, program.ops[index].offset)
        if not is_default(program.ops + index, inner):
            return False
    return True


cdef int encode_struct(Program program, PyObject *value, Writer *w, list parts) except -1:
    cdef Op *op = program.ops
    cdef int index
    cdef uint8_t *out
    if value == NULL or Py_TYPE(value) != program.type:
        w.failed = True
        return 0
    if odradek_borrowed(value, program.unknown_offset) != <PyObject *>None:
        w.failed = True
        return 0
    for index in range(program.inline_count):
        encode_value(op, op.kind, op.nullable, op.compact, odradek_borrowed(value, op.offset), w, parts)
        if w.failed:
            return 0
        op += 1
    for index in range(program.tagged_count + program.absent_count):
        if op.checked and not is_default(op, odradek_borrowed(value, op.offset)):
            w.failed = True
            return 0
        op += 1
    if program.flexible:
        out = room(w, 1)
        out[0] = 0
        w.size += 1
    return 0


cdef int put_records(PyObject *content, Writer *w, list parts) except -1:
    """Write records: few bytes are copied, more become a part of their own."""
    cdef Py_buffer taken
    cdef uint8_t *out
    cdef Py_ssize_t length
    if type(<object>content) is bytes:
        length = PyBytes_GET_SIZE(<object>content)
        if length <= INLINE_BYTES or parts is None:
            out = room(w, length)
            memcpy(out, PyBytes_AS_STRING(<object>content), length)
            w.size += length
            return 0
    elif type(<object>content) is memoryview or type(<object>content) is bytearray:
        PyObject_GetBuffer(<object>content, &taken, PyBUF_SIMPLE)
        try:
            if taken.len <= INLINE_BYTES or parts is None:
                out = room(w, taken.len)
                memcpy(out, taken.buf, taken.len)
                w.size += taken.len
                return 0
        finally:
            PyBuffer_Release(&taken)
    elif parts is None:
        w.failed = True
        return 0
    if w.size > w.cut:
        parts.append(PyBytes_FromStringAndSize(<const char *>w.data + w.cut, w.size - w.cut))
        w.cut = w.size
    parts.append(<object>content)
    return 0


cdef int encode_value(
    Op *op, int kind, bint nullable, bint compact, PyObject *value, Writer *w, list parts
) except -1:
    cdef int64_t number
    cdef int overflow = 0
    cdef uint8_t *out
    cdef const char *text
    cdef Py_ssize_t length, index
    cdef Py_buffer taken
    cdef PyObject *item
    cdef double real
    cdef uint64_t raw
    cdef object made
    if value == NULL:
        if op.default == NULL and kind == ARRAY:
            return put_length(w, 0, compact, False)
        if op.default == NULL and kind == STRUCT:
            made = of_defaults(<Program>op.program)
            return encode_value(op, kind, nullable, compact, <PyObject *>made, w, parts)
        w.failed = True
        return 0
    if kind <= INT64:
        if kind == BOOL:
            if type(<object>value) is not bool:
                w.failed = True
                return 0
            out = room(w, 1)
            out[0] = <object>value is True
            w.size += 1
            return 0
        if not PyLong_Check(<object>value):
            w.failed = True
            return 0
        number = PyLong_AsLongLongAndOverflow(<object>value, &overflow)
        out = room(w, 8)
        if overflow:
            w.failed = True
        elif kind == INT32:
            if number != <int32_t>number:
                w.failed = True
            put32(out, <uint32_t>number)
            w.size += 4
        elif kind == INT64:
            put64(out, number)
            w.size += 8
        elif kind == INT16 or kind == UINT16:
            if number < (-0x8000 if kind == INT16 else 0) or number > (0x7FFF if kind == INT16 else 0xFFFF):
                w.failed = True
            out[0] = <uint8_t>(number >> 8)
            out[1] = <uint8_t>number
            w.size += 2
        elif kind == INT8:
            if number != <int8_t>number:
                w.failed = True
            out[0] = <uint8_t>number
            w.size += 1
        else:
            if number != <uint32_t>number:
                w.failed = True
            put32(out, <uint32_t>number)
            w.size += 4
        return 0
    if kind == FLOAT64:
        if type(<object>value) is not float:
            w.failed = True
            return 0
        real = <object>value
        memcpy(&raw, &real, 8)
        put64(room(w, 8), <int64_t>raw)
        w.size += 8
        return 0
    if kind == UUID:
        if type(<object>value) is not bytes or PyBytes_GET_SIZE(<object>value) != 16:
            w.failed = True
            return 0
        memcpy(room(w, 16), PyBytes_AS_STRING(<object>value), 16)
        w.size += 16
        return 0
    if kind == STRUCT:
        if nullable:
            out = room(w, 1)
            out[0] = 0xFF if value == <PyObject *>None else 1
            w.size += 1
            if value == <PyObject *>None:
                return 0
        return encode_struct(<Program>op.program, value, w, parts)
    if value == <PyObject *>None:
        if not nullable:
            w.failed = True
            return 0
        return put_length(w, -1, compact, kind == STRING)
    if kind == STRING:
        if not PyUnicode_CheckExact(<object>value):
            w.failed = True
            return 0
        try:
            text = PyUnicode_AsUTF8AndSize(<object>value, &length)
        except UnicodeEncodeError:
            w.failed = True
            return 0
        if length > MAX_STRING:
            w.failed = True
            return 0
        put_length(w, length, compact, True)
        memcpy(room(w, length), text, length)
        w.size += length
        return 0
    if kind == ARRAY:
        if type(<object>value) is list:
            length = PyList_GET_SIZE(<object>value)
        elif type(<object>value) is tuple:
            length = PyTuple_GET_SIZE(<object>value)
        else:
            w.failed = True
            return 0
        put_length(w, length, compact, False)
        for index in range(length):
            if type(<object>value) is list:
                item = PyList_GET_ITEM(<object>value, index)
            else:
                item = PyTuple_GET_ITEM(<object>value, index)
            if op.element == STRUCT:
                encode_struct(<Program>op.program, item, w, parts)
            else:
                encode_value(op, op.element, False, op.element_compact, item, w, parts)
            if w.failed:
                return 0
        return 0
    if kind == RECORDS:
        if type(<object>value) is list:
            number = 0
            for buffer in <list>value:
                number += PyObject_Size(buffer)
            put_length(w, number, compact, False)
            if w.failed:
                return 0
            for buffer in <list>value:
                put_records(<PyObject *>buffer, w, parts)
            return 0
        length = PyObject_Size(<object>value)
        put_length(w, length, compact, False)
        return put_records(value, w, parts) if length and not w.failed else 0
    if type(<object>value) is bytes:
        length = PyBytes_GET_SIZE(<object>value)
        put_length(w, length, compact, False)
        if w.failed:
            return 0
        memcpy(room(w, length), PyBytes_AS_STRING(<object>value), length)
        w.size += length
        return 0
    if type(<object>value) is not memoryview and type(<object>value) is not bytearray:
        w.failed = True
        return 0
    PyObject_GetBuffer(<object>value, &taken, PyBUF_SIMPLE)
    try:
        put_length(w, taken.len, compact, False)
        if w.failed:
            return 0
        memcpy(room(w, taken.len), taken.buf, taken.len)
        w.size += taken.len
    finally:
        PyBuffer_Release(&taken)
    return 0


cdef class Codec:
    """Decodes and encodes one version of a message.

    Args:
        program: of the message.
        twin: an `odradek.wire.codec.GeneratedCodec`, for all that is out of the ordinary.
    """

    cdef Program program
    cdef object twin
    cdef bint has_records

    def __init__(self, Program program, twin, bint has_records):
        self.program = program
        self.twin = twin
        self.has_records = has_records

    def decode(self, buffer, Py_ssize_t position):
        cdef Py_ssize_t elements = PY_SSIZE_T_MAX
        decoded = self.read(buffer, position, &elements, False)
        return self.twin.decode(buffer, position) if decoded is None else decoded

    def decode_within(self, buffer, Py_ssize_t position, Py_ssize_t elements):
        cdef Py_ssize_t left = elements
        decoded = self.read(buffer, position, &left, True)
        if decoded is not None or left < 0:
            return decoded
        return self.twin.decode_within(buffer, position, elements)

    cdef object read(self, buffer, Py_ssize_t position, Py_ssize_t *elements, bint passes_over):
        """Return the message and the position behind it; None where something is not in order, or where there are
        too many elements: `elements` is negative then."""
        cdef Py_buffer taken
        cdef Reader r
        cdef object message
        cdef object view = None
        if self.has_records:
            view = buffer if type(buffer) is memoryview else PyMemoryView_FromObject(buffer)
            # `part_of` counts in bytes.
            if PyMemoryView_GET_BUFFER(view).ndim != 1 or PyMemoryView_GET_BUFFER(view).itemsize != 1:
                return None
        PyObject_GetBuffer(buffer, &taken, PyBUF_SIMPLE)
        r.data, r.at, r.end = <const uint8_t *>taken.buf, position, taken.len
        r.elements = elements[0]
        r.passes_over = passes_over
        r.failed = position < 0 or position > taken.len
        try:
            if not r.failed:
                message = decode_struct(self.program, &r, view)
        finally:
            PyBuffer_Release(&taken)
        elements[0] = r.elements
        return None if r.failed else (message, r.at)

    def encode(self, message):
        cdef Writer w
        begin(&w)
        try:
            encode_struct(self.program, <PyObject *>message, &w, None)
            if not w.failed:
                return PyBytes_FromStringAndSize(<const char *>w.data, w.size)
        except (BufferError, TypeError):
            pass  # a value of which the twin knows more
        finally:
            end(&w)
        return self.twin.encode(message)

    def encode_parts(self, message, bytes head, Py_ssize_t size_at):
        cdef Writer w
        cdef list parts = []
        cdef Py_ssize_t length = PyBytes_GET_SIZE(head), whole = 0
        begin(&w)
        try:
            memcpy(room(&w, length), PyBytes_AS_STRING(head), length)
            w.size = length
            encode_struct(self.program, <PyObject *>message, &w, parts)
            if not w.failed:
                if w.size > w.cut:
                    parts.append(PyBytes_FromStringAndSize(<const char *>w.data + w.cut, w.size - w.cut))
                if size_at >= 0:
                    for part in parts:
                        whole += PyObject_Size(part)
                    whole -= size_at + 4
                    if whole <= MAX_LENGTH:
                        # Made a moment ago, and nobody has seen it yet.
                        put32(<uint8_t *>PyBytes_AS_STRING(parts[0]) + size_at, <uint32_t>whole)
                if whole <= MAX_LENGTH:
                    return parts
        except (BufferError, TypeError):
            pass
        finally:
            end(&w)
        return self.twin.encode_parts(message, head, size_at)


# --- constructing ----------------------------------------------------------------------------------------------

cdef dict constructors = {}  # class → (Program, name → number of its operation)


cdef int find_places(Program program, cls, places, tuple names) except -1:
    """Find the operations of the keywords of a call."""
    cdef Py_ssize_t index
    cdef PyObject *place
    cdef int *grown = <int *>PyMem_Realloc(program.last_places, (len(names) + 1) * sizeof(int))
    if grown == NULL:
        raise MemoryError
    program.last_places = grown
    program.last_names = None
    for index in range(len(names)):
        place = PyDict_GetItem(places, names[index])
        if place == NULL:
            raise TypeError(f"{cls.__name__}() got an unexpected keyword argument {names[index]!r}")
        grown[index] = <object>place
    program.last_names = names
    return 0


cdef PyObject *construct(
    PyObject *cls, const PyObject **arguments, size_t flags, PyObject *names
) except NULL:
    """Construct an object: the call of a class, with PEP 590's arguments."""
    cdef PyObject *known = PyDict_GetItem(constructors, <object>cls)
    cdef Program program = <Program>PyTuple_GET_ITEM(<object>known, 0)
    cdef PyObject *made
    cdef object held, value
    cdef Py_ssize_t index
    cdef Op *op
    if PyVectorcall_NARGS(flags):
        raise TypeError(f"{(<object>cls).__name__}() takes keyword arguments only")
    made = odradek_alloc(program.type)
    if made == NULL:
        raise MemoryError
    held = <object>made
    Py_XDECREF(made)
    if names != NULL:
        if names != <PyObject *>program.last_names:
            find_places(program, <object>cls, <object>PyTuple_GET_ITEM(<object>known, 1), <object>names)
        for index in range(PyTuple_GET_SIZE(<object>names)):
            value = <object>arguments[index]
            Py_INCREF(value)
            odradek_put(made, program.ops[program.last_places[index]].offset, <PyObject *>value)
    for index in range(program.inline_count):
        op = program.ops + index
        if op.default != NULL and odradek_borrowed(made, op.offset) == NULL:
            Py_INCREF(<object>op.default)
            odradek_put(made, op.offset, op.default)
    Py_INCREF(None)
    odradek_put(made, program.unknown_offset, <PyObject *>None)
    Py_INCREF(held)
    return made


def set_constructor(cls, Program program, tuple names):
    """Let calls of a class construct its objects here; `names` are those of the program's fields, in order."""
    constructors[cls] = (program, {name: number for number, name in enumerate(names)})
    odradek_set_construct(<PyTypeObject *>cls, <void *>construct)
